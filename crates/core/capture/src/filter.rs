//! Which observations are meant: the part of `pcap-filter(7)` that people type.

use alloc::boxed::Box;
use alloc::string::{String, ToString as _};
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
            rest: text.split_whitespace().peekable(),
        };
        let filter = words.either(0)?;
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
struct Words<'a, I: Iterator<Item = &'a str>> {
    rest: core::iter::Peekable<I>,
}

const DEEPEST: usize = 64;
pub(crate) const PRIMITIVE: &str =
    "tcp, icmp, ip, ip6, host, net, port, portrange, src, dst, not or `(`";

impl<'a, I: Iterator<Item = &'a str>> Words<'a, I> {
    fn either(&mut self, depth: usize) -> Result<Filter, FilterError> {
        let mut filter = self.both(depth)?;
        while self.takes(&["or", "||"]) {
            filter = Filter::Or(Box::new(filter), Box::new(self.both(depth)?));
        }
        Ok(filter)
    }

    fn both(&mut self, depth: usize) -> Result<Filter, FilterError> {
        let mut filter = self.one(depth)?;
        while self.takes(&["and", "&&"]) {
            filter = Filter::And(Box::new(filter), Box::new(self.one(depth)?));
        }
        Ok(filter)
    }

    fn one(&mut self, depth: usize) -> Result<Filter, FilterError> {
        if depth > DEEPEST {
            return Err(FilterError::Depth);
        }
        if self.takes(&["not"]) {
            return Ok(Filter::Not(Box::new(self.one(depth + 1)?)));
        }
        if self.takes(&["("]) {
            let inner = self.either(depth + 1)?;
            return match self.next("`)`")? {
                ")" => Ok(inner),
                found => Err(wrong(found, "`)`")),
            };
        }
        let end = if self.takes(&["src"]) {
            End::Source
        } else if self.takes(&["dst"]) {
            End::Destination
        } else {
            End::Any
        };
        match self.next(PRIMITIVE)? {
            "tcp" if end == End::Any => Ok(match self.rest.peek() {
                // `tcp port 80`.
                Some(&("port" | "portrange" | "src" | "dst")) => self.one(depth + 1)?,
                _ => Filter::Tcp,
            }),
            "icmp" | "icmp6" if end == End::Any => Ok(Filter::Icmp),
            "ip" if end == End::Any => Ok(Filter::Version6(false)),
            "ip6" if end == End::Any => Ok(Filter::Version6(true)),
            "host" => {
                let address = self.address()?;
                Ok(Filter::Net(end, address, bits_of(address)))
            }
            "net" => self.net(end),
            "port" => {
                let word = self.next("a port number")?;
                let port = word.parse().map_err(|_| wrong(word, "a port number"))?;
                Ok(Filter::Ports(end, port, port))
            }
            "portrange" => self.ports(end),
            found => Err(wrong(found, PRIMITIVE)),
        }
    }

    fn address(&mut self) -> Result<IpAddr, FilterError> {
        const EXPECTED: &str = "an address (names are not resolved)";
        let word = self.next(EXPECTED)?;
        word.parse().map_err(|_| wrong(word, EXPECTED))
    }

    /// `10.0.0.0/8`, or an address alone.
    fn net(&mut self, end: End) -> Result<Filter, FilterError> {
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
        Ok(Filter::Net(end, prefix, bits))
    }

    /// `8000-8010`.
    fn ports(&mut self, end: End) -> Result<Filter, FilterError> {
        const EXPECTED: &str = "a range of ports such as 8000-8010";
        let word = self.next(EXPECTED)?;
        let range = word.split_once('-').and_then(|(from, to)| {
            let (from, to) = (from.parse().ok()?, to.parse().ok()?);
            (from <= to).then_some((from, to))
        });
        let (from, to) = range.ok_or_else(|| wrong(word, EXPECTED))?;
        Ok(Filter::Ports(end, from, to))
    }

    fn takes(&mut self, words: &[&str]) -> bool {
        self.rest.next_if(|word| words.contains(word)).is_some()
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
