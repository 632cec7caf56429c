//! How often a host can be read without being a load on it.

use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

/// Stretches the time between readings so that watching costs at most a share of one core.
#[derive(Clone, Copy, Debug)]
pub struct Pace {
    interval: Duration,
    share: f64,
    spent: Duration,
}

/// A quarter more than measured: a reading may be dearer than the one before.
const MARGIN: f64 = 1.25;

// === impl Pace ===

impl Pace {
    /// Readings every `interval`, or less often where they would cost more than `share` of a core.
    #[must_use]
    pub fn new(interval: Duration, share: f64) -> Self {
        Self {
            interval,
            share,
            spent: cpu_time(),
        }
    }

    /// What this process has cost since the last call, and how long to wait from the last reading to the next.
    pub fn after_reading(&mut self) -> (Duration, Duration) {
        let now = cpu_time();
        let cost = now.saturating_sub(self.spent);
        self.spent = now;
        (cost, self.wait(cost))
    }

    fn wait(&self, cost: Duration) -> Duration {
        if self.share <= 0.0 {
            return self.interval;
        }
        let affordable = cost.mul_f64(MARGIN / self.share);
        self.interval.max(affordable)
    }
}

/// CPU time of all threads of this process.
fn cpu_time() -> Duration {
    let spent = clock_gettime(ClockId::ProcessCPUTime);
    let seconds = u64::try_from(spent.tv_sec).unwrap_or(0);
    Duration::new(seconds, u32::try_from(spent.tv_nsec).unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dear_readings_become_rare_and_cheap_ones_keep_their_interval() {
        let pace = Pace::new(Duration::from_secs(1), 0.05);
        assert_eq!(pace.wait(Duration::from_millis(10)), Duration::from_secs(1));
        assert_eq!(
            pace.wait(Duration::from_millis(100)),
            Duration::from_millis(2500)
        );
        let fixed = Pace::new(Duration::from_secs(1), 0.0);
        assert_eq!(fixed.wait(Duration::from_secs(9)), Duration::from_secs(1));
    }
}
