//! All benches of a scenario, alive at once.

use std::collections::BTreeMap;
use std::path::PathBuf;

use record::explain::Document;
use record::lab::Priming;
use scenario::Scenario;

use super::explain;
use super::plan::Plan;
use super::{Bench, BenchError};
use crate::experiment::apparatus::{Apparatus, Task, Trial};
use crate::experiment::{Options, slug};
use crate::probe::{Depth, PathReading};

/// The benches of a scenario, by arm.
#[derive(Debug)]
pub(crate) struct Benches {
    all: Vec<Bench>,
    /// The bench of each arm.
    of_arm: Vec<usize>,
    /// The route of each arm, and the relay that is not primed.
    routes: Vec<(String, Vec<String>, Vec<String>)>,
    binary: PathBuf,
}

// === impl Benches ===

impl Benches {
    /// Builds a bench for every set of arms with the same hosts, ready for transfers.
    pub(crate) fn build(scenario: &Scenario, options: &Options) -> Result<Self, BenchError> {
        let plans = Plan::of(scenario);
        let mut of_arm = vec![0; scenario.arms.len()];
        let mut benches = Vec::new();
        for (number, plan) in plans.into_iter().enumerate() {
            for arm in &plan.arms {
                of_arm[*arm] = number;
            }
            // The first has the plain names of files.
            let first = plan.arms.first().filter(|_| number > 0);
            let name = first.map_or_else(String::new, |arm| slug(&scenario.arms[*arm].name));
            benches.push(Bench::build(scenario, plan, options, &name)?);
        }
        let routes = scenario.arms.iter().map(|arm| {
            let unprimed = arm.unprimed.iter().cloned().collect();
            (arm.name.clone(), arm.relay.hops().to_vec(), unprimed)
        });
        Ok(Self {
            all: benches,
            of_arm,
            routes: routes.collect(),
            binary: options.binary.clone(),
        })
    }

    /// Names of all hosts, as `lab shell` takes them.
    pub(crate) fn hosts(&self) -> Vec<String> {
        self.all.iter().flat_map(Bench::hosts).collect()
    }

    /// An error with its last words where a process of the network has ended.
    pub(crate) fn expect_all_alive(&mut self) -> Result<(), BenchError> {
        for bench in &mut self.all {
            bench.expect_all_alive()?;
        }
        Ok(())
    }

    fn bench(&mut self, arm: usize) -> &mut Bench {
        &mut self.all[self.of_arm[arm]]
    }
}

impl Apparatus for Benches {
    fn networks(&self) -> Vec<usize> {
        (0..self.all.len())
            .filter_map(|bench| self.of_arm.iter().position(|of_arm| *of_arm == bench))
            .collect()
    }

    fn start_relays(&mut self, arm: usize) -> Result<Vec<Priming>, BenchError> {
        let (name, route, _) = self.routes[arm].clone();
        self.bench(arm).start_route(&route, &name)
    }

    fn stop_relays(&mut self) -> Result<(), BenchError> {
        self.all.iter_mut().try_for_each(Bench::stop_relays)
    }

    fn perform(&mut self, task: &Task<'_>) -> Result<Trial, BenchError> {
        let (_, route, _) = self.routes[task.arm].clone();
        self.bench(task.arm).perform(task, &route)
    }

    fn perform_unprimed(
        &mut self,
        arm: usize,
        workload: usize,
        name: &str,
    ) -> Result<Trial, BenchError> {
        let (arm_name, _, route) = self.routes[arm].clone();
        let bench = self.bench(arm);
        bench.start_route(&route, &arm_name)?;
        let task = Task {
            arm,
            workload,
            transfers: 1,
            warm_up: 0,
            name,
        };
        let trial = bench.perform(&task, &route)?;
        bench.stop_first(&route)?;
        Ok(trial)
    }

    fn check_path(&mut self, arm: usize, depth: Depth) -> Result<PathReading, BenchError> {
        self.bench(arm).check_path(depth)
    }

    fn explain(&self, captures: &[PathBuf], series: bool) -> Result<Document, BenchError> {
        explain::explain(&self.binary, captures, series).map_err(BenchError::Explain)
    }

    fn facts(&mut self) -> Result<BTreeMap<String, String>, BenchError> {
        let mut facts = BTreeMap::new();
        for (number, bench) in self.all.iter_mut().enumerate() {
            for (name, value) in bench.facts()? {
                let name = match number {
                    0 => name,
                    _ => format!("network {}: {name}", number + 1),
                };
                facts.insert(name, value);
            }
        }
        Ok(facts)
    }

    fn unpunctual(&self) -> Option<&str> {
        self.all
            .iter()
            .find_map(|bench| bench.unpunctual.as_deref())
    }
}
