//! What a scenario may ask for and real kernels here can't play.

use scenario::{Kind, Problem, RelayMode, Scenario, Stack};

/// All of it, with fields as paths in the file; empty for what can be run.
pub(super) fn problems(scenario: &Scenario) -> Vec<Problem> {
    let mut problems = Vec::new();
    let mut refuse = |field: String, message: &str| {
        problems.push(Problem {
            field,
            message: message.to_owned(),
        });
    };
    let of_scenario = scenario
        .hosts
        .iter()
        .map(|(name, host)| (format!("hosts.{name}"), host));
    let of_arms = scenario.arms.iter().enumerate().flat_map(|(index, arm)| {
        let hosts = arm.hosts.iter();
        hosts.map(move |(name, host)| (format!("arms[{index}].hosts.{name}"), host))
    });
    for (field, host) in of_scenario.chain(of_arms) {
        if host.stack() == Stack::Longhaul {
            let message = "the lab can't play hosts with our own TCP; `simulate` can";
            refuse(format!("{field}.stack"), message);
        }
    }
    for (name, relay) in &scenario.relays {
        if relay.mode == RelayMode::Tls && relay.command.is_none() {
            let message = "the lab can't play relays that end TLS; use `mode = \"tcp\"`";
            refuse(format!("relays.{name}.mode"), message);
        }
        if relay.congestion_control.is_some() && relay.command.is_none() {
            let message = "our relay sets it by its profile: set `server-profile`, or a `command`";
            refuse(format!("relays.{name}.congestion-control"), message);
        }
    }
    for (index, workload) in scenario.workloads.iter().enumerate() {
        if workload.kind == Kind::Exchange && workload.idle.is_some() {
            let message = "the lab's exchanges follow each other at once";
            refuse(format!("workloads[{index}].idle"), message);
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
            [relays.ends]
            mode = "tls"
            [relays.plain]
            [[workloads]]
            name = "asks"
            kind = "exchange"
            idle = "1 s"
            [[workloads]]
            name = "any"
            kind = "command"
            [[arms]]
            name = "direct"
            hosts.origin.stack = "longhaul"
            "#,
        )
        .unwrap();
        let fields: Vec<String> = problems(&scenario)
            .into_iter()
            .map(|problem| problem.field)
            .collect();
        assert_eq!(
            fields,
            [
                "hosts.client.stack",
                "arms[0].hosts.origin.stack",
                "relays.ends.mode",
                "workloads[0].idle",
                "workloads[1].command",
            ]
        );
    }
}
