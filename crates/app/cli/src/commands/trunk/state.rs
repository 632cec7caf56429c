//! `longhaul trunk status` and `longhaul trunk history`: what a running end says of its trunks.

use std::fmt::Write as _;
use std::process::ExitCode;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde_json::Value;

use super::arguments::{TrunkHistory, TrunkStatus};
use super::question::{self, plain};
use crate::commands::lab::rfc3339;
use crate::commands::relay;
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
    let mut report = question::ask(arguments.status, "/history")?;
    choose(&mut report, arguments, unix_now());
    if arguments.json {
        output::json(&report)?;
    } else {
        output::data(&describe_history(&report))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Leaves what was asked for.
fn choose(report: &mut Value, arguments: &TrunkHistory, now_unix_s: u64) {
    const SHOWN: usize = 60;
    let all = arguments.json || arguments.since.is_some();
    let last = arguments
        .last
        .unwrap_or(if all { usize::MAX } else { SHOWN });
    let since = arguments
        .since
        .map_or(0, |span| now_unix_s.saturating_sub(span.get().as_secs()));
    let is_later = |one: &Value| one["at_unix_s"].as_u64().is_some_and(|at| at >= since);
    for samples in report["trunks"].as_object_mut().into_iter().flatten() {
        if let Some(samples) = samples.1.as_array_mut() {
            samples.retain(is_later);
            samples.drain(..samples.len().saturating_sub(last));
        }
    }
    let Some(receipts) = report["receipts"].as_array_mut() else {
        return;
    };
    receipts.retain(is_later);
    if let Some(text) = &arguments.target {
        let names = |one: &Value| one["target"].as_str().is_some_and(|to| to.contains(text));
        receipts.retain(names);
    }
    if arguments.slowest {
        let seconds = |one: &Value| one["seconds"].as_f64().unwrap_or_default();
        receipts.sort_by(|one, other| seconds(other).total_cmp(&seconds(one)));
        receipts.truncate(last);
    } else {
        receipts.drain(..receipts.len().saturating_sub(last));
    }
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
                "  connection {}: {}, RTT {}, {}, cwnd {}, {} sent again, {} unsent, held back by {}",
                one["connection"],
                state(one),
                span(&one["rtt_s"]),
                rate(&one["delivery_bps"]),
                size(&one["cwnd_bytes"]),
                size(&one["retransmitted_bytes"]),
                size(&one["unsent_bytes"]),
                limits(&one["limits_s"])
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

fn describe_history(report: &Value) -> String {
    let mut text = String::new();
    for (name, samples) in report["trunks"].as_object().into_iter().flatten() {
        let _ = writeln!(text, "{}, by minute:", name.escape_debug());
        for sample in items(samples) {
            let up = if sample["up"] == true { "" } else { ", DOWN" };
            let _ = writeln!(
                text,
                "  {}  sent {}, received {}, RTT {}, {} streams, {} sent again{up}; sending held back by {}",
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
    for done in items(&report["receipts"]) {
        let end = done["error"].as_str().unwrap_or("completed");
        let client = done["client"].as_str();
        let client =
            client.map_or_else(String::new, |from| format!(" from {}", from.escape_debug()));
        let _ = writeln!(
            text,
            "  {}  {}{client} to {} in {}, sent {}, received {}, {}; sending held back by {}",
            clock(&done["at_unix_s"]),
            plain(&done["trunk"]),
            plain(&done["target"]),
            span(&done["seconds"]),
            moved(&done["sent"]["bytes"], &done["seconds"]),
            moved(&done["received"]["bytes"], &done["seconds"]),
            end.escape_debug(),
            limits(&done["limits_s"])
        );
    }
    text
}

/// Bytes, and how fast they were over the whole time.
fn moved(bytes: &Value, seconds: &Value) -> String {
    let span = seconds.as_f64().map(Duration::try_from_secs_f64);
    let rate = bytes.as_u64().zip(span.and_then(Result::ok));
    match rate.and_then(|(bytes, span)| units::Bytes::new(bytes).checked_per(span)) {
        Some(rate) => format!("{} ({})", size(bytes), relay::bit_rate(rate.bits_per_s())),
        None => size(bytes),
    }
}

fn items(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
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
    value.as_u64().map_or_else(|| "?".into(), relay::size)
}

fn rate(value: &Value) -> String {
    value.as_u64().map_or_else(|| "?".into(), relay::bit_rate)
}

fn span(value: &Value) -> String {
    let span = value
        .as_f64()
        .and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
    span.map_or_else(|| "?".into(), units::format_span)
}

fn unix_now() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |since| since.as_secs())
}

/// Date and time in UTC.
fn clock(value: &Value) -> String {
    let since = Duration::from_secs(value.as_u64().unwrap_or_default());
    rfc3339(UNIX_EPOCH + since)
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: u64 = 1_800_000_000;

    fn arguments(words: &[&str]) -> TrunkHistory {
        #[derive(clap::Parser)]
        struct Line {
            #[command(flatten)]
            history: TrunkHistory,
        }
        let line = ["history", "--status", "127.0.0.1:1"];
        let line = line.iter().chain(words);
        <Line as clap::Parser>::parse_from(line).history
    }

    /// Ended so many hours ago, after so many seconds.
    fn receipt(hours: u64, seconds: f64, target: &str) -> Value {
        serde_json::json!({ "at_unix_s": NOW - hours * 3_600, "seconds": seconds, "target": target })
    }

    /// Targets of what is left, in their order, and how many minutes.
    fn chosen(words: &[&str]) -> (Vec<String>, usize) {
        let minute = |ago: u64| serde_json::json!({ "at_unix_s": NOW - ago * 60 });
        let mut report = serde_json::json!({
            "trunks": { "b": (0..200).rev().map(minute).collect::<Vec<_>>() },
            "receipts": [
                receipt(30, 9_000.0, "backup:22"),
                receipt(9, 7_200.0, "backup:22"),
                receipt(8, 30.0, "backup:873"),
                receipt(1, 0.2, "db:5432"),
            ],
        });
        choose(&mut report, &arguments(words), NOW);
        let targets = items(&report["receipts"])
            .iter()
            .map(|one| plain(&one["target"]));
        (targets.collect(), items(&report["trunks"]["b"]).len())
    }

    #[test]
    fn last_nights_backup_is_found_among_what_came_since() {
        let words = [
            "--since",
            "14 h",
            "--target",
            "backup",
            "--slowest",
            "--last",
            "1",
        ];
        assert_eq!(chosen(&words), (vec!["backup:22".to_owned()], 1));
        let (all, minutes) = chosen(&[]);
        assert_eq!(
            (all.len(), minutes),
            (4, 60),
            "an hour, where nothing is asked for"
        );
        let (later, minutes) = chosen(&["--since", "2 h"]);
        assert_eq!((later, minutes), (vec!["db:5432".to_owned()], 121));
        let (slowest, _) = chosen(&["--slowest"]);
        assert_eq!(slowest, ["backup:22", "backup:22", "backup:873", "db:5432"]);
        let (latest, _) = chosen(&["--last", "2"]);
        assert_eq!(latest, ["backup:873", "db:5432"]);
        assert_eq!(chosen(&["--json"]).1, 200, "all of it");
    }

    #[test]
    fn bytes_come_with_their_rate_over_the_whole_time() {
        let value = |count: u64| serde_json::json!(count);
        assert_eq!(
            moved(&value(80_000_000), &serde_json::json!(10.0)),
            "80.0 MB (64.0 Mbit/s)"
        );
        assert_eq!(moved(&value(5), &serde_json::json!(0.0)), "5 B");
    }
}
