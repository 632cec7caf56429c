//! Printed packets in, connections out: each test is a few lines as `tcpdump` would print them.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::format;
use std::string::String;
use std::vec::Vec;

use proptest::prelude::*;

use crate::ranges::Ranges;
use crate::{Close, Connection, Repeat, Role, Side, Tracked, Tracker, Vantage, WindowScale};

/// Reads lines such as `0.2 > S 100 win 65535` (from the client; `<` from the server): seconds, direction,
/// flags, `from:to` or a number, and tcpdump's own words behind.
fn script(lines: &str) -> Tracked {
    let mut text = String::new();
    for line in lines.lines().map(str::trim).filter(|line| !line.is_empty()) {
        let mut words = line.splitn(4, ' ');
        let seconds: f64 = words.next().unwrap().parse().unwrap();
        let to_server = words.next().unwrap() == ">";
        let flags = words.next().unwrap();
        let rest = words.next().unwrap();
        let (from, to) = if to_server {
            ("10.0.0.1.40000", "10.0.0.2.80")
        } else {
            ("10.0.0.2.80", "10.0.0.1.40000")
        };
        let (numbers, length) = match rest.split_once(' ') {
            Some((range, more)) if range.contains(':') => {
                let (first, last) = range.split_once(':').unwrap();
                let length = last.parse::<u64>().unwrap() - first.parse::<u64>().unwrap();
                (format!("seq {range}, {more}"), length)
            }
            Some((number, more)) if number != "-" => (format!("seq {number}, {more}"), 0),
            Some((_, more)) => (String::from(more), 0),
            None => panic!("{line}"),
        };
        writeln!(
            text,
            "12:00:{seconds:09.6} IP {from} > {to}: Flags [{flags}], {numbers}, length {length}"
        )
        .unwrap();
    }
    track(&text)
}

fn track(text: &str) -> Tracked {
    let mut observations = capture::Observations::new(text.as_bytes());
    let mut tracker = Tracker::new();
    while let Some(observation) = observations.next_observation().unwrap() {
        tracker.observe(&observation);
    }
    tracker.finish()
}

#[track_caller]
fn only(tracked: &Tracked) -> &Connection {
    let [connection] = tracked.connections.as_slice() else {
        panic!("{} connections", tracked.connections.len())
    };
    connection
}

const HANDSHAKE: &str = "
    0.0 > S 1000 win 64240, options [mss 1460,sackOK,nop,wscale 7]
    0.2 < S. 5000 ack 1001, win 65160, options [mss 1460,sackOK,nop,wscale 7]
    0.2001 > . - ack 1, win 502
";

fn after_handshake(lines: &str) -> Tracked {
    script(&(String::from(HANDSHAKE) + lines))
}

fn repeats(connection: &Connection, side: Side) -> Vec<Repeat> {
    connection
        .packets
        .iter()
        .filter(|packet| packet.side == side)
        .filter_map(|packet| match packet.role {
            Role::Repeated(repeat) => Some(repeat),
            Role::Syn
            | Role::New
            | Role::OutOfOrder
            | Role::Ack
            | Role::Copy
            | Role::KeepAlive
            | Role::WindowProbe
            | Role::End
            | Role::Stray => None,
        })
        .collect()
}

#[test]
fn a_handshake_tells_options_scale_rtt_and_vantage() {
    let tracked = after_handshake("");
    let connection = only(&tracked);
    assert_eq!(connection.vantage, Vantage::Client);
    assert_eq!(connection.window_scale(Side::Client), WindowScale::Known(7));
    assert_eq!(connection.handshake_rtt().unwrap().as_millis(), 200);
    assert_eq!(
        connection.window_range(Side::Client),
        Some((502 << 7, 502 << 7))
    );
    assert_eq!(connection.sack(), Some(true));
    assert_eq!(connection.timestamps(), Some(false));
    assert_eq!(connection.segment_payload(Side::Client), 1460);
}

/// The answer for an older connection counted as 976 MB that the capture lacked, and the reset as the end.
#[test]
fn a_syn_that_meets_an_older_connection_is_answered_at_last() {
    let tracked = script(
        "0.0 > S 1000 win 64240, options [mss 1460]
         0.02 < . - ack 976271787, win 500
         0.0201 > R 976271787 win 0
         3.0 > S 1000 win 64240, options [mss 1460]
         3.02 < S. 5000 ack 1001, win 65160, options [mss 1460]
         3.0201 > . - ack 1, win 64240
         3.03 > P. 1:101 ack 1, win 64240
         3.05 < . - ack 101, win 65160",
    );
    let connection = only(&tracked);
    assert_eq!(connection.close, Close::Open);
    assert_eq!(
        connection.handshake.half_open.map(|mark| mark.frame),
        Some(2)
    );
    assert_eq!(connection.handshake.syn_repeats, 1);
    let flow = connection.flow(Side::Client);
    assert_eq!(
        (flow.bytes(), flow.unseen_bytes(), flow.strays),
        (100, 0, 1)
    );
    assert_eq!(connection.vantage, Vantage::Client);
}

#[test]
fn scaling_that_one_side_does_not_offer_is_off_for_both() {
    let tracked = script(
        "0.0 > S 1000 win 64240, options [mss 1460,nop,wscale 7]
         0.2 < S. 5000 ack 1001, win 65160, options [mss 1460]",
    );
    let connection = only(&tracked);
    assert_eq!(connection.window_scale(Side::Client), WindowScale::Known(0));
    assert_eq!(connection.window_scale(Side::Server), WindowScale::Known(0));
}

#[test]
fn a_repeat_after_three_duplicate_acks_is_fast_and_gives_no_rtt() {
    let tracked = after_handshake(
        "0.30 > . 1:1461 ack 1, win 502
         0.30 > . 1461:2921 ack 1, win 502
         0.30 > . 2921:4381 ack 1, win 502
         0.30 > . 4381:5841 ack 1, win 502
         0.50 < . - ack 1, win 509
         0.50 < . - ack 1, win 509
         0.50 < . - ack 1, win 509
         0.50 < . - ack 1, win 509
         0.50 > . 1:1461 ack 1, win 502
         0.70 < . - ack 5841, win 509",
    );
    let connection = only(&tracked);
    assert_eq!(repeats(connection, Side::Client), [Repeat::Fast]);
    assert_eq!(connection.to_server.repeated_bytes, 1460);
    assert_eq!(connection.to_server.bytes(), 5840);
    assert!(connection.to_server.rtt.is_empty(), "Karn's rule");
}

/// Seen from the receiver, where losses are dense: the newest hole's age was taken for that of the one which is
/// filled, so that repairs were called late packets.
#[test]
fn a_repair_is_known_by_the_age_of_its_own_hole() {
    let tracked = after_handshake(
        "0.300 > . 1:1461 ack 1, win 502
         0.300 > . 2921:4381 ack 1, win 502
         0.300 < . - ack 1461, win 509, options [sack 1 {2921:4381}]
         0.499 > . 5841:7301 ack 1, win 502
         0.499 < . - ack 1461, win 509, options [sack 2 {5841:7301}{2921:4381}]
         0.500 > . 1461:2921 ack 1, win 502
         0.500 < . - ack 4381, win 509, options [sack 1 {5841:7301}]
         0.501 > . 4381:5841 ack 1, win 502
         0.700 < . - ack 7301, win 509",
    );
    let connection = only(&tracked);
    assert_eq!(repeats(connection, Side::Client), [Repeat::Fast]);
    assert_eq!(connection.to_server.out_of_order, 1, "4381 to 5841");
}

/// What the receiver already held counted as flying.
#[test]
fn what_sack_reports_does_not_fly_and_timestamps_tell_of_what_was_sent_again() {
    let stamp = |value: u32, echo: u32| format!("nop,nop,TS val {value} ecr {echo}");
    let line =
        |text: &str, stamps: String| text.replace("TS", &format!("options [{stamps}]")) + "\n";
    let open = |text: &str, stamps: String| {
        text.replace("TS", &format!("options [mss 1460,sackOK,{stamps}]")) + "\n"
    };
    let sacked = |text: &str, block: &str, stamps: String| {
        text.replace(
            "TS",
            &format!("options [{stamps},nop,nop,sack 1 {{{block}}}]"),
        ) + "\n"
    };
    let tracked = script(
        &[
            open("0.0 > S 1000 win 64240, TS", stamp(100, 0)),
            open("0.2 < S. 5000 ack 1001, win 65160, TS", stamp(900, 100)),
            line("0.2001 > . - ack 1, win 502, TS", stamp(300, 900)),
            line("0.30 > . 1:1449 ack 1, win 502, TS", stamp(400, 900)),
            line("0.30 > . 1449:2897 ack 1, win 502, TS", stamp(401, 900)),
            line("0.30 > . 2897:4345 ack 1, win 502, TS", stamp(402, 900)),
            sacked(
                "0.50 < . - ack 1, win 509, TS",
                "1449:2897",
                stamp(1_200, 300),
            ),
            sacked(
                "0.50 < . - ack 1, win 509, TS",
                "1449:4345",
                stamp(1_201, 300),
            ),
            line("0.51 > . 1:1449 ack 1, win 502, TS", stamp(610, 1_200)),
            line("0.52 > . 4345:5793 ack 1, win 502, TS", stamp(620, 1_200)),
            line("0.71 < . - ack 4345, win 509, TS", stamp(1_410, 610)),
            line("0.73 < . - ack 5793, win 509, TS", stamp(1_420, 620)),
        ]
        .concat(),
    );
    let flow = &only(&tracked).to_server;
    // Three segments before the loss shows; behind it the first one and the new one.
    assert_eq!(flow.max_in_flight, 3 * 1448);
    let karn: Vec<u128> = flow.rtt.iter().map(|one| one.rtt.as_millis()).collect();
    assert_eq!(karn, [210], "of what was sent once");
    assert_eq!(flow.stamped_us, [200_000, 210_000], "of both");
}

#[test]
fn silence_then_the_first_hole_again_is_a_timeout_and_an_old_byte_is_spurious() {
    let tracked = after_handshake(
        "0.30 > . 1:1461 ack 1, win 502
         0.30 > . 1461:2921 ack 1, win 502
         0.80 > . 1:1461 ack 1, win 502
         1.00 < . - ack 2921, win 509
         1.01 > . 1461:2921 ack 1, win 502",
    );
    assert_eq!(
        repeats(only(&tracked), Side::Client),
        [Repeat::Timeout, Repeat::Spurious]
    );
}

#[test]
fn the_end_of_a_flight_again_is_a_tail_probe() {
    let tracked = after_handshake(
        "0.30 > . 1:1461 ack 1, win 502
         0.30 > . 1461:2921 ack 1, win 502
         0.50 < . - ack 1461, win 509
         0.91 > . 1461:2921 ack 1, win 502
         1.11 < . - ack 2921, win 509",
    );
    assert_eq!(repeats(only(&tracked), Side::Client), [Repeat::TailProbe]);
}

#[test]
fn a_hole_filled_at_once_is_reordering() {
    let tracked = after_handshake(
        "0.300 > . 1461:2921 ack 1, win 502
         0.301 > . 1:1461 ack 1, win 502",
    );
    let connection = only(&tracked);
    assert!(connection.to_server.repeats.is_empty());
    assert_eq!(connection.to_server.bytes(), 2920);
}

#[test]
fn bytes_that_only_their_ack_shows_are_missing_from_the_capture_not_repeated() {
    let tracked = after_handshake(
        "0.30 > . 1:1461 ack 1, win 502
         0.31 > . 4381:5841 ack 1, win 502
         0.51 < . - ack 5841, win 509",
    );
    let connection = only(&tracked);
    assert_eq!(connection.to_server.unseen_bytes(), 2920);
    assert!(connection.to_server.repeats.is_empty());
    assert!(!connection.quality.filtered, "bare ACKs are here");
}

#[test]
fn the_side_that_got_the_first_fin_is_known_with_its_time() {
    let tracked = after_handshake(
        "1.0 < F. 1:1 ack 1, win 509
         1.0 > . - ack 2, win 502
         9.0 > F. 1:1 ack 2, win 502",
    );
    let Close::Fin(closing) = only(&tracked).close else {
        panic!("{:?}", only(&tracked).close)
    };
    assert_eq!(closing.first, Side::Server);
    assert_eq!(
        closing
            .second
            .unwrap()
            .at
            .since(closing.first_fin.at)
            .as_secs(),
        8
    );
}

#[test]
fn ports_used_again_are_another_connection_and_a_syn_again_is_not() {
    let tracked = after_handshake(
        "3.0 > S 1000 win 64240, options [mss 1460]
         9.0 > S 777777 win 64240, options [mss 1460]",
    );
    assert_eq!(tracked.connections.len(), 2);
    assert_eq!(tracked.connections[0].handshake.syn_repeats, 1);
}

/// Linux sends none of the old bytes, others one; the first kind counted as bare ACKs.
#[test]
fn probes_for_a_silent_peer_are_keep_alives_with_and_without_a_byte() {
    use units::{SeqNum, Time};
    use wire::{Endpoint, Host, Observation, Segment, TcpFlags, TcpOptions};
    let mut tracker = Tracker::new();
    let mut frame = 0;
    let mut packet = |seconds: u64, client: bool, flags, seq: u32, ack: u32, payload_len| {
        frame += 1;
        let end = |name, port| Endpoint {
            host: Host::Name(name),
            port,
        };
        let (client_end, server_end) = (end("client", 50_000), end("server", 80));
        let ends = if client {
            (client_end, server_end)
        } else {
            (server_end, client_end)
        };
        let has_ack = TcpFlags::ACK;
        tracker.observe(&Observation::Tcp(Segment {
            at: Time::from_millis(seconds * 1_000),
            frame,
            source: ends.0,
            destination: ends.1,
            flags,
            seq: SeqNum::new(seq),
            ack: flags.contains(has_ack).then(|| SeqNum::new(ack)),
            window: 500,
            payload_len,
            payload: b"",
            options: TcpOptions::default(),
            ip_id: None,
            ttl: None,
            ecn: None,
            header_len: 40,
        }));
    };
    let (syn, ack) = (TcpFlags::SYN, TcpFlags::ACK);
    packet(0, true, syn, 999, 0, 0);
    packet(0, false, syn.union(ack), 4_999, 1_000, 0);
    packet(0, true, ack, 1_000, 5_000, 0);
    // Nothing was sent yet.
    packet(60, true, ack, 999, 5_000, 0);
    packet(60, false, ack, 5_000, 1_000, 0);
    packet(61, true, ack, 1_000, 5_000, 100);
    packet(61, false, ack, 5_000, 1_100, 0);
    packet(62, true, ack, 1_100, 5_000, 0);
    packet(120, true, ack, 1_099, 5_000, 0);
    packet(120, false, ack, 5_000, 1_100, 0);
    packet(180, true, ack, 1_099, 5_000, 1);
    packet(180, false, ack, 5_000, 1_100, 0);
    let tracked = tracker.finish();
    let connection = only(&tracked);
    let probes = connection
        .packets
        .iter()
        .filter(|packet| packet.role == Role::KeepAlive)
        .map(|packet| packet.frame);
    assert_eq!(probes.collect::<Vec<u64>>(), [4, 9, 11]);
    let flow = connection.flow(Side::Client);
    assert_eq!((flow.bytes(), flow.repeated_bytes), (100, 0));
    assert!(flow.repeats.is_empty());
    assert_eq!(connection.close, Close::Open);
}

#[test]
fn turns_follow_the_direction_and_query_strings_never_leave() {
    let text = "\
12:00:00.000000 IP 10.0.0.1.40000 > 10.0.0.2.80: Flags [P.], seq 1:101, ack 1, win 502, length 100: HTTP: GET /a?X-Amz-Signature=secret HTTP/1.1
12:00:00.200000 IP 10.0.0.2.80 > 10.0.0.1.40000: Flags [P.], seq 1:51, ack 101, win 502, length 50: HTTP: HTTP/1.1 204 No Content
12:00:00.300000 IP 10.0.0.1.40000 > 10.0.0.2.80: Flags [P.], seq 101:201, ack 51, win 502, length 100: HTTP: PUT /b HTTP/1.1
";
    let tracked = track(text);
    let turns = &only(&tracked).turns;
    assert_eq!(turns.len(), 2);
    assert_eq!(turns[0].request.as_deref(), Some("GET /a"));
    assert_eq!(turns[0].status, Some(204));
    assert_eq!(
        (turns[0].request_bytes(), turns[0].response_bytes()),
        (100, 50)
    );
    assert_eq!(turns[1].request.as_deref(), Some("PUT /b"));
    assert_eq!(turns[1].first_response, None);
}

proptest! {
    #[test]
    fn ranges_hold_what_a_set_of_positions_holds(
        spans in proptest::collection::vec((0_i64..200, 0_i64..40), 0..40),
        probe in (0_i64..200, 0_i64..60),
    ) {
        let mut ranges = Ranges::default();
        let mut truth = BTreeSet::new();
        for (from, len) in spans {
            let before = truth.len();
            truth.extend(from..from + len);
            let added = u64::try_from(truth.len() - before).unwrap();
            prop_assert_eq!(ranges.insert(from, from + len), added);
        }
        prop_assert_eq!(ranges.total(), u64::try_from(truth.len()).unwrap());
        let expected = truth.range(probe.0..probe.0 + probe.1).count();
        let covered = ranges.covered(probe.0, probe.0 + probe.1);
        prop_assert_eq!(covered, u64::try_from(expected).unwrap());
        ranges.drop_below(probe.0);
        let left = truth.range(probe.0..).count();
        prop_assert_eq!(ranges.total(), u64::try_from(left).unwrap());
        let covered = ranges.covered(probe.0, probe.0 + probe.1);
        prop_assert_eq!(covered, u64::try_from(expected).unwrap());
    }

    #[test]
    fn a_stream_of_more_than_four_gib_is_counted_in_full(step in 400_000_000_u32..1_000_000_000) {
        use units::{SeqNum, Time};
        use wire::{Endpoint, Host, Observation, Segment, TcpFlags, TcpOptions};
        let end = |name, port| Endpoint { host: Host::Name(name), port };
        let mut tracker = Tracker::new();
        let mut seq = SeqNum::new(u32::MAX - 5);
        let mut sent = 0_u64;
        for at in 0..20_u64 {
            tracker.observe(&Observation::Tcp(Segment {
                at: Time::from_millis(at),
                frame: at + 1,
                source: end("a", 50_000),
                destination: end("b", 80),
                flags: TcpFlags::ACK,
                seq,
                ack: Some(SeqNum::new(1)),
                window: 1,
                payload_len: step,
                payload: b"",
                options: TcpOptions::default(),
                ip_id: None,
                ttl: None,
                ecn: None,
                header_len: 40,
            }));
            seq = seq + step;
            sent += u64::from(step);
        }
        let tracked = tracker.finish();
        prop_assert_eq!(tracked.connections[0].to_server.bytes(), sent);
        prop_assert_eq!(tracked.connections[0].to_server.strays, 0);
    }
}

mod beside;
mod room;
