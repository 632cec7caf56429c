use core::fmt;
use core::str::FromStr;

use crate::{ParseQuantityError, split_number};

/// A probability of loss, in lost packets per 10^9.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct LossRate(u32);

impl LossRate {
    /// Nothing is lost.
    pub const ZERO: Self = Self(0);
    /// Everything is lost.
    pub const ONE: Self = Self(1_000_000_000);

    /// `lost` packets per 10^9; `None` above one.
    #[must_use]
    pub const fn per_billion(lost: u32) -> Option<Self> {
        if lost <= Self::ONE.0 {
            Some(Self(lost))
        } else {
            None
        }
    }

    /// Lost packets per 10^9.
    #[must_use]
    pub const fn as_per_billion(self) -> u32 {
        self.0
    }

    /// The probability, 0 to 1.
    #[must_use]
    pub fn as_f64(self) -> f64 {
        f64::from(self.0) / 1e9
    }
}

impl fmt::Display for LossRate {
    /// Per cent, exactly: `0.5 %`, `0.006 %`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (whole, rest) = (self.0 / 10_000_000, self.0 % 10_000_000);
        if rest == 0 {
            return write!(f, "{whole} %");
        }
        let digits = alloc::format!("{rest:07}");
        write!(f, "{whole}.{} %", digits.trim_end_matches('0'))
    }
}

impl FromStr for LossRate {
    type Err = ParseQuantityError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let parsed = split_number(text).and_then(|(nanos, unit)| {
            let per_billion = match unit {
                "%" => nanos / 100,
                // A bare number is a probability; it has no unit that could be mistaken.
                "" => nanos,
                _ => return None,
            };
            u32::try_from(per_billion).ok().and_then(Self::per_billion)
        });
        parsed.ok_or_else(|| ParseQuantityError {
            input: text.into(),
            expected: "a loss rate between 0 % and 100 %, such as `0.5 %` or `0.005`",
        })
    }
}

#[cfg(feature = "serde")]
crate::serde_as_text!(LossRate, "a loss rate such as \"0.5 %\"");
