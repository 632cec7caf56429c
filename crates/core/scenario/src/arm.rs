use std::collections::BTreeMap;
use std::fmt;

use serde::de::{SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};

use crate::{Host, HostName, Tls, Workload};

/// One way of doing the workloads.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Arm {
    /// Its name: `direct`, `direct-reuse`, `relay`, `pair`, `report`, or your own.
    pub name: String,
    /// The relays that the endpoint's name leads through; straight to the origin where absent.
    #[serde(default)]
    pub relay: Route,
    /// Whether the client keeps its connection for all transfers of a block.
    #[serde(default)]
    pub reuse: bool,
    /// A relay whose connections are made but not primed; one transfer of each size through it is
    /// reported beside this arm.
    pub unprimed: Option<String>,
    /// Connections at once, instead of the workload's.
    pub parallel: Option<u32>,
    /// TLS, instead of the workload's.
    pub tls: Option<Tls>,
    /// Settings of hosts in this arm, field by field over the scenario's.
    #[serde(default)]
    pub hosts: BTreeMap<HostName, Host>,
    /// The client program in this arm, instead of the workload's; see [`Workload::command`].
    ///
    /// [`Workload::command`]: crate::Workload::command
    pub command: Option<String>,
}

/// The relays of an arm in the order in which a request meets them; in files one name, or a list.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Route(Vec<String>);

// === impl Arm ===

impl Arm {
    /// Connections at once for `workload` in this arm.
    #[must_use]
    pub fn parallel(&self, workload: &Workload) -> u32 {
        self.parallel.unwrap_or_else(|| workload.parallel())
    }

    /// TLS between client and origin for `workload` in this arm; plain where `None`.
    #[must_use]
    pub fn tls(&self, workload: &Workload) -> Option<Tls> {
        self.tls.or(workload.tls)
    }

    /// The client program for `workload` in this arm; the built-in client where `None`.
    #[must_use]
    pub fn command<'a>(&'a self, workload: &'a Workload) -> Option<&'a str> {
        self.command.as_deref().or(workload.command.as_deref())
    }
}

// === impl Route ===

impl Route {
    /// Names of relays, from the client to the origin; empty where there is none between them.
    #[must_use]
    pub fn hops(&self) -> &[String] {
        &self.0
    }

    /// The relay that the client connects to.
    #[must_use]
    pub fn first(&self) -> Option<&str> {
        self.0.first().map(String::as_str)
    }

    /// Whether clients reach the origin without a relay.
    #[must_use]
    pub fn is_direct(&self) -> bool {
        self.0.is_empty()
    }
}

impl<S: Into<String>> FromIterator<S> for Route {
    fn from_iter<I: IntoIterator<Item = S>>(hops: I) -> Self {
        Self(hops.into_iter().map(Into::into).collect())
    }
}

impl<'de> Deserialize<'de> for Route {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct NameOrNames;
        impl<'de> Visitor<'de> for NameOrNames {
            type Value = Route;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a relay's name, or a list of them such as [\"near\", \"far\"]")
            }

            fn visit_str<E: serde::de::Error>(self, name: &str) -> Result<Route, E> {
                Ok(Route(vec![name.to_owned()]))
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut names: A) -> Result<Route, A::Error> {
                let mut hops = Vec::new();
                while let Some(name) = names.next_element()? {
                    hops.push(name);
                }
                Ok(Route(hops))
            }
        }
        deserializer.deserialize_any(NameOrNames)
    }
}
