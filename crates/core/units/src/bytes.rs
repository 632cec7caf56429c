use core::fmt;
use core::iter::Sum;
use core::ops::{Add, AddAssign};
use core::str::FromStr;
use core::time::Duration;

use crate::{ParseQuantityError, Rate, split_number};

/// A number of bytes. kB and MB are powers of ten, KiB and MiB powers of two.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct Bytes(u64);

impl Bytes {
    /// No bytes.
    pub const ZERO: Self = Self(0);

    /// `count` bytes.
    #[must_use]
    pub const fn new(count: u64) -> Self {
        Self(count)
    }

    /// `count` x 1024 bytes, saturating.
    #[must_use]
    pub const fn kib(count: u64) -> Self {
        Self(count.saturating_mul(1 << 10))
    }

    /// `count` x 1,048,576 bytes, saturating.
    #[must_use]
    pub const fn mib(count: u64) -> Self {
        Self(count.saturating_mul(1 << 20))
    }

    /// The number of bytes.
    #[must_use]
    pub const fn get(self) -> u64 {
        self.0
    }

    /// What is left after taking `other` away, or zero.
    #[must_use]
    pub const fn saturating_sub(self, other: Self) -> Self {
        Self(self.0.saturating_sub(other.0))
    }

    /// How long `rate` needs for these bytes, rounded up to the nanosecond; `None` at rate zero.
    #[must_use]
    pub fn checked_div(self, rate: Rate) -> Option<Duration> {
        let bits_nanos = u128::from(self.0) * 8 * 1_000_000_000;
        let rate = u128::from(rate.bits_per_s());
        if rate == 0 {
            return None;
        }
        u64::try_from(bits_nanos.div_ceil(rate))
            .ok()
            .map(Duration::from_nanos)
    }

    /// The rate at which these bytes pass in `span`; `None` in no time at all, or on overflow.
    #[must_use]
    pub fn checked_per(self, span: Duration) -> Option<Rate> {
        let bits_nanos = u128::from(self.0) * 8 * 1_000_000_000;
        u64::try_from(bits_nanos.checked_div(span.as_nanos())?)
            .ok()
            .map(Rate::bit_per_s)
    }
}

impl Add for Bytes {
    type Output = Self;
    /// Saturates: a counter that has overflowed stays at its end instead of starting again.
    fn add(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }
}

impl AddAssign for Bytes {
    fn add_assign(&mut self, other: Self) {
        *self = *self + other;
    }
}

impl Sum for Bytes {
    fn sum<I: Iterator<Item = Self>>(iter: I) -> Self {
        iter.fold(Self::ZERO, Add::add)
    }
}

impl fmt::Display for Bytes {
    /// The largest binary or decimal unit that holds the count exactly, so that text round-trips:
    /// `64 KiB`, `10 MB`, `102400 B` never becomes `102.4 kB`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const UNITS: [(u64, &str); 6] = [
            (1 << 30, "GiB"),
            (1_000_000_000, "GB"),
            (1 << 20, "MiB"),
            (1_000_000, "MB"),
            (1 << 10, "KiB"),
            (1_000, "kB"),
        ];
        for (size, unit) in UNITS {
            if self.0 != 0 && self.0.is_multiple_of(size) {
                return write!(f, "{} {unit}", self.0 / size);
            }
        }
        write!(f, "{} B", self.0)
    }
}

impl FromStr for Bytes {
    type Err = ParseQuantityError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let parsed = split_number(text).and_then(|(nanos, unit)| {
            let size: u128 = match unit {
                "B" => 1,
                "kB" | "KB" => 1_000,
                "MB" => 1_000_000,
                "GB" => 1_000_000_000,
                "KiB" => 1 << 10,
                "MiB" => 1 << 20,
                "GiB" => 1 << 30,
                _ => return None,
            };
            let scaled = nanos.checked_mul(size)?;
            if scaled % 1_000_000_000 != 0 {
                return None;
            }
            u64::try_from(scaled / 1_000_000_000).ok().map(Self)
        });
        parsed.ok_or_else(|| ParseQuantityError {
            input: text.into(),
            expected: "a size in whole bytes with its unit, such as `64 KiB`, `10 MB` or `1500 B`",
        })
    }
}

#[cfg(feature = "serde")]
crate::serde_as_text!(Bytes, "a size with its unit, such as \"64 KiB\"");
