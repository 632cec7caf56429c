//! A scenario, run: blocks of transfers in every arm, on a path that endpoints check, captured and
//! explained, with the prediction written before the arm it speaks of.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use record::explain;
use record::lab::{Document, Priming};
use record::{LimitSeconds, Manifest};
use scenario::Scenario;
use units::Rate;

use crate::bench::{Bench, BenchError};
use crate::probe::{Depth, PathReading};
use crate::results::{self, Evidence, Predicted, Transfer};
use crate::schedule::{self, Block};

/// What a run needs beside its scenario.
#[derive(Clone, Debug)]
pub struct Options {
    /// The `longhaul` binary, which is relay, origin, client, link and `explain` in one.
    pub binary: PathBuf,
    /// Where captures, logs and results go; made if absent.
    pub out: PathBuf,
    /// Seed instead of the scenario's.
    pub seed: u64,
    /// A command that uploads instead of the built-in S3 client.
    pub client: Option<String>,
    /// Set from a signal handler: the run ends after the transfer under way and keeps what it has.
    pub stop: Arc<AtomicBool>,
    /// What the manifest can say before the run.
    pub manifest: Manifest,
}

/// What happens, for whoever shows progress.
#[derive(Debug)]
pub enum Progress<'a> {
    /// Namespaces, link and origin stand; this many blocks will follow.
    Started {
        /// Blocks of the run.
        blocks: usize,
        /// The seed of their order.
        seed: u64,
    },
    /// Endpoints measured the path.
    Path(&'a record::lab::PathCheck),
    /// A relay's pool is ready.
    Primed(&'a Priming),
    /// A block begins.
    Block {
        /// Its number, from 0.
        index: usize,
        /// What it does, such as `relay, 100 KiB`.
        label: &'a str,
    },
    /// One transfer of a block ended.
    Transfer(&'a Transfer),
    /// The path was off in a block, which is repeated.
    Invalid {
        /// Which block.
        label: &'a str,
        /// What was off.
        why: &'a str,
    },
    /// The explained arm has its first captures; predictions are written.
    Explained {
        /// What `explain` says.
        document: &'a explain::Document,
        /// The predictions, by workload name.
        predictions: &'a [(String, Predicted)],
    },
}

/// A finished run: the document, and `explain`'s documents by arm, for the report.
#[derive(Debug)]
pub struct Outcome {
    /// The result.
    pub document: Document,
    /// What `explain` says about arms. An arm through a relay has two: what the client saw, and with
    /// series what passed between relay and origin.
    pub explanations: Vec<(String, explain::Document)>,
}

/// A run could not be finished.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LabError {
    /// The bench could not be set up or broke.
    #[error(transparent)]
    Bench(#[from] BenchError),
    /// The path was not what the scenario says, and repeating did not help.
    #[error("the path was off in {label} three times: {why}")]
    Path {
        /// Which block.
        label: String,
        /// What was off, the last time.
        why: String,
    },
    /// A result could not be written.
    #[error("cannot write `{}`", path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// What the kernel said.
        #[source]
        source: std::io::Error,
    },
}

/// Tries of one block before the run fails: the first and two repetitions.
const TRIES: u32 = 3;

/// Runs `scenario`. Must be called inside an isolated process (`sys::isolation`).
pub fn run(
    scenario: &Scenario,
    options: &Options,
    notify: &mut dyn FnMut(Progress<'_>),
) -> Result<Outcome, LabError> {
    let order = schedule::draw(scenario, options.seed);
    let order: Vec<Block> = order
        .into_iter()
        .filter(|block| runnable(scenario, options, *block))
        .collect();
    let mut run = Run {
        scenario,
        options,
        notify,
        bench: Bench::build(scenario, &options.binary, &options.out, options.seed)?,
        evidence: Evidence::default(),
        captures: BTreeMap::new(),
        done: Vec::new(),
        priming: Vec::new(),
    };
    (run.notify)(Progress::Started {
        blocks: order.len(),
        seed: options.seed,
    });
    run.check_path_thoroughly("the first check")?;
    run.start_relays()?;
    let interrupted = run.blocks(&order)?;
    if !interrupted {
        run.unprimed()?;
        run.check_path_thoroughly("the last check")?;
    }
    run.finish(interrupted)
}

/// An external command makes its own connections; arms that reuse one can't be played with it.
fn runnable(scenario: &Scenario, options: &Options, block: Block) -> bool {
    options.client.is_none() || !scenario.arms[block.arm].reuse
}

struct Run<'a> {
    scenario: &'a Scenario,
    options: &'a Options,
    notify: &'a mut dyn FnMut(Progress<'_>),
    bench: Bench,
    evidence: Evidence,
    /// Captures by arm and workload, in the order in which they were made.
    captures: BTreeMap<(usize, usize), Vec<PathBuf>>,
    done: Vec<Block>,
    priming: Vec<Priming>,
}

impl Run<'_> {
    fn start_relays(&mut self) -> Result<(), LabError> {
        for arm in &self.scenario.arms {
            if let Some(relay) = &arm.relay
                && !self.bench.has_relay(relay)
            {
                let priming = self.bench.start_relay(relay, &arm.name)?;
                (self.notify)(Progress::Primed(&priming));
                self.priming.push(priming);
            }
        }
        Ok(())
    }

    /// Runs all blocks; true if it was asked to stop before the end.
    fn blocks(&mut self, order: &[Block]) -> Result<bool, LabError> {
        for (index, block) in order.iter().enumerate() {
            if self.stopping() {
                return Ok(true);
            }
            if self.prediction_is_due(*block) {
                self.predict()?;
            }
            let label = self.label(*block);
            (self.notify)(Progress::Block {
                index,
                label: &label,
            });
            self.block(index, *block, &label)?;
            self.done.push(*block);
        }
        Ok(self.stopping())
    }

    /// One block, repeated where the path was off.
    fn block(&mut self, index: usize, block: Block, label: &str) -> Result<(), LabError> {
        let mut why = String::new();
        for attempt in 0..TRIES {
            let name = format!("{index:02}-{}-{attempt}", slug(label));
            let capture = self
                .options
                .out
                .join("captures")
                .join(format!("{name}.pcapng"));
            let transfers = self.transfers(block, &name, &capture)?;
            // The check also gives the last FIN the round trip that it needs to be captured.
            let reading = self.bench.check_path(Depth::RoundTrip)?;
            self.bench.stop_capture()?;
            if let Some(problem) = self.note_check(&reading) {
                (self.notify)(Progress::Invalid {
                    label,
                    why: &problem,
                });
                why = problem;
                continue;
            }
            let transfers = match &self.options.client {
                None => transfers,
                Some(_) => self.timed_on_the_wire(block, transfers, &capture)?,
            };
            for transfer in &transfers {
                (self.notify)(Progress::Transfer(transfer));
            }
            let cell = (block.arm, block.workload);
            self.evidence
                .measured
                .entry(cell)
                .or_default()
                .transfers
                .extend(transfers);
            self.captures.entry(cell).or_default().push(capture);
            return Ok(());
        }
        Err(LabError::Path {
            label: label.to_owned(),
            why,
        })
    }

    fn transfers(
        &mut self,
        block: Block,
        name: &str,
        capture: &Path,
    ) -> Result<Vec<Transfer>, LabError> {
        let arm = &self.scenario.arms[block.arm];
        let workload = &self.scenario.workloads[block.workload];
        self.bench.start_capture(capture)?;
        let count = self.scenario.experiment.block;
        let stop = &self.options.stop;
        Ok(match &self.options.client {
            None => {
                self.bench
                    .upload(arm.relay.as_deref(), workload.bytes, count, arm.reuse, name)?
            }
            Some(command) => self.bench.upload_by_command(
                command,
                arm.relay.as_deref(),
                workload.bytes,
                count,
                name,
                stop,
            )?,
        })
    }

    /// Replaces a command's own duration, which includes starting the program, by what the wire shows.
    fn timed_on_the_wire(
        &self,
        block: Block,
        transfers: Vec<Transfer>,
        capture: &Path,
    ) -> Result<Vec<Transfer>, LabError> {
        let document = self.bench.explain(&[capture.to_owned()], false)?;
        let bytes = self.scenario.workloads[block.workload].bytes.get();
        let mut on_wire = document
            .connections
            .iter()
            .flat_map(|connection| &connection.transfers)
            .filter(|transfer| transfer.request_bytes >= bytes)
            .filter_map(|transfer| transfer.with_handshake_s.or(transfer.complete_s));
        Ok(transfers
            .into_iter()
            .map(|transfer| match on_wire.next() {
                _ if transfer.failure.is_some() => transfer,
                Some(seconds) => Transfer {
                    seconds,
                    ..transfer
                },
                None => Transfer {
                    failure: Some("the capture does not show this upload".to_owned()),
                    ..transfer
                },
            })
            .collect())
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
            let prediction = prediction(&document, &experiment.remedy, workload.bytes.get());
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
                let transfers = self
                    .bench
                    .upload(Some(relay), workload.bytes, 1, false, &name)?;
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

    /// RTT and rate in both directions, repeated like a block where it is off.
    fn check_path_thoroughly(&mut self, label: &str) -> Result<(), LabError> {
        let mut why = String::new();
        for _ in 0..TRIES {
            let reading = self.bench.check_path(Depth::Thorough)?;
            let Some(problem) = self.note_check(&reading) else {
                let path = &mut self.evidence.path;
                path.rtt_achieved_s = reading.rtt().map(|rtt| rtt.as_secs_f64());
                path.rate_achieved_bps = reading.forward.rate.ok().map(bits_per_s);
                (self.notify)(Progress::Path(&self.evidence.path));
                return Ok(());
            };
            (self.notify)(Progress::Invalid {
                label,
                why: &problem,
            });
            why = problem;
        }
        Err(LabError::Path {
            label: label.to_owned(),
            why,
        })
    }

    /// Counts a check; what is off, if anything.
    fn note_check(&mut self, reading: &PathReading) -> Option<String> {
        let path = &mut self.evidence.path;
        path.rtt_asked_s = self.scenario.path.rtt.get().as_secs_f64();
        path.rate_asked_bps = bits_per_s(self.scenario.path.rate);
        path.checks += 1;
        let problems = reading.problems();
        if problems.is_empty() {
            return None;
        }
        path.invalid_checks += 1;
        Some(problems.join("; "))
    }

    fn finish(mut self, interrupted: bool) -> Result<Outcome, LabError> {
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
            let document = self.bench.explain(&files, spec.relay.is_none())?;
            self.write_json(&format!("explain-{}.json", slug(&spec.name)), &document)?;
            explanations.push((spec.name.clone(), document));
            if let Some(document) = self.explain_relay(spec)? {
                explanations.push((spec.name.clone(), document));
            }
        }
        let cells = results::cells(self.scenario, self.options.seed, &self.evidence);
        let assertions = if interrupted {
            Vec::new()
        } else {
            results::assertions(self.scenario, &cells)
        };
        let mut manifest = self.options.manifest.clone();
        manifest.facts.append(&mut self.bench.facts()?);
        let document = Document {
            schema: "longhaul.lab".to_owned(),
            version: record::VERSION,
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
        let Some(relay) = &arm.relay else {
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

/// A label as a part of a file's name: lower case, words joined by dashes.
#[must_use]
pub fn slug(label: &str) -> String {
    let dashed: String = label
        .chars()
        .map(|c| if c.is_ascii_alphanumeric() { c } else { '-' })
        .collect();
    dashed
        .split('-')
        .filter(|part| !part.is_empty())
        .collect::<Vec<_>>()
        .join("-")
        .to_lowercase()
}
