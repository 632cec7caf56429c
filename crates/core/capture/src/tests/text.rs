use std::format;
use std::string::{String, ToString};
use std::time::Duration;
use std::vec::Vec;

use units::Time;
use wire::{Observation, Resolution, Segment, TcpFlags};

use crate::{Observations, Summary};

fn observe(text: &str) -> (Vec<Observation<'_>>, Summary) {
    let mut capture = Observations::new(text.as_bytes());
    let mut seen = Vec::new();
    while let Some(observation) = capture.next_observation().unwrap() {
        seen.push(observation);
    }
    (seen, capture.summary())
}

fn segments(text: &str) -> Vec<Segment<'_>> {
    let segment = |observation| {
        let Observation::Tcp(segment) = observation else {
            panic!("{observation:?} is no segment");
        };
        segment
    };
    observe(text).0.into_iter().map(segment).collect()
}

/// `seq/ack` of each segment.
fn numbers(text: &str) -> Vec<String> {
    let ack = |segment: &Segment<'_>| segment.ack.map_or(String::new(), |ack| ack.to_string());
    segments(text)
        .iter()
        .map(|segment| format!("{}/{}", segment.seq, ack(segment)))
        .collect()
}

const DATA: &str = "Flags [P.], seq 1:293, ack 1, win 502, length 292";

fn nanos(text: &str) -> Vec<u64> {
    segments(text).iter().map(|s| s.at.as_nanos()).collect()
}

#[test]
fn all_forms_of_time_stamps_are_read() {
    let line = |stamp: &str| format!("{stamp} IP a.5 > b.80: {DATA}\n");
    let lines = |stamps: &[&str]| stamps.iter().map(|s| line(s)).collect::<String>();
    assert_eq!(nanos(&line("00:00:07.5")), [7_500_000_000]);
    assert_eq!(
        nanos(&line("1678886400.123456")),
        [1_678_886_400_123_456_000]
    );
    assert_eq!(
        nanos(&line("2023-03-15 13:20:00.123456789")),
        [1_678_886_400_123_456_789]
    );
    assert_eq!(
        nanos(&line("2024-02-29 00:00:00.0")),
        [1_709_164_800_000_000_000]
    );
    // Midnight passes; a packet slightly out of order does not make a day of it.
    assert_eq!(
        nanos(&lines(&["23:59:59.9", "00:00:00.1", "00:00:00.0"])),
        [86_399_900_000_000, 86_400_100_000_000, 86_400_000_000_000]
    );
    // Differences to the line before, told by their column for the sign.
    assert_eq!(
        nanos(&lines(&[
            " 00:00:00.000000",
            " 00:00:01.000000",
            "-00:00:00.250000"
        ])),
        [0, 1_000_000_000, 750_000_000]
    );
    // Differences to the first line: the column rises all the way.
    assert_eq!(
        nanos(&lines(&[
            " 00:00:00.000000",
            " 00:00:01.000000",
            " 00:00:01.250000",
            " 00:00:01.250000",
            " 25:00:00.000000"
        ])),
        [
            0,
            1_000_000_000,
            1_250_000_000,
            1_250_000_000,
            90_000_000_000_000
        ]
    );
    // The same column in front of a time of day is an indentation.
    assert_eq!(
        nanos(&lines(&[" 16:00:00.000000", " 16:00:01.000000"])),
        [57_600_000_000_000, 57_601_000_000_000]
    );
}

/// `-ttttt` was read as `-ttt`: a transfer of seconds became one of hours.
/// `-#` numbers the packets ahead of their times.
#[test]
fn numbers_ahead_of_the_times_are_stepped_over() {
    let line = |start: &str| format!("{start} IP a.5 > b.80: {DATA}\n");
    assert_eq!(nanos(&line("    1  00:00:07.5")), [7_500_000_000]);
    assert_eq!(
        nanos(&line("123456  1678886400.123456")),
        [1_678_886_400_123_456_000]
    );
    let spans = line("    1   00:00:00.000000") + &line("    2   00:00:01.000000");
    assert_eq!(
        nanos(&(spans + &line("    3  -00:00:00.250000"))),
        [0, 1_000_000_000, 750_000_000]
    );
}

#[test]
fn what_spans_count_from_is_told_by_whether_they_rise_however_the_text_is_cut() {
    // Twelve segments, 1 ms to 23 ms apart; one pair was written in the wrong order.
    let at = [0, 23, 24, 30, 48, 49, 50, 73, 72, 80, 100, 101];
    let line = |micros: i64| {
        let sign = if micros < 0 { '-' } else { ' ' };
        format!("{sign}00:00:00.{:06} IP a.5 > b.80: {DATA}\n", micros.abs())
    };
    let since_first: String = at.iter().map(|ms| line(ms * 1_000)).collect();
    let before = std::iter::once(0).chain(at);
    let since_previous: String = before
        .zip(at)
        .map(|(before, ms)| line((ms - before) * 1_000))
        .collect();
    let expected = at.map(|ms| ms.unsigned_abs() * 1_000_000);
    for text in [&since_first, &since_previous] {
        assert_eq!(nanos(text), expected, "{text}");
        for size in [1, 7, 4_096] {
            let mut capture = crate::Capture::new();
            let mut told = Vec::new();
            let mut take = |capture: &mut crate::Capture| {
                while let Some(Observation::Tcp(segment)) = capture.next_observation().unwrap() {
                    told.push(segment.at.as_nanos());
                }
            };
            for piece in text.as_bytes().chunks(size) {
                capture.feed(piece);
                take(&mut capture);
            }
            capture.finish();
            take(&mut capture);
            assert_eq!(told, expected, "{size} bytes at a time");
        }
    }
}

#[test]
fn spans_that_may_count_from_either_packet_are_called_a_guess() {
    let guessed = |micros: &[u32]| {
        let line = |micros: &u32| format!(" 00:00:00.{micros:06} IP a.5 > b.80: {DATA}\n");
        let text: String = micros.iter().map(line).collect();
        observe(&text).1.text.spans_guessed
    };
    assert!(guessed(&[0, 10, 30]));
    assert!(guessed(&[0, 10, 30, 40]));
    // The same span from either, one that falls, enough that rise.
    for clear in [&[0, 10][..], &[0, 30, 10], &[0, 10, 30, 40, 50]] {
        assert!(!guessed(clear), "{clear:?}");
    }
    let of_day = format!("16:00:00.1 IP a.5 > b.80: {DATA}\n").repeat(3);
    assert!(!observe(&of_day).1.text.spans_guessed);
}

#[test]
fn hosts_and_ports_are_addresses_where_they_can_be() {
    for (printed, expected) in [
        ("10.0.0.1.443", "10.0.0.1:443"),
        ("2001:db8::1.33666", "[2001:db8::1]:33666"),
        ("x.x.x.x1.http", "x.x.x.x1:80"),
        ("public2.alidns.com.domain", "public2.alidns.com:53"),
        ("beef.https", "beef:443"),
    ] {
        let line = format!("16:00:00.0 IP6 {printed} > b.ssh: {DATA}");
        let read = segments(&line);
        assert_eq!(read[0].source.to_string(), expected);
        assert_eq!(read[0].destination.to_string(), "b:22");
    }
}

#[test]
fn relative_numbers_become_absolute_with_the_initial_numbers_of_the_syns() {
    let text = "\
        16:00:00.0 IP a.5 > b.80: Flags [S], seq 4294967290, win 1, length 0\n\
        16:00:00.1 IP b.80 > a.5: Flags [S.], seq 3000000000, ack 4294967291, win 1, length 0\n\
        16:00:00.2 IP a.5 > b.80: Flags [.], ack 1, win 1, length 0\n\
        16:00:00.3 IP a.5 > b.80: Flags [P.], seq 1:101, ack 1, win 1, length 100\n\
        16:00:00.4 IP b.80 > a.5: Flags [.], ack 101, win 1, options [nop,nop,sack 1 {201:301}], length 0\n\
        16:00:00.5 IP a.5 > b.80: Flags [R], seq 4294967291, win 0, length 0\n";
    // The client's numbers pass 2^32.
    assert_eq!(
        numbers(text),
        [
            "4294967290/",
            "3000000000/4294967291",
            "4294967291/3000000001",
            "4294967291/3000000001",
            "3000000001/95",
            "4294967291/"
        ]
    );
    let sack: Vec<_> = segments(text)[4].options.sack.iter().collect();
    assert_eq!((sack[0].0.get(), sack[0].1.get()), (195, 295));
}

#[test]
fn absolute_numbers_throughout_are_recognised() {
    let text = "\
        16:00:00.0 IP a.5 > b.80: Flags [S], seq 2682796272, win 1, length 0\n\
        16:00:00.1 IP b.80 > a.5: Flags [S.], seq 2198055866, ack 2682796273, win 1, length 0\n\
        16:00:00.2 IP a.5 > b.80: Flags [.], ack 2198055867, win 1, length 0\n\
        16:00:00.3 IP a.5 > b.80: Flags [P.], seq 2682796273:2682796373, ack 2198055867, win 1, length 100\n\
        16:00:00.4 IP b.80 > a.5: Flags [.], ack 2682796373, win 1, length 0\n";
    assert_eq!(
        numbers(text)[2..],
        [
            "2682796273/2198055867",
            "2682796273/2198055867",
            "2198055867/2682796373"
        ]
    );
}

#[test]
fn a_connection_met_in_its_middle_keeps_its_differences() {
    // The first line tells the numbers, the next are differences to them.
    let first_absolute = "\
        16:00:00.3 IP a.5 > b.80: Flags [P.], seq 2682796273:2682796373, ack 2198055867, win 1, length 100\n\
        16:00:00.4 IP b.80 > a.5: Flags [P.], seq 1:11, ack 100, win 1, length 10\n\
        16:00:00.5 IP a.5 > b.80: Flags [.], seq 100:200, ack 11, win 1, length 100\n";
    assert_eq!(
        numbers(first_absolute),
        [
            "2682796273/2198055867",
            "2198055867/2682796373",
            "2682796373/2198055877"
        ]
    );
    // That line was filtered out: differences from an unknown start.
    let all_relative = "\
        16:00:00.1 IP a.5 > b.80: Flags [F.], seq 1746, ack 215, win 1, length 0\n\
        16:00:00.2 IP b.80 > a.5: Flags [F.], seq 215, ack 1747, win 1, length 0\n\
        16:00:00.3 IP a.5 > b.80: Flags [.], ack 216, win 1, length 0\n";
    assert_eq!(numbers(all_relative), ["1746/215", "215/1747", "1747/216"]);
}

#[test]
fn the_same_ports_again_are_a_new_connection() {
    let text = "\
        16:00:00.0 IP a.5 > b.80: Flags [S], seq 2000000000, win 1, length 0\n\
        16:00:00.1 IP b.80 > a.5: Flags [S.], seq 3000000000, ack 2000000001, win 1, length 0\n\
        16:00:00.2 IP a.5 > b.80: Flags [P.], seq 1:101, ack 1, win 1, length 100\n\
        16:00:01.0 IP a.5 > b.80: Flags [S], seq 700000000, win 1, length 0\n\
        16:00:01.1 IP b.80 > a.5: Flags [S.], seq 900000000, ack 700000001, win 1, length 0\n\
        16:00:01.2 IP a.5 > b.80: Flags [P.], seq 1:101, ack 1, win 1, length 100\n";
    assert_eq!(numbers(text)[5], "700000001/900000001");
}

#[test]
fn a_reset_that_answers_a_syn_is_no_difference() {
    let text = "\
        16:00:00.0 IP a.5 > b.80: Flags [S], seq 2000000000, win 1, length 0\n\
        16:00:00.1 IP b.80 > a.5: Flags [R.], seq 0, ack 2000000001, win 0, length 0\n";
    assert_eq!(numbers(text)[1], "0/2000000001");
}

#[test]
fn verbose_output_tells_the_ip_header_on_a_line_of_its_own() {
    let text = "\
        16:00:00.0 IP (tos 0x2,ECT(0), ttl 63, id 4711, offset 0, flags [DF], proto TCP (6), length 60)\n    \
        10.0.0.1.5 > 10.0.0.2.80: Flags [S], cksum 0x1 (incorrect -> 0x2), seq 7, win 64240, length 0\n\
        16:00:00.1 IP6 (class 0x01, flowlabel 0x1, hlim 60, next-header TCP (6) payload length: 40) \
        ::1.5 > ::2.80: Flags [.], cksum 0x1 (correct), ack 1, win 1, length 291: HTTP, length: 291\n\
        \tPOST /upload/files HTTP/1.1\n";
    let read = segments(text);
    assert_eq!(
        (read[0].ip_id, read[0].ttl, read[0].ecn, read[0].frame),
        (Some(4711), Some(63), Some(2), 1)
    );
    assert_eq!((read[0].seq.get(), read[0].window), (7, 64_240));
    assert_eq!(
        (read[1].ip_id, read[1].ttl, read[1].ecn, read[1].frame),
        (None, Some(60), Some(1), 3)
    );
    assert_eq!((read[1].payload_len, read[1].payload), (291, &b""[..]));
    assert_eq!(observe(text).1.text.prose, 1);
}

#[test]
fn link_layers_and_interfaces_before_the_protocol_are_stepped_over() {
    for before in [
        "IP",
        "eth0  Out IP",
        "lo    In  IP",
        "ip:",
        "52:54:00:12:34:56 (oui Unknown) > 52:54:00:12:34:57 (oui Unknown), ethertype IPv4 (0x0800), length 346:",
        "52:54:00:12:34:56 > 52:54:00:12:34:57, ethertype 802.1Q (0x8100), length 350: vlan 7, p 0, ethertype IPv4 (0x0800),",
    ] {
        let line = format!("16:00:00.0 {before} 10.0.0.1.5 > b.80: {DATA}");
        assert_eq!(
            segments(&line)[0].source.to_string(),
            "10.0.0.1:5",
            "{before}"
        );
    }
}

#[test]
fn the_answer_to_a_syn_on_a_forgotten_connection_is_no_difference() {
    let text = "\
        16:00:00.0 IP a.5 > b.443: Flags [S], seq 561364818, win 8192, length 0\n\
        16:00:00.1 IP b.443 > a.5: Flags [.], ack 3058576675, win 251, length 0\n\
        16:00:00.2 IP a.5 > b.443: Flags [R], seq 3058576675, win 0, length 0\n";
    assert_eq!(numbers(text)[1], "0/3058576675");
}

#[test]
fn packets_that_the_capture_file_cut_are_read() {
    let line = format!("16:00:00.0 IP truncated-ip - 1386 bytes missing! a.5 > b.80: {DATA}");
    assert_eq!(segments(&line)[0].payload_len, 292);
    let verbose = format!(
        "16:00:00.0 IP truncated-ip - 9 bytes missing! (tos 0x0, ttl 9, id 1)\n    a.5 > b.80: {DATA}"
    );
    assert_eq!(segments(&verbose)[0].ttl, Some(9));
}

#[test]
fn a_syn_with_unreadable_options_still_tells_its_number() {
    let text =
        "16:00:00.0 IP a.5 > b.80: Flags [S.], seq 7, ack 8, win 1, options [mss 1460,[bad opt]]";
    let read = segments(text);
    assert_eq!((read[0].seq.get(), read[0].options.mss), (7, Some(1460)));
}

#[test]
fn what_is_no_segment_is_named() {
    for (line, name) in [
        ("ARP, Announcement 10.0.0.2, length 28", "ARP"),
        ("IP a.5 > b.domain: 43190+ A? x.y. (20)", "DNS"),
        ("IP 10.0.0.3.53 > 10.0.0.1.9: 1 1/0/1 A 1.2.3.4 (88)", "DNS"),
        ("IP a.5 > b.443: UDP, length 1200", "UDP"),
        (
            "IP a.5 > b.443: tcp 1448",
            "TCP without numbers (tcpdump -q)",
        ),
        (
            "IP a > b: ICMP b tcp port 80 unreachable, length 60",
            "ICMP",
        ),
        (
            "IP6 fe80::1 > ff02::1: ICMP6, router advertisement, length 64",
            "ICMPv6",
        ),
        ("IP a > b: GREv0, length 100", "GRE"),
        ("IP a > b: igmp v2 report 224.0.0.1", "IGMP"),
    ] {
        let line = format!("16:00:00.0 {line}");
        assert_eq!(observe(&line).0, [Observation::Other(name)], "{line}");
    }
}

#[test]
fn questions_for_link_layer_addresses_are_read() {
    let answer = |asker: Option<&str>| {
        Observation::Resolution(Resolution {
            at: Time::ZERO + Duration::from_hours(16),
            frame: 1,
            asker: asker.map(|asker| asker.parse().unwrap()),
            asked: "10.0.0.2".parse().unwrap(),
            answer: asker.is_none(),
        })
    };
    for (line, asker) in [
        (
            "ARP, Request who-has 10.0.0.2 tell 10.0.0.1, length 28",
            Some("10.0.0.1"),
        ),
        (
            "ARP, Request who-has 10.0.0.2 (02:00:00:00:00:01) tell 10.0.0.1, length 46",
            Some("10.0.0.1"),
        ),
        (
            "02:00:00:00:00:01 > ff:ff:ff:ff:ff:ff, ethertype ARP (0x0806), length 42: Request who-has 10.0.0.2 \
             tell 10.0.0.1, length 28",
            Some("10.0.0.1"),
        ),
        (
            "ARP, Reply 10.0.0.2 is-at 02:00:00:00:00:02, length 28",
            None,
        ),
    ] {
        let line = format!("16:00:00.0 {line}");
        assert_eq!(observe(&line).0, [answer(asker)], "{line}");
    }
}

#[test]
fn what_tunnels_carry_is_read() {
    let inner =
        "IP 10.0.0.1.40000 > 10.0.0.2.80: Flags [P.], seq 1001:1019, ack 5, win 8192, length 18";
    for outer in [
        "IP 192.0.2.1 > 192.0.2.2: ",
        "IP 192.0.2.1 > 192.0.2.2: GREv0, length 70: ",
        "IP 192.0.2.1 > 192.0.2.2: GREv0, key=0x5, seq 9, length 70: ",
        "IP6 ::1 > ::2: GREv0, length 90: IP 192.0.2.1 > 192.0.2.2: ",
    ] {
        let line = format!("16:00:00.0 {outer}{inner}");
        let read = segments(&line);
        assert_eq!(read.len(), 1, "{line}");
        assert_eq!(
            (read[0].source.port, read[0].payload_len),
            (40_000, 18),
            "{line}"
        );
    }
    let inner = inner.replace("IP", "IP6").replace("10.0.0.", "::");
    let line = format!("16:00:00.0 IP a > b: GREv0, length 90: {inner}");
    assert_eq!(segments(&line)[0].destination.port, 80);
    let deep = format!("16:00:00.0 {}{inner}", "IP a > b: ".repeat(50));
    assert_eq!(observe(&deep).0, [Observation::Other("tunnels in tunnels")]);
}

#[test]
fn echoes_are_read_in_both_versions() {
    let text = "\
        16:00:00.0 IP a > b: ICMP echo request, id 7, seq 1, length 64\n\
        16:00:00.2 IP6 ::1 > ::2: [icmp6 sum ok] ICMP6, echo reply, id 7, seq 2\n";
    let echoes: Vec<_> = observe(text)
        .0
        .into_iter()
        .map(|observation| {
            let Observation::IcmpEcho(echo) = observation else {
                panic!("{observation:?} is no echo");
            };
            (echo.reply, echo.id, echo.seq, echo.frame)
        })
        .collect();
    assert_eq!(echoes, [(false, 7, 1, 1), (true, 7, 2, 2)]);
}

#[test]
fn prose_is_counted_and_a_line_that_breaks_off_is_not_guessed_at() {
    let text = format!(
        "$ sudo tcpdump -i eth0\n\nlistening on eth0\n\
         IP a.5 > b.80: {DATA}\n\
         16:00:00.0 IP a.5 > b.nosuchservice: {DATA}\n\
         16:00:00.0 IP a.5 > b.80: Flags [P.], seq 1:29\n\
         16:00:00.0 all quiet\n\
         \t0x0000:  4500 0034 IP a > b\n\
         12 packets captured"
    );
    let (seen, summary) = observe(&text);
    assert_eq!(seen, []);
    assert_eq!(summary.text.lines, 9);
    assert_eq!(summary.text.blank, 1);
    assert_eq!(summary.text.untimed, 1);
    assert_eq!(summary.text.unreadable, 2);
    assert_eq!(summary.text.prose, 5);
}

#[test]
fn flags_read_as_they_print() {
    for printed in ["none", "S", "S.E", "SEW", "F.", "FP.", "R", "R.", "."] {
        let line = format!("16:00:00.0 IP a.5 > b.80: Flags [{printed}], win 5, length 0");
        let flags = segments(&line)[0].flags;
        let sorted = |text: &str| {
            let mut letters: Vec<char> = text.chars().collect();
            letters.sort_unstable();
            letters
        };
        assert_eq!(sorted(&flags.to_string()), sorted(printed));
        assert_eq!(flags.contains(TcpFlags::SYN), printed.contains('S'));
    }
}
