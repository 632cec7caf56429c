//! From a sender's own clocks to the vocabulary of limits.

use record::flow::Sample;
use record::{LimitName, LimitSeconds};

/// RTT above the smallest from which the path's queue is taken for full of our own data.
const QUEUEING: f64 = 1.25;

/// Divides the time from opening to the last sample.
///
/// `TCP_INFO` keeps exact clocks for the peer's window, the send buffer and for having nothing to do
/// (`tcp_chrono` in `net/ipv4/tcp_output.c`). What remains was held by the congestion window; between two
/// samples it belongs to what the later one shows: repair, slow start, a queue of our own, or linear
/// growth. A sample that retransmits and still grows its window is repair: `loss-recovery` has
/// precedence.
pub(crate) fn of(samples: &[Sample]) -> LimitSeconds {
    let mut limits = LimitSeconds::new();
    let mut book = |name: LimitName, seconds: f64| {
        if seconds > 0.0 {
            *limits.entry(name).or_insert(0.0) += seconds;
        }
    };
    let mut before = &Sample::default();
    for sample in samples {
        let span = (sample.at_s - before.at_s).max(0.0);
        let (Some(busy), Some(rwnd), Some(sndbuf)) = (
            grown(sample.busy_s, before.busy_s),
            grown(sample.rwnd_limited_s, before.rwnd_limited_s),
            grown(sample.sndbuf_limited_s, before.sndbuf_limited_s),
        ) else {
            book(LimitName::Unknown, span);
            before = sample;
            continue;
        };
        // The clocks are read one after the other and have the grain of a jiffy.
        let busy = busy.min(span);
        let rwnd = rwnd.min(busy);
        let sndbuf = sndbuf.min(busy - rwnd);
        book(LimitName::ReceiveWindow, rwnd);
        book(LimitName::SendBuffer, sndbuf);
        book(LimitName::Application, span - busy);
        book(held_by_window(sample, before), busy - rwnd - sndbuf);
        before = sample;
    }
    limits
}

fn grown(now: Option<f64>, before: Option<f64>) -> Option<f64> {
    now.map(|now| (now - before.unwrap_or(0.0)).max(0.0))
}

fn held_by_window(sample: &Sample, before: &Sample) -> LimitName {
    let queueing = sample
        .min_rtt_s
        .is_some_and(|least| sample.rtt_s > least * QUEUEING);
    if sample.lost > 0 || sample.retransmits > before.retransmits {
        LimitName::LossRecovery
    } else if queueing {
        LimitName::Bottleneck
    } else if sample
        .ssthresh
        .is_none_or(|ssthresh| sample.cwnd < ssthresh)
    {
        LimitName::SlowStart
    } else {
        LimitName::CongestionAvoidance
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(at_s: f64, busy_s: f64) -> Sample {
        Sample {
            at_s,
            busy_s: Some(busy_s),
            rwnd_limited_s: Some(0.0),
            sndbuf_limited_s: Some(0.0),
            min_rtt_s: Some(0.1),
            rtt_s: 0.1,
            cwnd: 10,
            ..Sample::default()
        }
    }

    #[test]
    fn the_parts_sum_to_the_span() {
        let growing = sample(1.0, 0.75);
        let held = Sample {
            rwnd_limited_s: Some(0.5),
            sndbuf_limited_s: Some(0.25),
            ..sample(2.0, 1.75)
        };
        let repairing = Sample {
            retransmits: 3,
            ..held.clone()
        };
        let repairing = Sample {
            at_s: 3.0,
            busy_s: Some(2.75),
            ..repairing
        };
        let limits = of(&[growing, held, repairing]);
        let expected = [
            (LimitName::LossRecovery, 1.0),
            (LimitName::ReceiveWindow, 0.5),
            (LimitName::SlowStart, 1.0),
            (LimitName::SendBuffer, 0.25),
            (LimitName::Application, 0.25),
        ];
        assert_eq!(limits, LimitSeconds::from(expected));
    }

    #[test]
    fn a_queue_of_our_own_is_the_bottleneck_and_a_finite_threshold_ends_slow_start() {
        let queueing = Sample {
            rtt_s: 0.2,
            ..sample(1.0, 1.0)
        };
        assert_eq!(
            of(&[queueing]),
            LimitSeconds::from([(LimitName::Bottleneck, 1.0)])
        );
        let linear = Sample {
            ssthresh: Some(5),
            ..sample(1.0, 1.0)
        };
        assert_eq!(
            of(&[linear]),
            LimitSeconds::from([(LimitName::CongestionAvoidance, 1.0)])
        );
    }

    #[test]
    fn a_kernel_without_the_clocks_leaves_the_time_unknown() {
        let old = Sample {
            busy_s: None,
            ..sample(1.0, 0.0)
        };
        assert_eq!(of(&[old]), LimitSeconds::from([(LimitName::Unknown, 1.0)]));
    }
}
