use std::time::Duration;

/// How long after their due time packets were written, in steps of a microsecond up to 10 ms.
#[derive(Debug)]
pub(super) struct LatenessHistogram {
    counts: Vec<u64>,
    total: u64,
    worst: Duration,
}

const STEPS: usize = 10_000;

// === impl LatenessHistogram ===

impl LatenessHistogram {
    pub(super) fn new() -> Self {
        Self {
            counts: vec![0; STEPS],
            total: 0,
            worst: Duration::ZERO,
        }
    }

    pub(super) fn record(&mut self, late: Duration) {
        let step = usize::try_from(late.as_micros()).unwrap_or(usize::MAX);
        self.counts[step.min(STEPS - 1)] += 1;
        self.total += 1;
        self.worst = self.worst.max(late);
    }

    /// The lateness that this share of the packets stays below; the last step means "10 ms or more".
    pub(super) fn quantile(&self, per_cent: u64) -> Duration {
        let wanted = (self.total * per_cent).div_ceil(100);
        let mut seen = 0;
        for (step, count) in (0_u64..).zip(&self.counts) {
            seen += count;
            if seen >= wanted && seen > 0 {
                return Duration::from_micros(step + 1);
            }
        }
        Duration::ZERO
    }

    pub(super) const fn worst(&self) -> Duration {
        self.worst
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_upper_bounds_of_their_step() {
        let mut histogram = LatenessHistogram::new();
        assert_eq!(histogram.quantile(50), Duration::ZERO);
        for micros in 0..100 {
            histogram.record(Duration::from_micros(micros));
        }
        histogram.record(Duration::from_secs(1));
        assert_eq!(histogram.quantile(50), Duration::from_micros(51));
        assert_eq!(histogram.quantile(99), Duration::from_micros(100));
        assert_eq!(histogram.quantile(100), Duration::from_millis(10));
        assert_eq!(histogram.worst(), Duration::from_secs(1));
    }
}
