//! The phases of a run, in order, on any [`Apparatus`].

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::atomic::Ordering;

use comparison::{Block, Evidence, Measured, Predicted, Rivals};
use record::explain;
use record::lab::{NetworkCheck, Priming, Series};
use scenario::{Expect, Flow, Kind, Scenario};
use units::Rate;

use crate::bench::BenchError;
use crate::experiment::apparatus::{Apparatus, Task, Trial};
use crate::experiment::legs::LegCaptures;
use crate::experiment::{LabError, Options, Outcome, Progress, slug};
use crate::probe::{Depth, PathReading, Unmeasured};

/// Tries of a block or a check before nothing counts: the first and two repetitions.
pub(super) const TRIES: u32 = 3;

/// A scenario being run.
pub(super) struct Run<'a, A> {
    pub(super) scenario: &'a Scenario,
    pub(super) options: &'a Options,
    pub(super) notify: &'a mut dyn FnMut(Progress<'_>),
    pub(super) bench: A,
    pub(super) evidence: Evidence,
    /// What beside the evidence belongs to a cell, by arm and workload.
    pub(super) kept: BTreeMap<(usize, usize), Kept>,
    pub(super) done: Vec<Block>,
    pub(super) priming: Vec<Priming>,
}

/// What a cell keeps until everything is measured.
#[derive(Debug, Default)]
pub(super) struct Kept {
    /// In the order in which they were made.
    pub(super) captures: Vec<PathBuf>,
    /// By leg of the payload, in the order in which it takes them.
    pub(super) legs: Vec<LegCaptures>,
    /// Transfers in the captures of blocks.
    pub(super) captured: usize,
    /// Between which moments each transfer of the evidence took place, in seconds since 1970.
    pub(super) moments: Vec<(f64, f64)>,
    /// What rivals got beside each transfer of the evidence.
    pub(super) rivals: Vec<Rivals>,
    /// One per transfer of the evidence.
    pub(super) series: Vec<Option<Series>>,
}

/// Why a run is over.
pub(super) enum Ending {
    /// Everything was measured.
    Complete,
    /// It was asked to stop.
    Interrupted,
    /// The path was not what the scenario says, and repeating did not help.
    PathOff(String),
    /// Something broke that the rest depends on, such as the link or a relay.
    Broken(LabError),
}

impl<'a, A: Apparatus> Run<'a, A> {
    pub(super) fn new(
        scenario: &'a Scenario,
        factors: BTreeMap<String, String>,
        options: &'a Options,
        notify: &'a mut dyn FnMut(Progress<'_>),
        bench: A,
    ) -> Self {
        Self {
            scenario,
            options,
            notify,
            bench,
            evidence: Evidence {
                factors,
                ..Evidence::default()
            },
            kept: BTreeMap::new(),
            done: Vec::new(),
            priming: Vec::new(),
        }
    }

    pub(super) fn play(mut self) -> Result<Outcome, LabError> {
        let order = comparison::draw(self.scenario, self.options.seed);
        let order: Vec<Block> = order
            .into_iter()
            .filter(|block| self.runnable(*block))
            .collect();
        (self.notify)(Progress::Started {
            blocks: order.len(),
            unpunctual: self.bench.unpunctual(),
        });
        let ending = match self.phases(&order) {
            Ok(ending) => ending,
            // What was measured before is as good as ever.
            Err(error) if !self.done.is_empty() => Ending::Broken(error),
            Err(error) => return Err(error),
        };
        self.finish(&ending)
    }

    /// Another program makes its own connections; arms that reuse one can't be played with it.
    fn runnable(&self, block: Block) -> bool {
        let arm = &self.scenario.arms[block.arm];
        let workload = &self.scenario.workloads[block.workload];
        let program = arm.command.as_ref().or(workload.command.as_ref());
        program.is_none() || !arm.reuse || workload.kind == Kind::Command
    }

    fn phases(&mut self, order: &[Block]) -> Result<Ending, LabError> {
        if let Some(off) = self.check_paths_thoroughly("the first check of the path")? {
            return Ok(off);
        }
        for arm in 0..self.scenario.arms.len() {
            for priming in self.bench.start_relays(arm)? {
                (self.notify)(Progress::Primed(&priming));
                self.priming.push(priming);
            }
        }
        if let Some(cut_short) = self.blocks(order)? {
            return Ok(cut_short);
        }
        if let Some(cut_short) = self.blocks_for_precision()? {
            return Ok(cut_short);
        }
        if let Some(cut_short) = self.unprimed()? {
            return Ok(cut_short);
        }
        let last = self.check_paths_thoroughly("the last check of the path")?;
        Ok(last.unwrap_or(Ending::Complete))
    }

    /// Runs all blocks; the ending where it comes before the last of them.
    fn blocks(&mut self, order: &[Block]) -> Result<Option<Ending>, LabError> {
        for block in order {
            if self.stopping() {
                return Ok(Some(Ending::Interrupted));
            }
            if self.prediction_is_due(*block) {
                self.predict()?;
            }
            let index = self.done.len();
            let label = self.label(*block);
            (self.notify)(Progress::Block {
                index,
                label: &label,
            });
            if let Some(off) = self.block(index, *block, &label)? {
                return Ok(Some(off));
            }
            self.done.push(*block);
        }
        Ok(self.stopping().then_some(Ending::Interrupted))
    }

    /// Further rounds, as long as an asked precision wants them.
    fn blocks_for_precision(&mut self) -> Result<Option<Ending>, LabError> {
        let seed = self.options.seed;
        for number in comparison::rounds(self.scenario).. {
            let measured = &self.evidence.measured;
            let round = comparison::further_round(self.scenario, seed, number, measured);
            if round.is_empty() {
                break;
            }
            (self.notify)(Progress::More {
                blocks: round.len(),
            });
            if let Some(cut_short) = self.blocks(&round)? {
                return Ok(Some(cut_short));
            }
        }
        Ok(None)
    }

    /// One block, repeated where the path was off; the ending where repeating did not help.
    fn block(
        &mut self,
        index: usize,
        block: Block,
        label: &str,
    ) -> Result<Option<Ending>, LabError> {
        let experiment = &self.scenario.experiment;
        let (transfers, warm_up) = (experiment.block, experiment.warm_up);
        let trial = self.repeat(block, label, |bench, attempt| {
            bench.perform(&Task {
                arm: block.arm,
                workload: block.workload,
                transfers,
                warm_up,
                name: &format!("{index:02}-{}-{attempt}", slug(label)),
            })
        })?;
        let trial = match trial {
            Ok(trial) => trial,
            Err(off) => return Ok(Some(off)),
        };
        (self.notify)(Progress::Done {
            label,
            transfers: &trial.transfers,
        });
        self.keep(block, trial);
        Ok(None)
    }

    /// What `perform` measures, at its first or a later attempt, on a path that was right meanwhile; the
    /// ending where there was none.
    fn repeat(
        &mut self,
        block: Block,
        label: &str,
        mut perform: impl FnMut(&mut A, u32) -> Result<Trial, BenchError>,
    ) -> Result<Result<Trial, Ending>, LabError> {
        let mut why = String::new();
        for attempt in 0..TRIES {
            let trial = perform(&mut self.bench, attempt)?;
            let Some(problem) = self.problem_of(&trial) else {
                return Ok(Ok(trial));
            };
            (self.notify)(Progress::Invalid {
                label,
                why: &problem,
                again: attempt + 1 < TRIES,
            });
            let measured = self.measured(block);
            measured.invalid_blocks += 1;
            measured.invalid_because.push(problem.clone());
            why = problem;
        }
        Ok(Err(path_off(label, &why)))
    }

    /// What was off about the path while a block ran.
    fn problem_of(&mut self, trial: &Trial) -> Option<String> {
        let mut problems: Vec<String> = trial
            .readings
            .iter()
            .filter_map(|reading| self.note_check(reading))
            .collect();
        problems.extend(trial.link_problems.iter().cloned());
        (!problems.is_empty()).then(|| problems.join("; "))
    }

    fn keep(&mut self, block: Block, trial: Trial) {
        let measured = self.measured(block);
        measured.transfers.extend(trial.transfers);
        let kept = self.kept.entry((block.arm, block.workload)).or_default();
        kept.rivals.extend(trial.rivals);
        let rivals = Rivals::mean(&kept.rivals);
        kept.captures.extend(trial.captures);
        kept.captured += trial.captured;
        kept.moments.extend(trial.moments);
        for capture in trial.legs {
            LegCaptures::add(&mut kept.legs, capture);
        }
        kept.series.extend(trial.series);
        self.measured(block).rivals = rivals;
    }

    fn measured(&mut self, block: Block) -> &mut Measured {
        let cell = (block.arm, block.workload);
        self.evidence.measured.entry(cell).or_default()
    }

    fn prediction_is_due(&self, next: Block) -> bool {
        let name = &self.scenario.arms[next.arm].name;
        self.evidence.predictions.is_empty()
            && self.scenario.experiment.predicts.as_ref() == Some(name)
    }

    fn predicted_relay_answers(&self) -> bool {
        let predicted = self.scenario.experiment.predicts.as_ref();
        let mut arms = self.scenario.arms.iter();
        let arm = arms.find(|arm| Some(&arm.name) == predicted);
        let first = arm.and_then(|arm| self.scenario.relays.get(arm.relay.first()?));
        first.is_some_and(|relay| relay.expect == Expect::Answer)
    }

    /// Explains the captures made so far and writes down what the remedy should bring.
    fn predict(&mut self) -> Result<(), LabError> {
        let experiment = &self.scenario.experiment;
        let arms = &self.scenario.arms;
        let explained = arms
            .iter()
            .position(|arm| Some(&arm.name) == experiment.explains.as_ref());
        let captures = explained.map_or_else(Vec::new, |arm| self.captures_of(arm));
        if captures.is_empty() {
            return Ok(());
        }
        let document = self.bench.explain(&captures, false)?;
        // A relay that answers a client which asks before it sends a body spares it more, where the client asks.
        let remedies = [
            self.predicted_relay_answers()
                .then(|| format!("{}-answering", experiment.remedy)),
            Some(experiment.remedy.clone()),
        ];
        let remedies: Vec<String> = remedies.into_iter().flatten().collect();
        let mut named = Vec::new();
        for (index, workload) in self.scenario.workloads.iter().enumerate() {
            let Some(bytes) = workload.payload(workload.parallel()) else {
                continue;
            };
            let found = remedies
                .iter()
                .find_map(|remedy| prediction(&document, remedy, bytes.get()));
            if let Some(prediction) = found {
                let predicted = Predicted {
                    workload: index,
                    seconds: prediction.predicted_s,
                    derivation: prediction.derivation.clone(),
                };
                self.evidence.predictions.push(predicted.clone());
                named.push((workload.name.clone(), predicted));
            }
        }
        self.write_json("explain-before.json", &document)?;
        (self.notify)(Progress::Explained {
            document: &document,
            predictions: &named,
        });
        Ok(())
    }

    /// One transfer of each size through pools that are connected and not primed, each through a relay
    /// that has carried nothing, repeated like a block; the ending where that does not help.
    fn unprimed(&mut self) -> Result<Option<Ending>, LabError> {
        for (arm, spec) in self.scenario.arms.iter().enumerate() {
            if spec.unprimed.is_none() {
                continue;
            }
            for workload in 0..self.scenario.workloads.len() {
                if self.stopping() {
                    return Ok(Some(Ending::Interrupted));
                }
                let block = Block { arm, workload };
                let label = format!("{}, unprimed", self.label(block));
                let trial = self.repeat(block, &label, |bench, attempt| {
                    let name = format!("unprimed-{}-{attempt}", slug(&label));
                    bench.perform_unprimed(arm, workload, &name)
                })?;
                let trial = match trial {
                    Ok(trial) => trial,
                    Err(off) => return Ok(Some(off)),
                };
                self.measured(block).first_unprimed = trial.transfers.into_iter().next();
            }
        }
        Ok(None)
    }

    /// RTT and rate in both directions of every network, repeated like a block where they are off; the
    /// ending where that does not help.
    fn check_paths_thoroughly(&mut self, label: &str) -> Result<Option<Ending>, LabError> {
        for arm in self.bench.networks() {
            if let Some(off) = self.check_path_thoroughly(arm, label)? {
                return Ok(Some(off));
            }
        }
        Ok(None)
    }

    fn check_path_thoroughly(
        &mut self,
        arm: usize,
        label: &str,
    ) -> Result<Option<Ending>, LabError> {
        let mut why = String::new();
        for attempt in 0..TRIES {
            let reading = self.bench.check_path(arm, Depth::Thorough)?;
            let problem = self.note_check(&reading);
            let network = self.note_reading(arm, &reading);
            let Some(problem) = problem else {
                (self.notify)(Progress::Path(&network, &self.evidence.path.unchecked));
                return Ok(None);
            };
            why = problem;
            (self.notify)(Progress::Invalid {
                label,
                why: &why,
                again: attempt + 1 < TRIES,
            });
        }
        Ok(Some(path_off(label, &why)))
    }

    /// Keeps what a thorough check of `arm`'s network has measured, in place of an earlier one.
    fn note_reading(&mut self, arm: usize, reading: &PathReading) -> NetworkCheck {
        let measured = |rate: Result<Rate, Unmeasured>| rate.ok().map(super::bits_per_s);
        let network = NetworkCheck {
            arm: self.scenario.arms[arm].name.clone(),
            rtt_achieved_s: reading.rtt().map(|rtt| rtt.as_secs_f64()),
            rate_achieved_bps: measured(reading.forward.rate),
            backward_rate_achieved_bps: measured(reading.backward.rate),
        };
        let several = self.bench.networks();
        let path = &mut self.evidence.path;
        if several.first() == Some(&arm) {
            path.rtt_achieved_s = network.rtt_achieved_s;
            path.rate_achieved_bps = network.rate_achieved_bps;
            path.backward_rate_achieved_bps = network.backward_rate_achieved_bps;
            path.unchecked = reading.unchecked();
        }
        if several.len() > 1 {
            path.networks.retain(|known| known.arm != network.arm);
            path.networks.push(network.clone());
        }
        network
    }

    /// Counts a check; what is off, if anything.
    fn note_check(&mut self, reading: &PathReading) -> Option<String> {
        let path = &mut self.evidence.path;
        path.rtt_asked_s = self.scenario.path.rtt.get().as_secs_f64();
        let asked = |way| super::bits_per_s(self.scenario.path.bottleneck_rate_of(way));
        path.rate_asked_bps = asked(Flow::Up);
        let bounded = self.scenario.path.bottleneck_rate_of(Flow::Down) < Rate::bit_per_s(u64::MAX);
        path.backward_rate_asked_bps = bounded.then(|| asked(Flow::Down));
        path.checks += 1;
        let problems = reading.problems();
        if problems.is_empty() {
            return None;
        }
        path.invalid_checks += 1;
        Some(problems.join("; "))
    }

    /// Captures at the client of all workloads of an arm, in order of time.
    pub(super) fn captures_of(&self, arm: usize) -> Vec<PathBuf> {
        let of_arm = self.kept.iter().filter(|((number, _), _)| *number == arm);
        let mut files: Vec<PathBuf> = of_arm.flat_map(|(_, kept)| kept.captures.clone()).collect();
        // Names begin with the block's number, so that this is the order in time.
        files.sort();
        files
    }

    pub(super) fn write_json(
        &self,
        name: &str,
        document: &impl serde::Serialize,
    ) -> Result<(), LabError> {
        super::write_json(&self.options.out.join(name), document)
    }

    pub(super) fn label(&self, block: Block) -> String {
        let arm = &self.scenario.arms[block.arm].name;
        format!("{arm}, {}", self.scenario.workloads[block.workload].name)
    }

    fn stopping(&self) -> bool {
        self.options.stop.load(Ordering::Relaxed)
    }
}

fn path_off(label: &str, why: &str) -> Ending {
    Ending::PathOff(format!("the path was off {TRIES} times in {label}: {why}"))
}

/// The prediction for transfers of `bytes` payload: of those that carry at least so much, the smallest.
fn prediction<'a>(
    document: &'a explain::Document,
    remedy: &str,
    bytes: u64,
) -> Option<&'a explain::Prediction> {
    document
        .findings
        .iter()
        .flat_map(|finding| &finding.predicted)
        .filter(|prediction| prediction.remedy == remedy && prediction.bytes >= bytes)
        .min_by_key(|prediction| prediction.bytes)
}
