//! The phases of a run, in order, on any [`Apparatus`].

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::atomic::Ordering;

use record::LimitSeconds;
use record::explain;
use record::lab::{Document, Priming};
use scenario::{Scenario, Workload};
use units::{Bytes, Rate};

use crate::experiment::apparatus::Apparatus;
use crate::experiment::{LabError, Options, Outcome, Progress, slug, wire};
use crate::probe::{Depth, PathReading};
use comparison::{Block, Evidence, Predicted, Transfer};

/// Tries of a block or a check before nothing counts: the first and two repetitions.
const TRIES: u32 = 3;

/// A scenario being run.
pub(super) struct Run<'a, A> {
    scenario: &'a Scenario,
    options: &'a Options,
    notify: &'a mut dyn FnMut(Progress<'_>),
    bench: A,
    evidence: Evidence,
    /// Captures by arm and workload, in the order in which they were made.
    captures: BTreeMap<(usize, usize), Vec<PathBuf>>,
    done: Vec<Block>,
    priming: Vec<Priming>,
}

/// Why a run is over.
enum Ending {
    /// Everything was measured.
    Complete,
    /// It was asked to stop.
    Interrupted,
    /// The path was not what the scenario says, and repeating did not help.
    PathOff(String),
}

/// A block as it was measured, whether or not it counts.
struct Trial {
    transfers: Vec<Transfer>,
    captures: Vec<PathBuf>,
    /// What was off about the path.
    problem: Option<String>,
}

impl<'a, A: Apparatus> Run<'a, A> {
    pub(super) fn new(
        scenario: &'a Scenario,
        options: &'a Options,
        notify: &'a mut dyn FnMut(Progress<'_>),
        bench: A,
    ) -> Self {
        Self {
            scenario,
            options,
            notify,
            bench,
            evidence: Evidence::default(),
            captures: BTreeMap::new(),
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
        let ending = self.phases(&order)?;
        self.finish(&ending)
    }

    /// An external command makes its own connections; arms that reuse one can't be played with it.
    fn runnable(&self, block: Block) -> bool {
        self.options.client.is_none() || !self.scenario.arms[block.arm].reuse
    }

    fn phases(&mut self, order: &[Block]) -> Result<Ending, LabError> {
        if let Some(off) = self.check_path_thoroughly("the first check of the path")? {
            return Ok(off);
        }
        self.start_relays()?;
        if let Some(cut_short) = self.blocks(order)? {
            return Ok(cut_short);
        }
        self.unprimed()?;
        let last = self.check_path_thoroughly("the last check of the path")?;
        Ok(last.unwrap_or(Ending::Complete))
    }

    fn start_relays(&mut self) -> Result<(), LabError> {
        for arm in &self.scenario.arms {
            if let Some(relay) = arm.relay.first()
                && !self.bench.has_relay(relay)
            {
                let priming = self.bench.start_relay(relay, &arm.name)?;
                (self.notify)(Progress::Primed(&priming));
                self.priming.push(priming);
            }
        }
        Ok(())
    }

    /// Runs all blocks; the ending where it comes before the last of them.
    fn blocks(&mut self, order: &[Block]) -> Result<Option<Ending>, LabError> {
        for (index, block) in order.iter().enumerate() {
            if self.stopping() {
                return Ok(Some(Ending::Interrupted));
            }
            if self.prediction_is_due(*block) {
                self.predict()?;
            }
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

    /// One block, repeated where the path was off; the ending where repeating did not help.
    fn block(
        &mut self,
        index: usize,
        block: Block,
        label: &str,
    ) -> Result<Option<Ending>, LabError> {
        let mut why = String::new();
        for attempt in 0..TRIES {
            let name = format!("{index:02}-{}-{attempt}", slug(label));
            let trial = match &self.options.client {
                None => self.trial(block, &name)?,
                Some(command) => self.trial_by_command(command, block, &name)?,
            };
            if let Some(problem) = trial.problem {
                why = problem;
                (self.notify)(Progress::Invalid {
                    label,
                    why: &why,
                    again: attempt + 1 < TRIES,
                });
                continue;
            }
            (self.notify)(Progress::Done {
                label,
                transfers: &trial.transfers,
            });
            let cell = (block.arm, block.workload);
            let measured = self.evidence.measured.entry(cell).or_default();
            measured.transfers.extend(trial.transfers);
            self.captures
                .entry(cell)
                .or_default()
                .extend(trial.captures);
            return Ok(None);
        }
        Ok(Some(path_off(label, &why)))
    }

    /// A block by the built-in client.
    fn trial(&mut self, block: Block, name: &str) -> Result<Trial, LabError> {
        let arm = &self.scenario.arms[block.arm];
        let bytes = payload(&self.scenario.workloads[block.workload]);
        let count = self.scenario.experiment.block;
        let capture = self.capture_file(name);
        self.bench.start_capture(&capture)?;
        let relay = arm.relay.first();
        let transfers = self.bench.upload(relay, bytes, count, arm.reuse, name)?;
        let problem = self.end_capture()?;
        Ok(Trial {
            transfers,
            captures: vec![capture],
            problem,
        })
    }

    /// A block by an external command, with a capture for each run of it: what belongs to which is
    /// beyond doubt then, whatever a command sends. Ends early when the run is asked to stop.
    fn trial_by_command(
        &mut self,
        command: &str,
        block: Block,
        name: &str,
    ) -> Result<Trial, LabError> {
        let relay = self.scenario.arms[block.arm].relay.first();
        let bytes = payload(&self.scenario.workloads[block.workload]);
        let mut trial = Trial {
            transfers: Vec::new(),
            captures: Vec::new(),
            problem: None,
        };
        for position in 0..self.scenario.experiment.block as usize {
            if self.stopping() {
                break;
            }
            let name = format!("{name}-{position}");
            let capture = self.capture_file(&name);
            self.bench.start_capture(&capture)?;
            let transfer = self
                .bench
                .upload_by_command(command, relay, bytes, &name, position)?;
            trial.problem = self.end_capture()?;
            if trial.problem.is_some() {
                break;
            }
            let document = self.bench.explain(std::slice::from_ref(&capture), false)?;
            trial.transfers.push(wire::timed(transfer, &document));
            trial.captures.push(capture);
        }
        Ok(trial)
    }

    /// Ends a capture and says what was off about the path meanwhile. The check comes first: it gives
    /// the last FIN the round trip that it needs to be captured.
    fn end_capture(&mut self) -> Result<Option<String>, LabError> {
        let reading = self.bench.check_path(Depth::RoundTrip)?;
        self.bench.stop_capture()?;
        Ok(self.note_check(&reading))
    }

    fn capture_file(&self, name: &str) -> PathBuf {
        let folder = self.options.out.join("captures");
        folder.join(format!("{name}.pcapng"))
    }

    fn prediction_is_due(&self, next: Block) -> bool {
        let name = &self.scenario.arms[next.arm].name;
        self.evidence.predictions.is_empty()
            && self.scenario.experiment.predicts.as_ref() == Some(name)
    }

    /// Explains the captures made so far and writes down what the remedy should bring.
    fn predict(&mut self) -> Result<(), LabError> {
        let experiment = &self.scenario.experiment;
        let Some(arm) = self
            .scenario
            .arms
            .iter()
            .position(|arm| Some(&arm.name) == experiment.explains.as_ref())
        else {
            return Ok(());
        };
        let document = self.bench.explain(&self.captures_of(arm), false)?;
        let mut named = Vec::new();
        for (index, workload) in self.scenario.workloads.iter().enumerate() {
            let prediction = prediction(&document, &experiment.remedy, payload(workload).get());
            if let Some(prediction) = prediction {
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
    /// that has carried nothing.
    fn unprimed(&mut self) -> Result<(), LabError> {
        for (arm, spec) in self.scenario.arms.iter().enumerate() {
            let Some(relay) = &spec.unprimed else {
                continue;
            };
            for (index, workload) in self.scenario.workloads.iter().enumerate() {
                self.bench.start_relay(relay, &spec.name)?;
                let name = format!("unprimed-{}", slug(&workload.name));
                let transfers =
                    self.bench
                        .upload(Some(relay), payload(workload), 1, false, &name)?;
                self.bench.stop_relay(relay)?;
                let first = transfers
                    .into_iter()
                    .find(|transfer| transfer.failure.is_none());
                self.evidence
                    .measured
                    .entry((arm, index))
                    .or_default()
                    .first_unprimed_s = first.map(|transfer| transfer.seconds);
            }
        }
        Ok(())
    }

    /// RTT and rate in both directions, repeated like a block where it is off; the ending where that
    /// does not help.
    fn check_path_thoroughly(&mut self, label: &str) -> Result<Option<Ending>, LabError> {
        let mut why = String::new();
        for attempt in 0..TRIES {
            let reading = self.bench.check_path(Depth::Thorough)?;
            let problem = self.note_check(&reading);
            let path = &mut self.evidence.path;
            path.rtt_achieved_s = reading.rtt().map(|rtt| rtt.as_secs_f64());
            path.rate_achieved_bps = reading.forward.rate.ok().map(bits_per_s);
            let Some(problem) = problem else {
                (self.notify)(Progress::Path(&self.evidence.path));
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

    /// Counts a check; what is off, if anything.
    fn note_check(&mut self, reading: &PathReading) -> Option<String> {
        let path = &mut self.evidence.path;
        path.rtt_asked_s = self.scenario.path.rtt.get().as_secs_f64();
        path.rate_asked_bps = bits_per_s(self.scenario.path.bottleneck_rate());
        path.checks += 1;
        let problems = reading.problems();
        if problems.is_empty() {
            return None;
        }
        path.invalid_checks += 1;
        Some(problems.join("; "))
    }

    fn finish(mut self, ending: &Ending) -> Result<Outcome, LabError> {
        let interrupted = matches!(ending, Ending::Interrupted);
        if let Ending::PathOff(why) = ending {
            self.evidence.invalid_path = Some(why.clone());
        }
        let mut explanations = Vec::new();
        for (arm, spec) in self.scenario.arms.iter().enumerate() {
            for workload in 0..self.scenario.workloads.len() {
                let Some(files) = self.captures.get(&(arm, workload)) else {
                    continue;
                };
                let document = self.bench.explain(files, false)?;
                let measured = self.evidence.measured.entry((arm, workload)).or_default();
                measured.limits = limits_per_transfer(&document, measured.transfers.len());
            }
            let files = self.captures_of(arm);
            if files.is_empty() {
                continue;
            }
            // Pictures show the long path: at the client, or behind the relay.
            let document = self.bench.explain(&files, spec.relay.is_direct())?;
            self.write_json(&format!("explain-{}.json", slug(&spec.name)), &document)?;
            explanations.push((spec.name.clone(), document));
            if let Some(document) = self.explain_relay(spec)? {
                explanations.push((spec.name.clone(), document));
            }
        }
        let cells = comparison::cells(self.scenario, self.options.seed, &self.evidence);
        let assertions = if interrupted {
            Vec::new()
        } else {
            comparison::assertions(self.scenario, &cells)
        };
        let mut manifest = self.options.manifest.clone();
        manifest.facts.append(&mut self.bench.facts()?);
        let document = Document {
            schema: "longhaul.lab".to_owned(),
            version: record::lab::VERSION,
            manifest,
            scenario: self.scenario.name.clone(),
            seed: self.options.seed,
            interrupted,
            order: self.done.iter().map(|block| self.label(*block)).collect(),
            cells,
            priming: self.priming.clone(),
            assertions,
        };
        self.write_json("result.json", &document)?;
        Ok(Outcome {
            document,
            explanations,
        })
    }

    /// What passed between an arm's relay and the origin, with series. Its findings are left out: they
    /// would speak of the relay's own priming.
    fn explain_relay(
        &mut self,
        arm: &scenario::Arm,
    ) -> Result<Option<explain::Document>, LabError> {
        let Some(relay) = arm.relay.first() else {
            return Ok(None);
        };
        let Some(capture) = self.bench.stop_relay(relay)? else {
            return Ok(None);
        };
        let mut document = self.bench.explain(&[capture], true)?;
        document
            .connections
            .retain(|connection| self.bench.is_origin(&connection.server.host));
        document.findings.clear();
        Ok(Some(document))
    }

    fn captures_of(&self, arm: usize) -> Vec<PathBuf> {
        let of_arm = self
            .captures
            .iter()
            .filter(|((number, _), _)| *number == arm);
        let mut files: Vec<PathBuf> = of_arm.flat_map(|(_, files)| files.clone()).collect();
        // Names begin with the block's number, so that this is the order in time.
        files.sort();
        files
    }

    fn write_json(&self, name: &str, document: &impl serde::Serialize) -> Result<(), LabError> {
        let path = self.options.out.join(name);
        let fail = |source| LabError::Write {
            path: path.clone(),
            source,
        };
        let text = serde_json::to_string_pretty(document).map_err(|error| fail(error.into()))?;
        std::fs::write(&path, text).map_err(fail)
    }

    fn label(&self, block: Block) -> String {
        let arm = &self.scenario.arms[block.arm].name;
        format!("{arm}, {}", self.scenario.workloads[block.workload].name)
    }

    fn stopping(&self) -> bool {
        self.options.stop.load(Ordering::Relaxed)
    }
}

/// Payload of one transfer; `run` has refused workloads without one.
fn payload(workload: &Workload) -> Bytes {
    workload.bytes.unwrap_or(Bytes::ZERO)
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

/// Mean seconds per limit: over all connections towards the server, divided by the transfers.
fn limits_per_transfer(document: &explain::Document, transfers: usize) -> LimitSeconds {
    let mut sum = LimitSeconds::new();
    for connection in &document.connections {
        for (name, seconds) in &connection.directions.client_to_server.limits {
            *sum.entry(*name).or_default() += seconds;
        }
    }
    #[expect(clippy::cast_precision_loss, reason = "a count of transfers")]
    let count = transfers.max(1) as f64;
    for seconds in sum.values_mut() {
        *seconds /= count;
    }
    sum
}

#[expect(
    clippy::cast_precision_loss,
    reason = "rates below 2^53 bit/s are exact"
)]
fn bits_per_s(rate: Rate) -> f64 {
    rate.bits_per_s() as f64
}
