//! Assertions: what makes a scenario a regression test.
//!
//! `STATISTIC(ARM) <= RIGHT` or `>=`, where RIGHT is a time (`1119 ms`), a share (`20 %`), or an optional
//! factor times `floor` or another `STATISTIC(ARM)`.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use serde::{Deserialize, Deserializer};

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
    /// Smallest.
    Min,
    /// 5th percentile.
    P05,
    /// Median.
    Median,
    /// 95th percentile.
    P95,
    /// Largest.
    Max,
    /// `|predicted / measured - 1|`, a share.
    PredictionError,
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
    /// A share, such as `20 %` as 0.2.
    Share(f64),
    /// A factor times the floor.
    Floor(f64),
    /// A factor times a statistic of an arm.
    Arm(f64, Statistic, String),
}

impl Assertion {
    /// The arms it names.
    pub fn arms(&self) -> impl Iterator<Item = &str> {
        let right = match &self.right {
            Quantity::Arm(_, _, arm) => Some(arm.as_str()),
            Quantity::Time(_) | Quantity::Share(_) | Quantity::Floor(_) => None,
        };
        std::iter::once(self.left.1.as_str()).chain(right)
    }

    /// Evaluates it. `value` gives a statistic of an arm (seconds, or a share), `floor_s` the floor in
    /// seconds. `None` where a number is missing: an assertion that can't be checked does not hold.
    pub fn check(
        &self,
        floor_s: f64,
        value: impl Fn(Statistic, &str) -> Option<f64>,
    ) -> Option<(bool, f64, f64)> {
        let left = value(self.left.0, &self.left.1)?;
        let right = match &self.right {
            Quantity::Time(time) => time.as_secs_f64(),
            Quantity::Share(share) => *share,
            Quantity::Floor(factor) => factor * floor_s,
            Quantity::Arm(factor, statistic, arm) => factor * value(*statistic, arm)?,
        };
        let holds = match self.comparison {
            Comparison::AtMost => left <= right,
            Comparison::AtLeast => left >= right,
        };
        Some((holds, left, right))
    }
}

impl fmt::Display for Assertion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// A text is not an assertion.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct ParseAssertionError {
    text: String,
    problem: &'static str,
}

impl fmt::Display for ParseAssertionError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "`{}`: {}; write for example `max(relay) <= 1.15 * floor`, `median(direct) >= 915 ms` or \
             `prediction-error(relay) <= 20 %`",
            self.text, self.problem
        )
    }
}

impl std::error::Error for ParseAssertionError {}

impl FromStr for Assertion {
    type Err = ParseAssertionError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let fail = |problem| ParseAssertionError {
            text: text.to_owned(),
            problem,
        };
        let (left, comparison, right) = text
            .split_once("<=")
            .map(|(left, right)| (left, Comparison::AtMost, right))
            .or_else(|| {
                text.split_once(">=")
                    .map(|(left, right)| (left, Comparison::AtLeast, right))
            })
            .ok_or_else(|| fail("it has neither `<=` nor `>=`"))?;
        let left = statistic_of_arm(left)
            .ok_or_else(|| fail("its left side is not a statistic of an arm"))?;
        let right = quantity(right).ok_or_else(|| fail("its right side can't be read"))?;
        let share_left = left.0 == Statistic::PredictionError;
        let share_right = match &right {
            Quantity::Share(_) => true,
            Quantity::Arm(_, statistic, _) => *statistic == Statistic::PredictionError,
            Quantity::Time(_) | Quantity::Floor(_) => false,
        };
        if share_left != share_right {
            return Err(fail("it compares a time with a share"));
        }
        Ok(Self {
            text: text.to_owned(),
            left,
            comparison,
            right,
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

/// `median(direct)`.
fn statistic_of_arm(text: &str) -> Option<(Statistic, String)> {
    let (name, rest) = text.trim().split_once('(')?;
    let arm = rest.strip_suffix(')')?.trim();
    let statistic = match name.trim() {
        "min" => Statistic::Min,
        "p05" => Statistic::P05,
        "median" => Statistic::Median,
        "p95" => Statistic::P95,
        "max" => Statistic::Max,
        "prediction-error" => Statistic::PredictionError,
        _ => return None,
    };
    if arm.is_empty() || arm.contains(['(', ')']) {
        return None;
    }
    Some((statistic, arm.to_owned()))
}

/// A time, a share, or `[FACTOR *] (floor | STATISTIC(ARM))`.
fn quantity(text: &str) -> Option<Quantity> {
    let text = text.trim();
    if let Ok(time) = units::parse_span(text) {
        return Some(Quantity::Time(time));
    }
    if let Some(percent) = text.strip_suffix('%') {
        return factor(percent).map(|percent| Quantity::Share(percent / 100.0));
    }
    let (factor, subject) = match text.split_once('*') {
        Some((number, subject)) => (factor(number)?, subject.trim()),
        None => (1.0, text),
    };
    if subject == "floor" {
        return Some(Quantity::Floor(factor));
    }
    statistic_of_arm(subject).map(|(statistic, arm)| Quantity::Arm(factor, statistic, arm))
}

/// A finite number that is not negative.
fn factor(text: &str) -> Option<f64> {
    text.trim()
        .parse()
        .ok()
        .filter(|number: &f64| number.is_finite() && *number >= 0.0)
}
