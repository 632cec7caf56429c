//! From measured transfers to the cells of the result document.

use record::lab::{Arm, Cell, Measure, PredictedArm};
use scenario::{Flow, Path, Scenario, Workload};
use units::{Bytes, PacketOverhead, Rate};

use crate::contrast;
use crate::evidence::{Evidence, Measured, bits};
use crate::summary::{self, Frame};

/// The cells of the document, one per workload.
#[must_use]
pub fn cells(scenario: &Scenario, seed: u64, evidence: &Evidence) -> Vec<Cell> {
    let workloads = scenario.workloads.iter().enumerate();
    workloads
        .map(|(index, workload)| cell(scenario, seed, evidence, index, workload))
        .collect()
}

/// What transfers of a workload are judged by: those of a given duration by their rate.
#[must_use]
pub const fn measure(workload: &Workload) -> Measure {
    if workload.duration.is_some() {
        Measure::Rate
    } else {
        Measure::Time
    }
}

fn cell(
    scenario: &Scenario,
    seed: u64,
    evidence: &Evidence,
    index: usize,
    workload: &Workload,
) -> Cell {
    let empty = Measured::default();
    let of_arm = |number| evidence.measured.get(&(number, index)).unwrap_or(&empty);
    let measure = measure(workload);
    let ceiling_bps = ceiling_bps(workload, &scenario.path);
    let arms: Vec<Arm> = scenario
        .arms
        .iter()
        .enumerate()
        .map(|(number, spec)| {
            let parallel = spec.parallel(workload);
            let floor = workload.floor_of(&scenario.path, parallel);
            let frame = Frame {
                measure,
                payload: workload.payload(parallel).map(Bytes::get),
                floor_s: floor.map(|floor| floor.total().as_secs_f64()),
                ceiling_bps,
                baseline_rtt_s: baseline_rtt_s(evidence),
                full_payload: scenario.path.ip.full_packet().payload,
                seed,
            };
            let reported = workload.reported.get(&spec.name).into_iter().flatten();
            Arm {
                name: spec.name.clone(),
                reported_s: reported.clone().filter_map(|one| one.seconds()).collect(),
                reported_bps: reported
                    .filter_map(|one| one.rate().map(bits_per_s))
                    .collect(),
                ..summary::arm(of_arm(number), &frame)
            }
        })
        .collect();

    let measured: Vec<&Measured> = (0..arms.len()).map(of_arm).collect();
    let comparisons = contrast::comparisons(&arms, &measured, measure, seed);
    let why = evidence
        .invalid_path
        .clone()
        .or_else(|| failures(&measured));
    let floor = workload.floor(&scenario.path);
    Cell {
        workload: workload.name.clone(),
        bytes: workload.payload(workload.parallel()).map_or(0, Bytes::get),
        measure,
        factors: evidence.factors.clone(),
        valid: why.is_none(),
        why,
        path: evidence.path.clone(),
        floor_s: floor.map_or(0.0, |floor| floor.total().as_secs_f64()),
        ceiling_bps,
        floor_derivation: floor.map(|floor| floor.to_string()).unwrap_or_default(),
        predictions: predictions(scenario, evidence, index, &arms),
        arms,
        comparisons,
    }
}

/// Payload that the path's rate leaves room for: full packets and nothing else, both ways where the
/// workload uses both.
fn ceiling_bps(workload: &Workload, path: &Path) -> Option<f64> {
    let PacketOverhead { payload, headers } = path.ip.full_packet();
    let share = f64::from(payload) / f64::from(payload + headers);
    let ways = match workload.direction() {
        Flow::Up | Flow::Down => 1.0,
        Flow::Both => 2.0,
    };
    let rate = path.bottleneck_rate_of(workload.direction());
    let ceiling = bits_per_s(rate) * share * ways;
    (ceiling > 0.0).then_some(ceiling)
}

/// The RTT of the idle path: measured, or as asked where nothing measured it.
fn baseline_rtt_s(evidence: &Evidence) -> f64 {
    let path = &evidence.path;
    path.rtt_achieved_s.unwrap_or(path.rtt_asked_s)
}

fn failures(measured: &[&Measured]) -> Option<String> {
    let failed = || measured.iter().flat_map(|arm| arm.failures());
    let first = failed().next()?;
    Some(format!(
        "{} transfers failed; the first: {first}",
        failed().count()
    ))
}

fn predictions(
    scenario: &Scenario,
    evidence: &Evidence,
    index: usize,
    arms: &[Arm],
) -> Vec<PredictedArm> {
    let predicted_arm = scenario.experiment.predicts.clone().unwrap_or_default();
    let of_cell = evidence
        .predictions
        .iter()
        .filter(|prediction| prediction.workload == index);
    of_cell
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
        .collect()
}

/// A rate as a number to calculate with.
pub(crate) fn bits_per_s(rate: Rate) -> f64 {
    // A rate counts bits where `bits` counts bytes; both are exact far beyond any path.
    bits(rate.bits_per_s()) / 8.0
}
