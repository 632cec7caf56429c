//! All flows together.

use std::collections::BTreeMap;

use record::flow::{Flow, Totals};

pub(super) fn of(flows: &[Flow]) -> Totals {
    let bytes = flows.iter().map(|flow| flow.bytes).sum();
    let start = flows.iter().map(|flow| flow.started_s).reduce(f64::min);
    let end = flows
        .iter()
        .map(|flow| flow.started_s + flow.total_s)
        .reduce(f64::max);
    let seconds = start.zip(end).map_or(0.0, |(start, end)| end - start);
    let retransmits = |flow: &Flow| flow.samples.last().map_or(0, |last| last.retransmits);
    Totals {
        bytes,
        seconds,
        goodput_bps: rate(bytes, seconds),
        retransmits: flows.iter().map(retransmits).sum(),
        jain: jain(flows),
        failed: count(flows, |flow| flow.error.is_some()),
        data_ok: flows.iter().all(|flow| flow.data_ok != Some(false)),
    }
}

/// Bits per second of `bytes` in `seconds`; `None` in no time.
pub(super) fn rate(bytes: u64, seconds: f64) -> Option<f64> {
    (seconds > 0.0).then(|| float(bytes) * 8.0 / seconds)
}

#[expect(clippy::cast_precision_loss, reason = "2^53 bytes are 9 PB")]
const fn float(count: u64) -> f64 {
    count as f64
}

fn count(flows: &[Flow], what: impl Fn(&Flow) -> bool) -> u64 {
    let count = flows.iter().filter(|flow| what(flow)).count();
    u64::try_from(count).unwrap_or(u64::MAX)
}

/// Jain, Chiu and Hawe (DEC-TR-301, 1984), over lanes: (sum x)^2 / (n sum x^2), 1 where all are alike.
fn jain(flows: &[Flow]) -> Option<f64> {
    let mut lanes: BTreeMap<u64, (u64, f64)> = BTreeMap::new();
    for flow in flows {
        let lane = lanes.entry(flow.lane).or_default();
        lane.0 += flow.bytes;
        lane.1 += flow.seconds;
    }
    let rates: Vec<f64> = lanes
        .values()
        .map(|&(bytes, seconds)| rate(bytes, seconds).unwrap_or(0.0))
        .collect();
    let (mut n, mut sum, mut squares) = (0.0, 0.0, 0.0);
    for rate in rates {
        n += 1.0;
        sum += rate;
        squares += rate * rate;
    }
    (n >= 2.0 && squares > 0.0).then(|| sum * sum / (n * squares))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn flow(lane: u64, bytes: u64) -> Flow {
        Flow {
            lane,
            bytes,
            seconds: 2.0,
            total_s: 3.0,
            ..Flow::default()
        }
    }

    #[test]
    fn equal_lanes_are_fair_and_one_that_takes_all_is_not() {
        assert_eq!(of(&[flow(0, 500), flow(1, 500)]).jain, Some(1.0));
        assert_eq!(of(&[flow(0, 500), flow(1, 0)]).jain, Some(0.5));
        assert_eq!(of(&[flow(0, 500), flow(0, 100)]).jain, None);
    }

    #[test]
    fn the_whole_lasts_from_the_first_connect_to_the_last_end() {
        let late = Flow {
            started_s: 5.0,
            error: Some("gone".into()),
            ..flow(1, 1000)
        };
        let totals = of(&[flow(0, 1000), late]);
        assert_eq!(
            (totals.bytes, totals.seconds, totals.failed),
            (2000, 8.0, 1)
        );
        assert_eq!(totals.goodput_bps, Some(2000.0));
    }
}
