use alloc::boxed::Box;
use alloc::string::String;
use core::fmt;
use core::str::FromStr;

use crate::Controller;
use crate::bbr::Bbr;
use crate::bbr3::Bbr3;
use crate::cubic::Cubic;
use crate::fixed::Fixed;
use crate::high_speed::HighSpeed;
use crate::new_reno::NewReno;
use crate::tuning::Tuning;
use crate::westwood::WestwoodPlus;

/// A congestion control algorithm by name.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Algorithm {
    /// RFC 5681 and 6582; the kernel calls it `reno`.
    NewReno,
    /// RFC 9438, with one of three ways to leave slow start; the kernel's `cubic` has `HyStart`.
    Cubic(SlowStart),
    /// RFC 3649; the kernel's `highspeed`.
    HighSpeed,
    /// Westwood+; the kernel's `westwood`.
    WestwoodPlus,
    /// BBR version 1 as in Linux; the kernel's `bbr`.
    Bbr,
    /// BBR version 3 (draft-ietf-ccwg-bbr); no released kernel has it.
    Bbr3,
    /// A window that stays at its initial value.
    Fixed,
}

/// How slow start ends where no loss ends it.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum SlowStart {
    /// At `ssthresh` only (RFC 5681).
    Standard,
    /// Linux' `HyStart`: the length of ACK trains, or an RTT that grows.
    #[default]
    HyStart,
    /// `HyStart++` (RFC 9406): an RTT that grows, confirmed by a conservative phase.
    HyStartPlusPlus,
}

/// What a controller starts from.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Parameters {
    /// Initial window in segments.
    pub initial_cwnd: u32,
    /// Initial threshold in segments; arbitrarily high where absent.
    pub initial_ssthresh: Option<u32>,
    /// Payload bytes of a full segment.
    pub mss: u32,
    /// Whether segments leave paced, which changes what an ACK train tells.
    pub paced: bool,
    /// Decides what an algorithm draws by lot (BBR's first phase).
    pub seed: u64,
    /// What of the algorithm differs from its defaults.
    pub tuning: Tuning,
}

/// A text is not an algorithm, or not one with these parameters.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum ParseAlgorithmError {
    /// There is no algorithm of this name.
    Name {
        /// What was read.
        input: String,
    },
    /// Parameters are not written as they should be.
    Form {
        /// What was read.
        input: String,
    },
    /// The algorithm has no such parameter.
    Parameter {
        /// The algorithm.
        algorithm: Algorithm,
        /// What was read.
        name: String,
        /// Those that it has, for people.
        known: &'static str,
    },
    /// A parameter can't have this value.
    Value {
        /// The parameter.
        parameter: String,
        /// What was read.
        value: String,
        /// What is allowed, for people.
        range: &'static str,
    },
}

// === impl Algorithm ===

impl Algorithm {
    /// A controller at the start of a connection.
    #[must_use]
    pub fn start(self, parameters: &Parameters) -> Box<dyn Controller> {
        match self {
            Self::NewReno => Box::new(NewReno::new(parameters)),
            Self::Cubic(slow_start) => Box::new(Cubic::new(parameters, slow_start)),
            Self::HighSpeed => Box::new(HighSpeed::new(parameters)),
            Self::WestwoodPlus => Box::new(WestwoodPlus::new(parameters)),
            Self::Bbr => Box::new(Bbr::new(parameters)),
            Self::Bbr3 => Box::new(Bbr3::new(parameters)),
            Self::Fixed => Box::new(Fixed::new(parameters)),
        }
    }

    /// The name that the kernel uses for it, or would.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::NewReno => "reno",
            Self::Cubic(SlowStart::HyStart) => "cubic",
            Self::Cubic(SlowStart::HyStartPlusPlus) => "cubic-hystart++",
            Self::Cubic(SlowStart::Standard) => "cubic-without-hystart",
            Self::HighSpeed => "highspeed",
            Self::WestwoodPlus => "westwood",
            Self::Bbr => "bbr",
            Self::Bbr3 => "bbr3",
            Self::Fixed => "none",
        }
    }
}

impl fmt::Display for Algorithm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl FromStr for Algorithm {
    type Err = ParseAlgorithmError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        const ALL: [Algorithm; 9] = [
            Algorithm::NewReno,
            Algorithm::Cubic(SlowStart::HyStart),
            Algorithm::Cubic(SlowStart::HyStartPlusPlus),
            Algorithm::Cubic(SlowStart::Standard),
            Algorithm::HighSpeed,
            Algorithm::WestwoodPlus,
            Algorithm::Bbr,
            Algorithm::Bbr3,
            Algorithm::Fixed,
        ];
        ALL.into_iter()
            .find(|algorithm| algorithm.as_str() == text)
            .ok_or_else(|| ParseAlgorithmError::Name { input: text.into() })
    }
}

// === impl ParseAlgorithmError ===

impl fmt::Display for ParseAlgorithmError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Name { input } => write!(
                f,
                "`{input}` is not a congestion control; choose `reno`, `cubic`, `cubic-hystart++`, \
                 `cubic-without-hystart`, `highspeed`, `westwood`, `bbr`, `bbr3` or `none`"
            ),
            Self::Form { input } => write!(
                f,
                "`{input}` lacks a closing parenthesis or has a parameter that is not NAME=VALUE; write \
                 `cubic(beta=0.8, c=0.6)`"
            ),
            Self::Parameter {
                algorithm,
                name,
                known,
            } => write!(
                f,
                "`{algorithm}` has no parameter `{name}`; those it has: {known}"
            ),
            Self::Value {
                parameter,
                value,
                range,
            } => write!(f, "`{parameter}` can't be `{value}`; it is {range}"),
        }
    }
}

impl core::error::Error for ParseAlgorithmError {}
