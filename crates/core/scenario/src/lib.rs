//! What an experiment is: a path, the hosts at its ends, relays beside them, workloads, and the arms
//! that are compared. One description for the lab (real kernels) and for the simulator (virtual time).
//!
//! The types are what a scenario file says, with units in their text form. [`read`] takes a file apart:
//! every combination of its factors, with everything that is wrong in any of them, all at once.
//!
//! ```toml
//! name = "c-uploads"
//! seed = 7
//! [path]
//! rtt = "200.4 ms"
//! rate = "100 Mbit/s"
//! queue = "2500 kB"
//! [[workloads]]
//! name = "100 KiB"
//! bytes = "100 KiB"
//! assert = ["max(relay) <= 1.15 * floor"]
//! [[arms]]
//! name = "direct"
//! [[arms]]
//! name = "relay"
//! relay = "hot"
//! [relays.hot]
//! ```

mod arm;
mod assertion;
mod experiment;
mod file;
mod host;
pub mod networks;
mod path;
mod problems;
mod relay;
mod template;
mod workload;

use std::collections::BTreeMap;

use serde::Deserialize;

pub use arm::{Arm, Route};
pub use assertion::{
    Assertion, Comparison, Dimension, Ground, ParseAssertionError, Quantity, Statistic,
};
pub use experiment::{Capture, Experiment, Share};
pub use file::{FileError, Variant, expand, read, read_for};
pub use host::{Host, HostName, Stack, TcpKnobs, Threshold};
pub use path::{
    CoDelSetting, DisciplineSetting, IpVersion, JitterSetting, LossSetting, OrderSetting,
    OutageSetting, Path, PolicerSetting, QueueSize, RedSetting, ReorderSetting, Scheduled,
    TraceFile, Way, WayName,
};
pub use problems::Problem;
pub use relay::{Expect, Preferences, Relay, RelayMode, Site};
pub use template::Template;
pub use workload::{Flow, Kind, ReadPause, Reported, Rival, Tls, Workload};

/// A whole scenario.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Scenario {
    /// Its name, as results carry it.
    pub name: String,
    /// One line for people.
    #[serde(default)]
    pub title: String,
    /// What it reproduces, what was assumed, what can't be right in its source.
    #[serde(default)]
    pub description: String,
    /// Seed of everything random: the order of blocks, losses, contents of objects.
    pub seed: u64,
    /// The path between site and origin.
    pub path: Path,
    /// Settings of hosts that depart from the kernel's defaults.
    #[serde(default)]
    pub hosts: BTreeMap<HostName, Host>,
    /// The server.
    #[serde(default)]
    pub origin: Origin,
    /// Relays by name.
    #[serde(default)]
    pub relays: BTreeMap<String, Relay>,
    /// What is transferred.
    pub workloads: Vec<Workload>,
    /// The ways that are compared.
    pub arms: Vec<Arm>,
    /// How often and in what order.
    #[serde(default)]
    pub experiment: Experiment,
}

/// The server.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
pub struct Origin {
    /// The endpoint's name. Clients keep using it in every arm: only what it resolves to changes.
    pub name: String,
    /// TCP port of its plain-HTTP endpoint.
    pub port: u16,
    /// TCP port of its TLS endpoint; see [`Origin::tls_port`].
    pub tls_port: Option<u16>,
}

// === impl Scenario ===

impl Scenario {
    /// Puts `program` in the place of the built-in client, for every upload. What the scenario says in seconds or
    /// as a rate is about its own client and goes: reported figures, and assertions that compare with nothing of
    /// the same run.
    pub fn upload_by(&mut self, program: &str) {
        for workload in &mut self.workloads {
            if workload.kind == Kind::Upload {
                workload.command = Some(program.to_owned());
                workload.reported.clear();
                workload
                    .assertions
                    .retain(|assertion| !assertion.is_absolute());
            }
        }
    }

    /// The hosts as `arm` (an index of [`Scenario::arms`]) has them: all of them, its own settings field
    /// by field over the scenario's. Arms with equal hosts can share one network.
    #[must_use]
    pub fn for_arm(&self, arm: usize) -> BTreeMap<HostName, Host> {
        let own = self.arms.get(arm).map(|arm| &arm.hosts);
        let merged = HostName::ALL.into_iter().map(|name| {
            let base = self.hosts.get(&name).cloned().unwrap_or_default();
            let host = match own.and_then(|own| own.get(&name)) {
                Some(own) => own.over(&base),
                None => base,
            };
            (name, host)
        });
        merged.collect()
    }
}

// === impl Origin ===

impl Default for Origin {
    fn default() -> Self {
        Self {
            name: "storage.example".to_owned(),
            port: 80,
            tls_port: None,
        }
    }
}

impl Origin {
    /// TCP port of its TLS endpoint: 443 where the file says nothing.
    #[must_use]
    pub fn tls_port(&self) -> u16 {
        self.tls_port.unwrap_or(443)
    }
}

#[cfg(test)]
mod tests;
