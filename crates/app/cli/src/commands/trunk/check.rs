//! `longhaul trunk check`: asks a running end to probe its trunks.

use std::fmt::Write as _;
use std::process::ExitCode;
use std::time::Duration;

use serde_json::Value;

use super::arguments::TrunkCheck;
use super::question::{self, plain};
use crate::failure::Failure;
use crate::output;

pub(super) fn run(arguments: &TrunkCheck) -> Result<ExitCode, Failure> {
    let report = question::ask(arguments.status, "/check")?;
    if arguments.json {
        output::json(&report)?;
    } else {
        output::data(&describe(&report))?;
    }
    if report["healthy"] == true {
        Ok(ExitCode::SUCCESS)
    } else {
        Ok(ExitCode::from(1))
    }
}

fn describe(report: &Value) -> String {
    let mut text = String::new();
    let probes = report["probes"].as_array().map_or(&[][..], Vec::as_slice);
    if probes.is_empty() {
        text.push_str("no trunk: no near relay has connected yet\n");
    }
    // Writing to a String cannot fail.
    for probe in probes {
        let health = if probe["healthy"] == true {
            "healthy"
        } else {
            "NOT healthy"
        };
        let _ = writeln!(text, "{}: {health}", plain(&probe["trunk"]));
        let echo = &probe["echo"];
        let _ = writeln!(
            text,
            "  echo of {} bytes: {}",
            echo["bytes"],
            outcome(echo, "back unchanged")
        );
        for target in probe["targets"].as_array().map_or(&[][..], Vec::as_slice) {
            let _ = writeln!(
                text,
                "  {}: {}",
                plain(&target["target"]),
                outcome(target, "reached")
            );
        }
    }
    text
}

fn outcome(part: &Value, well: &str) -> String {
    match (part["error"].as_str(), part["seconds"].as_f64()) {
        (Some(error), _) => error.escape_debug().to_string(),
        (None, Some(seconds)) => {
            let span = Duration::try_from_secs_f64(seconds).unwrap_or_default();
            format!("{well} in {}", units::format_span(span))
        }
        (None, None) => well.to_owned(),
    }
}
