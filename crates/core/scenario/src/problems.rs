//! Everything that is wrong between the fields of a scenario, found at once.

use std::collections::BTreeSet;
use std::fmt;

use crate::workload::MOST_CONNECTIONS;
use crate::{
    Arm, Assertion, HostName, Kind, RelayMode, Scenario, Site, Stack, Statistic, Workload,
};

/// One thing that is wrong with a scenario, and what to do.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Problem {
    /// The field, as a path in the file: `arms[2].relay`.
    pub field: String,
    /// What is wrong and what would be right.
    pub message: String,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}`: {}", self.field, self.message)
    }
}

/// Problems in the order in which they are found.
#[derive(Default)]
pub(crate) struct Problems(pub(crate) Vec<Problem>);

impl Problems {
    pub(crate) fn add(&mut self, field: impl Into<String>, message: impl Into<String>) {
        self.0.push(Problem {
            field: field.into(),
            message: message.into(),
        });
    }

    fn below<F: AsRef<str>>(&mut self, parent: &str, found: Vec<(F, String)>) {
        for (field, message) in found {
            self.add(format!("{parent}.{}", field.as_ref()), message);
        }
    }
}

impl Scenario {
    /// Everything that is wrong between fields, in the order of the file; empty for a sound scenario.
    #[must_use]
    pub fn problems(&self) -> Vec<Problem> {
        let mut problems = Problems::default();
        let named = |c: char| c.is_alphanumeric() || "-_.".contains(c);
        if self.name.is_empty() || !self.name.chars().all(named) {
            let message = "use letters, digits, `-`, `_` and `.`: results are named after it";
            problems.add("name", message);
        }
        for (field, message) in self.path.problems() {
            problems.add(field, message);
        }
        for (name, host) in &self.hosts {
            problems.below(&format!("hosts.{name}"), host.problems());
        }
        if self.origin.tls_port == Some(self.origin.port) {
            problems.add("origin.tls-port", "plain HTTP has this port already");
        }
        for (name, relay) in &self.relays {
            problems.below(&format!("relays.{name}"), relay.problems());
        }
        if self.workloads.is_empty() {
            problems.add("workloads", "name at least one `[[workloads]]`");
        }
        if self.arms.is_empty() {
            problems.add("arms", "name at least one `[[arms]]`");
        }
        problems.below("experiment", self.experiment.problems());
        self.problems_of_arms(&mut problems);
        self.problems_of_prediction(&mut problems);
        self.problems_of_workloads(&mut problems);
        problems.0
    }

    fn arm_names(&self) -> BTreeSet<&str> {
        self.arms.iter().map(|arm| arm.name.as_str()).collect()
    }

    fn problems_of_arms(&self, problems: &mut Problems) {
        if self.arm_names().len() < self.arms.len() {
            problems.add("arms", "two arms have the same name");
        }
        for (index, arm) in self.arms.iter().enumerate() {
            let field = format!("arms[{index}]");
            self.problems_of_route(arm, &field, problems);
            if let Some(parallel) = arm.parallel
                && !(1..=MOST_CONNECTIONS).contains(&parallel)
            {
                problems.add(
                    format!("{field}.parallel"),
                    format!("{parallel} is outside 1 to {MOST_CONNECTIONS}"),
                );
            }
            let hosts = self.for_arm(index);
            for name in arm.hosts.keys() {
                problems.below(&format!("{field}.hosts.{name}"), hosts[name].problems());
            }
        }
    }

    fn problems_of_route(&self, arm: &Arm, field: &str, problems: &mut Problems) {
        let mut far = None;
        for (field, relay) in (arm.relay.hops().iter().map(|hop| ("relay", hop)))
            .chain(arm.unprimed.iter().map(|relay| ("unprimed", relay)))
            .map(|(below, relay)| (format!("{field}.{below}"), relay))
        {
            let Some(spec) = self.relays.get(relay) else {
                let known: Vec<&str> = self.relays.keys().map(String::as_str).collect();
                let message = format!(
                    "there is no `[relays.{relay}]`; known relays: `{}`",
                    known.join("`, `")
                );
                problems.add(field, message);
                continue;
            };
            if let Some(far) = far
                && spec.at == Site::Near
                && field.ends_with("relay")
            {
                let message = format!(
                    "`{relay}` is near and comes behind `{far}`, which is far: requests would cross \
                     the path twice"
                );
                problems.add(field, message);
            }
            if spec.at == Site::Far {
                far = Some(relay);
            }
        }
        let hops = arm.relay.hops();
        if hops.iter().collect::<BTreeSet<_>>().len() < hops.len() {
            problems.add(format!("{field}.relay"), "a relay stands in it twice");
        }
        let ends: Vec<Option<Site>> = hops
            .iter()
            .filter_map(|hop| self.relays.get(hop))
            .map(|relay| (relay.mode == RelayMode::Trunk).then_some(relay.at))
            .collect();
        let one_trunk = |ends: &[Option<Site>]| ends == [Some(Site::Near), Some(Site::Far)];
        if ends.iter().any(Option::is_some) && !one_trunk(&ends) {
            let message = "a trunk is two relays of `mode = \"trunk\"`, the first near, the second \
                           `at = \"far\"`, and no others";
            problems.add(format!("{field}.relay"), message);
        }
    }

    fn problems_of_prediction(&self, problems: &mut Problems) {
        let experiment = &self.experiment;
        let arms = self.arm_names();
        for (field, arm) in [
            ("explains", &experiment.explains),
            ("predicts", &experiment.predicts),
        ] {
            if let Some(arm) = arm
                && !arms.contains(arm.as_str())
            {
                problems.add(format!("experiment.{field}"), no_such_arm(arm, &arms));
            }
        }
        if experiment.predicts.is_some() && experiment.explains.is_none() {
            let message = "a prediction needs an arm to explain: set `explains` too";
            problems.add("experiment.predicts", message);
        }
        if experiment.predicts.is_some() && experiment.predicts == experiment.explains {
            let message = "an arm can't be predicted from its own captures: name another one";
            problems.add("experiment.predicts", message);
        }
    }

    fn problems_of_workloads(&self, problems: &mut Problems) {
        let arms = self.arm_names();
        let mut names = BTreeSet::new();
        for (index, workload) in self.workloads.iter().enumerate() {
            let field = format!("workloads[{index}]");
            if !names.insert(&workload.name) {
                let message = format!("two workloads are called `{}`", workload.name);
                problems.add(format!("{field}.name"), message);
            }
            problems.below(&field, workload.problems());
            self.problems_of_ways(workload.kind, &field, problems);
            self.problems_of_tls(workload, &field, problems);
            let asserted = workload.assertions.iter().flat_map(Assertion::arms);
            for arm in asserted.chain(workload.reported.keys().map(String::as_str)) {
                if !arms.contains(arm) {
                    problems.add(&field, no_such_arm(arm, &arms));
                }
            }
            for assertion in &workload.assertions {
                self.problems_of_assertion(index, assertion, problems);
            }
        }
    }

    /// What a workload of this kind can't do in some arm.
    fn problems_of_ways(&self, kind: Kind, field: &str, problems: &mut Problems) {
        if kind.is_object() || kind == Kind::Command {
            return;
        }
        for (index, arm) in self.arms.iter().enumerate() {
            for (mode, language) in [(RelayMode::Http, "HTTP"), (RelayMode::Tls, "TLS")] {
                if let Some(hop) = self.first_of_ours(arm, mode) {
                    let message = format!(
                        "`{kind}` speaks no {language}, and arm `{}` leads through `[relays.{hop}]`, which \
                         does: give that `mode = \"tcp\"`",
                        arm.name
                    );
                    problems.add(format!("{field}.kind"), message);
                }
            }
            if arm.tls.is_some() {
                let message = format!("`{kind}` has no TLS");
                problems.add(format!("arms[{index}].tls"), message);
            }
        }
    }

    /// Relays that an object's language does not suit.
    fn problems_of_tls(&self, workload: &Workload, field: &str, problems: &mut Problems) {
        if !workload.kind.is_object() {
            return;
        }
        for arm in &self.arms {
            let message = match arm.tls(workload) {
                None => self.first_of_ours(arm, RelayMode::Tls).map(|hop| {
                    format!("`[relays.{hop}]` ends TLS, and this is in the clear: set `tls`, here or there")
                }),
                Some(_) => self.first_of_ours(arm, RelayMode::Http).map(|hop| {
                    format!(
                        "`[relays.{hop}]` reads requests, which TLS hides: give it `mode = \"tls\"`, or \
                         `\"tcp\"`"
                    )
                }),
            };
            if let Some(message) = message {
                problems.add(field, format!("in arm `{}` {message}", arm.name));
            }
        }
    }

    /// The first relay of this mode on an arm's route that is our own program.
    fn first_of_ours<'a>(&'a self, arm: &'a Arm, mode: RelayMode) -> Option<&'a str> {
        let is_it = |hop: &&String| {
            let relay = self.relays.get(*hop);
            relay.is_some_and(|relay| relay.mode == mode && relay.command.is_none())
        };
        arm.relay.hops().iter().find(is_it).map(String::as_str)
    }

    fn problems_of_assertion(&self, index: usize, assertion: &Assertion, problems: &mut Problems) {
        let workload = &self.workloads[index];
        let field = format!("workloads[{index}].assert");
        for (statistic, arm) in assertion.statistics() {
            if statistic == Statistic::PredictionError
                && self.experiment.predicts.as_deref() != Some(arm)
            {
                let message = format!(
                    "`{assertion}` needs a prediction: set `experiment.predicts = \"{arm}\"`"
                );
                problems.add(&field, message);
            }
            if statistic == Statistic::Harm && workload.rivals.is_empty() {
                let message = format!("`{assertion}` needs somebody who is harmed: name `rivals`");
                problems.add(&field, message);
            }
            if statistic == Statistic::Steady && workload.kind != Kind::Stream {
                let message = format!("`{assertion}` needs `kind = \"stream\"`");
                problems.add(&field, message);
            }
            let flows: u32 = workload
                .rivals
                .iter()
                .fold(0, |sum, rival| sum.saturating_add(rival.count));
            let own = self.arms.iter().find(|spec| spec.name == arm);
            let own = own.map_or(1, |arm| arm.parallel(workload));
            if statistic == Statistic::Jain && own.saturating_add(flows) < 2 {
                let message = format!("`{assertion}` needs two flows: `parallel`, or `rivals`");
                problems.add(&field, message);
            }
        }
        if assertion.needs_floor() && workload.floor(&self.path).is_none() {
            let message = format!("`{assertion}`: what runs for a time has no floor");
            problems.add(&field, message);
        }
    }

    /// Hosts of `arm` that speak our own TCP.
    #[must_use]
    pub fn userspace_hosts(&self, arm: usize) -> Vec<HostName> {
        let hosts = self.for_arm(arm);
        let ours = hosts
            .into_iter()
            .filter(|(_, host)| host.stack() == Stack::Longhaul);
        ours.map(|(name, _)| name).collect()
    }
}

fn no_such_arm(arm: &str, arms: &BTreeSet<&str>) -> String {
    let known = arms.iter().copied().collect::<Vec<_>>().join("`, `");
    format!("there is no arm `{arm}`; known arms: `{known}`")
}
