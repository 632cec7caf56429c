//! Connections that one side has closed and the other one keeps.

use core::time::Duration;

use connections::{Close, Side};
use record::explain::{Confidence, Evidence, Severity};

use super::{CatalogueEntry, Found, Judged, frame};
use crate::analysis::Analysed;
use crate::document::close_wait;
use crate::text::{count, duration};

pub(super) const ENTRY: CatalogueEntry = CatalogueEntry {
    name: "half-closed-by-peer",
    meaning: "One side sent a FIN, and the other one left its half open: it sits in CLOSE_WAIT, where no \
              timer ends it, and a client that takes such a connection from its pool will fail.",
    source: "RFC 9293 §3.6 (closing a connection)",
};

/// A peer that is done answers a FIN with its own at once.
const TOLERATED: Duration = Duration::from_secs(1);

pub(super) fn find(connections: &[Analysed]) -> Vec<Judged> {
    [Side::Client, Side::Server]
        .into_iter()
        .filter_map(|side| judge(connections, side))
        .map(|found| found.into_finding(&ENTRY))
        .collect()
}

fn judge(connections: &[Analysed], waiting: Side) -> Option<Found> {
    let mut evidence: Vec<Evidence> = Vec::new();
    let mut ids = Vec::new();
    let mut longest = Duration::ZERO;
    for analysed in connections {
        let Close::Fin(closing) = analysed.connection.close else {
            continue;
        };
        let Some((side, waited)) = close_wait(&analysed.connection) else {
            continue;
        };
        if side != waiting || waited < TOLERATED {
            continue;
        }
        longest = longest.max(waited);
        ids.push(analysed.id);
        evidence.push(frame(
            closing.first_fin,
            format!("first FIN, from the {}", closing.first),
        ));
        evidence.extend(closing.second.map(|mark| {
            frame(
                mark,
                format!(
                    "the {side} closes its half; {} in CLOSE_WAIT",
                    duration(waited)
                ),
            )
        }));
    }
    if ids.is_empty() {
        return None;
    }
    Some(Found {
        severity: Severity::Warning,
        confidence: Confidence::High,
        summary: format!(
            "on {} the {} closed first and the {waiting} stayed in CLOSE_WAIT, for up to {}",
            count(ids.len(), "connection"),
            waiting.peer(),
            duration(longest)
        ),
        connections: ids,
        evidence,
        lost: None,
        remedy: format!(
            "The application on the {waiting} must read the end of the stream and close its socket; if it \
             pools connections, its idle timeout must be shorter than the {}'s.",
            waiting.peer()
        ),
        predicted: Vec::new(),
        needs: Vec::new(),
    })
}
