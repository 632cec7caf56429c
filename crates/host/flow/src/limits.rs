//! From a sender's own clocks to the vocabulary of limits.

use std::time::Duration;

use limit::kernel::{Clocks, Reading};
use record::LimitSeconds;
use record::flow::Sample;

/// Divides the time from opening to the last sample.
pub(crate) fn of(samples: &[Sample]) -> LimitSeconds {
    let mut limits = LimitSeconds::new();
    let (mut before, mut before_at) = (Reading::default(), Duration::ZERO);
    for sample in samples {
        let (reading, at) = (reading(sample), seconds(sample.at_s));
        reading
            .since(&before, at.saturating_sub(before_at))
            .add_to(&mut limits);
        (before, before_at) = (reading, at);
    }
    limits
}

fn reading(sample: &Sample) -> Reading {
    let clocks = || {
        Some(Clocks {
            busy: seconds(sample.busy_s?),
            rwnd_limited: seconds(sample.rwnd_limited_s?),
            sndbuf_limited: seconds(sample.sndbuf_limited_s?),
        })
    };
    Reading {
        clocks: clocks(),
        rtt: seconds(sample.rtt_s),
        min_rtt: sample.min_rtt_s.map(seconds),
        cwnd: sample.cwnd,
        ssthresh: sample.ssthresh,
        lost: sample.lost,
        retransmissions: sample.retransmits,
    }
}

/// Samples hold what the kernel said, and that is never negative.
fn seconds(value: f64) -> Duration {
    Duration::try_from_secs_f64(value).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use record::LimitName;

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
