//! Time stamps as tcpdump prints them at the start of a line.

/// A time stamp, in nanoseconds since what its form counts from.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Stamp {
    /// `HH:MM:SS.ffffff`: since midnight, since the packet before (`-ttt`) or since the first (`-ttttt`).
    OfDay {
        nanos: u64,
        /// The sign column that only differences have: a space or a minus before the digits.
        sign: Sign,
    },
    /// `-tt` and `-tttt`: since the Unix epoch.
    Unix { nanos: u64 },
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Sign {
    None,
    Plus,
    Minus,
}

/// Takes the stamp off the start of a line.
pub(super) fn take(line: &str) -> Option<(Stamp, &str)> {
    let (sign, text) = if let Some(text) = line.strip_prefix('-') {
        (Sign::Minus, text)
    } else if line.starts_with(' ') && !line.starts_with("  ") {
        (Sign::Plus, &line[1..])
    } else {
        (Sign::None, line.trim_start())
    };
    let (first, rest) = text.split_once(' ')?;
    // A span may be longer than a day.
    let hours = if sign == Sign::None { 24 } else { 100 };
    if let Some(nanos) = clock(first, hours) {
        return Some((Stamp::OfDay { nanos, sign }, rest));
    }
    if let Some(days) = date(first) {
        let (time, rest) = rest.split_once(' ')?;
        let nanos = days * DAY_NANOS + clock(time, 24)?;
        return Some((Stamp::Unix { nanos }, rest));
    }
    let nanos = unix(first)?;
    Some((Stamp::Unix { nanos }, rest))
}

pub(super) const DAY_NANOS: u64 = 86_400 * SECOND_NANOS;
const SECOND_NANOS: u64 = 1_000_000_000;

/// `16:54:06.286416`, with fewer than so many hours.
fn clock(text: &str, limit_of_hours: u64) -> Option<u64> {
    let (whole, fraction) = text.split_once('.')?;
    let mut parts = whole.split(':');
    let mut part = |limit| two_digits(parts.next()?).filter(|value| *value < limit);
    let (hours, minutes, seconds) = (part(limit_of_hours)?, part(60)?, part(61)?);
    if parts.next().is_some() {
        return None;
    }
    Some((hours * 3_600 + minutes * 60 + seconds) * SECOND_NANOS + fraction_nanos(fraction)?)
}

/// `1678886400.123456`. Fewer than nine digits before the point are some other number.
fn unix(text: &str) -> Option<u64> {
    let (seconds, fraction) = text.split_once('.')?;
    if !(9..=10).contains(&seconds.len()) || !all_digits(seconds) {
        return None;
    }
    Some(seconds.parse::<u64>().ok()? * SECOND_NANOS + fraction_nanos(fraction)?)
}

/// `2023-03-15` as days since the Unix epoch. The stamp is local time of the capturing host, whose zone
/// nobody printed; it is taken as UTC.
fn date(text: &str) -> Option<u64> {
    let (year, rest) = text.split_once('-')?;
    let (month, day) = rest.split_once('-')?;
    let year = (year.len() == 4 && all_digits(year)).then_some(year)?;
    let year = year.parse::<u64>().ok().filter(|year| *year >= 1970)?;
    let month = two_digits(month).filter(|month| (1..=12).contains(month))?;
    let day = two_digits(day).filter(|day| (1..=31).contains(day))?;
    // Days from civil: years begin in March, so that the leap day is the last of its year.
    let shifted = if month <= 2 { year - 1 } else { year };
    let (era, of_era) = (shifted / 400, shifted % 400);
    let of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    let days = era * 146_097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year;
    days.checked_sub(719_468)
}

/// Up to nine decimal places in nanoseconds.
fn fraction_nanos(digits: &str) -> Option<u64> {
    if !(1..=9).contains(&digits.len()) || !all_digits(digits) {
        return None;
    }
    let exponent = 9 - u32::try_from(digits.len()).ok()?;
    Some(digits.parse::<u64>().ok()? * 10_u64.pow(exponent))
}

fn two_digits(text: &str) -> Option<u64> {
    (text.len() == 2 && all_digits(text)).then(|| text.parse().ok())?
}

fn all_digits(text: &str) -> bool {
    text.bytes().all(|byte| byte.is_ascii_digit())
}
