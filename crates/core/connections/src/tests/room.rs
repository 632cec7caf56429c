//! Trackers that hand over what they have no room for.

use std::fmt::Write as _;
use std::format;
use std::string::String;
use std::vec::Vec;

use crate::{Connection, Room, Side, Tracker, Vantage, WindowScale};

/// Packets of a connection from port `port`: set-up at `at`, a request, a response of `segments`, and an orderly end.
fn connection(port: u16, at: u64, segments: u64) -> Vec<(u64, String)> {
    let client = format!("10.0.0.1.{port}");
    let up = |millis, text: String| {
        (
            at + millis,
            format!("{client} > 10.0.0.2.443: Flags {text}"),
        )
    };
    let down = |millis, text: String| {
        (
            at + millis,
            format!("10.0.0.2.443 > {client}: Flags {text}"),
        )
    };
    let options = "options [mss 1460,sackOK,nop,wscale 7]";
    let mut lines = Vec::from([
        up(0, format!("[S], seq 1000, win 64240, {options}, length 0")),
        down(
            100,
            format!("[S.], seq 5000, ack 1001, win 65160, {options}, length 0"),
        ),
        up(101, "[.], ack 1, win 502, length 0".into()),
        up(102, "[P.], seq 1:101, ack 1, win 502, length 100".into()),
    ]);
    for number in 0..segments {
        let (from, millis) = (1 + number * 1460, 200 + number * 10);
        let data = format!(
            "[.], seq {from}:{}, ack 101, win 509, length 1460",
            from + 1460
        );
        lines.push(down(millis, data));
        lines.push(up(
            millis + 1,
            format!("[.], ack {}, win 600, length 0", from + 1460),
        ));
    }
    let (end, millis) = (1 + segments * 1460, 300 + segments * 10);
    lines.push(up(
        millis,
        format!("[F.], seq 101, ack {end}, win 600, length 0"),
    ));
    lines.push(down(
        millis + 100,
        format!("[F.], seq {end}, ack 102, win 509, length 0"),
    ));
    lines.push(up(
        millis + 101,
        format!("[.], ack {}, win 600, length 0", end + 1),
    ));
    lines
}

fn text(mut lines: Vec<(u64, String)>) -> String {
    lines.sort_by_key(|(millis, _)| *millis);
    let mut text = String::new();
    for (millis, line) in &lines {
        let (seconds, millis) = (millis / 1000, millis % 1000);
        let (minutes, seconds) = (seconds / 60, seconds % 60);
        writeln!(
            text,
            "12:{minutes:02}:{seconds:02}.{millis:03}000 IP {line}"
        )
        .unwrap();
    }
    text
}

/// Everything that a tracker hands over, in its order, and how much it held at most.
fn tracked(text: &str, mut tracker: Tracker) -> (Vec<Connection>, usize) {
    let mut observations = capture::Observations::new(text.as_bytes());
    let (mut done, mut most, mut held) = (Vec::new(), 0, 0);
    while let Some(observation) = observations.next_observation().unwrap() {
        tracker.observe(&observation);
        held += 1;
        most = held.max(most);
        while let Some(connection) = tracker.next_done() {
            held -= connection.packets.len();
            done.push(connection);
        }
    }
    done.extend(tracker.finish().connections);
    (done, most)
}

const SMALL: Room = Room {
    over: 60,
    packets: 100,
    most: 400,
};

#[test]
fn what_is_over_is_handed_over_as_it_would_have_been_in_the_end() {
    let many: Vec<_> = (0_u16..200)
        .flat_map(|number| connection(40_000 + number, u64::from(number) * 300, 20))
        .collect();
    let text = text(many);
    let (all, whole) = tracked(&text, Tracker::new());
    let (mut handed, most) = tracked(&text, Tracker::with_room(SMALL));
    handed.sort_by_key(|connection| connection.first_frame);
    assert_eq!((all.len(), handed.len()), (200, 200));
    assert!(
        whole > 9_000 && most < 600,
        "{most} of {whole} packets at a time"
    );
    for (one, other) in all.iter().zip(&handed) {
        assert_eq!(one.part, 0);
        assert_eq!(format!("{one:?}"), format!("{other:?}"));
    }
}

/// A minute of silence in the middle of port 40000's stream, during which others come and go.
fn silent_among_others() -> String {
    let mut lines = connection(40_000, 0, 60);
    for (millis, _) in lines.iter_mut().filter(|(millis, _)| *millis > 400) {
        *millis += 60_000;
    }
    lines.extend((0_u16..40).flat_map(|number| {
        let at = 2_000 + u64::from(number) * 1_400;
        connection(41_000 + number, at, 20)
    }));
    text(lines)
}

#[test]
fn a_connection_that_is_silent_stays_whole_while_there_is_room_although_others_are_handed_over() {
    let text = silent_among_others();
    let (_, whole) = tracked(&text, Tracker::new());
    let room = Room {
        packets: whole,
        ..SMALL
    };
    let (done, most) = tracked(&text, Tracker::with_room(room));
    assert!(most * 5 < whole, "{most} of {whole} packets at a time");
    assert_eq!(done.len(), 41);
    assert!(done.iter().all(|connection| connection.part == 0));
}

#[test]
fn a_connection_that_was_silent_goes_on_as_another_part_that_knows_what_its_syns_said() {
    let room = Room {
        packets: SMALL.over,
        ..SMALL
    };
    let (done, _) = tracked(&silent_among_others(), Tracker::with_room(room));
    let parts: Vec<&Connection> = done
        .iter()
        .filter(|connection| connection.client.port == 40_000)
        .collect();
    let [first, second] = parts.as_slice() else {
        panic!("{} parts", parts.len());
    };
    assert_eq!((first.part, second.part), (0, 1));
    assert!(second.handshake_span().is_none());
    assert_eq!(second.window_scale(Side::Client), WindowScale::Known(7));
    assert_eq!(second.vantage, Vantage::Client);
    assert_eq!(second.base_rtt(), first.base_rtt());
    let bytes = |connection: &Connection| connection.to_client.bytes();
    assert_eq!(bytes(first) + bytes(second), 60 * 1460);
    assert_eq!(second.to_client.unseen_bytes(), 0);
    assert!(second.to_client.repeats.is_empty());
}

#[test]
fn many_that_stay_open_are_handed_over_in_parts_where_there_is_no_room() {
    let many: Vec<_> = (0_u16..50)
        .flat_map(|number| connection(40_000 + number, u64::from(number), 100))
        .collect();
    let (done, most) = tracked(&text(many), Tracker::with_room(SMALL));
    assert!(most <= SMALL.most + SMALL.packets, "{most} packets");
    let bytes: u64 = done
        .iter()
        .map(|connection| connection.to_client.bytes())
        .sum();
    assert_eq!(bytes, 50 * 100 * 1460);
    assert!(done.iter().any(|connection| connection.part > 0));
}

#[test]
fn stragglers_of_what_was_handed_over_are_counted_and_ports_may_be_used_again() {
    let mut lines: Vec<_> = (0_u16..20)
        .flat_map(|number| connection(40_000 + number, u64::from(number) * 1_000, 20))
        .collect();
    let straggler = "10.0.0.1.40000 > 10.0.0.2.443: Flags [.], ack 29202, win 600, length 0";
    lines.push((30_000, String::from(straggler)));
    lines.extend(connection(40_001, 31_000, 20));
    let mut tracker = Tracker::with_room(SMALL);
    let text = text(lines);
    let mut observations = capture::Observations::new(text.as_bytes());
    let mut number = 0;
    while let Some(observation) = observations.next_observation().unwrap() {
        tracker.observe(&observation);
        number += core::iter::from_fn(|| tracker.next_done()).count();
    }
    let rest = tracker.finish();
    assert_eq!(rest.late, 1);
    assert_eq!(number + rest.connections.len(), 21);
}
