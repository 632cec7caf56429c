use record::top::{Header, Line, Process, State};
use record::{LimitName, Manifest};

use super::{at, in_state, seen};
use crate::{Board, Filter, Order, Seen, explain};

/// What `top --record` would write of these readings, one per second.
fn recording(readings: Vec<Vec<Seen>>) -> Vec<Line> {
    let mut board = Board::new(vec!["here".to_owned()]);
    board.set_processes(std::collections::BTreeMap::from([(
        70,
        Process {
            pid: 7,
            name: "leaky".to_owned(),
        },
    )]));
    let mut lines = vec![Line::Header(Header::default())];
    for (second, sockets) in (0..).zip(readings) {
        board.take(at(second * 1000), sockets, false);
        lines.push(Line::Reading(board.reading(
            &Filter::All,
            Order::Goodput,
            second == 0,
        )));
    }
    lines
}

#[test]
fn times_of_a_recorded_connection_sum_to_its_duration() {
    let lines = recording(vec![
        vec![seen(1, 0, 1000)],
        vec![seen(1, 1000, 126_000)],
        vec![seen(1, 1000, 126_000)],
        vec![seen(1, 1000, 126_000)],
        vec![],
    ]);
    let document = explain(lines.into_iter(), "top.jsonl", Manifest::default(), true);
    let connection = &document.connections[0];
    assert!((connection.duration_s - 4.0).abs() < 1e-9);
    let sent = &connection.directions.client_to_server;
    assert_eq!(sent.bytes, 125_000, "what was there before is not counted");
    let sum: f64 = sent.limits.values().sum();
    assert!((sum - connection.duration_s).abs() < 1e-9, "{sent:?}");
    assert!((sent.limits[&LimitName::SlowStart] - 1.0).abs() < 1e-9);
    assert!((sent.limits[&LimitName::Application] - 3.0).abs() < 1e-9);
    assert_eq!(sent.dominant, Some(LimitName::SlowStart));
    let received = &connection.directions.server_to_client;
    assert!(received.unknown_because.is_some());
    assert_eq!(connection.close.how, "unknown");
    let series = connection.series.as_ref().unwrap();
    assert!(!series.goodput.is_empty());
}

#[test]
fn connections_left_in_close_wait_are_a_finding_with_their_process() {
    let socket = |state| Seen {
        inode: 70,
        ..in_state(state, seen(1, 0, 0))
    };
    let lines = recording(vec![
        vec![socket(State::Established)],
        vec![socket(State::CloseWait)],
        vec![socket(State::CloseWait)],
        vec![socket(State::CloseWait)],
        vec![socket(State::CloseWait)],
    ]);
    let document = explain(lines.into_iter(), "top.jsonl", Manifest::default(), false);
    let finding = &document.findings[0];
    assert_eq!(finding.name, "half-closed-by-peer");
    assert!(
        finding.summary.contains("process 7 (`leaky`)"),
        "{finding:?}"
    );
    assert!(finding.summary.contains("3.0 s"), "{finding:?}");
    assert_eq!(
        document.connections[0].close.close_wait.as_deref(),
        Some("client")
    );
}

#[test]
fn an_empty_recording_is_an_empty_document() {
    let document = explain(std::iter::empty(), "-", Manifest::default(), false);
    assert!(document.connections.is_empty() && document.findings.is_empty());
}
