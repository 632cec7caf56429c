//! What to listen on and how, from TOML or from a command line, through one validation.

mod admin;
mod balance;
pub(crate) mod front;
mod options;
mod reach;
mod sides;
mod tcp;
#[cfg(test)]
mod tests;
mod tls;
mod traces;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::net::SocketAddr;
use std::str::FromStr;
use std::time::Duration;

use document::{ConfigError, Problems, Step};
use profile::{ProfileError, ProfileSet, RawTcpProfile, TcpProfile};
use serde::{Deserialize, Serialize};
use units::{Bytes, Rate};

use crate::{Admission, Cidr};
pub use admin::{Admin, AdminOptions};
pub use balance::{Balance, BalanceOptions, Balancing, Check};
pub use options::{HttpOptions, LimitOptions, PoolOptions, PrimeOptions};
pub use reach::Reach;
pub use sides::{TlsCertificate, TlsClients, TlsServer, TlsSideOptions, TlsSides, Upstream};
pub use tcp::{Asking, TcpLimitOptions, TcpLimits, TcpOptions, TcpRelay, Transparency};
pub use tls::{TlsLimitOptions, TlsLimits, TlsOptions, TlsRelay, TlsRoute, TlsRouteOptions};
pub use traces::{Endpoint, TraceOptions, Tracing};

/// A valid configuration of at least one relay.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Config {
    /// The user to go on as, once all that needs more is open.
    pub user: Option<String>,
    /// The HTTP relays.
    pub http: Vec<HttpRelay>,
    /// The byte-stream relays.
    pub tcp: Vec<TcpRelay>,
    /// The relays that end TLS or begin it.
    pub tls: Vec<TlsRelay>,
    /// Where an administrator can ask.
    pub admin: Option<Admin>,
    /// Where traces go.
    pub traces: Option<Tracing>,
}

/// What every relay has, whatever it speaks: a listener, and a target behind it.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Front {
    /// Where clients connect.
    pub listen: SocketAddr,
    /// Where they are relayed to.
    pub destination: Destination,
    /// How accepted sockets behave.
    pub client_profile: TcpProfile,
    /// How connected sockets behave.
    pub server_profile: TcpProfile,
    /// Further targets, and how connections are shared out among them.
    pub balancing: Balancing,
    /// Who may connect.
    pub allow: Vec<Cidr>,
    /// Who of them may not.
    pub deny: Vec<Cidr>,
    /// Client connections at the same time; others wait in the listener's queue.
    pub connections: usize,
    /// Most that all clients together may send, and be sent: a bound for each direction.
    pub bandwidth: Option<Rate>,
    /// From the order to stop until what still runs is cut off.
    pub drain_timeout: Duration,
}

/// The port of https.
const HTTPS: u16 = 443;

/// Where a relay's clients are relayed to.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Destination {
    /// To this target, and those of [`Balancing::also`].
    Target(Target),
    /// To where each was going before the network redirected it.
    Original,
    /// To where each asks to go.
    Asked,
}

/// One listener and the origin behind it.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct HttpRelay {
    /// Listener and origin.
    pub front: Front,
    /// The rate of the path to the origin, if known: upstream connections are paced at it and primed
    /// for its bandwidth-delay product.
    pub path_rate: Option<Rate>,
    /// The pool's bounds.
    pub pool: PoolLimits,
    /// How connections are made hot; `None` leaves them as they are.
    pub priming: Option<Priming>,
    /// TLS on either side.
    pub tls: TlsSides,
    /// Who answers `Expect: 100-continue`.
    pub expect: Expect,
    /// Whether clients may speak HTTP/2: agreed on by ALPN where they speak TLS, by prior knowledge otherwise.
    pub http2: bool,
    /// What a client may ask of this relay.
    pub limits: Limits,
}

/// Who answers a request that waits with its body (`Expect: 100-continue`, RFC 9110 §10.1.1).
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Expect {
    /// The origin: the client waits for its word, and a refusal costs no body.
    #[default]
    Forward,
    /// This relay, as soon as it has a connection to the origin: that saves a round trip of the long path.
    Answer,
}

/// A host, by name or address, and a port; or a service of a domain.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Target {
    /// Name or address; an IPv6 address without its brackets. Of a service the domain.
    pub host: String,
    /// Port; 0 where the service's records say it.
    pub port: u16,
    /// Of a service its own name and its protocol's, such as `_s3._tcp`: hosts and ports are found by SRV (RFC 2782).
    pub service: Option<String>,
}

/// Bounds of a pool of connections to an origin.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct PoolLimits {
    /// Connections made ahead of use.
    pub min_idle: usize,
    /// More of them where the path's rate is known: as many as hold the path twice with their windows. See
    /// [`HttpRelay::min_idle`].
    pub fill_path: bool,
    /// Connections at the same time; requests beyond them wait.
    pub max_connections: usize,
    /// A connection older than this is closed instead of used again.
    pub max_age: Duration,
    /// A connection unused for this long is closed; should lie below the origin's own limit.
    pub idle_timeout: Duration,
    /// A connection that has served so many requests is closed.
    pub max_requests: u64,
}

/// How a connection is made hot.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Priming {
    /// What both windows should hold; `None`: see [`HttpRelay::hot_window`].
    pub window: Option<Bytes>,
    /// Method of the harmless request: `HEAD` or `OPTIONS`.
    pub method: String,
    /// Its target: a path, or `*` for `OPTIONS`.
    pub path: String,
    /// Its `Host`.
    pub host: String,
    /// Length of the field that pads it.
    pub padding: Bytes,
    /// Bytes after which one priming gives up.
    pub max_bytes: Bytes,
    /// Requests after which one priming gives up.
    pub max_requests: u64,
    /// Time after which one priming gives up.
    pub max_time: Duration,
    /// Bytes per hour for making cooled and lost connections hot again.
    pub hourly_bytes: Bytes,
}

/// What a client may ask of a relay.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Limits {
    /// Size of a request's or response's head.
    pub head: Bytes,
    /// From a request's first byte to the end of its head.
    pub head_timeout: Duration,
    /// Between two requests on one client connection.
    pub keep_alive_timeout: Duration,
    /// Without a byte of progress in a body, in either direction.
    pub body_timeout: Duration,
    /// From the end of a request to the head of its response.
    pub response_timeout: Duration,
    /// For a connection to the origin, waiting for a free one and TLS included.
    pub connect_timeout: Duration,
    /// TLS handshakes with clients at the same time; others wait within their `handshake_timeout`.
    pub handshakes: usize,
    /// For a TLS handshake with a client.
    pub handshake_timeout: Duration,
    /// Requests at the same time on one client connection that speaks HTTP/2.
    pub streams: u32,
}

/// A configuration as it is written: the file's outline.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct ConfigOptions {
    /// See [`Config::user`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
    /// TCP profiles beside the built-in ones.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub profiles: BTreeMap<String, RawTcpProfile>,
    /// Where an administrator can ask.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub admin: Option<AdminOptions>,
    /// Where traces go.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub traces: Option<TraceOptions>,
    /// HTTP relays.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub http: Vec<HttpOptions>,
    /// Byte-stream relays.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tcp: Vec<TcpOptions>,
    /// Relays that end TLS or begin it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tls: Vec<TlsOptions>,
}

// === impl Config ===

impl Config {
    /// Reads a configuration file's text.
    pub fn from_toml(text: &str) -> Result<Self, ConfigError> {
        document::read(text, Self::resolve)
    }

    /// The configuration of one HTTP relay.
    pub fn http(options: HttpOptions) -> Result<Self, ConfigError> {
        Self::new(options.into())
    }

    /// The configuration of one byte-stream relay.
    pub fn tcp(options: TcpOptions) -> Result<Self, ConfigError> {
        Self::new(options.into())
    }

    /// The configuration of one relay that ends TLS or begins it.
    pub fn tls(options: TlsOptions) -> Result<Self, ConfigError> {
        Self::new(options.into())
    }

    /// What all relays have in common, in the order of the configuration.
    pub fn fronts(&self) -> impl Iterator<Item = &Front> {
        let http = self.http.iter().map(|relay| &relay.front);
        let tcp = self.tcp.iter().map(|relay| &relay.front);
        http.chain(tcp)
            .chain(self.tls.iter().map(|relay| &relay.front))
    }

    /// What `options` mean, or everything that is wrong with them.
    pub fn new(options: ConfigOptions) -> Result<Self, ConfigError> {
        let mut problems = Problems::default();
        let config = Self::resolve(options, &mut problems);
        problems.or(config)
    }

    fn resolve(options: ConfigOptions, problems: &mut Problems) -> Self {
        let profiles = own_profiles(options.profiles, problems);
        if options.http.is_empty() && options.tcp.is_empty() && options.tls.is_empty() {
            problems.tell(
                "",
                "there is nothing to relay: write at least one [[http]], [[tcp]] or [[tls]] table",
            );
        }
        let http = resolve_all(options.http, "http", problems, |options, problems| {
            options.resolve(&profiles, problems)
        });
        let tcp = resolve_all(options.tcp, "tcp", problems, |options, problems| {
            options.resolve(&profiles, problems)
        });
        let tls = resolve_all(options.tls, "tls", problems, |options, problems| {
            options.resolve(&profiles, problems)
        });
        let admin = options.admin.and_then(|options| {
            problems.within("admin", |problems| options.resolve(&profiles, problems))
        });
        let relays = listeners("http", &http, |relay| &relay.front)
            .chain(listeners("tcp", &tcp, |relay| &relay.front))
            .chain(listeners("tls", &tls, |relay| &relay.front));
        let asked = admin
            .as_ref()
            .map(|admin| (vec!["admin".into()], admin.listen));
        listen_once(relays.chain(asked), problems);
        let keeps_addresses = |relay: &TcpRelay| {
            relay
                .transparency
                .is_some_and(|transparency| transparency.keep_client_address)
        };
        let tcp: Vec<_> = tcp.into_iter().flatten().collect();
        if options.user.is_some() && tcp.iter().any(keeps_addresses) {
            problems.tell(
                "user",
                "keep-client-address takes CAP_NET_ADMIN for each connection, which another user has not",
            );
        }
        Self {
            user: options.user,
            http: http.into_iter().flatten().collect(),
            tcp,
            tls: tls.into_iter().flatten().collect(),
            admin,
            traces: options.traces.and_then(|options| {
                problems.within("traces", |problems| options.resolve(problems))
            }),
        }
    }
}

/// The profiles of a configuration beside the built-in ones. What is wrong with them is told whether they are used or
/// not.
pub(crate) fn own_profiles(
    written: BTreeMap<String, RawTcpProfile>,
    problems: &mut Problems,
) -> ProfileSet {
    let parents: BTreeMap<String, Option<String>> = written
        .iter()
        .map(|(name, profile)| (name.clone(), profile.extends.clone()))
        .collect();
    let profiles = ProfileSet::new(written);
    problems.within("profiles", |problems| {
        for (name, parent) in &parents {
            problems.within(name.as_str(), |problems| {
                for error in profiles.problems_of(name) {
                    match &error {
                        // Of a profile's parents, the one that has the unknown parent says so.
                        ProfileError::Unknown { name, known } if parent.as_ref() == Some(name) => {
                            unknown_profile(problems, "extends", name, known);
                        }
                        ProfileError::Unknown { .. } => {}
                        ProfileError::Circle { .. } => problems.tell("extends", error.to_string()),
                        ProfileError::Shadowed { .. } => problems.tell("", error.to_string()),
                        ProfileError::Value { problem, .. } => {
                            // Each of these sentences begins with its field.
                            let field = problem.split(' ').next().unwrap_or_default();
                            problems.tell(field, problem.as_str());
                        }
                    }
                }
            });
        }
    });
    profiles
}

/// The profile of this name. What is wrong with one of the file's own is told with it.
pub(crate) fn profile_named(
    profiles: &ProfileSet,
    problems: &mut Problems,
    key: &str,
    asked: &str,
) -> Option<TcpProfile> {
    let errors = match profiles.resolve(asked) {
        Ok(profile) => return Some(profile),
        Err(errors) => errors,
    };
    for error in errors {
        if let ProfileError::Unknown { name, known } = &error
            && name == asked
        {
            unknown_profile(problems, key, name, known);
        }
    }
    None
}

fn unknown_profile(problems: &mut Problems, key: &str, name: &str, known: &str) {
    let hint = match document::nearest(name, known.split(", ")) {
        Some(meant) => format!("did you mean `{meant}`?"),
        None => format!("known are {known}"),
    };
    problems.tell_with(key, format!("there is no profile `{name}`"), hint);
}

/// Tells of addresses that two listeners want. Of port 0 each gets another.
fn listen_once(
    listeners: impl IntoIterator<Item = (Vec<Step>, SocketAddr)>,
    problems: &mut Problems,
) {
    let mut taken = BTreeSet::new();
    for (place, address) in listeners {
        if address.port() != 0 && !taken.insert(address) {
            problems.at(place, |problems| {
                problems.tell_with(
                    "listen",
                    format!("another listener has `{address}` already"),
                    "choose another address or port",
                );
            });
        }
    }
}

/// The relays of one kind that mean something, each with its place.
fn listeners<'a, R>(
    kind: &'a str,
    relays: &'a [Option<R>],
    front: impl Fn(&R) -> &Front + 'a,
) -> impl Iterator<Item = (Vec<Step>, SocketAddr)> + 'a {
    let numbered = relays.iter().enumerate();
    numbered.filter_map(move |(index, relay)| {
        let address = front(relay.as_ref()?).listen;
        Some((vec![kind.into(), index.into()], address))
    })
}

/// What the relays of one kind mean, in their order; `None` for those that mean nothing.
pub(crate) fn resolve_all<O, R>(
    all: Vec<O>,
    kind: &str,
    problems: &mut Problems,
    resolve: impl Fn(O, &mut Problems) -> Option<R>,
) -> Vec<Option<R>> {
    problems.within(kind, |problems| {
        let each = all.into_iter().enumerate();
        each.map(|(index, options)| problems.within(index, |problems| resolve(options, problems)))
            .collect()
    })
}

// === impl ConfigOptions ===

impl ConfigOptions {
    /// Reads a configuration file's text. Nothing is said of its values yet.
    pub fn from_toml(text: &str) -> Result<Self, ConfigError> {
        document::read(text, |options, _| options)
    }

    /// These options as a configuration file.
    pub fn to_toml(&self) -> Result<String, toml::ser::Error> {
        toml::to_string(self)
    }
}

impl From<HttpOptions> for ConfigOptions {
    fn from(options: HttpOptions) -> Self {
        Self {
            http: vec![options],
            ..Self::default()
        }
    }
}

impl From<TcpOptions> for ConfigOptions {
    fn from(options: TcpOptions) -> Self {
        Self {
            tcp: vec![options],
            ..Self::default()
        }
    }
}

impl From<TlsOptions> for ConfigOptions {
    fn from(options: TlsOptions) -> Self {
        Self {
            tls: vec![options],
            ..Self::default()
        }
    }
}

// === impl Front ===

impl Front {
    /// Who may connect.
    pub(crate) fn admission(&self) -> Admission {
        Admission {
            allow: self.allow.clone(),
            deny: self.deny.clone(),
        }
    }

    /// All targets, the first one first; none where each client has its own.
    pub fn targets(&self) -> impl Iterator<Item = &Target> {
        self.target().into_iter().chain(&self.balancing.also)
    }

    /// The first target; `None` where each client has its own.
    pub fn target(&self) -> Option<&Target> {
        match &self.destination {
            Destination::Target(target) => Some(target),
            Destination::Original | Destination::Asked => None,
        }
    }
}

/// More connections than this are not made to fill a path: each costs twice its window.
const MOST_FILLING: usize = 32;

impl HttpRelay {
    /// What both windows of a hot connection hold on a path of this round-trip time.
    ///
    /// The bandwidth-delay product where the path's rate is known: with less, a long upload waits for
    /// acknowledgements, with more it only queues. At most 3 MiB, because the kernel's send buffer ends
    /// at 4 MiB by default (`tcp_wmem`), bookkeeping included. 2 MiB where the rate is unknown: an
    /// upload of 1 MiB in one round trip, with room for the next.
    #[must_use]
    pub fn hot_window(&self, rtt: Duration) -> Bytes {
        let configured = self.priming.as_ref().and_then(|priming| priming.window);
        let derived = || {
            let product = self.path_rate?.checked_mul(rtt)?;
            // Below 64 KiB there is nothing to gain: an unprimed connection starts there.
            Some(product.clamp(Bytes::kib(64), Bytes::mib(3)))
        };
        configured.or_else(derived).unwrap_or(Bytes::mib(2))
    }

    /// Connections made ahead of use, on a path of this round-trip time.
    ///
    /// To fill the path they hold it twice: each rests for one round trip at the end of what it carries, until the
    /// answer is here.
    #[must_use]
    pub fn min_idle(&self, rtt: Option<Duration>) -> usize {
        let pool = &self.pool;
        let filling = || {
            let rtt = rtt.filter(|_| pool.fill_path)?;
            let held = self.path_rate?.checked_mul(rtt)?;
            let connections = held.get().saturating_mul(2) / self.hot_window(rtt).get().max(1);
            usize::try_from(connections).ok()
        };
        let most = MOST_FILLING.min(pool.max_connections);
        let filling = filling().unwrap_or(0).min(most);
        pool.min_idle.max(filling)
    }
}

// === impl Destination ===

impl FromStr for Destination {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "original" => Ok(Self::Original),
            "asked" => Ok(Self::Asked),
            _ => Target::or_service(text).map(Self::Target),
        }
    }
}

impl fmt::Display for Destination {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Target(target) => target.fmt(f),
            Self::Original => f.write_str("original"),
            Self::Asked => f.write_str("asked"),
        }
    }
}

// === impl Target ===

/// What a service's name begins with in a target.
const SERVICE: &str = "srv+";

impl Target {
    /// A target, or a service such as `srv+_s3._tcp.store.example`.
    pub(crate) fn or_service(text: &str) -> Result<Self, String> {
        let Some(name) = text.strip_prefix(SERVICE) else {
            return text.parse();
        };
        let error = || format!("`{text}` is not a service such as `srv+_s3._tcp.store.example`");
        let (service, rest) = name.split_once('.').ok_or_else(error)?;
        // Connections are TCP's, whatever else a service may be offered over.
        let host = rest.strip_prefix("_tcp.").ok_or_else(error)?;
        let label = service.strip_prefix('_').ok_or_else(error)?;
        let plain = |c: char| c.is_ascii_alphanumeric() || c == '-';
        let sound = !label.is_empty() && label.chars().all(plain);
        if !sound || !Self::is_host(host) || host.contains([':', '%']) {
            return Err(error());
        }
        Ok(Self {
            host: host.to_owned(),
            port: 0,
            service: Some(format!("{service}._tcp")),
        })
    }

    /// Its address, where it is written as one.
    pub(crate) fn address(&self) -> Option<SocketAddr> {
        let host = self.host.parse().ok();
        let host = host.filter(|_| self.service.is_none());
        host.map(|host| SocketAddr::new(host, self.port))
    }

    /// As clients write it into `Host`: without the port that its scheme means anyway, and of a service the domain.
    pub(crate) fn authority(&self) -> String {
        match self.port {
            _ if self.service.is_some() => self.host.clone(),
            80 | 443 if self.host.contains(':') => format!("[{}]", self.host),
            80 | 443 => self.host.clone(),
            _ => self.to_string(),
        }
    }

    /// Whether its name or port says that it is spoken to with TLS.
    pub(crate) fn is_https(&self) -> bool {
        self.port == HTTPS || self.service.as_deref() == Some("_https._tcp")
    }

    /// Whether this can be a host: a name or an address, without brackets.
    pub(crate) fn is_host(text: &str) -> bool {
        let plain = |c: char| c.is_ascii_alphanumeric() || "-._:%".contains(c);
        !text.is_empty() && text.len() <= 255 && text.chars().all(plain)
    }
}

impl FromStr for Target {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let error = || {
            format!("`{text}` is not a target such as `store.example:80` or `[2001:db8::1]:8080`")
        };
        let (host, port) = text.rsplit_once(':').ok_or_else(error)?;
        let host = match host.strip_prefix('[') {
            Some(v6) => v6.strip_suffix(']').ok_or_else(error)?,
            None if host.contains(':') => return Err(error()),
            None => host,
        };
        let port = port.parse().map_err(|_| error())?;
        if port == 0 || !Self::is_host(host) {
            return Err(error());
        }
        Ok(Self {
            host: host.to_owned(),
            port,
            service: None,
        })
    }
}

impl fmt::Display for Target {
    /// As it is written: `host:port`, an IPv6 address in brackets; or `srv+_service._tcp.domain`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(service) = &self.service {
            return write!(f, "{SERVICE}{service}.{}", self.host);
        }
        let bracket = self.host.contains(':');
        let (open, close) = if bracket { ("[", "]") } else { ("", "") };
        write!(f, "{open}{}{close}:{}", self.host, self.port)
    }
}
