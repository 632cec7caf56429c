//! The traces that a field report prints, cut out of the report as they stand.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::fs;

use longhaul_capture::{Capture, Format, Summary};
use wire::{Endpoint, Host, Observation, Segment, TcpFlags};

/// The text blocks that begin with a call of tcpdump: the pings, one upload, five uploads without and
/// five with reuse of the connection.
fn traces() -> Option<[String; 4]> {
    let path = crate::field_data()?.join("seeds/002_fbacd287669d9fc8.txt");
    let text = fs::read_to_string(path).unwrap();
    let mut traces = Vec::new();
    let mut lines = text.lines().peekable();
    while let Some(line) = lines.next() {
        if !line.starts_with("$ sudo tcpdump") {
            continue;
        }
        let mut trace = format!("{line}\n");
        // A block ends at the line numbers of the next one, or at the bullets of the prose.
        while let Some(line) =
            lines.next_if(|line| line.trim() != "1" && !line.starts_with("  \u{2022}"))
        {
            trace += line;
            trace.push('\n');
        }
        traces.push(trace);
    }
    Some(traces.try_into().expect("four traces in the report"))
}

/// Lets `check` see every observation of a trace that arrives in pieces.
fn read(trace: &str, mut check: impl FnMut(Observation<'_>)) -> Summary {
    let mut capture = Capture::new();
    for piece in trace.as_bytes().chunks(100) {
        capture.feed(piece);
        while let Some(observation) = capture.next_observation().unwrap() {
            check(observation);
        }
    }
    capture.finish();
    while let Some(observation) = capture.next_observation().unwrap() {
        check(observation);
    }
    capture.summary()
}

fn packet_lines(trace: &str) -> impl Iterator<Item = &str> {
    trace.lines().filter(|line| line.contains(" IP "))
}

#[test]
fn every_line_of_the_traces_is_read_and_nothing_of_it_is_lost() {
    let Some([_, traces @ ..]) = traces() else {
        println!("not run: no field data");
        return;
    };
    for (trace, segments, dns) in [
        (&traces[0], 12, 0),
        (&traces[1], 44, 0),
        (&traces[2], 24, 1),
    ] {
        let initial = initial_numbers(trace);
        let mut printed = Vec::new();
        let summary = read(trace, |observation| {
            if let Observation::Tcp(segment) = observation {
                printed.push(print(&segment, &initial));
            } else {
                assert_eq!(observation, Observation::Other("DNS"));
            }
        });
        let original: Vec<&str> = packet_lines(trace)
            .filter(|line| line.contains("Flags"))
            .collect();
        assert_eq!(printed, original);
        assert_eq!(summary.format, Some(Format::TcpdumpText));
        assert_eq!(summary.segments, segments);
        assert_eq!(summary.frames, segments + dns);
        // The prompt and two lines of tcpdump's banner.
        assert_eq!((summary.text.prose, summary.text.unreadable), (3, 0));
    }
}

#[test]
fn the_upload_of_one_kibibyte_has_the_numbers_of_its_headers() {
    let Some([_, trace, ..]) = traces() else {
        println!("not run: no field data");
        return;
    };
    let mut segments = Vec::new();
    read(&trace, |observation| {
        if let Observation::Tcp(segment) = observation {
            assert_eq!(segment.source.port.min(segment.destination.port), 80);
            segments.push((
                segment.flags.to_string(),
                segment.seq.get(),
                segment.ack.map(units::SeqNum::get),
                segment.window,
                segment.payload_len,
                String::from_utf8_lossy(segment.payload).into_owned(),
            ));
        }
    });
    let row = |flags: &str, seq, ack, window, length, payload: &str| {
        (
            flags.to_owned(),
            seq,
            ack,
            window,
            length,
            payload.to_owned(),
        )
    };
    let (client, server) = (2_682_796_272, 2_198_055_866);
    assert_eq!(
        segments,
        [
            row("S", client, None, 64_240, 0, ""),
            row("S.", server, Some(client + 1), 62_643, 0, ""),
            row(".", client + 1, Some(server + 1), 502, 0, ""),
            row(
                "P.",
                client + 1,
                Some(server + 1),
                502,
                291,
                "POST /upload/files HTTP/1.1"
            ),
            row("P.", client + 292, Some(server + 1), 502, 1454, ""),
            row(".", server + 1, Some(client + 292), 488, 0, ""),
            row(".", server + 1, Some(client + 1746), 477, 0, ""),
            row(
                "P.",
                server + 1,
                Some(client + 1746),
                477,
                214,
                "HTTP/1.1 200 OK"
            ),
            row(".", client + 1746, Some(server + 215), 501, 0, ""),
            row("F.", client + 1746, Some(server + 215), 501, 0, ""),
            row("F.", server + 215, Some(client + 1747), 477, 0, ""),
            row(".", client + 1747, Some(server + 216), 501, 0, ""),
        ]
    );
}

#[test]
fn a_fin_that_echoes_the_timestamp_of_another_connection_is_carried_as_printed() {
    let Some([_, _, trace, _]) = traces() else {
        println!("not run: no field data");
        return;
    };
    let (mut found, mut offloaded) = (0, 0);
    read(&trace, |observation| {
        let Observation::Tcp(segment) = observation else {
            return;
        };
        if clock(&segment) == "17:16:06.325653" {
            found += 1;
            assert_eq!(segment.destination.port, 44_340);
            assert_eq!(segment.options.timestamps.unwrap().echo, 2_596_454_794);
        }
        offloaded += u32::from(segment.payload_len == 2896);
    });
    // Two packets in one line: segmentation offload on the sending host.
    assert_eq!((found, offloaded), (1, 3));
}

#[test]
fn pings_give_round_trips_and_the_lookup_before_them_is_tolerated() {
    let Some([pings, ..]) = traces() else {
        println!("not run: no field data");
        return;
    };
    let mut requests = BTreeMap::new();
    let mut round_trips = Vec::new();
    let summary = read(&pings, |observation| {
        let Observation::IcmpEcho(echo) = observation else {
            assert_eq!(observation, Observation::Other("DNS"));
            return;
        };
        assert_eq!(echo.id, 32_590);
        if echo.reply {
            assert_eq!(echo.source, Host::Name("x.x.x.x1"));
            round_trips.push(echo.at.since(requests[&echo.seq]).as_micros());
        } else {
            requests.insert(echo.seq, echo.at);
        }
    });
    assert_eq!(round_trips, [200_350, 200_388, 200_418, 200_438]);
    assert_eq!((summary.echoes, summary.frames), (8, 9));
}

#[test]
fn the_report_as_a_whole_can_be_read_prose_and_all() {
    let Some(folder) = crate::field_data() else {
        println!("not run: no field data");
        return;
    };
    let text = fs::read_to_string(folder.join("seeds/002_fbacd287669d9fc8.txt")).unwrap();
    let summary = read(&text, |_| ());
    let packets = packet_lines(&text).count();
    assert_eq!(summary.frames, u64::try_from(packets).unwrap());
    assert_eq!(summary.text.unreadable, 0);
}

/// Initial sequence numbers by the sender's and the receiver's text, straight from the lines.
fn initial_numbers(trace: &str) -> BTreeMap<(String, String), u32> {
    let syns = packet_lines(trace).filter(|line| line.contains("Flags [S"));
    syns.map(|line| {
        let words: Vec<&str> = line.split([' ', ',', ':']).collect();
        let at = |word| words.iter().position(|w| *w == word).unwrap();
        let arrow = at(">");
        let ends = (words[arrow - 1].to_owned(), words[arrow + 1].to_owned());
        (ends, words[at("seq") + 1].parse().unwrap())
    })
    .collect()
}

/// A segment in the words of tcpdump: the reverse of what is tested, written for these traces only.
fn print(segment: &Segment<'_>, initial: &BTreeMap<(String, String), u32>) -> String {
    let (source, destination) = (name(segment.source), name(segment.destination));
    let syn = segment.flags.contains(TcpFlags::SYN);
    let relative = |number: u32, from: &str, to: &str| {
        let initial = initial[&(from.to_owned(), to.to_owned())];
        if syn {
            number
        } else {
            number.wrapping_sub(initial)
        }
    };
    let mut line = format!(
        "{} IP {source} > {destination}: Flags [{}]",
        clock(segment),
        segment.flags
    );
    let seq = relative(segment.seq.get(), &source, &destination);
    if segment.payload_len > 0 {
        write!(line, ", seq {seq}:{}", seq + segment.payload_len).unwrap();
    } else if segment.sequence_len() > 0 {
        write!(line, ", seq {seq}").unwrap();
    }
    if let Some(ack) = segment.ack {
        let ack = relative(ack.get(), &destination, &source);
        write!(line, ", ack {ack}").unwrap();
    }
    let timestamps = segment.options.timestamps.unwrap();
    let timestamps = format!("TS val {} ecr {}", timestamps.value, timestamps.echo);
    let options = match (segment.options.mss, segment.options.window_scale) {
        (Some(mss), Some(shift)) => {
            assert!(segment.options.sack_permitted);
            format!("mss {mss},sackOK,{timestamps},nop,wscale {shift}")
        }
        _ => format!("nop,nop,{timestamps}"),
    };
    write!(
        line,
        ", win {}, options [{options}], length {}",
        segment.window, segment.payload_len
    )
    .unwrap();
    if segment.payload_len > 0 {
        line += ": HTTP";
    }
    if !segment.payload.is_empty() {
        line += ": ";
        line += str::from_utf8(segment.payload).unwrap();
    }
    line
}

fn name(endpoint: Endpoint<'_>) -> String {
    match endpoint.port {
        80 => format!("{}.http", endpoint.host),
        port => format!("{}.{port}", endpoint.host),
    }
}

fn clock(segment: &Segment<'_>) -> String {
    let micros = segment.at.as_nanos() / 1_000;
    let seconds = micros / 1_000_000;
    format!(
        "{:02}:{:02}:{:02}.{:06}",
        seconds / 3_600,
        seconds / 60 % 60,
        seconds % 60,
        micros % 1_000_000
    )
}
