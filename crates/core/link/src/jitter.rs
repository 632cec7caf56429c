use core::time::Duration;

use units::LossRate;

use crate::chance::{Dice, Draw, Walk};
use crate::spec::Direction;

/// Delay that differs from packet to packet. It only adds: the propagation delay stays the least that a
/// packet needs, so that a path's RTT keeps its meaning and a floor computed from it stays a floor.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Deserialize, serde::Serialize))]
#[cfg_attr(feature = "serde", serde(deny_unknown_fields))]
pub struct Jitter {
    /// How it is distributed.
    pub distribution: Distribution,
    /// Correlation of neighbouring packets, below one. It does not change the distribution: normal
    /// numbers are correlated and then bent to it (a Gaussian copula).
    pub correlation: LossRate,
}

/// How the delay that jitter adds is distributed.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Deserialize, serde::Serialize))]
#[cfg_attr(
    feature = "serde",
    serde(rename_all = "kebab-case", deny_unknown_fields)
)]
pub enum Distribution {
    /// Evenly from nothing to `most`.
    Uniform {
        /// The most.
        most: Duration,
    },
    /// Normal; what would be below zero is zero.
    Normal {
        /// Its mean, before anything was cut off.
        mean: Duration,
        /// Its standard deviation.
        deviation: Duration,
    },
    /// Pareto's second kind (Lomax) of shape 3, the heaviest of whole numbers whose variance is finite
    /// and the one of `netem`'s table: many small delays and a few very long ones. Its standard
    /// deviation is 1.73 times its mean. Cut off at 100 times the mean, which one packet in 130,000
    /// reaches.
    Pareto {
        /// Its mean.
        mean: Duration,
    },
}

/// Jitter under way.
#[derive(Debug)]
pub(crate) struct JitterDraws {
    jitter: Jitter,
    dice: Dice,
    /// The correlated normal number.
    walk: Walk<f64>,
}

const PARETO_SHAPE: f64 = 3.0;
const PARETO_CUT: f64 = 100.0;

// === impl Jitter ===

impl Jitter {
    /// What it adds on average: for a normal distribution before anything was cut off.
    #[must_use]
    pub fn mean(&self) -> Duration {
        match self.distribution {
            Distribution::Uniform { most } => most / 2,
            Distribution::Normal { mean, .. } | Distribution::Pareto { mean } => mean,
        }
    }

    /// The longest span among its settings.
    pub(crate) fn longest(&self) -> Duration {
        match self.distribution {
            Distribution::Uniform { most } => most,
            Distribution::Normal { mean, deviation } => mean.max(deviation),
            Distribution::Pareto { mean } => mean,
        }
    }
}

// === impl JitterDraws ===

impl JitterDraws {
    pub(crate) fn new(jitter: Jitter, seed: u64, direction: Direction) -> Self {
        Self {
            jitter,
            dice: Dice::new(seed, direction, Draw::Jitter),
            walk: Walk::default(),
        }
    }

    /// What packet `n` is delayed by.
    pub(crate) fn delay(&mut self, n: u64) -> Duration {
        match self.jitter.distribution {
            Distribution::Uniform { most } => scaled(most, self.uniform(n)),
            Distribution::Normal { mean, deviation } => {
                let sum = seconds(mean) + seconds(deviation) * self.normal(n);
                from_seconds(sum)
            }
            Distribution::Pareto { mean } => {
                // The quantile function of a Lomax distribution of mean 1.
                let tail = libm::pow(self.uniform(n), -1.0 / PARETO_SHAPE) - 1.0;
                scaled(mean, ((PARETO_SHAPE - 1.0) * tail).min(PARETO_CUT))
            }
        }
    }

    fn uniform(&mut self, n: u64) -> f64 {
        if self.jitter.correlation == LossRate::ZERO {
            return self.dice.unit(n);
        }
        // The normal distribution's function makes a uniform number of a normal one.
        let normal = self.normal(n);
        0.5 * libm::erfc(-normal * core::f64::consts::FRAC_1_SQRT_2)
    }

    fn normal(&mut self, n: u64) -> f64 {
        let dice = self.dice;
        let correlation = self.jitter.correlation.as_f64();
        if self.jitter.correlation == LossRate::ZERO {
            return dice.normal(n);
        }
        // An autoregressive chain of order one, which stays standard normal.
        let fresh = libm::sqrt(1.0 - correlation * correlation);
        self.walk.state(
            n,
            |n| dice.normal(n),
            |state, n| correlation * state + fresh * dice.normal(n),
        )
    }
}

fn scaled(span: Duration, factor: f64) -> Duration {
    from_seconds(seconds(span) * factor)
}

fn seconds(span: Duration) -> f64 {
    span.as_secs_f64()
}

/// Below zero is zero; nothing here comes near the end of the range.
fn from_seconds(seconds: f64) -> Duration {
    Duration::try_from_secs_f64(seconds).unwrap_or_default()
}
