//! What both text and HTML say in the same words.

use std::fmt::Write as _;

use record::explain::{Document, Evidence, Finding, Prediction, Severity};
use record::lab::{Cell, PathCheck, Priming};

use crate::limits;
use crate::quantity::{TimeUnit, bytes, grouped, rate, seconds, times};

/// What it took to make a pool hot.
pub(crate) fn priming(cost: &Priming) -> String {
    let window = |name, bytes: Option<u64>| {
        bytes.map_or_else(String::new, |count| {
            format!(", {name} at least {} B", grouped(count))
        })
    };
    format!(
        "{} connection{} hot in {} with {} requests and {} B{}{}",
        cost.connections,
        if cost.connections == 1 { "" } else { "s" },
        seconds(cost.seconds),
        grouped(cost.requests),
        grouped(cost.bytes),
        window("cwnd", cost.cwnd),
        window("the origin's window", cost.peer_window),
    )
}

/// A path as asked and as measured.
pub(crate) fn path(path: &PathCheck) -> String {
    let measured = |value: Option<String>| {
        value.map_or_else(
            || "not measured".into(),
            |value| format!("measured {value}"),
        )
    };
    let mut text = format!(
        "RTT {} asked, {}; {} asked, {}",
        seconds(path.rtt_asked_s),
        measured(path.rtt_achieved_s.map(seconds)),
        rate(path.rate_asked_bps),
        measured(path.rate_achieved_bps.map(rate)),
    );
    if path.checks > 0 {
        let _ = write!(text, "; {} checks", path.checks);
    }
    if path.invalid_checks > 0 {
        let _ = write!(
            text,
            ", {} failed and their blocks were repeated",
            path.invalid_checks
        );
    }
    text
}

/// A relative error with its sign: `+4.1`, `-0.9`.
pub(crate) fn signed_percent(error: f64) -> String {
    format!("{:+.1}", error * 100.0)
}

/// Time now and then: `100 KiB: 1.017 s now, 208.9 ms with hot-pool (4.87 times faster, 20 transfers)`.
pub(crate) fn prediction(prediction: &Prediction) -> String {
    let factor = prediction.now_s / prediction.predicted_s;
    let faster = if factor.is_finite() {
        format!("{} times faster, ", times(factor))
    } else {
        String::new()
    };
    format!(
        "{}: {} now, {} with {} ({faster}{} transfer{})",
        bytes(prediction.bytes),
        seconds(prediction.now_s),
        seconds(prediction.predicted_s),
        prediction.remedy,
        prediction.transfers,
        if prediction.transfers == 1 { "" } else { "s" },
    )
}

pub(crate) const fn severity(severity: Severity) -> &'static str {
    match severity {
        Severity::Info => "INFO",
        Severity::Warning => "WARNING",
        Severity::Critical => "CRITICAL",
    }
}

pub(crate) const fn confidence(finding: &Finding) -> &'static str {
    match finding.confidence {
        record::explain::Confidence::Low => "low",
        record::explain::Confidence::Medium => "medium",
        record::explain::Confidence::High => "high",
    }
}

/// Every caveat of captures and connections once, in order of appearance, with whom it concerns.
pub(crate) fn caveats(document: &Document) -> Vec<String> {
    let mut said: Vec<String> = Vec::new();
    for capture in &document.captures {
        for caveat in &capture.caveats {
            let sentence = if document.captures.len() > 1 {
                format!("{}: {caveat}", capture.file)
            } else {
                caveat.clone()
            };
            if !said.contains(&sentence) {
                said.push(sentence);
            }
        }
    }
    let mut of_connections: Vec<(&str, Vec<u32>)> = Vec::new();
    for connection in &document.connections {
        let reasons = [
            &connection.directions.client_to_server,
            &connection.directions.server_to_client,
        ];
        // A caveat that gives the reason says it with the cause.
        let reasons = reasons
            .into_iter()
            .filter_map(|way| way.unknown_because.as_deref())
            .filter(|reason| {
                let mut caveats = connection.caveats.iter();
                !caveats.any(|caveat| caveat.contains(reason))
            });
        for caveat in connection.caveats.iter().map(String::as_str).chain(reasons) {
            match of_connections.iter_mut().find(|(text, _)| *text == caveat) {
                Some((_, ids)) if ids.last() == Some(&connection.id) => {}
                Some((_, ids)) => ids.push(connection.id),
                None => of_connections.push((caveat, vec![connection.id])),
            }
        }
    }
    said.extend(
        of_connections
            .into_iter()
            .map(|(caveat, ids)| match ids.as_slice() {
                [one] => format!("connection {one}: {caveat}"),
                [first, .., last] => {
                    format!("{} connections from {first} to {last}: {caveat}", ids.len())
                }
                [] => caveat.to_owned(),
            }),
    );
    said
}

/// Where to look, and what is to be seen there.
pub(crate) fn evidence(evidence: &Evidence) -> String {
    let Evidence { frame, shows, .. } = evidence;
    match &evidence.capture {
        Some(capture) => format!("frame {frame} of {capture}: {shows}"),
        None => format!("frame {frame}: {shows}"),
    }
}

/// The unit for the times of a cell.
pub(crate) fn time_unit(cell: &Cell) -> TimeUnit {
    let times = cell.arms.iter().flat_map(|arm| {
        let ends = [arm.max_s, arm.p95_s, arm.median_s].into_iter().flatten();
        ends.chain(arm.reported_s.iter().copied())
    });
    TimeUnit::for_times(times.fold(0.0, f64::max))
}

/// A derivation without the total at its end, where that is printed before it.
pub(crate) fn without_total(derivation: &str) -> &str {
    derivation
        .rsplit_once(" = ")
        .map_or(derivation, |(terms, _)| terms)
}

/// What stands at the top where no rule found anything: the largest limit.
pub(crate) fn without_findings(document: &Document) -> String {
    let parts = limits::by_size(&limits::total(document));
    let all: f64 = parts.iter().map(|part| part.seconds).sum();
    parts.first().map_or_else(
        || "No finding: no time was spent on TCP connections.".into(),
        |part| {
            format!(
                "No finding. Mostly {}: {} of {}.",
                part.name,
                seconds(part.seconds),
                seconds(all)
            )
        },
    )
}
