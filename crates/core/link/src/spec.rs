use alloc::vec::Vec;
use core::fmt;
use core::time::Duration;

use units::{Bytes, LossRate, Rate};

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
pub struct PathSpec {
    /// From near to far.
    pub forward: DirectionSpec,
    /// From far to near.
    pub backward: DirectionSpec,
    /// Decides which packets a [`LossSpec::Bernoulli`] loses; the two directions draw independently.
    pub seed: u64,
}

/// What one direction does to packets.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct DirectionSpec {
    /// The bottleneck's rate in IP bytes; `None` serialises in no time, so nothing ever queues.
    pub rate: Option<Rate>,
    /// IP bytes that may wait for the bottleneck; what does not fit is dropped at the tail. The packet
    /// under serialisation has left the queue.
    pub queue: Bytes,
    /// Propagation delay after serialisation.
    pub one_way_delay: Duration,
    /// Packets lost behind the bottleneck.
    pub loss: LossSpec,
}

/// Which packets of a direction are lost, by their index (from 0) among the packets offered to it.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub enum LossSpec {
    /// None.
    #[default]
    None,
    /// Each independently with this probability, decided by the path's seed.
    Bernoulli(LossRate),
    /// Exactly these indices, ascending.
    Listed(Vec<u64>),
}

/// Longest one-way delay: an hour. Mars at its farthest is 22 minutes away.
const MAX_DELAY: Duration = Duration::from_hours(1);
/// Smallest queue in front of a bottleneck: one full Ethernet-sized packet.
const MIN_QUEUE: Bytes = Bytes::new(1500);

/// A path's settings contradict each other or the model.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub struct InvalidPath {
    /// Everything found, with the direction it was found in.
    pub errors: Vec<(Direction, SpecError)>,
}

/// One thing wrong with one direction.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
pub enum SpecError {
    /// Nothing would ever arrive.
    #[error("the rate is zero; leave it out for a path without a bottleneck")]
    ZeroRate,
    /// Any two packets in a row would lose one.
    #[error("the queue of {queue} holds no full packet; give it at least {MIN_QUEUE}")]
    QueueBelowOnePacket {
        /// As asked.
        queue: Bytes,
    },
    /// A typing error, most likely.
    #[error("the one-way delay is longer than an hour")]
    DelayTooLong,
    /// The list cannot be searched.
    #[error("the list of lost packets is not ascending at its position {position}")]
    LossListNotAscending {
        /// Position in the list, from 0.
        position: usize,
    },
}

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
        queue: Bytes,
        loss: LossSpec,
        seed: u64,
    ) -> Self {
        let one_way_delay = rtt / 2;
        let forward = DirectionSpec {
            rate,
            queue,
            one_way_delay,
            loss,
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

    /// The settings of one direction.
    #[must_use]
    pub const fn direction(&self, direction: Direction) -> &DirectionSpec {
        match direction {
            Direction::Forward => &self.forward,
            Direction::Backward => &self.backward,
        }
    }

    /// The round-trip time of an infinitely small packet.
    #[must_use]
    pub fn rtt(&self) -> Duration {
        self.forward.one_way_delay + self.backward.one_way_delay
    }

    /// Checks both directions and reports everything that is wrong at once.
    pub fn validate(&self) -> Result<(), InvalidPath> {
        let errors: Vec<_> = Direction::BOTH
            .into_iter()
            .flat_map(|direction| {
                let found = self.direction(direction).errors();
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
    fn errors(&self) -> Vec<SpecError> {
        let mut errors = Vec::new();
        if let Some(rate) = self.rate {
            if rate.bits_per_s() == 0 {
                errors.push(SpecError::ZeroRate);
            }
            if self.queue < MIN_QUEUE {
                errors.push(SpecError::QueueBelowOnePacket { queue: self.queue });
            }
        }
        if self.one_way_delay > MAX_DELAY {
            errors.push(SpecError::DelayTooLong);
        }
        if let LossSpec::Listed(list) = &self.loss
            && let Some(position) = list.windows(2).position(|pair| pair[0] >= pair[1])
        {
            errors.push(SpecError::LossListNotAscending {
                position: position + 1,
            });
        }
        errors
    }
}

// === impl InvalidPath ===

impl fmt::Display for InvalidPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (position, (direction, error)) in self.errors.iter().enumerate() {
            if position > 0 {
                f.write_str("; ")?;
            }
            write!(f, "{direction}: {error}")?;
        }
        Ok(())
    }
}
