//! What a gateway serves, from where, and for whom: from TOML or a command line, through one validation.

mod options;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

pub use document::ConfigError;
use envelope::KeyRing;
use units::Rate;

pub use options::{
    BucketOptions, ClientOptions, CredentialOptions, FormOptions, GatewayOptions, KeyOptions,
    LimitOptions,
};

/// A valid gateway.
#[derive(Clone, Debug)]
pub struct Config {
    /// Where clients connect.
    pub listen: SocketAddr,
    /// Where objects are kept.
    pub origin: OriginAddress,
    /// Who may use this gateway.
    pub clients: Vec<Credentials>,
    /// As whom it speaks to the origin.
    pub credentials: Credentials,
    /// The region that requests to the origin are signed for.
    pub region: String,
    /// Domains below which a host name begins with its bucket.
    pub domains: Vec<String>,
    /// Which buckets there are, and what they are called at the origin.
    pub buckets: Vec<BucketRule>,
    /// Paths that take forms.
    pub forms: Vec<FormRule>,
    /// Whether clients may make buckets and remove them.
    pub manage_buckets: bool,
    /// Whether the origin is sent a checksum behind each body, to compare before it stores.
    pub checksums: bool,
    /// Whether connections for downloads are made ahead of them, once a large object has passed.
    pub keep_ready: bool,
    /// Where uploads under way are noted, so that a start gives up those that a crash has left.
    pub journal: Option<PathBuf>,
    /// Bounds.
    pub limits: Limits,
    /// What the way to the origin is said to carry, until that is seen.
    pub path_rate: Option<Rate>,
}

/// Where the origin is.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct OriginAddress {
    /// Host and port as the origin knows itself: what `Host` says, and what is signed.
    pub authority: String,
    /// Where connections go: the origin, or a relay or trunk that leads to it. `HOST:PORT`.
    pub via: String,
    /// Whether a relay or trunk was named for `via`. Where none was, whoever runs the gateway may put one there.
    pub relayed: bool,
    /// Whether the origin speaks TLS. The gateway does not: whoever stands at `via` does.
    pub tls: bool,
    /// Who may sign its certificate; `None`: whom this host trusts.
    pub authority_file: Option<PathBuf>,
}

/// An access key and its secret.
#[derive(Clone, Eq, PartialEq)]
pub struct Credentials {
    /// Public half.
    pub access_key: String,
    /// Secret half.
    pub secret_key: String,
}

/// A bucket, or all others.
#[derive(Clone, Debug)]
pub struct BucketRule {
    /// What clients call it; `*` is every name that has no rule of its own.
    pub name: String,
    /// What the origin calls it; for `*` the names are the same.
    pub origin: String,
    /// How its objects are encrypted, if they are.
    pub encryption: Option<Encryption>,
}

/// How a bucket's objects are encrypted.
#[derive(Clone, Debug)]
pub struct Encryption {
    /// The key that new objects are written under, and all that are at hand for reading.
    pub ring: Arc<KeyRing>,
}

/// A path that takes a form's file.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct FormRule {
    /// The path of the POST.
    pub path: String,
    /// The bucket, as clients call it.
    pub bucket: String,
    /// What keys begin with.
    pub prefix: String,
}

/// Bounds of a gateway.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Limits {
    /// Bytes of an object that a client may send.
    pub object: u64,
    /// Bytes that one request may hold in memory.
    pub request_memory: u64,
    /// Requests to the origin at the same time that carry parts or ranges.
    pub parallel: usize,
    /// Client connections at the same time.
    pub connections: usize,
    /// Without a byte of progress.
    pub stall: Duration,
}

// === impl Credentials ===

impl Credentials {
    /// A pair.
    pub fn new(access_key: impl Into<String>, secret_key: impl Into<String>) -> Self {
        Self {
            access_key: access_key.into(),
            secret_key: secret_key.into(),
        }
    }
}

/// Without the secret: `Debug` output ends in logs and tickets.
impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Credentials")
            .field("access_key", &self.access_key)
            .finish_non_exhaustive()
    }
}

// === impl Config ===

impl Config {
    /// Reads a configuration file's text, and the secrets that it names; or tells everything that is wrong with it.
    ///
    /// `variable` looks into the environment.
    ///
    /// # Errors
    /// All problems at once, each with its place.
    pub fn from_toml(
        text: &str,
        variable: impl Fn(&str) -> Option<String>,
    ) -> Result<Self, ConfigError> {
        document::read(text, |options: GatewayOptions, problems| {
            options.meaning(&variable, problems)
        })
    }

    /// What the origin calls the client's bucket `name`, if it is served.
    pub(crate) fn rule(&self, name: &str) -> Option<BucketRule> {
        let own = self.buckets.iter().find(|rule| rule.name == name);
        if let Some(rule) = own {
            return Some(rule.clone());
        }
        let all = self.buckets.iter().find(|rule| rule.name == "*")?;
        // A name that the origin knows as somebody else's is not reached around its rule.
        if self.buckets.iter().any(|rule| rule.origin == name) {
            return None;
        }
        Some(BucketRule {
            name: name.to_owned(),
            origin: name.to_owned(),
            ..all.clone()
        })
    }

    /// What clients call the origin's bucket `name`, if it is served.
    pub(crate) fn client_name(&self, name: &str) -> Option<String> {
        let own = self.buckets.iter().find(|rule| rule.origin == name);
        match own {
            Some(rule) if rule.name != "*" => Some(rule.name.clone()),
            _ => self.rule(name).map(|rule| rule.name),
        }
    }

    /// Access keys and secrets.
    pub(crate) fn secrets(&self) -> BTreeMap<String, String> {
        let pairs = self.clients.iter();
        pairs
            .map(|pair| (pair.access_key.clone(), pair.secret_key.clone()))
            .collect()
    }
}
