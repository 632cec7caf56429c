//! `longhaul trunk check`: asks a running end to probe its trunks.

use std::fmt::Write as _;
use std::io::{self, Read as _, Write as _};
use std::net::TcpStream;
use std::process::ExitCode;
use std::time::Duration;

use serde_json::Value;

use super::arguments::TrunkCheck;
use crate::failure::{Blame as _, Failure};
use crate::output;

/// Longer than the relay gives a probe of one trunk with a few targets.
const PATIENCE: Duration = Duration::from_mins(2);

/// More than the report of a hundred trunks.
const LONGEST: u64 = 1 << 20;

pub(super) fn run(arguments: &TrunkCheck) -> Result<ExitCode, Failure> {
    let address = arguments.status;
    let answer = ask(arguments)
        .environment(format!("cannot ask the trunk whose status is at {address}"))
        .map_err(|failure| {
            failure.hint("it has to run with `--status`, such as `--status 127.0.0.1:7070`")
        })?;
    let body = answer.split_once("\r\n\r\n").map_or("", |(_, body)| body);
    let report: Value =
        serde_json::from_str(body).environment(format!("what answers at {address} is no trunk"))?;
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

fn ask(arguments: &TrunkCheck) -> io::Result<String> {
    let mut stream = TcpStream::connect(arguments.status)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.write_all(b"GET /check HTTP/1.1\r\nHost: trunk\r\nConnection: close\r\n\r\n")?;
    let mut answer = String::new();
    stream.take(LONGEST).read_to_string(&mut answer)?;
    Ok(answer)
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

fn plain(value: &Value) -> String {
    value
        .as_str()
        .unwrap_or_default()
        .escape_debug()
        .to_string()
}
