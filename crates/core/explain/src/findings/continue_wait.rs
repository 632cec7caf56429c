//! `Expect: 100-continue`: a round trip before the body.

use core::time::Duration;

use connections::{Connection, Mark, Side};
use record::explain::Confidence;
use tuning::remedies::Cause;
use units::Time;

use super::{CatalogueEntry, Found, Judged, MAX_EVIDENCE, Need, frame, severity_of};
use crate::analysis::Analysed;
use crate::text::{count, duration};

pub(super) const ENTRY: CatalogueEntry = CatalogueEntry {
    name: "expect-100-continue",
    meaning: "The client waits for the server's 100 Continue before it sends a body, which costs a round \
              trip per request.",
    source: "RFC 9110 §10.1.1",
};

/// One wait for an interim response.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wait {
    /// The request's head.
    asked: Mark,
    interim: Mark,
    /// The end of the response, or of what is known.
    done_at: Time,
}

/// Every such wait of a connection.
pub(super) fn of(connection: &Connection) -> Box<[Wait]> {
    let turns = connection.turns.iter().filter(|turn| turn.expects_continue);
    turns
        .filter_map(|turn| {
            let interim = turn.interim?;
            Some(Wait {
                asked: turn.first_sent,
                interim,
                done_at: turn.completed_at().unwrap_or(interim.at),
            })
        })
        .collect()
}

pub(super) fn find(connections: &[Analysed]) -> Vec<Judged> {
    let mut evidence = Vec::new();
    let (mut ids, mut number) = (Vec::new(), 0_usize);
    let (mut lost, mut total) = (Duration::ZERO, Duration::ZERO);
    for analysed in connections {
        for wait in &analysed.shown.continue_waits {
            let waited = wait.interim.at.since(wait.asked.at);
            lost += waited;
            total += wait.done_at.since(wait.asked.at);
            ids.push(analysed.id);
            number += 1;
            if evidence.len() >= MAX_EVIDENCE {
                continue;
            }
            evidence.push(frame(wait.asked, "request head with Expect: 100-continue"));
            evidence.push(frame(
                wait.interim,
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
                count(number, "request"),
                duration(lost)
            ),
            connections: ids,
            evidence,
            lost: Some(lost),
            remedy: "Switch the expectation off in the client where the server accepts the body anyway; \
                     or let a relay near the client answer it (`longhaul relay http`, \
                     `expect = \"answer\"`)."
                .into(),
            predicted: Vec::new(),
            needs: vec![Need::new(Cause::ContinueWait, Side::Client)],
        }
        .into_finding(&ENTRY),
    ]
}
