//! The smallest experiment: single uploads over plain HTTP, through one near HTTP relay at most.

use crate::problems::{Problem, Problems};
use crate::{Capture, Host, Kind, RelayMode, Scenario, Site, Stack, TcpKnobs, Workload};

impl Scenario {
    /// Everything in it that goes beyond single uploads, as problems of whoever can do no more; `who`
    /// begins a sentence, such as `the lab`.
    #[must_use]
    pub fn beyond_plain_uploads(&self, who: &str) -> Vec<Problem> {
        let mut problems = Problems::default();
        let mut refuse = |field: String, found: bool, what: &str| {
            if found {
                problems.add(field, format!("{who} can't play {what}"));
            }
        };
        for (name, host) in &self.hosts {
            refuse(
                format!("hosts.{name}"),
                beyond(host),
                "profiles, stacks and single TCP knobs",
            );
        }
        for (name, relay) in &self.relays {
            let plain = relay.mode == RelayMode::Http
                && relay.at == Site::Near
                && relay.client_profile.is_none()
                && relay.server_profile.is_none()
                && relay.congestion_control.is_none()
                && relay.command.is_none();
            refuse(
                format!("relays.{name}"),
                !plain,
                "relays other than near ones for HTTP",
            );
        }
        for (index, workload) in self.workloads.iter().enumerate() {
            let what = "anything but uploads of one object on one connection";
            refuse(format!("workloads[{index}]"), !is_plain(workload), what);
        }
        for (index, arm) in self.arms.iter().enumerate() {
            let field = format!("arms[{index}]");
            refuse(
                field.clone(),
                arm.relay.hops().len() > 1,
                "several relays in a row",
            );
            let own = arm.parallel.is_some_and(|parallel| parallel != 1)
                || arm.tls.is_some()
                || arm.command.is_some()
                || !arm.hosts.is_empty();
            refuse(
                field,
                own,
                "arms with hosts, TLS, connections or programs of their own",
            );
        }
        let experiment = &self.experiment;
        let counts = experiment.warm_up > 0 || experiment.precision.is_some();
        refuse(
            "experiment".to_owned(),
            counts,
            "warm-up and a number of runs by precision",
        );
        let capture = experiment.capture != Capture::Client;
        refuse(
            "experiment.capture".to_owned(),
            capture,
            "captures other than the client's",
        );
        problems.0
    }
}

fn beyond(host: &Host) -> bool {
    host.profile.is_some() || host.stack() == Stack::Longhaul || host.tcp != TcpKnobs::default()
}

fn is_plain(workload: &Workload) -> bool {
    workload.kind == Kind::Upload
        && workload.sizes.is_empty()
        && workload.parallel() == 1
        && workload.part.is_none()
        && workload.tls.is_none()
        && workload.command.is_none()
        && workload.rivals.is_empty()
}
