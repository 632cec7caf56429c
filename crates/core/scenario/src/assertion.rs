//! Assertions: what makes a scenario a regression test.
//!
//! ```text
//! assertion = statistic "(" arm ")" ( "<=" | ">=" ) right
//! right     = time | rate | share | number | [ factor "*" ] ( "floor" | "rate" | statistic "(" arm ")" )
//! ```
//!
//! Both sides must be of one [`Dimension`]: a time is compared with a time, a rate with a rate.

#[cfg(test)]
mod tests;

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use serde::{Deserialize, Deserializer};
use units::{Bytes, Rate};

/// One assertion, checked per workload.
#[derive(Clone, Debug, PartialEq)]
pub struct Assertion {
    text: String,
    /// Statistic and arm on the left.
    pub left: (Statistic, String),
    /// How the sides must compare.
    pub comparison: Comparison,
    /// The right side.
    pub right: Quantity,
}

/// A number about an arm.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Statistic {
    /// Smallest time of a transfer.
    Min,
    /// 5th percentile of times.
    P05,
    /// Median of times.
    Median,
    /// 95th percentile of times.
    P95,
    /// Largest time.
    Max,
    /// Median of payload bits per second.
    Goodput,
    /// Median of payload bits per second over the last half of a stream.
    Steady,
    /// Segments sent again per transfer, all hosts together.
    Retransmissions,
    /// What rivals lose: 1 - their rate beside the arm / their rate alone.
    Harm,
    /// Jain's fairness index over all flows on the path, from 1 / flows to 1.
    Jain,
    /// Floor / median.
    ShareOfFloor,
    /// `|predicted / measured - 1|`.
    PredictionError,
}

/// What a quantity measures, and the unit of its number.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Dimension {
    /// Seconds.
    Time,
    /// Payload bits per second.
    Rate,
    /// Segments.
    Count,
    /// A fraction.
    Share,
}

/// How two sides must compare.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Comparison {
    /// At most.
    AtMost,
    /// At least.
    AtLeast,
}

/// The right side of an assertion.
#[derive(Clone, Debug, PartialEq)]
pub enum Quantity {
    /// A fixed time.
    Time(Duration),
    /// A fixed rate of payload.
    Rate(Rate),
    /// A share, such as `20 %` as 0.2.
    Share(f64),
    /// A bare number: of segments, or a share.
    Number(f64),
    /// A factor times the floor.
    Floor(f64),
    /// A factor times the rate of the path's bottleneck.
    PathRate(f64),
    /// A factor times a statistic of an arm.
    Arm(f64, Statistic, String),
}

/// What assertions measure against, beside statistics of arms.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Ground {
    /// The workload's floor in seconds, where it has one.
    pub floor_s: Option<f64>,
    /// The rate of the path's bottleneck in IP bits per second.
    pub rate_bps: Option<f64>,
}

// === impl Assertion ===

impl Assertion {
    /// The arms it names.
    pub fn arms(&self) -> impl Iterator<Item = &str> {
        self.statistics().map(|(_, arm)| arm)
    }

    /// The statistics it needs, each with its arm.
    pub fn statistics(&self) -> impl Iterator<Item = (Statistic, &str)> {
        let right = match &self.right {
            Quantity::Arm(_, statistic, arm) => Some((*statistic, arm.as_str())),
            Quantity::Time(_)
            | Quantity::Rate(_)
            | Quantity::Share(_)
            | Quantity::Number(_)
            | Quantity::Floor(_)
            | Quantity::PathRate(_) => None,
        };
        std::iter::once((self.left.0, self.left.1.as_str())).chain(right)
    }

    /// Whether it compares with seconds or a rate that are written down, and not with the path or another arm.
    #[must_use]
    pub const fn is_absolute(&self) -> bool {
        matches!(self.right, Quantity::Time(_) | Quantity::Rate(_))
    }

    /// Whether it says nothing without a floor.
    #[must_use]
    pub fn needs_floor(&self) -> bool {
        matches!(self.right, Quantity::Floor(_))
            || self
                .statistics()
                .any(|(statistic, _)| statistic == Statistic::ShareOfFloor)
    }

    /// What both sides measure.
    #[must_use]
    pub const fn dimension(&self) -> Dimension {
        self.left.0.dimension()
    }

    /// Evaluates it: whether it holds, then the left and the right side in the unit of its
    /// [`dimension`](Self::dimension). `value` gives a statistic of an arm in the unit of *its*
    /// dimension. `None` where a number is missing: an assertion that can't be checked does not hold.
    pub fn check(
        &self,
        ground: Ground,
        value: impl Fn(Statistic, &str) -> Option<f64>,
    ) -> Option<(bool, f64, f64)> {
        let left = value(self.left.0, &self.left.1)?;
        let right = match &self.right {
            Quantity::Time(time) => time.as_secs_f64(),
            Quantity::Rate(rate) => bits_per_s(*rate),
            Quantity::Share(number) | Quantity::Number(number) => *number,
            Quantity::Floor(factor) => factor * ground.floor_s?,
            Quantity::PathRate(factor) => factor * ground.rate_bps?,
            Quantity::Arm(factor, statistic, arm) => factor * value(*statistic, arm)?,
        };
        let holds = match self.comparison {
            Comparison::AtMost => left <= right,
            Comparison::AtLeast => left >= right,
        };
        Some((holds, left, right))
    }
}

#[expect(
    clippy::cast_precision_loss,
    reason = "rates of paths are far below 2^52 bit/s"
)]
const fn bits_per_s(rate: Rate) -> f64 {
    rate.bits_per_s() as f64
}

impl fmt::Display for Assertion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

// === impl Statistic ===

impl Statistic {
    /// All of them, in the order of the reference.
    pub const ALL: [Self; 12] = [
        Self::Min,
        Self::P05,
        Self::Median,
        Self::P95,
        Self::Max,
        Self::Goodput,
        Self::Steady,
        Self::Retransmissions,
        Self::Harm,
        Self::Jain,
        Self::ShareOfFloor,
        Self::PredictionError,
    ];

    /// The name as scenario files write it.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Min => "min",
            Self::P05 => "p05",
            Self::Median => "median",
            Self::P95 => "p95",
            Self::Max => "max",
            Self::Goodput => "goodput",
            Self::Steady => "steady",
            Self::Retransmissions => "retransmissions",
            Self::Harm => "harm",
            Self::Jain => "jain",
            Self::ShareOfFloor => "share-of-floor",
            Self::PredictionError => "prediction-error",
        }
    }

    /// What it measures.
    #[must_use]
    pub const fn dimension(self) -> Dimension {
        match self {
            Self::Min | Self::P05 | Self::Median | Self::P95 | Self::Max => Dimension::Time,
            Self::Goodput | Self::Steady => Dimension::Rate,
            Self::Retransmissions => Dimension::Count,
            Self::Harm | Self::Jain | Self::ShareOfFloor | Self::PredictionError => {
                Dimension::Share
            }
        }
    }
}

// === impl Dimension ===

impl fmt::Display for Dimension {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Time => "a time",
            Self::Rate => "a rate",
            Self::Count => "a number of segments",
            Self::Share => "a share",
        })
    }
}

// === impl Quantity ===

impl Quantity {
    /// Whether it can be compared with what measures `dimension`.
    fn is_a(&self, dimension: Dimension) -> bool {
        match self {
            Self::Time(_) | Self::Floor(_) => dimension == Dimension::Time,
            Self::Rate(_) | Self::PathRate(_) => dimension == Dimension::Rate,
            Self::Share(_) => dimension == Dimension::Share,
            Self::Number(_) => matches!(dimension, Dimension::Count | Dimension::Share),
            Self::Arm(_, statistic, _) => statistic.dimension() == dimension,
        }
    }
}

/// A text is not an assertion.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct ParseAssertionError {
    text: String,
    problem: String,
}

impl fmt::Display for ParseAssertionError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "`{}`: {}; write for example `max(relay) <= 1.15 * floor`, `median(direct) >= 915 ms`, \
             `goodput(relay) >= 0.9 * rate` or `prediction-error(relay) <= 20 %`",
            self.text, self.problem
        )
    }
}

impl std::error::Error for ParseAssertionError {}

impl FromStr for Assertion {
    type Err = ParseAssertionError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        parse(text).map_err(|problem| ParseAssertionError {
            text: text.to_owned(),
            problem,
        })
    }
}

impl<'de> Deserialize<'de> for Assertion {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?
            .parse()
            .map_err(serde::de::Error::custom)
    }
}

fn parse(text: &str) -> Result<Assertion, String> {
    let (left, comparison, right) = text
        .split_once("<=")
        .map(|(left, right)| (left, Comparison::AtMost, right))
        .or_else(|| {
            let (left, right) = text.split_once(">=")?;
            Some((left, Comparison::AtLeast, right))
        })
        .ok_or("it has neither `<=` nor `>=`")?;
    let left = statistic_of_arm(left)?.ok_or("its left side is not a statistic of an arm")?;
    let right = quantity(right)?;
    let dimension = left.0.dimension();
    if !right.is_a(dimension) {
        return Err(format!(
            "`{}` is {dimension}, and the right side is not",
            left.0.as_str()
        ));
    }
    Ok(Assertion {
        text: text.to_owned(),
        left,
        comparison,
        right,
    })
}

/// `median(direct)`; `None` where the text has another form, an error where the form is right and the
/// content is not.
fn statistic_of_arm(text: &str) -> Result<Option<(Statistic, String)>, String> {
    let Some((name, rest)) = text.trim().split_once('(') else {
        return Ok(None);
    };
    let Some(arm) = rest.strip_suffix(')').map(str::trim) else {
        return Ok(None);
    };
    let name = name.trim();
    let statistic = Statistic::ALL
        .into_iter()
        .find(|known| known.as_str() == name);
    let Some(statistic) = statistic else {
        let known = Statistic::ALL.map(Statistic::as_str);
        let known = known.join("`, `");
        return Err(format!(
            "there is no statistic `{name}`; known are `{known}`"
        ));
    };
    if arm.is_empty() || arm.contains(['(', ')']) {
        return Err(format!("`{name}` wants one arm in its parentheses"));
    }
    Ok(Some((statistic, arm.to_owned())))
}

fn quantity(text: &str) -> Result<Quantity, String> {
    let text = text.trim();
    if let Ok(time) = units::parse_span(text) {
        return Ok(Quantity::Time(time));
    }
    if let Some(rate) = payload_rate(text) {
        return Ok(Quantity::Rate(rate));
    }
    let unreadable = || format!("its right side, `{text}`, can't be read");
    if let Some(percent) = text.strip_suffix('%') {
        let percent = factor(percent).ok_or_else(unreadable)?;
        return Ok(Quantity::Share(percent / 100.0));
    }
    if let Some(number) = factor(text) {
        return Ok(Quantity::Number(number));
    }
    let (factor, subject) = match text.split_once('*') {
        Some((number, subject)) => (factor(number).ok_or_else(unreadable)?, subject.trim()),
        None => (1.0, text),
    };
    match subject {
        "floor" => Ok(Quantity::Floor(factor)),
        "rate" => Ok(Quantity::PathRate(factor)),
        _ => {
            let (statistic, arm) = statistic_of_arm(subject)?.ok_or_else(unreadable)?;
            Ok(Quantity::Arm(factor, statistic, arm))
        }
    }
}

/// A finite number that is not negative.
fn factor(text: &str) -> Option<f64> {
    text.trim()
        .parse()
        .ok()
        .filter(|number: &f64| number.is_finite() && *number >= 0.0)
}

/// A rate in bits or bytes per second: `30 Mbit/s`, `4 MB/s`.
pub(crate) fn payload_rate(text: &str) -> Option<Rate> {
    if let Ok(rate) = text.trim().parse() {
        return Some(rate);
    }
    let bytes: Bytes = text.trim().strip_suffix("/s")?.parse().ok()?;
    bytes.get().checked_mul(8).map(Rate::bit_per_s)
}
