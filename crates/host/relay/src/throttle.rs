//! A bound on what all clients of a listener move together.

use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::Context;
use std::time::Duration;

use tokio::time::{Instant, Sleep, sleep_until};
use units::Rate;

/// How far ahead of the rate a listener may be, beside what each byte stream moves in one turn: a pause
/// shorter than this would cost more than it evens out.
const AHEAD: Duration = Duration::from_millis(20);

/// One direction of a listener.
#[derive(Debug)]
pub(crate) struct Throttle {
    rate: Rate,
    /// When all that was moved so far would have left at the rate.
    even_at: Mutex<Instant>,
}

/// Both directions of a listener.
#[derive(Clone, Debug)]
pub(crate) struct Throttles {
    pub(crate) up: Arc<Throttle>,
    pub(crate) down: Arc<Throttle>,
}

/// What both directions of one connection owe.
pub(crate) struct Tolls {
    up: Toll,
    down: Toll,
}

/// What one direction of one connection owes.
struct Toll {
    throttle: Arc<Throttle>,
    booked: u64,
    /// Until the listener is even with its rate.
    wait: Option<Pin<Box<Sleep>>>,
}

// === impl Throttle ===

impl Throttle {
    fn new(rate: Rate) -> Self {
        Self {
            rate,
            even_at: Mutex::new(Instant::now()),
        }
    }

    /// Notes bytes that are moved, and returns when their mover may go on.
    pub(crate) fn book(&self, bytes: u64) -> Instant {
        let now = Instant::now();
        let took = self.time_of(bytes);
        // One number: valid whatever its holder was doing when it panicked.
        let mut even_at = self.even_at.lock().unwrap_or_else(PoisonError::into_inner);
        *even_at = (*even_at).max(now) + took;
        let due = *even_at;
        due.checked_sub(AHEAD).unwrap_or(due)
    }

    fn time_of(&self, bytes: u64) -> Duration {
        // The configuration refuses a rate of nothing.
        let bits_per_s = u128::from(self.rate.bits_per_s().max(1));
        let nanoseconds = u128::from(bytes) * 8 * 1_000_000_000 / bits_per_s;
        Duration::from_nanos(u64::try_from(nanoseconds).unwrap_or(u64::MAX))
    }

    /// Notes bytes that are about to be moved, and waits until they may be.
    pub(crate) async fn pay(&self, bytes: usize) {
        let due = self.book(u64::try_from(bytes).unwrap_or(u64::MAX));
        if due > Instant::now() {
            sleep_until(due).await;
        }
    }
}

// === impl Throttles ===

impl Throttles {
    /// Each direction bounded by `rate`; `None` without one.
    pub(crate) fn new(rate: Option<Rate>) -> Option<Self> {
        rate.map(|rate| Self {
            up: Arc::new(Throttle::new(rate)),
            down: Arc::new(Throttle::new(rate)),
        })
    }
}

// === impl Tolls ===

impl Tolls {
    pub(crate) fn new(throttles: &Throttles) -> Self {
        let toll = |throttle: &Arc<Throttle>| Toll {
            throttle: Arc::clone(throttle),
            booked: 0,
            wait: None,
        };
        Self {
            up: toll(&throttles.up),
            down: toll(&throttles.down),
        }
    }

    /// Whether each direction may move more, having moved so many bytes so far.
    pub(crate) fn poll(&mut self, context: &mut Context<'_>, up: u64, down: u64) -> (bool, bool) {
        (self.up.poll(context, up), self.down.poll(context, down))
    }
}

// === impl Toll ===

impl Toll {
    fn poll(&mut self, context: &mut Context<'_>, moved: u64) -> bool {
        if moved > self.booked {
            let due = self.throttle.book(moved - self.booked);
            self.booked = moved;
            if due > Instant::now() {
                self.wait = Some(Box::pin(sleep_until(due)));
            }
        }
        if let Some(wait) = &mut self.wait {
            if wait.as_mut().poll(context).is_pending() {
                return false;
            }
            self.wait = None;
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn movers_together_are_as_fast_as_the_rate() {
        let throttles = Throttles::new(Some(Rate::mbit_per_s(8))).unwrap();
        // Ahead of any clock, so that only what is booked counts.
        let even_at = Instant::now() + Duration::from_hours(1);
        *throttles.up.even_at.lock().unwrap() = even_at;
        let first = throttles.up.book(10_000);
        let last = (1..100).fold(first, |_, _| throttles.up.book(10_000));
        // 10 ms each, whoever moves them.
        assert_eq!(last - first, Duration::from_millis(990));
        // The other direction has a rate of its own.
        assert!(throttles.down.book(10_000) < last);
    }

    #[test]
    fn what_was_not_used_is_not_saved_up() {
        let throttle = Throttle::new(Rate::mbit_per_s(8));
        let long_ago = Instant::now() - Duration::from_secs(3);
        *throttle.even_at.lock().unwrap() = long_ago;
        let before = Instant::now();
        let due = throttle.book(500_000);
        assert!(due >= before + Duration::from_millis(500) - AHEAD);
    }

    #[test]
    fn no_number_of_bytes_is_too_much_to_count() {
        let throttle = Throttle::new(Rate::bit_per_s(1));
        assert!(throttle.time_of(u64::MAX) > Duration::from_secs(1 << 32));
    }
}
