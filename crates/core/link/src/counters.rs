use core::fmt;
use core::ops::{Add, AddAssign};

use units::Bytes;

use crate::spec::Direction;

/// Packets and their IP bytes.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Tally {
    /// IP packets; a superpacket counts as those it stands for.
    pub packets: u64,
    /// Their IP bytes.
    pub bytes: Bytes,
}

/// Where the packets of one direction are. The first four only grow, the last two are the present.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct LaneCounters {
    /// Offered by the driver.
    pub offered: Tally,
    /// Dropped because the queue was full.
    pub dropped: Tally,
    /// Lost behind the bottleneck, as the [`LossSpec`](crate::LossSpec) says.
    pub lost: Tally,
    /// Handed to the driver at the other end.
    pub delivered: Tally,
    /// Waiting for the bottleneck.
    pub queued: Tally,
    /// Under serialisation or on the wire.
    pub in_flight: Tally,
    /// The most bytes that ever waited.
    pub queue_peak: Bytes,
}

/// Both directions.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct PathCounters {
    /// From near to far.
    pub forward: LaneCounters,
    /// From far to near.
    pub backward: LaneCounters,
}

/// Packets appeared or vanished inside the model: a bug of ours.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
#[error("packets are not conserved: {counters:?}")]
pub struct NotConserved {
    /// What does not add up.
    pub counters: LaneCounters,
}

// === impl Tally ===

impl Tally {
    pub(crate) const fn new(packets: u64, bytes: Bytes) -> Self {
        Self { packets, bytes }
    }
}

impl Add for Tally {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self {
            packets: self.packets.saturating_add(other.packets),
            bytes: self.bytes + other.bytes,
        }
    }
}

impl AddAssign for Tally {
    fn add_assign(&mut self, other: Self) {
        *self = *self + other;
    }
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} packets ({})", self.packets, self.bytes)
    }
}

// === impl LaneCounters ===

impl LaneCounters {
    /// in = out + dropped + lost + queued + in flight, in packets and in bytes.
    pub fn check(&self) -> Result<(), NotConserved> {
        let accounted = self.delivered + self.dropped + self.lost + self.queued + self.in_flight;
        if accounted == self.offered {
            Ok(())
        } else {
            Err(NotConserved { counters: *self })
        }
    }
}

// === impl PathCounters ===

impl PathCounters {
    /// The counters of one direction.
    #[must_use]
    pub const fn direction(&self, direction: Direction) -> &LaneCounters {
        match direction {
            Direction::Forward => &self.forward,
            Direction::Backward => &self.backward,
        }
    }
}
