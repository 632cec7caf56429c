//! What relays of all kinds have in common.

use std::fmt::Display;
use std::net::SocketAddr;
use std::str::FromStr;
use std::time::Duration;

use profile::{ProfileSet, TcpProfile};
use units::{Rate, Span};

use super::{BalanceOptions, Destination, Front};
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
        problems: &mut Vec<String>,
    ) -> Option<Front> {
        let front = self.resolve(profiles, problems)?;
        if front.target().is_none() {
            problems.push(format!(
                "target: `{}` is for [[tcp]] alone: write HOST:PORT",
                front.destination
            ));
        }
        Some(front)
    }

    /// The valid front; what is wrong goes to `problems`, and nothing is returned where a part is missing.
    pub(super) fn resolve(
        self,
        profiles: &ProfileSet,
        problems: &mut Vec<String>,
    ) -> Option<Front> {
        let listen = parse::<SocketAddr>(problems, "listen", self.listen);
        let destination = parse::<Destination>(problems, "target", self.target);
        let mut profile = |name: &str| -> Option<TcpProfile> {
            profiles
                .resolve(name)
                .map_err(|errors| problems.extend(errors.iter().map(ToString::to_string)))
                .ok()
        };
        let client_profile = profile(self.client_profile);
        let server_profile = profile(self.server_profile);
        let private = PRIVATE.map(str::to_owned);
        let blocks = if self.allow.is_empty() {
            &private
        } else {
            self.allow
        };
        let allow: Vec<_> = blocks
            .iter()
            .filter_map(|block| parse::<Cidr>(problems, "allow", block))
            .collect();
        let deny = self.deny.iter();
        let deny = deny.filter_map(|block| parse::<Cidr>(problems, "deny", block));
        let deny: Vec<_> = deny.collect();
        let balancing = self.balance.resolve(problems);
        // Two descriptors per relayed connection, below the common hard limit of 20,000.
        let connections = self.connections.unwrap_or(9_000);
        if connections == 0 {
            problems.push("limits.connections is 0: nobody could connect".into());
        }
        // One segment per second: with less, no connection would ever open.
        if self
            .bandwidth
            .is_some_and(|rate| rate < Rate::kbit_per_s(12))
        {
            problems.push("bandwidth is below 12 kbit/s, one segment per second".into());
        }
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

pub(crate) fn parse<T>(problems: &mut Vec<String>, field: &str, text: &str) -> Option<T>
where
    T: FromStr<Err: Display>,
{
    match text.parse() {
        Ok(value) => Some(value),
        Err(error) => {
            problems.push(format!("{field}: {error}"));
            None
        }
    }
}
