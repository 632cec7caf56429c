//! The experiment's own logic, on an apparatus that needs no kernel: what counts, what is repeated, what
//! is said.

use std::cell::RefCell;
use std::collections::{BTreeMap, VecDeque};
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use link::{LossSpec, PathSpec};
use record::Manifest;
use record::explain::Document;
use record::lab::Priming;
use scenario::Scenario;
use units::Bytes;

use crate::bench::BenchError;
use crate::experiment::apparatus::Apparatus;
use crate::experiment::run::Run;
use crate::experiment::{Options, Outcome, Progress};
use crate::probe::{Depth, PathReading};
use comparison::Transfer;

const RIGHT: u64 = 20;
const WRONG: u64 = 21;

/// Uploads that take as long as `seconds` says, on a path whose RTT in milliseconds is read from a list.
struct Fake {
    /// What the next checks will read; [`RIGHT`] after the last.
    rtts_ms: VecDeque<u64>,
    said: Rc<RefCell<Vec<String>>>,
}

impl Fake {
    fn say(&self, what: impl Into<String>) {
        self.said.borrow_mut().push(what.into());
    }
}

impl Apparatus for Fake {
    fn has_relay(&self, _name: &str) -> bool {
        false
    }

    fn start_relay(&mut self, name: &str, arm: &str) -> Result<Priming, BenchError> {
        self.say(format!("start {name}"));
        Ok(Priming {
            arm: arm.to_owned(),
            ..Priming::default()
        })
    }

    fn stop_relay(&mut self, _name: &str) -> Result<Option<PathBuf>, BenchError> {
        Ok(None)
    }

    fn is_origin(&self, _host: &str) -> bool {
        false
    }

    fn upload(
        &mut self,
        relay: Option<&str>,
        _bytes: Bytes,
        count: u32,
        _reuse: bool,
        name: &str,
    ) -> Result<Vec<Transfer>, BenchError> {
        self.say(format!("upload {name}"));
        let seconds = if relay.is_some() { 0.025 } else { 0.1 };
        Ok((0..count as usize)
            .map(|position| Transfer {
                position,
                seconds,
                ..Transfer::default()
            })
            .collect())
    }

    fn upload_by_command(
        &mut self,
        _command: &str,
        _relay: Option<&str>,
        _bytes: Bytes,
        name: &str,
        position: usize,
    ) -> Result<Transfer, BenchError> {
        self.say(format!("command {name}"));
        Ok(Transfer {
            position,
            seconds: 2.0,
            ..Transfer::default()
        })
    }

    fn start_capture(&mut self, _file: &Path) -> Result<(), BenchError> {
        Ok(())
    }

    fn stop_capture(&mut self) -> Result<(), BenchError> {
        Ok(())
    }

    fn check_path(&mut self, _depth: Depth) -> Result<PathReading, BenchError> {
        let rtt = Duration::from_millis(RIGHT);
        let path = PathSpec::symmetric(rtt, None, Bytes::kib(64), LossSpec::None, 1);
        let mut reading = PathReading::new(&path);
        let measured = self.rtts_ms.pop_front().unwrap_or(RIGHT);
        reading.rtt_samples = vec![Duration::from_millis(measured)];
        Ok(reading)
    }

    fn explain(&self, captures: &[PathBuf], _series: bool) -> Result<Document, BenchError> {
        self.say(format!("explain {}", captures.len()));
        Ok(Document {
            schema: "longhaul.explain".to_owned(),
            version: record::VERSION,
            manifest: Manifest::default(),
            captures: Vec::new(),
            connections: Vec::new(),
            echoes: Vec::new(),
            findings: Vec::new(),
        })
    }

    fn facts(&mut self) -> Result<BTreeMap<String, String>, BenchError> {
        Ok(BTreeMap::new())
    }

    fn unpunctual(&self) -> Option<&str> {
        None
    }
}

/// Two arms, one workload, two blocks of two uploads each.
fn scenario() -> Scenario {
    toml::from_str(
        r#"
        name = "s"
        seed = 1
        [path]
        rtt = "20 ms"
        rate = "100 Mbit/s"
        queue = "100 kB"
        [relays.hot]
        [[workloads]]
        name = "small"
        bytes = "100 KiB"
        assert = ["max(relay) <= 1 * min(direct)"]
        [[arms]]
        name = "direct"
        reuse = true
        [[arms]]
        name = "relay"
        relay = "hot"
        [experiment]
        runs = 4
        block = 2
        "#,
    )
    .unwrap()
}

/// What a run gave, what it did, and how often it said that the path was off.
struct Played {
    outcome: Outcome,
    said: Vec<String>,
    invalid: Vec<bool>,
}

fn play(rtts_ms: &[u64], client: Option<&str>, stop_after_blocks: usize) -> Played {
    let out = tempfile::tempdir().unwrap();
    let stop = Arc::new(AtomicBool::new(false));
    let options = Options {
        binary: PathBuf::new(),
        out: out.path().to_owned(),
        seed: 1,
        client: client.map(str::to_owned),
        stop: Arc::clone(&stop),
        manifest: Manifest::default(),
    };
    let said = Rc::new(RefCell::new(Vec::new()));
    let fake = Fake {
        rtts_ms: rtts_ms.iter().copied().collect(),
        said: Rc::clone(&said),
    };
    let mut invalid = Vec::new();
    let mut done = 0;
    let mut notify = |event: Progress<'_>| match event {
        Progress::Invalid { again, .. } => invalid.push(again),
        Progress::Done { .. } => {
            done += 1;
            stop.store(done == stop_after_blocks, Ordering::Relaxed);
        }
        Progress::Started { .. }
        | Progress::Path(_)
        | Progress::Primed(_)
        | Progress::Block { .. }
        | Progress::Explained { .. } => {}
    };
    let outcome = Run::new(&scenario(), &options, &mut notify, fake)
        .play()
        .unwrap();
    assert!(out.path().join("result.json").is_file());
    let said = said.borrow().clone();
    Played {
        outcome,
        said,
        invalid,
    }
}

fn uploads(said: &[String]) -> usize {
    said.iter()
        .filter(|what| what.starts_with("upload"))
        .count()
}

#[test]
fn a_right_path_counts_every_block_once() {
    let played = play(&[], None, usize::MAX);
    let cell = &played.outcome.document.cells[0];
    assert!(
        cell.valid && cell.arms.iter().all(|arm| arm.n == 4),
        "{cell:#?}"
    );
    assert_eq!(uploads(&played.said), 4);
    // One before, one per block, one after.
    assert_eq!((cell.path.checks, cell.path.invalid_checks), (6, 0));
    assert!(played.outcome.document.assertions[0].holds);
}

#[test]
fn a_block_on_a_wrong_path_is_repeated_and_does_not_count() {
    let played = play(&[RIGHT, WRONG, WRONG], None, usize::MAX);
    let cell = &played.outcome.document.cells[0];
    assert_eq!(played.invalid, [true, true]);
    assert_eq!(uploads(&played.said), 6, "two blocks more");
    assert!(
        cell.valid && cell.arms.iter().all(|arm| arm.n == 4),
        "{cell:#?}"
    );
    assert_eq!((cell.path.checks, cell.path.invalid_checks), (8, 2));
}

#[test]
fn a_path_that_stays_wrong_fails_the_run_and_says_why() {
    let played = play(&[RIGHT, WRONG, WRONG, WRONG], None, usize::MAX);
    let document = &played.outcome.document;
    assert_eq!(played.invalid, [true, true, false]);
    assert_eq!(uploads(&played.said), 3, "nothing runs after the third try");
    let cell = &document.cells[0];
    let why = cell.why.as_deref().unwrap();
    assert!(
        !cell.valid && why.contains("3 times") && why.contains("the RTT is 21 ms"),
        "{why}"
    );
    assert!(cell.arms.iter().all(|arm| arm.n == 0), "{cell:#?}");
    assert!(!document.assertions.is_empty());
    assert!(
        document.assertions.iter().all(|one| !one.holds),
        "{document:#?}"
    );
}

#[test]
fn a_path_that_is_wrong_at_the_start_or_at_the_end_fails_the_run() {
    let at_the_end = [&[RIGHT; 5][..], &[WRONG; 3][..]].concat();
    for rtts_ms in [&[WRONG; 3][..], &at_the_end] {
        let played = play(rtts_ms, None, usize::MAX);
        let cell = &played.outcome.document.cells[0];
        assert!(!cell.valid, "{cell:#?}");
        assert_eq!(played.invalid, [true, true, false]);
        assert_eq!(
            cell.path.rtt_achieved_s,
            Some(0.021),
            "what was measured is shown"
        );
    }
}

#[test]
fn an_interrupted_run_keeps_its_blocks_and_asserts_nothing() {
    let played = play(&[], None, 2);
    let document = &played.outcome.document;
    assert!(document.interrupted);
    assert_eq!(document.order.len(), 2);
    let measured: u64 = document.cells[0].arms.iter().map(|arm| arm.n).sum();
    assert_eq!(measured, 4);
    assert!(document.assertions.is_empty());
}

#[test]
fn an_external_command_runs_once_per_transfer_and_leaves_reuse_out() {
    let played = play(&[], Some("cp"), usize::MAX);
    let commands = played
        .said
        .iter()
        .filter(|what| what.starts_with("command"));
    assert_eq!(commands.count(), 4, "{:?}", played.said);
    assert_eq!(uploads(&played.said), 0);
    let cell = &played.outcome.document.cells[0];
    assert_eq!(cell.arms[0].n, 0, "`direct` reuses here");
    // The fake's captures are empty: without a time from the wire nothing counts.
    assert_eq!(cell.arms[1].failed, 4);
    assert!(!cell.valid);
}
