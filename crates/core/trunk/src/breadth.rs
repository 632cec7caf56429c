use core::time::Duration;

use units::Time;

use crate::Width;

/// How many connections are worth having, found by trying.
///
/// While there is always more to send than the connections take, their number is doubled and the goodput
/// of one interval compared with that before. It stays where it brought a quarter more, and goes back
/// where it did not: behind a policer, or where one connection fills the path, it stays at one.
#[derive(Debug)]
pub(crate) struct Breadth {
    limits: Width,
    /// Connections that this end would like.
    wish: u32,
    state: State,
    /// How long to wait before the next try after one that failed.
    patience: Duration,
    /// No try at all.
    held: bool,
    /// No try before.
    rest_until: Time,
    /// What the running interval has seen.
    interval: Option<Interval>,
}

#[derive(Clone, Copy, Debug)]
enum State {
    /// Nothing is being tried.
    Steady,
    /// More connections were asked for, and have an interval to come up and to speed.
    Settling { before: Goodput, since: Time },
    /// They are measured.
    Trying { before: Goodput },
}

/// With how many connections, and how fast.
#[derive(Clone, Copy, Debug)]
struct Goodput {
    connections: u32,
    bytes_per_s: u64,
}

#[derive(Clone, Copy, Debug)]
struct Interval {
    ends_at: Time,
    began_at: Time,
    delivered: u64,
}

/// What the trunk knows when an interval ends.
pub(crate) struct Reading {
    /// Bytes of streams acknowledged since the trunk began.
    pub(crate) delivered: u64,
    /// Connections that are up.
    pub(crate) connections: u32,
    pub(crate) round_trip: Option<Duration>,
    /// No connection is still getting faster by itself: what grows now grows because of their number.
    pub(crate) settled: bool,
    /// What the path carries, bytes per second, where the operator has said it.
    pub(crate) most: Option<u64>,
}

/// An interval holds several of a controller's cycles on any path that is not to the moon.
const LEAST_INTERVAL: Duration = Duration::from_secs(1);
const ROUND_TRIPS: u32 = 10;
/// Doubling has to bring a quarter: clearly more than two intervals of one width differ.
const WORTH: u64 = 5;
const WORTH_OF: u64 = 4;
const FIRST_PATIENCE: Duration = Duration::from_secs(30);
const MOST_PATIENCE: Duration = Duration::from_hours(1);
/// A connection that is not up by then will not come.
const MOST_SETTLING: Duration = Duration::from_secs(10);

impl Breadth {
    pub(crate) fn new(limits: Width) -> Self {
        Self {
            limits,
            wish: limits.min,
            state: State::Steady,
            patience: FIRST_PATIENCE,
            held: false,
            rest_until: Time::ZERO,
            interval: None,
        }
    }

    pub(crate) const fn wish(&self) -> u32 {
        self.wish
    }

    /// There was more to send than a connection took.
    pub(crate) fn on_more(&mut self, reading: &Reading, now: Time) {
        if self.interval.is_none() && self.limits.min < self.limits.max {
            self.begin(reading, now);
        }
    }

    fn begin(&mut self, reading: &Reading, now: Time) {
        let length = reading.round_trip.map_or(LEAST_INTERVAL, |round_trip| {
            (round_trip * ROUND_TRIPS).max(LEAST_INTERVAL)
        });
        self.interval = Some(Interval {
            began_at: now,
            ends_at: now + length,
            delivered: reading.delivered,
        });
    }

    /// There was nothing more to send: goodput says nothing about the path.
    pub(crate) fn on_idle(&mut self) {
        self.interval = None;
        if let State::Settling { before, .. } | State::Trying { before } = self.state {
            self.state = State::Steady;
            self.wish = before.connections;
        }
    }

    /// Whether another number is being tried.
    pub(crate) const fn is_trying(&self) -> bool {
        !matches!(self.state, State::Steady)
    }

    /// No more than the least from now on, or as many as help again.
    pub(crate) fn hold(&mut self, held: bool, now: Time) {
        self.held = held;
        if held {
            self.state = State::Steady;
            self.wish = self.limits.min;
            self.rest_until = now + self.patience;
        }
    }

    pub(crate) fn deadline(&self) -> Option<Time> {
        self.interval.map(|interval| interval.ends_at)
    }

    /// Judges the interval that has ended, if one has.
    pub(crate) fn tick(&mut self, reading: &Reading, now: Time) {
        let Some(interval) = self.interval.filter(|interval| interval.ends_at <= now) else {
            return;
        };
        self.begin(reading, now);
        let Some(bytes_per_s) =
            units::Bytes::new(reading.delivered.saturating_sub(interval.delivered))
                .checked_per(now.since(interval.began_at))
                .map(units::Rate::bytes_per_s)
        else {
            return;
        };
        let goodput = Goodput {
            connections: reading.connections,
            bytes_per_s,
        };
        match self.state {
            State::Steady if reading.settled && !is_beyond(goodput, reading.most) => {
                self.try_more(goodput, now);
            }
            State::Steady => {}
            State::Settling { before, since } => {
                if reading.connections >= self.wish {
                    self.state = State::Trying { before };
                } else if now.since(since) > MOST_SETTLING {
                    self.give_up(before, now);
                }
            }
            State::Trying { before } => {
                let worth = u128::from(bytes_per_s) * u128::from(WORTH_OF)
                    >= u128::from(before.bytes_per_s) * u128::from(WORTH);
                if worth {
                    self.patience = FIRST_PATIENCE;
                    self.state = State::Steady;
                    if !is_beyond(goodput, reading.most) {
                        self.try_more(goodput, now);
                    }
                } else {
                    self.give_up(before, now);
                }
            }
        }
    }

    fn try_more(&mut self, before: Goodput, now: Time) {
        let more = before.connections.saturating_mul(2).min(self.limits.max);
        if !self.held
            && now >= self.rest_until
            && before.connections >= self.wish
            && more > before.connections
        {
            self.wish = more;
            self.state = State::Settling { before, since: now };
        }
    }

    fn give_up(&mut self, before: Goodput, now: Time) {
        self.state = State::Steady;
        self.wish = before.connections.clamp(self.limits.min, self.limits.max);
        self.rest_until = now + self.patience;
        self.patience = (self.patience * 2).min(MOST_PATIENCE);
    }
}

/// Whether what a try has to bring is more than the path carries: it would fail, and crowd others meanwhile.
fn is_beyond(goodput: Goodput, most: Option<u64>) -> bool {
    most.is_some_and(|most| {
        u128::from(goodput.bytes_per_s) * u128::from(WORTH)
            > u128::from(most) * u128::from(WORTH_OF)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const RATE: u64 = 1_000_000;

    /// How many connections one that always has more to send wants after three seconds at [`RATE`].
    fn wish(most: Option<u64>) -> u32 {
        let mut breadth = Breadth::new(Width { min: 1, max: 4 });
        for second in 0..4 {
            let now = Time::from_millis(second * 1000);
            let reading = Reading {
                delivered: second * RATE,
                connections: 1,
                round_trip: Some(Duration::from_millis(50)),
                settled: true,
                most,
            };
            breadth.tick(&reading, now);
            breadth.on_more(&reading, now);
        }
        breadth.wish()
    }

    #[test]
    fn more_connections_are_tried_where_the_path_may_carry_a_quarter_more() {
        assert_eq!(wish(None), 2);
        assert_eq!(wish(Some(RATE * 5 / 4)), 2);
        assert_eq!(wish(Some(RATE * 5 / 4 - 1)), 1, "it cannot bring so much");
    }
}
