mod problems;

use alloc::vec::Vec;
use core::fmt;
use core::ops::RangeInclusive;
use core::time::Duration;

use units::{Bytes, LossRate, Rate};

use crate::fate::LossSpec;
use crate::jitter::Jitter;
use crate::policer::Policer;
use crate::queue::{Discipline, QueueLimit};
use crate::schedule::{Change, Outage};
use crate::shaper::Trace;

pub use problems::{InvalidPath, SpecError};

/// The way a packet goes.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub enum Direction {
    /// From the near end (client) to the far end (origin).
    Forward,
    /// From the far end to the near end.
    Backward,
}

/// A path between two ends: one direction each way, and the seed of everything random on it.
#[derive(Clone, Debug, Eq, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Deserialize, serde::Serialize))]
#[cfg_attr(feature = "serde", serde(deny_unknown_fields))]
pub struct PathSpec {
    /// From near to far.
    pub forward: DirectionSpec,
    /// From far to near.
    pub backward: DirectionSpec,
    /// Decides everything that is drawn; the two directions draw independently.
    pub seed: u64,
}

/// What one direction does to packets, stage by stage in the order in which they meet them. The default
/// does nothing to them at all.
#[derive(Clone, Debug, Eq, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Deserialize, serde::Serialize))]
#[cfg_attr(
    feature = "serde",
    serde(rename_all = "kebab-case", deny_unknown_fields)
)]
pub struct DirectionSpec {
    /// Drops what comes faster than it allows.
    pub policer: Option<Policer>,
    /// What may wait for the bottleneck. Means nothing without one.
    pub queue: QueueLimit,
    /// How the queue is managed.
    pub discipline: Discipline,
    /// The bottleneck's rate in IP bytes; without it, without a trace and without a schedule that needs
    /// one there is no bottleneck and nothing ever waits.
    pub rate: Option<Rate>,
    /// The bottleneck's rate by the millisecond, instead of `rate`.
    pub trace: Option<Trace>,
    /// Propagation delay after serialisation.
    pub one_way_delay: Duration,
    /// Delay that differs from packet to packet.
    pub jitter: Option<Jitter>,
    /// Whether jitter, and a schedule that shortens the delay, let packets overtake each other.
    pub order: Order,
    /// Packets taken out of their order.
    pub reorder: Option<Reorder>,
    /// Packets that arrive twice.
    pub duplicate: LossRate,
    /// Packets that are damaged on the way.
    pub corrupt: LossRate,
    /// Packets lost behind the bottleneck.
    pub loss: LossSpec,
    /// What changes over time.
    pub schedule: Vec<Change>,
}

/// Whether packets arrive in the order in which they left the bottleneck.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Deserialize, serde::Serialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "kebab-case"))]
pub enum Order {
    /// A packet waits for the one before it, as a link layer that delivers in order makes it.
    #[default]
    Kept,
    /// A packet arrives when its own delay is over.
    Free,
}

/// Some packets are taken out of their order, whatever [`Order`] says of the others.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Deserialize, serde::Serialize))]
#[cfg_attr(feature = "serde", serde(deny_unknown_fields))]
pub struct Reorder {
    /// How many.
    pub share: LossRate,
    /// Where to.
    pub shift: Shift,
}

/// How a reordered packet moves against the others.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Deserialize, serde::Serialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "kebab-case"))]
pub enum Shift {
    /// It takes longer by this, so that those behind it overtake it.
    Late(Duration),
    /// It takes less time by this, down to none, so that it overtakes those before it.
    Early(Duration),
}

/// Longest delay: an hour. Mars at its farthest is 22 minutes away.
const MAX_DELAY: Duration = Duration::from_hours(1);
/// Smallest queue in front of a bottleneck: one full Ethernet-sized packet.
const MIN_QUEUE: Bytes = Bytes::new(1500);

// === impl Direction ===

impl Direction {
    /// Both, in the order in which everything that covers both is listed.
    pub const BOTH: [Self; 2] = [Self::Forward, Self::Backward];

    /// The other one.
    #[must_use]
    pub const fn opposite(self) -> Self {
        match self {
            Self::Forward => Self::Backward,
            Self::Backward => Self::Forward,
        }
    }
}

impl fmt::Display for Direction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Forward => "forward",
            Self::Backward => "backward",
        })
    }
}

// === impl PathSpec ===

impl PathSpec {
    /// The same rate, queue and loss both ways, and half of `rtt` each way.
    #[must_use]
    pub fn symmetric(
        rtt: Duration,
        rate: Option<Rate>,
        queue: impl Into<QueueLimit>,
        loss: LossSpec,
        seed: u64,
    ) -> Self {
        let one_way_delay = rtt / 2;
        let forward = DirectionSpec {
            rate,
            queue: queue.into(),
            one_way_delay,
            loss,
            ..DirectionSpec::default()
        };
        // An odd nanosecond goes back, so that the two always sum to the RTT asked for.
        let backward = DirectionSpec {
            one_way_delay: rtt.saturating_sub(one_way_delay),
            ..forward.clone()
        };
        Self {
            forward,
            backward,
            seed,
        }
    }

    /// Between which bounds the round-trip time of an infinitely small packet may be at any moment of the
    /// schedule, its jitter at most twice the mean in each direction.
    #[must_use]
    pub fn rtt_range(&self) -> RangeInclusive<Duration> {
        let (forward, backward) = (self.forward.delay_range(), self.backward.delay_range());
        *forward.start() + *backward.start()..=*forward.end() + *backward.end()
    }

    /// The settings of one direction.
    #[must_use]
    pub const fn direction(&self, direction: Direction) -> &DirectionSpec {
        match direction {
            Direction::Forward => &self.forward,
            Direction::Backward => &self.backward,
        }
    }

    /// The round-trip time of an infinitely small packet: without jitter, and as it is before the
    /// schedule changes it.
    #[must_use]
    pub fn rtt(&self) -> Duration {
        self.forward.one_way_delay + self.backward.one_way_delay
    }

    /// Checks both directions and reports everything that is wrong at once.
    pub fn validate(&self) -> Result<(), InvalidPath> {
        let errors: Vec<_> = Direction::BOTH
            .into_iter()
            .flat_map(|direction| {
                let found = problems::of(self.direction(direction));
                found.into_iter().map(move |error| (direction, error))
            })
            .collect();
        if errors.is_empty() {
            Ok(())
        } else {
            Err(InvalidPath { errors })
        }
    }
}

// === impl DirectionSpec ===

impl DirectionSpec {
    /// Whether packets may ever have to wait: there is a rate, or a schedule that needs a queue.
    #[must_use]
    pub fn has_bottleneck(&self) -> bool {
        let needs_one =
            |change: &Change| change.rate.is_some() || change.outage == Some(Outage::Hold);
        self.rate.is_some() || self.trace.is_some() || self.schedule.iter().any(needs_one)
    }

    /// The rate at which the bottleneck serialises: as set, or the trace's mean.
    #[must_use]
    pub fn line_rate(&self) -> Option<Rate> {
        self.rate
            .or_else(|| self.trace.as_ref().map(Trace::mean_rate))
    }

    /// The rate that a long transfer cannot exceed: the smaller one of the bottleneck's and the policer's.
    /// A trace counts with its mean, a schedule with the highest rate that it ever sets.
    #[must_use]
    pub fn bottleneck_rate(&self) -> Option<Rate> {
        let scheduled = self.schedule.iter().filter_map(|change| change.rate).max();
        let line = self
            .line_rate()
            .map(|rate| scheduled.map_or(rate, |other| rate.max(other)));
        let policed = self.policer.map(|policer| policer.rate);
        match (line, policed) {
            (Some(line), Some(policed)) => Some(line.min(policed)),
            (one, other) => one.or(other),
        }
    }

    /// The rate at which packets come out that come in faster, where that is one rate at any moment.
    #[must_use]
    pub fn steady_rate(&self) -> Option<Rate> {
        let policed = self
            .policer
            .is_some_and(|policer| self.rate.is_none_or(|rate| policer.rate < rate));
        let varies = |change: &Change| change.rate.is_some() || change.outage.is_some();
        self.rate
            .filter(|_| !policed && !self.schedule.iter().any(varies))
    }

    fn delay_range(&self) -> RangeInclusive<Duration> {
        let scheduled = self
            .schedule
            .iter()
            .filter_map(|change| change.one_way_delay);
        let (mut least, mut most) = (self.one_way_delay, self.one_way_delay);
        for delay in scheduled {
            least = least.min(delay);
            most = most.max(delay);
        }
        let jitter = self
            .jitter
            .map_or(Duration::ZERO, |jitter| jitter.mean() * 2);
        least..=most + jitter
    }

    /// Whether a packet that the queue has room for may still not arrive, or not intact.
    #[must_use]
    pub fn is_lossy(&self) -> bool {
        let breaks = |change: &Change| change.loss.is_some() || change.outage.is_some();
        self.policer.is_some()
            || self.discipline != Discipline::DropTail
            || self.corrupt != LossRate::ZERO
            || self.loss != LossSpec::None
            || self.schedule.iter().any(breaks)
    }
}

impl Default for DirectionSpec {
    fn default() -> Self {
        Self {
            policer: None,
            queue: QueueLimit::Bytes(Bytes::ZERO),
            discipline: Discipline::DropTail,
            rate: None,
            trace: None,
            one_way_delay: Duration::ZERO,
            jitter: None,
            order: Order::Kept,
            reorder: None,
            duplicate: LossRate::ZERO,
            corrupt: LossRate::ZERO,
            loss: LossSpec::None,
            schedule: Vec::new(),
        }
    }
}
