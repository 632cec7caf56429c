//! From measured transfers to the cells of the result document. Pure: no clock, no process.

use std::collections::BTreeMap;

use record::LimitSeconds;
use record::lab::{Arm, Assertion, Cell, PathCheck, PredictedArm, Series};
use scenario::{Ground, Scenario, Statistic, Workload};
use units::{Bytes, Rate};

use crate::statistics::{median_interval, quantile};

/// One transfer as it was measured.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Transfer {
    /// Its place within its block, from zero.
    pub position: usize,
    /// What the client waited, in seconds.
    pub seconds: f64,
    /// Payload bytes that arrived.
    pub bytes: u64,
    /// Payload bits per second over the last half, where that was measured.
    pub steady_bps: Option<f64>,
    /// Why it does not count: an error of the client, or another digest in the store than was sent.
    pub failure: Option<String>,
}

/// Everything measured in one arm for one workload.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Measured {
    /// Transfers in the order in which they ran.
    pub transfers: Vec<Transfer>,
    /// Mean seconds per limit and transfer, from the captures of this arm.
    pub limits: LimitSeconds,
    /// The first transfer through a pool that was connected but not primed.
    pub first_unprimed_s: Option<f64>,
    /// TCP's state over the transfer that took the median time.
    pub series: Option<Series>,
    /// Kernel counters summed over the arm's blocks, such as `origin: TcpRetransSegs`.
    pub counters: BTreeMap<String, u64>,
    /// Flows that shared the path.
    pub rivals: Option<Rivals>,
    /// Blocks repeated because the path was off.
    pub invalid_blocks: u64,
    /// What was off about them.
    pub invalid_because: Vec<String>,
}

/// Payload bits per second of every flow on a path that an arm shares with others.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Rivals {
    /// Of each rival flow without the arm's transfers.
    pub alone_bps: Vec<f64>,
    /// Of each rival flow beside them, in the same order.
    pub beside_bps: Vec<f64>,
    /// Of each of the arm's flows over the same time.
    pub own_bps: Vec<f64>,
}

/// What `explain` predicted for an arm, in seconds, with its derivation.
#[derive(Clone, Debug, PartialEq)]
pub struct Predicted {
    /// Index of the workload.
    pub workload: usize,
    /// Seconds.
    pub seconds: f64,
    /// How it was computed.
    pub derivation: String,
}

/// All that a run has measured; keyed by `(arm, workload)` as indices of the scenario.
#[derive(Clone, Debug, Default)]
pub struct Evidence {
    /// Factors and their values, of a sweep.
    pub factors: BTreeMap<String, String>,
    /// Transfers by cell.
    pub measured: BTreeMap<(usize, usize), Measured>,
    /// Path checks of the whole run.
    pub path: PathCheck,
    /// Why the path does not count, where it does not.
    pub invalid_path: Option<String>,
    /// Predictions written before their arm ran.
    pub predictions: Vec<Predicted>,
}

/// The cells of the document, one per workload.
#[must_use]
pub fn cells(scenario: &Scenario, seed: u64, evidence: &Evidence) -> Vec<Cell> {
    scenario
        .workloads
        .iter()
        .enumerate()
        .map(|(index, workload)| cell(scenario, seed, evidence, index, workload))
        .collect()
}

fn cell(
    scenario: &Scenario,
    seed: u64,
    evidence: &Evidence,
    index: usize,
    workload: &Workload,
) -> Cell {
    let floor = workload.floor(&scenario.path);
    let floor_s = floor.map_or(0.0, |floor| floor.total().as_secs_f64());
    let empty = Measured::default();
    let arms: Vec<Arm> = scenario
        .arms
        .iter()
        .enumerate()
        .map(|(number, spec)| {
            let measured = evidence.measured.get(&(number, index)).unwrap_or(&empty);
            let reported = workload
                .reported
                .get(&spec.name)
                .map_or(&[][..], Vec::as_slice);
            Arm {
                name: spec.name.clone(),
                reported_s: reported
                    .iter()
                    .filter_map(|reported| reported.seconds())
                    .collect(),
                ..arm(
                    measured,
                    workload.payload(spec.parallel(workload)),
                    floor_s,
                    seed,
                )
            }
        })
        .collect();

    let failed: u64 = arms.iter().map(|arm| arm.failed).sum();
    let why = evidence.invalid_path.clone().or_else(|| {
        let first = evidence
            .measured
            .iter()
            .filter(|((_, workload), _)| *workload == index)
            .flat_map(|(_, measured)| &measured.transfers)
            .find_map(|transfer| transfer.failure.as_deref());
        first.map(|failure| format!("{failed} transfers failed; the first: {failure}"))
    });
    let predicted_arm = scenario.experiment.predicts.clone().unwrap_or_default();
    let predictions = evidence
        .predictions
        .iter()
        .filter(|prediction| prediction.workload == index)
        .map(|prediction| {
            let measured_s = arms
                .iter()
                .find(|arm| arm.name == predicted_arm)
                .and_then(|arm| arm.median_s);
            PredictedArm {
                arm: predicted_arm.clone(),
                predicted_s: prediction.seconds,
                measured_s,
                error: measured_s.map(|measured| prediction.seconds / measured - 1.0),
                derivation: prediction.derivation.clone(),
            }
        })
        .collect();
    Cell {
        workload: workload.name.clone(),
        bytes: workload.payload(workload.parallel()).map_or(0, Bytes::get),
        factors: evidence.factors.clone(),
        valid: why.is_none(),
        why,
        path: evidence.path.clone(),
        floor_s,
        floor_derivation: floor.map(|floor| floor.to_string()).unwrap_or_default(),
        arms,
        predictions,
        ..Cell::default()
    }
}

fn arm(measured: &Measured, payload: Option<Bytes>, floor_s: f64, seed: u64) -> Arm {
    let good = || {
        measured
            .transfers
            .iter()
            .filter(|transfer| transfer.failure.is_none())
    };
    let samples: Vec<f64> = good().map(|transfer| transfer.seconds).collect();
    let positions = good()
        .map(|transfer| transfer.position + 1)
        .max()
        .unwrap_or(0);
    let median_s = quantile(&samples, 0.5);
    Arm {
        name: String::new(),
        n: samples.len() as u64,
        failed: (measured.transfers.len() - samples.len()) as u64,
        median_s,
        p05_s: quantile(&samples, 0.05),
        p95_s: quantile(&samples, 0.95),
        max_s: quantile(&samples, 1.0),
        ci95_s: median_interval(&samples, seed),
        goodput_bps: payload.and_then(|payload| Some(bits(payload) / median_s?)),
        share_of_floor: median_s.map(|median| floor_s / median),
        limits: measured.limits.clone(),
        by_position_s: (0..positions)
            .filter_map(|position| {
                let at: Vec<f64> = good()
                    .filter(|transfer| transfer.position == position)
                    .map(|transfer| transfer.seconds)
                    .collect();
                quantile(&at, 0.5)
            })
            .collect(),
        samples_s: samples,
        reported_s: Vec::new(),
        first_unprimed_s: measured.first_unprimed_s,
        counters: measured.counters.clone(),
        series: measured.series.clone(),
        invalid_blocks: measured.invalid_blocks,
        invalid_because: measured.invalid_because.clone(),
        ..Arm::default()
    }
}

#[expect(
    clippy::cast_precision_loss,
    reason = "objects are at most 1 GiB: exact in an f64"
)]
fn bits(bytes: Bytes) -> f64 {
    bytes.get() as f64 * 8.0
}

/// Checks every assertion of the scenario against the finished cells. A number that is missing, an
/// invalid path or a failed transfer makes the assertions of its workload fail: they never pass unseen.
#[must_use]
pub fn assertions(scenario: &Scenario, cells: &[Cell]) -> Vec<Assertion> {
    let mut results = Vec::new();
    for (workload, cell) in scenario.workloads.iter().zip(cells) {
        for assertion in &workload.assertions {
            let text = format!("[{}] {assertion}", workload.name);
            let (holds, detail) = if let Some(why) = &cell.why {
                (false, format!("not valid: {why}"))
            } else {
                match assertion.check(ground(scenario, workload), |statistic, arm| {
                    value(cell, statistic, arm)
                }) {
                    Some((holds, left, right)) => (holds, format!("{left:.4} against {right:.4}")),
                    None => (false, "not measured".to_owned()),
                }
            };
            results.push(Assertion {
                text,
                holds,
                detail,
            });
        }
    }
    results
}

/// What the assertions of a workload measure against.
fn ground(scenario: &Scenario, workload: &Workload) -> Ground {
    let floor = workload.floor(&scenario.path);
    Ground {
        floor_s: floor.map(|floor| floor.total().as_secs_f64()),
        rate_bps: Some(bits_per_s(scenario.path.rate)),
    }
}

#[expect(
    clippy::cast_precision_loss,
    reason = "rates of paths are far below 2^52 bit/s"
)]
const fn bits_per_s(rate: Rate) -> f64 {
    rate.bits_per_s() as f64
}

fn value(cell: &Cell, statistic: Statistic, name: &str) -> Option<f64> {
    let arm = cell.arms.iter().find(|arm| arm.name == name)?;
    match statistic {
        Statistic::Min => quantile(&arm.samples_s, 0.0),
        Statistic::P05 => arm.p05_s,
        Statistic::Median => arm.median_s,
        Statistic::P95 => arm.p95_s,
        Statistic::Max => arm.max_s,
        Statistic::Goodput => arm.goodput_bps,
        Statistic::Steady => arm.steady_bps,
        Statistic::ShareOfFloor => arm.share_of_floor,
        Statistic::Harm => arm.rivals.as_ref()?.harm,
        Statistic::Jain => arm.rivals.as_ref()?.jain,
        Statistic::Retransmissions => None,
        Statistic::PredictionError => cell
            .predictions
            .iter()
            .find(|prediction| prediction.arm == name)?
            .error
            .map(f64::abs),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scenario() -> Scenario {
        toml::from_str(
            r#"
            name = "s"
            seed = 1
            [path]
            rtt = "200 ms"
            rate = "100 Mbit/s"
            queue = "100 kB"
            [relays.hot]
            [experiment]
            explains = "direct"
            predicts = "relay"
            [[workloads]]
            name = "100 KiB"
            bytes = "100 KiB"
            assert = ["max(relay) <= 1.15 * floor", "prediction-error(relay) <= 20 %"]
            [[arms]]
            name = "direct"
            [[arms]]
            name = "relay"
            relay = "hot"
            "#,
        )
        .unwrap()
    }

    fn evidence(relay_seconds: f64) -> Evidence {
        let transfers = |seconds: f64| {
            let transfer = |position| Transfer {
                position,
                seconds,
                bytes: 102_400,
                ..Transfer::default()
            };
            Measured {
                transfers: (0..5).map(transfer).collect(),
                ..Measured::default()
            }
        };
        Evidence {
            measured: BTreeMap::from([
                ((0, 0), transfers(1.017)),
                ((1, 0), transfers(relay_seconds)),
            ]),
            predictions: vec![Predicted {
                workload: 0,
                seconds: 0.21,
                derivation: String::new(),
            }],
            ..Evidence::default()
        }
    }

    #[test]
    fn shares_and_assertions_follow_from_the_samples() {
        let (scenario, evidence) = (scenario(), evidence(0.22));
        let cells = cells(&scenario, 1, &evidence);
        let relay = &cells[0].arms[1];
        assert_eq!((relay.n, relay.failed, relay.median_s), (5, 0, Some(0.22)));
        let share = relay.share_of_floor.unwrap();
        assert!((share - 0.2085 / 0.22).abs() < 1e-3, "{share}");
        assert_eq!(relay.by_position_s.len(), 5);
        let error = cells[0].predictions[0].error.unwrap();
        assert!((error - (0.21 / 0.22 - 1.0)).abs() < 1e-9, "{error}");
        assert!(
            assertions(&scenario, &cells)
                .iter()
                .all(|assertion| assertion.holds)
        );
    }

    #[test]
    fn one_slow_upload_breaks_the_promise_of_every_upload() {
        let scenario = scenario();
        let mut evidence = evidence(0.22);
        evidence.measured.get_mut(&(1, 0)).unwrap().transfers[3].seconds = 0.25;
        let results = assertions(&scenario, &cells(&scenario, 1, &evidence));
        assert!(!results[0].holds, "{results:?}");
        assert!(results[1].holds, "the median has not moved");
    }

    #[test]
    fn a_wrong_digest_or_path_fails_every_assertion() {
        let scenario = scenario();
        let mut corrupted = evidence(0.22);
        corrupted.measured.get_mut(&(1, 0)).unwrap().transfers[0].failure =
            Some("SHA-256 differs".to_owned());
        let mut off = evidence(0.22);
        off.invalid_path = Some("RTT 300 ms instead of 200 ms".to_owned());
        for evidence in [corrupted, off, Evidence::default()] {
            let cells = cells(&scenario, 1, &evidence);
            let results = assertions(&scenario, &cells);
            assert!(
                results.iter().all(|assertion| !assertion.holds),
                "{results:?}"
            );
        }
    }
}
