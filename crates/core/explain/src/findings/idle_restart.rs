//! Slow start again on a connection that had grown.

use core::time::Duration;

use limit::{Detail, LimitName};
use record::explain::Confidence;
use tuning::remedies::Cause;

use super::{CatalogueEntry, Found, Judged, Need, frame, severity_of};
use crate::analysis::Analysed;
use crate::text::{count, duration};

pub(super) const ENTRY: CatalogueEntry = CatalogueEntry {
    name: "slow-start-after-idle",
    meaning: "After a pause the sender starts again from its initial window, although the connection had \
              carried more before.",
    source: "RFC 5681 §4.1; Linux net.ipv4.tcp_slow_start_after_idle, tcp_cwnd_restart() in \
             net/ipv4/tcp_output.c",
};

pub(super) fn find(connections: &[Analysed]) -> Vec<Judged> {
    let mut ids = Vec::new();
    let mut evidence = Vec::new();
    let (mut lost, mut total) = (Duration::ZERO, Duration::ZERO);
    let mut needs: Vec<Need> = Vec::new();
    for analysed in connections {
        for (side, direction) in analysed.directions() {
            let held = direction
                .attribution
                .held_by(LimitName::SlowStart, Detail::AfterIdle);
            if held.is_zero() {
                continue;
            }
            lost += held;
            total += analysed.connection.duration();
            ids.push(analysed.id);
            let need = Need::new(Cause::RestartAfterIdle, side);
            if !needs.contains(&need) {
                needs.push(need);
            }
            evidence.extend(analysed.shown.sent(side).restarted.map(|mark| {
                frame(
                    mark,
                    format!(
                        "the {side} sends again after a pause, and stops after a small flight \
                             although it had {} B in flight before",
                        analysed.connection.flow(side).max_in_flight
                    ),
                )
            }));
        }
    }
    if lost.is_zero() {
        return Vec::new();
    }
    vec![
        Found {
            severity: severity_of(lost, total),
            confidence: Confidence::Medium,
            summary: format!(
                "{} started slowly again after idle time, at the cost of {}",
                count(ids.len(), "connection"),
                duration(lost)
            ),
            connections: ids,
            evidence,
            lost: Some(lost),
            remedy: "Switch the restart off at the sender (Linux: net.ipv4.tcp_slow_start_after_idle = 0), or \
                     let a relay keep its connections warm."
                .into(),
            predicted: Vec::new(),
            needs,
        }
        .into_finding(&ENTRY),
    ]
}
