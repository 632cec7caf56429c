//! What an experiment does things with. [`Benches`](crate::bench::Benches) are the real ones; tests of the
//! experiment's own logic use one that needs no kernel.

use std::collections::BTreeMap;
use std::path::PathBuf;

use comparison::{Rivals, Transfer};
use record::explain::Document;
use record::lab::{Priming, Series};

use crate::bench::{BenchError, LegCapture};
use crate::probe::{Depth, PathReading};

/// One block to do.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Task<'a> {
    /// Index of the arm in the scenario.
    pub(crate) arm: usize,
    /// Index of the workload in the scenario.
    pub(crate) workload: usize,
    /// Transfers that count.
    pub(crate) transfers: u32,
    /// Transfers before them that do not.
    pub(crate) warm_up: u32,
    /// What its files are called; unique within a run.
    pub(crate) name: &'a str,
}

/// A block as it was measured, whether or not it counts.
#[derive(Debug, Default)]
pub(crate) struct Trial {
    /// Those that count, in order.
    pub(crate) transfers: Vec<Transfer>,
    /// Their series, in the same order; absent where nothing was seen.
    pub(crate) series: Vec<Option<Series>>,
    /// Captures of the client's packets, warm-up included.
    pub(crate) captures: Vec<PathBuf>,
    /// Captures of each hop of the payload at its sender, warm-up included.
    pub(crate) legs: Vec<LegCapture>,
    /// Transfers in the captures, those of the warm-up too.
    pub(crate) captured: usize,
    /// Between which moments each transfer that counts took place, in seconds since 1970.
    pub(crate) moments: Vec<(f64, f64)>,
    /// What became of rival flows beside each transfer that counts; empty where there are none.
    pub(crate) rivals: Vec<Rivals>,
    /// The path after the block, after each command of it, and after rivals were measured alone.
    pub(crate) readings: Vec<PathReading>,
    /// What was off about the link meanwhile, in its own words.
    pub(crate) link_problems: Vec<String>,
}

/// One thing at a time; the experiment decides what and how often.
pub(crate) trait Apparatus {
    /// One arm of each network that the scenario needs: whoever checks their paths has checked all.
    fn networks(&self) -> Vec<usize>;

    /// Starts the relays of `arm` that do not run yet, and waits until they are ready.
    fn start_relays(&mut self, arm: usize) -> Result<Vec<Priming>, BenchError>;

    /// Ends all relays. Captures that last as long as they do are complete then.
    fn stop_relays(&mut self) -> Result<(), BenchError>;

    /// Does a block; its transfers are proved where the workload can be.
    fn perform(&mut self, task: &Task<'_>) -> Result<Trial, BenchError>;

    /// One transfer through a pool of `arm`'s unprimed relay that has carried nothing.
    fn perform_unprimed(
        &mut self,
        arm: usize,
        workload: usize,
        name: &str,
    ) -> Result<Trial, BenchError>;

    /// Measures the path of `arm` from end to end, as the client and the origin see it.
    fn check_path(&mut self, arm: usize, depth: Depth) -> Result<PathReading, BenchError>;

    /// Explains `captures` as one timeline.
    fn explain(&self, captures: &[PathBuf], series: bool) -> Result<Document, BenchError>;

    /// What the manifest should say, at the end of a run.
    fn facts(&mut self) -> Result<BTreeMap<String, String>, BenchError>;

    /// Whether and why the link is less punctual than it could be.
    fn unpunctual(&self) -> Option<&str>;
}
