//! What the remedies of a verdict would bring: the capture's path and transfers are rebuilt, and played as
//! they are and with each remedy alone, by the call that `longhaul simulate --what-if` makes.
//!
//! ```text
//! record::explain::Document --rebuilt--> scenario --one remedy each--> sim::Trial --play--> seconds
//!            ^                                                                                 |
//!            +---------------------- Finding::predicted, where today is reproduced <----------+
//! ```
//!
//! A prediction stands only where the model reproduces what was captured: a path that it plays wrongly
//! today, it would play wrongly with a remedy too. No packet names the sender's congestion control, so that where
//! losses hold a transfer, today is the one among all that comes nearest.

mod remedies;
#[cfg(test)]
mod tests;

use explain::RateFrom;
use record::explain::{Document, Prediction};
use record::what_if::{Outcome, RemedyName};
use scenario::{Kind, Reported, Scenario, Workload};
use sim::{SimulateError, Trial, Trials};

/// A verdict whose remedies can't be played.
#[derive(Debug, thiserror::Error)]
pub enum NoOutlook {
    /// The capture does not show enough.
    #[error("the captured path can't be rebuilt")]
    Capture(#[source] explain::NoScenario),
    /// The scenario that was rebuilt is not sound, which is a bug of `explain`.
    #[error("the rebuilt scenario is unsound")]
    Scenario(#[source] scenario::FileError),
    /// The simulator refuses it.
    #[error("the rebuilt path can't be simulated")]
    Simulator(#[source] SimulateError),
}

/// The simulations that a verdict's findings ask for.
#[derive(Debug)]
pub struct Outlook {
    seed: u64,
    sizes: Vec<Size>,
}

/// Transfers of one size, and what is to be played for them.
#[derive(Debug)]
struct Size {
    /// Request or response bytes of one transfer.
    bytes: u64,
    /// Transfers captured, and their median seconds.
    transfers: u64,
    now_s: f64,
    today: Trial,
    remedies: Vec<Trial>,
}

/// Today, as the model plays it.
#[derive(Clone, Copy, Debug)]
struct Today {
    median_s: f64,
    /// What of the captured time the model does not explain.
    unexplained_s: f64,
    /// Whether it was the rebuilt scenario as it is, and not one with another congestion control.
    as_rebuilt: bool,
}

/// By how much the model may miss what was captured before it is not believed.
const REPRODUCED: f64 = 0.25;
/// Sizes within so much of each other are the same.
const SAME_SIZE: f64 = 0.05;
/// Transfers played per trial where something is lost by chance.
const RUNS: u32 = 5;

// === impl Outlook ===

impl Outlook {
    /// What has to be played for the findings of `document`; without a finding whose remedy the simulator
    /// knows, nothing.
    ///
    /// # Errors
    /// When the capture does not show a path and transfers that can be rebuilt.
    pub fn of(document: &Document) -> Result<Self, NoOutlook> {
        let mut wanted = remedies::wanted(document);
        if wanted.is_empty() {
            return Ok(Self::nothing());
        }
        if !shows_its_rate(document)? {
            wanted.retain(|remedy| !remedies::ends_at_the_rate(*remedy));
        }
        let text = explain::scenario(document).map_err(NoOutlook::Capture)?;
        let variants = scenario::read(&text).map_err(NoOutlook::Scenario)?;
        let Some(variant) = variants.into_iter().next() else {
            return Ok(Self::nothing());
        };
        let mut sizes = Vec::new();
        for workload in &variant.scenario.workloads {
            let alone = alone(&variant.scenario, workload);
            let trials = Trials::new(&alone, None).map_err(NoOutlook::Simulator)?;
            sizes.extend(Size::new(workload, &trials, &wanted));
        }
        Ok(Self {
            seed: variant.scenario.seed,
            sizes,
        })
    }

    const fn nothing() -> Self {
        Self {
            seed: 0,
            sizes: Vec::new(),
        }
    }

    /// The simulations, each on its own; play all of them with [`seed`](Self::seed).
    pub fn trials(&self) -> impl Iterator<Item = &Trial> {
        self.sizes.iter().flat_map(Size::trials)
    }

    /// The seed of everything random.
    #[must_use]
    pub const fn seed(&self) -> u64 {
        self.seed
    }

    /// Bytes of payload that all simulations together move, roughly: what they cost.
    #[must_use]
    pub fn payload(&self) -> u64 {
        let of_size = |size: &Size| {
            let trials = u64::try_from(size.trials().count()).unwrap_or(u64::MAX);
            let transfers = trials.saturating_mul(RUNS.into());
            size.bytes.saturating_mul(transfers)
        };
        self.sizes
            .iter()
            .fold(0, |sum: u64, size| sum.saturating_add(of_size(size)))
    }

    /// Puts predictions into the findings of `document`. `played` holds what [`Trial::play`] returned, in
    /// the order of [`trials`](Self::trials).
    pub fn predict(&self, document: &mut Document, played: Vec<Outcome>) {
        let mut played = played.into_iter();
        for size in &self.sizes {
            let today = played.next();
            let outcomes: Vec<(&Trial, Outcome)> =
                size.remedies.iter().zip(played.by_ref()).collect();
            if let Some(today) = size.today(today.as_ref(), &outcomes) {
                size.predict(document, today, &outcomes);
            }
        }
    }
}

/// Whether the spacing of ACKs shows a rate well above what losses left of it. The spacing in a window that losses keep
/// small is that window's own, and a remedy that only the path's rate bounds would seem to bring nothing.
fn shows_its_rate(document: &Document) -> Result<bool, NoOutlook> {
    const WELL_ABOVE: f64 = 2.0;
    let path = explain::path(document).map_err(NoOutlook::Capture)?;
    let connections = explain::busiest_server(document).unwrap_or_default();
    let directions = connections.iter().flat_map(|connection| {
        let both = &connection.directions;
        [&both.client_to_server, &both.server_to_client]
    });
    let fastest = directions
        .filter_map(|direction| direction.goodput_bps)
        .fold(0.0, f64::max);
    Ok(path.rate_from == RateFrom::Dispersion && path.rate_bps >= WELL_ABOVE * fastest)
}

/// One arm without a relay, one workload, as few transfers as tell the median.
fn alone(scenario: &Scenario, workload: &Workload) -> Scenario {
    let mut alone = scenario.clone();
    alone.arms.truncate(1);
    alone.workloads = vec![workload.clone()];
    alone.experiment.runs = RUNS;
    // The simulator plays one block where nothing happens by chance, and streams share nothing.
    let streams = workload.kind == Kind::Stream;
    alone.experiment.block = if streams { 1 } else { RUNS };
    alone
}

// === impl Size ===

impl Size {
    /// `None` where nothing of what is wanted can be played, or nothing was timed.
    fn new(workload: &Workload, trials: &Trials, wanted: &[RemedyName]) -> Option<Self> {
        let mut times: Vec<f64> = workload
            .reported
            .values()
            .flatten()
            .filter_map(time)
            .collect();
        times.sort_by(f64::total_cmp);
        let now_s = *times.get(times.len() / 2)?;
        let is_wanted = |trial: &&Trial| trial.remedy().is_some_and(|name| wanted.contains(&name));
        let remedies: Vec<Trial> = trials.trials().iter().filter(is_wanted).cloned().collect();
        if remedies.is_empty() {
            return None;
        }
        Some(Self {
            bytes: workload.bytes?.get(),
            transfers: u64::try_from(times.len()).unwrap_or(u64::MAX),
            now_s,
            today: trials
                .trials()
                .iter()
                .find(|trial| trial.remedy().is_none())?
                .clone(),
            remedies,
        })
    }

    fn trials(&self) -> impl Iterator<Item = &Trial> {
        std::iter::once(&self.today).chain(&self.remedies)
    }

    /// Which of what was played is what was captured: the rebuilt scenario, or one of its other congestion controls.
    fn today(&self, rebuilt: Option<&Outcome>, outcomes: &[(&Trial, Outcome)]) -> Option<Today> {
        let other = outcomes
            .iter()
            .filter(|(trial, _)| trial.remedy() == Some(RemedyName::Algorithm))
            .filter_map(|(_, outcome)| self.reproduced(outcome, false));
        let rebuilt = rebuilt.and_then(|outcome| self.reproduced(outcome, true));
        let off = |today: &Today| (today.median_s / self.now_s).ln().abs();
        let all = rebuilt.into_iter().chain(other);
        all.min_by(|one, other| off(one).total_cmp(&off(other)))
    }

    /// `None` where what was played is not what was captured.
    fn reproduced(&self, outcome: &Outcome, as_rebuilt: bool) -> Option<Today> {
        let median_s = outcome.median_s?;
        let (least, most) = (outcome.p05_s?, outcome.p95_s?);
        // Where chance decides, a capture is one draw of it, and what it is off the middle explains nothing.
        let by_chance = (least..=most).contains(&self.now_s);
        let near = (median_s / self.now_s - 1.0).abs() <= REPRODUCED;
        (by_chance || near).then_some(Today {
            median_s,
            // What was captured and is not in the model, such as the server's time, stays.
            unexplained_s: if by_chance {
                0.0
            } else {
                (self.now_s - median_s).max(0.0)
            },
            as_rebuilt,
        })
    }

    fn predict(&self, document: &mut Document, today: Today, outcomes: &[(&Trial, Outcome)]) {
        let server = remedies::rebuilt_connections(document);
        for finding in &mut document.findings {
            if !finding.connections.iter().any(|id| server.contains(id)) {
                continue;
            }
            for &remedy in remedies::of(&finding.name) {
                if !today.as_rebuilt && !remedies::replaces_the_algorithm(remedy) {
                    continue;
                }
                let best = outcomes
                    .iter()
                    .filter(|(trial, _)| trial.remedy() == Some(remedy))
                    .filter_map(|(trial, outcome)| Some((trial, outcome.median_s?)))
                    .min_by(|(_, one), (_, other)| one.total_cmp(other));
                let Some((trial, seconds)) = best else {
                    continue;
                };
                let predicted_s = seconds + today.unexplained_s;
                let same = |known: &Prediction| {
                    known.remedy == remedy.as_str() && same_size(known.bytes, self.bytes)
                };
                let known = finding.predicted.iter_mut().find(|known| same(known));
                if predicted_s >= self.now_s {
                    // Without a gain only what was computed without the simulator may stand.
                    continue;
                }
                let mut derivation = self.derivation(today, trial, seconds);
                if remedies::ends_at_the_rate(remedy) {
                    derivation.push_str(
                        "; a path that losses keep empty may carry more than its ACKs show",
                    );
                }
                match known {
                    Some(known) => {
                        known.predicted_s = predicted_s;
                        known.derivation = derivation;
                    }
                    None => finding.predicted.push(Prediction {
                        bytes: self.bytes,
                        transfers: self.transfers,
                        remedy: remedy.as_str().to_owned(),
                        now_s: self.now_s,
                        predicted_s,
                        derivation,
                    }),
                }
            }
        }
    }

    fn derivation(&self, today: Today, trial: &Trial, seconds: f64) -> String {
        let change = trial.change().unwrap_or_default();
        let stays = if today.unexplained_s > 0.0 {
            format!(
                "; + {} that the model does not explain, which stay",
                milliseconds(today.unexplained_s)
            )
        } else {
            String::new()
        };
        format!(
            "simulated on the rebuilt path: {} with {change}, where it gives {} for today's {}{stays}",
            milliseconds(seconds),
            milliseconds(today.median_s),
            milliseconds(self.now_s)
        )
    }
}

fn time(reported: &Reported) -> Option<f64> {
    match reported {
        Reported::Time(span) => Some(span.get().as_secs_f64()),
        Reported::Rate(_) => None,
    }
}

#[expect(
    clippy::cast_precision_loss,
    reason = "sizes of objects, far below 2^52"
)]
fn same_size(one: u64, other: u64) -> bool {
    let (one, other) = (one.max(1) as f64, other.max(1) as f64);
    (one / other - 1.0).abs() <= SAME_SIZE
}

fn milliseconds(seconds: f64) -> String {
    format!("{:.1} ms", seconds * 1e3)
}
