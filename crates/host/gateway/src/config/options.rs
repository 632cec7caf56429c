//! A gateway as it is written.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use document::{ConfigError, Problems};
use envelope::{KeyRing, WrappingKey};
use serde::{Deserialize, Serialize};
use units::{Bytes, Rate, Span};

use super::{BucketRule, Config, Credentials, Encryption, FormRule, Limits, OriginAddress};
use crate::keys::KeySource;

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
    /// Whether connections for downloads are made ahead of them, once a large object has passed; yes where nothing is said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub keep_ready: Option<bool>,
    /// Where uploads under way are noted; nowhere where nothing is said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub journal: Option<PathBuf>,
    /// What the way to the origin carries, if known: it is taken for that until it has shown its own rate.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path_rate: Option<Rate>,
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

// === impl GatewayOptions ===

impl GatewayOptions {
    /// With one client, whose secret is in the environment.
    #[cfg(test)]
    pub(crate) fn of_a_test(listen: &str, origin: &str) -> Self {
        Self {
            listen: listen.into(),
            origin: origin.into(),
            clients: vec![ClientOptions {
                access_key: Some("some".into()),
                secret_env: Some("SECRET".into()),
                ..ClientOptions::default()
            }],
            ..Self::default()
        }
    }

    /// Reads a file's text. What its values mean is not asked, and no secret is read.
    ///
    /// # Errors
    /// Where the text is no TOML, or has fields that a gateway does not: all of that at once.
    pub fn from_toml(text: &str) -> Result<Self, ConfigError> {
        document::read(text, |options, _| options)
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
        let mut problems = Problems::default();
        let config = self.meaning(&variable, &mut problems);
        problems.or(config)
    }

    /// What all of it means. In the place of what means nothing stands something that nobody sees, since that is told.
    pub(super) fn meaning(
        &self,
        variable: &impl Fn(&str) -> Option<String>,
        problems: &mut Problems,
    ) -> Config {
        let listen = self.listen.parse().unwrap_or_else(|_| {
            problems.tell_with(
                "listen",
                format!("`{}` is not an address and a port", self.listen),
                "write it like `127.0.0.1:9000`, or `0.0.0.0:9000` for all addresses of this host",
            );
            SocketAddr::from(([0, 0, 0, 0], 0))
        });
        let origin = self.origin(problems);
        let usual = ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY");
        let credentials = problems.within("credentials", |problems| {
            self.credentials.resolve(Some(usual), variable, problems)
        });
        let clients = self.clients(variable, problems);
        self.judge_buckets(problems);
        let forms = self.form_rules(problems);
        let limits = problems.within("limits", |problems| self.limits.resolve(problems));
        // Of less a relay takes none for its pacing.
        problems.require(
            self.path_rate
                .is_none_or(|rate| rate >= Rate::kbit_per_s(8)),
            "path-rate",
            "it is 8 kbit/s or more",
        );
        // Last of all, since programs may be run for it.
        let rings = self.rings(variable, problems);
        Config {
            listen,
            origin,
            clients,
            credentials: credentials.unwrap_or_else(|| Credentials::new("", "")),
            region: self.region.clone().unwrap_or_else(|| "us-east-1".into()),
            domains: self.domains.clone(),
            buckets: self.bucket_rules(&rings),
            forms,
            manage_buckets: self.manage_buckets.unwrap_or(false),
            checksums: self.checksums.unwrap_or(true),
            keep_ready: self.keep_ready.unwrap_or(true),
            journal: self.journal.clone(),
            limits,
            path_rate: self.path_rate,
        }
    }

    fn origin(&self, problems: &mut Problems) -> OriginAddress {
        if let Some(via) = &self.via {
            let parts = via.rsplit_once(':');
            let is_sound = parts.is_some_and(|(host, port)| {
                !host.is_empty() && port.parse().is_ok_and(|port: u16| port != 0)
            });
            if !is_sound {
                problems.tell("via", format!("`{via}` is not HOST:PORT"));
            }
        }
        let Some(origin) = origin(&self.origin, self.via.as_deref()) else {
            problems.tell(
                "origin",
                format!(
                    "`{}` is not http://HOST[:PORT] or https://HOST[:PORT]",
                    self.origin
                ),
            );
            return OriginAddress::default();
        };
        problems.require(
            self.origin_ca.is_none() || origin.tls && self.via.is_none(),
            "origin-ca",
            "it is for an https origin that is reached without `via`",
        );
        OriginAddress {
            authority_file: self.origin_ca.clone(),
            ..origin
        }
    }

    fn clients(
        &self,
        variable: &impl Fn(&str) -> Option<String>,
        problems: &mut Problems,
    ) -> Vec<Credentials> {
        if self.clients.is_empty() {
            problems.tell_with(
                "client",
                "nobody may use this gateway",
                "name at least one access key in a [[client]] table",
            );
        }
        let mut names = BTreeSet::new();
        problems.within("client", |problems| {
            let numbered = self.clients.iter().enumerate();
            let pairs = numbered.filter_map(|(index, options)| {
                problems.within(index, |problems| {
                    let name = options.access_key.as_ref().filter(|name| !name.is_empty());
                    if let Some(name) = name
                        && !names.insert(name)
                    {
                        let what = format!("another client has `{name}` already");
                        problems.tell("access-key", what);
                    }
                    options.resolve(None, variable, problems)
                })
            });
            pairs.collect()
        })
    }

    /// For each key the ring that writes under it and reads under all.
    fn rings(
        &self,
        variable: &impl Fn(&str) -> Option<String>,
        problems: &mut Problems,
    ) -> BTreeMap<String, Arc<KeyRing>> {
        let mut names = BTreeSet::new();
        let mut sources = Vec::new();
        let mut keys: BTreeMap<String, WrappingKey> = BTreeMap::new();
        problems.within("key", |problems| {
            for (index, options) in self.keys.iter().enumerate() {
                let name = &options.name;
                problems.within(index, |problems| {
                    problems.require(!name.is_empty(), "name", "a key has a name");
                    if !name.is_empty() && !names.insert(name) {
                        problems.tell("name", format!("another key has `{name}` already"));
                    }
                    match KeySource::of(options) {
                        Ok(source) => sources.push((index, name, source)),
                        Err(why) => problems.tell("", why),
                    }
                });
            }
            for programs in [false, true] {
                // None is run where something is wrong: one of its arguments may have been left out.
                if programs && !problems.none_yet() {
                    break;
                }
                let some = sources.iter();
                for (index, name, source) in some.filter(|(.., from)| from.is_program() == programs)
                {
                    match source.read(variable) {
                        Ok(key) => {
                            keys.insert((*name).clone(), key);
                        }
                        Err(why) => {
                            problems.within(*index, |problems| problems.tell(source.key(), why));
                        }
                    }
                }
            }
        });
        let ring = |key: &WrappingKey| Arc::new(KeyRing::new(key.clone(), keys.values().cloned()));
        keys.iter()
            .map(|(name, key)| (name.clone(), ring(key)))
            .collect()
    }

    fn bucket_rules(&self, rings: &BTreeMap<String, Arc<KeyRing>>) -> Vec<BucketRule> {
        if self.buckets.is_empty() {
            return vec![BucketRule {
                name: "*".into(),
                origin: "*".into(),
                encryption: None,
            }];
        }
        let rules = self.buckets.iter().map(|options| BucketRule {
            name: options.name.clone(),
            origin: options.at_origin().to_owned(),
            encryption: options
                .encrypt
                .as_ref()
                .and_then(|name| rings.get(name))
                .map(|ring| Encryption {
                    ring: Arc::clone(ring),
                }),
        });
        rules.collect()
    }

    fn judge_buckets(&self, problems: &mut Problems) {
        let keys = || self.keys.iter().map(|key| key.name.as_str());
        let (mut names, mut at_origin) = (BTreeSet::new(), BTreeSet::new());
        problems.within("bucket", |problems| {
            for (index, options) in self.buckets.iter().enumerate() {
                problems.within(index, |problems| {
                    let name = options.name.as_str();
                    problems.require(!name.is_empty(), "name", "a bucket has a name");
                    if let Some(key) = &options.encrypt {
                        judge_name(problems, "encrypt", key, ("key", keys()));
                    }
                    let origin = options.at_origin();
                    if name == "*" && origin != "*" {
                        problems.tell_with(
                            "origin",
                            "of `*` every name stays its own",
                            "leave it out",
                        );
                    }
                    if !name.is_empty() && !names.insert(name) {
                        problems.tell("name", format!("another bucket has `{name}` already"));
                    } else if !origin.is_empty() && !at_origin.insert(origin) {
                        let key = options.origin.as_ref().map_or("name", |_| "origin");
                        let what = format!("another bucket is `{origin}` at the store already");
                        problems.tell(key, what);
                    }
                });
            }
        });
    }

    fn form_rules(&self, problems: &mut Problems) -> Vec<FormRule> {
        let buckets = || self.buckets.iter().map(|bucket| bucket.name.as_str());
        let serves_all = self.buckets.is_empty() || buckets().any(|name| name == "*");
        problems.within("form", |problems| {
            let numbered = self.forms.iter().enumerate();
            let rules = numbered.map(|(index, options)| {
                problems.within(index, |problems| {
                    if !options.path.starts_with('/') {
                        let what = format!("`{}` does not begin with `/`", options.path);
                        problems.tell("path", what);
                    }
                    if !serves_all {
                        let given = ("bucket", buckets());
                        judge_name(problems, "bucket", &options.bucket, given);
                    }
                });
                FormRule {
                    path: options.path.clone(),
                    bucket: options.bucket.clone(),
                    prefix: options.prefix.clone().unwrap_or_default(),
                }
            });
            rules.collect()
        })
    }
}

/// Tells of a name that no table of a list has. Where one of them has none, that is told already, and it may be the one that is
/// meant.
fn judge_name<'a>(
    problems: &mut Problems,
    key: &str,
    name: &str,
    (list, given): (&str, impl Iterator<Item = &'a str>),
) {
    let known: Vec<&str> = given.collect();
    if known.contains(&name) || known.contains(&"") {
        return;
    }
    let hint = match document::nearest(name, known.iter().copied()) {
        Some(meant) => format!("did you mean `{meant}`?"),
        None if known.is_empty() => "write one".to_owned(),
        None => format!("known are `{}`", known.join("`, `")),
    };
    problems.tell_with(key, format!("no [[{list}]] has the name `{name}`"), hint);
}

/// `http://HOST[:PORT]` or `https://HOST[:PORT]`.
fn origin(text: &str, via: Option<&str>) -> Option<OriginAddress> {
    let uri = text.parse::<http::Uri>().ok()?;
    let authority = uri.authority()?;
    let tls = match uri.scheme_str()? {
        "http" => false,
        "https" => true,
        _ => return None,
    };
    if !matches!(uri.path(), "/" | "") {
        return None;
    }
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
        relayed: via.is_some(),
        tls,
        authority_file: None,
    })
}

// === impl CredentialOptions ===

impl CredentialOptions {
    /// `usual` are the variables of a pair for which no options are needed: the store's.
    fn resolve(
        &self,
        usual: Option<(&str, &str)>,
        variable: &impl Fn(&str) -> Option<String>,
        problems: &mut Problems,
    ) -> Option<Credentials> {
        let filled = |text: &String| !text.is_empty();
        let whose = if usual.is_some() {
            "for the store"
        } else {
            "for this client"
        };
        let found = usual.and_then(|(name, _)| variable(name));
        let access_key = self.access_key.clone().or(found).filter(filled);
        if access_key.is_none() {
            let hint = match usual {
                Some((name, _)) => format!("set access-key, or {name} in the environment"),
                None => "set access-key".to_owned(),
            };
            problems.tell_with(
                "access-key",
                format!("there is no access key {whose}"),
                hint,
            );
        }
        let mut tell = |key: &str, what: String, hint: &str| {
            problems.tell_with(key, what, hint);
            None
        };
        let secret_key = match (&self.secret_env, &self.secret_file) {
            (Some(_), Some(_)) => tell(
                "secret-file",
                "secret-env says where the secret is already".to_owned(),
                "leave out one of the two",
            ),
            (None, Some(path)) => match std::fs::read_to_string(path) {
                Ok(text) => {
                    let line = text.lines().next().map(|line| line.trim().to_owned());
                    line.filter(filled).or_else(|| {
                        let what = format!("`{}` has an empty first line", path.display());
                        tell("secret-file", what, "put the secret there")
                    })
                }
                Err(error) => {
                    let what = format!("cannot read `{}`: {error}", path.display());
                    problems.tell("secret-file", what);
                    None
                }
            },
            (Some(name), None) => variable(name).filter(filled).or_else(|| {
                let what = format!("`{name}` is not set in the environment, or empty");
                tell("secret-env", what, "put the secret there")
            }),
            (None, None) => {
                let found = usual.and_then(|(_, name)| variable(name)).filter(filled);
                found.or_else(|| {
                    let hint = "name where it is by secret-env or secret-file";
                    let hint = match usual {
                        Some((_, name)) => format!("{hint}, or set {name} in the environment"),
                        None => hint.to_owned(),
                    };
                    tell("secret-env", format!("there is no secret {whose}"), &hint)
                })
            }
        };
        Some(Credentials {
            access_key: access_key?,
            secret_key: secret_key?,
        })
    }
}

// === impl BucketOptions ===

impl BucketOptions {
    /// What the origin calls it.
    fn at_origin(&self) -> &str {
        self.origin.as_ref().unwrap_or(&self.name)
    }
}

// === impl LimitOptions ===

impl LimitOptions {
    fn resolve(&self, problems: &mut Problems) -> Limits {
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
        // Two parts of at least 5 MiB, and room for what is in between.
        problems.require(
            limits.request_memory >= (16 << 20),
            "request-memory",
            "it is 16 MiB or more: that holds two parts",
        );
        problems.require(limits.parallel >= 2, "parallel", "it is 2 or more");
        problems.require(
            limits.connections > 0,
            "connections",
            "with 0 nobody could connect",
        );
        problems.require(
            !limits.stall.is_zero(),
            "stall",
            "with 0 s every request would fail",
        );
        limits
    }
}
