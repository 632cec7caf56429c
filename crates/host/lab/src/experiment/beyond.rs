//! What a scenario may ask for and real kernels here can't play.

use scenario::{HostName, IpVersion, Kind, Problem, RelayMode, Scenario, Stack};

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
    if has_own_tcp && scenario.path.ip == IpVersion::V6 {
        let message = "our own TCP speaks IPv4 in the lab: over IPv6 neighbour discovery would cost its first \
                       handshake two seconds";
        refuse("path.ip".to_owned(), message);
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
            ip = "v6"
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
            hosts.rival = { stack = "longhaul", profile = "wan" }
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
                "arms[0].hosts.rival.stack",
                "hosts.rival.profile",
                "path.ip",
                "relays.ends.mode",
                "workloads[0].idle",
                "workloads[1].kind",
                "workloads[1].command",
            ]
        );
    }
}
