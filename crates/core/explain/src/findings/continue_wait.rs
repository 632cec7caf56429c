//! `Expect: 100-continue`: a round trip before the body.

use core::time::Duration;

use connections::Side;
use record::explain::Confidence;
use tuning::remedies::Cause;

use super::{CatalogueEntry, Found, Judged, Need, frame, severity_of};
use crate::analysis::Analysed;
use crate::text::{count, duration};

pub(super) const ENTRY: CatalogueEntry = CatalogueEntry {
    name: "expect-100-continue",
    meaning: "The client waits for the server's 100 Continue before it sends a body, which costs a round \
              trip per request.",
    source: "RFC 9110 §10.1.1",
};

pub(super) fn find(connections: &[Analysed<'_>]) -> Vec<Judged> {
    let mut evidence = Vec::new();
    let mut ids = Vec::new();
    let (mut lost, mut total) = (Duration::ZERO, Duration::ZERO);
    for analysed in connections {
        for turn in &analysed.connection.turns {
            let Some(interim) = turn.interim.filter(|_| turn.expects_continue) else {
                continue;
            };
            let waited = interim.at.since(turn.first_sent.at);
            lost += waited;
            let done = turn.completed_at().unwrap_or(interim.at);
            total += done.since(turn.first_sent.at);
            ids.push(analysed.id);
            evidence.push(frame(
                turn.first_sent,
                "request head with Expect: 100-continue",
            ));
            evidence.push(frame(
                interim,
                format!("interim response {} later", duration(waited)),
            ));
        }
    }
    if ids.is_empty() {
        return Vec::new();
    }
    vec![
        Found {
            severity: severity_of(lost, total),
            confidence: Confidence::High,
            summary: format!(
                "{} waited {} in all for 100 Continue before sending the body",
                count(ids.len(), "request"),
                duration(lost)
            ),
            connections: ids,
            evidence,
            lost: Some(lost),
            remedy: "Switch the expectation off in the client where the server accepts the body anyway; \
                     or let a relay near the client answer it."
                .into(),
            predicted: Vec::new(),
            needs: vec![Need::new(Cause::ContinueWait, Side::Client)],
        }
        .into_finding(&ENTRY),
    ]
}
