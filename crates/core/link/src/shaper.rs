mod trace;

use core::time::Duration;

use units::{Bytes, Rate, Time};

use crate::schedule::{MOST_OUTAGES, Schedule};
use crate::spec::DirectionSpec;

pub use trace::{InvalidTrace, Trace};

/// The bottleneck: serialises one packet after the other.
#[derive(Debug)]
pub(crate) enum Shaper {
    /// At the schedule's rate.
    Steady(Steady),
    /// As a trace says.
    Traced(trace::Player),
}

/// A rate, constant but for the schedule.
#[derive(Debug)]
pub(crate) struct Steady {
    /// Segments of one item that are serialised within this time may leave together.
    resolution: Duration,
    /// When the packet under serialisation is through, rounded up to the nanosecond.
    free_at: Time,
    /// By how much `free_at` was rounded up, in bits x 10^-9. Without it, 1500 bytes at 7 Gbit/s would
    /// take 1715 ns instead of 1714.29 and the rate would be 0.04 % low.
    rounded_up: u64,
    /// The last rate whose burst was computed, and that burst.
    burst: (Option<Rate>, Bytes),
}

// === impl Shaper ===

impl Shaper {
    /// `None` where a direction has no bottleneck: nothing ever waits there.
    pub(crate) fn new(spec: &DirectionSpec, resolution: Duration) -> Option<Self> {
        if let Some(trace) = &spec.trace {
            return Some(Self::Traced(trace::Player::new(trace.clone())));
        }
        let steady = Steady {
            resolution,
            free_at: Time::ZERO,
            rounded_up: 0,
            burst: (None, Bytes::new(u64::MAX)),
        };
        spec.has_bottleneck().then_some(Self::Steady(steady))
    }

    /// When a packet that is first in line since `arrived_at` starts to be serialised.
    #[inline]
    pub(crate) fn starts_at(&self, arrived_at: Time) -> Time {
        match self {
            Self::Steady(steady) => arrived_at.max(steady.free_at),
            Self::Traced(player) => player.starts_at(arrived_at),
        }
    }

    /// Segments of one item that start at `start_at` and leave together may be this long in sum; one
    /// always may leave.
    #[inline]
    pub(crate) fn burst(&mut self, start_at: Time, schedule: &Schedule) -> Bytes {
        match self {
            Self::Steady(steady) => steady.burst(schedule.settings().rate),
            Self::Traced(player) => player.left_at(start_at),
        }
    }

    /// Serialises `bytes` from `start_at`, which [`starts_at`](Self::starts_at) gave, and returns when the
    /// last bit is out.
    #[inline]
    pub(crate) fn serialise(
        &mut self,
        start_at: Time,
        bytes: Bytes,
        schedule: &mut Schedule,
    ) -> Time {
        match self {
            Self::Steady(steady) => steady.serialise(start_at, bytes, schedule),
            Self::Traced(player) => player.serialise(start_at, bytes, schedule),
        }
    }

    /// A trace begins again at `now`, and what was `held` waits no longer. A packet under serialisation keeps
    /// its time.
    pub(crate) fn restart(&mut self, now: Time, held: bool) {
        match self {
            Self::Steady(steady) if held => {
                steady.free_at = steady.free_at.min(now);
                steady.rounded_up = 0;
            }
            Self::Steady(_) => {}
            Self::Traced(player) => player.restart(now),
        }
    }

    /// Starts nothing before `at`.
    pub(crate) fn wait_until(&mut self, at: Time) {
        match self {
            Self::Steady(steady) => {
                steady.free_at = steady.free_at.max(at);
                steady.rounded_up = 0;
            }
            Self::Traced(player) => player.wait_until(at),
        }
    }
}

// === impl Steady ===

impl Steady {
    fn burst(&mut self, rate: Option<Rate>) -> Bytes {
        if self.burst.0 != rate {
            // So fast that the product overflows: every item may leave whole.
            let bytes = rate.and_then(|rate| rate.checked_mul(self.resolution));
            self.burst = (rate, bytes.unwrap_or(Bytes::new(u64::MAX)));
        }
        self.burst.1
    }

    fn serialise(&mut self, start_at: Time, bytes: Bytes, schedule: &mut Schedule) -> Time {
        // Only a packet that follows without a gap inherits what the one before was rounded by.
        let inherited = if start_at == self.free_at {
            self.rounded_up
        } else {
            0
        };
        let whole = u128::from(bytes.get()) * 8_000_000_000;
        let work = whole.saturating_sub(inherited.into());
        let rate = schedule.settings().rate.map_or(0, Rate::bits_per_s);
        // Dividing 64 bits is several times faster, and every packet's work fits.
        if let (Ok(work), true) = (u64::try_from(work), rate > 0) {
            let nanos = work.div_ceil(rate);
            let end_at = start_at + Duration::from_nanos(nanos);
            if end_at <= schedule.until() {
                self.rounded_up = nanos.saturating_mul(rate).saturating_sub(work);
                self.free_at = end_at;
                return end_at;
            }
        }
        self.serialise_through_changes(start_at, work, schedule)
    }

    #[cold]
    fn serialise_through_changes(
        &mut self,
        start_at: Time,
        mut work: u128,
        schedule: &mut Schedule,
    ) -> Time {
        let mut at = start_at;
        self.rounded_up = 0;
        let mut outages = 0;
        loop {
            let settings = schedule.reach(at);
            let until = schedule.until();
            let rate = match settings.rate {
                _ if settings.is_held() => 0,
                Some(rate) => u128::from(rate.bits_per_s()),
                None => break,
            };
            let needed = work.div_ceil(rate.max(1));
            let available = until.since(at).as_nanos();
            if rate > 0 && (needed <= available || until == Time::MAX) {
                self.rounded_up = u64::try_from(needed * rate - work).unwrap_or(0);
                at += Duration::from_nanos(u64::try_from(needed).unwrap_or(u64::MAX));
                break;
            }
            work = work.saturating_sub(available * rate);
            outages = if rate == 0 { outages + 1 } else { 0 };
            at = if outages < MOST_OUTAGES {
                until
            } else {
                Time::MAX
            };
            if at == Time::MAX {
                break;
            }
        }
        self.free_at = at;
        at
    }
}
