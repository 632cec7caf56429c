//! From simulated transfers to the cells of the lab's document.

use std::collections::BTreeMap;
use std::time::Duration;

use record::LimitSeconds;
use record::lab::{Arm, Assertion, Cell, PathCheck};
use scenario::{Scenario, Statistic, Workload};

use crate::experiment::add_limits;
use crate::statistics::{median_interval, quantile};

/// The transfers of one arm and one workload.
#[derive(Clone, Debug, Default)]
pub(crate) struct Measured {
    pub(crate) seconds: Vec<f64>,
    positions: Vec<u32>,
    limits: LimitSeconds,
    failures: Vec<String>,
    pub(crate) first_unprimed_s: Option<f64>,
}

// === impl Measured ===

impl Measured {
    pub(crate) fn push(&mut self, position: u32, took: Duration, limits: &LimitSeconds) {
        self.seconds.push(took.as_secs_f64());
        self.positions.push(position);
        add_limits(&mut self.limits, limits);
    }

    pub(crate) fn fail(&mut self, why: String) {
        self.failures.push(why);
    }

    fn by_position(&self) -> Vec<f64> {
        let mut groups: BTreeMap<u32, Vec<f64>> = BTreeMap::new();
        for (position, seconds) in self.positions.iter().zip(&self.seconds) {
            groups.entry(*position).or_default().push(*seconds);
        }
        groups
            .values()
            .filter_map(|group| quantile(group, 0.5))
            .collect()
    }

    #[expect(
        clippy::cast_precision_loss,
        reason = "counts and sizes far below 2^52"
    )]
    fn arm(&self, name: &str, workload: &Workload, floor_s: f64, seed: u64) -> Arm {
        let median_s = quantile(&self.seconds, 0.5);
        let bits = (workload.bytes.get() * 8) as f64;
        let count = self.seconds.len().max(1) as f64;
        let reported = workload.reported.get(name).map_or(&[][..], Vec::as_slice);
        Arm {
            name: name.to_owned(),
            n: self.seconds.len() as u64,
            failed: self.failures.len() as u64,
            median_s,
            p05_s: quantile(&self.seconds, 0.05),
            p95_s: quantile(&self.seconds, 0.95),
            max_s: quantile(&self.seconds, 1.0),
            ci95_s: median_interval(&self.seconds, seed),
            goodput_bps: median_s.map(|median| bits / median),
            share_of_floor: median_s.map(|median| floor_s / median),
            limits: self
                .limits
                .iter()
                .map(|(limit, sum)| (*limit, sum / count))
                .collect(),
            samples_s: self.seconds.clone(),
            by_position_s: self.by_position(),
            reported_s: reported
                .iter()
                .map(|span| span.get().as_secs_f64())
                .collect(),
            first_unprimed_s: self.first_unprimed_s,
        }
    }
}

/// One cell per workload; `measured` by arm, then by workload.
pub(crate) fn cells(scenario: &Scenario, seed: u64, measured: &[Vec<Measured>]) -> Vec<Cell> {
    let cell = |(index, workload): (usize, &Workload)| {
        let floor = workload.floor(&scenario.path);
        let floor_s = floor.map_or(0.0, |floor| floor.total().as_secs_f64());
        let of_workload = || {
            let arms = scenario.arms.iter().zip(measured);
            arms.filter_map(move |(arm, cells)| Some((arm, cells.get(index)?)))
        };
        let arms: Vec<Arm> = of_workload()
            .map(|(arm, cell)| cell.arm(&arm.name, workload, floor_s, seed))
            .collect();
        let why = of_workload()
            .find_map(|(arm, cell)| Some(format!("{}: {}", arm.name, cell.failures.first()?)));
        Cell {
            workload: workload.name.clone(),
            bytes: workload.bytes.get(),
            factors: BTreeMap::new(),
            valid: why.is_none(),
            why,
            path: path_check(scenario),
            floor_s,
            floor_derivation: floor.map(|floor| floor.to_string()).unwrap_or_default(),
            arms,
            predictions: Vec::new(),
        }
    };
    scenario.workloads.iter().enumerate().map(cell).collect()
}

/// A simulated path is what was asked for; nothing has to be checked.
#[expect(clippy::cast_precision_loss, reason = "bits per second far below 2^52")]
fn path_check(scenario: &Scenario) -> PathCheck {
    let rtt = scenario.path.rtt.get().as_secs_f64();
    let rate = scenario.path.rate.bits_per_s() as f64;
    PathCheck {
        rtt_asked_s: rtt,
        rtt_achieved_s: Some(rtt),
        rate_asked_bps: rate,
        rate_achieved_bps: Some(rate),
        checks: 0,
        invalid_checks: 0,
    }
}

/// Every assertion that speaks of times; those on predictions have nothing to be checked against.
pub(crate) fn assertions(scenario: &Scenario, cells: &[Cell]) -> Vec<Assertion> {
    let mut checked = Vec::new();
    for (workload, cell) in scenario.workloads.iter().zip(cells) {
        for assertion in &workload.assertions {
            if assertion.left.0 == Statistic::PredictionError {
                continue;
            }
            let value = |statistic, arm: &str| {
                let samples = &cell.arms.iter().find(|known| known.name == arm)?.samples_s;
                match statistic {
                    Statistic::Min => quantile(samples, 0.0),
                    Statistic::P05 => quantile(samples, 0.05),
                    Statistic::Median => quantile(samples, 0.5),
                    Statistic::P95 => quantile(samples, 0.95),
                    Statistic::Max => quantile(samples, 1.0),
                    Statistic::PredictionError => None,
                }
            };
            let outcome = assertion.check(cell.floor_s, value);
            checked.push(Assertion {
                text: format!("{}: {assertion}", workload.name),
                holds: outcome.is_some_and(|(holds, _, _)| holds),
                detail: outcome.map_or_else(
                    || "a number is missing".to_owned(),
                    |(_, left, right)| format!("{:.1} ms, {:.1} ms", left * 1e3, right * 1e3),
                ),
            });
        }
    }
    checked
}
