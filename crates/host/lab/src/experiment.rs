//! A scenario, run: blocks of transfers in every arm, on a path that endpoints check, captured and
//! explained, with the prediction written before the arm it speaks of.

pub(crate) mod apparatus;
mod beyond;
mod finish;
mod legs;
mod run;
mod sweep;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use record::Manifest;
use record::explain;
use record::lab::{Document, Priming};
use scenario::{Problem, Scenario, Variant};
use units::Rate;

pub use crate::bench::quoted;
use crate::bench::{BenchError, Benches};
use crate::experiment::apparatus::Apparatus as _;
pub use crate::experiment::beyond::problems;
use crate::experiment::run::Run;
pub use crate::experiment::sweep::run;
use comparison::{Predicted, Transfer};

/// What a run needs beside its scenario.
#[derive(Clone, Debug)]
pub struct Options {
    /// The `longhaul` binary, which is relay, origin, client, link and `explain` in one.
    pub binary: PathBuf,
    /// Where captures, logs and results go; made if absent.
    pub out: PathBuf,
    /// Seed instead of the scenario's.
    pub seed: u64,
    /// Who plays the path.
    pub backend: Backend,
    /// Set from a signal handler: the run ends after the transfer under way and keeps what it has.
    pub stop: Arc<AtomicBool>,
    /// What the manifest can say before the run.
    pub manifest: Manifest,
}

/// Who plays the path between the two sites.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum Backend {
    /// Our own [`emulator`](crate::emulator).
    #[default]
    Ours,
    /// Linux's own, where the kernel has it ([`netem`](crate::netem)).
    Netem,
}

/// What happens, for whoever shows progress.
#[derive(Debug)]
pub enum Progress<'a> {
    /// A combination of factors begins; the only one where there are none.
    Part {
        /// Its number, from 0.
        index: usize,
        /// How many there are.
        parts: usize,
        /// Factors and their values.
        factors: &'a BTreeMap<String, String>,
    },
    /// Namespaces, link and origin stand; this many blocks will follow.
    Started {
        /// Blocks of the run.
        blocks: usize,
        /// Why the link is less punctual than it could be, and what that costs.
        unpunctual: Option<&'a str>,
    },
    /// Endpoints measured the path of a network thoroughly; beside it what of the scenario's path they did not
    /// look at.
    Path(&'a record::lab::NetworkCheck, &'a [String]),
    /// A relay's pool is ready.
    Primed(&'a Priming),
    /// A block begins.
    Block {
        /// Its number, from 0.
        index: usize,
        /// What it does, such as `relay, 100 KiB`.
        label: &'a str,
    },
    /// So many blocks more, because a median is not known as precisely as was asked.
    More {
        /// Blocks of this round.
        blocks: usize,
    },
    /// The path was off: what was measured meanwhile does not count.
    Invalid {
        /// In which block or check.
        label: &'a str,
        /// What was off.
        why: &'a str,
        /// Whether it is tried again.
        again: bool,
    },
    /// All transfers of a block have ended, and the path was right.
    Done {
        /// Which block.
        label: &'a str,
        /// Its transfers.
        transfers: &'a [Transfer],
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
    /// Every transfer, for tables of other programs.
    pub rows: Vec<Row>,
}

/// One transfer that counts.
#[derive(Clone, Debug)]
pub struct Row {
    /// Factors of a sweep.
    pub factors: BTreeMap<String, String>,
    /// The workload's name.
    pub workload: String,
    /// The arm's name.
    pub arm: String,
    /// Its number in this arm, from 1, in the order in which they ran.
    pub number: u64,
    /// What was measured.
    pub transfer: Transfer,
}

/// A run could not be finished.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LabError {
    /// The scenario asks for what can't be measured here.
    #[error(
        "the scenario asks for more than the lab can play:\n  {}",
        list(problems)
    )]
    Beyond {
        /// All of it.
        problems: Vec<Problem>,
    },
    /// There is no scenario in what was to be run.
    #[error("nothing was to be run")]
    Nothing,
    /// The bench could not be set up or broke.
    #[error(transparent)]
    Bench(#[from] BenchError),
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

/// Runs one part of a sweep, or all of an experiment that has no factors.
fn play(
    part: &Variant,
    options: &Options,
    notify: &mut dyn FnMut(Progress<'_>),
) -> Result<Outcome, LabError> {
    let scenario = &part.scenario;
    let bench = Benches::build(scenario, options)?;
    Run::new(scenario, part.factors.clone(), options, notify, bench).play()
}

/// Builds a scenario's network with origin and relays, says which hosts it has, and keeps it until
/// [`Options::stop`]. Must be called inside an isolated process.
pub fn stand(
    scenario: &Scenario,
    options: &Options,
    ready: &mut dyn FnMut(&[String]),
) -> Result<(), LabError> {
    let problems = problems(scenario, options.backend);
    if !problems.is_empty() {
        return Err(LabError::Beyond { problems });
    }
    let mut benches = Benches::build(scenario, options)?;
    for arm in 0..scenario.arms.len() {
        benches.start_relays(arm)?;
    }
    ready(&benches.hosts());
    while !options.stop.load(Ordering::Relaxed) {
        benches.expect_all_alive()?;
        std::thread::sleep(LOOK);
    }
    Ok(())
}

/// Between two looks at whether a standing network should end, or has broken.
const LOOK: Duration = Duration::from_millis(100);

fn write_json(path: &Path, document: &impl serde::Serialize) -> Result<(), LabError> {
    let fail = |source| LabError::Write {
        path: path.to_owned(),
        source,
    };
    let text = serde_json::to_string_pretty(document).map_err(|error| fail(error.into()))?;
    std::fs::write(path, text).map_err(fail)
}

#[expect(
    clippy::cast_precision_loss,
    reason = "rates below 2^53 bit/s are exact"
)]
fn bits_per_s(rate: Rate) -> f64 {
    rate.bits_per_s() as f64
}

fn list(problems: &[Problem]) -> String {
    let lines: Vec<String> = problems.iter().map(ToString::to_string).collect();
    lines.join("\n  ")
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
