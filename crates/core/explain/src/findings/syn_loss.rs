//! Connection set-up that had to be tried again.

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
            remedy: "Look for loss on the path, a full accept queue (Linux: ListenOverflows in nstat) or a \
                     filter; keep connections open so that fewer SYNs are needed."
                .into(),
            predicted: Vec::new(),
            needs: Vec::new(),
        }
        .into_finding(&ENTRY),
    ]
}
