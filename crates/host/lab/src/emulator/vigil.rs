//! How long before an arrival the driver stops sleeping.

use std::time::Duration;

/// The last part of a wait is spent awake, because a timer wakes late even at real-time priority: by some
/// microseconds on a busy processor, by 50 and more on one that has to leave its idle state (measured, in a
/// virtual machine). So the part is as long as timers have lately been late.
#[derive(Debug)]
pub(super) struct Vigil {
    length: Duration,
    most: Duration,
}

const LEAST: Duration = Duration::from_micros(20);
const MOST: Duration = Duration::from_micros(200);
const FIRST: Duration = Duration::from_micros(60);
/// No more than this part of a wait is spent awake: packets in a row would keep a whole processor awake for
/// microseconds that nobody can see behind a queue, and the endpoints need it.
const SHARE: u32 = 4;
/// How slowly the vigil becomes shorter: one timer that was late is believed for about as many.
const PATIENCE: u32 = 32;

// === impl Vigil ===

impl Vigil {
    /// Without real-time priority there is none: it would only take the processor from the endpoints.
    pub(super) const fn new(realtime: bool) -> Self {
        let (length, most) = if realtime {
            (FIRST, MOST)
        } else {
            (Duration::ZERO, Duration::ZERO)
        };
        Self { length, most }
    }

    /// The part of `wait` to be slept.
    pub(super) fn sleep(&self, wait: Duration) -> Duration {
        wait.saturating_sub(self.length.min(wait / SHARE))
    }

    /// A timer woke the driver so much later than it was asked to.
    pub(super) fn note_timer(&mut self, late: Duration) {
        self.length = if late >= self.length {
            late + late / 4
        } else {
            let excess = self.length.saturating_sub(late);
            self.length.saturating_sub(excess / PATIENCE)
        }
        .max(LEAST)
        .min(self.most);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    /// The part of a wait of 1 ms that is spent awake.
    fn awake(vigil: &Vigil) -> Duration {
        MS.saturating_sub(vigil.sleep(MS))
    }

    #[test]
    fn the_vigil_follows_the_timers() {
        let mut vigil = Vigil::new(true);
        assert_eq!(awake(&vigil), FIRST);
        vigil.note_timer(Duration::from_micros(100));
        assert_eq!(awake(&vigil), Duration::from_micros(125));
        vigil.note_timer(MS);
        assert_eq!(awake(&vigil), MOST);
        for _ in 0..1000 {
            vigil.note_timer(Duration::from_micros(5));
        }
        assert_eq!(awake(&vigil), LEAST);
        let short = Duration::from_micros(40);
        assert_eq!(vigil.sleep(short), Duration::from_micros(30));
    }

    #[test]
    fn without_priority_there_is_no_vigil() {
        let mut vigil = Vigil::new(false);
        vigil.note_timer(MS);
        assert_eq!(vigil.sleep(MS), MS);
    }
}
