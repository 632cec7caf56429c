//! Relays that end TLS, begin it, or both.

use std::path::PathBuf;
use std::time::Duration;

use document::Problems;
use profile::{ProfileSet, TlsProfile};
use serde::{Deserialize, Serialize};
use units::{Rate, Span};

use super::front::{WrittenFront, above_zero, span};
use super::sides::{TlsCertificate, TlsSideOptions, TlsSides, Upstream};
use super::{BalanceOptions, Front, Target, resolve_all};

/// One listener and the service behind it, with TLS on at least one side.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct TlsRelay {
    /// Listener and service.
    pub front: Front,
    /// How TLS is ended and begun.
    pub sides: TlsSides,
    /// Where clients go who ask for one of these names; all others go to the front's target.
    pub routes: Vec<TlsRoute>,
    /// What clients may take, and how long nothing may happen.
    pub limits: TlsLimits,
}

/// Where clients go who ask for a name (SNI, RFC 6066 §3).
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct TlsRoute {
    /// The name, in lower case; `*.` in front of it stands for any one label.
    pub name: String,
    /// Where they are relayed to.
    pub target: Target,
    /// The name that the server's certificate must be for, where it is spoken to with TLS.
    pub server_name: String,
}

/// A [`TlsRoute`] as it is written.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct TlsRouteOptions {
    /// See [`TlsRoute::name`].
    pub name: String,
    /// See [`TlsRoute::target`].
    pub target: String,
    /// See [`TlsRoute::server_name`]; the target's host where nothing is said.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub upstream_name: Option<String>,
}

/// What clients may take, and how long nothing may happen.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct TlsLimits {
    /// Handshakes with clients at the same time; others wait within their `handshake_timeout`.
    pub handshakes: usize,
    /// For a handshake, on either side.
    pub handshake_timeout: Duration,
    /// For a connection to the target, name resolution included and TLS not.
    pub connect_timeout: Duration,
    /// Without a byte in either direction.
    pub idle_timeout: Duration,
    /// The same once one side has ended its direction.
    pub half_closed_timeout: Duration,
}

/// Such a relay as it is written: everything optional that has a default.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct TlsOptions {
    /// Where clients connect, such as `0.0.0.0:443`.
    pub listen: String,
    /// Where they are relayed to, such as `store.example:443`.
    pub target: String,
    /// Profile of accepted sockets; `lan` where nothing is said.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub client_profile: Option<String>,
    /// Profile of connected sockets; `wan` where nothing is said.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub server_profile: Option<String>,
    /// Who may connect; loopback and private networks where nothing is said.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub allow: Vec<String>,
    /// Who of them may not.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub deny: Vec<String>,
    /// See [`Front::bandwidth`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bandwidth: Option<Rate>,
    /// See [`TlsSides::profile`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tls_profile: Option<TlsProfile>,
    /// See [`TlsClients::authority`](super::TlsClients::authority).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub client_ca: Option<PathBuf>,
    /// See [`TlsSides::server`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub upstream: Option<Upstream>,
    /// See [`TlsServer::name`](super::TlsServer::name); the target's host where nothing is said.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub upstream_name: Option<String>,
    /// See [`TlsServer::authority`](super::TlsServer::authority).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub upstream_ca: Option<PathBuf>,
    /// See [`TlsSides::key_log`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key_log: Option<PathBuf>,
    /// See [`TlsServer::certificate`](super::TlsServer::certificate).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub upstream_certificate: Option<TlsCertificate>,
    /// See [`TlsClients::certificates`](super::TlsClients::certificates); clients speak without TLS where there is none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub certificates: Vec<TlsCertificate>,
    /// See [`TlsRelay::routes`].
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub routes: Vec<TlsRouteOptions>,
    /// Further targets, and how connections are shared out among them.
    #[serde(default)]
    pub balance: BalanceOptions,
    /// What clients may take, and how long nothing may happen.
    #[serde(default)]
    pub limits: TlsLimitOptions,
}

/// See [`TlsLimits`] and [`Front`].
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
#[allow(
    missing_docs,
    reason = "each field is documented where it is resolved, in TlsLimits and Front"
)]
pub struct TlsLimitOptions {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub connections: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub handshakes: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub handshake_timeout: Option<Span>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub connect_timeout: Option<Span>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub idle_timeout: Option<Span>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub half_closed_timeout: Option<Span>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub drain_timeout: Option<Span>,
}

// === impl TlsOptions ===

impl TlsOptions {
    /// The valid relay, or everything that is wrong with it. No file is read.
    pub(super) fn resolve(
        self,
        profiles: &ProfileSet,
        problems: &mut Problems,
    ) -> Option<TlsRelay> {
        let front = WrittenFront {
            listen: &self.listen,
            target: &self.target,
            client_profile: self.client_profile.as_deref().unwrap_or("lan"),
            server_profile: self.server_profile.as_deref().unwrap_or("wan"),
            allow: &self.allow,
            deny: &self.deny,
            balance: &self.balance,
            connections: self.limits.connections,
            drain_timeout: self.limits.drain_timeout,
            bandwidth: self.bandwidth,
        }
        .resolve_with_target(profiles, problems);
        let limits = self.limits.resolve(problems);
        let written = TlsSideOptions {
            profile: self.tls_profile,
            client_ca: self.client_ca,
            upstream: self.upstream,
            upstream_name: self.upstream_name,
            upstream_ca: self.upstream_ca,
            key_log: self.key_log,
            upstream_certificate: self.upstream_certificate,
            certificates: self.certificates,
        };
        let target = front.as_ref().and_then(Front::target);
        let host = target.map_or("", |target| &target.host);
        let sides = written.resolve(Upstream::Tls, host, problems);
        self.balance.only_connects(sides.server.is_some(), problems);
        problems.require(
            sides.clients.is_some() || sides.server.is_some(),
            "",
            "there is TLS on no side: name a certificate, or say upstream = \"tls\"",
        );
        problems.require(
            sides.clients.is_some() || self.routes.is_empty(),
            "routes",
            "they go by the name in the client's TLS: name a certificate",
        );
        let routes = resolve_all(self.routes, "routes", problems, TlsRouteOptions::resolve);
        Some(TlsRelay {
            front: front?,
            sides,
            routes: routes.into_iter().flatten().collect(),
            limits,
        })
    }
}

// === impl TlsRouteOptions ===

impl TlsRouteOptions {
    fn resolve(self, problems: &mut Problems) -> Option<TlsRoute> {
        let name = self.name.to_ascii_lowercase();
        let host = name.strip_prefix("*.").unwrap_or(&name);
        let plain = |c: char| c.is_ascii_alphanumeric() || "-._".contains(c);
        if host.is_empty() || !host.chars().all(plain) {
            problems.tell(
                "name",
                format!(
                    "`{}` is no name of a server, such as `store.example` or `*.store.example`",
                    self.name
                ),
            );
        }
        let target = Target::or_service(&self.target);
        let target = target
            .map_err(|error| problems.tell("target", error))
            .ok()?;
        Some(TlsRoute {
            name,
            server_name: self.upstream_name.unwrap_or_else(|| target.host.clone()),
            target,
        })
    }
}

// === impl TlsRoute ===

impl TlsRoute {
    /// Whether this is where clients go who ask for `name`. Case does not matter (RFC 4343), and the
    /// asterisk is one label, as in certificates (RFC 9525 §6.3).
    pub(crate) fn takes(&self, name: &str) -> bool {
        let name = name.to_ascii_lowercase();
        match self.name.strip_prefix("*.") {
            None => name == self.name,
            Some(parent) => name
                .split_once('.')
                .is_some_and(|(label, rest)| !label.is_empty() && rest == parent),
        }
    }
}

// === impl TlsLimitOptions ===

impl TlsLimitOptions {
    fn resolve(&self, problems: &mut Problems) -> TlsLimits {
        let limits = TlsLimits {
            // About a millisecond of a processor each: more at once only wait longer.
            handshakes: self.handshakes.unwrap_or(1_000),
            // Two retransmissions of a SYN's answer and a slow client's signature.
            handshake_timeout: span(self.handshake_timeout, Duration::from_secs(10)),
            connect_timeout: span(self.connect_timeout, Duration::from_secs(10)),
            // As for byte streams: see `TcpLimitOptions`.
            idle_timeout: span(self.idle_timeout, Duration::from_hours(1)),
            half_closed_timeout: span(self.half_closed_timeout, Duration::from_mins(5)),
        };
        let spans = [
            ("handshake-timeout", limits.handshake_timeout),
            ("connect-timeout", limits.connect_timeout),
            ("idle-timeout", limits.idle_timeout),
            ("half-closed-timeout", limits.half_closed_timeout),
        ];
        problems.within("limits", |problems| {
            problems.require(
                limits.handshakes > 0,
                "handshakes",
                "with 0 nobody could connect",
            );
            above_zero(problems, "every connection would fail", &spans);
        });
        limits
    }
}
