use core::fmt;
use core::str::FromStr;
use core::time::Duration;

use alloc::string::String;

use crate::{ParseQuantityError, split_number};

/// Reads `200.4 ms`, `60 s`, `1.5 min` or `250 us`. A bare number is refused: nobody knows its unit.
pub fn parse_span(text: &str) -> Result<Duration, ParseQuantityError> {
    let parsed = split_number(text).and_then(|(scaled, unit)| {
        let unit_nanos: u128 = match unit {
            "ns" => 1,
            "us" | "µs" => 1_000,
            "ms" => 1_000_000,
            "s" => 1_000_000_000,
            "min" => 60_000_000_000,
            "h" => 3_600_000_000_000,
            _ => return None,
        };
        let nanos = scaled.checked_mul(unit_nanos)? / 1_000_000_000;
        u64::try_from(nanos).ok().map(Duration::from_nanos)
    });
    parsed.ok_or_else(|| ParseQuantityError {
        input: text.into(),
        expected: "a time with its unit, such as `200.4 ms`, `30 s` or `5 min`",
    })
}

/// Writes a span in the unit that keeps it readable: `200.4 ms`, `1.02 s`, `13 us`. Three decimals.
#[must_use]
pub fn format_span(span: Duration) -> String {
    let nanos = span.as_nanos();
    let (size, unit) = match nanos {
        0..1_000 => (1, "ns"),
        1_000..1_000_000 => (1_000, "us"),
        1_000_000..1_000_000_000 => (1_000_000, "ms"),
        _ => (1_000_000_000, "s"),
    };
    let thousandths = nanos * 1_000 / size;
    let text = alloc::format!("{}.{:03}", thousandths / 1_000, thousandths % 1_000);
    alloc::format!(
        "{} {unit}",
        text.trim_end_matches('0').trim_end_matches('.')
    )
}

/// A span of time in a file or on a command line: its text form carries the unit, `"200.4 ms"`.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub struct Span(Duration);

impl Span {
    /// The duration.
    #[must_use]
    pub const fn get(self) -> Duration {
        self.0
    }
}

impl From<Duration> for Span {
    fn from(duration: Duration) -> Self {
        Self(duration)
    }
}

impl FromStr for Span {
    type Err = ParseQuantityError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        parse_span(text).map(Self)
    }
}

impl fmt::Display for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&format_span(self.0))
    }
}

#[cfg(feature = "serde")]
crate::serde_as_text!(Span, "a time with its unit, such as \"200.4 ms\"");

/// Prints a span as whole and tenth milliseconds, the unit of RTTs and of completion times: `1017.4`.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub struct Milliseconds(pub Duration);

impl fmt::Display for Milliseconds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let tenths = (self.0.as_micros() + 50) / 100;
        f.pad(&alloc::format!("{}.{}", tenths / 10, tenths % 10))
    }
}
