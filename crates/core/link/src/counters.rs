use alloc::boxed::Box;
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

/// Where the packets of one direction are, and what befell them on the way. All but `queued` and
/// `in_flight`, which are the present, only grow.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct LaneCounters {
    /// Offered by the driver.
    pub offered: Tally,
    /// Dropped by the policer, whose bucket held too few tokens.
    pub policed: Tally,
    /// Dropped because the queue was full.
    pub dropped: Tally,
    /// Dropped by the queue's management (`CoDel`, RED) before it was full.
    pub managed: Tally,
    /// Left the bottleneck while an [`Outage::Drop`](crate::Outage::Drop) lasted, and went nowhere.
    pub outage: Tally,
    /// Copies made by duplication: the only packets that come out without having been offered.
    pub duplicated: Tally,
    /// Lost behind the bottleneck, as the [`LossSpec`](crate::LossSpec) says.
    pub lost: Tally,
    /// Handed to the driver at the other end.
    pub delivered: Tally,
    /// Waiting for the bottleneck.
    pub queued: Tally,
    /// Under serialisation or on the wire.
    pub in_flight: Tally,
    /// Marked by the queue's management, whatever became of them later.
    pub marked: Tally,
    /// Of the delivered ones, those that were damaged.
    pub corrupted: Tally,
    /// Of the delivered ones, those that were taken out of their order by [`Reorder`](crate::Reorder).
    pub reordered: Tally,
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
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[error("packets are not conserved: {counters:?}")]
pub struct NotConserved {
    /// What does not add up.
    pub counters: Box<LaneCounters>,
}

// === impl Tally ===

impl Tally {
    pub(crate) const fn new(packets: u64, bytes: Bytes) -> Self {
        Self { packets, bytes }
    }

    /// What is left when `part` of it is gone. Where it never was there, what is left is more than any balance
    /// holds, and [`LaneCounters::check`] finds it: zero would hide it.
    pub(crate) fn less(self, part: Self) -> Self {
        let bytes = self.bytes.get().checked_sub(part.bytes.get());
        Self {
            packets: self.packets.checked_sub(part.packets).unwrap_or(u64::MAX),
            bytes: Bytes::new(bytes.unwrap_or(u64::MAX)),
        }
    }
}

impl Add for Tally {
    type Output = Self;

    /// Saturates: what is no balance any more does not become one by going round.
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
    /// in + duplicated = out + dropped by each stage + lost + queued + in flight, in packets and in bytes.
    pub fn check(&self) -> Result<(), NotConserved> {
        let dropped = self.policed + self.dropped + self.managed + self.outage;
        let accounted = self.delivered + dropped + self.lost + self.queued + self.in_flight;
        if accounted == self.offered + self.duplicated {
            Ok(())
        } else {
            Err(NotConserved {
                counters: Box::new(*self),
            })
        }
    }
}

// === impl PathCounters ===

impl PathCounters {
    /// [`LaneCounters::check`] of both directions; the direction that fails it.
    pub fn check(&self) -> Result<(), (Direction, NotConserved)> {
        Direction::BOTH.into_iter().try_for_each(|direction| {
            let lane = self.direction(direction).check();
            lane.map_err(|error| (direction, error))
        })
    }

    /// The counters of one direction.
    #[must_use]
    pub const fn direction(&self, direction: Direction) -> &LaneCounters {
        match direction {
            Direction::Forward => &self.forward,
            Direction::Backward => &self.backward,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tally(packets: u64) -> Tally {
        Tally::new(packets, Bytes::new(packets * 1_500))
    }

    #[test]
    fn a_packet_that_vanishes_is_found_in_its_direction() {
        let whole = LaneCounters {
            offered: tally(7),
            delivered: tally(4),
            queued: tally(3),
            ..LaneCounters::default()
        };
        let torn = LaneCounters {
            queued: tally(2),
            ..whole
        };
        let path = |forward, backward| PathCounters { forward, backward };
        assert_eq!(path(whole, whole).check(), Ok(()));
        let (direction, error) = path(whole, torn).check().unwrap_err();
        assert_eq!(direction, Direction::Backward);
        assert_eq!(*error.counters, torn);
    }

    #[test]
    fn what_is_taken_away_and_never_was_there_is_found_too() {
        assert_eq!(tally(3).less(tally(1)), tally(2));
        // Zero waiting packets would balance these books.
        let queued = tally(1).less(tally(2));
        let lane = LaneCounters {
            offered: tally(4),
            delivered: tally(4),
            queued,
            ..LaneCounters::default()
        };
        assert!(lane.check().is_err(), "{lane:?}");
    }
}
