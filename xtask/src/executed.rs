//! Counts what `cargo test` executed: a check that did not run is no check that passed.
//!
//! Tests that need namespaces, TUN devices, raw sockets or eBPF fail where they are not permitted. What remains is
//! that they are not there at all: left out by a feature, by a filter, by a binary that is no longer built.

use std::collections::BTreeMap;
use std::io::BufRead;

use anyhow::{Result, bail};

/// Binaries whose tests touch the kernel beyond loopback, and how many of theirs pass at least.
const LEAST: [(&str, u64); 15] = [
    ("capture", 3),
    ("cc", 2),
    ("isolation", 12),
    ("kernel", 10),
    ("lab", 12),
    ("lab_answers", 1),
    ("lab_runs", 3),
    ("lab_tune", 2),
    ("lab_workloads", 13),
    ("path", 17),
    ("redirect", 3),
    ("schedule", 1),
    ("simulator", 2),
    ("stack", 6),
    ("top", 4),
];

/// Passes on what `cargo test` prints, and fails where too little of it ran.
pub(crate) fn check(printed: impl BufRead) -> Result<()> {
    let mut executed = Executed::default();
    for line in printed.lines() {
        let line = line?;
        println!("{line}");
        executed.read(&line);
    }
    let short = executed.short();
    if !short.is_empty() {
        bail!("too few tests ran: {}", short.join("; "));
    }
    println!(
        "{} tests passed, among them every privileged one",
        executed.total()
    );
    Ok(())
}

/// Tests that passed, by binary.
#[derive(Debug, Default)]
struct Executed {
    passed: BTreeMap<String, u64>,
    /// The binary that runs now.
    running: Option<String>,
}

// === impl Executed ===

impl Executed {
    /// `     Running tests/lab.rs (target/debug/deps/lab-0123456789abcdef)`, and at its end
    /// `test result: ok. 12 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 1.23s`.
    fn read(&mut self, line: &str) {
        let line = line.trim_start();
        if let Some(binary) = line.strip_prefix("Running ") {
            self.running = name(binary);
        } else if line.starts_with("Doc-tests ") {
            self.running = None;
        } else if let Some(result) = line.strip_prefix("test result: ") {
            let passed = result
                .split_once(". ")
                .and_then(|(_, counts)| counts.split_once(" passed"))
                .and_then(|(passed, _)| passed.parse::<u64>().ok())
                .unwrap_or(0);
            let running = self.running.take().unwrap_or_else(|| "doc".to_owned());
            *self.passed.entry(running).or_default() += passed;
        }
    }

    fn short(&self) -> Vec<String> {
        LEAST
            .iter()
            .filter_map(|(binary, least)| {
                let passed = self.passed.get(*binary).copied().unwrap_or(0);
                (passed < *least).then(|| format!("`{binary}` {passed} of {least}"))
            })
            .collect()
    }

    fn total(&self) -> u64 {
        self.passed.values().sum()
    }
}

/// `lab` of `tests/lab.rs (target/debug/deps/lab-0123456789abcdef)`.
fn name(binary: &str) -> Option<String> {
    let (_, path) = binary.rsplit_once('/')?;
    let (name, _) = path.rsplit_once('-')?;
    Some(name.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    const RUN: &str = "     Running tests/path.rs (target/debug/deps/path-0123456789abcdef)";

    fn executed(lines: &[&str]) -> Executed {
        let mut executed = Executed::default();
        for line in lines {
            executed.read(line);
        }
        executed
    }

    #[test]
    fn tests_are_counted_by_their_binary() {
        let one = "test result: ok. 12 passed; 0 failed; 1 ignored; 0 measured; 0 filtered out";
        let seen = executed(&[
            RUN,
            "running 13 tests",
            one,
            "   Doc-tests longhaul_lab",
            one,
        ]);
        assert_eq!(seen.passed["path"], 12);
        assert_eq!(seen.total(), 24);
    }

    #[test]
    fn a_binary_that_did_not_run_is_missed() {
        let none = "test result: ok. 0 passed; 0 failed; 9 ignored; 0 measured; 9 filtered out";
        assert!(
            executed(&[RUN, none])
                .short()
                .iter()
                .any(|short| short.starts_with("`path` 0 of"))
        );
        assert_eq!(executed(&[]).short().len(), LEAST.len());
    }
}
