use std::time::Duration;

use crate::emulator::report::Lateness;

/// How long after their due time packets were written, in steps of a microsecond up to 10 ms.
#[derive(Clone, Debug)]
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
    fn quantile(&self, per_cent: u64) -> Duration {
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

    pub(super) fn summary(&self) -> Lateness {
        Lateness {
            writes: self.total,
            p50_s: self.quantile(50).as_secs_f64(),
            p99_s: self.quantile(99).as_secs_f64(),
            max_s: self.worst.as_secs_f64(),
        }
    }

    /// Adds what another one has recorded.
    pub(super) fn absorb(&mut self, other: &Self) {
        for (count, more) in self.counts.iter_mut().zip(&other.counts) {
            *count += more;
        }
        self.total += other.total;
        self.worst = self.worst.max(other.worst);
    }

    pub(super) fn clear(&mut self) {
        self.counts.fill(0);
        self.total = 0;
        self.worst = Duration::ZERO;
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
        assert_eq!(histogram.worst, Duration::from_secs(1));
    }

    #[test]
    fn two_histograms_are_one_when_one_absorbs_the_other() {
        let (mut early, mut late) = (LatenessHistogram::new(), LatenessHistogram::new());
        for micros in 0..60 {
            early.record(Duration::from_micros(micros));
        }
        for micros in 60..100 {
            late.record(Duration::from_micros(micros));
        }
        early.absorb(&late);
        assert_eq!(early.total, 100);
        assert_eq!(early.quantile(50), Duration::from_micros(50));
        assert_eq!(early.worst, Duration::from_micros(99));
        late.clear();
        assert_eq!((late.total, late.quantile(99)), (0, Duration::ZERO));
    }
}
