use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use serde::{Deserialize, Deserializer};
use units::Span;

/// Repetition, order, and what is kept.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
pub struct Experiment {
    /// Transfers per arm and workload.
    pub runs: u32,
    /// Consecutive transfers per block; arms change between blocks.
    pub block: u32,
    /// Transfers at the start of each block that are done and not counted.
    pub warm_up: u32,
    /// Further blocks follow until the 95 % interval of every median lies within this share of it.
    pub precision: Option<Share>,
    /// Transfers per arm and workload at which `precision` gives up.
    pub max_runs: Option<u32>,
    /// Whose packets are kept.
    pub capture: Capture,
    /// Interval of TCP_INFO samples; see [`Experiment::series_interval`].
    pub series: Option<Span>,
    /// The arm that is captured and explained, and from which predictions are made before any block of
    /// `predicts` runs.
    pub explains: Option<String>,
    /// The arm that the prediction speaks of.
    pub predicts: Option<String>,
    /// The remedy, by its name in `explain`'s predictions, that the predicted arm applies.
    pub remedy: String,
}

/// Whose packets are kept.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq)]
#[serde(rename_all = "kebab-case")]
pub enum Capture {
    /// Of the hosts that send the payload, and at relays.
    #[default]
    Client,
    /// Every host's.
    All,
    /// Nobody's: no limits and no explanations either.
    None,
}

/// A share, written in per cent: `5 %`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Share(f64);

// === impl Experiment ===

impl Default for Experiment {
    fn default() -> Self {
        Self {
            runs: 20,
            block: 5,
            warm_up: 0,
            precision: None,
            max_runs: None,
            capture: Capture::Client,
            series: None,
            explains: None,
            predicts: None,
            remedy: "hot-pool".to_owned(),
        }
    }
}

impl Experiment {
    /// Interval of TCP_INFO samples: 50 ms where the file says nothing (a transpacific round trip has
    /// four), `None` where it says `0 s`.
    #[must_use]
    pub fn series_interval(&self) -> Option<Duration> {
        let asked = self.series.map_or(Duration::from_millis(50), Span::get);
        (asked > Duration::ZERO).then_some(asked)
    }

    /// Transfers per arm and workload at most: `runs`, or where `precision` is asked `max-runs`, ten
    /// times `runs` where that is absent.
    #[must_use]
    pub fn most_runs(&self) -> u32 {
        match self.precision {
            None => self.runs,
            Some(_) => self
                .max_runs
                .unwrap_or_else(|| self.runs.saturating_mul(10)),
        }
    }

    /// What is wrong with it by itself: fields below `experiment`, and what to do.
    pub(crate) fn problems(&self) -> Vec<(&'static str, String)> {
        let mut problems = Vec::new();
        if let Some(message) = self.problem_of_runs() {
            problems.push(("runs", message));
        }
        if let Some(Share(share)) = self.precision
            && !(0.001..=0.5).contains(&share)
        {
            let message = "outside 0.1 % to 50 %: nothing would be gained, or nothing said";
            problems.push(("precision", message.to_owned()));
        }
        if let Some(most) = self.max_runs {
            if self.precision.is_none() {
                let message = "has a meaning only beside `precision`";
                problems.push(("max-runs", message.to_owned()));
            }
            if most < self.runs {
                let message = format!("{most} is below `runs`, {}", self.runs);
                problems.push(("max-runs", message));
            }
        }
        if let Some(series) = self.series_interval()
            && series < Duration::from_millis(1)
        {
            let message =
                "below 1 ms the sampler would disturb what it measures; `0 s` switches it off";
            problems.push(("series", message.to_owned()));
        }
        problems
    }

    /// Why its runs do not divide into blocks, with the nearest numbers that do.
    pub(crate) fn problem_of_runs(&self) -> Option<String> {
        let Self { runs, block, .. } = *self;
        if block == 0 {
            return Some(
                "a block of 0 transfers measures nothing; set `experiment.block`".to_owned(),
            );
        }
        if runs == 0 {
            return Some(format!(
                "0 runs measure nothing; choose a multiple of {block}"
            ));
        }
        if runs.is_multiple_of(block) {
            return None;
        }
        let below = runs - runs % block;
        let nearest = match below {
            0 => block.to_string(),
            _ => format!("{below} or {}", below.saturating_add(block)),
        };
        Some(format!(
            "{runs} runs do not divide into blocks of {block}; choose {nearest}"
        ))
    }
}

// === impl Share ===

impl Share {
    /// As a fraction: 0.05 for `5 %`.
    #[must_use]
    pub const fn as_f64(self) -> f64 {
        self.0
    }
}

impl FromStr for Share {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        text.strip_suffix('%')
            .and_then(|number| number.trim().parse().ok())
            .filter(|percent: &f64| percent.is_finite() && *percent >= 0.0)
            .map(|percent| Self(percent / 100.0))
            .ok_or_else(|| format!("`{text}` is not a share such as `5 %`"))
    }
}

impl fmt::Display for Share {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} %", self.0 * 100.0)
    }
}

impl<'de> Deserialize<'de> for Share {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?
            .parse()
            .map_err(serde::de::Error::custom)
    }
}
