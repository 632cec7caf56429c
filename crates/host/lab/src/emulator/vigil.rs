//! How long before an arrival the driver stops sleeping.

use std::time::Duration;

use units::Time;

/// The last part of a wait is spent awake, because a timer wakes late even at real-time priority: by some
/// microseconds on a busy processor, by 50 and more on one that has to leave its idle state (measured, in a
/// virtual machine). So the part is as long as timers have lately been late.
#[derive(Debug)]
pub(super) struct Vigil {
    length: Duration,
    most: Duration,
    /// The arrival whose wait has been slept through up to the vigil.
    awake_for: Option<Time>,
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
        Self {
            length,
            most,
            awake_for: None,
        }
    }

    /// How long to sleep before `arrival`; zero where its vigil has begun.
    pub(super) fn sleep(&self, now: Time, arrival: Time) -> Duration {
        let wait = arrival.since(now);
        if self.awake_for == Some(arrival) {
            return Duration::ZERO;
        }
        wait.saturating_sub(self.length.min(wait / SHARE))
    }

    /// A wait ended by itself, at `now`. Was it the one for `arrival`, its vigil begins. One that ended for
    /// something else has its longest part before it: a driver that stayed awake for that would keep a processor
    /// from the endpoints for as long as a packet is on its way.
    pub(super) fn begin(&mut self, now: Time, arrival: Option<Time>) {
        self.awake_for = arrival.filter(|at| at.since(now) <= self.most);
    }

    /// A wait ended because there is something to do.
    pub(super) const fn break_off(&mut self) {
        self.awake_for = None;
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
        MS.saturating_sub(vigil.sleep(Time::ZERO, Time::ZERO + MS))
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
        let near = Time::ZERO + Duration::from_micros(40);
        assert_eq!(vigil.sleep(Time::ZERO, near), Duration::from_micros(30));
    }

    #[test]
    fn a_wait_that_ended_for_something_else_is_slept_on() {
        let mut vigil = Vigil::new(true);
        let arrival = Time::ZERO + 100 * MS;
        let sleep = vigil.sleep(Time::ZERO, arrival);
        assert_eq!(sleep + FIRST, 100 * MS);
        // A sample was due after half of it.
        let now = Time::ZERO + 50 * MS;
        vigil.begin(now, Some(arrival));
        assert_eq!(vigil.sleep(now, arrival) + FIRST, 50 * MS);
        let now = Time::ZERO + sleep;
        vigil.begin(now, Some(arrival));
        assert_eq!(vigil.sleep(now, arrival), Duration::ZERO);
        assert_eq!(vigil.sleep(now, arrival + MS), MS);
        vigil.break_off();
        assert!(vigil.sleep(now, arrival) > Duration::ZERO);
    }

    #[test]
    fn without_priority_there_is_no_vigil() {
        let mut vigil = Vigil::new(false);
        vigil.note_timer(MS);
        assert_eq!(awake(&vigil), Duration::ZERO);
    }
}
