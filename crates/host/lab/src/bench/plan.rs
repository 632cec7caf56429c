//! What a scenario needs, decided before anything is built: which arms can share a bench, and which relays
//! stand on it.

use std::collections::{BTreeMap, BTreeSet};

use scenario::{Host, HostName, Scenario, Site};

/// The arms that one bench serves, and what has to be on it.
#[derive(Clone, Debug)]
pub(super) struct Plan {
    /// Indices of the scenario's arms.
    pub(super) arms: BTreeSet<usize>,
    /// Settings that all these arms have in common.
    pub(super) hosts: BTreeMap<HostName, Host>,
    /// Every relay with what lies behind it.
    pub(super) hops: Vec<Hop>,
    /// Whether hosts for rival flows are needed.
    pub(super) rivals: bool,
    /// Whether anything but the origin lives at the far end. Where nothing does, the origin holds the end
    /// of the WAN itself.
    pub(super) far_lan: bool,
}

/// A relay on its way to the origin. One that is used with two different continuations runs twice.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) struct Hop {
    /// Its name in the scenario.
    pub(super) relay: String,
    /// The relays behind it.
    pub(super) behind: Vec<String>,
    /// On whose LAN it stands.
    pub(super) site: Site,
}

// === impl Plan ===

impl Plan {
    /// One plan per set of arms whose hosts are alike, in the order of their first arms.
    pub(super) fn of(scenario: &Scenario) -> Vec<Self> {
        let rivals = scenario
            .workloads
            .iter()
            .any(|workload| !workload.rivals.is_empty());
        let mut plans: Vec<Self> = Vec::new();
        for (index, arm) in scenario.arms.iter().enumerate() {
            let hosts = scenario.for_arm(index);
            let known = plans.iter().position(|plan| plan.hosts == hosts);
            let number = known.unwrap_or_else(|| {
                plans.push(Self {
                    arms: BTreeSet::new(),
                    hosts,
                    hops: Vec::new(),
                    rivals,
                    far_lan: false,
                });
                plans.len() - 1
            });
            let plan = &mut plans[number];
            plan.arms.insert(index);
            plan.add_route(scenario, arm.relay.hops());
            if let Some(unprimed) = &arm.unprimed {
                plan.add_route(scenario, std::slice::from_ref(unprimed));
            }
        }
        // The same for all benches, so that arms on different ones are compared on the same path.
        let far = |plan: &Self| plan.hops.iter().any(|hop| hop.site == Site::Far);
        let far_lan = rivals || plans.iter().any(far);
        for plan in &mut plans {
            plan.far_lan = far_lan;
        }
        plans
    }

    fn add_route(&mut self, scenario: &Scenario, route: &[String]) {
        for (index, relay) in route.iter().enumerate() {
            let behind = &route[index + 1..];
            if self.hop(relay, behind).is_none() {
                self.hops.push(Hop {
                    relay: relay.clone(),
                    behind: behind.to_vec(),
                    site: scenario
                        .relays
                        .get(relay)
                        .map_or(Site::Near, |spec| spec.at),
                });
            }
        }
    }

    /// The number of `relay` with `behind` after it.
    pub(super) fn hop(&self, relay: &str, behind: &[String]) -> Option<usize> {
        self.hops
            .iter()
            .position(|hop| hop.relay == relay && hop.behind == behind)
    }

    /// The numbers of a route's hops, from the client on.
    pub(super) fn route(&self, route: &[String]) -> Vec<usize> {
        (0..route.len())
            .filter_map(|index| self.hop(&route[index], &route[index + 1..]))
            .collect()
    }

    /// Settings of a host; the kernel's defaults where the scenario says nothing.
    pub(super) fn host(&self, name: HostName) -> Host {
        self.hosts.get(&name).cloned().unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scenario(arms: &str) -> Scenario {
        let head = r#"
            name = "s"
            seed = 1
            [path]
            rtt = "20 ms"
            rate = "100 Mbit/s"
            queue = "100 kB"
            [relays.near]
            [relays.far]
            at = "far"
            mode = "tcp"
            [[workloads]]
            name = "small"
            bytes = "100 KiB"
            "#;
        toml::from_str(&format!("{head}{arms}")).unwrap()
    }

    #[test]
    fn arms_with_equal_hosts_share_a_bench_and_others_do_not() {
        let plans = Plan::of(&scenario(
            r#"
            [[arms]]
            name = "a"
            [[arms]]
            name = "b"
            hosts.client.congestion-control = "bbr"
            [[arms]]
            name = "c"
            hosts.client = {}
            "#,
        ));
        let arms: Vec<Vec<usize>> = plans
            .iter()
            .map(|plan| plan.arms.iter().copied().collect())
            .collect();
        assert_eq!(arms, [vec![0, 2], vec![1]]);
        assert!(plans.iter().all(|plan| !plan.far_lan));
        let client = plans[1].host(HostName::Client);
        assert_eq!(client.congestion_control.as_deref(), Some("bbr"));
    }

    #[test]
    fn a_relay_runs_once_for_each_way_behind_it() {
        let plans = Plan::of(&scenario(
            r#"
            [[arms]]
            name = "near"
            relay = "near"
            [[arms]]
            name = "pair"
            relay = ["near", "far"]
            [[arms]]
            name = "pair-again"
            relay = ["near", "far"]
            reuse = true
            [[arms]]
            name = "far"
            relay = "far"
            "#,
        ));
        let [plan] = plans.as_slice() else {
            panic!("{plans:#?}");
        };
        assert!(plan.far_lan);
        assert_eq!(plan.hops.len(), 3, "{:#?}", plan.hops);
        let pair = ["near".to_owned(), "far".to_owned()];
        assert_eq!(plan.route(&pair), [1, 2]);
        assert_eq!(plan.route(&pair[..1]), [0]);
        assert_eq!(plan.route(&pair[1..]), [2]);
    }
}
