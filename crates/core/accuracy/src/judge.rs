//! One case at one place, explained and compared with its labels.

use std::collections::BTreeMap;

use capture::{Observations, ReadError};
use connections::Tracker;
use explain::Options;
use link::InvalidPath;
use record::LimitName;
use record::explain::{Confidence, Document};
use sim::Side;
use units::Time;

use crate::case::{Case, Tap};
use crate::drive::{Played, play};
use crate::tap::{Journey, journeys, offloaded, passing, pcapng};
use crate::truth::{Label, labels};

/// Seconds by what held and what was said.
pub type Confusion = BTreeMap<(LimitName, LimitName), f64>;

/// How one capture was explained.
#[derive(Clone, Debug, PartialEq)]
pub struct Judged {
    /// What the case was built for.
    pub cause: LimitName,
    /// Which form of it.
    pub form: &'static str,
    /// Whether nothing else should be dominant.
    pub single: bool,
    /// Which draw.
    pub seed: u64,
    /// Where the capture was made.
    pub tap: Tap,
    /// Whether it holds segments larger than packets.
    pub offload: bool,
    /// Packets in it.
    pub packets: u64,
    /// Seconds by what held and what was said.
    pub confusion: Confusion,
    /// What was said to dominate.
    pub dominant: Option<LimitName>,
    /// The names of all findings.
    pub findings: Vec<String>,
    /// Findings of high confidence that name a limit which hardly held.
    pub wrong_findings: Vec<String>,
}

/// A case played once, to be captured in several places.
#[derive(Clone, Debug)]
pub struct Trial {
    case: Case,
    played: Played,
    journeys: Vec<Journey>,
}

/// A case could not be judged.
#[derive(Debug, thiserror::Error)]
pub enum JudgeError {
    /// Its path contradicts itself.
    #[error("case `{form}`, draw {seed}: the path is not valid")]
    Path {
        /// The case.
        form: &'static str,
        /// Its draw.
        seed: u64,
        /// Why.
        #[source]
        source: InvalidPath,
    },
    /// What was written cannot be read.
    #[error("case `{form}`, draw {seed}: the capture cannot be read")]
    Read {
        /// The case.
        form: &'static str,
        /// Its draw.
        seed: u64,
        /// Why.
        #[source]
        source: ReadError,
    },
    /// The capture does not hold exactly one connection whose larger direction is the data's.
    #[error("case `{form}`, draw {seed}: {connections} connections, {direction} drawn")]
    Connection {
        /// The case.
        form: &'static str,
        /// Its draw.
        seed: u64,
        /// How many there are.
        connections: usize,
        /// The direction that carries more.
        direction: String,
    },
}

impl Trial {
    /// Plays `case` in virtual time.
    pub fn play(case: Case) -> Result<Self, JudgeError> {
        let played = play(&case).map_err(|source| JudgeError::Path {
            form: case.form,
            seed: case.seed,
            source,
        })?;
        let journeys = journeys(&played.log);
        Ok(Self {
            case,
            played,
            journeys,
        })
    }

    /// The capture at `tap`, as pcapng.
    #[must_use]
    pub fn capture(&self, tap: Tap, offload: bool) -> Vec<u8> {
        self.seen(tap, offload).0
    }

    fn seen(&self, tap: Tap, offload: bool) -> (Vec<u8>, Vec<Label>) {
        let seen = passing(&self.case, &self.journeys, tap);
        let labels = labels(&self.case, &self.played, &self.journeys, &seen, tap);
        let shown = if offload { offloaded(&seen) } else { seen };
        (pcapng(&self.case, &shown), labels)
    }

    /// What is said of the capture at `tap`, in the same form as [`labels`](Self::labels).
    pub fn said(&self, tap: Tap, offload: bool) -> Result<Vec<(f64, f64, LimitName)>, JudgeError> {
        let document = explained(&self.case, &self.seen(tap, offload).0)?;
        let series = document
            .connections
            .into_iter()
            .next()
            .and_then(|one| one.series);
        Ok(series.map(|series| series.limits).unwrap_or_default())
    }

    /// What held, from when to when in seconds from the capture's first packet.
    #[must_use]
    pub fn labels(&self, tap: Tap) -> Vec<(f64, f64, LimitName)> {
        let labels = self.seen(tap, false).1;
        let start = labels.first().map_or(Time::ZERO, |label| label.from);
        labels
            .iter()
            .map(|label| {
                (
                    seconds(label.from, start),
                    seconds(label.to, start),
                    label.limit,
                )
            })
            .collect()
    }
}

/// Explains the capture of `trial` at `tap` and compares.
pub fn judge(trial: &Trial, tap: Tap, offload: bool) -> Result<Judged, JudgeError> {
    let case = &trial.case;
    let (capture, labels) = trial.seen(tap, offload);
    let document = explained(case, &capture)?;
    let expected = match case.sender {
        Side::Near => "client_to_server",
        Side::Far => "server_to_client",
    };
    let [connection] = document.connections.as_slice() else {
        return Err(unfit(case, document.connections.len(), String::new()));
    };
    let Some(series) = connection
        .series
        .as_ref()
        .filter(|series| series.direction == expected)
    else {
        let direction = connection
            .series
            .as_ref()
            .map(|series| series.direction.clone());
        return Err(unfit(case, 1, direction.unwrap_or_default()));
    };
    let direction = match case.sender {
        Side::Near => &connection.directions.client_to_server,
        Side::Far => &connection.directions.server_to_client,
    };
    let confusion = compare(&labels, &series.limits);
    let wrong_findings = wrong_findings(&document, &confusion);
    Ok(Judged {
        cause: case.cause,
        form: case.form,
        single: case.single,
        seed: case.seed,
        tap,
        offload,
        packets: document
            .captures
            .iter()
            .map(|capture| capture.packets)
            .sum(),
        confusion,
        dominant: direction.dominant,
        findings: document
            .findings
            .iter()
            .map(|finding| finding.name.clone())
            .collect(),
        wrong_findings,
    })
}

const fn unfit(case: &Case, connections: usize, direction: String) -> JudgeError {
    JudgeError::Connection {
        form: case.form,
        seed: case.seed,
        connections,
        direction,
    }
}

fn explained(case: &Case, capture: &[u8]) -> Result<Document, JudgeError> {
    let mut observations = Observations::new(capture);
    let mut tracker = Tracker::new();
    loop {
        match observations.next_observation() {
            Ok(Some(observation)) => tracker.observe(&observation),
            Ok(None) => break,
            Err(source) => {
                return Err(JudgeError::Read {
                    form: case.form,
                    seed: case.seed,
                    source,
                });
            }
        }
    }
    let options = Options {
        captures: vec![record::explain::Capture::default()],
        series: true,
        ..Options::default()
    };
    Ok(explain::explain(&tracker.finish(), options))
}

fn compare(labels: &[Label], said: &[(f64, f64, LimitName)]) -> Confusion {
    let start = labels.first().map_or(Time::ZERO, |label| label.from);
    let mut confusion = Confusion::new();
    let mut said = said.iter().peekable();
    for label in labels {
        let (from, to) = (seconds(label.from, start), seconds(label.to, start));
        while let Some(&&(said_from, said_to, limit)) = said.peek() {
            let overlap = said_to.min(to) - said_from.max(from);
            if overlap > 0.0 {
                *confusion.entry((label.limit, limit)).or_default() += overlap;
            }
            if said_to > to {
                break;
            }
            said.next();
        }
    }
    confusion
}

fn seconds(at: Time, start: Time) -> f64 {
    at.since(start).as_secs_f64()
}

/// Findings that claim a limit which held for less than a hundredth of the time, however sure they are.
fn wrong_findings(document: &Document, confusion: &Confusion) -> Vec<String> {
    let held = |limits: &[LimitName]| -> f64 {
        let of = confusion
            .iter()
            .filter(|((truth, _), _)| limits.contains(truth));
        of.map(|(_, seconds)| seconds).sum()
    };
    let total: f64 = confusion.values().sum();
    document
        .findings
        .iter()
        .filter(|finding| finding.confidence == Confidence::High)
        .filter(|finding| finding.lost_s.is_some_and(|lost| lost > 0.0))
        .filter_map(|finding| {
            let claim = claim(&finding.name)?;
            (held(claim) < total / 100.0).then(|| finding.name.clone())
        })
        .collect()
}

/// Which limits a finding speaks of; `None` for those that speak of something else.
fn claim(finding: &str) -> Option<&'static [LimitName]> {
    Some(match finding {
        "fixed-window" | "zero-window-stalls" | "no-window-scaling" => &[LimitName::ReceiveWindow],
        "no-connection-reuse" => &[LimitName::Handshake, LimitName::SlowStart],
        "slow-start-after-idle" => &[LimitName::SlowStart],
        "low-initial-ssthresh" => &[LimitName::CongestionAvoidance],
        "syn-loss" => &[LimitName::Handshake],
        "loss-limited" => &[LimitName::LossLimited, LimitName::LossRecovery],
        "loss-recovery" | "pmtud-blackhole" => &[LimitName::LossRecovery],
        "policer" => &[LimitName::Policer],
        "bufferbloat" | "path-full" => &[LimitName::Bottleneck],
        "send-buffer" => &[LimitName::SendBuffer],
        "nagle-delayed-ack" => &[LimitName::NagleDelayedAck],
        "tls-extra-round-trips" | "tls-no-resumption" => &[LimitName::TlsHandshake],
        "peer-window" => &[LimitName::Application],
        _ => return None,
    })
}
