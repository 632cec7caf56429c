//! What a trunk's ends are, from TOML or from a command line, through one validation.

mod manners;
mod options;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::Duration;

use document::Problems;
use profile::{RawTcpProfile, TcpProfile};
use serde::{Deserialize, Serialize};
use trunk::{DigestKind, Guard, Padding};
use units::{Bytes, Span};

use super::admission::TargetRules;
use super::shield::Security;
use crate::config::{own_profiles, resolve_all};
use crate::{Cidr, ConfigError, Target};
pub use manners::{DigestOption, GuardOptions, PaddingOptions};
pub use options::{
    DEFAULT_IDENTITY, FarOptions, ListenerOptions, NearOptions, SecurityOptions, TrunkLimitOptions,
};

/// A valid configuration of at least one end of a trunk.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct TrunkConfig {
    /// Ends that dial.
    pub near: Vec<NearEnd>,
    /// Ends that are dialled.
    pub far: Vec<FarEnd>,
    /// Where the state of all of them can be read, as JSON over HTTP; nowhere where `None`.
    pub status: Option<SocketAddr>,
    /// How often every trunk is probed with data; never where `None`.
    pub probe_every: Option<Duration>,
    /// On how many threads the ends work together; for whoever makes the runtime to choose where `None`.
    ///
    /// A stream's task and its WAN connections' wake each other all the time, and it costs much more from one
    /// thread to another than within one.
    pub threads: Option<usize>,
}

/// The end that dials, at the site of most clients.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct NearEnd {
    /// What both kinds of ends have.
    pub end: End,
    /// Far relays. New streams go to the first that is reachable.
    pub via: Vec<Target>,
}

/// The end that is dialled, at the site of most targets.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct FarEnd {
    /// What both kinds of ends have.
    pub end: End,
    /// Where near ends connect.
    pub listen: SocketAddr,
    /// From where they may.
    pub allow: Vec<Cidr>,
}

/// What both kinds of ends have: clients may come in, and targets be opened, at either.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct End {
    /// What it is called in events.
    pub name: String,
    /// How WAN connections are protected.
    pub security: Security,
    /// Where clients come in, whose targets the other end opens.
    pub listeners: Vec<TrunkListener>,
    /// What the other end's clients may reach through this end.
    pub targets: TargetRules,
    /// How WAN sockets behave.
    pub wan_profile: TcpProfile,
    /// How clients' and targets' sockets behave.
    pub lan_profile: TcpProfile,
    /// Bounds.
    pub limits: TrunkLimits,
    /// How connections are kept hot.
    pub padding: Padding,
    /// When it takes less from others on its path.
    pub guard: Guard,
    /// The digest of every stream; the dialling end's is used.
    pub digest: DigestKind,
}

/// Where clients come in.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct TrunkListener {
    /// The address.
    pub listen: SocketAddr,
    /// What the other end connects them to.
    pub to: Target,
    /// Who may connect.
    pub allow: Vec<Cidr>,
}

/// Bounds of one end.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct TrunkLimits {
    /// Clients of one listener at the same time; others wait in its queue.
    pub clients: usize,
    /// WAN connections of one trunk at the same time.
    pub wan_connections: usize,
    /// The least number, kept also where one would do.
    pub min_wan_connections: usize,
    /// What one trunk may hold of streams' bytes, in each direction.
    pub memory: Bytes,
    /// Streams that the other end may have open at the same time.
    pub streams: usize,
    /// How often a silent WAN connection is asked whether it lives.
    pub keep_alive: Duration,
    /// How long one may be silent while something is owed.
    pub dead_after: Duration,
    /// For a connection to a target or to a far relay, name resolution included; TLS as much again.
    pub connect_timeout: Duration,
    /// Without a byte in either direction of a stream.
    pub idle_timeout: Duration,
    /// The same once one side has ended its direction.
    pub half_closed_timeout: Duration,
    /// How long streams wait for a WAN that is gone.
    pub outage: Duration,
    /// From the order to stop until what still runs is cut off.
    pub drain_timeout: Duration,
}

/// The file's outline.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
struct Document {
    /// See [`TrunkConfig::status`].
    #[serde(skip_serializing_if = "Option::is_none")]
    status: Option<String>,
    /// See [`TrunkConfig::probe_every`].
    #[serde(skip_serializing_if = "Option::is_none")]
    probe_every: Option<Span>,
    /// See [`TrunkConfig::threads`].
    #[serde(skip_serializing_if = "Option::is_none")]
    threads: Option<usize>,
    /// TCP profiles beside the built-in ones.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    profiles: BTreeMap<String, RawTcpProfile>,
    /// Ends that dial.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    near: Vec<NearOptions>,
    /// Ends that are dialled.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    far: Vec<FarOptions>,
}

/// One end and what stands beside it in a file, as a command line describes them.
#[derive(Clone, Debug, PartialEq)]
pub struct TrunkOptions {
    document: Document,
}

// === impl TrunkConfig ===

impl TrunkConfig {
    /// Reads a configuration file's text.
    pub fn from_toml(text: &str) -> Result<Self, ConfigError> {
        document::read(text, Self::resolve)
    }

    fn resolve(document: Document, problems: &mut Problems) -> Self {
        let profiles = own_profiles(document.profiles, problems);
        problems.require(
            !(document.near.is_empty() && document.far.is_empty()),
            "",
            "there is no end of a trunk: write at least one [[near]] or [[far]] table",
        );
        let near = resolve_all(document.near, "near", problems, |options, problems| {
            options.resolve(&profiles, problems)
        });
        let far = resolve_all(document.far, "far", problems, |options, problems| {
            options.resolve(&profiles, problems)
        });
        Self {
            near: near.into_iter().flatten().collect(),
            far: far.into_iter().flatten().collect(),
            status: options::status(document.status.as_deref(), problems),
            probe_every: options::probe_every(document.probe_every, problems),
            threads: options::threads(document.threads, problems),
        }
    }

    /// What both kinds of ends have, of all ends.
    pub fn ends(&self) -> impl Iterator<Item = &End> {
        let near = self.near.iter().map(|near| &near.end);
        near.chain(self.far.iter().map(|far| &far.end))
    }
}

// === impl TrunkOptions ===

impl TrunkOptions {
    /// One near end.
    #[must_use]
    pub fn near(options: NearOptions) -> Self {
        Self {
            document: Document {
                near: vec![options],
                ..Document::default()
            },
        }
    }

    /// One far end.
    #[must_use]
    pub fn far(options: FarOptions) -> Self {
        Self {
            document: Document {
                far: vec![options],
                ..Document::default()
            },
        }
    }

    /// With its state readable at this loopback address.
    #[must_use]
    pub fn with_status(mut self, address: SocketAddr) -> Self {
        self.document.status = Some(address.to_string());
        self
    }

    /// With every trunk probed this often.
    #[must_use]
    pub fn with_probe_every(mut self, every: Span) -> Self {
        self.document.probe_every = Some(every);
        self
    }

    /// The same as a configuration file.
    pub fn to_toml(&self) -> Result<String, toml::ser::Error> {
        toml::to_string(&self.document)
    }

    /// The valid configuration, or all that is wrong with it.
    pub fn resolve(self) -> Result<TrunkConfig, ConfigError> {
        let mut problems = Problems::default();
        let config = TrunkConfig::resolve(self.document, &mut problems);
        problems.or(config)
    }
}
