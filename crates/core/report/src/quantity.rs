//! Numbers with their units, as people read them.

use units::Bytes;

/// A length of time with three to four digits: `12.3 s`, `1.018 s`, `208.9 ms`, `0.41 ms`.
pub(crate) fn seconds(value: f64) -> String {
    let size = value.abs();
    if size >= 100.0 {
        format!("{value:.0} s")
    } else if size >= 10.0 {
        format!("{value:.1} s")
    } else if size >= 1.0 {
        format!("{value:.3} s")
    } else if size >= 0.01 {
        format!("{:.1} ms", value * 1e3)
    } else if size > 0.0 {
        format!("{:.2} ms", value * 1e3)
    } else {
        "0 s".into()
    }
}

/// A length of time in three digits, for narrow columns: `12.3 s`, `1.02 s`, `209 ms`.
#[must_use]
pub fn short_seconds(value: f64) -> String {
    let (number, unit) = if value.abs() >= 0.9995 {
        (value, "s")
    } else {
        (value * 1e3, "ms")
    };
    let size = number.abs();
    if size >= 99.95 {
        format!("{number:.0} {unit}")
    } else if size >= 9.995 {
        format!("{number:.1} {unit}")
    } else {
        format!("{number:.2} {unit}")
    }
}

/// [`seconds`], or a dash.
pub(crate) fn seconds_or_dash(value: Option<f64>) -> String {
    value.map_or_else(|| DASH.into(), seconds)
}

/// One unit for all times of a table, so that they compare at a glance.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum TimeUnit {
    Milliseconds,
    Seconds,
}

impl TimeUnit {
    /// The unit for times up to `largest` seconds.
    pub(crate) fn for_times(largest: f64) -> Self {
        if largest < 10.0 {
            Self::Milliseconds
        } else {
            Self::Seconds
        }
    }

    pub(crate) const fn symbol(self) -> &'static str {
        match self {
            Self::Milliseconds => "ms",
            Self::Seconds => "s",
        }
    }

    /// A number without its unit.
    pub(crate) fn number(self, seconds: f64) -> String {
        match self {
            Self::Milliseconds => format!("{:.1}", seconds * 1e3),
            Self::Seconds => format!("{seconds:.2}"),
        }
    }

    /// [`Self::number`], or a dash.
    pub(crate) fn number_or_dash(self, seconds: Option<f64>) -> String {
        seconds.map_or_else(|| DASH.into(), |seconds| self.number(seconds))
    }

    /// An interval, or a dash.
    pub(crate) fn interval(self, interval: Option<(f64, f64)>) -> String {
        interval.map_or_else(
            || DASH.into(),
            |(low, high)| format!("{} to {}", self.number(low), self.number(high)),
        )
    }

    /// Figures of somebody else, who did not give decimals of a millisecond.
    pub(crate) fn reported(self, values: &[f64]) -> String {
        if values.is_empty() {
            return DASH.into();
        }
        let number = |seconds: &f64| match self {
            Self::Milliseconds => format!("{:.0}", seconds * 1e3),
            Self::Seconds => format!("{seconds:.2}"),
        };
        values.iter().map(number).collect::<Vec<_>>().join(" ")
    }
}

/// What stands for a value that nobody has measured.
pub(crate) const DASH: &str = "-";

/// A rate: `99.8 Mbit/s`.
#[must_use]
pub fn rate(bits_per_s: f64) -> String {
    for (size, unit) in [(1e9, "Gbit/s"), (1e6, "Mbit/s"), (1e3, "kbit/s")] {
        if bits_per_s.abs() >= size {
            return format!("{} {unit}", three_digits(bits_per_s / size));
        }
    }
    format!("{bits_per_s:.0} bit/s")
}

/// An amount of data, exact where it is a round number of a unit, otherwise in three digits:
/// `100 KiB`, `1 MiB`, `103 kB`, `980 B`.
#[must_use]
pub fn bytes(count: u64) -> String {
    let exact = Bytes::new(count).to_string();
    if !exact.ends_with(" B") || count < 1000 {
        return exact;
    }
    for (size, unit) in [(1e9, "GB"), (1e6, "MB"), (1e3, "kB")] {
        if float(count) >= size {
            return format!("{} {unit}", three_digits(float(count) / size));
        }
    }
    exact
}

/// A whole number with its thousands apart: `102,400`.
pub(crate) fn grouped(count: u64) -> String {
    let digits = count.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// A share of one: `59 %`, `4.2 %`, and never `0 %` for something.
pub(crate) fn percent(share: f64) -> String {
    let percent = share * 100.0;
    if percent.abs() >= 9.95 || percent == 0.0 {
        format!("{percent:.0} %")
    } else if percent.abs() >= 0.1 {
        format!("{percent:.1} %")
    } else {
        "< 0.1 %".into()
    }
}

/// How many times faster: `4.87`, `12.1`, `130`.
pub(crate) fn times(factor: f64) -> String {
    three_digits(factor)
}

/// A ratio in three digits, none of them left out: `0.211`, `4.50`, `12.0`, `130`.
pub(crate) fn ratio(value: f64) -> String {
    let size = value.abs();
    if size >= 99.95 {
        format!("{value:.0}")
    } else if size >= 9.995 {
        format!("{value:.1}")
    } else if size >= 0.9995 {
        format!("{value:.2}")
    } else {
        format!("{value:.3}")
    }
}

/// One unit for all rates of a table.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct RateUnit {
    size: f64,
    symbol: &'static str,
}

impl RateUnit {
    /// The unit for rates up to `largest` bits per second.
    pub(crate) fn for_rates(largest: f64) -> Self {
        let units = [(1e9, "Gbit/s"), (1e6, "Mbit/s"), (1e3, "kbit/s")];
        let fitting = units.into_iter().find(|(size, _)| largest >= *size);
        let (size, symbol) = fitting.unwrap_or((1.0, "bit/s"));
        Self { size, symbol }
    }

    pub(crate) const fn symbol(self) -> &'static str {
        self.symbol
    }

    /// A number without its unit.
    pub(crate) fn number(self, bits_per_s: f64) -> String {
        format!("{:.2}", bits_per_s / self.size)
    }

    /// [`Self::number`], or a dash.
    pub(crate) fn number_or_dash(self, bits_per_s: Option<f64>) -> String {
        bits_per_s.map_or_else(|| DASH.into(), |rate| self.number(rate))
    }

    /// An interval, or a dash.
    pub(crate) fn interval(self, interval: Option<(f64, f64)>) -> String {
        interval.map_or_else(
            || DASH.into(),
            |(low, high)| format!("{} to {}", self.number(low), self.number(high)),
        )
    }
}

/// A count or a size as a number to calculate with; exact up to 2^53.
pub(crate) fn float(count: u64) -> f64 {
    const HALF: f64 = 4_294_967_296.0;
    let [high, low] = [count >> 32, count & 0xffff_ffff]
        .map(|half| f64::from(u32::try_from(half).unwrap_or(u32::MAX)));
    high * HALF + low
}

fn three_digits(value: f64) -> String {
    let size = value.abs();
    let text = if size >= 99.95 {
        format!("{value:.0}")
    } else if size >= 9.995 {
        format!("{value:.1}")
    } else {
        format!("{value:.2}")
    };
    if text.contains('.') {
        text.trim_end_matches('0').trim_end_matches('.').into()
    } else {
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_the_unit_that_people_would_choose() {
        let shown = [123.4, 12.34, 1.0174, 0.9996, 0.2089, 0.0031, 0.0].map(seconds);
        assert_eq!(
            shown,
            [
                "123 s", "12.3 s", "1.017 s", "999.6 ms", "208.9 ms", "3.10 ms", "0 s"
            ]
        );
    }

    #[test]
    fn narrow_columns_get_three_digits() {
        let shown = [623.4, 12.34, 1.0174, 0.9996, 0.2089, 0.0031, 0.0].map(short_seconds);
        assert_eq!(
            shown,
            [
                "623 s", "12.3 s", "1.02 s", "1.00 s", "209 ms", "3.10 ms", "0.00 ms"
            ]
        );
    }

    #[test]
    fn sizes_are_exact_where_they_are_round() {
        let shown = [980, 102_400, 1 << 20, 102_871, 2_505_000, 3_000_000_001].map(bytes);
        assert_eq!(
            shown,
            ["980 B", "100 KiB", "1 MiB", "103 kB", "2505 kB", "3 GB"]
        );
    }

    #[test]
    fn rates_and_shares_keep_what_matters() {
        assert_eq!(
            [1e8, 99.83e6, 1.544e6, 800.0].map(rate),
            ["100 Mbit/s", "99.8 Mbit/s", "1.54 Mbit/s", "800 bit/s"]
        );
        assert_eq!(
            [0.0, 0.0002, 0.042, 0.59, 1.0].map(percent),
            ["0 %", "< 0.1 %", "4.2 %", "59 %", "100 %"]
        );
    }

    #[test]
    fn thousands_stand_apart() {
        assert_eq!(
            [0, 999, 1000, 102_400, 1 << 20].map(grouped),
            ["0", "999", "1,000", "102,400", "1,048,576"]
        );
    }

    #[test]
    fn counts_become_floats_exactly() {
        for count in [0, 1, (1 << 32) - 1, 1 << 32, (1 << 53) - 1] {
            assert_eq!(format!("{:.0}", float(count)), count.to_string());
        }
    }
}
