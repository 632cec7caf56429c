use alloc::collections::BTreeMap;
use core::fmt;
use core::time::Duration;

use units::Time;

use crate::{ConnectionId, Observation};

/// When a trunk takes too much from others on its path.
///
/// What its connections do there is seen from two signs: the delay that queues add to the path's own round trip,
/// and segments sent again while that delay rises. Random loss alone brings no delay and means nothing.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Guard {
    /// Whether it watches at all.
    pub enabled: bool,
    /// The delay that queues may add. `None`: half of the path's own round trip, and at least 20 ms; a sender
    /// that fills no queue stays far below it, and one that does, alone or with others, above.
    pub queueing: Option<Duration>,
    /// The share of bytes that may be sent again while delay rises, in thousandths. 20 is what several eager
    /// senders in one shallow queue exceed at once, and one that is alone only while it starts.
    pub retransmissions: u32,
}

impl Default for Guard {
    fn default() -> Self {
        Self {
            enabled: true,
            queueing: None,
            retransmissions: 20,
        }
    }
}

/// How a trunk's connections are to send.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum Manner {
    /// As their profile says, as many as help.
    #[default]
    Eager,
    /// As their profile says, by as few as may be: several eager ones crowd each other, and whoever is beside them.
    Narrow,
    /// That, and by a congestion control that shares a queue with others as they do with each other.
    Modest,
}

impl Manner {
    /// Whether it takes less than it could.
    pub const fn makes_room(self) -> bool {
        !matches!(self, Self::Eager)
    }

    /// A stable name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Eager => "eager",
            Self::Narrow => "narrow",
            Self::Modest => "modest",
        }
    }
}

/// What was too much.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Excess {
    /// Queues added more delay than they may.
    Queueing {
        /// What they added, on average over an interval.
        delay: Duration,
        /// What they may.
        ceiling: Duration,
    },
    /// More was sent again than may be, while delay rose.
    Retransmissions {
        /// The share of bytes, in thousandths.
        share: u32,
        /// What may be.
        ceiling: u32,
        /// What queues added.
        delay: Duration,
    },
}

impl fmt::Display for Excess {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let span = units::format_span;
        match self {
            Self::Queueing { delay, ceiling } => write!(
                formatter,
                "queues add {} to the round trip, above {}",
                span(*delay),
                span(*ceiling)
            ),
            Self::Retransmissions {
                share,
                ceiling,
                delay,
            } => write!(
                formatter,
                "{}.{} % is sent again, above {}.{} %, while queues add {}",
                share / 10,
                share % 10,
                ceiling / 10,
                ceiling % 10,
                span(*delay)
            ),
        }
    }
}

/// An interval holds several of a controller's cycles.
const LEAST_INTERVAL: Duration = Duration::from_secs(1);
const ROUND_TRIPS: u32 = 10;
/// Fewer looks in an interval say nothing: the connection was idle for most of it.
const LEAST_LOOKS: u32 = 20;
/// The same for bytes: a window of ten segments some times over.
const LEAST_SENT: u64 = 256 << 10;
/// Below this share of the round trip delay counts as noise.
const RISING: u32 = 10;
const LEAST_RISING: Duration = Duration::from_millis(1);
const LEAST_CEILING: Duration = Duration::from_millis(20);
/// Intervals in a row that it takes, so that a rival's own start is not taken for ours.
const STRIKES: u32 = 2;
const FIRST_REST: Duration = Duration::from_secs(30);
const MOST_REST: Duration = Duration::from_mins(10);

/// The guard at work.
#[derive(Debug)]
pub(crate) struct Watch {
    guard: Guard,
    state: State,
    /// How long to be modest the next time.
    rest: Duration,
    connections: BTreeMap<ConnectionId, Tally>,
}

#[derive(Clone, Copy, Debug)]
enum State {
    /// Since then, with so many intervals in a row in which it was too much.
    Eager {
        since: Time,
        strikes: u32,
    },
    /// The same, until then.
    Narrow {
        until: Time,
        strikes: u32,
    },
    Modest {
        until: Time,
    },
}

/// One connection in the running interval.
#[derive(Clone, Copy, Debug)]
struct Tally {
    ends_at: Time,
    /// As they were when the interval began.
    sent: u64,
    retransmitted: u64,
    looks: u32,
    delay: Duration,
}

/// The trunk is to send in another manner.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Change {
    Less(Excess),
    /// After a rest.
    Eager,
}

/// What an interval says.
enum Verdict {
    Nothing,
    Well,
    TooMuch(Excess),
}

/// What the guard needs of an observation.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sight {
    round_trip: Option<Duration>,
    least: Option<Duration>,
    sent: u64,
    retransmitted: u64,
    settled: bool,
}

impl Sight {
    /// `settled`: neither a start nor a try of another width.
    pub(crate) fn of(seen: &Observation, settled: bool) -> Self {
        Self {
            round_trip: seen.round_trip,
            least: seen.least_round_trip,
            sent: seen.sent.get(),
            retransmitted: seen.retransmitted.get(),
            settled,
        }
    }
}

impl Watch {
    pub(crate) fn new(guard: Guard) -> Self {
        Self {
            guard,
            state: State::Eager {
                since: Time::ZERO,
                strikes: 0,
            },
            rest: FIRST_REST,
            connections: BTreeMap::new(),
        }
    }

    pub(crate) const fn manner(&self) -> Manner {
        match self.state {
            State::Eager { .. } => Manner::Eager,
            State::Narrow { .. } => Manner::Narrow,
            State::Modest { .. } => Manner::Modest,
        }
    }

    pub(crate) fn forget(&mut self, connection: ConnectionId) {
        self.connections.remove(&connection);
    }

    /// Takes note of a look at a connection; what changes because of it.
    pub(crate) fn look(
        &mut self,
        connection: ConnectionId,
        sight: &Sight,
        now: Time,
    ) -> Option<Change> {
        if !self.guard.enabled {
            return None;
        }
        let (Some(round_trip), Some(least)) = (sight.round_trip, sight.least) else {
            return None;
        };
        if let State::Modest { until } | State::Narrow { until, .. } = self.state
            && now >= until
        {
            self.connections.clear();
            self.state = State::Eager {
                since: now,
                strikes: STRIKES - 1,
            };
            return Some(Change::Eager);
        }
        let fresh = Tally {
            ends_at: now + (least * ROUND_TRIPS).max(LEAST_INTERVAL),
            sent: sight.sent,
            retransmitted: sight.retransmitted,
            looks: 0,
            delay: Duration::ZERO,
        };
        if !sight.settled {
            self.connections.insert(connection, fresh);
            return None;
        }
        let tally = self.connections.entry(connection).or_insert(fresh);
        tally.looks += 1;
        tally.delay += round_trip.saturating_sub(least);
        if now < tally.ends_at {
            return None;
        }
        let ended = core::mem::replace(tally, fresh);
        match self.verdict(&ended, sight, least) {
            Verdict::Nothing => None,
            Verdict::Well => {
                self.pass(now);
                None
            }
            Verdict::TooMuch(excess) => self.strike(excess, now),
        }
    }

    fn verdict(&self, tally: &Tally, sight: &Sight, least: Duration) -> Verdict {
        let sent = sight.sent.saturating_sub(tally.sent);
        if tally.looks < LEAST_LOOKS || sent < LEAST_SENT {
            return Verdict::Nothing;
        }
        let delay = tally.delay / tally.looks;
        let ceiling = self
            .guard
            .queueing
            .unwrap_or_else(|| (least / 2).max(LEAST_CEILING));
        if delay > ceiling {
            return Verdict::TooMuch(Excess::Queueing { delay, ceiling });
        }
        let again = sight.retransmitted.saturating_sub(tally.retransmitted);
        let share = u32::try_from(u128::from(again) * 1000 / u128::from(sent)).unwrap_or(u32::MAX);
        let rises = delay > (least / RISING).max(LEAST_RISING);
        let ceiling = self.guard.retransmissions;
        if rises && share > ceiling {
            return Verdict::TooMuch(Excess::Retransmissions {
                share,
                ceiling,
                delay,
            });
        }
        Verdict::Well
    }

    fn pass(&mut self, now: Time) {
        match &mut self.state {
            State::Eager { since, strikes } => {
                *strikes = 0;
                if now.since(*since) > self.rest * 2 {
                    self.rest = FIRST_REST;
                }
            }
            State::Narrow { strikes, .. } => *strikes = 0,
            State::Modest { .. } => {}
        }
    }

    /// One step at a time: fewer connections first, where there are several.
    fn strike(&mut self, excess: Excess, now: Time) -> Option<Change> {
        let (State::Eager { strikes, .. } | State::Narrow { strikes, .. }) = &mut self.state else {
            return None;
        };
        *strikes += 1;
        if *strikes < STRIKES {
            return None;
        }
        let until = now + self.rest;
        if matches!(self.state, State::Eager { .. }) && self.connections.len() > 1 {
            self.state = State::Narrow { until, strikes: 0 };
        } else {
            self.state = State::Modest { until };
            self.rest = (self.rest * 2).min(MOST_REST);
        }
        Some(Change::Less(excess))
    }
}

#[cfg(test)]
mod tests {
    use std::vec::Vec;

    use super::*;

    const LEAST: Duration = Duration::from_millis(60);
    const LINK: ConnectionId = ConnectionId(1);

    /// Ten seconds at 50 Mbit/s with this much queueing and this share sent again, in thousandths; every change
    /// of the manner with the second it came in.
    fn play(watch: &mut Watch, from_s: u64, queueing: Duration, share: u64) -> Vec<(u64, Manner)> {
        let mut changes = Vec::new();
        for step in 0..1000_u64 {
            let now = Time::from_millis(from_s * 1000 + step * 10);
            let sent = (from_s * 100 + step) * 62_500;
            let sight = Sight {
                round_trip: Some(LEAST + queueing),
                least: Some(LEAST),
                sent,
                retransmitted: sent * share / 1000,
                settled: true,
            };
            if watch.look(LINK, &sight, now).is_some() {
                changes.push((now.as_nanos() / 1_000_000_000, watch.manner()));
            }
        }
        changes
    }

    #[test]
    fn random_loss_alone_does_not_trip_it_however_much_it_is() {
        let mut watch = Watch::new(Guard::default());
        assert_eq!(play(&mut watch, 0, Duration::from_millis(2), 50), []);
        assert_eq!(watch.manner(), Manner::Eager);
    }

    #[test]
    fn a_queue_that_stands_below_the_ceiling_does_not_trip_it() {
        let mut watch = Watch::new(Guard::default());
        assert_eq!(play(&mut watch, 0, LEAST / 3, 0), []);
    }

    #[test]
    fn retransmissions_with_delay_trip_it_and_so_does_delay_alone() {
        for (queueing, share) in [(LEAST / 5, 30), (LEAST, 0)] {
            let mut watch = Watch::new(Guard::default());
            let changes = play(&mut watch, 0, queueing, share);
            assert_eq!(changes, [(2, Manner::Modest)], "{queueing:?} {share}");
        }
    }

    #[test]
    fn it_tries_again_after_a_rest_and_rests_longer_each_time_that_it_is_still_too_much() {
        let mut watch = Watch::new(Guard::default());
        let changes: Vec<_> = (0..12)
            .flat_map(|tens| play(&mut watch, tens * 10, LEAST, 0))
            .collect();
        let tries: Vec<u64> = changes
            .iter()
            .filter(|(_, manner)| *manner == Manner::Eager)
            .map(|(second, _)| *second)
            .collect();
        assert_eq!(tries, [32, 93], "{changes:?}");
    }

    #[test]
    fn what_was_set_holds_and_what_is_off_sees_nothing() {
        let strict = Guard {
            queueing: Some(Duration::from_millis(5)),
            ..Guard::default()
        };
        let off = Guard {
            enabled: false,
            ..strict
        };
        let delay = Duration::from_millis(6);
        assert_eq!(play(&mut Watch::new(strict), 0, delay, 0).len(), 1);
        assert_eq!(play(&mut Watch::new(off), 0, delay, 0), []);
    }

    #[test]
    fn several_connections_become_one_before_it_is_made_modest() {
        let mut watch = Watch::new(Guard::default());
        let idle = Sight {
            round_trip: Some(LEAST),
            least: Some(LEAST),
            sent: 0,
            retransmitted: 0,
            settled: true,
        };
        assert_eq!(watch.look(ConnectionId(2), &idle, Time::ZERO), None);
        assert_eq!(
            play(&mut watch, 0, LEAST, 0),
            [(2, Manner::Narrow), (4, Manner::Modest)]
        );
    }
}
