//! What is known about the way to the origin, and what follows for parts and ranges.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use units::Rate;

/// S3's smallest part, the last one excepted.
pub(crate) const SMALLEST_PART: u64 = 5 << 20;
/// Parts begin at this size: below, the cost per request shows even on a LAN.
const USUAL_PART: u64 = 8 << 20;
const LARGEST_PART: u64 = 64 << 20;
/// S3's most parts.
const MOST_PARTS: u64 = 10_000;

/// Answers of which the fastest tells the round-trip time.
const ANSWERS: usize = 64;
/// The fastest of the last windows tells the rate.
const WINDOWS: usize = 64;
const WINDOW: Duration = Duration::from_millis(250);

/// Watches requests. The round-trip time is the shortest time from a request without a body to its answer, the
/// origin's own time included: for the question how much must be under way at once, that is the right one.
#[derive(Debug, Default)]
pub(crate) struct PathMeter {
    seen: Mutex<Seen>,
}

#[derive(Debug, Default)]
struct Seen {
    answers: VecDeque<Duration>,
    /// Bytes per window, of windows in which something moved from beginning to end.
    windows: VecDeque<u64>,
    current: Option<(Instant, u64)>,
}

/// How an object is cut, and how much of it is under way at once.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Plan {
    /// Bytes of a part or a range.
    pub(crate) part: u64,
    /// Parts at the same time.
    pub(crate) parallel: usize,
}

// === impl PathMeter ===

impl PathMeter {
    /// A request without a body was answered.
    pub(crate) fn answered(&self, after: Duration) {
        let mut seen = self.seen();
        if seen.answers.len() == ANSWERS {
            seen.answers.pop_front();
        }
        seen.answers.push_back(after);
    }

    /// Bytes of a body moved, in either direction.
    pub(crate) fn moved(&self, bytes: usize) {
        let bytes = u64::try_from(bytes).unwrap_or(u64::MAX);
        let now = Instant::now();
        let mut seen = self.seen();
        match seen.current {
            Some((began, sum)) if now - began < WINDOW => {
                seen.current = Some((began, sum.saturating_add(bytes)));
            }
            Some((began, sum)) => {
                // A window that ran into silence says nothing about the path.
                if now - began < 2 * WINDOW {
                    if seen.windows.len() == WINDOWS {
                        seen.windows.pop_front();
                    }
                    seen.windows.push_back(sum);
                }
                seen.current = Some((now, bytes));
            }
            None => seen.current = Some((now, bytes)),
        }
    }

    /// The shortest answer of late.
    pub(crate) fn rtt(&self) -> Option<Duration> {
        self.seen().answers.iter().min().copied()
    }

    /// The highest rate of late.
    pub(crate) fn rate(&self) -> Option<Rate> {
        let most = self.seen().windows.iter().max().copied()?;
        let per_second = u128::from(most) * 8 * 1000 / WINDOW.as_millis();
        Some(Rate::bit_per_s(u64::try_from(per_second).ok()?))
    }

    /// How to cut an object of `length` bytes within `memory` bytes and `most` requests at once.
    pub(crate) fn plan(&self, length: u64, memory: u64, most: usize) -> Plan {
        Plan::of(self.rtt(), self.rate(), length, memory, most)
    }

    fn seen(&self) -> MutexGuard<'_, Seen> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

// === impl Plan ===

impl Plan {
    /// A part is half of what the path holds, so that the round trip at its end costs little of the others; as
    /// many are under way as fill the path twice: once with what travels, once with what waits to be
    /// answered. And one more, which is being filled.
    fn of(
        rtt: Option<Duration>,
        rate: Option<Rate>,
        length: u64,
        memory: u64,
        most: usize,
    ) -> Self {
        let held = rtt
            .zip(rate)
            .and_then(|(rtt, rate)| rate.checked_mul(rtt))
            .map(units::Bytes::get);
        let least = length.div_ceil(MOST_PARTS).max(SMALLEST_PART);
        let fits = (memory / 2).max(SMALLEST_PART);
        let part = held
            .map_or(USUAL_PART, |held| (held / 2).next_multiple_of(1 << 20))
            .clamp(USUAL_PART, LARGEST_PART)
            .min(fits)
            .max(least);
        // Parts begin at chunks of encrypted objects.
        let part = part.next_multiple_of(1 << 16);
        // While nothing is known about the path, it may be long and wide.
        let wanted = held.map_or(u64::MAX, |held| (2 * held).div_ceil(part) + 2);
        let fitting = (memory / part).max(2);
        let parallel = usize::try_from(wanted.min(fitting)).unwrap_or(usize::MAX);
        Self {
            part,
            parallel: parallel.clamp(2, most.max(2)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn plan(rtt_ms: u64, mbit: u64, length: u64) -> Plan {
        Plan::of(
            Some(Duration::from_millis(rtt_ms)),
            Some(Rate::mbit_per_s(mbit)),
            length,
            64 << 20,
            32,
        )
    }

    #[test]
    fn a_long_fat_path_gets_larger_parts_and_more_of_them() {
        let near = plan(1, 100, 1 << 30);
        let far = plan(200, 1000, 1 << 30);
        assert_eq!((near.part, near.parallel), (8 << 20, 3));
        assert_eq!((far.part, far.parallel), (12 << 20, 5));
    }

    proptest! {
        #[test]
        fn memory_parts_and_their_number_stay_within_bounds(
            rtt_ms in 0_u64..2000, mbit in 1_u64..20_000, length in 0_u64..(5 << 40),
            memory in (16_u64 << 20)..(1 << 30), most in 2_usize..100,
        ) {
            let rate = Rate::mbit_per_s(mbit);
            let plan = Plan::of(Some(Duration::from_millis(rtt_ms)), Some(rate), length, memory, most);
            prop_assert!(plan.part >= SMALLEST_PART);
            prop_assert!(length.div_ceil(plan.part) <= MOST_PARTS);
            prop_assert!(plan.parallel >= 2 && plan.parallel <= most);
            // Only an object that S3's number of parts forces to larger ones may take more.
            let forced = length.div_ceil(MOST_PARTS) > memory / 2;
            prop_assert!(forced || plan.part * plan.parallel as u64 <= memory + (2 << 16));
        }
    }
}
