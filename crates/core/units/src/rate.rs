use core::fmt;
use core::str::FromStr;
use core::time::Duration;

use crate::{Bytes, ParseQuantityError, split_number};

/// A rate in whole bits per second. Rates count IP bytes: headers from IP upwards, no link layer.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct Rate(u64);

impl Rate {
    /// `bits` bits per second.
    #[must_use]
    pub const fn bit_per_s(bits: u64) -> Self {
        Self(bits)
    }

    /// `kilobits` x 1000 bits per second, saturating.
    #[must_use]
    pub const fn kbit_per_s(kilobits: u64) -> Self {
        Self(kilobits.saturating_mul(1_000))
    }

    /// `megabits` x 10^6 bits per second, saturating.
    #[must_use]
    pub const fn mbit_per_s(megabits: u64) -> Self {
        Self(megabits.saturating_mul(1_000_000))
    }

    /// Bits per second.
    #[must_use]
    pub const fn bits_per_s(self) -> u64 {
        self.0
    }

    /// Bytes per second, rounded down; the unit in which the kernel takes a pacing rate.
    #[must_use]
    pub const fn bytes_per_s(self) -> u64 {
        self.0 / 8
    }

    /// Bytes this rate moves in `span`, i.e. the bandwidth-delay product when `span` is an RTT.
    /// `None` on overflow.
    #[must_use]
    pub fn checked_mul(self, span: Duration) -> Option<Bytes> {
        let bits = u128::from(self.0).checked_mul(span.as_nanos())? / 1_000_000_000;
        u64::try_from(bits / 8).ok().map(Bytes::new)
    }
}

impl fmt::Display for Rate {
    /// The largest unit that keeps at most three decimals exactly: `100 Mbit/s`, `1.544 Mbit/s`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (size, unit) in [
            (1_000_000_000, "Gbit/s"),
            (1_000_000, "Mbit/s"),
            (1_000, "kbit/s"),
        ] {
            if self.0 >= size && self.0.is_multiple_of(size / 1_000) {
                let (whole, thousandths) = (self.0 / size, self.0 % size / (size / 1_000));
                if thousandths == 0 {
                    return write!(f, "{whole} {unit}");
                }
                let digits = alloc::format!("{thousandths:03}");
                return write!(f, "{whole}.{} {unit}", digits.trim_end_matches('0'));
            }
        }
        write!(f, "{} bit/s", self.0)
    }
}

impl FromStr for Rate {
    type Err = ParseQuantityError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let parsed = split_number(text).and_then(|(nanos, unit)| {
            let size: u128 = match unit.strip_suffix("/s").unwrap_or(unit) {
                "bit" => 1,
                "kbit" => 1_000,
                "Mbit" | "mbit" => 1_000_000,
                "Gbit" | "gbit" => 1_000_000_000,
                _ => return None,
            };
            u64::try_from(nanos.checked_mul(size)? / 1_000_000_000)
                .ok()
                .map(Self)
        });
        parsed.ok_or_else(|| ParseQuantityError {
            input: text.into(),
            expected: "a rate with its unit, such as `100 Mbit/s` or `1 Gbit/s`",
        })
    }
}

#[cfg(feature = "serde")]
crate::serde_as_text!(Rate, "a rate with its unit, such as \"100 Mbit/s\"");
