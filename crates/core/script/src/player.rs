//! Plays a script against a host.

mod numbers;

use alloc::string::{String, ToString as _};
use alloc::vec::Vec;
use core::fmt;
use core::time::Duration;

use tcp::Segment;
use units::Time;

use crate::packet::Packet;
use crate::script::{Action, Line, Quantity, Script, Step, Value, Who};
use numbers::Numbers;

/// A TCP host with one connection, and a wire on which nobody else speaks.
pub trait Host {
    /// What can fail about it, other than the script.
    type Error: fmt::Display;

    /// Whose TCP it is.
    fn who(&self) -> Who;

    /// The moment on its clock.
    fn now(&self) -> Time;

    /// The next packet that the host sends, if it does so until `until`; else waits until then.
    fn next_sent(&mut self, until: Time) -> Result<Option<Sent>, Self::Error>;

    /// A packet of the peer arrives now.
    fn arrive(&mut self, segment: &Segment) -> Result<(), Self::Error>;

    /// The application does something now.
    fn act(&mut self, action: Action) -> Result<(), Self::Error>;

    /// The connection's state, or one that looks the same from here.
    fn is_in(&mut self, state: tcp::State) -> Result<Result<(), String>, Self::Error>;

    /// Something about the connection.
    fn value(&mut self, quantity: Quantity) -> Result<Value, Self::Error>;
}

/// A packet that a host sent.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sent {
    /// When.
    pub at: Time,
    /// The packet, with the numbers it had on the wire.
    pub segment: Segment,
}

/// How exact a host's clock is seen.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Tolerance {
    /// By how much a packet may come earlier or later than the script says.
    pub fixed: Duration,
    /// And by what part of the time that the script lets pass, in percent: a timer that follows the
    /// measured round trip is as inexact as that.
    pub percent: u32,
}

/// How a script went.
#[derive(Clone, Debug, PartialEq)]
pub struct Play {
    /// What was on the wire, in order.
    pub exchanged: Vec<Exchanged>,
    /// Where the host did not do what the script says.
    pub failure: Option<Failure>,
}

/// A packet on the wire, with numbers as in the script.
#[derive(Clone, Debug, PartialEq)]
pub struct Exchanged {
    /// When, since the script began.
    pub at: Duration,
    /// Whether the host sent it.
    pub sent: bool,
    /// The packet.
    pub packet: Packet,
}

/// A line that does not hold.
#[derive(Clone, Debug, PartialEq)]
pub struct Failure {
    /// Its number in the file; `None` behind the last one.
    pub line: Option<usize>,
    /// As it stands there.
    pub text: String,
    /// What was wrong.
    pub trouble: Trouble,
}

/// What was wrong about a line.
#[derive(Clone, Debug, PartialEq)]
pub enum Trouble {
    /// The host sent nothing.
    Silent,
    /// The packet differs in this part.
    Differs {
        /// The first part that differs, in words.
        part: &'static str,
        /// The packet.
        seen: Packet,
    },
    /// The packet was right, but came too early.
    Early {
        /// By so much.
        by: Duration,
        /// The packet.
        seen: Packet,
    },
    /// The host sent something that the script does not mention.
    Unasked {
        /// The packet.
        seen: Packet,
        /// How long after the line before.
        after: Duration,
    },
    /// The state is another.
    State {
        /// In words.
        seen: String,
    },
    /// The value is another.
    Value {
        /// The value.
        seen: Value,
    },
    /// The host could not do what the line wants.
    Host {
        /// In words.
        why: String,
    },
}

/// Our endpoint's clock is exact; scripts are written in whole milliseconds.
const EXACT: Tolerance = Tolerance {
    fixed: Duration::from_millis(1),
    percent: 0,
};

/// Plays `script` against `host` until its end or the first line that does not hold.
pub fn play<H: Host>(script: &Script, host: &mut H, tolerance: Tolerance) -> Play {
    let who = host.who();
    let mut player = Player {
        began: host.now(),
        at: host.now(),
        host,
        tolerance,
        numbers: Numbers::default(),
        exchanged: Vec::new(),
    };
    let failure = script
        .lines_for(who)
        .find_map(|line| {
            let trouble = player.line(line).err()?;
            Some(Failure {
                line: Some(line.number),
                text: line.text.clone(),
                trouble,
            })
        })
        .or_else(|| player.end());
    Play {
        exchanged: player.exchanged,
        failure,
    }
}

struct Player<'a, H> {
    host: &'a mut H,
    tolerance: Tolerance,
    began: Time,
    /// When the line before happened.
    at: Time,
    numbers: Numbers,
    exchanged: Vec<Exchanged>,
}

// === impl Player ===

impl<H: Host> Player<'_, H> {
    fn line(&mut self, line: &Line) -> Result<(), Trouble> {
        if let Step::Expect(packet) = &line.step {
            return self.expect(packet, line.wait);
        }
        self.quiet_until(self.at + line.wait.0)?;
        self.at = self.at.max(self.host.now());
        match &line.step {
            Step::Arrive(packet) => {
                let segment = self.numbers.wired(&packet.segment);
                self.note(self.at, false, packet);
                self.host.arrive(&segment).map_err(broken)
            }
            Step::Act(action) => self.host.act(*action).map_err(broken),
            Step::State(state) => {
                let looked = self.host.is_in(*state).map_err(broken)?;
                looked.map_err(|seen| Trouble::State { seen })
            }
            Step::Compare(quantity, wanted) => {
                let seen = self.host.value(*quantity).map_err(broken)?;
                if seen == *wanted {
                    Ok(())
                } else {
                    Err(Trouble::Value { seen })
                }
            }
            Step::Expect(_) => Ok(()),
        }
    }

    fn expect(&mut self, wanted: &Packet, (from, to): (Duration, Duration)) -> Result<(), Trouble> {
        let (earliest, latest) = (self.at + from, self.at + to + self.allowance(to));
        let Some((at, seen)) = self.next_until(latest)? else {
            return Err(Trouble::Silent);
        };
        if let Some(part) = wanted.difference(&seen.segment) {
            return Err(Trouble::Differs { part, seen });
        }
        let by = earliest.since(at + self.allowance(from));
        if !by.is_zero() {
            return Err(Trouble::Early { by, seen });
        }
        self.at = at;
        Ok(())
    }

    /// Nothing may come before `until`.
    fn quiet_until(&mut self, until: Time) -> Result<(), Trouble> {
        match self.next_until(until)? {
            Some((at, seen)) => Err(Trouble::Unasked {
                seen,
                after: at.since(self.at),
            }),
            None => Ok(()),
        }
    }

    fn next_until(&mut self, until: Time) -> Result<Option<(Time, Packet)>, Trouble> {
        let Some(sent) = self.host.next_sent(until).map_err(broken)? else {
            return Ok(None);
        };
        let seen = Packet::seen(self.numbers.scripted(&sent.segment));
        self.note(sent.at, true, &seen);
        Ok(Some((sent.at, seen)))
    }

    /// Behind the last line nothing may be left.
    fn end(&mut self) -> Option<Failure> {
        let trouble = self.quiet_until(self.at).err()?;
        Some(Failure {
            line: None,
            text: "(the end)".to_string(),
            trouble,
        })
    }

    fn allowance(&self, wait: Duration) -> Duration {
        let tolerance = match self.host.who() {
            Who::Ours => EXACT,
            Who::Kernel => self.tolerance,
        };
        tolerance.fixed + wait * tolerance.percent / 100
    }

    fn note(&mut self, at: Time, sent: bool, packet: &Packet) {
        self.exchanged.push(Exchanged {
            at: at.since(self.began),
            sent,
            packet: *packet,
        });
    }
}

fn broken(error: impl fmt::Display) -> Trouble {
    Trouble::Host {
        why: error.to_string(),
    }
}

impl Default for Tolerance {
    /// What a kernel's timers need on a machine that is not idle: ticks of 4 ms, and a reader that was
    /// woken late.
    fn default() -> Self {
        Self {
            fixed: Duration::from_millis(25),
            percent: 10,
        }
    }
}

impl fmt::Display for Exchanged {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let way = if self.sent { '>' } else { '<' };
        write!(f, "{:8.4} {way} {}", self.at.as_secs_f64(), self.packet)
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            Some(line) => write!(f, "line {line}: expected `{}`: ", self.text)?,
            None => f.write_str("after the last line: ")?,
        }
        match &self.trouble {
            Trouble::Silent => f.write_str("nothing was sent"),
            Trouble::Differs { part, seen } => write!(f, "seen `> {seen}`: {part} differs"),
            Trouble::Early { by, seen } => write!(f, "seen `> {seen}`, {by:.1?} too early"),
            Trouble::Unasked { seen, after } => {
                write!(f, "seen `> {seen}`, {after:.1?} after the line before")
            }
            Trouble::State { seen } => write!(f, "the state is {seen}"),
            Trouble::Value { seen } => write!(f, "it is {seen}"),
            Trouble::Host { why } => f.write_str(why),
        }
    }
}
