//! What a scenario may ask for and real kernels here can't play.

use link::{BeyondNetem, Direction};
use scenario::{HostName, Kind, Problem, Scenario, Stack};

use crate::experiment::Backend;

/// All that a scenario asks for and real kernels here can't play, with fields as paths in the file; empty for
/// what can be run.
#[must_use]
pub fn problems(scenario: &Scenario, backend: Backend) -> Vec<Problem> {
    let mut problems = match backend {
        Backend::Ours => Vec::new(),
        Backend::Netem => beyond_netem(scenario),
    };
    let mut refuse = |field: String, message: &str| {
        problems.push(Problem {
            field,
            message: message.to_owned(),
        });
    };
    let of_scenario = scenario
        .hosts
        .iter()
        .map(|(name, host)| (format!("hosts.{name}"), *name, host));
    let of_arms = scenario.arms.iter().enumerate().flat_map(|(index, arm)| {
        let hosts = arm.hosts.iter();
        hosts.map(move |(name, host)| (format!("arms[{index}].hosts.{name}"), *name, host))
    });
    for (field, name, host) in of_scenario.chain(of_arms) {
        let is_end = matches!(name, HostName::Client | HostName::Origin);
        if host.stack() == Stack::Longhaul && !is_end {
            let message = "in the lab only the client and the origin can speak our own TCP";
            refuse(format!("{field}.stack"), message);
        }
    }
    for arm in 0..scenario.arms.len() {
        for (name, host) in scenario.for_arm(arm) {
            if host.stack() == Stack::Longhaul && host.profile.is_some() {
                let message = "profiles are for sockets of a kernel; our own TCP has `tcp`";
                refuse(format!("hosts.{name}.profile"), message);
            }
        }
    }
    let has_own_tcp = (0..scenario.arms.len()).any(|arm| !scenario.userspace_hosts(arm).is_empty());
    for (index, workload) in scenario.workloads.iter().enumerate() {
        let by_flow = matches!(workload.kind, Kind::Stream | Kind::Exchange | Kind::Burst);
        let any_program =
            workload.command.is_some() || scenario.arms.iter().any(|arm| arm.command.is_some());
        if has_own_tcp && (!by_flow || any_program) {
            let message =
                "our own TCP carries streams, exchanges and bursts in the lab, nothing else";
            refuse(format!("workloads[{index}].kind"), message);
        }
        let has_program =
            workload.command.is_some() || scenario.arms.iter().all(|arm| arm.command.is_some());
        if workload.kind == Kind::Command && !has_program {
            let message = "name the program: `command`, here or in every arm";
            refuse(format!("workloads[{index}].command"), message);
        }
    }
    problems
}

/// What of the path netem can't play, at the path where both directions have it.
fn beyond_netem(scenario: &Scenario) -> Vec<Problem> {
    let spec = scenario.path.spec(scenario.seed);
    let [forward, backward] = Direction::BOTH.map(|direction| {
        let lines = spec.direction(direction).netem("wan0");
        lines.err().unwrap_or_default()
    });
    let named = |one: &BeyondNetem, parent: &str| Problem {
        field: format!("path.{parent}{}", one.setting),
        message: format!("not with netem: {}", one.why),
    };
    let of_forward = forward.iter().map(|one| {
        let parent = if backward.contains(one) {
            ""
        } else {
            "forward."
        };
        named(one, parent)
    });
    let only_backward = backward.iter().filter(|one| !forward.contains(one));
    of_forward
        .chain(only_backward.map(|one| named(one, "backward.")))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everything_that_cannot_be_played_is_named_at_once() {
        let scenario: Scenario = toml::from_str(
            r#"
            name = "s"
            seed = 1
            [path]
            rtt = "20 ms"
            rate = "100 Mbit/s"
            queue = "100 kB"
            [hosts.client]
            stack = "longhaul"
            [[workloads]]
            name = "asks"
            kind = "download"
            bytes = "1 kB"
            [[workloads]]
            name = "any"
            kind = "command"
            [[arms]]
            name = "direct"
            hosts.rival = { stack = "longhaul", profile = "wan" }
            "#,
        )
        .unwrap();
        let fields: Vec<String> = problems(&scenario, Backend::Ours)
            .into_iter()
            .map(|problem| problem.field)
            .collect();
        assert_eq!(
            fields,
            [
                "arms[0].hosts.rival.stack",
                "hosts.rival.profile",
                "workloads[0].kind",
                "workloads[1].kind",
                "workloads[1].command",
            ]
        );
    }

    #[test]
    fn netem_is_asked_for_what_it_has() {
        let of = |path: &str| -> Vec<String> {
            let text = format!(
                "name = \"s\"\nseed = 1\n[path]\nrtt = \"20 ms\"\nrate = \"10 Mbit/s\"\n{path}\n\
                 [[workloads]]\nname = \"w\"\nbytes = \"1 kB\"\n[[arms]]\nname = \"direct\""
            );
            let scenario: Scenario = toml::from_str(&text).unwrap();
            assert_eq!(problems(&scenario, Backend::Ours), []);
            let found = problems(&scenario, Backend::Netem).into_iter();
            found.map(|problem| problem.field).collect()
        };
        assert_eq!(of("queue = \"100 kB\"\nloss = \"1 %\""), [""; 0]);
        assert_eq!(
            of("queue = \"50 packets\"\n[path.backward]\nloss = { every = 100 }"),
            ["path.queue", "path.backward.loss"]
        );
    }
}
