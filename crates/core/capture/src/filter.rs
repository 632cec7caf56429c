//! Which observations are meant: the part of `pcap-filter(7)` that people type.

use alloc::boxed::Box;
use alloc::string::{String, ToString as _};
use alloc::vec::{self, Vec};
use core::net::IpAddr;
use core::str::FromStr;

use wire::{Endpoint, Host, Observation};

/// A condition on observations.
///
/// ```
/// # use longhaul_capture as capture;
/// let filter: capture::Filter = "tcp and host 203.0.113.7 and not port 22".parse()?;
/// # let _ = filter;
/// # Ok::<(), capture::FilterError>(())
/// ```
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Filter {
    /// TCP segments.
    Tcp,
    /// ICMP and `ICMPv6` echoes.
    Icmp,
    /// IPv4 (`false`) or IPv6 (`true`).
    Version6(bool),
    /// One end, or the named one, has an address within this prefix.
    Net(End, IpAddr, u8),
    /// One end, or the named one, has a port in this range.
    Ports(End, u16, u16),
    /// The opposite.
    Not(Box<Self>),
    /// Both.
    And(Box<Self>, Box<Self>),
    /// At least one.
    Or(Box<Self>, Box<Self>),
}

/// Which end a condition speaks of.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum End {
    /// Either.
    Any,
    /// The sender.
    Source,
    /// The receiver.
    Destination,
}

/// A filter that cannot be understood.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub enum FilterError {
    /// A word where another was expected.
    #[error("`{found}` in the filter: expected {expected}")]
    Word {
        /// What stands there.
        found: String,
        /// What could stand there.
        expected: &'static str,
    },
    /// It ends too soon.
    #[error("the filter ends where {expected} was expected")]
    End {
        /// What is missing.
        expected: &'static str,
    },
    /// More parentheses or negations inside each other than anybody types.
    #[error("the filter is nested too deeply")]
    Depth,
}

impl Filter {
    /// Whether `observation` is meant. What is neither TCP nor ICMP about it has no ends that are known: only a
    /// negation can mean it.
    #[must_use]
    pub fn matches(&self, observation: &Observation<'_>) -> bool {
        match self {
            Self::Tcp => matches!(
                observation,
                Observation::Tcp(_) | Observation::FirstFragment(_) | Observation::Fragment(_)
            ),
            Self::Icmp => matches!(
                observation,
                Observation::IcmpEcho(_) | Observation::IcmpError(_)
            ),
            Self::Version6(six) => ends(observation)
                .is_some_and(|(source, _)| address(source).is_some_and(|ip| ip.is_ipv6() == *six)),
            Self::Net(end, prefix, bits) => meets(*end, observation, |end| {
                address(end).is_some_and(|ip| is_within(ip, *prefix, *bits))
            }),
            Self::Ports(end, from, to) => {
                let has_ports = matches!(
                    observation,
                    Observation::Tcp(_) | Observation::FirstFragment(_) | Observation::IcmpError(_)
                );
                has_ports && meets(*end, observation, |end| (*from..=*to).contains(&end.port))
            }
            Self::Not(inner) => !inner.matches(observation),
            Self::And(one, other) => one.matches(observation) && other.matches(observation),
            Self::Or(one, other) => one.matches(observation) || other.matches(observation),
        }
    }

    /// Everything but the packets between these two.
    #[must_use]
    pub fn without_session(one: (IpAddr, u16), other: (IpAddr, u16)) -> Self {
        let end = |(address, port)| {
            Self::And(
                Box::new(Self::Net(End::Any, address, bits_of(address))),
                Box::new(Self::Ports(End::Any, port, port)),
            )
        };
        Self::Not(Box::new(Self::And(
            Box::new(end(one)),
            Box::new(end(other)),
        )))
    }
}

impl FromStr for Filter {
    type Err = FilterError;

    fn from_str(text: &str) -> Result<Self, FilterError> {
        let text = text
            .replace('(', " ( ")
            .replace(')', " ) ")
            .replace('!', " not ");
        let mut words = Words {
            rest: text.split_whitespace().collect::<Vec<_>>().into_iter(),
            latest: None,
        };
        let filter = words.chain(0)?;
        match words.rest.next() {
            None => Ok(filter),
            Some(found) => Err(FilterError::Word {
                found: found.to_string(),
                expected: "`and`, `or` or the end",
            }),
        }
    }
}

/// A filter that is being read, by recursive descent.
struct Words<'a> {
    rest: vec::IntoIter<&'a str>,
    /// What the latest address or number was, for those that stand without a word of their own.
    latest: Option<(Ends, Kind)>,
}

/// Which ends a primitive names.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Ends {
    /// One, or either.
    Are(End),
    /// `src and dst`.
    Both,
}

/// What an address or a number stands for.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Kind {
    Host,
    Net,
    Port,
    Range,
}

const DEEPEST: usize = 64;
pub(crate) const PRIMITIVE: &str =
    "tcp, icmp, ip, ip6, host, net, port, portrange, src, dst, not or `(`";

impl<'a> Words<'a> {
    /// `and` and `or` bind alike, from left to right, as pcap-filter(7) has it.
    fn chain(&mut self, depth: usize) -> Result<Filter, FilterError> {
        let mut filter = self.one(depth)?;
        loop {
            if self.takes(&["and", "&&"]) {
                filter = Filter::And(Box::new(filter), Box::new(self.one(depth)?));
            } else if self.takes(&["or", "||"]) {
                filter = Filter::Or(Box::new(filter), Box::new(self.one(depth)?));
            } else {
                return Ok(filter);
            }
        }
    }

    fn one(&mut self, depth: usize) -> Result<Filter, FilterError> {
        if depth > DEEPEST {
            return Err(FilterError::Depth);
        }
        if self.takes(&["not"]) {
            return Ok(Filter::Not(Box::new(self.one(depth + 1)?)));
        }
        if self.takes(&["("]) {
            let inner = self.chain(depth + 1)?;
            return match self.next("`)`")? {
                ")" => Ok(inner),
                found => Err(wrong(found, "`)`")),
            };
        }
        let protocol = match self.rest.as_slice().first() {
            Some(&"tcp") => Some(Filter::Tcp),
            Some(&("icmp" | "icmp6")) => Some(Filter::Icmp),
            Some(&"ip") => Some(Filter::Version6(false)),
            Some(&"ip6") => Some(Filter::Version6(true)),
            Some(_) | None => None,
        };
        let Some(protocol) = protocol else {
            return self.primitive();
        };
        self.rest.next();
        match (self.rest.as_slice().first(), &protocol) {
            // `tcp port 80`: ports are TCP's, also those of the packet that an ICMP error is about.
            (Some(&("port" | "portrange" | "src" | "dst")), Filter::Tcp) => self.primitive(),
            // `ip host 10.0.0.1`.
            (Some(&("host" | "net" | "port" | "portrange" | "src" | "dst")), _) => {
                Ok(Filter::And(Box::new(protocol), Box::new(self.primitive()?)))
            }
            _ => Ok(protocol),
        }
    }

    /// `src host 10.0.0.1`, `port 80`; or an address or number alone, which is what the latest one was.
    fn primitive(&mut self) -> Result<Filter, FilterError> {
        let ends = self.ends();
        let kind = match self.rest.as_slice().first().copied() {
            Some("host") => Some(Kind::Host),
            Some("net") => Some(Kind::Net),
            Some("port") => Some(Kind::Port),
            Some("portrange") => Some(Kind::Range),
            Some(_) | None => None,
        };
        let (ends, kind) = match (ends, kind, self.latest) {
            (ends, Some(kind), _) => {
                self.rest.next();
                (ends.unwrap_or(Ends::Are(End::Any)), kind)
            }
            (Some(ends), None, _) => (ends, Kind::Host),
            (None, None, latest) => {
                let value = |word: &&str| {
                    word.starts_with(|first: char| first.is_ascii_digit()) || word.contains(':')
                };
                match (
                    self.rest.as_slice().first().filter(|word| value(word)),
                    latest,
                ) {
                    (Some(_), Some(latest)) => latest,
                    (Some(word), None) if word.parse::<IpAddr>().is_ok() => {
                        (Ends::Are(End::Any), Kind::Host)
                    }
                    (Some(_), None) | (None, _) => {
                        return Err(wrong(self.next(PRIMITIVE)?, PRIMITIVE));
                    }
                }
            }
        };
        self.latest = Some((ends, kind));
        let value = self.value(kind)?;
        Ok(match ends {
            Ends::Are(end) => value(end),
            Ends::Both => Filter::And(
                Box::new(value(End::Source)),
                Box::new(value(End::Destination)),
            ),
        })
    }

    /// `src`, `dst`, and the two with `or` or `and` between them.
    fn ends(&mut self) -> Option<Ends> {
        let (ends, words) = match *self.rest.as_slice() {
            ["src", "or" | "||", "dst", ..] | ["dst", "or" | "||", "src", ..] => {
                (Ends::Are(End::Any), 3)
            }
            ["src", "and" | "&&", "dst", ..] | ["dst", "and" | "&&", "src", ..] => (Ends::Both, 3),
            ["src", ..] => (Ends::Are(End::Source), 1),
            ["dst", ..] => (Ends::Are(End::Destination), 1),
            _ => return None,
        };
        self.rest.by_ref().take(words).for_each(drop);
        Some(ends)
    }

    fn value(&mut self, kind: Kind) -> Result<Box<dyn Fn(End) -> Filter>, FilterError> {
        Ok(match kind {
            Kind::Host => {
                let address = self.address()?;
                Box::new(move |end| Filter::Net(end, address, bits_of(address)))
            }
            Kind::Net => {
                let (prefix, bits) = self.net()?;
                Box::new(move |end| Filter::Net(end, prefix, bits))
            }
            Kind::Port => {
                let word = self.next("a port number")?;
                let port = word.parse().map_err(|_| wrong(word, "a port number"))?;
                Box::new(move |end| Filter::Ports(end, port, port))
            }
            Kind::Range => {
                let (from, to) = self.ports()?;
                Box::new(move |end| Filter::Ports(end, from, to))
            }
        })
    }

    fn address(&mut self) -> Result<IpAddr, FilterError> {
        const EXPECTED: &str = "an address (names are not resolved)";
        let word = self.next(EXPECTED)?;
        word.parse().map_err(|_| wrong(word, EXPECTED))
    }

    /// `10.0.0.0/8`, or an address alone.
    fn net(&mut self) -> Result<(IpAddr, u8), FilterError> {
        const EXPECTED: &str = "a network such as 10.0.0.0/8";
        let word = self.next(EXPECTED)?;
        let (prefix, bits) = word.split_once('/').unwrap_or((word, ""));
        let prefix: IpAddr = prefix.parse().map_err(|_| wrong(word, EXPECTED))?;
        let most = bits_of(prefix);
        let bits = match bits {
            "" => most,
            bits => bits.parse().map_err(|_| wrong(word, EXPECTED))?,
        };
        if bits > most {
            return Err(wrong(word, EXPECTED));
        }
        Ok((prefix, bits))
    }

    /// `8000-8010`.
    fn ports(&mut self) -> Result<(u16, u16), FilterError> {
        const EXPECTED: &str = "a range of ports such as 8000-8010";
        let word = self.next(EXPECTED)?;
        let range = word.split_once('-').and_then(|(from, to)| {
            let (from, to) = (from.parse().ok()?, to.parse().ok()?);
            (from <= to).then_some((from, to))
        });
        range.ok_or_else(|| wrong(word, EXPECTED))
    }

    fn takes(&mut self, words: &[&str]) -> bool {
        let found = self
            .rest
            .as_slice()
            .first()
            .is_some_and(|word| words.contains(word));
        if found {
            self.rest.next();
        }
        found
    }

    fn next(&mut self, expected: &'static str) -> Result<&'a str, FilterError> {
        self.rest.next().ok_or(FilterError::End { expected })
    }
}

fn wrong(found: &str, expected: &'static str) -> FilterError {
    FilterError::Word {
        found: found.to_string(),
        expected,
    }
}

const fn bits_of(address: IpAddr) -> u8 {
    match address {
        IpAddr::V4(_) => 32,
        IpAddr::V6(_) => 128,
    }
}

fn is_within(address: IpAddr, prefix: IpAddr, bits: u8) -> bool {
    let differing = match (address, prefix) {
        (IpAddr::V4(one), IpAddr::V4(other)) => (one.to_bits() ^ other.to_bits()).leading_zeros(),
        (IpAddr::V6(one), IpAddr::V6(other)) => (one.to_bits() ^ other.to_bits()).leading_zeros(),
        _ => return false,
    };
    differing >= u32::from(bits)
}

/// Both ends; an echo has no ports, and a later fragment does not say them.
fn ends<'a>(observation: &Observation<'a>) -> Option<(Endpoint<'a>, Endpoint<'a>)> {
    match observation {
        Observation::Tcp(segment) => Some((segment.source, segment.destination)),
        Observation::IcmpEcho(echo) => {
            let end = |host| Endpoint { host, port: 0 };
            Some((end(echo.source), end(echo.destination)))
        }
        Observation::Fragment(fragment) => {
            let end = |address| Endpoint {
                host: Host::Ip(address),
                port: 0,
            };
            Some((end(fragment.source), end(fragment.destination)))
        }
        Observation::FirstFragment(first) => {
            Some((first.segment.source, first.segment.destination))
        }
        // What it is about: whoever asks for a connection wants to know what became of its packets.
        Observation::IcmpError(error) => Some((error.source, error.destination)),
        Observation::Resolution(_) | Observation::Other(_) => None,
    }
}

fn meets(end: End, observation: &Observation<'_>, holds: impl Fn(Endpoint<'_>) -> bool) -> bool {
    ends(observation).is_some_and(|(source, destination)| match end {
        End::Any => holds(source) || holds(destination),
        End::Source => holds(source),
        End::Destination => holds(destination),
    })
}

const fn address(end: Endpoint<'_>) -> Option<IpAddr> {
    match end.host {
        Host::Ip(address) => Some(address),
        Host::Name(_) => None,
    }
}
