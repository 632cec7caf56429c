//! Which connections are meant, in the words of `ss` and a few more.
//!
//! ```text
//! filter    = term { "or" term }
//! term      = factor { [ "and" ] factor }
//! factor    = "not" factor | "(" filter ")" | predicate
//! predicate = ("sport" | "dport" | "port") [ "=" | "!=" | "<" | "<=" | ">" | ">=" ] [":"] NUMBER
//!           | ("src" | "dst" | "host") ADDRESS [ "/" BITS ]
//!           | "state" STATE | "process" NAME | "pid" NUMBER | "uid" NUMBER
//!           | "limit" LIMIT | "cc" NAME | "relay" TEXT
//! ```

use std::net::IpAddr;
use std::str::FromStr;

use record::LimitName;
use record::top::State;

use crate::watched::Watched;

/// Which connections are meant. The default means all.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Filter {
    /// Every connection.
    #[default]
    All,
    /// Both hold.
    And(Box<Self>, Box<Self>),
    /// One of the two holds.
    Or(Box<Self>, Box<Self>),
    /// It does not hold.
    Not(Box<Self>),
    /// A port, compared.
    Port(End, Comparison, u16),
    /// An address within a block.
    Host(End, Block),
    /// One of these states.
    State(Vec<State>),
    /// The process' name holds this text.
    Process(String),
    /// The process' number.
    Pid(u32),
    /// The user who made the socket.
    Uid(u32),
    /// What holds the sending back now.
    Limit(LimitName),
    /// The congestion control at work.
    CongestionControl(String),
    /// A socket of a relay that was asked; its interface, its listener or whoever is at its other side holds this
    /// text.
    Relay(String),
}

/// Which end of a connection.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum End {
    /// This one: `src`, `sport`.
    Local,
    /// The other: `dst`, `dport`.
    Peer,
    /// One of the two.
    Either,
}

/// How two numbers are compared.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Comparison {
    /// `=` or nothing.
    Equal,
    /// `!=`.
    NotEqual,
    /// `<`.
    Less,
    /// `<=`.
    AtMost,
    /// `>`.
    Greater,
    /// `>=`.
    AtLeast,
}

/// A block of addresses.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Block {
    address: IpAddr,
    bits: u8,
}

/// A text is no filter.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[error("{problem} in the filter `{text}`, at `{rest}`")]
pub struct FilterError {
    /// All of it.
    pub text: String,
    /// What is wrong, and what would be right.
    pub problem: String,
    /// Where: what was not understood.
    pub rest: String,
}

/// Parentheses within each other; more is a mistake, and must not exhaust the stack.
const DEEPEST: usize = 50;

// === impl Filter ===

impl Filter {
    /// Whether a connection is meant.
    #[must_use]
    pub fn matches(&self, watched: &Watched) -> bool {
        let (seen, process) = (&watched.seen, watched.process.as_ref());
        let ends = |end: End, holds: &dyn Fn(std::net::SocketAddr) -> bool| match end {
            End::Local => holds(seen.local),
            End::Peer => holds(seen.peer),
            End::Either => holds(seen.local) || holds(seen.peer),
        };
        match self {
            Self::All => true,
            Self::And(a, b) => a.matches(watched) && b.matches(watched),
            Self::Or(a, b) => a.matches(watched) || b.matches(watched),
            Self::Not(one) => !one.matches(watched),
            Self::Port(end, comparison, port) => {
                ends(*end, &|address| comparison.holds(address.port(), *port))
            }
            Self::Host(end, block) => ends(*end, &|address| block.contains(address.ip())),
            Self::State(states) => states.contains(&seen.state),
            Self::Process(name) => process.is_some_and(|process| process.name.contains(name)),
            Self::Pid(pid) => process.is_some_and(|process| process.pid == *pid),
            Self::Uid(uid) => seen.uid == *uid,
            Self::Limit(name) => watched.limit == *name,
            Self::CongestionControl(name) => seen.congestion_control.as_ref() == Some(name),
            Self::Relay(text) => seen.relayed.as_ref().is_some_and(|told| {
                let other = told.of.other.as_ref();
                let words = [&told.of.admin, &told.of.listener].into_iter().chain(other);
                words.into_iter().any(|word| word.contains(text))
            }),
        }
    }

    /// Whether it asks for a state that is not shown otherwise: `listening` or `time-wait`.
    #[must_use]
    pub fn names(&self, state: State) -> bool {
        match self {
            Self::And(a, b) | Self::Or(a, b) => a.names(state) || b.names(state),
            Self::Not(one) => one.names(state),
            Self::State(states) => states.contains(&state),
            Self::All
            | Self::Port(..)
            | Self::Host(..)
            | Self::Process(_)
            | Self::Pid(_)
            | Self::Uid(_)
            | Self::Limit(_)
            | Self::CongestionControl(_)
            | Self::Relay(_) => false,
        }
    }
}

impl FromStr for Filter {
    type Err = FilterError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let mut words = Words {
            words: split(text),
            next: 0,
        };
        if words.peek().is_none() {
            return Ok(Self::All);
        }
        let parsed = words.filter(0).and_then(|filter| match words.peek() {
            None => Ok(filter),
            Some(_) => Err("expected `and`, `or` or the end".to_owned()),
        });
        parsed.map_err(|problem| FilterError {
            text: text.to_owned(),
            problem,
            rest: words.rest(),
        })
    }
}

// === impl Comparison ===

impl Comparison {
    const fn holds(self, a: u16, b: u16) -> bool {
        match self {
            Self::Equal => a == b,
            Self::NotEqual => a != b,
            Self::Less => a < b,
            Self::AtMost => a <= b,
            Self::Greater => a > b,
            Self::AtLeast => a >= b,
        }
    }
}

// === impl Block ===

impl Block {
    fn contains(self, address: IpAddr) -> bool {
        let bits = u32::from(self.bits);
        match (self.address, address.to_canonical()) {
            (IpAddr::V4(block), IpAddr::V4(one)) => {
                let differ = block.to_bits() ^ one.to_bits();
                bits == 0 || differ >> (32 - bits.min(32)) == 0
            }
            (IpAddr::V6(block), IpAddr::V6(one)) => {
                let differ = block.to_bits() ^ one.to_bits();
                bits == 0 || differ >> (128 - bits.min(128)) == 0
            }
            (IpAddr::V4(_), IpAddr::V6(_)) | (IpAddr::V6(_), IpAddr::V4(_)) => false,
        }
    }
}

impl FromStr for Block {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (address, bits) = match text.split_once('/') {
            Some((address, bits)) => (address, Some(bits)),
            None => (text, None),
        };
        let address = address.trim_matches(['[', ']']);
        let wrong = || format!("`{text}` is no address such as `10.0.0.0/8` or `2001:db8::1`");
        let address: IpAddr = address.parse().map_err(|_| wrong())?;
        let most = if address.is_ipv4() { 32 } else { 128 };
        let bits = match bits {
            None => most,
            Some(bits) => bits.parse().map_err(|_| wrong())?,
        };
        if bits > most {
            return Err(wrong());
        }
        Ok(Self { address, bits })
    }
}

/// Words, parentheses and comparisons of a filter.
fn split(text: &str) -> Vec<String> {
    let mut words = Vec::new();
    let mut word = String::new();
    for letter in text.chars() {
        let is_sign = |letter: char| matches!(letter, '=' | '!' | '<' | '>');
        let stands_alone = matches!(letter, '(' | ')');
        let turns = word
            .chars()
            .next_back()
            .is_some_and(|last| is_sign(last) != is_sign(letter));
        if (letter.is_whitespace() || stands_alone || turns) && !word.is_empty() {
            words.push(std::mem::take(&mut word));
        }
        if stands_alone {
            words.push(letter.to_string());
        } else if !letter.is_whitespace() {
            word.push(letter);
        }
    }
    if !word.is_empty() {
        words.push(word);
    }
    words
}

struct Words {
    words: Vec<String>,
    next: usize,
}

impl Words {
    fn filter(&mut self, depth: usize) -> Result<Filter, String> {
        let mut filter = self.term(depth)?;
        while self.eat(&["or", "||", "|"]) {
            filter = Filter::Or(Box::new(filter), Box::new(self.term(depth)?));
        }
        Ok(filter)
    }

    fn term(&mut self, depth: usize) -> Result<Filter, String> {
        let mut term = self.factor(depth)?;
        loop {
            let is_joined = self.eat(&["and", "&&", "&"]);
            let goes_on = self
                .peek()
                .is_some_and(|word| !matches!(word, "or" | "||" | "|" | ")"));
            if !is_joined && !goes_on {
                return Ok(term);
            }
            term = Filter::And(Box::new(term), Box::new(self.factor(depth)?));
        }
    }

    fn factor(&mut self, depth: usize) -> Result<Filter, String> {
        if depth > DEEPEST {
            return Err("too many parentheses and `not`".to_owned());
        }
        if self.eat(&["not", "!"]) {
            return Ok(Filter::Not(Box::new(self.factor(depth + 1)?)));
        }
        if self.eat(&["("]) {
            let inner = self.filter(depth + 1)?;
            if self.eat(&[")"]) {
                return Ok(inner);
            }
            return Err("a parenthesis is not closed".to_owned());
        }
        self.predicate()
    }

    fn predicate(&mut self) -> Result<Filter, String> {
        let subject = self.peek().unwrap_or_default().to_owned();
        let end = match subject.as_str() {
            "sport" | "src" => End::Local,
            "dport" | "dst" => End::Peer,
            _ => End::Either,
        };
        match subject.as_str() {
            "sport" | "dport" | "port" => {
                self.next += 1;
                let comparison = self.comparison()?;
                let port = self.value(|word| word.trim_start_matches(':').parse().ok(), "a port")?;
                Ok(Filter::Port(end, comparison, port))
            }
            "src" | "dst" | "host" => {
                self.next += 1;
                self.eat(&["=", "=="]);
                let block = self.peek().unwrap_or_default().parse()?;
                self.next += 1;
                Ok(Filter::Host(end, block))
            }
            "state" => {
                self.next += 1;
                self.eat(&["=", "=="]);
                let states = self.value(states, "a state such as `established` or `close-wait`")?;
                Ok(Filter::State(states))
            }
            "process" | "pid" | "uid" | "limit" | "cc" | "relay" => {
                self.next += 1;
                self.eat(&["=", "=="]);
                self.named(&subject)
            }
            _ => Err(
                "expected `sport`, `dport`, `port`, `src`, `dst`, `host`, `state`, `process`, `pid`, `uid`, \
                 `limit`, `cc` or `relay`"
                    .to_owned(),
            ),
        }
    }

    fn named(&mut self, subject: &str) -> Result<Filter, String> {
        match subject {
            "process" => self
                .value(|word| Some(word.to_owned()), "a name")
                .map(Filter::Process),
            "pid" => self
                .value(|word| word.parse().ok(), "a process number")
                .map(Filter::Pid),
            "uid" => self
                .value(|word| word.parse().ok(), "a user number")
                .map(Filter::Uid),
            "limit" => self
                .value(limit, "a limit such as `receive-window`")
                .map(Filter::Limit),
            "relay" => self
                .value(|word| Some(word.to_owned()), "a part of an address")
                .map(Filter::Relay),
            _ => self
                .value(|word| Some(word.to_owned()), "a congestion control")
                .map(Filter::CongestionControl),
        }
    }

    fn comparison(&mut self) -> Result<Comparison, String> {
        let comparison = match self.peek().unwrap_or_default() {
            "=" | "==" => Comparison::Equal,
            "!=" => Comparison::NotEqual,
            "<" => Comparison::Less,
            "<=" => Comparison::AtMost,
            ">" => Comparison::Greater,
            ">=" => Comparison::AtLeast,
            word if word.starts_with(['=', '!', '<', '>']) => {
                return Err("expected `=`, `!=`, `<`, `<=`, `>` or `>=`".to_owned());
            }
            _ => return Ok(Comparison::Equal),
        };
        self.next += 1;
        Ok(comparison)
    }

    fn value<T>(&mut self, read: impl Fn(&str) -> Option<T>, what: &str) -> Result<T, String> {
        let value = self
            .peek()
            .filter(|word| !matches!(*word, "(" | ")"))
            .and_then(read);
        match value {
            Some(value) => {
                self.next += 1;
                Ok(value)
            }
            None => Err(format!("expected {what}")),
        }
    }

    fn peek(&self) -> Option<&str> {
        self.words.get(self.next).map(String::as_str)
    }

    fn eat(&mut self, choices: &[&str]) -> bool {
        let is_there = self.peek().is_some_and(|word| choices.contains(&word));
        self.next += usize::from(is_there);
        is_there
    }

    fn rest(&self) -> String {
        match self.words.get(self.next..) {
            Some(rest) if !rest.is_empty() => rest.join(" "),
            _ => "its end".to_owned(),
        }
    }
}

/// A state by its name, or one of the groups that `ss` knows.
fn states(word: &str) -> Option<Vec<State>> {
    let all = || State::ALL.into_iter();
    let states = match word {
        "all" => all().collect(),
        "connected" => all()
            .filter(|state| !matches!(state, State::Listening | State::Closed))
            .collect(),
        "synchronized" => all()
            .filter(|state| !matches!(state, State::Listening | State::Closed | State::SynSent))
            .collect(),
        "estab" => vec![State::Established],
        "listen" => vec![State::Listening],
        _ => vec![all().find(|state| state.as_str() == word)?],
    };
    Some(states)
}

fn limit(word: &str) -> Option<LimitName> {
    LimitName::ALL
        .into_iter()
        .find(|name| name.as_str() == word)
}
