//! The experiment's own logic, on an apparatus that needs no kernel: what counts, what is repeated, what
//! is said.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::path::PathBuf;
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
use crate::experiment::apparatus::{Apparatus, Task, Trial};
use crate::experiment::run::Run;
use crate::experiment::{Options, Outcome, Progress};
use crate::probe::{Depth, PathReading};
use comparison::Transfer;

const RIGHT: u64 = 20;
const WRONG: u64 = 21;

/// Index of the arm through the relay.
const RELAY: usize = 1;

/// Transfers without a kernel, on a path whose RTT in milliseconds is read from a list.
#[derive(Default)]
struct Fake {
    /// What the next checks will read; [`RIGHT`] after the last.
    rtts_ms: VecDeque<u64>,
    /// What the link will say was off in the next blocks.
    link_problems: VecDeque<String>,
    /// After so many blocks nothing works any more.
    breaks_after: Option<usize>,
    /// Blocks so far.
    blocks: usize,
    /// Whether the transfer through an unprimed pool fails.
    unprimed_fails: bool,
    /// By how much every other block of direct transfers takes longer, in seconds.
    spread: f64,
    /// By how many bytes every other block of direct transfers carries less.
    payload_spread: u64,
    /// Blocks of direct transfers so far.
    direct_blocks: usize,
    said: Rc<RefCell<Vec<String>>>,
}

impl Fake {
    fn say(&self, what: impl Into<String>) {
        self.said.borrow_mut().push(what.into());
    }
}

impl Apparatus for Fake {
    fn networks(&self) -> Vec<usize> {
        vec![0]
    }

    fn start_relays(&mut self, arm: usize) -> Result<Vec<Priming>, BenchError> {
        self.say(format!("start the relays of {arm}"));
        Ok(Vec::new())
    }

    fn stop_relays(&mut self) -> Result<(), BenchError> {
        Ok(())
    }

    fn perform(&mut self, task: &Task<'_>) -> Result<Trial, BenchError> {
        self.say(format!("perform {}", task.name));
        if self.breaks_after == Some(self.blocks) {
            return Err(broken());
        }
        self.blocks += 1;
        let relayed = task.arm == RELAY;
        self.direct_blocks += usize::from(!relayed);
        let other = !relayed && self.direct_blocks.is_multiple_of(2);
        let transfer = |position: u32| Transfer {
            position: position as usize,
            seconds: match (relayed, other) {
                (true, _) => 0.025,
                (false, false) => 0.1,
                (false, true) => 0.1 + self.spread,
            },
            bytes: 102_400 - if other { self.payload_spread } else { 0 },
            counters: BTreeMap::from([("client: TcpRetransSegs".to_owned(), position.into())]),
            ..Transfer::default()
        };
        Ok(Trial {
            transfers: (0..task.transfers).map(transfer).collect(),
            readings: vec![self.check_path(task.arm, Depth::RoundTrip)?],
            link_problems: self.link_problems.pop_front().into_iter().collect(),
            ..Trial::default()
        })
    }

    fn perform_unprimed(
        &mut self,
        arm: usize,
        _workload: usize,
        name: &str,
    ) -> Result<Trial, BenchError> {
        self.say(name);
        Ok(Trial {
            transfers: vec![Transfer {
                seconds: 0.05,
                failure: self.unprimed_fails.then(|| "reset by peer".to_owned()),
                ..Transfer::default()
            }],
            readings: vec![self.check_path(arm, Depth::RoundTrip)?],
            ..Trial::default()
        })
    }

    fn check_path(&mut self, _arm: usize, _depth: Depth) -> Result<PathReading, BenchError> {
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
            census: record::explain::Census::default(),
            echoes: Vec::new(),
            findings: Vec::new(),
            explained: None,
            servers: Vec::new(),
            pairs: Vec::new(),
        })
    }

    fn facts(&mut self) -> Result<BTreeMap<String, String>, BenchError> {
        if self.breaks_after == Some(self.blocks) {
            return Err(broken());
        }
        Ok(BTreeMap::new())
    }

    fn unpunctual(&self) -> Option<&str> {
        None
    }
}

fn broken() -> BenchError {
    BenchError::Command {
        command: "link".to_owned(),
        source: std::io::Error::other("gone"),
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
    /// Blocks that were added for precision.
    more: usize,
}

fn play(rtts_ms: &[u64], stop_after_blocks: usize) -> Played {
    let fake = Fake {
        rtts_ms: rtts_ms.iter().copied().collect(),
        ..Fake::default()
    };
    play_with(&scenario(), fake, stop_after_blocks)
}

fn play_with(scenario: &Scenario, fake: Fake, stop_after_blocks: usize) -> Played {
    let out = tempfile::tempdir().unwrap();
    let stop = Arc::new(AtomicBool::new(false));
    let options = Options {
        backend: crate::experiment::Backend::Ours,
        binary: PathBuf::new(),
        out: out.path().to_owned(),
        seed: 1,
        stop: Arc::clone(&stop),
        manifest: Manifest::default(),
    };
    let said = Rc::clone(&fake.said);
    let (mut invalid, mut more, mut done) = (Vec::new(), 0, 0);
    let mut notify = |event: Progress<'_>| match event {
        Progress::Invalid { again, .. } => invalid.push(again),
        Progress::More { blocks } => more += blocks,
        Progress::Done { .. } => {
            done += 1;
            stop.store(done == stop_after_blocks, Ordering::Relaxed);
        }
        Progress::Part { .. }
        | Progress::Started { .. }
        | Progress::Path(..)
        | Progress::Primed(_)
        | Progress::Block { .. }
        | Progress::Explained { .. } => {}
    };
    let outcome = Run::new(scenario, BTreeMap::new(), &options, &mut notify, fake)
        .play()
        .unwrap();
    assert!(out.path().join("result.json").is_file());
    let said = said.borrow().clone();
    Played {
        outcome,
        said,
        invalid,
        more,
    }
}

fn blocks(said: &[String]) -> usize {
    said.iter()
        .filter(|what| what.starts_with("perform"))
        .count()
}

#[test]
fn a_right_path_counts_every_block_once() {
    let played = play(&[], usize::MAX);
    let cell = &played.outcome.document.cells[0];
    assert!(
        cell.valid && cell.arms.iter().all(|arm| arm.n == 4),
        "{cell:#?}"
    );
    assert_eq!(blocks(&played.said), 4);
    // One before, one per block, one after.
    assert_eq!((cell.path.checks, cell.path.invalid_checks), (6, 0));
    assert!(played.outcome.document.assertions[0].holds);
    let name = "client: TcpRetransSegs";
    assert_eq!(cell.arms[0].counters_by_run[name], [0, 1, 0, 1]);
    assert_eq!(cell.arms[0].counters[name], 2);
    assert_eq!(played.outcome.rows.len(), 8);
}

#[test]
fn a_block_on_a_wrong_path_is_repeated_and_does_not_count() {
    let played = play(&[RIGHT, WRONG, WRONG], usize::MAX);
    let cell = &played.outcome.document.cells[0];
    assert_eq!(played.invalid, [true, true]);
    assert_eq!(blocks(&played.said), 6, "two blocks more");
    assert!(
        cell.valid && cell.arms.iter().all(|arm| arm.n == 4),
        "{cell:#?}"
    );
    assert_eq!((cell.path.checks, cell.path.invalid_checks), (8, 2));
    let invalid: u64 = cell.arms.iter().map(|arm| arm.invalid_blocks).sum();
    assert_eq!(invalid, 2);
}

#[test]
fn a_block_in_which_the_link_was_late_is_repeated_and_says_why() {
    let fake = Fake {
        link_problems: VecDeque::from(["the link was late".to_owned()]),
        ..Fake::default()
    };
    let played = play_with(&scenario(), fake, usize::MAX);
    assert_eq!(played.invalid, [true]);
    let arms = &played.outcome.document.cells[0].arms;
    let reasons: Vec<&String> = arms.iter().flat_map(|arm| &arm.invalid_because).collect();
    assert_eq!(reasons, ["the link was late"]);
    assert!(arms.iter().all(|arm| arm.n == 4));
}

fn precise(name: &str) -> Scenario {
    let mut scenario = scenario();
    scenario.experiment.precision = Some("5 %".parse().unwrap());
    scenario.experiment.max_runs = Some(40);
    scenario.workloads[0].name = name.to_owned();
    scenario
}

#[test]
fn rounds_follow_until_medians_are_precise_or_there_are_enough() {
    let even = play_with(&precise("even"), Fake::default(), usize::MAX);
    let arms = &even.outcome.document.cells[0].arms;
    assert!(
        even.more > 0 && arms.iter().all(|arm| arm.n < 20),
        "{}",
        even.more
    );

    let fake = Fake {
        spread: 0.05,
        ..Fake::default()
    };
    let uneven = play_with(&precise("uneven"), fake, usize::MAX);
    let document = &uneven.outcome.document;
    let cell = &document.cells[0];
    // The relay is known at once and goes on: what is compared must have partners.
    assert!(cell.arms.iter().all(|arm| arm.n == 40), "{cell:#?}");
    assert!(
        cell.comparisons.iter().all(|comparison| comparison.paired),
        "{:#?}",
        cell.comparisons
    );
    let rounds: BTreeSet<&[String]> = document.order.chunks(2).collect();
    assert_eq!(rounds.len(), 2, "each has an order of its own: {rounds:?}");
    let alike = |round: &&[String]| round[0] == round[1];
    assert!(!rounds.iter().any(alike), "one block of each: {rounds:?}");
}

#[test]
fn streams_go_on_until_their_rate_is_precise_however_even_their_duration() {
    let mut scenario = precise("stream");
    scenario.workloads[0].kind = scenario::Kind::Stream;
    scenario.workloads[0].bytes = None;
    scenario.workloads[0].duration = Some("2 s".parse().unwrap());
    let fake = || Fake {
        payload_spread: 60_000,
        ..Fake::default()
    };
    let played = play_with(&scenario, fake(), usize::MAX);
    let arms = &played.outcome.document.cells[0].arms;
    assert!(arms.iter().all(|arm| arm.n == 40), "{arms:#?}");
}

fn unprimed() -> Scenario {
    let mut scenario = scenario();
    scenario.arms[RELAY].unprimed = Some("cold".to_owned());
    scenario
}

#[test]
fn a_transfer_through_an_unprimed_pool_is_repeated_where_the_path_was_off() {
    let mut rtts_ms: VecDeque<u64> = [RIGHT; 5].into();
    rtts_ms.push_back(WRONG);
    let fake = Fake {
        rtts_ms,
        ..Fake::default()
    };
    let played = play_with(&unprimed(), fake, usize::MAX);
    assert_eq!(played.invalid, [true]);
    let tries: Vec<&String> = played
        .said
        .iter()
        .filter(|what| what.starts_with("unprimed"))
        .collect();
    assert_eq!(
        tries,
        [
            "unprimed-relay-small-unprimed-0",
            "unprimed-relay-small-unprimed-1"
        ]
    );
    let cell = &played.outcome.document.cells[0];
    assert!(cell.valid, "{cell:#?}");
    assert_eq!(cell.arms[RELAY].first_unprimed_s, Some(0.05));
    assert_eq!(cell.arms[RELAY].invalid_blocks, 1);

    let fake = Fake {
        rtts_ms: [[RIGHT; 5].as_slice(), &[WRONG; 3]].concat().into(),
        ..Fake::default()
    };
    let played = play_with(&unprimed(), fake, usize::MAX);
    let cell = &played.outcome.document.cells[0];
    assert!(!cell.valid && cell.arms[RELAY].first_unprimed_s.is_none());
}

#[test]
fn a_transfer_through_an_unprimed_pool_that_fails_is_not_left_out_in_silence() {
    let fake = Fake {
        unprimed_fails: true,
        ..Fake::default()
    };
    let played = play_with(&unprimed(), fake, usize::MAX);
    let cell = &played.outcome.document.cells[0];
    let why = cell.why.as_deref().unwrap();
    assert!(why.contains("reset by peer"), "{why}");
    assert!(!cell.valid && cell.arms[RELAY].first_unprimed_s.is_none());
}

#[test]
fn a_path_that_stays_wrong_fails_the_run_and_says_why() {
    let played = play(&[RIGHT, WRONG, WRONG, WRONG], usize::MAX);
    let document = &played.outcome.document;
    assert_eq!(played.invalid, [true, true, false]);
    assert_eq!(blocks(&played.said), 3, "nothing runs after the third try");
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
        let played = play(rtts_ms, usize::MAX);
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
    let played = play(&[], 2);
    let document = &played.outcome.document;
    assert!(document.interrupted);
    assert_eq!(document.order.len(), 2);
    let measured: u64 = document.cells[0].arms.iter().map(|arm| arm.n).sum();
    assert_eq!(measured, 4);
    assert!(document.assertions.is_empty());
}

#[test]
fn what_was_measured_before_something_broke_is_kept_with_the_reason() {
    let fake = Fake {
        breaks_after: Some(3),
        ..Fake::default()
    };
    let played = play_with(&scenario(), fake, usize::MAX);
    let document = &played.outcome.document;
    let why = document.broken.as_deref().unwrap();
    assert_eq!(why, "cannot run the command `link`: gone");
    assert_eq!(document.order.len(), 3);
    let measured: u64 = document.cells[0].arms.iter().map(|arm| arm.n).sum();
    assert_eq!(measured, 6);
    assert!(document.interrupted && document.assertions.is_empty());
}

#[test]
fn a_command_leaves_reuse_out() {
    let mut scenario = scenario();
    scenario.workloads[0].command = Some("cp".to_owned());
    let played = play_with(&scenario, Fake::default(), usize::MAX);
    let cell = &played.outcome.document.cells[0];
    assert_eq!(cell.arms[0].n, 0, "`direct` reuses here");
    assert_eq!(cell.arms[RELAY].n, 4);
}
