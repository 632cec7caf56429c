//! What relays of all kinds have in common.

use std::fmt::Display;
use std::net::SocketAddr;
use std::str::FromStr;
use std::time::Duration;

use document::Problems;
use profile::ProfileSet;
use units::{Rate, Span};

use super::{BalanceOptions, Destination, Front, profile_named};
use crate::Cidr;

/// Loopback and private networks (RFC 1918, RFC 4193, RFC 4291 §2.5.6): a relay serves a site by default,
/// never the Internet.
pub(crate) const PRIVATE: [&str; 7] = [
    "127.0.0.0/8",
    "10.0.0.0/8",
    "172.16.0.0/12",
    "192.168.0.0/16",
    "::1/128",
    "fc00::/7",
    "fe80::/10",
];

/// A [`Front`] as it is written.
pub(super) struct WrittenFront<'a> {
    pub(super) listen: &'a str,
    pub(super) target: &'a str,
    pub(super) client_profile: &'a str,
    pub(super) server_profile: &'a str,
    pub(super) allow: &'a [String],
    pub(super) deny: &'a [String],
    pub(super) balance: &'a BalanceOptions,
    pub(super) connections: Option<usize>,
    pub(super) drain_timeout: Option<Span>,
    pub(super) bandwidth: Option<Rate>,
}

impl WrittenFront<'_> {
    /// As [`Self::resolve`], for relays that have one target for all clients.
    pub(super) fn resolve_with_target(
        self,
        profiles: &ProfileSet,
        problems: &mut Problems,
    ) -> Option<Front> {
        let front = self.resolve(profiles, problems)?;
        if front.target().is_none() {
            problems.tell_with(
                "target",
                format!("`{}` is for [[tcp]] alone", front.destination),
                "write HOST:PORT",
            );
        }
        Some(front)
    }

    /// The valid front; what is wrong goes to `problems`, and nothing is returned where a part is missing.
    pub(super) fn resolve(self, profiles: &ProfileSet, problems: &mut Problems) -> Option<Front> {
        let listen = parse_listen(problems, "listen", self.listen);
        let destination = parse::<Destination>(problems, "target", self.target);
        let mut profile = |key, name| profile_named(profiles, problems, key, name);
        let client_profile = profile("client-profile", self.client_profile);
        let server_profile = profile("server-profile", self.server_profile);
        let private = PRIVATE.map(str::to_owned);
        let blocks = if self.allow.is_empty() {
            &private
        } else {
            self.allow
        };
        let allow = parse_all::<Cidr>(problems, "allow", blocks);
        let deny = parse_all::<Cidr>(problems, "deny", self.deny);
        let balancing = self.balance.resolve(problems);
        // Two descriptors per relayed connection, below the common hard limit of 20,000.
        let connections = self.connections.unwrap_or(9_000);
        problems.require(
            connections > 0,
            "limits.connections",
            "with 0 nobody could connect",
        );
        // One segment per second: with less, no connection would ever open.
        problems.require(
            self.bandwidth
                .is_none_or(|rate| rate >= Rate::kbit_per_s(12)),
            "bandwidth",
            "it is 12 kbit/s or more, one segment per second",
        );
        Some(Front {
            listen: listen?,
            destination: destination?,
            client_profile: client_profile?,
            server_profile: server_profile?,
            balancing,
            allow,
            deny,
            connections,
            bandwidth: self.bandwidth,
            drain_timeout: span(self.drain_timeout, Duration::from_secs(30)),
        })
    }
}

pub(crate) fn span(written: Option<Span>, default: Duration) -> Duration {
    written.map_or(default, Span::get)
}

/// What the text of `key` means.
pub(crate) fn parse<T>(problems: &mut Problems, key: &str, text: &str) -> Option<T>
where
    T: FromStr<Err: Display>,
{
    let parsed = text.parse();
    parsed
        .map_err(|error: T::Err| problems.tell(key, error.to_string()))
        .ok()
}

/// What the texts in the list `key` mean.
pub(crate) fn parse_all<T>(problems: &mut Problems, key: &str, texts: &[impl AsRef<str>]) -> Vec<T>
where
    T: FromStr<Err: Display>,
{
    each(problems, key, texts, str::parse)
}

/// What `read` makes of the texts in the list `key`.
pub(super) fn each<T, E: Display>(
    problems: &mut Problems,
    key: &str,
    texts: &[impl AsRef<str>],
    read: impl Fn(&str) -> Result<T, E>,
) -> Vec<T> {
    problems.within(key, |problems| {
        let mut values = Vec::new();
        for (index, text) in texts.iter().enumerate() {
            match read(text.as_ref()) {
                Ok(value) => values.push(value),
                Err(error) => {
                    problems.within(index, |problems| problems.tell("", error.to_string()));
                }
            }
        }
        values
    })
}

/// The address that `key` says to listen on.
pub(crate) fn parse_listen(problems: &mut Problems, key: &str, text: &str) -> Option<SocketAddr> {
    let parsed = text.parse();
    if parsed.is_err() {
        problems.tell_with(
            key,
            format!("`{text}` is not an address and a port"),
            "write it like `127.0.0.1:8080`, or `0.0.0.0:8080` for all addresses of this host",
        );
    }
    parsed.ok()
}

/// Tells of times that are 0, which would end everything at once: `why` says what.
pub(crate) fn above_zero(problems: &mut Problems, why: &str, spans: &[(&str, Duration)]) {
    for (key, span) in spans {
        problems.require(!span.is_zero(), key, &format!("with 0 s {why}"));
    }
}
