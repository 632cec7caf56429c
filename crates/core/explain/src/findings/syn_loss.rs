//! Connection set-up that had to be tried again.

use core::fmt::Write as _;
use core::time::Duration;

use record::explain::Confidence;

use super::{CatalogueEntry, Found, Judged, frame, severity_of};
use crate::analysis::Analysed;
use crate::text::{count, duration};

pub(super) const ENTRY: CatalogueEntry = CatalogueEntry {
    name: "syn-loss",
    meaning: "SYNs or SYN-ACKs were lost or not answered, which costs a second or more each.",
    source: "RFC 6298 §2.1 (the timer starts at one second)",
};

pub(super) fn find(connections: &[Analysed]) -> Vec<Judged> {
    let mut ids = Vec::new();
    let mut evidence = Vec::new();
    let (mut lost, mut total, mut repeats) = (Duration::ZERO, Duration::ZERO, 0_usize);
    let mut half_open = 0_usize;
    for analysed in connections {
        let handshake = &analysed.connection.handshake;
        let again = handshake.syn_repeats + handshake.syn_ack_repeats;
        let (Some(first), true) = (handshake.syn.or(handshake.syn_ack), again > 0) else {
            continue;
        };
        let (from, to) = analysed
            .connection
            .handshake_span()
            .unwrap_or((first.at, first.at));
        let waited = to
            .since(from)
            .saturating_sub(analysed.connection.base_rtt().unwrap_or_default());
        lost += waited;
        total += analysed.connection.duration();
        repeats += usize::try_from(again).unwrap_or(usize::MAX);
        ids.push(analysed.id);
        evidence.push(frame(
            first,
            format!("connection {}: first SYN", analysed.id),
        ));
        half_open += usize::from(handshake.half_open.is_some());
        evidence.extend(handshake.half_open.map(|answer| {
            frame(
                answer,
                "the server answers for an older connection between the same ports, which it still holds",
            )
        }));
        evidence.extend(
            handshake
                .last_syn
                .filter(|last| last.frame != first.frame)
                .map(|last| {
                    frame(
                        last,
                        format!("sent again {} later", duration(last.at.since(first.at))),
                    )
                }),
        );
    }
    if ids.is_empty() {
        return Vec::new();
    }
    let mut remedy =
        "Look for loss on the path, a full accept queue (Linux: ListenOverflows in nstat) or a filter; keep \
         connections open so that fewer SYNs are needed."
            .to_owned();
    if half_open > 0 {
        // Writing to a String cannot fail.
        let _ = write!(
            remedy,
            " On {} the server still held an older one between the same ports: let it end idle connections (TCP \
             keep-alive), and look for what takes state from under them, such as a firewall or an address translation \
             that forgets.",
            count(half_open, "connection")
        );
    }
    vec![
        Found {
            severity: severity_of(lost, total),
            confidence: Confidence::High,
            summary: format!(
                "{} of set-up sent again on {}, at the cost of {}",
                count(repeats, "segment"),
                count(ids.len(), "connection"),
                duration(lost)
            ),
            connections: ids,
            evidence,
            lost: Some(lost),
            remedy,
            predicted: Vec::new(),
            needs: Vec::new(),
        }
        .into_finding(&ENTRY),
    ]
}
