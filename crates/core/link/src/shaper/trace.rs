use alloc::sync::Arc;
use alloc::vec::Vec;
use core::time::Duration;

use units::{Bytes, Rate, Time};

use crate::schedule::{MOST_OUTAGES, Schedule};

/// A link whose rate changes by the millisecond, as Mahimahi writes it: a line for every opportunity to
/// deliver 1500 bytes, holding its millisecond, in their order. The last line's millisecond is the
/// trace's length, after which it starts again.
///
/// An opportunity's bytes serve packets one after the other, several small ones or a part of a large one;
/// what no packet wants at that moment is gone (Netravali et al., USENIX ATC 2015; `link_queue.cc`).
#[derive(Clone, Debug, Eq, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Deserialize, serde::Serialize))]
#[cfg_attr(
    feature = "serde",
    serde(try_from = "Vec<(u64, u32)>", into = "Vec<(u64, u32)>")
)]
pub struct Trace {
    /// Milliseconds, ascending, and how many opportunities each has. Never empty; the last is not zero.
    slots: Arc<[(u64, u32)]>,
}

/// A text is no trace.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
pub enum InvalidTrace {
    /// A line does not hold a number.
    #[error("line {line} is not a whole number of milliseconds")]
    NoNumber {
        /// From 1.
        line: usize,
    },
    /// Time goes back.
    #[error("line {line} is earlier than the line before it")]
    NotAscending {
        /// From 1.
        line: usize,
    },
    /// It would start again at once, for ever.
    #[error("the trace lasts no time: its last line has to be above 0")]
    NoTime,
}

/// A trace under way.
#[derive(Debug)]
pub(crate) struct Player {
    trace: Trace,
    /// When the trace began.
    started_at: Time,
    place: Place,
    /// Bytes that the slot at `place` still carries.
    left: u64,
    /// An outage ends then.
    not_before: Time,
}

/// A slot of one of the trace's repetitions.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
struct Place {
    cycle: u64,
    slot: usize,
}

/// What an opportunity carries.
const OPPORTUNITY: u64 = 1500;

// === impl Trace ===

impl Trace {
    /// Reads a trace in Mahimahi's format. Empty lines are skipped.
    pub fn parse(text: &str) -> Result<Self, InvalidTrace> {
        let mut slots: Vec<(u64, u32)> = Vec::new();
        for (line, text) in (1..).zip(text.lines()) {
            let text = text.trim();
            if text.is_empty() {
                continue;
            }
            // Whoever needs more than 2^32 ms has no trace but a typing error.
            let stamp: u32 = text.parse().map_err(|_| InvalidTrace::NoNumber { line })?;
            let stamp = u64::from(stamp);
            match slots.last_mut() {
                Some(last) if last.0 == stamp => last.1 = last.1.saturating_add(1),
                Some(last) if last.0 > stamp => return Err(InvalidTrace::NotAscending { line }),
                _ => slots.push((stamp, 1)),
            }
        }
        Self::from_slots(slots)
    }

    fn from_slots(mut slots: Vec<(u64, u32)>) -> Result<Self, InvalidTrace> {
        // A slot without an opportunity could be waited for in vain.
        slots.retain(|&(_, count)| count > 0);
        let unsorted = slots.windows(2).position(|pair| pair[0].0 >= pair[1].0);
        if let Some(position) = unsorted {
            return Err(InvalidTrace::NotAscending { line: position + 2 });
        }
        match slots.last() {
            Some((1..=0xffff_ffff, _)) => Ok(Self {
                slots: slots.into(),
            }),
            _ => Err(InvalidTrace::NoTime),
        }
    }

    /// How long it is before it starts again.
    #[must_use]
    pub fn period(&self) -> Duration {
        Duration::from_millis(self.period_ms())
    }

    /// The rate it has on average over its length.
    #[must_use]
    pub fn mean_rate(&self) -> Rate {
        let opportunities: u64 = self.slots.iter().map(|&(_, count)| u64::from(count)).sum();
        Bytes::new(opportunities.saturating_mul(OPPORTUNITY))
            .checked_per(self.period())
            .unwrap_or(Rate::bit_per_s(u64::MAX))
    }

    fn period_ms(&self) -> u64 {
        self.slots.last().map_or(1, |&(stamp, _)| stamp)
    }

    fn time(&self, place: Place) -> Time {
        let stamp = self.slots.get(place.slot).map_or(0, |&(stamp, _)| stamp);
        let cycles = place.cycle.saturating_mul(self.period_ms());
        Time::from_millis(cycles.saturating_add(stamp))
    }

    fn bytes(&self, place: Place) -> u64 {
        let count = self.slots.get(place.slot).map_or(0, |&(_, count)| count);
        u64::from(count) * OPPORTUNITY
    }

    fn after(&self, place: Place) -> Place {
        if place.slot + 1 < self.slots.len() {
            Place {
                slot: place.slot + 1,
                ..place
            }
        } else {
            Place {
                cycle: place.cycle + 1,
                slot: 0,
            }
        }
    }

    /// The first slot that is not before `at`.
    fn find(&self, at: Time) -> Place {
        let stamp = at.as_nanos().div_ceil(1_000_000);
        // The end of one repetition and the start of the next are one moment, and the end comes first.
        let cycle = stamp.saturating_sub(1) / self.period_ms();
        let wanted = stamp - cycle * self.period_ms();
        let slot = self.slots.partition_point(|&(stamp, _)| stamp < wanted);
        Place { cycle, slot }
    }
}

#[cfg(feature = "serde")]
impl TryFrom<Vec<(u64, u32)>> for Trace {
    type Error = InvalidTrace;

    fn try_from(slots: Vec<(u64, u32)>) -> Result<Self, InvalidTrace> {
        Self::from_slots(slots)
    }
}

#[cfg(feature = "serde")]
impl From<Trace> for Vec<(u64, u32)> {
    fn from(trace: Trace) -> Self {
        trace.slots.to_vec()
    }
}

// === impl Player ===

impl Player {
    pub(crate) fn new(trace: Trace) -> Self {
        let place = Place { cycle: 0, slot: 0 };
        Self {
            left: trace.bytes(place),
            place,
            trace,
            started_at: Time::ZERO,
            not_before: Time::ZERO,
        }
    }

    /// Begins the trace again.
    pub(crate) fn restart(&mut self, now: Time) {
        self.place = Place { cycle: 0, slot: 0 };
        self.left = self.trace.bytes(self.place);
        self.started_at = now;
        self.not_before = now;
    }

    fn time(&self, place: Place) -> Time {
        self.started_at + self.trace.time(place).since(Time::ZERO)
    }

    /// The first slot that is not before `at`.
    fn find(&self, at: Time) -> Place {
        self.trace.find(Time::ZERO + at.since(self.started_at))
    }

    pub(crate) fn starts_at(&self, arrived_at: Time) -> Time {
        self.time(self.place_for(arrived_at))
    }

    /// What the slot that starts at `start_at` still carries.
    pub(crate) fn left_at(&mut self, start_at: Time) -> Bytes {
        self.move_to(start_at);
        Bytes::new(self.left)
    }

    pub(crate) fn serialise(
        &mut self,
        start_at: Time,
        bytes: Bytes,
        schedule: &mut Schedule,
    ) -> Time {
        self.move_to(start_at);
        let mut wanted = bytes.get();
        let mut outages = 0;
        loop {
            let at = self.time(self.place);
            if at == Time::MAX {
                return at;
            }
            if schedule.reach(at).is_held() {
                outages += 1;
                if outages == MOST_OUTAGES {
                    self.wait_until(Time::MAX);
                    return Time::MAX;
                }
                self.place = self.find(schedule.until());
                self.left = self.trace.bytes(self.place);
                continue;
            }
            outages = 0;
            let used = self.left.min(wanted);
            self.left -= used;
            wanted -= used;
            if wanted == 0 {
                return at;
            }
            self.place = self.trace.after(self.place);
            self.left = self.trace.bytes(self.place);
        }
    }

    pub(crate) fn wait_until(&mut self, at: Time) {
        self.not_before = self.not_before.max(at);
    }

    /// The first slot with bytes left that a packet can use which is first in line since `arrived_at`.
    fn place_for(&self, arrived_at: Time) -> Place {
        let from = arrived_at.max(self.not_before);
        let next = if self.left > 0 {
            self.place
        } else {
            self.trace.after(self.place)
        };
        if self.time(next) >= from {
            next
        } else {
            self.find(from)
        }
    }

    fn move_to(&mut self, start_at: Time) {
        let place = self.place_for(start_at);
        if place != self.place {
            self.place = place;
            self.left = self.trace.bytes(place);
        }
    }
}
