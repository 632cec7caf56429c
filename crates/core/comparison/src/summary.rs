//! One arm's transfers in the numbers that tables and pictures show.

use std::collections::BTreeMap;

use record::lab::{self, Arm, Measure, Rfc6349};

use crate::evidence::{Measured, Rivals, bits};
use crate::statistics::{
    buffer_delay, harm, jain, median_interval, quantile, tcp_efficiency, transfer_time_ratio,
};

/// What an arm is measured against.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Frame {
    pub(crate) measure: Measure,
    /// Payload bytes that a transfer should move, where that is given.
    pub(crate) payload: Option<u64>,
    pub(crate) floor_s: Option<f64>,
    /// Payload bits per second above which nothing can come.
    pub(crate) ceiling_bps: Option<f64>,
    pub(crate) baseline_rtt_s: f64,
    /// Payload bytes of a full packet.
    pub(crate) full_payload: u32,
    pub(crate) seed: u64,
}

/// The name and what the field report says are the caller's to add.
pub(crate) fn arm(measured: &Measured, frame: &Frame) -> Arm {
    let times: Vec<f64> = measured.good().map(|transfer| transfer.seconds).collect();
    let rates: Option<Vec<f64>> = measured
        .good()
        .map(|transfer| transfer.goodput_bps(frame.payload))
        .collect();
    let rates = rates.unwrap_or_default();
    let steady: Vec<f64> = measured
        .good()
        .filter_map(|transfer| transfer.steady_bps)
        .collect();
    let counters = measured.counters();
    let median_s = quantile(&times, 0.5);
    let goodput_bps = quantile(&rates, 0.5);
    let share_of_floor = match frame.measure {
        Measure::Time => frame
            .floor_s
            .zip(median_s)
            .map(|(floor, time)| floor / time),
        Measure::Rate => {
            let both = goodput_bps.zip(frame.ceiling_bps);
            both.map(|(rate, ceiling)| rate / ceiling)
        }
    };
    Arm {
        name: String::new(),
        n: times.len() as u64,
        failed: (measured.transfers.len() - times.len()) as u64,
        median_s,
        p05_s: quantile(&times, 0.05),
        p95_s: quantile(&times, 0.95),
        max_s: quantile(&times, 1.0),
        ci95_s: median_interval(&times, frame.seed),
        goodput_bps,
        goodput_ci95_bps: median_interval(&rates, frame.seed),
        steady_bps: quantile(&steady, 0.5),
        share_of_floor,
        limits: measured.limits.clone(),
        legs: measured.legs.clone(),
        by_position_s: by_position(measured),
        rfc6349: rfc6349(measured, &counters, goodput_bps, frame),
        rivals: measured
            .rivals
            .as_ref()
            .map(|rivals| beside(rivals, goodput_bps)),
        samples_s: times,
        samples_bps: rates,
        reported_s: Vec::new(),
        reported_bps: Vec::new(),
        first_unprimed_s: measured
            .first_unprimed
            .as_ref()
            .filter(|transfer| transfer.failure.is_none())
            .map(|transfer| transfer.seconds),
        retransmissions: retransmissions(&counters, measured),
        counters,
        counters_by_run: measured.counters_by_run(),
        series: measured.series.clone(),
        invalid_blocks: measured.invalid_blocks,
        invalid_because: measured.invalid_because.clone(),
    }
}

/// What assertions on retransmissions speak of.
pub(crate) const fn retransmissions_per_transfer(arm: &Arm) -> Option<f64> {
    arm.retransmissions
}

/// Segments sent again per transfer; `None` where no host's kernel was asked.
fn retransmissions(counters: &BTreeMap<String, u64>, measured: &Measured) -> Option<f64> {
    let segments = retransmitted(counters)?;
    let transfers = measured.transfers.len() as u64;
    (transfers > 0).then(|| bits(segments) / bits(transfers))
}

/// Segments sent again by all hosts but rivals; `None` where no host counts them.
pub(crate) fn retransmitted(counters: &BTreeMap<String, u64>) -> Option<u64> {
    let values = counters.iter().filter_map(|(key, value)| {
        let (host, counter) = key.split_once(": ")?;
        (counter == "TcpRetransSegs" && host != "rival").then_some(*value)
    });
    values.reduce(u64::saturating_add)
}

fn by_position(measured: &Measured) -> Vec<f64> {
    let mut times: BTreeMap<usize, Vec<f64>> = BTreeMap::new();
    for transfer in measured.good() {
        let at = times.entry(transfer.position).or_default();
        at.push(transfer.seconds);
    }
    let medians = times.values().filter_map(|times| quantile(times, 0.5));
    medians.collect()
}

/// The metrics of RFC 6349 section 4.
///
/// The ideal transfer time is the payload at the path's rate less all headers, so that the ratio of times
/// is the inverse ratio of rates. Of the bytes transmitted, those of first transmissions are the payload
/// that arrived; those retransmitted are counted in segments by the kernel and taken as full ones, which
/// makes the efficiency a lower bound. The average RTT is that of the series.
fn rfc6349(
    measured: &Measured,
    counters: &BTreeMap<String, u64>,
    goodput_bps: Option<f64>,
    frame: &Frame,
) -> Option<Rfc6349> {
    let ratio = frame.ceiling_bps.zip(goodput_bps);
    let payload: u64 = measured
        .good()
        .map(|transfer| match transfer.bytes {
            0 => frame.payload.unwrap_or_default(),
            arrived => arrived,
        })
        .sum();
    let resent = retransmitted(counters).map(|segments| {
        let full = u64::from(frame.full_payload);
        bits(segments.saturating_mul(full))
    });
    let first = bits(payload);
    let rtts: Vec<f64> = measured
        .series
        .iter()
        .flat_map(|series| &series.points)
        .filter_map(|point| point.rtt_s)
        .collect();
    let metrics = Rfc6349 {
        transfer_time_ratio: ratio.and_then(|(ceiling, rate)| transfer_time_ratio(ceiling, rate)),
        tcp_efficiency: resent
            .filter(|_| payload > 0)
            .and_then(|resent| tcp_efficiency(first + resent, resent)),
        buffer_delay: mean(&rtts).and_then(|rtt| buffer_delay(rtt, frame.baseline_rtt_s)),
    };
    (metrics != Rfc6349::default()).then_some(metrics)
}

/// What an arm and the flows beside it did to each other. Where nobody counted the arm's flows one by
/// one, its goodput stands for a single one.
fn beside(rivals: &Rivals, goodput_bps: Option<f64>) -> lab::Rivals {
    let own_bps = if rivals.own_bps.is_empty() {
        goodput_bps.into_iter().collect()
    } else {
        rivals.own_bps.clone()
    };
    let all: Vec<f64> = own_bps.iter().chain(&rivals.beside_bps).copied().collect();
    let complete = !own_bps.is_empty() && !rivals.beside_bps.is_empty();
    let same_flows = rivals.alone_bps.len() == rivals.beside_bps.len();
    lab::Rivals {
        jain: complete.then(|| jain(&all)).flatten(),
        harm: same_flows
            .then(|| harm(&rivals.alone_bps, &rivals.beside_bps))
            .flatten(),
        alone_bps: rivals.alone_bps.clone(),
        beside_bps: rivals.beside_bps.clone(),
        own_bps,
    }
}

pub(crate) fn mean(values: &[f64]) -> Option<f64> {
    let count = bits(values.len() as u64) / 8.0;
    (!values.is_empty()).then(|| values.iter().sum::<f64>() / count)
}

#[cfg(test)]
mod tests {
    use record::lab::{Series, SeriesPoint};

    use super::*;
    use crate::Transfer;

    /// Four transfers of 1.448 MB in 2 s: 5.792 Mbit/s, where 11.584 would be possible.
    fn measured() -> (Measured, Frame) {
        let transfer = |position| Transfer {
            position,
            seconds: 2.0,
            bytes: 1_448_000,
            steady_bps: Some(6e6),
            ..Transfer::default()
        };
        let measured = Measured {
            transfers: (0..4).map(transfer).collect(),
            ..Measured::default()
        };
        let frame = Frame {
            measure: Measure::Time,
            payload: Some(1_448_000),
            floor_s: Some(1.5),
            ceiling_bps: Some(11.584e6),
            baseline_rtt_s: 0.1,
            full_payload: 1448,
            seed: 1,
        };
        (measured, frame)
    }

    fn near(value: Option<f64>, expected: f64) {
        let value = value.unwrap();
        assert!(
            (value - expected).abs() < 1e-9,
            "{value} instead of {expected}"
        );
    }

    #[test]
    fn times_and_rates_say_the_same() {
        let (measured, frame) = measured();
        let arm = arm(&measured, &frame);
        near(arm.goodput_bps, 5.792e6);
        near(arm.steady_bps, 6e6);
        near(arm.share_of_floor, 0.75);
        let rate = Frame {
            measure: Measure::Rate,
            ..frame
        };
        near(super::arm(&measured, &rate).share_of_floor, 0.5);
    }

    #[test]
    fn a_transfer_without_a_count_of_bytes_is_taken_at_what_was_asked() {
        let (mut measured, frame) = measured();
        measured.transfers[0].bytes = 0;
        near(arm(&measured, &frame).goodput_bps, 5.792e6);
        let unknown = Frame {
            payload: None,
            ..frame
        };
        let arm = arm(&measured, &unknown);
        assert_eq!((arm.goodput_bps, arm.samples_bps.len()), (None, 0));
    }

    #[test]
    fn the_metrics_of_rfc_6349_follow_from_counters_and_series() {
        let (mut measured, frame) = measured();
        assert_eq!(arm(&measured, &frame).rfc6349.unwrap().tcp_efficiency, None);
        // 80 of 4,000 segments again, at two hosts; a rival's do not count.
        let counted = |counters: &[(&str, u64)]| -> BTreeMap<String, u64> {
            let pairs = counters.iter();
            pairs
                .map(|(name, count)| ((*name).to_owned(), *count))
                .collect()
        };
        measured.transfers[0].counters = counted(&[
            ("client: TcpRetransSegs", 45),
            ("relay: TcpRetransSegs", 20),
            ("rival: TcpRetransSegs", 9_000),
        ]);
        measured.transfers[1].counters = counted(&[
            ("client: TcpRetransSegs", 15),
            ("client: TcpOutSegs", 5_000),
        ]);
        let point = |rtt_s| SeriesPoint {
            rtt_s,
            ..SeriesPoint::default()
        };
        measured.series = Some(Series {
            interval_s: 0.05,
            points: vec![point(Some(0.1)), point(None), point(Some(0.15))],
        });
        let arm = arm(&measured, &frame);
        let metrics = arm.rfc6349.as_ref().unwrap();
        near(metrics.transfer_time_ratio, 2.0);
        near(metrics.tcp_efficiency, 4_000.0 / 4_080.0);
        near(metrics.buffer_delay, 0.25);
        near(arm.retransmissions, 20.0);
        assert_eq!(arm.counters["client: TcpRetransSegs"], 60);
    }

    #[test]
    fn rivals_are_judged_with_the_arms_own_flow() {
        let (mut measured, frame) = measured();
        measured.rivals = Some(Rivals {
            alone_bps: vec![11.584e6],
            beside_bps: vec![5.792e6],
            own_bps: Vec::new(),
        });
        let rivals = arm(&measured, &frame).rivals.unwrap();
        near(rivals.harm, 0.5);
        near(rivals.jain, 1.0);
        assert_eq!(rivals.own_bps.len(), 1);
        measured.rivals = Some(Rivals {
            alone_bps: vec![1e6, 1e6],
            beside_bps: vec![1e6],
            own_bps: Vec::new(),
        });
        let rivals = arm(&measured, &frame).rivals.unwrap();
        assert_eq!(rivals.harm, None, "not the same flows");
    }
}
