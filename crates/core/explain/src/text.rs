//! Numbers in sentences.

use core::time::Duration;

use units::{Milliseconds, Rate};

/// `1.019 s`, `200.4 ms`, `38 us`.
pub(crate) fn duration(span: Duration) -> String {
    match span.as_micros() {
        0..100 => format!("{} us", span.as_micros()),
        100..1_000_000 => format!("{} ms", Milliseconds(span)),
        _ => format!("{:.3} s", span.as_secs_f64()),
    }
}

/// A measured rate to the tenth of its unit: more digits would claim what no measurement holds.
pub(crate) fn rounded(rate: Rate) -> Rate {
    let bits = rate.bits_per_s();
    let grain = match bits {
        0..1_000_000 => 100,
        1_000_000..1_000_000_000 => 100_000,
        _ => 100_000_000,
    };
    Rate::bit_per_s((bits + grain / 2) / grain * grain)
}

/// `1 connection`, `5 connections`.
pub(crate) fn count(n: usize, noun: &str) -> String {
    if n == 1 {
        format!("1 {noun}")
    } else {
        format!("{n} {noun}s")
    }
}

/// The middle one; of an even number the earlier, so that the value is one that was seen.
pub(crate) fn median<T: Copy + Ord>(values: impl IntoIterator<Item = T>) -> Option<T> {
    let mut sorted: Vec<T> = values.into_iter().collect();
    sorted.sort_unstable();
    sorted.get(sorted.len().checked_sub(1)? / 2).copied()
}
