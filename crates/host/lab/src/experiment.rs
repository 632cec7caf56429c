//! A scenario, run: blocks of transfers in every arm, on a path that endpoints check, captured and
//! explained, with the prediction written before the arm it speaks of.

pub(crate) mod apparatus;
mod run;
#[cfg(test)]
mod tests;
mod wire;

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use record::Manifest;
use record::explain;
use record::lab::{Document, Priming};
use scenario::{Problem, Scenario};

use crate::bench::{Bench, BenchError};
use crate::experiment::run::Run;
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
        /// Why the link is less punctual than it could be, and what that costs.
        unpunctual: Option<&'a str>,
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
}

/// A run could not be finished.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LabError {
    /// The scenario asks for what can't be measured here.
    #[error("the scenario asks for more than the lab can play:\n  {}", list(problems))]
    Beyond {
        /// All of it.
        problems: Vec<Problem>,
    },
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

/// Runs `scenario`. Must be called inside an isolated process (`sys::isolation`).
///
/// A path that stays off is no error: the outcome then says that nothing of it counts, and why.
pub fn run(
    scenario: &Scenario,
    options: &Options,
    notify: &mut dyn FnMut(Progress<'_>),
) -> Result<Outcome, LabError> {
    let problems = scenario.beyond_plain_uploads("the lab");
    if !problems.is_empty() {
        return Err(LabError::Beyond { problems });
    }
    let bench = Bench::build(scenario, &options.binary, &options.out, options.seed)?;
    Run::new(scenario, options, notify, bench).play()
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
