//! What virtual time can't play, and why.

use scenario::{Arm, Assertion, Kind, RelayMode, Scenario, Statistic, Workload};

/// Why `workload` is left out in `arm`.
pub(crate) fn reason(scenario: &Scenario, arm: &Arm, workload: &Workload) -> Option<String> {
    if workload.kind == Kind::Command || arm.command(workload).is_some() {
        return Some("programs are not run in virtual time".to_owned());
    }
    let hops = arm.relay.hops().iter();
    for hop in hops {
        let relay = scenario.relays.get(hop)?;
        if relay.command.is_some() {
            return Some(format!("relay `{hop}` is a program, and those are not run"));
        }
        if relay.mode == RelayMode::Trunk {
            return Some(format!(
                "relay `{hop}` is an end of a trunk, whose protocol is not played"
            ));
        }
        if relay.mode == RelayMode::Http && arm.tls(workload).is_some() {
            return Some(format!("relay `{hop}` can't read requests inside of TLS"));
        }
    }
    None
}

/// The scenario less the assertions that have nothing to be checked against: those on predictions, for
/// here the simulation is the prediction, and those on arms that are left out.
pub(super) fn checkable(scenario: &Scenario) -> Scenario {
    let mut checkable = scenario.clone();
    for workload in &mut checkable.workloads {
        let left_out: Vec<&str> = scenario
            .arms
            .iter()
            .filter(|arm| reason(scenario, arm, workload).is_some())
            .map(|arm| arm.name.as_str())
            .collect();
        let keep = |assertion: &Assertion| {
            assertion.left.0 != Statistic::PredictionError
                && !assertion.arms().any(|arm| left_out.contains(&arm))
        };
        workload.assertions.retain(keep);
    }
    checkable
}
