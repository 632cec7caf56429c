use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;
use core::time::Duration;

use crate::packet::Packet;
use crate::read::{self, ReadError};
use crate::setting::Setting;

/// A script as it was read.
#[derive(Clone, Debug, PartialEq)]
pub struct Script {
    /// Its first line of comment; empty where it begins without one.
    pub title: String,
    /// How the host is made before the first line is played.
    pub settings: Vec<(Setting, Option<Condition>)>,
    /// What happens, in order.
    pub lines: Vec<Line>,
}

/// Whose TCP a script is played against.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Who {
    /// Our endpoint.
    Ours,
    /// The kernel of this machine.
    Kernel,
}

/// A part that holds for one host only, because both may rightly differ there.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Condition {
    /// For whom it holds.
    pub who: Who,
    /// Why.
    pub reason: String,
}

/// A line that does something.
#[derive(Clone, Debug, PartialEq)]
pub struct Line {
    /// Its number in the file, from 1.
    pub number: usize,
    /// As it stands there.
    pub text: String,
    /// For whom it holds; for both where absent.
    pub condition: Option<Condition>,
    /// How long after the line before it happens: not sooner, not later.
    pub wait: (Duration, Duration),
    /// What happens.
    pub step: Step,
}

/// What happens in a line.
#[derive(Clone, Debug, PartialEq)]
pub enum Step {
    /// `<`: a packet arrives at the host.
    Arrive(Packet),
    /// `>`: the host sends a packet.
    Expect(Packet),
    /// `!`: the host's application does something.
    Act(Action),
    /// `?`: the connection is in this state.
    State(tcp::State),
    /// `=`: something about the connection has this value.
    Compare(Quantity, Value),
}

/// What an application does.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Action {
    /// Opens the connection; without it the host listens.
    Connect,
    /// Writes so many bytes, all of which must find room.
    Write(u64),
    /// Reads so many bytes, all of which must be there.
    Read(u64),
    /// Ends its own direction; it still reads.
    Close,
    /// Ends the connection with a reset.
    Abort,
    /// Is told that the path carries packets of so many bytes.
    PathMtu(u16),
    /// Nothing: time passes, and no packet may come.
    Nothing,
}

/// What can be asked about a connection.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Quantity {
    /// Congestion window in segments.
    Cwnd,
    /// Slow start threshold in segments.
    Ssthresh,
    /// Bytes that the application could read.
    Readable,
    /// How the connection failed.
    Ending,
}

/// The answer.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Value {
    /// A number.
    Number(u64),
    /// A threshold that was never set.
    Infinite,
    /// How it failed.
    Ending(Ending),
}

/// How a connection failed.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Ending {
    /// It did not.
    None,
    /// The peer reset or refused it.
    Reset,
    /// The peer did not answer any more.
    TimedOut,
}

// === impl Script ===

impl Script {
    /// Reads a script.
    pub fn read(text: &str) -> Result<Self, ReadError> {
        read::script(text)
    }

    /// The settings for `who`.
    pub fn settings_for(&self, who: Who) -> impl Iterator<Item = &Setting> {
        let holds = move |condition: &Option<Condition>| holds(condition.as_ref(), who);
        self.settings
            .iter()
            .filter(move |(_, condition)| holds(condition))
            .map(|(setting, _)| setting)
    }

    /// The lines for `who`.
    pub fn lines_for(&self, who: Who) -> impl Iterator<Item = &Line> {
        self.lines
            .iter()
            .filter(move |line| holds(line.condition.as_ref(), who))
    }

    /// Why there is nothing in it for `who`; `None` where there is something.
    #[must_use]
    pub fn excludes(&self, who: Who) -> Option<&str> {
        if self.lines_for(who).next().is_some() {
            return None;
        }
        let first = self.lines.first().and_then(|line| line.condition.as_ref());
        Some(first.map_or("it has no lines", |condition| &condition.reason))
    }
}

fn holds(condition: Option<&Condition>, who: Who) -> bool {
    condition.is_none_or(|condition| condition.who == who)
}

impl fmt::Display for Who {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Ours => "ours",
            Self::Kernel => "kernel",
        })
    }
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Number(number) => write!(f, "{number}"),
            Self::Infinite => f.pad("infinite"),
            Self::Ending(Ending::None) => f.pad("none"),
            Self::Ending(Ending::Reset) => f.pad("reset"),
            Self::Ending(Ending::TimedOut) => f.pad("timeout"),
        }
    }
}
