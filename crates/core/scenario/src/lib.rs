//! What an experiment is: a path, the hosts at its ends, relays beside them, workloads, and the arms
//! that are compared. One description for the lab (real kernels) and for the simulator (virtual time).
//!
//! The types are what a scenario file says, with units in their text form. Reading TOML is the caller's
//! business; [`Scenario::problems`] then finds everything that is wrong between fields, all at once.
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

mod assertion;
mod path;

use std::collections::{BTreeMap, BTreeSet};

use serde::Deserialize;
use units::{Bytes, Floor, PacketOverhead, Span};

pub use assertion::{Assertion, Comparison, ParseAssertionError, Quantity, Statistic};
pub use path::Path;

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

/// The hosts of a scenario.
#[derive(Clone, Copy, Debug, Deserialize, Eq, Ord, PartialEq, PartialOrd)]
#[serde(rename_all = "kebab-case")]
pub enum HostName {
    /// Where the client program runs.
    Client,
    /// Where relays run, on the client's LAN.
    Relay,
    /// The far end.
    Origin,
}

impl HostName {
    /// The name as scenario files write it.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Client => "client",
            Self::Relay => "relay",
            Self::Origin => "origin",
        }
    }
}

/// Settings of one host.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Host {
    /// Congestion control of its default route; the kernel's default where absent.
    pub congestion_control: Option<String>,
    /// sysctls of its namespace, such as `"net.ipv4.tcp_slow_start_after_idle" = "0"`.
    #[serde(default)]
    pub sysctls: BTreeMap<String, String>,
}

/// The server.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
pub struct Origin {
    /// The endpoint's name. Clients keep using it in every arm: only what it resolves to changes.
    pub name: String,
    /// TCP port of its plain-HTTP endpoint.
    pub port: u16,
}

impl Default for Origin {
    fn default() -> Self {
        Self {
            name: "storage.example".to_owned(),
            port: 80,
        }
    }
}

/// A relay beside the client.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
pub struct Relay {
    /// Connections to the origin kept ready.
    pub pool_min_idle: u32,
    /// Whether they are primed ahead of use (cwnd and the origin's window grown).
    pub prime: bool,
    /// What a primed connection must hold in one flight; the relay's default where absent.
    pub hot_window: Option<Bytes>,
    /// Whether the relay is told the path's rate, so that it can pace at it.
    pub knows_path_rate: bool,
}

impl Default for Relay {
    fn default() -> Self {
        Self {
            pool_min_idle: 2,
            prime: true,
            hot_window: None,
            knows_path_rate: true,
        }
    }
}

/// A fixed-size upload: one object, one request.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Workload {
    /// Its name in tables.
    pub name: String,
    /// Payload bytes per transfer.
    pub bytes: Bytes,
    /// What the field report measured, by arm.
    #[serde(default)]
    pub reported: BTreeMap<String, Vec<Span>>,
    /// What must hold at the end, such as `max(relay) <= 1.15 * floor`.
    #[serde(default, rename = "assert")]
    pub assertions: Vec<Assertion>,
}

impl Workload {
    /// The time below which no upload of this size can come on `path`: one round trip (the last byte's
    /// way there and the answer's way back) and its IP bytes at the path's rate. Headers of the request
    /// above TCP are left out, which makes the floor a little lower than any client can reach.
    #[must_use]
    pub fn floor(&self, path: &Path) -> Option<Floor> {
        let ip_bytes = PacketOverhead::IPV4_TIMESTAMPS.ip_bytes(self.bytes);
        Floor::new(1, path.rtt.get(), ip_bytes, path.rate)
    }
}

/// One way of doing the workloads.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Arm {
    /// Its name: `direct`, `direct-reuse`, `relay`, `report`, or your own.
    pub name: String,
    /// The relay that the endpoint's name leads to; the origin itself where absent.
    pub relay: Option<String>,
    /// Whether the client keeps its connection for all transfers of a block.
    #[serde(default)]
    pub reuse: bool,
    /// A relay whose connections are made but not primed; one transfer of each size through it is
    /// reported beside this arm.
    pub unprimed: Option<String>,
}

/// Repetition and order.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
pub struct Experiment {
    /// Transfers per arm and workload.
    pub runs: u32,
    /// Consecutive transfers per block; arms change between blocks.
    pub block: u32,
    /// The arm that is captured and explained, and from which predictions are made before any block of
    /// `predicts` runs.
    pub explains: Option<String>,
    /// The arm that the prediction speaks of.
    pub predicts: Option<String>,
    /// The remedy, by its name in `explain`'s predictions, that the predicted arm applies.
    pub remedy: String,
}

impl Default for Experiment {
    fn default() -> Self {
        Self {
            runs: 20,
            block: 5,
            explains: None,
            predicts: None,
            remedy: "hot-pool".to_owned(),
        }
    }
}

impl Experiment {
    /// Why its runs do not divide into blocks, with the nearest numbers that do.
    fn problem_of_runs(&self) -> Option<String> {
        let Self { runs, block, .. } = *self;
        if block == 0 {
            return Some(
                "a block of 0 transfers measures nothing; set `experiment.block`".to_owned(),
            );
        }
        if runs == 0 {
            return Some(format!(
                "0 runs measure nothing; choose a multiple of {block}"
            ));
        }
        if runs.is_multiple_of(block) {
            return None;
        }
        let below = runs - runs % block;
        let nearest = match below {
            0 => block.to_string(),
            _ => format!("{below} or {}", below.saturating_add(block)),
        };
        Some(format!(
            "{runs} runs do not divide into blocks of {block}; choose {nearest}"
        ))
    }
}

/// One thing that is wrong with a scenario, and what to do.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Problem {
    /// The field, as a path in the file: `arms[2].relay`.
    pub field: String,
    /// What is wrong and what would be right.
    pub message: String,
}

impl std::fmt::Display for Problem {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "`{}`: {}", self.field, self.message)
    }
}

impl Scenario {
    /// Everything that is wrong between fields, in the order of the file; empty for a sound scenario.
    #[must_use]
    pub fn problems(&self) -> Vec<Problem> {
        let mut problems = Vec::new();
        let mut report = |field: String, message: String| problems.push(Problem { field, message });

        if self.name.is_empty()
            || !self
                .name
                .chars()
                .all(|c| c.is_alphanumeric() || "-_.".contains(c))
        {
            let message = "use letters, digits, `-`, `_` and `.`: results are named after it";
            report("name".to_owned(), message.to_owned());
        }
        for (field, message) in self.path.problems() {
            report(field, message);
        }
        if self.workloads.is_empty() {
            report(
                "workloads".to_owned(),
                "name at least one `[[workloads]]`".to_owned(),
            );
        }
        if self.arms.is_empty() {
            report("arms".to_owned(), "name at least one `[[arms]]`".to_owned());
        }
        let experiment = &self.experiment;
        if let Some(message) = experiment.problem_of_runs() {
            report("experiment.runs".to_owned(), message);
        }

        let arms: BTreeSet<&str> = self.arms.iter().map(|arm| arm.name.as_str()).collect();
        if arms.len() < self.arms.len() {
            report("arms".to_owned(), "two arms have the same name".to_owned());
        }
        for (index, arm) in self.arms.iter().enumerate() {
            for (field, relay) in [("relay", &arm.relay), ("unprimed", &arm.unprimed)] {
                if let Some(relay) = relay
                    && !self.relays.contains_key(relay)
                {
                    let known: Vec<&str> = self.relays.keys().map(String::as_str).collect();
                    let message = format!(
                        "there is no `[relays.{relay}]`; known relays: `{}`",
                        known.join("`, `")
                    );
                    report(format!("arms[{index}].{field}"), message);
                }
            }
        }
        for (field, arm) in [
            ("explains", &experiment.explains),
            ("predicts", &experiment.predicts),
        ] {
            if let Some(arm) = arm
                && !arms.contains(arm.as_str())
            {
                let message = format!(
                    "there is no arm `{arm}`; known arms: `{}`",
                    known_arms(&arms)
                );
                report(format!("experiment.{field}"), message);
            }
        }
        if experiment.predicts.is_some() && experiment.explains.is_none() {
            let message = "a prediction needs an arm to explain: set `explains` too";
            report("experiment.predicts".to_owned(), message.to_owned());
        }

        if experiment.predicts.is_some() && experiment.predicts == experiment.explains {
            let message = "an arm can't be predicted from its own captures: name another one";
            report("experiment.predicts".to_owned(), message.to_owned());
        }

        problems.extend(self.problems_of_workloads(&arms));
        problems
    }

    fn problems_of_workloads(&self, arms: &BTreeSet<&str>) -> Vec<Problem> {
        let mut problems = Vec::new();
        let mut report = |field: String, message: String| problems.push(Problem { field, message });
        let mut names = BTreeSet::new();
        for (index, workload) in self.workloads.iter().enumerate() {
            if !names.insert(&workload.name) {
                let message = format!("two workloads are called `{}`", workload.name);
                report(format!("workloads[{index}].name"), message);
            }
            if workload.bytes == Bytes::ZERO || workload.bytes > Bytes::mib(1024) {
                let message = format!("{} is outside 1 B to 1 GiB", workload.bytes);
                report(format!("workloads[{index}].bytes"), message);
            }
            let asserted = workload.assertions.iter().flat_map(Assertion::arms);
            for arm in asserted.chain(workload.reported.keys().map(String::as_str)) {
                if !arms.contains(arm) {
                    let message = format!(
                        "there is no arm `{arm}`; known arms: `{}`",
                        known_arms(arms)
                    );
                    report(format!("workloads[{index}]"), message);
                }
            }
            for assertion in &workload.assertions {
                let (statistic, arm) = &assertion.left;
                if *statistic == Statistic::PredictionError
                    && self.experiment.predicts.as_ref() != Some(arm)
                {
                    let message = format!(
                        "`{assertion}` needs a prediction: set `experiment.predicts = \"{arm}\"`"
                    );
                    report(format!("workloads[{index}].assert"), message);
                }
            }
        }
        problems
    }
}

fn known_arms(arms: &BTreeSet<&str>) -> String {
    arms.iter().copied().collect::<Vec<_>>().join("`, `")
}

#[cfg(test)]
mod tests;
