//! What of a capture's own faults is told before anything is judged.

#![allow(clippy::unwrap_used, reason = "a test fails by a panic")]

#[path = "support/text.rs"]
mod text;

use std::fmt::Write as _;

use record::explain::Document;

use text::explained;

/// Requests of 100 B and their answers of 1000 B in turn, 13 ms after each other, by a clock that ticks so; the answers
/// to `lacking` requests are not in the capture.
fn turns(tick_us: u64, lacking: &[u64]) -> String {
    const START_US: u64 = 1_700_000_000_234_567;
    let mut text = String::new();
    let mut line = |us: u64, from_client: bool, what: &str| {
        let us = (START_US + us) / tick_us * tick_us;
        let ends = if from_client {
            "10.0.0.1.40000 > 10.0.0.2.80"
        } else {
            "10.0.0.2.80 > 10.0.0.1.40000"
        };
        writeln!(
            text,
            "{}.{:06} IP {ends}: Flags {what}",
            us / 1_000_000,
            us % 1_000_000
        )
        .unwrap();
    };
    line(
        0,
        true,
        "[S], seq 0, win 64240, options [mss 1460], length 0",
    );
    line(
        13_001,
        false,
        "[S.], seq 0, ack 1, win 65160, options [mss 1460], length 0",
    );
    line(13_003, true, "[.], ack 1, win 64240, length 0");
    for turn in 0..12 {
        let at = 20_000 + turn * 26_017;
        let (up, down) = (1 + turn * 100, 1 + turn * 1_000);
        let (up_to, down_to) = (up + 100, down + 1_000);
        line(
            at,
            true,
            &format!("[P.], seq {up}:{up_to}, ack {down}, win 64240, length 100"),
        );
        if !lacking.contains(&turn) {
            line(
                at + 13_005,
                false,
                &format!("[P.], seq {down}:{down_to}, ack {up_to}, win 65160, length 1000"),
            );
        }
        line(
            at + 13_011,
            true,
            &format!("[.], ack {down_to}, win 64240, length 0"),
        );
    }
    text
}

fn artefact<'a>(document: &'a Document, says: &str) -> Option<&'a record::explain::Finding> {
    document
        .findings
        .iter()
        .find(|finding| finding.name == "capture-artefact" && finding.summary.contains(says))
}

#[test]
fn a_clock_that_ticks_by_ten_milliseconds_is_told_and_a_fine_one_is_not() {
    let coarse = explained(&turns(10_000, &[]));
    let caveats = &coarse.connections[0].caveats;
    let ticks = caveats
        .iter()
        .find(|caveat| caveat.contains("ticks by 10.0 ms"));
    assert!(ticks.is_some(), "{caveats:?}");
    assert!(artefact(&coarse, "clock is coarse").is_some());
    let fine = explained(&turns(1, &[]));
    assert!(
        fine.connections[0].caveats.is_empty(),
        "{:?}",
        fine.connections[0].caveats
    );
    assert!(artefact(&fine, "clock").is_none());
}

#[test]
fn packets_stamped_in_lumps_are_told() {
    // Twenty at a time, of which the first is a microsecond earlier.
    let text = turns(1, &[]);
    let stamped = text.lines().enumerate().map(|(number, line)| {
        let (_, rest) = line.split_once(' ').unwrap();
        let micros = u8::from(number % 20 > 0);
        format!("{}.00000{micros} {rest}\n", 1_700_000_000 + number / 20)
    });
    let document = explained(&stamped.collect::<String>());
    let caveats = &document.connections[0].caveats;
    assert!(
        caveats
            .iter()
            .any(|caveat| caveat.contains("stamped in lumps")),
        "{caveats:?}"
    );
}

#[test]
fn data_that_the_peer_acknowledged_and_the_capture_lacks_is_the_captures_loss() {
    let document = explained(&turns(1, &[3, 7]));
    let finding = artefact(&document, "the capture lost it, not the network").unwrap();
    let [evidence] = finding.evidence.as_slice() else {
        panic!("{:?}", finding.evidence)
    };
    assert!(
        evidence.shows.contains("acknowledges 1000 B"),
        "{evidence:?}"
    );
    assert_eq!(evidence.frame, 14, "the ACK of the fourth answer");
    let down = &document.connections[0].directions.server_to_client;
    assert_eq!((down.counts.unseen_bytes, down.retransmissions), (2_000, 0));
    assert!(artefact(&explained(&turns(1, &[])), "lost").is_none());
}
