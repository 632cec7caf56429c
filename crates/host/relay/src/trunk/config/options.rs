//! The ends of a trunk as they are written: everything optional that has a default.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use document::Problems;
use profile::ProfileSet;
use serde::{Deserialize, Serialize};
use units::{Bytes, Span};

use super::manners::{DigestOption, GuardOptions, PaddingOptions};

use super::{End, FarEnd, NearEnd, TrunkLimits, TrunkListener};
use crate::config::front::{PRIVATE, above_zero, parse, parse_all, parse_listen, span};
use crate::config::{profile_named, resolve_all};
use crate::trunk::admission::{TargetRule, TargetRules};
use crate::trunk::identity::Pin;
use crate::trunk::shield::Security;
use crate::{Cidr, Target};

/// Where an end's key and its list of peers are unless something else is said.
pub const DEFAULT_IDENTITY: &str = "/etc/longhaul/trunk";

/// More than any host for this has processors.
const THREADS_MAX: usize = 256;

/// See [`NearEnd`].
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct NearOptions {
    /// What it is called in events; the first far relay where nothing is said.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Far relays, such as `site-b:7000`. New streams go to the first that is reachable.
    pub via: Vec<String>,
    /// The digest of every stream; `blake3` where nothing is said.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub digest: Option<DigestOption>,
    /// What the far end's clients may reach through this end; nothing where nothing is said.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub allow_targets: Vec<String>,
    /// Profile of WAN sockets; `wan` where nothing is said.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub wan_profile: Option<String>,
    /// Profile of clients' and targets' sockets; `lan` where nothing is said.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lan_profile: Option<String>,
    /// How WAN connections are protected.
    #[serde(default)]
    pub security: SecurityOptions,
    /// How connections are kept hot.
    #[serde(default)]
    pub padding: PaddingOptions,
    /// When it makes room for others.
    #[serde(default)]
    pub guard: GuardOptions,
    /// Bounds.
    #[serde(default)]
    pub limits: TrunkLimitOptions,
    /// Where clients come in.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub listeners: Vec<ListenerOptions>,
}

/// See [`FarEnd`].
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct FarOptions {
    /// What it is called in events; its address where nothing is said.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Where near ends connect, such as `0.0.0.0:7000`.
    pub listen: String,
    /// From where they may. Where nothing is said: from everywhere with TLS, which shows who they are, and
    /// from loopback and private networks without.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub allow: Vec<String>,
    /// What near ends' clients may reach through this end, such as `10.20.20.0/24:22`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub allow_targets: Vec<String>,
    /// Profile of WAN sockets; `wan` where nothing is said.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub wan_profile: Option<String>,
    /// Profile of clients' and targets' sockets; `lan` where nothing is said.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lan_profile: Option<String>,
    /// How WAN connections are protected.
    #[serde(default)]
    pub security: SecurityOptions,
    /// How connections are kept hot.
    #[serde(default)]
    pub padding: PaddingOptions,
    /// When it makes room for others.
    #[serde(default)]
    pub guard: GuardOptions,
    /// Bounds.
    #[serde(default)]
    pub limits: TrunkLimitOptions,
    /// Where clients come in whose targets are behind the near end.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub listeners: Vec<ListenerOptions>,
}

/// See [`TrunkListener`].
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct ListenerOptions {
    /// Where clients connect, such as `0.0.0.0:6000`.
    pub listen: String,
    /// What the other end connects them to, such as `aix-vm-2:22`. It resolves the name.
    pub to: String,
    /// Who may connect; loopback and private networks where nothing is said. `0.0.0.0/0` and `::/0` are
    /// everybody.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub allow: Vec<String>,
}

/// See [`Security`]. Pinned keys in [`DEFAULT_IDENTITY`] where nothing is said.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct SecurityOptions {
    /// The directory that `longhaul trunk init` made.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub identity: Option<PathBuf>,
    /// Pins of peers beside those in the directory.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub trust: Vec<String>,
    /// With an authority instead of pins: own certificate and its chain, in PEM.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub certificate: Option<PathBuf>,
    /// Its key, in PEM.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub private_key: Option<PathBuf>,
    /// The authority that signed both ends' certificates, in PEM.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub authority: Option<PathBuf>,
    /// The name in the far end's certificate, where it is not the host that is dialled.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub peer_name: Option<String>,
    /// `true`: neither encrypted nor authenticated, for a WAN that is both already.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub plain: Option<bool>,
}

/// See [`TrunkLimits`].
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
#[allow(
    missing_docs,
    reason = "each field is documented where it is resolved, in TrunkLimits"
)]
pub struct TrunkLimitOptions {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub clients: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub wan_connections: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub min_wan_connections: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory: Option<Bytes>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub streams: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub keep_alive: Option<Span>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dead_after: Option<Span>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub connect_timeout: Option<Span>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub idle_timeout: Option<Span>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub half_closed_timeout: Option<Span>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub outage: Option<Span>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub drain_timeout: Option<Span>,
}

// === impl NearOptions ===

impl NearOptions {
    pub(super) fn resolve(self, profiles: &ProfileSet, problems: &mut Problems) -> Option<NearEnd> {
        let via: Vec<Target> = parse_all(problems, "via", &self.via);
        problems.require(
            !self.via.is_empty(),
            "via",
            "it names no far relay, such as `site-b:7000`",
        );
        problems.require(
            !(self.listeners.is_empty() && self.allow_targets.is_empty()),
            "",
            "nobody could use this end: write a listener, or allow-targets for the far end's listeners",
        );
        let written = WrittenEnd {
            name: self
                .name
                .or_else(|| self.via.first().cloned())
                .unwrap_or_default(),
            allow_targets: &self.allow_targets,
            wan_profile: self.wan_profile.as_deref(),
            lan_profile: self.lan_profile.as_deref(),
            security: self.security,
            padding: self.padding,
            guard: self.guard,
            digest: self.digest.unwrap_or_default(),
            limits: self.limits,
            listeners: &self.listeners,
        };
        let end = written.resolve(profiles, problems)?;
        Some(NearEnd { end, via })
    }
}

// === impl FarOptions ===

impl FarOptions {
    pub(super) fn resolve(self, profiles: &ProfileSet, problems: &mut Problems) -> Option<FarEnd> {
        let listen = parse_listen(problems, "listen", &self.listen);
        problems.require(
            !(self.listeners.is_empty() && self.allow_targets.is_empty()),
            "",
            "nothing may be opened through this end: write allow-targets, such as [\"10.20.20.0/24:22\"], or a \
             listener",
        );
        let written = WrittenEnd {
            name: self.name.unwrap_or_else(|| self.listen.clone()),
            allow_targets: &self.allow_targets,
            wan_profile: self.wan_profile.as_deref(),
            lan_profile: self.lan_profile.as_deref(),
            security: self.security,
            padding: self.padding,
            guard: self.guard,
            digest: DigestOption::default(),
            limits: self.limits,
            listeners: &self.listeners,
        };
        let end = written.resolve(profiles, problems);
        let plain = end
            .as_ref()
            .is_some_and(|end| end.security == Security::Plain);
        let allow = if self.allow.is_empty() && !plain {
            parse_all(problems, "allow", &["0.0.0.0/0", "::/0"])
        } else {
            sources(problems, &self.allow)
        };
        if plain && allow.iter().any(Cidr::is_everything) {
            problems.tell_with(
                "allow",
                "it lets everybody in, and a plain trunk knows nobody: it would be an open relay",
                "name the near ends' addresses, or use TLS",
            );
        }
        Some(FarEnd {
            end: end?,
            listen: listen?,
            allow,
        })
    }
}

/// An [`End`] as it is written.
struct WrittenEnd<'a> {
    name: String,
    allow_targets: &'a [String],
    wan_profile: Option<&'a str>,
    lan_profile: Option<&'a str>,
    security: SecurityOptions,
    padding: PaddingOptions,
    guard: GuardOptions,
    digest: DigestOption,
    limits: TrunkLimitOptions,
    listeners: &'a [ListenerOptions],
}

impl WrittenEnd<'_> {
    fn resolve(self, profiles: &ProfileSet, problems: &mut Problems) -> Option<End> {
        let rules = parse_all::<TargetRule>(problems, "allow-targets", self.allow_targets);
        let listeners = resolve_all(
            self.listeners.to_vec(),
            "listeners",
            problems,
            ListenerOptions::resolve,
        );
        let mut profile = |key, name| profile_named(profiles, problems, key, name);
        let wan_profile = profile("wan-profile", self.wan_profile.unwrap_or("wan"));
        let lan_profile = profile("lan-profile", self.lan_profile.unwrap_or("lan"));
        let security = problems.within("security", |problems| self.security.resolve(problems));
        let limits = problems.within("limits", |problems| self.limits.resolve(problems));
        let guard = problems.within("guard", |problems| self.guard.resolve(problems));
        Some(End {
            padding: self.padding.resolve(),
            guard,
            digest: self.digest.into(),
            name: self.name,
            security: security?,
            listeners: listeners.into_iter().flatten().collect(),
            targets: TargetRules::new(rules),
            wan_profile: wan_profile?,
            lan_profile: lan_profile?,
            limits,
        })
    }
}

// === impl ListenerOptions ===

impl ListenerOptions {
    fn resolve(self, problems: &mut Problems) -> Option<TrunkListener> {
        let listen = parse_listen(problems, "listen", &self.listen);
        let to = parse(problems, "to", &self.to);
        Some(TrunkListener {
            allow: sources(problems, &self.allow),
            listen: listen?,
            to: to?,
        })
    }
}

// === impl SecurityOptions ===

impl SecurityOptions {
    fn resolve(self, problems: &mut Problems) -> Option<Security> {
        let with_pins = self.identity.is_some() || !self.trust.is_empty();
        let with_authority = self.certificate.is_some()
            || self.private_key.is_some()
            || self.authority.is_some()
            || self.peer_name.is_some();
        let plain = self.plain.unwrap_or(false);
        if usize::from(with_pins) + usize::from(with_authority) + usize::from(plain) > 1 {
            problems.tell(
                "",
                "security is one of three: identity and trust, or certificate, private-key and authority, \
                 or plain = true",
            );
            return None;
        }
        if plain {
            return Some(Security::Plain);
        }
        if !with_authority {
            let trust = parse_all::<Pin>(problems, "trust", &self.trust);
            let identity = self.identity.unwrap_or_else(|| DEFAULT_IDENTITY.into());
            return Some(Security::Pinned { identity, trust });
        }
        let parts = (self.certificate, self.private_key, self.authority);
        let (Some(certificate), Some(private_key), Some(authority)) = parts else {
            problems.tell(
                "",
                "security with an authority needs certificate, private-key and authority",
            );
            return None;
        };
        Some(Security::Authority {
            certificate,
            private_key,
            authority,
            peer_name: self.peer_name,
        })
    }
}

// === impl TrunkLimitOptions ===

impl TrunkLimitOptions {
    fn resolve(&self, problems: &mut Problems) -> TrunkLimits {
        let limits = TrunkLimits {
            // One descriptor each within the common hard limit of 20,000, as for the other relays.
            clients: self.clients.unwrap_or(9_000),
            // What browsers and download managers settle on; the trunk uses one unless more help.
            wan_connections: self.wan_connections.unwrap_or(4),
            min_wan_connections: self.min_wan_connections.unwrap_or(1),
            // Half of it carries 8.5 Gbit/s over 63 ms for one stream: see `trunk::Memory`.
            memory: self.memory.unwrap_or(Bytes::mib(128)),
            // More than the descriptors of a common host are good for.
            streams: self.streams.unwrap_or(16_384),
            // Below the 30 s after which the least patient middleboxes forget a connection.
            keep_alive: span(self.keep_alive, Duration::from_secs(5)),
            // Its frames go over others long before: this is when its socket is closed.
            dead_after: span(self.dead_after, Duration::from_secs(15)),
            connect_timeout: span(self.connect_timeout, Duration::from_secs(10)),
            // As for byte streams: silence is normal, this only ends what was forgotten.
            idle_timeout: span(self.idle_timeout, Duration::from_hours(1)),
            half_closed_timeout: span(self.half_closed_timeout, Duration::from_mins(5)),
            // Longer than routing takes to settle, shorter than people and batch jobs take to give up.
            outage: span(self.outage, Duration::from_mins(1)),
            drain_timeout: span(self.drain_timeout, Duration::from_secs(30)),
        };
        for (name, count) in [
            ("clients", limits.clients),
            ("wan-connections", limits.wan_connections),
        ] {
            problems.require(count > 0, name, "with 0 nothing could pass");
        }
        problems.require(
            (1..=limits.wan_connections).contains(&limits.min_wan_connections),
            "min-wan-connections",
            "it is not from 1 to wan-connections",
        );
        problems.require(
            limits.wan_connections <= 64,
            "wan-connections",
            "no path needs more than 64",
        );
        let spans = [
            ("connect-timeout", limits.connect_timeout),
            ("idle-timeout", limits.idle_timeout),
            ("half-closed-timeout", limits.half_closed_timeout),
        ];
        above_zero(problems, "every stream would fail", &spans);
        limits
    }
}

/// How often trunks are probed. A probe carries 256 KiB each way.
pub(super) fn probe_every(written: Option<Span>, problems: &mut Problems) -> Option<Duration> {
    let every = written?.get();
    if every < Duration::from_secs(1) {
        problems.tell(
            "probe-every",
            "below 1 s probes would be most of the traffic",
        );
    }
    Some(every)
}

/// Threads for all ends together.
pub(super) fn threads(written: Option<usize>, problems: &mut Problems) -> Option<usize> {
    if written.is_some_and(|threads| !(1..=THREADS_MAX).contains(&threads)) {
        problems.tell("threads", format!("it is not between 1 and {THREADS_MAX}"));
    }
    written
}

/// Where the status is read; only from this host, since it names clients and targets.
pub(super) fn status(text: Option<&str>, problems: &mut Problems) -> Option<SocketAddr> {
    let address: SocketAddr = parse(problems, "status", text?)?;
    if !address.ip().is_loopback() {
        problems.tell(
            "status",
            "it names clients and targets, so it is for loopback addresses",
        );
    }
    Some(address)
}

/// Who may connect: what is written, or loopback and private networks.
fn sources(problems: &mut Problems, written: &[String]) -> Vec<Cidr> {
    if written.is_empty() {
        parse_all(problems, "allow", &PRIVATE)
    } else {
        parse_all(problems, "allow", written)
    }
}
