use std::time::Duration;

use document::Problems;
use profile::ProfileSet;
use serde::{Deserialize, Serialize};
use units::{Bytes, Rate, Span};

use super::front::{WrittenFront, above_zero, span};
use super::{
    BalanceOptions, Expect, Front, HttpRelay, Limits, PoolLimits, Priming, Target, TlsSideOptions,
    Upstream,
};

/// A relay as it is written: text and numbers, everything optional that has a default.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct HttpOptions {
    /// Where clients connect, such as `0.0.0.0:8080`.
    pub listen: String,
    /// Where requests go, such as `store.example:80`.
    pub target: String,
    /// Profile of accepted sockets; `lan` where nothing is said.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub client_profile: Option<String>,
    /// Profile of connected sockets; `s3` where nothing is said.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub server_profile: Option<String>,
    /// Who may connect; loopback and private networks where nothing is said. `0.0.0.0/0` and `::/0` are
    /// everybody.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub allow: Vec<String>,
    /// Who of them may not.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub deny: Vec<String>,
    /// Rate of the path to the origin, if known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path_rate: Option<Rate>,
    /// See [`Front::bandwidth`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bandwidth: Option<Rate>,
    /// See [`HttpRelay::expect`]; `forward` where nothing is said.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expect: Option<Expect>,
    /// See [`HttpRelay::http2`]; `true` where nothing is said.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub http2: Option<bool>,
    /// TLS on either side.
    #[serde(default, skip_serializing_if = "is_default")]
    pub tls: TlsSideOptions,
    /// The pool of connections to the origin.
    #[serde(default)]
    pub pool: PoolOptions,
    /// How connections are made hot.
    #[serde(default)]
    pub prime: PrimeOptions,
    /// Further targets, and how connections are shared out among them.
    #[serde(default)]
    pub balance: BalanceOptions,
    /// What clients may ask.
    #[serde(default)]
    pub limits: LimitOptions,
}

/// See [`PoolLimits`].
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
#[allow(
    missing_docs,
    reason = "each field is documented where it is resolved, in PoolLimits"
)]
pub struct PoolOptions {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub min_idle: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fill_path: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_connections: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_age: Option<Span>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub idle_timeout: Option<Span>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_requests: Option<u64>,
}

/// See [`Priming`].
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
#[allow(
    missing_docs,
    reason = "each field is documented where it is resolved, in Priming"
)]
pub struct PrimeOptions {
    /// `true` where nothing is said.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub enabled: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub window: Option<Bytes>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub method: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub host: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub padding: Option<Bytes>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_bytes: Option<Bytes>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_requests: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_time: Option<Span>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hourly_bytes: Option<Bytes>,
}

/// See [`Limits`].
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
#[allow(
    missing_docs,
    reason = "each field is documented where it is resolved, in Limits"
)]
pub struct LimitOptions {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub connections: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub head: Option<Bytes>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub head_timeout: Option<Span>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub keep_alive_timeout: Option<Span>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub body_timeout: Option<Span>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub response_timeout: Option<Span>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub connect_timeout: Option<Span>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub handshakes: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub handshake_timeout: Option<Span>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub streams: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub drain_timeout: Option<Span>,
}

fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

// === impl HttpOptions ===

impl HttpOptions {
    /// The valid relay, or everything that is wrong with it.
    pub(super) fn resolve(
        self,
        profiles: &ProfileSet,
        problems: &mut Problems,
    ) -> Option<HttpRelay> {
        let front = WrittenFront {
            listen: &self.listen,
            target: &self.target,
            client_profile: self.client_profile.as_deref().unwrap_or("lan"),
            server_profile: self.server_profile.as_deref().unwrap_or("s3"),
            allow: &self.allow,
            deny: &self.deny,
            balance: &self.balance,
            connections: self.limits.connections,
            drain_timeout: self.limits.drain_timeout,
            bandwidth: self.bandwidth,
        }
        .resolve_with_target(profiles, problems);
        problems.require(
            self.path_rate
                .is_none_or(|rate| rate >= Rate::kbit_per_s(8)),
            "path-rate",
            "below 8 kbit/s no pacing is needed: leave it out",
        );
        problems.require(
            front
                .as_ref()
                .is_none_or(|front| !front.server_profile.fast_open),
            "server-profile",
            "with fast-open, connections of the pool would not be made before their first request",
        );
        let pool = problems.within("pool", |problems| self.pool.resolve(problems));
        let target = front.as_ref().and_then(Front::target);
        let authority = target.map(Target::authority).unwrap_or_default();
        let priming = problems.within("prime", |problems| self.prime.resolve(authority, problems));
        // Whoever names the port of https, or anything of TLS, does not want requests to go on in the clear.
        let asks_for_tls = self.tls != TlsSideOptions::default();
        let upstream = match &front {
            _ if asks_for_tls => Upstream::Tls,
            Some(front) if front.target().is_some_and(Target::is_https) => Upstream::Tls,
            _ => Upstream::Plain,
        };
        let host = target.map_or("", |target| &target.host);
        let tls = problems.within("tls", |problems| self.tls.resolve(upstream, host, problems));
        self.balance.only_connects(tls.server.is_some(), problems);
        let limits = problems.within("limits", |problems| self.limits.resolve(problems));
        Some(HttpRelay {
            front: front?,
            path_rate: self.path_rate,
            pool,
            priming,
            tls,
            expect: self.expect.unwrap_or_default(),
            http2: self.http2.unwrap_or(true),
            limits,
        })
    }
}

// === impl PoolOptions ===

impl PoolOptions {
    fn resolve(&self, problems: &mut Problems) -> PoolLimits {
        let limits = PoolLimits {
            // One for the request that comes, one for the request that comes meanwhile.
            min_idle: self.min_idle.unwrap_or(2),
            fill_path: self.fill_path.unwrap_or(false),
            // Well below the 8192 that a server of the field reports allows, and above what one
            // client library opens at once (30 to 100).
            max_connections: self.max_connections.unwrap_or(256),
            max_age: span(self.max_age, Duration::from_hours(1)),
            // Common origins close idle connections after 60 to 75 s; half a minute of silence between
            // two uploads must not cost a connection.
            idle_timeout: span(self.idle_timeout, Duration::from_secs(55)),
            max_requests: self.max_requests.unwrap_or(10_000),
        };
        problems.require(
            limits.max_connections > 0,
            "max-connections",
            "with 0 no request could be sent",
        );
        if limits.min_idle > limits.max_connections {
            problems.tell(
                "min-idle",
                format!("it is above max-connections, {}", limits.max_connections),
            );
        }
        problems.require(
            limits.max_requests > 0,
            "max-requests",
            "with 0 no request could be sent",
        );
        let spans = [
            ("max-age", limits.max_age),
            ("idle-timeout", limits.idle_timeout),
        ];
        above_zero(problems, "no connection would be kept", &spans);
        limits
    }
}

// === impl PrimeOptions ===

impl PrimeOptions {
    /// `host` is the target's.
    fn resolve(&self, host: String, problems: &mut Problems) -> Option<Priming> {
        let priming = Priming {
            window: self.window,
            // HEAD is the safe method (RFC 9110 §9.2.1) that every origin knows and that has the
            // shortest answer.
            method: self.method.clone().unwrap_or_else(|| "HEAD".into()),
            path: self.path.clone().unwrap_or_else(|| "/".into()),
            host: self.host.clone().unwrap_or(host),
            // Origins commonly accept 8 KiB of header: stay below it with everything else.
            padding: self.padding.unwrap_or(Bytes::kib(6)),
            // A window of W takes about 2 W: slow start sends what it has reached once more.
            max_bytes: self.max_bytes.unwrap_or(Bytes::mib(24)),
            max_requests: self.max_requests.unwrap_or(4_000),
            // Ten doublings at 600 ms, three times over.
            max_time: span(self.max_time, Duration::from_secs(20)),
            // One connection of 3 MiB windows made hot again every 90 s.
            hourly_bytes: self.hourly_bytes.unwrap_or(Bytes::mib(256)),
        };
        problems.require(
            ["HEAD", "OPTIONS"].contains(&priming.method.as_str()),
            "method",
            "it is HEAD or OPTIONS: priming must have no effect at the origin",
        );
        problems.require(
            priming.path.starts_with('/') || (priming.path == "*" && priming.method == "OPTIONS"),
            "path",
            "a path starts with `/`, or is `*` for OPTIONS",
        );
        problems.require(
            priming.path.bytes().all(|byte| byte.is_ascii_graphic()),
            "path",
            "a path has no spaces or control characters; write them as %20",
        );
        let is_host =
            |host: &String| !host.is_empty() && host.bytes().all(|byte| byte.is_ascii_graphic());
        problems.require(
            self.host.as_ref().is_none_or(is_host),
            "host",
            "it is a host name, with its port where that is not 80",
        );
        problems.require(
            (1..=Bytes::kib(256).get()).contains(&priming.padding.get()),
            "padding",
            "it is 1 B to 256 KiB",
        );
        problems.require(
            priming
                .window
                .is_none_or(|window| (Bytes::kib(16)..=Bytes::mib(64)).contains(&window)),
            "window",
            "it is 16 KiB to 64 MiB",
        );
        let off = "it is above 0; enabled = false switches priming off";
        problems.require(priming.max_requests > 0, "max-requests", off);
        problems.require(priming.max_bytes > Bytes::ZERO, "max-bytes", off);
        self.enabled.unwrap_or(true).then_some(priming)
    }
}

// === impl LimitOptions ===

impl LimitOptions {
    fn resolve(&self, problems: &mut Problems) -> Limits {
        let limits = Limits {
            // Twice what Apache and nginx accept in all; S3's own limit is 8 KiB.
            head: self.head.unwrap_or(Bytes::kib(32)),
            head_timeout: span(self.head_timeout, Duration::from_secs(10)),
            keep_alive_timeout: span(self.keep_alive_timeout, Duration::from_secs(75)),
            body_timeout: span(self.body_timeout, Duration::from_mins(1)),
            // Object stores take long to assemble a multipart upload.
            response_timeout: span(self.response_timeout, Duration::from_mins(2)),
            connect_timeout: span(self.connect_timeout, Duration::from_secs(10)),
            // As for byte streams: see `TlsLimitOptions`.
            handshakes: self.handshakes.unwrap_or(1_000),
            handshake_timeout: span(self.handshake_timeout, Duration::from_secs(10)),
            // What RFC 9113 §6.5.2 recommends as the least, and common servers allow.
            streams: self.streams.unwrap_or(100),
        };
        problems.require(
            limits.streams > 0,
            "streams",
            "with 0 nobody could ask; http2 = false switches HTTP/2 off",
        );
        problems.require(
            limits.handshakes > 0,
            "handshakes",
            "with 0 nobody could connect",
        );
        problems.require(
            (Bytes::kib(1)..=Bytes::kib(128)).contains(&limits.head),
            "head",
            "it is 1 KiB to 128 KiB",
        );
        let spans = [
            ("head-timeout", limits.head_timeout),
            ("keep-alive-timeout", limits.keep_alive_timeout),
            ("body-timeout", limits.body_timeout),
            ("response-timeout", limits.response_timeout),
            ("connect-timeout", limits.connect_timeout),
            ("handshake-timeout", limits.handshake_timeout),
        ];
        above_zero(problems, "every request would fail", &spans);
        limits
    }
}
