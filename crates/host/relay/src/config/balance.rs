//! Several targets behind one listener: where the next connection goes, and how it is known who is there.

use std::time::Duration;

use profile::Setting;
use serde::{Deserialize, Serialize};
use units::Span;

use super::Target;
use super::front::span;

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
    /// How long a resolved name is used before it is resolved again.
    pub resolve_every: Duration,
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
}

// === impl BalanceOptions ===

impl BalanceOptions {
    pub(super) fn resolve(&self, problems: &mut Vec<String>) -> Balancing {
        let mut also = Vec::new();
        for text in &self.also {
            match text.parse() {
                Ok(target) => also.push(target),
                Err(error) => problems.push(format!("balance.also: {error}")),
            }
        }
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
        };
        if let Some(check) = &balancing.check {
            if check.every.is_zero() || check.timeout.is_zero() {
                problems.push("balance.check-every and check-timeout are above 0 s".into());
            }
            if check.fall == 0 || check.rise == 0 {
                problems.push("balance.fall and balance.rise are 1 or more".into());
            }
            let is_path = |path: &String| {
                path.starts_with('/') && path.bytes().all(|byte| byte.is_ascii_graphic())
            };
            if !check.path.as_ref().is_none_or(is_path) {
                problems.push("balance.check-path starts with `/` and has no spaces".into());
            }
        }
        balancing
    }
}
