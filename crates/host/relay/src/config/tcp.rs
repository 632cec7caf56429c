//! Byte-stream relays.

use std::path::PathBuf;
use std::time::Duration;

use document::Problems;
use profile::ProfileSet;
use serde::{Deserialize, Serialize};
use units::{Rate, Span};

use super::front::{WrittenFront, above_zero, parse_all, span};
use super::{BalanceOptions, Destination, Front, Reach};
use crate::proxy_protocol::Version;

/// One listener and the service behind it, whatever it speaks.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct TcpRelay {
    /// Listener and service.
    pub front: Front,
    /// Whether each client begins with a PROXY header, which says whom it stands for.
    pub accept_proxy: bool,
    /// The PROXY header that the service gets before the client's bytes.
    pub send_proxy: Option<Version>,
    /// How clients ask for their target, where the destination is [`Destination::Asked`].
    pub asking: Option<Asking>,
    /// How connections are redirected here, where the destination is [`Destination::Original`].
    pub transparency: Option<Transparency>,
    /// How long nothing may happen.
    pub limits: TcpLimits,
}

/// How clients ask for their target, by SOCKS5 or HTTP CONNECT.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Asking {
    /// What they may ask for; at least one.
    pub to: Vec<Reach>,
    /// A file of lines `NAME:PASSWORD`, one of which a client must know; `None`: nobody is asked.
    pub users: Option<PathBuf>,
}

/// How connections are redirected to a relay.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Transparency {
    /// By a TPROXY rule, so that packets arrive with the address they were sent to; by DNAT or REDIRECT where not.
    pub tproxy: bool,
    /// Whether the target sees the client's address.
    pub keep_client_address: bool,
}

/// How long nothing may happen on a relayed connection.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct TcpLimits {
    /// From accepting a client to the end of its PROXY header.
    pub header_timeout: Duration,
    /// For a connection to the target, name resolution included.
    pub connect_timeout: Duration,
    /// Without a byte in either direction.
    pub idle_timeout: Duration,
    /// The same once one side has ended its direction.
    pub half_closed_timeout: Duration,
}

/// A byte-stream relay as it is written: everything optional that has a default.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct TcpOptions {
    /// Where clients connect, such as `0.0.0.0:9000`.
    pub listen: String,
    /// Where they are relayed to, such as `store.example:443`; `asked` is where each asks to go, `original` where
    /// each was going before the network redirected it.
    pub target: String,
    /// Profile of accepted sockets; `lan` where nothing is said.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub client_profile: Option<String>,
    /// Profile of connected sockets; `wan` where nothing is said.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub server_profile: Option<String>,
    /// Who may connect; loopback and private networks where nothing is said. `0.0.0.0/0` and `::/0` are
    /// everybody. With `accept-proxy`, these are the proxies that are believed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub allow: Vec<String>,
    /// Who of them may not.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub deny: Vec<String>,
    /// See [`TcpRelay::accept_proxy`]; `false` where nothing is said.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub accept_proxy: Option<bool>,
    /// See [`TcpRelay::send_proxy`]; none where nothing is said.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub send_proxy: Option<Version>,
    /// See [`Front::bandwidth`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bandwidth: Option<Rate>,
    /// See [`Asking::to`].
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub to: Vec<String>,
    /// See [`Asking::users`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub users: Option<PathBuf>,
    /// See [`Transparency::tproxy`]; `false` where nothing is said.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tproxy: Option<bool>,
    /// See [`Transparency::keep_client_address`]; `false` where nothing is said.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub keep_client_address: Option<bool>,
    /// Further targets, and how connections are shared out among them.
    #[serde(default)]
    pub balance: BalanceOptions,
    /// How long nothing may happen.
    #[serde(default)]
    pub limits: TcpLimitOptions,
}

/// See [`TcpLimits`] and [`Front`].
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
#[allow(
    missing_docs,
    reason = "each field is documented where it is resolved, in TcpLimits and Front"
)]
pub struct TcpLimitOptions {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub connections: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub header_timeout: Option<Span>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub connect_timeout: Option<Span>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub idle_timeout: Option<Span>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub half_closed_timeout: Option<Span>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub drain_timeout: Option<Span>,
}

// === impl TcpOptions ===

impl TcpOptions {
    /// The valid relay, or everything that is wrong with it.
    pub(super) fn resolve(
        self,
        profiles: &ProfileSet,
        problems: &mut Problems,
    ) -> Option<TcpRelay> {
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
        .resolve(profiles, problems);
        let destination = front.as_ref().map(|front| front.destination.clone());
        let asked = destination == Some(Destination::Asked);
        let original = destination == Some(Destination::Original);
        let asking = self.asking(asked, problems);
        let transparency = self.transparency(original, problems);
        problems.require(
            !(asked || original) || self.balance.also.is_empty(),
            "balance.also",
            "each client has a target of its own",
        );
        problems.require(
            !asked || self.accept_proxy != Some(true),
            "accept-proxy",
            "who asks for a target says so first",
        );
        let limits = self.limits.resolve(problems);
        Some(TcpRelay {
            front: front?,
            accept_proxy: self.accept_proxy.unwrap_or(false),
            send_proxy: self.send_proxy,
            asking,
            transparency,
            limits,
        })
    }

    fn asking(&self, asked: bool, problems: &mut Problems) -> Option<Asking> {
        if !asked {
            for (key, said) in [("to", !self.to.is_empty()), ("users", self.users.is_some())] {
                problems.require(!said, key, "it is for target = \"asked\"");
            }
            return None;
        }
        if self.to.is_empty() {
            // Never an open proxy by accident.
            problems.tell_with(
                "to",
                "nothing says where clients may ask to go",
                "write `to`, such as [\"*.store.example:443\"]; [\"*\"] is everywhere",
            );
        }
        Some(Asking {
            to: parse_all(problems, "to", &self.to),
            users: self.users.clone(),
        })
    }

    fn transparency(&self, original: bool, problems: &mut Problems) -> Option<Transparency> {
        let transparency = Transparency {
            tproxy: self.tproxy.unwrap_or(false),
            keep_client_address: self.keep_client_address.unwrap_or(false),
        };
        problems.require(
            transparency.tproxy || !transparency.keep_client_address,
            "keep-client-address",
            "it goes with tproxy = true",
        );
        problems.require(
            original || !transparency.tproxy,
            "tproxy",
            "it is for target = \"original\"",
        );
        original.then_some(transparency)
    }
}

// === impl TcpLimitOptions ===

impl TcpLimitOptions {
    fn resolve(&self, problems: &mut Problems) -> TcpLimits {
        let limits = TcpLimits {
            // A proxy sends it with its first segment; two retransmissions fit.
            header_timeout: span(self.header_timeout, Duration::from_secs(5)),
            connect_timeout: span(self.connect_timeout, Duration::from_secs(10)),
            // Silence is normal for shells, databases and subscriptions, and keep-alive finds dead peers
            // within two minutes: this only ends what was forgotten.
            idle_timeout: span(self.idle_timeout, Duration::from_hours(1)),
            // A side that has said its last word waits for an answer, not for a conversation.
            half_closed_timeout: span(self.half_closed_timeout, Duration::from_mins(5)),
        };
        let spans = [
            ("header-timeout", limits.header_timeout),
            ("connect-timeout", limits.connect_timeout),
            ("idle-timeout", limits.idle_timeout),
            ("half-closed-timeout", limits.half_closed_timeout),
        ];
        problems.within("limits", |problems| {
            above_zero(problems, "every connection would fail", &spans);
        });
        limits
    }
}
