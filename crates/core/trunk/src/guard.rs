use alloc::collections::BTreeMap;
use core::fmt;
use core::time::Duration;

use units::Time;

use crate::{ConnectionId, Observation};

#[cfg(test)]
mod tests;

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
    /// The share of bytes that may be sent again while a queue stands, in thousandths, above twice the share while
    /// none does. 20 is what an eager sender exceeds in a shallow queue that it shares, and one that is alone only
    /// while it starts.
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
/// Without any queue for so long, nobody has taken the room that was made: two CUBIC flows that share a gigabit over
/// 60 ms fill a shallow queue more often than that (K of RFC 9438, section 4.2).
const UNUSED: Duration = Duration::from_secs(15);
/// A fraction of what went out before, below which an empty path says that losses hold the trunk back now, and no
/// rival: one that had taken the room would fill the queue.
const STARVED: u64 = 4;
/// Intervals in a row of that.
const HUNGRY: u32 = 2;
/// How often the strikes that it takes are doubled for a path on which nobody took the room.
const MOST_DOUBLINGS: u32 = 3;

/// The guard at work.
#[derive(Debug)]
pub(crate) struct Watch {
    guard: Guard,
    state: State,
    /// How long to be modest the next time.
    rest: Duration,
    /// Times in a row that nobody took the room that was made.
    unused: u32,
    connections: BTreeMap<ConnectionId, Tally>,
}

#[derive(Clone, Copy, Debug)]
enum State {
    /// Since then, with so many intervals in a row in which it was too much.
    Eager { since: Time, strikes: u32 },
    /// The same, until then. What is seen before `from` is still the queue of the connections that were too many.
    Narrow {
        from: Time,
        until: Time,
        strikes: u32,
    },
    /// Until then. No queue was seen since `empty_since`.
    Modest {
        until: Time,
        empty_since: Time,
        /// The connection that did too much, and its bytes per second then.
        before: (ConnectionId, u64),
        /// Intervals in a row in which it starved on an empty path.
        hungry: u32,
    },
}

/// One connection in the running interval.
#[derive(Clone, Copy, Debug)]
struct Tally {
    began_at: Time,
    ends_at: Time,
    /// As they were when the interval began.
    sent: u64,
    looks: u32,
    delay: Duration,
    /// The most that a look saw of it.
    most: Duration,
    /// What went out between looks that saw a queue, and those that saw none.
    queued: Flow,
    free: Flow,
    /// The last look's.
    seen: Flow,
}

/// Bytes sent, and those of them that were sent again.
#[derive(Clone, Copy, Debug, Default)]
struct Flow {
    sent: u64,
    again: u64,
}

/// The trunk is to send in another manner.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Change {
    Less(Excess),
    /// After a rest, or because nobody took the room.
    Eager,
}

/// What an interval says.
enum Verdict {
    Nothing,
    /// With whether the queue was empty all the time.
    Well {
        empty: bool,
    },
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
            unused: 0,
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
        if let State::Modest { until, .. } | State::Narrow { until, .. } = self.state
            && now >= until
        {
            if matches!(self.state, State::Modest { .. }) {
                self.unused = 0;
            }
            return Some(self.begin_again(now));
        }
        let fresh = Tally {
            began_at: now,
            ends_at: now + (least * ROUND_TRIPS).max(LEAST_INTERVAL),
            sent: sight.sent,
            looks: 0,
            delay: Duration::ZERO,
            most: Duration::ZERO,
            queued: Flow::default(),
            free: Flow::default(),
            seen: Flow {
                sent: sight.sent,
                again: sight.retransmitted,
            },
        };
        let leftover = matches!(self.state, State::Narrow { from, .. } if now < from);
        if leftover || !sight.settled {
            self.connections.insert(connection, fresh);
            return None;
        }
        let tally = self.connections.entry(connection).or_insert(fresh);
        let delay = round_trip.saturating_sub(least);
        tally.looks += 1;
        tally.delay += delay;
        tally.most = tally.most.max(delay);
        tally.count(delay > noise(least), sight);
        if now < tally.ends_at {
            return None;
        }
        let ended = core::mem::replace(tally, fresh);
        if self.starves(connection, &ended, sight, least, now) {
            return Some(self.begin_again(now));
        }
        match self.verdict(&ended, sight, least) {
            Verdict::Nothing => None,
            Verdict::Well { empty } => self.pass(empty, now),
            Verdict::TooMuch(excess) => {
                let before = (connection, ended.rate(sight, now));
                self.strike(excess, before, ended.length(now), now)
            }
        }
    }

    /// Whether the trunk was modest long enough to know that the room it made is its own loss: nobody queues
    /// there, and what it sends has collapsed. Where the application has fallen silent, the same is true and
    /// nothing is lost by being eager again.
    fn starves(
        &mut self,
        connection: ConnectionId,
        tally: &Tally,
        sight: &Sight,
        least: Duration,
        now: Time,
    ) -> bool {
        let State::Modest { before, hungry, .. } = &mut self.state else {
            return false;
        };
        // The others have been given up already, or never carried much.
        if connection != before.0 {
            return false;
        }
        let collapsed = tally.rate(sight, now) < before.1 / STARVED;
        let empty = tally.most <= noise(least);
        let seen = tally.looks >= LEAST_LOOKS;
        *hungry = if seen && empty && collapsed {
            *hungry + 1
        } else {
            0
        };
        if *hungry < HUNGRY {
            return false;
        }
        self.unused = (self.unused + 1).min(MOST_DOUBLINGS);
        self.rest = FIRST_REST;
        true
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
        let ceiling = self.guard.retransmissions;
        // What is lost without a queue is lost with one, too.
        let random = tally.free.share(LEAST_SENT).unwrap_or(0);
        if let Some(share) = tally.queued.share(LEAST_SENT / 4)
            && share > ceiling + 2 * random
        {
            return Verdict::TooMuch(Excess::Retransmissions {
                share,
                ceiling,
                delay: tally.most,
            });
        }
        Verdict::Well {
            empty: tally.most <= noise(least),
        }
    }

    fn pass(&mut self, is_empty: bool, now: Time) -> Option<Change> {
        match &mut self.state {
            State::Eager { since, strikes } => {
                *strikes = 0;
                if now.since(*since) > self.rest * 2 {
                    self.rest = FIRST_REST;
                }
            }
            State::Narrow { strikes, .. } => *strikes = 0,
            State::Modest { empty_since, .. } => {
                if !is_empty {
                    *empty_since = now;
                } else if now.since(*empty_since) >= UNUSED {
                    self.unused = (self.unused + 1).min(MOST_DOUBLINGS);
                    self.rest = FIRST_REST;
                    return Some(self.begin_again(now));
                }
            }
        }
        None
    }

    fn begin_again(&mut self, now: Time) -> Change {
        self.connections.clear();
        self.state = State::Eager {
            since: now,
            // Where somebody was there, the first sign is enough.
            strikes: if self.unused == 0 { STRIKES - 1 } else { 0 },
        };
        Change::Eager
    }

    /// One step at a time: fewer connections first, where there are several.
    fn strike(
        &mut self,
        excess: Excess,
        before: (ConnectionId, u64),
        interval: Duration,
        now: Time,
    ) -> Option<Change> {
        let strikes = match &mut self.state {
            State::Eager { strikes, .. } | State::Narrow { strikes, .. } => strikes,
            State::Modest { empty_since, .. } => {
                *empty_since = now;
                return None;
            }
        };
        *strikes += 1;
        if *strikes < STRIKES << self.unused {
            return None;
        }
        let until = now + self.rest;
        if matches!(self.state, State::Eager { .. }) && self.connections.len() > 1 {
            self.state = State::Narrow {
                from: now + interval,
                until,
                strikes: 0,
            };
        } else {
            self.state = State::Modest {
                until,
                empty_since: now,
                before,
                hungry: 0,
            };
            self.rest = (self.rest * 2).min(MOST_REST);
        }
        Some(Change::Less(excess))
    }
}

impl Tally {
    fn length(&self, now: Time) -> Duration {
        now.since(self.began_at)
    }

    /// Bytes per second since it began.
    fn rate(&self, sight: &Sight, now: Time) -> u64 {
        let sent = u128::from(sight.sent.saturating_sub(self.sent));
        let rate = sent * 1_000_000_000 / self.length(now).as_nanos().max(1);
        u64::try_from(rate).unwrap_or(u64::MAX)
    }

    fn count(&mut self, queued: bool, sight: &Sight) {
        let flow = if queued {
            &mut self.queued
        } else {
            &mut self.free
        };
        flow.sent += sight.sent.saturating_sub(self.seen.sent);
        flow.again += sight.retransmitted.saturating_sub(self.seen.again);
        self.seen = Flow {
            sent: sight.sent,
            again: sight.retransmitted,
        };
    }
}

impl Flow {
    /// What was sent again, in thousandths; `None` where less than `least` was sent.
    fn share(&self, least: u64) -> Option<u32> {
        let share = u128::from(self.again) * 1000 / u128::from(self.sent.max(1));
        (self.sent >= least).then(|| u32::try_from(share).unwrap_or(u32::MAX))
    }
}

/// Up to here delay is none of a queue's.
fn noise(least: Duration) -> Duration {
    (least / RISING).max(LEAST_RISING)
}
