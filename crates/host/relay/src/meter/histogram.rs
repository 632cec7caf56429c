//! Counts of durations, in the buckets that Prometheus reads.

use super::prometheus::Series;

/// Upper bounds in seconds: a network's round trips at the lower end, a long transfer at the upper.
const BOUNDS: [f64; 12] = [
    0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0, 30.0,
];

/// How many durations were at most as long as each bound.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Histogram {
    counts: [u64; BOUNDS.len()],
    count: u64,
    sum_s: f64,
}

impl Histogram {
    pub(super) fn add(&mut self, seconds: f64) {
        for (count, bound) in self.counts.iter_mut().zip(BOUNDS) {
            *count += u64::from(seconds <= bound);
        }
        self.count += 1;
        self.sum_s += seconds;
    }

    pub(super) fn write(&self, series: &mut Series<'_>) {
        for (count, bound) in self.counts.iter().zip(BOUNDS) {
            series.add("_bucket", &format!("le=\"{bound}\""), count);
        }
        series.add("_bucket", "le=\"+Inf\"", self.count);
        series.add("_sum", "", self.sum_s);
        series.add("_count", "", self.count);
    }
}
