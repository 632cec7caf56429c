//! Lines that this process should have written and did not: the log is the process's, not a listener's.

use std::fmt::Write as _;
use std::sync::atomic::{AtomicU64, Ordering};

/// Why a line is lost.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Loss {
    /// Whoever reads the events is slower than they come.
    SlowReader,
    /// The log could not be written, as on a full disk.
    Log,
    /// The key log could not be written.
    KeyLog,
}

static COUNTS: [AtomicU64; 3] = [const { AtomicU64::new(0) }; 3];

const SERIES: [(Loss, &str); 3] = [
    (Loss::SlowReader, "file=\"log\",why=\"slow-reader\""),
    (Loss::Log, "file=\"log\",why=\"not-written\""),
    (Loss::KeyLog, "file=\"key-log\",why=\"not-written\""),
];

/// Counts lost lines, for `longhaul_lines_lost_total`.
pub fn count_lost(loss: Loss, lines: u64) {
    COUNTS[loss as usize].fetch_add(lines, Ordering::Relaxed);
}

/// All of them in Prometheus' text format.
pub(crate) fn write(text: &mut String) {
    text.push_str(
        "# HELP longhaul_lines_lost_total Lines of the log or key log that were not written.\n\
         # TYPE longhaul_lines_lost_total counter\n",
    );
    for (loss, labels) in SERIES {
        let lines = COUNTS[loss as usize].load(Ordering::Relaxed);
        // Writing to a String cannot fail.
        let _ = writeln!(text, "longhaul_lines_lost_total{{{labels}}} {lines}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_loss_is_counted_in_its_own_series() {
        count_lost(Loss::SlowReader, 2);
        count_lost(Loss::KeyLog, 3);
        count_lost(Loss::KeyLog, 4);
        let mut text = String::new();
        write(&mut text);
        let counts: Vec<_> = text.lines().filter(|line| !line.starts_with('#')).collect();
        let expected = [
            "longhaul_lines_lost_total{file=\"log\",why=\"slow-reader\"} 2",
            "longhaul_lines_lost_total{file=\"log\",why=\"not-written\"} 0",
            "longhaul_lines_lost_total{file=\"key-log\",why=\"not-written\"} 7",
        ];
        assert_eq!(counts, expected);
    }
}
