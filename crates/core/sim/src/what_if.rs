//! What each remedy alone would bring to an arm of a scenario.
//!
//! [`what_if()`] answers at once. [`Trials`] does the same in pieces, for callers that have several cores or
//! want to show how far it is: every [`Trial`] is a simulation of its own and shares nothing with another.

mod remedies;
#[cfg(test)]
mod tests;

use comparison::Evidence;
use link::{Direction, DirectionSpec, Discipline, LossSpec};
use record::Manifest;
use record::lab::{self, Measure};
use record::what_if::{Cell, Document, NotTried, Outcome, Remedy, RemedyName, VERSION, Verdict};
use scenario::{Arm, Capture, Experiment, Path, Scenario};
use units::{LossRate, Span};

use crate::experiment::{SimulateError, as_asked, play, reason};

/// A gain or a loss below this share of today's time is none.
const NOTICEABLE: f64 = 0.02;

/// What is to be simulated to know what each remedy alone brings.
#[derive(Clone, Debug)]
pub struct Trials {
    /// With one arm, and all workloads.
    scenario: Scenario,
    all: Vec<Trial>,
    /// By workload.
    not_tried: Vec<Vec<NotTried>>,
}

/// A workload with one remedy, or as it is today.
#[derive(Clone, Debug)]
pub struct Trial {
    /// The remedy and what it changes.
    remedy: Option<(RemedyName, String)>,
    /// One arm, one workload.
    scenario: Scenario,
}

/// Tries every remedy alone, departing from `arm`, or from the scenario's first one.
///
/// The answer's manifest is empty; the caller adds what it knows of program, command and machine.
pub fn what_if(
    scenario: &Scenario,
    arm: Option<&str>,
    seed: u64,
) -> Result<Document, SimulateError> {
    let trials = Trials::new(scenario, arm)?;
    let played: Result<Vec<Outcome>, SimulateError> = trials
        .trials()
        .iter()
        .map(|trial| trial.play(seed))
        .collect();
    Ok(trials.rank(seed, played?))
}

// === impl Trials ===

impl Trials {
    /// Everything worth trying for `arm`, or for the scenario's first arm.
    pub fn new(scenario: &Scenario, arm: Option<&str>) -> Result<Self, SimulateError> {
        let problems = scenario.problems();
        if !problems.is_empty() {
            return Err(SimulateError::Scenario { problems });
        }
        let named = |one: &&Arm| arm.is_none_or(|name| one.name == name);
        let arm = scenario.arms.iter().find(named);
        let arm = arm.ok_or_else(|| SimulateError::UnknownArm {
            known: scenario.arms.iter().map(|one| one.name.clone()).collect(),
        })?;
        let scenario = alone(scenario, arm);
        let mut trials = Vec::new();
        let mut not_tried = Vec::new();
        for workload in &scenario.workloads {
            let today = Scenario {
                workloads: vec![workload.clone()],
                ..scenario.clone()
            };
            let catalogue = match reason(&today, arm, workload) {
                None => remedies::of(&today)?,
                // Then no remedy can be tried either.
                Some(_) => remedies::Catalogue::default(),
            };
            trials.push(Trial {
                remedy: None,
                scenario: today,
            });
            trials.extend(catalogue.tried.into_iter().map(|one| Trial {
                remedy: Some((one.name, one.change)),
                scenario: one.scenario,
            }));
            not_tried.push(catalogue.not_tried);
        }
        Ok(Self {
            scenario,
            all: trials,
            not_tried,
        })
    }

    /// The simulations, each on its own.
    #[must_use]
    pub fn trials(&self) -> &[Trial] {
        &self.all
    }

    /// The answer. `played` holds what [`Trial::play`] returned, in the order of
    /// [`trials`](Self::trials).
    #[must_use]
    pub fn rank(&self, seed: u64, played: Vec<Outcome>) -> Document {
        let nothing = Evidence {
            path: as_asked(&self.scenario),
            ..Evidence::default()
        };
        let frames = comparison::cells(&self.scenario, seed, &nothing);
        let mut todays = frames.into_iter().zip(&self.not_tried);
        let mut cells: Vec<Cell> = Vec::new();
        for (trial, outcome) in self.all.iter().zip(played) {
            let Some((name, change)) = &trial.remedy else {
                let today = todays.next();
                cells.extend(
                    today.map(|(frame, not_tried)| cell(frame, outcome, not_tried.clone())),
                );
                continue;
            };
            // A workload's trials follow its own state of today.
            if let Some(cell) = cells.last_mut() {
                cell.remedies
                    .push(remedy(*name, change.clone(), outcome, cell));
            }
        }
        for cell in &mut cells {
            let gain = |remedy: &Remedy| match (remedy.ratio, cell.measure) {
                (Some(ratio), Measure::Time) => ratio,
                (Some(ratio), Measure::Rate) => -ratio,
                (None, _) => f64::INFINITY,
            };
            cell.remedies
                .sort_by(|one, other| gain(one).total_cmp(&gain(other)));
        }
        Document {
            schema: "longhaul.what-if".to_owned(),
            version: VERSION,
            manifest: Manifest::default(),
            scenario: self.scenario.name.clone(),
            seed,
            arm: self
                .scenario
                .arms
                .first()
                .map_or_else(String::new, |arm| arm.name.clone()),
            cells,
        }
    }
}

// === impl Trial ===

impl Trial {
    /// What is tried; `None` where it is today's state.
    #[must_use]
    pub fn remedy(&self) -> Option<RemedyName> {
        self.remedy.as_ref().map(|(name, _)| *name)
    }

    /// What exactly is different from today, for people.
    #[must_use]
    pub fn change(&self) -> Option<&str> {
        self.remedy.as_ref().map(|(_, change)| change.as_str())
    }

    /// What is tried, for people who wait for it.
    #[must_use]
    pub fn label(&self) -> String {
        let workload = self.scenario.workloads.first();
        let workload = workload.map_or("", |workload| workload.name.as_str());
        match &self.remedy {
            None => format!("{workload}: as it is"),
            Some((name, change)) => format!("{workload}: {name}, {change}"),
        }
    }

    /// Simulates it.
    pub fn play(&self, seed: u64) -> Result<Outcome, SimulateError> {
        let (Some(arm), Some(workload)) =
            (self.scenario.arms.first(), self.scenario.workloads.first())
        else {
            return Ok(Outcome::default());
        };
        if let Some(reason) = reason(&self.scenario, arm, workload) {
            return Ok(Outcome {
                failure: Some(format!("not simulated: {reason}")),
                ..Outcome::default()
            });
        }
        let document = play(&self.scenario, seed, &[], &mut |_| {})?;
        let cell = document.cells.into_iter().next();
        Ok(cell.map(outcome).unwrap_or_default())
    }
}

fn outcome(cell: lab::Cell) -> Outcome {
    let Some(arm) = cell.arms.into_iter().next() else {
        return Outcome::default();
    };
    Outcome {
        n: arm.n,
        failure: cell.why,
        median_s: arm.median_s,
        p05_s: arm.p05_s,
        p95_s: arm.p95_s,
        by_position_s: arm.by_position_s,
        goodput_bps: arm.goodput_bps,
        share_of_floor: arm.share_of_floor,
        retransmissions: arm.retransmissions,
        limits: arm.limits,
    }
}

/// `frame` is today's cell as the lab would write it, without a transfer.
fn cell(frame: lab::Cell, today: Outcome, not_tried: Vec<NotTried>) -> Cell {
    Cell {
        workload: frame.workload,
        bytes: frame.bytes,
        measure: frame.measure,
        factors: frame.factors,
        rtt_s: frame.path.rtt_asked_s,
        rate_bps: frame.path.rate_asked_bps,
        floor_s: frame.floor_s,
        floor_derivation: frame.floor_derivation,
        ceiling_bps: frame.ceiling_bps,
        today,
        remedies: Vec::new(),
        not_tried,
    }
}

fn remedy(name: RemedyName, change: String, mut outcome: Outcome, cell: &Cell) -> Remedy {
    // A remedy may cut the payload otherwise; what it is measured by stays what it is today.
    if cell.measure == Measure::Time {
        outcome.share_of_floor = outcome.median_s.map(|median| cell.floor_s / median);
    }
    let of = |outcome: &Outcome| match cell.measure {
        Measure::Time => outcome.median_s,
        Measure::Rate => outcome.goodput_bps,
    };
    let both = of(&cell.today).zip(of(&outcome));
    let ratio = both
        .filter(|_| outcome.failure.is_none())
        .map(|(today, then)| then / today)
        .filter(|ratio| ratio.is_finite());
    let better = ratio.map(|ratio| match cell.measure {
        Measure::Time => 1.0 - ratio,
        Measure::Rate => ratio - 1.0,
    });
    let verdict = match better {
        None => Verdict::Unknown,
        Some(share) if share >= NOTICEABLE => Verdict::Helps,
        Some(share) if share <= -NOTICEABLE => Verdict::Harms,
        Some(_) => Verdict::NoDifference,
    };
    let saved = cell.today.median_s.zip(outcome.median_s);
    Remedy {
        name,
        change,
        verdict,
        saved_s: saved
            .filter(|_| ratio.is_some() && cell.measure == Measure::Time)
            .map(|(today, then)| today - then),
        ratio,
        outcome,
    }
}

/// The scenario with `arm` alone, and with no more transfers than tell something.
fn alone(scenario: &Scenario, arm: &Arm) -> Scenario {
    let mut scenario = Scenario {
        arms: vec![Arm {
            unprimed: None,
            ..arm.clone()
        }],
        ..scenario.clone()
    };
    for workload in &mut scenario.workloads {
        // Floors and payloads are then those of the arm.
        workload.parallel = Some(arm.parallel(workload));
        workload.assertions.clear();
        workload.reported.clear();
    }
    let chance = is_random(&scenario.path);
    let experiment = &mut scenario.experiment;
    *experiment = Experiment {
        // Without chance one block is like the other.
        runs: if chance {
            experiment.runs
        } else {
            experiment.block
        },
        block: experiment.block,
        warm_up: experiment.warm_up,
        capture: Capture::None,
        series: Some(Span::from(std::time::Duration::ZERO)),
        ..Experiment::default()
    };
    scenario
}

/// Whether a seed decides anything on the path.
fn is_random(path: &Path) -> bool {
    let spec = path.spec(0);
    Direction::BOTH.into_iter().any(|direction| {
        let DirectionSpec {
            discipline,
            jitter,
            reorder,
            duplicate,
            corrupt,
            loss,
            schedule,
            ..
        } = spec.direction(direction);
        *loss != LossSpec::None
            || matches!(discipline, Discipline::Red(_))
            || jitter.is_some()
            || reorder.is_some()
            || *duplicate != LossRate::ZERO
            || *corrupt != LossRate::ZERO
            || schedule.iter().any(|change| change.loss.is_some())
    })
}
