//! `longhaul trunk status` and `longhaul trunk history`: what a running end says of its trunks.

use std::fmt::Write as _;
use std::process::ExitCode;
use std::time::{Duration, UNIX_EPOCH};

use serde_json::Value;

use super::arguments::{TrunkHistory, TrunkStatus};
use super::question::{self, plain};
use crate::commands::lab::rfc3339;
use crate::failure::Failure;
use crate::output;

pub(super) fn status(arguments: &TrunkStatus) -> Result<ExitCode, Failure> {
    let mut report = question::ask(arguments.status, "/status")?;
    let streams = question::ask(arguments.status, "/streams")?;
    if arguments.json {
        report["streams"] = streams;
        output::json(&report)?;
    } else {
        output::data(&describe_status(&report, &streams))?;
    }
    Ok(ExitCode::SUCCESS)
}

pub(super) fn history(arguments: &TrunkHistory) -> Result<ExitCode, Failure> {
    let report = question::ask(arguments.status, "/history")?;
    if arguments.json {
        output::json(&report)?;
    } else {
        output::data(&describe_history(&report, arguments.last))?;
    }
    Ok(ExitCode::SUCCESS)
}

fn describe_status(report: &Value, streams: &Value) -> String {
    let mut text = String::new();
    // Writing to a String cannot fail, here and below.
    for trunk in items(&report["trunks"]) {
        let up = if trunk["up"] == true { "up" } else { "DOWN" };
        let modest = if trunk["modest"] == true {
            ", makes room for others"
        } else {
            ""
        };
        let _ = writeln!(
            text,
            "{}: {up}{modest}, session {}",
            plain(&trunk["trunk"]),
            plain(&trunk["session"])
        );
        let _ = writeln!(
            text,
            "  {} streams, {} delivered, {} received, held back by {}",
            trunk["streams"],
            size(&trunk["delivered_bytes"]),
            size(&trunk["received_bytes"]),
            limits(&trunk["limits_s"])
        );
        for one in items(&trunk["connections"]) {
            let _ = writeln!(
                text,
                "  connection {}: {}, RTT {}, {}, cwnd {}, {} sent again, {} unsent",
                one["connection"],
                state(one),
                span(&one["rtt_s"]),
                rate(&one["delivery_bps"]),
                size(&one["cwnd_bytes"]),
                size(&one["retransmitted_bytes"]),
                size(&one["unsent_bytes"])
            );
        }
    }
    if text.is_empty() {
        text.push_str("no trunk: no near relay has connected yet\n");
    }
    for stream in items(streams) {
        let who = [&stream["client"], &stream["server"]]
            .into_iter()
            .find_map(Value::as_str)
            .unwrap_or("nobody yet");
        let _ = writeln!(
            text,
            "stream {} on {}: {who} to {}, {}, sent {}, received {}, held back by {}",
            stream["stream"],
            plain(&stream["trunk"]),
            plain(&stream["target"]),
            span(&stream["seconds"]),
            size(&stream["sent_bytes"]),
            size(&stream["received_bytes"]),
            limits(&stream["limits_s"])
        );
    }
    text
}

fn describe_history(report: &Value, last: usize) -> String {
    let mut text = String::new();
    for (name, samples) in report["trunks"].as_object().into_iter().flatten() {
        let _ = writeln!(text, "{}, by minute:", name.escape_debug());
        for sample in tail(items(samples), last) {
            let up = if sample["up"] == true { "" } else { ", DOWN" };
            let _ = writeln!(
                text,
                "  {}  sent {}, received {}, RTT {}, {} streams, {} sent again{up}; held back by {}",
                clock(&sample["at_unix_s"]),
                rate(&sample["sent_bps"]),
                rate(&sample["received_bps"]),
                span(&sample["rtt_s"]),
                sample["streams"],
                size(&sample["retransmitted_bytes"]),
                limits(&sample["limits_s"])
            );
        }
    }
    text.push_str("streams that ended:\n");
    for done in tail(items(&report["receipts"]), last) {
        let end = done["error"].as_str().unwrap_or("completed");
        let _ = writeln!(
            text,
            "  {}  {} to {} in {}, sent {}, received {}, {}; held back by {}",
            clock(&done["at_unix_s"]),
            plain(&done["trunk"]),
            plain(&done["target"]),
            span(&done["seconds"]),
            size(&done["sent"]["bytes"]),
            size(&done["received"]["bytes"]),
            end.escape_debug(),
            limits(&done["limits_s"])
        );
    }
    text
}

fn items(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

fn tail(items: &[Value], last: usize) -> &[Value] {
    &items[items.len().saturating_sub(last)..]
}

fn state(connection: &Value) -> &'static str {
    match (
        connection["ready"] == true,
        connection["stalled"] == true,
        connection["hot"] == true,
    ) {
        (false, ..) => "joining",
        (_, true, _) => "STALLED",
        (.., true) => "hot",
        (.., false) => "not hot",
    }
}

/// The three that took longest, with their shares.
fn limits(limits: &Value) -> String {
    let mut all: Vec<(&str, f64)> = limits
        .as_object()
        .into_iter()
        .flatten()
        .filter_map(|(name, seconds)| Some((name.as_str(), seconds.as_f64()?)))
        .collect();
    let total: f64 = all.iter().map(|(_, seconds)| seconds).sum();
    all.sort_by(|(_, one), (_, other)| other.total_cmp(one));
    let shares: Vec<String> = all
        .iter()
        .take(3)
        .map(|(name, seconds)| format!("{name} {:.0} %", 100.0 * seconds / total))
        .collect();
    if shares.is_empty() {
        "nothing yet".into()
    } else {
        shares.join(", ")
    }
}

fn size(value: &Value) -> String {
    value
        .as_u64()
        .map_or_else(|| "?".into(), |bytes| units::Bytes::new(bytes).to_string())
}

fn rate(value: &Value) -> String {
    let rate = value.as_u64().map(units::Rate::bit_per_s);
    rate.map_or_else(|| "?".into(), |rate| rate.to_string())
}

fn span(value: &Value) -> String {
    let span = value
        .as_f64()
        .and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
    span.map_or_else(|| "?".into(), units::format_span)
}

/// Date and time in UTC.
fn clock(value: &Value) -> String {
    let since = Duration::from_secs(value.as_u64().unwrap_or_default());
    rfc3339(UNIX_EPOCH + since)
}
