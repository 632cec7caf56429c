//! Text to script.

use alloc::borrow::ToOwned as _;
use alloc::string::String;
use alloc::vec::Vec;
use core::time::Duration;

use crate::packet::Packet;
use crate::script::{Action, Condition, Ending, Line, Quantity, Script, Step, Value, Who};
use crate::setting::Setting;

/// A script cannot be read.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[error("line {line}: `{text}`: {reason}")]
pub struct ReadError {
    /// The line, from 1.
    pub line: usize,
    /// As it stands there.
    pub text: String,
    /// What is wrong with it.
    pub reason: Reason,
}

/// What is wrong with a line.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum Reason {
    /// A line begins like none of the known ones.
    #[error("a line begins with `+SECONDS`, `set`, `[` or `#`")]
    Beginning,
    /// The time of a line is none.
    #[error("`{0}` is no time; write `+0.2` seconds after the line before, or `+0.2~0.3`")]
    Wait(String),
    /// Behind the time nothing happens.
    #[error("behind the time stands one of `<` `>` `!` `?` `=`, and what happens")]
    Kind,
    /// A packet lacks its flags or numbers.
    #[error("a packet has flags and numbers: `P. 1:101(100) ack 1`")]
    Packet,
    /// The end is not first plus length.
    #[error("the numbers do not agree: the end is the first plus the length")]
    Range,
    /// ACK flag and number go together.
    #[error("the flag `.` and `ack N` go together")]
    AckAndFlag,
    /// The options do not end.
    #[error("options stand between `<` and `>`")]
    Options,
    /// A number is none, or too large for its field.
    #[error("`{0}` is no number that fits here")]
    Number(String),
    /// A span of time is none.
    #[error("`{0}` is no span such as `200ms` or `1.5s`")]
    Span(String),
    /// A word needs a value.
    #[error("`{0}` needs a value")]
    NoValue(String),
    /// A word is not known here.
    #[error("`{word}` is unknown here; known: {known}")]
    Unknown {
        /// As it stands there.
        word: String,
        /// What would do.
        known: &'static str,
    },
    /// A section is none.
    #[error("a section is `[ours: REASON]`, `[kernel: REASON]` or `[both]`")]
    Section,
    /// A setting comes too late.
    #[error("the host is made before the first packet: settings come first")]
    LateSetting,
}

// === impl Reason ===

impl Reason {
    pub(crate) fn number(text: &str) -> Self {
        Self::Number(text.to_owned())
    }

    pub(crate) fn no_value(word: &str) -> Self {
        Self::NoValue(word.to_owned())
    }

    pub(crate) fn unknown(word: &str, known: &'static str) -> Self {
        let word = word.to_owned();
        Self::Unknown { word, known }
    }
}

pub(crate) fn script(text: &str) -> Result<Script, ReadError> {
    let mut reader = Reader::default();
    for (index, line) in text.lines().enumerate() {
        let line = line.trim();
        reader.line(index + 1, line).map_err(|reason| ReadError {
            line: index + 1,
            text: line.to_owned(),
            reason,
        })?;
    }
    Ok(Script {
        title: reader.title.unwrap_or_default(),
        settings: reader.settings,
        lines: reader.lines,
    })
}

/// What has been read so far.
#[derive(Default)]
struct Reader {
    title: Option<String>,
    settings: Vec<(Setting, Option<Condition>)>,
    lines: Vec<Line>,
    section: Option<Condition>,
}

// === impl Reader ===

impl Reader {
    fn line(&mut self, number: usize, text: &str) -> Result<(), Reason> {
        if text.is_empty() {
            return Ok(());
        }
        if let Some(comment) = text.strip_prefix('#') {
            self.title.get_or_insert_with(|| comment.trim().to_owned());
            return Ok(());
        }
        let text = text
            .split_once(" #")
            .map_or(text, |(text, _)| text.trim_end());
        if text.starts_with('[') {
            self.section = section(text)?;
            return Ok(());
        }
        if let Some(setting) = text.strip_prefix("set ") {
            if !self.lines.is_empty() {
                return Err(Reason::LateSetting);
            }
            let setting = Setting::read(setting)?;
            self.settings.push((setting, self.section.clone()));
            return Ok(());
        }
        let timed = text.strip_prefix('+').ok_or(Reason::Beginning)?;
        let (time, rest) = timed.split_once(' ').ok_or(Reason::Kind)?;
        self.lines.push(Line {
            number,
            text: text.to_owned(),
            condition: self.section.clone(),
            wait: wait(time)?,
            step: step(rest.trim())?,
        });
        Ok(())
    }
}

fn section(text: &str) -> Result<Option<Condition>, Reason> {
    let inside = text
        .strip_prefix('[')
        .and_then(|text| text.strip_suffix(']'))
        .ok_or(Reason::Section)?;
    if inside.trim() == "both" {
        return Ok(None);
    }
    let (who, reason) = inside.split_once(':').ok_or(Reason::Section)?;
    let who = match who.trim() {
        "ours" => Who::Ours,
        "kernel" => Who::Kernel,
        _ => return Err(Reason::Section),
    };
    let reason = reason.trim().to_owned();
    if reason.is_empty() {
        return Err(Reason::Section);
    }
    Ok(Some(Condition { who, reason }))
}

/// `0.2`, or `0.2~0.3` where a host has some freedom.
fn wait(text: &str) -> Result<(Duration, Duration), Reason> {
    let wrong = || Reason::Wait(text.to_owned());
    let seconds = |text: &str| {
        let seconds: f64 = text.parse().map_err(|_| wrong())?;
        Duration::try_from_secs_f64(seconds).map_err(|_| wrong())
    };
    let (from, to) = match text.split_once('~') {
        Some((from, to)) => (seconds(from)?, seconds(to)?),
        None => (seconds(text)?, seconds(text)?),
    };
    // A day is longer than any timer of TCP, and far from the end of the clock.
    if from > to || to > Duration::from_hours(24) {
        return Err(wrong());
    }
    Ok((from, to))
}

fn step(text: &str) -> Result<Step, Reason> {
    let (kind, rest) = text.split_once(' ').ok_or(Reason::Kind)?;
    let rest = rest.trim();
    match kind {
        "<" => Packet::read(rest).map(Step::Arrive),
        ">" => Packet::read(rest).map(Step::Expect),
        "!" => action(rest).map(Step::Act),
        "?" => state(rest).map(Step::State),
        "=" => comparison(rest),
        _ => Err(Reason::Kind),
    }
}

fn action(text: &str) -> Result<Action, Reason> {
    let (verb, value) = text.split_once(' ').unwrap_or((text, ""));
    let number = |value: &str| value.trim().parse().map_err(|_| Reason::number(value));
    match (verb, value) {
        ("connect", "") => Ok(Action::Connect),
        ("close", "") => Ok(Action::Close),
        ("abort", "") => Ok(Action::Abort),
        ("nothing", "") => Ok(Action::Nothing),
        ("write", bytes) => number(bytes).map(Action::Write),
        ("read", bytes) => number(bytes).map(Action::Read),
        ("path-mtu", bytes) => {
            let bytes = bytes.trim();
            let mtu = bytes.parse().map_err(|_| Reason::number(bytes))?;
            Ok(Action::PathMtu(mtu))
        }
        _ => Err(Reason::unknown(
            text,
            "connect, write N, read N, close, abort, path-mtu N, nothing",
        )),
    }
}

fn state(text: &str) -> Result<tcp::State, Reason> {
    use tcp::State;
    let known = "the names of RFC 9293 section 3.3.2, and CLOSED";
    Ok(match text {
        "SYN-SENT" => State::SynSent,
        "SYN-RECEIVED" => State::SynReceived,
        "ESTABLISHED" => State::Established,
        "FIN-WAIT-1" => State::FinWait1,
        "FIN-WAIT-2" => State::FinWait2,
        "CLOSE-WAIT" => State::CloseWait,
        "CLOSING" => State::Closing,
        "LAST-ACK" => State::LastAck,
        "TIME-WAIT" => State::TimeWait,
        "CLOSED" => State::Closed,
        _ => return Err(Reason::unknown(text, known)),
    })
}

fn comparison(text: &str) -> Result<Step, Reason> {
    let (name, value) = text.split_once(' ').ok_or_else(|| Reason::no_value(text))?;
    let value = value.trim();
    let number = || {
        let number = value.parse().map_err(|_| Reason::number(value))?;
        Ok(Value::Number(number))
    };
    let (quantity, value) = match name {
        "cwnd" => (Quantity::Cwnd, number()?),
        "ssthresh" if value == "infinite" => (Quantity::Ssthresh, Value::Infinite),
        "ssthresh" => (Quantity::Ssthresh, number()?),
        "readable" => (Quantity::Readable, number()?),
        "error" => {
            let ending = match value {
                "none" => Ending::None,
                "reset" => Ending::Reset,
                "timeout" => Ending::TimedOut,
                _ => return Err(Reason::unknown(value, "none, reset, timeout")),
            };
            (Quantity::Ending, Value::Ending(ending))
        }
        _ => return Err(Reason::unknown(name, "cwnd, ssthresh, readable, error")),
    };
    Ok(Step::Compare(quantity, value))
}

/// `200ms`, `1.5s`, `1min`.
pub(crate) fn span(text: &str) -> Result<Duration, Reason> {
    let span: units::Span = text
        .trim()
        .parse()
        .map_err(|_| Reason::Span(text.to_owned()))?;
    Ok(span.get())
}
