//! Acknowledgments that are lost behind the tap: the capture shows them, and the sender never heard of them.

#![allow(clippy::unwrap_used, reason = "a test fails by a panic")]

#[path = "support/text.rs"]
mod text;

use record::LimitName;
use record::explain::{Direction, Document};

use text::explained;

/// A download over 200 ms, captured at the client: after two segments the server stands still for a second, says the
/// first one again, and goes on `late_ms` after the client has acknowledged that.
fn download(late_ms: u64) -> Document {
    let go_on = 1_410 + late_ms;
    let line = |ms: u64, from_client: bool, what: &str| {
        let ends = if from_client {
            "10.0.0.1.40000 > 10.0.0.2.80"
        } else {
            "10.0.0.2.80 > 10.0.0.1.40000"
        };
        format!(
            "12:00:{:02}.{:03}000 IP {ends}: Flags {what}\n",
            ms / 1_000,
            ms % 1_000
        )
    };
    let text: String = [
        line(
            0,
            true,
            "[S], seq 0, win 64240, options [mss 1460], length 0",
        ),
        line(
            200,
            false,
            "[S.], seq 0, ack 1, win 65160, options [mss 1460], length 0",
        ),
        line(200, true, "[.], ack 1, win 64240, length 0"),
        line(210, true, "[P.], seq 1:101, ack 1, win 64240, length 100"),
        line(
            410,
            false,
            "[.], seq 1:1461, ack 101, win 65160, length 1460",
        ),
        line(
            410,
            false,
            "[.], seq 1461:2921, ack 101, win 65160, length 1460",
        ),
        line(410, true, "[.], ack 2921, win 64240, length 0"),
        line(
            1_410,
            false,
            "[.], seq 1:1461, ack 101, win 65160, length 1460",
        ),
        line(1_410, true, "[.], ack 2921, win 64240, length 0"),
        line(
            go_on,
            false,
            "[.], seq 2921:4381, ack 101, win 65160, length 1460",
        ),
        line(
            go_on,
            false,
            "[.], seq 4381:5841, ack 101, win 65160, length 1460",
        ),
        line(go_on, true, "[.], ack 5841, win 64240, length 0"),
        line(
            go_on + 200,
            false,
            "[F.], seq 5841, ack 101, win 65160, length 0",
        ),
        line(
            go_on + 200,
            true,
            "[F.], seq 101, ack 5842, win 64240, length 0",
        ),
    ]
    .concat();
    explained(&text)
}

fn down(document: &Document) -> &Direction {
    &document.connections[0].directions.server_to_client
}

fn held(document: &Document, limit: LimitName) -> f64 {
    down(document).limits.get(&limit).copied().unwrap_or(0.0)
}

/// It counted as the application's.
#[test]
fn a_timer_that_ran_out_because_an_ack_was_lost_is_a_repair() {
    let document = download(200);
    // From the moment at which the data should have come that the first ACK let go.
    let waited = held(&document, LimitName::LossRecovery);
    assert!((waited - 1.0).abs() < 0.02, "{:?}", down(&document).limits);
    let timeout = down(&document).details.get("loss-recovery: timeout");
    assert_eq!(timeout.copied(), Some(waited));
    let finding = document
        .findings
        .iter()
        .find(|finding| finding.name == "loss-recovery")
        .unwrap();
    assert!((finding.lost_s.unwrap() - waited).abs() < 1e-6);
    let shown = |text: &str| finding.evidence.iter().find(|one| one.shows.contains(text));
    let again = shown("the ACK was lost behind the capture").unwrap();
    assert_eq!(again.frame, 8, "{:#?}", finding.evidence);
}

/// Sooner than the second ACK can have reached the server, or much later.
#[test]
fn what_that_ack_did_not_let_go_waited_for_something_else() {
    for late_ms in [40, 1_500] {
        let document = download(late_ms);
        let waited = held(&document, LimitName::LossRecovery);
        assert!(waited < 1e-6, "{late_ms}: {:?}", down(&document).limits);
    }
}
