//! A gateway as it is written.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use envelope::{KeyRing, WrappingKey};
use serde::{Deserialize, Serialize};
use units::{Bytes, Span};

use super::{BucketRule, Config, Credentials, Encryption, FormRule, Limits, OriginAddress};
use crate::keys::wrapping_key;

/// A gateway as it is written: text and numbers, everything optional that has a default.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct GatewayOptions {
    /// Where clients connect, such as `127.0.0.1:9000`.
    pub listen: String,
    /// Where objects are kept, such as `http://store.example:9000`.
    pub origin: String,
    /// Where connections to the origin go instead: a relay or a trunk that leads to it, as `HOST:PORT`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub via: Option<String>,
    /// Who may sign the origin's certificate, in PEM; whom this host trusts where nothing is said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub origin_ca: Option<PathBuf>,
    /// The origin's region; `us-east-1` where nothing is said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub region: Option<String>,
    /// Domains below which a host name begins with its bucket.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub domains: Vec<String>,
    /// Whether clients may make and remove buckets; no where nothing is said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub manage_buckets: Option<bool>,
    /// Whether the origin is sent checksums behind bodies; yes where nothing is said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub checksums: Option<bool>,
    /// Where uploads under way are noted; nowhere where nothing is said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub journal: Option<PathBuf>,
    /// As whom the gateway speaks to the origin.
    #[serde(default)]
    pub credentials: CredentialOptions,
    /// Who may use the gateway.
    #[serde(default, rename = "client", skip_serializing_if = "Vec::is_empty")]
    pub clients: Vec<ClientOptions>,
    /// Which buckets are served; every bucket by its own name where nothing is said.
    #[serde(default, rename = "bucket", skip_serializing_if = "Vec::is_empty")]
    pub buckets: Vec<BucketOptions>,
    /// Paths that take forms.
    #[serde(default, rename = "form", skip_serializing_if = "Vec::is_empty")]
    pub forms: Vec<FormOptions>,
    /// Keys that objects' keys are wrapped with.
    #[serde(default, rename = "key", skip_serializing_if = "Vec::is_empty")]
    pub keys: Vec<KeyOptions>,
    /// Bounds.
    #[serde(default)]
    pub limits: LimitOptions,
}

/// An access key and where its secret is: exactly one of the three.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct CredentialOptions {
    /// The access key; of the origin: `AWS_ACCESS_KEY_ID` where nothing is said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub access_key: Option<String>,
    /// The environment variable that holds the secret; of the origin: `AWS_SECRET_ACCESS_KEY` where nothing is
    /// said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secret_env: Option<String>,
    /// The file that holds the secret in its first line.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secret_file: Option<PathBuf>,
}

/// Somebody who may use the gateway.
pub type ClientOptions = CredentialOptions;

/// See [`BucketRule`].
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct BucketOptions {
    /// What clients call it, or `*`.
    pub name: String,
    /// What the origin calls it; the same where nothing is said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub origin: Option<String>,
    /// The key that its objects are encrypted under; none where nothing is said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub encrypt: Option<String>,
}

/// See [`FormRule`].
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct FormOptions {
    /// The path of the POST.
    pub path: String,
    /// The bucket, as clients call it.
    pub bucket: String,
    /// What keys begin with; nothing where nothing is said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prefix: Option<String>,
}

/// A wrapping key and where it is: exactly one of file, environment and command.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct KeyOptions {
    /// What buckets call it.
    pub name: String,
    /// A file with 32 bytes, or their hexadecimal or base64 text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub file: Option<PathBuf>,
    /// An environment variable with their hexadecimal or base64 text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub env: Option<String>,
    /// A program and its arguments that print them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub command: Vec<String>,
}

/// See [`Limits`].
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
#[allow(
    missing_docs,
    reason = "each field is documented where it is resolved, in Limits"
)]
pub struct LimitOptions {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub object: Option<Bytes>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request_memory: Option<Bytes>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parallel: Option<usize>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub connections: Option<usize>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stall: Option<Span>,
}

/// Everything that is wrong with a gateway as it is written.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub struct ConfigError {
    /// One sentence each.
    pub problems: Vec<String>,
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.problems.join("; "))
    }
}

// === impl GatewayOptions ===

impl GatewayOptions {
    /// Reads TOML.
    ///
    /// # Errors
    /// Where the text is no TOML, or has fields that a gateway does not.
    pub fn from_toml(text: &str) -> Result<Self, ConfigError> {
        toml::from_str(text).map_err(|error| ConfigError {
            problems: vec![error.to_string()],
        })
    }

    /// The same as TOML.
    ///
    /// # Errors
    /// Never, for values that were read or made by this crate.
    pub fn to_toml(&self) -> Result<String, toml::ser::Error> {
        toml::to_string(self)
    }

    /// The valid gateway, with its secrets read; or everything that is wrong with it.
    ///
    /// `variable` looks into the environment.
    ///
    /// # Errors
    /// All problems at once.
    pub fn resolve(
        &self,
        variable: impl Fn(&str) -> Option<String>,
    ) -> Result<Config, ConfigError> {
        let mut problems = Vec::new();
        let listen = self.listen.parse::<SocketAddr>();
        if listen.is_err() {
            problems.push(format!("listen: `{}` is not ADDRESS:PORT", self.listen));
        }
        let origin = self.origin(&mut problems);
        let credentials = self.credentials.resolve(
            "credentials",
            Some(("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY")),
            &variable,
            &mut problems,
        );
        let clients = self.clients(&variable, &mut problems);
        let rings = self.rings(&variable, &mut problems);
        let buckets = self.bucket_rules(&rings, &mut problems);
        let forms = self.form_rules(&buckets, &mut problems);
        let limits = self.limits.resolve(&mut problems);
        match (listen, origin, credentials) {
            (Ok(listen), Some(origin), Some(credentials)) if problems.is_empty() => Ok(Config {
                listen,
                origin,
                clients,
                credentials,
                region: self.region.clone().unwrap_or_else(|| "us-east-1".into()),
                domains: self.domains.clone(),
                buckets,
                forms,
                manage_buckets: self.manage_buckets.unwrap_or(false),
                checksums: self.checksums.unwrap_or(true),
                journal: self.journal.clone(),
                limits,
                path_rate: None,
            }),
            _ => Err(ConfigError { problems }),
        }
    }

    fn origin(&self, problems: &mut Vec<String>) -> Option<OriginAddress> {
        let mut origin = origin(&self.origin, self.via.as_deref(), problems)?;
        if self.origin_ca.is_some() && (!origin.tls || self.via.is_some()) {
            let why = "it is for an https origin that is reached without `via`";
            problems.push(format!("origin-ca: {why}"));
        }
        origin.authority_file.clone_from(&self.origin_ca);
        Some(origin)
    }

    fn clients(
        &self,
        variable: &impl Fn(&str) -> Option<String>,
        problems: &mut Vec<String>,
    ) -> Vec<Credentials> {
        if self.clients.is_empty() {
            problems
                .push("client: nobody may use this gateway; name at least one access key".into());
        }
        let mut names = BTreeSet::new();
        let mut clients = Vec::new();
        for (number, options) in self.clients.iter().enumerate() {
            let place = format!("client {}", number + 1);
            if let Some(pair) = options.resolve(&place, None, variable, problems) {
                if !names.insert(pair.access_key.clone()) {
                    problems.push(format!("{place}: `{}` is there twice", pair.access_key));
                }
                clients.push(pair);
            }
        }
        clients
    }

    /// For each key the ring that writes under it and reads under all.
    fn rings(
        &self,
        variable: &impl Fn(&str) -> Option<String>,
        problems: &mut Vec<String>,
    ) -> BTreeMap<String, Arc<KeyRing>> {
        let mut keys: BTreeMap<String, WrappingKey> = BTreeMap::new();
        for options in &self.keys {
            match wrapping_key(options, variable) {
                Ok(key) => {
                    if keys.insert(options.name.clone(), key).is_some() {
                        problems.push(format!("key `{}` is there twice", options.name));
                    }
                }
                Err(problem) => problems.push(problem),
            }
        }
        let ring = |key: &WrappingKey| Arc::new(KeyRing::new(key.clone(), keys.values().cloned()));
        keys.iter()
            .map(|(name, key)| (name.clone(), ring(key)))
            .collect()
    }

    fn bucket_rules(
        &self,
        rings: &BTreeMap<String, Arc<KeyRing>>,
        problems: &mut Vec<String>,
    ) -> Vec<BucketRule> {
        if self.buckets.is_empty() {
            return vec![BucketRule {
                name: "*".into(),
                origin: "*".into(),
                encryption: None,
            }];
        }
        let mut rules: Vec<BucketRule> = Vec::new();
        for options in &self.buckets {
            let rule = BucketRule {
                name: options.name.clone(),
                origin: options
                    .origin
                    .clone()
                    .unwrap_or_else(|| options.name.clone()),
                encryption: options
                    .encrypt
                    .as_ref()
                    .and_then(|name| rings.get(name))
                    .map(|ring| Encryption {
                        ring: Arc::clone(ring),
                    }),
            };
            if let Some(name) = &options.encrypt
                && !self.keys.iter().any(|key| key.name == *name)
            {
                problems.push(format!("bucket `{}`: there is no key `{name}`", rule.name));
            }
            if rule.name == "*" && rule.origin != "*" {
                problems.push("bucket `*`: every name stays its own; leave out `origin`".into());
            }
            if rules
                .iter()
                .any(|other| other.name == rule.name || other.origin == rule.origin)
            {
                problems.push(format!("bucket `{}` is there twice", rule.name));
            }
            rules.push(rule);
        }
        rules
    }

    fn form_rules(&self, buckets: &[BucketRule], problems: &mut Vec<String>) -> Vec<FormRule> {
        let mut rules = Vec::new();
        for options in &self.forms {
            if !options.path.starts_with('/') {
                problems.push(format!("form `{}`: a path starts with `/`", options.path));
            }
            let known = |rule: &BucketRule| rule.name == options.bucket || rule.name == "*";
            if !buckets.iter().any(known) {
                problems.push(format!(
                    "form `{}`: no bucket `{}` is served",
                    options.path, options.bucket
                ));
            }
            rules.push(FormRule {
                path: options.path.clone(),
                bucket: options.bucket.clone(),
                prefix: options.prefix.clone().unwrap_or_default(),
            });
        }
        rules
    }
}

/// `http://HOST[:PORT]` or `https://HOST[:PORT]`.
fn origin(text: &str, via: Option<&str>, problems: &mut Vec<String>) -> Option<OriginAddress> {
    let uri = text.parse::<http::Uri>().ok();
    let scheme = uri.as_ref().and_then(|uri| uri.scheme_str());
    let authority = uri.as_ref().and_then(|uri| uri.authority());
    let path = uri.as_ref().map_or("", |uri| uri.path());
    let (Some(scheme @ ("http" | "https")), Some(authority), "/" | "") = (scheme, authority, path)
    else {
        problems.push(format!(
            "origin: `{text}` is not http://HOST[:PORT] or https://HOST[:PORT]"
        ));
        return None;
    };
    let tls = scheme == "https";
    let usual = if tls { 443 } else { 80 };
    let port = authority.port_u16().unwrap_or(usual);
    let host = authority.host();
    Some(OriginAddress {
        // The port that goes without saying is not said, as every client has it (RFC 9110 section 7.2).
        authority: if port == usual {
            host.to_owned()
        } else {
            format!("{host}:{port}")
        },
        via: via.map_or_else(|| format!("{host}:{port}"), str::to_owned),
        tls,
        authority_file: None,
    })
}

// === impl CredentialOptions ===

impl CredentialOptions {
    fn resolve(
        &self,
        place: &str,
        usual: Option<(&str, &str)>,
        variable: &impl Fn(&str) -> Option<String>,
        problems: &mut Vec<String>,
    ) -> Option<Credentials> {
        let access_key = self
            .access_key
            .clone()
            .or_else(|| usual.and_then(|(name, _)| variable(name)));
        let secret_key = match (&self.secret_env, &self.secret_file) {
            (Some(_), Some(_)) => {
                problems.push(format!(
                    "{place}: secret-env and secret-file exclude each other"
                ));
                return None;
            }
            (None, Some(path)) => match std::fs::read_to_string(path) {
                Ok(text) => text.lines().next().map(|line| line.trim().to_owned()),
                Err(error) => {
                    problems.push(format!(
                        "{place}: cannot read `{}`: {error}",
                        path.display()
                    ));
                    return None;
                }
            },
            (Some(name), None) => variable(name),
            (None, None) => usual.and_then(|(_, name)| variable(name)),
        };
        let filled = |text: &Option<String>| text.as_ref().is_some_and(|text| !text.is_empty());
        if !filled(&access_key) {
            let hint = usual.map_or_else(String::new, |(name, _)| format!(", or set {name}"));
            problems.push(format!("{place}: no access key; set access-key{hint}"));
        }
        if !filled(&secret_key) {
            let hint = usual.map_or_else(String::new, |(_, name)| format!(", or set {name}"));
            problems.push(format!(
                "{place}: no secret; set secret-env or secret-file to where one is{hint}"
            ));
        }
        Some(Credentials {
            access_key: access_key?,
            secret_key: secret_key?,
        })
    }
}

// === impl LimitOptions ===

impl LimitOptions {
    fn resolve(&self, problems: &mut Vec<String>) -> Limits {
        let limits = Limits {
            // S3's own: 5 TiB.
            object: self.object.unwrap_or(Bytes::mib(5 << 20)).get(),
            // Two seconds of 1 Gbit/s: so long the path works on while one connection of many stands still. Over a short path
            // less is taken.
            request_memory: self.request_memory.unwrap_or(Bytes::mib(256)).get(),
            // A disk of 100 operations per second suffers from more; a fast store gains nothing from them.
            parallel: self.parallel.unwrap_or(192),
            connections: self.connections.unwrap_or(1024),
            stall: self.stall.map_or(Duration::from_mins(1), Span::get),
        };
        if limits.request_memory < (16 << 20) {
            // Two parts of at least 5 MiB, and room for what is in between.
            problems.push("limits.request-memory is below 16 MiB".into());
        }
        if limits.parallel < 2 {
            problems.push("limits.parallel is below 2".into());
        }
        if limits.connections == 0 {
            problems.push("limits.connections is 0".into());
        }
        if limits.stall.is_zero() {
            problems.push("limits.stall is 0 s: every request would fail".into());
        }
        limits
    }
}
