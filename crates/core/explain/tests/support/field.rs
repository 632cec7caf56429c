//! The three printed traces of field case C, cut out of the report as it stands.

use std::fmt::Write as _;
use std::path::PathBuf;

use connections::{Tracked, Tracker};

const REPORT: &str = "seeds/002_fbacd287669d9fc8.txt";

/// The report, or `None` where `LONGHAUL_FIELD_DATA` is `none`; anything else missing fails the test.
#[expect(
    clippy::disallowed_methods,
    clippy::print_stderr,
    reason = "a test finds its field data by the environment, and says when it did not run"
)]
pub(crate) fn report() -> Option<String> {
    let dir = match std::env::var("LONGHAUL_FIELD_DATA") {
        Ok(none) if none == "none" => {
            eprintln!("did not run: LONGHAUL_FIELD_DATA is `none`");
            return None;
        }
        Ok(dir) => PathBuf::from(dir),
        Err(_) => PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../../../shared"),
    };
    let path = dir.join(REPORT);
    Some(std::fs::read_to_string(&path).unwrap_or_else(|error| {
        panic!(
            "cannot read {}: {error}; set LONGHAUL_FIELD_DATA",
            path.display()
        )
    }))
}

/// What follows the `nth` (from 0) `tcpdump` command of the report, up to the next shell prompt or to
/// where the report's prose (a bullet) goes on.
pub(crate) fn trace(report: &str, nth: usize) -> String {
    let mut lines = report.lines();
    for _ in 0..=nth {
        lines
            .by_ref()
            .find(|line| line.starts_with("$ sudo tcpdump"))
            .expect("the report holds this many traces");
    }
    let mut text = String::new();
    for line in lines.take_while(|line| !line.starts_with('$') && !line.starts_with("  •")) {
        writeln!(text, "{line}").expect("writing to a string");
    }
    text
}

/// Everything in `text`, tracked.
pub(crate) fn track(text: &str) -> Tracked {
    let mut observations = capture::Observations::new(text.as_bytes());
    let mut tracker = Tracker::new();
    while let Some(observation) = observations.next_observation().expect("readable text") {
        tracker.observe(&observation);
    }
    tracker.finish()
}
