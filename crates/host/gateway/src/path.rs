//! What is known about the way to the origin, and what follows for parts and ranges.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use envelope::CHUNK;
use units::Rate;

/// S3's smallest part, the last one excepted.
pub(crate) const SMALLEST_PART: u64 = 5 << 20;
/// Below this a range's request costs more than its bytes.
pub(crate) const SMALLEST_RANGE: u64 = 128 << 10;
/// Over a long path no more is asked for before an object's length is known.
pub(crate) const FIRST_RANGE: u64 = 1 << 20;
/// From here on an object is read by as many connections as a long path is worth.
pub(crate) const LARGE: u64 = 16 << 20;
/// From here on a path is long: over less, what a request costs is not the round trip.
pub(crate) const LONG: Duration = Duration::from_millis(20);
/// Over a long path so many bytes in flight are worth a connection of their own. One that has rested begins with ten packets, and
/// each more shortens the time until all of them together fill the path; each needs a smaller window for it, too, before the
/// store's kernel ends its slow start because others have filled a queue (HyStart).
const PER_READER: u64 = 128 << 10;
/// Parts begin at this size where few are needed: below, the cost per request shows even on a LAN.
const USUAL_PART: u64 = 8 << 20;
/// Over a short path no more than this is asked for and not delivered.
const SHORT_MEMORY: u64 = 96 << 20;
/// Over a short path nothing more is asked for while so much waits for the client: what comes from a processor's cache costs less
/// than what has to come from memory, and memory that was used before less than what the kernel has to find.
const SHORT_WAITING: u64 = 4 << 20;
/// The golden section's share of 2^64.
const GOLDEN: u64 = 0x9E37_79B9_7F4A_7C15;
const LARGEST_PART: u64 = 64 << 20;
/// S3's most parts.
const MOST_PARTS: u64 = 10_000;
/// What one connection holds in flight, at most: Linux' `tcp_wmem` ends at 4 MiB and `tcp_rmem` at 6 MiB, and
/// both count what packets cost beside their payload.
const FLIGHT: u64 = 3 << 20;
/// What a path is taken for until it has shown its rate.
const UNKNOWN: Rate = Rate::mbit_per_s(1000);

/// No more ranges at once over a path whose rate nobody knows: so many connections with ten packets each do not overflow one of
/// 20 Mbit/s and 200 ms, and what is lost in the beginning keeps windows small for long.
const UNKNOWN_READERS: u64 = 48;

/// Answers of which the fastest tells the round-trip time.
const ANSWERS: usize = 64;
/// The last windows tell the rate.
const WINDOWS: usize = 64;
const WINDOW: Duration = Duration::from_millis(250);
/// In its first round trips a transfer's connections open their windows, and what moves says nothing about the path.
const OPENING: u32 = 6;
/// So many together: a single one holds what came in a burst.
const TOGETHER: usize = 4;
/// Fewer windows are a transfer that is still beginning.
const BELIEVED: usize = 8;

/// Watches requests. The round-trip time is the shortest time from a request without a body to its answer, the
/// origin's own time included: for the question how much must be under way at once, that is the right one. The
/// rate is that of parts and ranges while they, and not the client, were what was waited for, and their connections had opened
/// their windows: a client's 1 MiB over a long path moves at a few per cent of what the path carries, 16 MiB at a tenth.
#[derive(Debug, Default)]
pub(crate) struct PathMeter {
    /// What the path is said to carry.
    said: Option<Rate>,
    seen: Mutex<Seen>,
}

#[derive(Debug, Default)]
struct Seen {
    answers: VecDeque<Duration>,
    /// Bytes per window, of windows that the path held up and in which something moved from beginning to end.
    windows: VecDeque<u64>,
    current: Option<Window>,
}

/// A quarter of a second.
#[derive(Debug)]
struct Window {
    began: Instant,
    bytes: u64,
    /// Whether somebody waited for the path meanwhile.
    waited: bool,
}

/// What a connection has in flight, and so brings in a round trip, by what it brought of late.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Flight {
    /// Bytes, surely.
    pub(crate) sure: u64,
    /// Whether it may be twice that by now.
    pub(crate) grows: bool,
}

/// How an object is cut, and how much of it is under way at once.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Plan {
    /// Bytes of a part, or of a range at most.
    pub(crate) part: u64,
    /// By how many bytes parts may be shorter.
    pub(crate) spread: u64,
    /// Bytes of the range that is asked for before the object's length is known: smaller objects take one request.
    pub(crate) first: u64,
    /// Bytes that each of so many ranges has in flight when together they just fill the path; none is shorter, near the end.
    pub(crate) least: u64,
    /// Parts at the same time.
    pub(crate) parallel: usize,
    /// Bytes that may be asked for and not delivered.
    pub(crate) memory: u64,
    /// Nothing more is asked for while so many bytes, where that is bounded, are here and wait for the client.
    pub(crate) waiting: Option<u64>,
}

// === impl PathMeter ===

impl PathMeter {
    /// Of a path that is said to carry so much.
    pub(crate) fn new(said: Option<Rate>) -> Self {
        Self {
            said,
            seen: Mutex::default(),
        }
    }

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
        if let Some(window) = &mut seen.current
            && now - window.began < WINDOW
        {
            window.bytes = window.bytes.saturating_add(bytes);
            return;
        }
        let next = Window {
            began: now,
            bytes,
            waited: false,
        };
        // A window that ran into silence says nothing about the path.
        if let Some(window) = seen.current.replace(next)
            && window.waited
            && now - window.began < 2 * WINDOW
        {
            if seen.windows.len() == WINDOWS {
                seen.windows.pop_front();
            }
            seen.windows.push_back(window.bytes);
        }
    }

    /// Somebody had to wait for parts or ranges, whose transfer began so long ago and has more to ask for.
    pub(crate) fn waited(&self, began: Duration) {
        let opened = self.rtt().is_none_or(|rtt| began >= OPENING * rtt);
        if let Some(window) = &mut self.seen().current
            && opened
        {
            window.waited = true;
        }
    }

    /// The shortest answer of late.
    pub(crate) fn rtt(&self) -> Option<Duration> {
        self.seen().answers.iter().min().copied()
    }

    /// The rate that a quarter of the seconds of late reached, once it is known: single windows hold what came together after a
    /// stall, or show the beginning of a transfer. Until then what the path is said to carry.
    pub(crate) fn rate(&self) -> Option<Rate> {
        let seen = self.seen();
        if seen.windows.len() < BELIEVED {
            return self.said;
        }
        let windows: Vec<u64> = seen.windows.iter().copied().collect();
        let mut seconds: Vec<u64> = windows
            .rchunks_exact(TOGETHER)
            .map(|windows| windows.iter().sum())
            .collect();
        seconds.sort_unstable();
        let reached = seconds.get(seconds.len() * 3 / 4).copied()?;
        let time = WINDOW.as_millis() * TOGETHER as u128;
        let per_second = u128::from(reached) * 8 * 1000 / time;
        Some(Rate::bit_per_s(u64::try_from(per_second).ok()?))
    }

    /// How to cut an object of `length` bytes on its way to the origin, within `memory` bytes and `most` requests at
    /// once.
    pub(crate) fn parts(&self, length: u64, memory: u64, most: usize) -> Plan {
        Plan::parts(self.rtt(), self.rate(), length, memory, most)
    }

    /// As [`PathMeter::parts`], on the way back, of an object whose length nobody knows yet.
    pub(crate) fn ranges(&self, memory: u64, most: usize) -> Plan {
        Plan::ranges(self.rtt(), self.rate(), memory, most)
    }

    fn seen(&self) -> MutexGuard<'_, Seen> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

// === impl Plan ===

impl Plan {
    fn parts(
        rtt: Option<Duration>,
        rate: Option<Rate>,
        length: u64,
        memory: u64,
        most: usize,
    ) -> Self {
        let memory = worth(rtt, memory);
        let least = length
            .div_ceil(MOST_PARTS)
            .max(SMALLEST_PART)
            .next_multiple_of(CHUNK);
        let held = held(rtt, rate);
        Self::of(held, lanes(held, memory), least, memory, most)
    }

    /// Many short ones: what others bring meanwhile waits for the slowest. Together they are a little longer than what the path
    /// holds: what is asked for beyond that waits in its queue, and is lost where the queue is shorter. Windows that are not filled
    /// stop growing.
    fn ranges(rtt: Option<Duration>, rate: Option<Rate>, memory: u64, most: usize) -> Self {
        let memory = worth(rtt, memory);
        let held = held(rtt, rate);
        let lanes = held.map_or(memory / USUAL_PART, |held| held / PER_READER + 2);
        let lanes = lanes.min(rate.map_or(UNKNOWN_READERS, |_| u64::MAX));
        let plan = Self::of(held, lanes, SMALLEST_RANGE, memory, most);
        // Over a short path a request costs more than what waits.
        let Some(held) = held.filter(|_| rtt >= Some(LONG)) else {
            return plan;
        };
        let together = (held / 10 * 16).min(memory / 5 * 4);
        let all = plan.parallel as u64;
        let part = (together / all).clamp(SMALLEST_RANGE, plan.part);
        Self {
            part,
            first: plan.first.min(FIRST_RANGE),
            least: (held / all).clamp(SMALLEST_RANGE, part),
            waiting: None,
            ..plan
        }
    }

    /// Whether a connection of this flight, as far as it is known, brings much less than its share of what fills the path.
    pub(crate) fn is_little(&self, flight: Option<Flight>) -> bool {
        flight.is_none_or(|flight| flight.sure < self.least / 2)
    }

    /// Whether the path is long: nothing bounds what waits then but memory.
    pub(crate) fn is_long(&self) -> bool {
        self.waiting.is_none()
    }

    /// Bytes that all connections have in flight when together they just fill the path.
    pub(crate) fn held(&self) -> u64 {
        self.least * self.parallel as u64
    }

    /// Round trips in which the path carries so many bytes.
    pub(crate) fn round_trips(&self, bytes: u64) -> u64 {
        bytes / self.held()
    }

    /// Bytes of the part of this number: the parts under way must not all come to their end, and wait for their answers, at the
    /// same time.
    pub(crate) fn part_length(&self, number: u64) -> u64 {
        // Steps of the golden section come back to no length soon.
        let share = u128::from(number.wrapping_mul(GOLDEN));
        let less = (u128::from(self.spread / CHUNK) * share) >> 64;
        self.part - u64::try_from(less).unwrap_or(0) * CHUNK
    }

    /// A part is half of what the path holds, so that the round trip at its end costs little of the others, unless
    /// the others leave less memory for it.
    fn of(held: Option<u64>, lanes: u64, least: u64, memory: u64, most: usize) -> Self {
        let most = u64::try_from(most).unwrap_or(u64::MAX);
        let lanes = lanes.min(most).min(memory / least).max(2);
        let wanted = held.map_or(USUAL_PART, |held| (held / 2).next_multiple_of(1 << 20));
        let part = wanted.clamp(USUAL_PART, LARGEST_PART).min(memory / lanes);
        // Parts begin at chunks of encrypted objects.
        let part = (part / CHUNK * CHUNK).max(least);
        Self {
            part,
            spread: (part - least).min(part / 2),
            first: part,
            least: SMALLEST_RANGE.min(part),
            parallel: usize::try_from(lanes).unwrap_or(usize::MAX),
            memory,
            waiting: Some(SHORT_WAITING),
        }
    }
}

/// So much of `memory` as the path is worth: a short one, or one that nobody has seen yet, needs little.
fn worth(rtt: Option<Duration>, memory: u64) -> u64 {
    let long = rtt >= Some(LONG);
    if long {
        memory
    } else {
        memory.min(SHORT_MEMORY)
    }
}

/// Bytes that the path holds.
fn held(rtt: Option<Duration>, rate: Option<Rate>) -> Option<u64> {
    let held = rate.unwrap_or(UNKNOWN).checked_mul(rtt?)?;
    Some(held.get())
}

/// As many as fill the path twice, each with what one connection holds: once with what travels, once with what waits
/// to be answered or asked for. And one more, which is being filled.
fn lanes(held: Option<u64>, memory: u64) -> u64 {
    held.map_or(memory / USUAL_PART, |held| {
        held.saturating_mul(2).div_ceil(FLIGHT) + 1
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const MEMORY: u64 = 96 << 20;

    fn known(rtt_ms: u64, mbit: u64) -> (Option<Duration>, Option<Rate>) {
        let rtt = Duration::from_millis(rtt_ms);
        (Some(rtt), Some(Rate::mbit_per_s(mbit)))
    }

    #[test]
    fn a_long_fat_path_gets_more_parts_at_once() {
        let (rtt, rate) = known(1, 100);
        let near = Plan::parts(rtt, rate, 1 << 30, MEMORY, 32);
        assert_eq!((near.part, near.parallel), (8 << 20, 2));
        let (rtt, rate) = known(200, 1000);
        let far = Plan::parts(rtt, rate, 1 << 30, MEMORY, 32);
        // 25 MB twice, 3 MiB each, and one.
        assert_eq!(far.parallel, 17);
        assert!(far.part >= SMALLEST_PART);
        let back = Plan::ranges(rtt, rate, MEMORY, 32);
        assert_eq!(back.parallel, 32);
        // 25 MB and six tenths of that are under way, or four fifths of the memory: the rest is for what waits for the slowest.
        assert_eq!(back.part, 40_000_000 / 32);
        let back = Plan::ranges(rtt, rate, MEMORY, 64);
        assert_eq!((back.part, back.parallel), (40_000_000 / 64, 64));
        assert_eq!((back.first, back.least), (FIRST_RANGE, 25_000_000 / 64));
        let back = Plan::ranges(rtt, rate, MEMORY / 4, 64);
        assert_eq!((back.part, back.parallel), (MEMORY / 4 / 5 * 4 / 64, 64));
        assert_eq!(back.least, back.part);
        let (rtt, rate) = known(1, 1000);
        let near = Plan::ranges(rtt, rate, MEMORY, 64);
        assert_eq!((near.part, near.first), (USUAL_PART, USUAL_PART));
        assert_eq!((near.waiting, back.waiting), (Some(SHORT_WAITING), None));
        let (rtt, _) = known(200, 1000);
        assert_eq!(Plan::ranges(rtt, None, 4 * MEMORY, 192).parallel, 48);
        assert_eq!(Plan::ranges(rtt, rate, 4 * MEMORY, 192).parallel, 192);
        let unknown = Plan::ranges(None, None, MEMORY, 64);
        assert_eq!((unknown.part, unknown.first), (USUAL_PART, USUAL_PART));
    }

    #[test]
    fn parts_differ_within_their_bounds() {
        for (rtt, rate) in [known(200, 1000), known(1, 100), (None, None)] {
            for length in [1 << 30, 5 << 40] {
                let plan = Plan::parts(rtt, rate, length, MEMORY, 32);
                let lengths: Vec<u64> = (1..=1000).map(|number| plan.part_length(number)).collect();
                let least = SMALLEST_PART.max(length.div_ceil(MOST_PARTS));
                assert!(lengths.iter().all(|length| {
                    (least.max(plan.part / 2)..=plan.part).contains(length)
                        && length.is_multiple_of(CHUNK)
                }));
                let differ = lengths[..16].windows(2).filter(|two| two[0] != two[1]);
                assert_eq!(
                    differ.count() > 10,
                    plan.part > least.next_multiple_of(CHUNK)
                );
            }
        }
    }

    #[test]
    fn only_what_the_path_held_up_tells_its_rate() {
        let said = Some(Rate::mbit_per_s(1));
        let meter = PathMeter::new(said);
        let began = Instant::now();
        for number in 0..20 {
            let mut seen = meter.seen();
            // As if a quarter of a second had passed each time.
            seen.current = Some(Window {
                began: began.checked_sub(WINDOW).unwrap(),
                bytes: 1_000_000 + number,
                waited: number >= 12,
            });
            drop(seen);
            assert_eq!(meter.rate(), said);
            meter.moved(1);
        }
        // 1,000,012 to 1,000,019 bytes in a quarter of a second each, and one second of the two has the last four of them.
        assert_eq!(meter.rate(), Some(Rate::bit_per_s(32_000_560)));
    }

    #[test]
    fn what_a_transfer_moves_in_its_beginning_is_not_the_paths_rate() {
        let meter = PathMeter::default();
        let rtt = Duration::from_millis(200);
        let waited = |began| {
            meter.moved(1);
            meter.waited(began);
            let mut seen = meter.seen();
            seen.current.take().unwrap().waited
        };
        assert!(waited(Duration::ZERO), "no path is known");
        meter.answered(rtt);
        assert!(!waited((OPENING - 1) * rtt));
        assert!(waited(OPENING * rtt));
    }

    proptest! {
        #[test]
        fn memory_parts_and_their_number_stay_within_bounds(
            rtt_ms in 0_u64..2000, mbit in 1_u64..20_000, length in 0_u64..(5 << 40),
            memory in (16_u64 << 20)..(1 << 30), most in 2_usize..100, known_rate: bool, known_rtt: bool,
        ) {
            let (rtt, rate) = known(rtt_ms, mbit);
            let (rtt, rate) = (rtt.filter(|_| known_rtt), rate.filter(|_| known_rate));
            let plan = Plan::parts(rtt, rate, length, memory, most);
            prop_assert!(plan.part >= SMALLEST_PART);
            prop_assert!(length.div_ceil(plan.part) <= MOST_PARTS);
            prop_assert!(plan.parallel >= 2 && plan.parallel <= most);
            // Only an object that S3's number of parts forces to larger ones may take more.
            let forced = length.div_ceil(MOST_PARTS) > memory / 2 - CHUNK;
            prop_assert!(forced || plan.part * plan.parallel as u64 <= memory);
            let plan = Plan::ranges(rtt, rate, memory, most);
            prop_assert!(plan.part >= SMALLEST_RANGE && plan.part * plan.parallel as u64 <= memory);
            prop_assert!((SMALLEST_RANGE..=plan.part).contains(&plan.least));
            prop_assert!(plan.parallel >= 2 && plan.parallel <= most);
        }
    }
}
