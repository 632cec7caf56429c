//! Rules over all connections of a capture, one file each.
//!
//! A rule reads facts and attribution and returns findings; rules do not see each other, so their order
//! never changes a result.

mod blackhole;
mod capture_artefact;
mod connection_reuse;
mod continue_wait;
mod fixed_window;
mod flight;
mod half_closed;
mod handshake_options;
mod held;
mod idle_restart;
mod loss_recovery;
mod low_ssthresh;
mod parallel;
mod path;
mod peer_window;
mod shown;
mod steps;
mod syn_loss;
mod tls_resumption;
mod tls_round_trips;
mod zero_window;

use core::time::Duration;

use connections::{Side, Tracked};
use record::explain::{Capture, Confidence, Evidence, Finding, Prediction, Severity};
use tuning::remedies::{Cause, Target};

use crate::analysis::Analysed;

pub(crate) use shown::Shown;

/// A finding that this program can make.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct CatalogueEntry {
    /// Its stable name.
    pub name: &'static str,
    /// What it means, in one sentence.
    pub meaning: &'static str,
    /// Where the rule comes from.
    pub source: &'static str,
}

/// Every finding, by name.
pub const CATALOGUE: [CatalogueEntry; 24] = [
    capture_artefact::ENTRY,
    continue_wait::ENTRY,
    fixed_window::ENTRY,
    half_closed::ENTRY,
    held::LOSS_LIMITED,
    loss_recovery::ENTRY,
    low_ssthresh::ENTRY,
    held::NAGLE,
    connection_reuse::ENTRY,
    handshake_options::NO_SACK,
    handshake_options::NO_TIMESTAMPS,
    handshake_options::NO_WINDOW_SCALING,
    parallel::ENTRY,
    held::PATH_FULL,
    peer_window::ENTRY,
    blackhole::ENTRY,
    held::POLICER,
    held::SEND_BUFFER,
    idle_restart::ENTRY,
    handshake_options::SMALL_MSS,
    syn_loss::ENTRY,
    tls_round_trips::ENTRY,
    tls_resumption::ENTRY,
    zero_window::ENTRY,
];

type Rule = fn(&[Analysed]) -> Vec<Judged>;

const RULES: [Rule; 17] = [
    blackhole::find,
    capture_artefact::find,
    connection_reuse::find,
    continue_wait::find,
    fixed_window::find,
    half_closed::find,
    handshake_options::find,
    held::find,
    idle_restart::find,
    loss_recovery::find,
    low_ssthresh::find,
    parallel::find,
    peer_window::find,
    syn_loss::find,
    tls_resumption::find,
    tls_round_trips::find,
    zero_window::find,
];

/// All findings, by lost time, then severity, then name; remedies in the terms of `target`, or else of what
/// each host looks like.
pub(crate) fn all(
    connections: &[Analysed],
    tracked: &Tracked,
    captures: &[Capture],
    target: Option<Target>,
) -> Vec<Finding> {
    let judged = RULES.iter().flat_map(|rule| rule(connections));
    let mut findings: Vec<Finding> = judged
        .map(|judged| steps::complete(judged, connections, target))
        .collect();
    for evidence in findings
        .iter_mut()
        .flat_map(|finding| &mut finding.evidence)
    {
        let (capture, frame) = tracked.locate(evidence.frame);
        evidence.frame = frame;
        evidence.capture = captures
            .get(capture)
            .filter(|_| captures.len() > 1)
            .map(|capture| capture.file.clone());
    }
    findings.sort_by(|one, other| {
        let lost = |finding: &Finding| finding.lost_s.unwrap_or(0.0);
        lost(other)
            .total_cmp(&lost(one))
            .then_with(|| other.severity.cmp(&one.severity))
            .then_with(|| one.name.cmp(&other.name))
            .then_with(|| one.connections.cmp(&other.connections))
            .then_with(|| one.summary.cmp(&other.summary))
    });
    findings
}

/// Frames shown per finding: enough to check it by hand, few enough to read.
const MAX_EVIDENCE: usize = 12;

/// What a rule found, before it is a record.
struct Found {
    severity: Severity,
    confidence: Confidence,
    summary: String,
    connections: Vec<u32>,
    evidence: Vec<Evidence>,
    lost: Option<Duration>,
    remedy: String,
    predicted: Vec<Prediction>,
    needs: Vec<Need>,
}

/// A setting, and the side whose host or program needs it.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
struct Need {
    cause: Cause,
    side: Side,
}

impl Need {
    const fn new(cause: Cause, side: Side) -> Self {
        Self { cause, side }
    }
}

/// A finding that still lacks what is the same for all: commands and filter.
struct Judged {
    finding: Finding,
    needs: Vec<Need>,
}

impl Found {
    fn into_finding(mut self, entry: &CatalogueEntry) -> Judged {
        self.connections.sort_unstable();
        self.connections.dedup();
        self.evidence.truncate(MAX_EVIDENCE);
        let finding = Finding {
            name: entry.name.into(),
            severity: self.severity,
            confidence: self.confidence,
            summary: self.summary,
            connections: self.connections,
            evidence: self.evidence,
            lost_s: self.lost.map(|lost| lost.as_secs_f64()),
            remedy: self.remedy,
            steps: Vec::new(),
            profile: None,
            filter: None,
            predicted: self.predicted,
            source: entry.source.into(),
        };
        Judged {
            finding,
            needs: self.needs,
        }
    }
}

/// The frame by its number through all captures; [`all`] turns it into the one in its own.
fn frame(mark: connections::Mark, shows: impl Into<String>) -> Evidence {
    Evidence {
        capture: None,
        frame: mark.frame,
        shows: shows.into(),
    }
}

/// Most of the time, some of it, or little.
fn severity_of(lost: Duration, of: Duration) -> Severity {
    if lost * 2 >= of && !lost.is_zero() {
        Severity::Critical
    } else if lost * 20 >= of && !lost.is_zero() {
        Severity::Warning
    } else {
        Severity::Info
    }
}
