//! One connection, where several would carry more.

use core::time::Duration;
use std::collections::BTreeMap;

use connections::{Endpoint, Side};
use limit::LimitName;
use record::explain::{Confidence, Prediction, Severity};
use tuning::remedies::Cause;
use units::Bytes;

use super::{CatalogueEntry, Found, Judged, Need, flight};
use crate::analysis::{Analysed, Direction};
use crate::text::{duration, rounded};
use crate::traffic::parallel;

pub(super) const ENTRY: CatalogueEntry = CatalogueEntry {
    name: "one-connection-too-few",
    meaning: "One connection after the other carries a large transfer, held back by something that each \
              connection has for itself, on a path that carries several times as much.",
    source: "RFC 6349 §5.1 (windows, connections and the path's product); Mathis et al. (CCR 1997)",
};

/// Limits that every connection has for itself.
pub(super) const OWN: [LimitName; 4] = [
    LimitName::ReceiveWindow,
    LimitName::SendBuffer,
    LimitName::LossLimited,
    LimitName::CongestionAvoidance,
];

/// Below this a path is not worth a second connection.
const LEAST_TIME: Duration = Duration::from_secs(1);
/// And as many as this share its policies badly.
const MOST: u64 = 16;

pub(super) fn find(connections: &[Analysed]) -> Vec<Judged> {
    let mut groups: BTreeMap<(&str, &Endpoint), Vec<&Analysed>> = BTreeMap::new();
    for analysed in connections {
        let connection = &analysed.connection;
        let pair = (connection.client.host.as_str(), &connection.server);
        groups.entry(pair).or_default().push(analysed);
    }
    groups
        .into_values()
        .filter(|group| parallel(group) == 1)
        .filter_map(|group| {
            let judged = group.iter().filter_map(|analysed| judge(analysed));
            judged.max_by_key(|(held, _)| *held)
        })
        .map(|(_, found)| found.into_finding(&ENTRY))
        .collect()
}

fn judge(analysed: &Analysed) -> Option<(Duration, Found)> {
    analysed
        .directions()
        .into_iter()
        .filter_map(|(side, direction)| Some((held(direction)?, side, direction)))
        .max_by_key(|(held, _, _)| *held)
        .and_then(|(held, side, direction)| Some((held, found(analysed, side, direction, held)?)))
}

/// Time under limits that every connection has for itself.
fn held(direction: &Direction) -> Option<Duration> {
    let (first, last) = direction.attribution.busy?;
    let held = OWN.iter().map(|limit| direction.attribution.held(*limit));
    let held: Duration = held.sum();
    (held >= LEAST_TIME && held * 2 >= last.since(first)).then_some(held)
}

fn found(analysed: &Analysed, side: Side, direction: &Direction, held: Duration) -> Option<Found> {
    let (first, last) = direction.attribution.busy?;
    let busy = last.since(first);
    let bytes = analysed.connection.flow(side).bytes();
    let rate = direction.attribution.path_rate.rate.ok()?;
    let rtt = direction.timeline.base_rtt?;
    let ip_bytes = direction.timeline.segment.ip_bytes(Bytes::new(bytes));
    let carried = ip_bytes.checked_per(busy)?.bits_per_s().max(1);
    let number = (rate.bits_per_s() / carried).min(MOST);
    if number < 2 {
        return None;
    }
    let serialised = ip_bytes.checked_div(rate)?;
    let shared = busy.checked_div(u32::try_from(number).ok()?)?;
    let predicted = serialised.max(shared) + rtt;
    Some(Found {
        severity: Severity::Info,
        confidence: Confidence::Medium,
        summary: format!(
            "one connection carries {bytes} B in {}, {} of it held by what each connection has for itself; \
             the path of about {} would carry {number} of them at a time",
            duration(busy),
            duration(held),
            rounded(rate)
        ),
        connections: vec![analysed.id],
        evidence: flight::table(&analysed.shown.sent(side).flight),
        // The cause has its own finding, with the seconds: this is another way out.
        lost: None,
        remedy: format!(
            "Take the cause away (see the other findings); or move the data in {number} parts at a time (S3: \
             multipart uploads and ranges; files: several at once)."
        ),
        predicted: vec![Prediction {
            bytes,
            transfers: 1,
            remedy: format!("{number}-connections"),
            now_s: busy.as_secs_f64(),
            predicted_s: predicted.as_secs_f64(),
            derivation: format!(
                "the larger of {} / {number} connections and {} B at {}; + {} of RTT",
                duration(busy),
                ip_bytes.get(),
                rounded(rate),
                duration(rtt)
            ),
        }],
        needs: vec![Need::new(Cause::TooFewConnections, Side::Client)],
    })
}
