//! Several targets behind one listener: where the next connection goes, and how it is known who is there.

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use document::Problems;
use profile::Setting;
use serde::{Deserialize, Serialize};
use units::Span;

use super::Target;
use super::front::{each, span};

/// The targets of a relay beside its first, and how connections are shared out.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Balancing {
    /// Further targets, after the relay's own.
    pub also: Vec<Target>,
    /// Which one the next connection goes to.
    pub by: Balance,
    /// How long a target that could not be connected to is tried last.
    pub rest: Duration,
    /// How targets are looked at while nobody connects; `None` leaves it to the clients' connections.
    pub check: Option<Check>,
    /// How long a resolved name is used before it is resolved again, where its records do not say it.
    pub resolve_every: Duration,
    /// Who is asked for names; nobody: this host's own resolver.
    pub name_servers: Vec<SocketAddr>,
}

/// Which target the next connection goes to, of those that are there.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Balance {
    /// Each in turn.
    #[default]
    RoundRobin,
    /// The one with the fewest open connections of this relay.
    LeastConnections,
    /// The first in the order of the configuration: the others are reserves.
    FirstAvailable,
}

/// How a target is looked at.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Check {
    /// From one look to the next.
    pub every: Duration,
    /// For one look.
    pub timeout: Duration,
    /// A path whose answer must be 2xx or 3xx; `None`: connecting is enough.
    pub path: Option<String>,
    /// Looks in a row that must fail before a target is out.
    pub fall: u32,
    /// Looks in a row that must succeed before it is back.
    pub rise: u32,
}

/// See [`Balancing`] and [`Check`].
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
#[allow(
    missing_docs,
    reason = "each field is documented where it is resolved, in Balancing and Check"
)]
pub struct BalanceOptions {
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub also: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub by: Option<Balance>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rest: Option<Span>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub check_every: Option<Setting<Span>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub check_timeout: Option<Span>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub check_path: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fall: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rise: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resolve_every: Option<Span>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub name_servers: Vec<String>,
}

// === impl BalanceOptions ===

impl BalanceOptions {
    /// What is said in the table `balance` of a relay.
    pub(super) fn resolve(&self, problems: &mut Problems) -> Balancing {
        problems.within("balance", |problems| self.resolve_within(problems))
    }

    /// Tells of a path that would be asked for without TLS, of a server that is spoken to with it.
    pub(super) fn only_connects(&self, with_tls: bool, problems: &mut Problems) {
        problems.require(
            !with_tls || self.check_path.is_none(),
            "balance.check-path",
            "it is asked for without TLS: leave it out, connecting is checked",
        );
    }

    fn resolve_within(&self, problems: &mut Problems) -> Balancing {
        let also = each(problems, "also", &self.also, Target::or_service);
        let name_servers = each(problems, "name-servers", &self.name_servers, name_server);
        // One target is seen by its clients' connections. Of several, a client should not be the one who
        // finds out.
        let looked_at = !also.is_empty() || self.check_path.is_some();
        let every = match self.check_every {
            Some(every) => every.value().map(Span::get),
            None => looked_at.then_some(Duration::from_secs(5)),
        };
        let balancing = Balancing {
            also,
            by: self.by.unwrap_or_default(),
            rest: span(self.rest, Duration::from_secs(10)),
            check: every.map(|every| Check {
                every,
                timeout: span(self.check_timeout, Duration::from_secs(2)),
                path: self.check_path.clone(),
                // One lost SYN is no failure; a minute of downtime is not forgotten by one good look.
                fall: self.fall.unwrap_or(3),
                rise: self.rise.unwrap_or(2),
            }),
            resolve_every: span(self.resolve_every, Duration::from_secs(30)),
            name_servers,
        };
        if let Some(check) = &balancing.check {
            let is_path = |path: &String| {
                path.starts_with('/') && path.bytes().all(|byte| byte.is_ascii_graphic())
            };
            problems.require(
                !check.every.is_zero(),
                "check-every",
                "it is above 0 s, or \"off\"",
            );
            problems.require(!check.timeout.is_zero(), "check-timeout", "it is above 0 s");
            problems.require(check.fall > 0, "fall", "it is 1 or more");
            problems.require(check.rise > 0, "rise", "it is 1 or more");
            problems.require(
                check.path.as_ref().is_none_or(is_path),
                "check-path",
                "a path starts with `/` and has no spaces",
            );
        }
        balancing
    }
}

/// An address, with the port of DNS where none is written.
fn name_server(text: &str) -> Result<SocketAddr, String> {
    const DNS: u16 = 53;
    let alone = || text.parse::<IpAddr>().map(|ip| SocketAddr::new(ip, DNS));
    let server = text.parse().or_else(|_| alone());
    server.map_err(|_| {
        format!("`{text}` is not a name server's address such as `10.0.0.53` or `127.0.0.1:5353`")
    })
}
