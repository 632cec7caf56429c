//! Slow start that ended without a loss, far below the path.

use core::time::Duration;

use limit::{Detail, LimitName};
use record::explain::Confidence;
use tuning::remedies::Cause;

use super::{CatalogueEntry, Found, Judged, Need, frame, severity_of};
use crate::analysis::Analysed;
use crate::text::duration;

pub(super) const ENTRY: CatalogueEntry = CatalogueEntry {
    name: "low-initial-ssthresh",
    meaning: "The sender left slow start without a loss and far below the path's capacity, and grows by a \
              little per round trip since.",
    source: "RFC 5681 §3.1 (the initial ssthresh SHOULD be arbitrarily high); RFC 9406 and \
             net/ipv4/tcp_cubic.c (HyStart leaves slow start when round trips lengthen)",
};

/// What nobody waits for.
const LOCAL: Duration = Duration::from_millis(100);

pub(super) fn find(connections: &[Analysed]) -> Vec<Judged> {
    connections
        .iter()
        .flat_map(|analysed| {
            analysed.directions().into_iter().filter_map(|(side, direction)| {
                let (first, last) = direction.attribution.busy?;
                let lost = direction
                    .attribution
                    .held_by(LimitName::CongestionAvoidance, Detail::LowSsthresh);
                // Below a tenth of the transfer, or a few round trips, the end of slow start is no matter;
                // nor is it on a local network, where round trips cost nothing.
                let rtt = direction.timeline.base_rtt?;
                if lost * 10 < last.since(first) || lost < (rtt * 4).max(LOCAL) {
                    return None;
                }
                let evidence = analysed
                    .shown
                    .sent(side)
                    .slow_since
                    .map(|mark| frame(mark, format!(
                            "from here on the {side} sends about as much as is acknowledged, without a \
                             loss before"
                        )));
                Some(Found {
                    severity: severity_of(lost, last.since(first)),
                    confidence: Confidence::Medium,
                    summary: format!(
                        "the {side} left slow start without a loss and spent {} growing slowly",
                        duration(lost)
                    ),
                    connections: vec![analysed.id],
                    evidence: evidence.into_iter().collect(),
                    lost: Some(lost),
                    remedy: "Raise the initial slow-start threshold where it is set; if HyStart ended slow \
                             start early, pace the sender or use a controller that measures the path (BBR), \
                             or send over connections that have grown."
                        .into(),
                    predicted: Vec::new(),
                    needs: vec![Need::new(Cause::LowThreshold, side)],
                })
            })
        })
        .map(|found| found.into_finding(&ENTRY))
        .collect()
}
