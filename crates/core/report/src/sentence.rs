//! What both text and HTML say in the same words.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use record::explain::{Confidence, Document, Evidence, Finding, Prediction, Severity, Steps};
use record::lab::{Arm, Cell, Comparison, Conduct, PathCheck, Priming};

use crate::alike::Alike;
use crate::limits;
use crate::measure::Measured;
use crate::quantity::{DASH, RateUnit, TimeUnit, bytes, grouped, percent, rate, seconds, times};
use crate::sweep;

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
    if let Some(asked) = path.backward_rate_asked_bps {
        let _ = write!(
            text,
            "; {} back asked, {}",
            rate(asked),
            measured(path.backward_rate_achieved_bps.map(rate)),
        );
    }
    for network in &path.networks {
        let _ = write!(
            text,
            "; network of {}: RTT {}, {}, {} back",
            network.arm,
            measured(network.rtt_achieved_s.map(seconds)),
            measured(network.rate_achieved_bps.map(rate)),
            measured(network.backward_rate_achieved_bps.map(rate)),
        );
    }
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
    if !path.unchecked.is_empty() {
        let _ = write!(text, "; not checked: {}", path.unchecked.join(", "));
    }
    text
}

/// How transfers were repeated.
pub(crate) fn conduct(conduct: &Conduct) -> String {
    let of =
        |count: u64, what: &str| format!("{count} {what}{}", if count == 1 { "" } else { "s" });
    let warm_up = match conduct.warm_up {
        0 => "no warm-up".to_owned(),
        count => format!("{count} more at the start of each as a warm-up that does not count"),
    };
    let mut text = format!(
        "{} of each arm and workload, in blocks of {}, {warm_up}",
        of(conduct.runs, "transfer"),
        conduct.block,
    );
    if let Some(share) = conduct.precision {
        let _ = write!(
            text,
            "; further rounds until the 95 % interval of every median lies within {} of it",
            percent(share)
        );
    }
    if let Some(most) = conduct.max_runs {
        let _ = write!(text, ", at most {most}");
    }
    text.push('.');
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
    confidence_word(finding.confidence)
}

pub(crate) const fn confidence_word(confidence: Confidence) -> &'static str {
    match confidence {
        Confidence::Low => "low",
        Confidence::Medium => "medium",
        Confidence::High => "high",
    }
}

/// `1 finding explains 82 % of the 9.109 s for which something held transfers back`.
pub(crate) fn explained(document: &Document) -> Option<String> {
    let explained = document.explained.as_ref()?;
    let findings = match explained.findings {
        1 => "1 finding explains".to_owned(),
        more => format!("{more} findings explain"),
    };
    Some(format!(
        "{findings} {} of the {} for which something held transfers back.",
        percent(explained.share),
        seconds(explained.held_s)
    ))
}

/// On which side of the path the captures were made, as far as they show it; `None` without a connection.
pub(crate) fn vantage(document: &Document) -> Option<String> {
    let mut places: BTreeMap<&str, (usize, Option<Confidence>)> = BTreeMap::new();
    for connection in &document.connections {
        let sure = connection.vantage_confidence;
        let (count, least) = places
            .entry(connection.vantage.as_str())
            .or_insert((0, sure));
        *count += 1;
        *least = sure.min(*least);
    }
    let alone = places.len() == 1;
    let parts: Vec<String> = places
        .iter()
        .map(|(name, (count, sure))| {
            let place = match *name {
                "client" => "at the client or near it",
                "server" => "at the server or near it",
                "between" => "between client and server",
                _ => "where, no round trip shows",
            };
            let sure = sure.map(|sure| format!("{} confidence", confidence_word(sure)));
            let count = (!alone)
                .then(|| format!("{count} connection{}", if *count == 1 { "" } else { "s" }));
            let details: Vec<String> = count.into_iter().chain(sure).collect();
            if details.is_empty() {
                place.to_owned()
            } else {
                format!("{place} ({})", details.join(", "))
            }
        })
        .collect();
    (!parts.is_empty()).then(|| format!("Captured {}.", parts.join("; ")))
}

/// Where commands belong, and how the system is known.
pub(crate) fn steps(steps: &Steps) -> String {
    format!("{} ({})", steps.at, steps.because)
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
    let mut of_connections: Vec<(Alike, Vec<u32>)> = Vec::new();
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
            let caveat = Alike::of(caveat);
            let known = of_connections
                .iter_mut()
                .find(|(known, _)| known.words == caveat.words);
            match known {
                Some((known, ids)) => {
                    known.take(&caveat);
                    if ids.last() != Some(&connection.id) {
                        ids.push(connection.id);
                    }
                }
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
                [] => caveat.to_string(),
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

/// A workload with its factors: `bulk, rtt 70 ms, loss 0.1 %`.
pub(crate) fn cell_title(cell: &Cell) -> String {
    let factors = cell.factors.iter();
    let factors = factors.map(|(name, value)| format!(", {} {value}", sweep::short(name)));
    format!("{}{}", cell.workload, factors.collect::<String>())
}

/// What no design can beat, and why; `None` where nothing is known.
pub(crate) fn bound(cell: &Cell) -> Option<String> {
    let measured = Measured::of(cell);
    let bound = measured.shown(measured.bound()?);
    Some(if measured.is_rate() {
        format!(
            "{bound} = payload of full packets at {}",
            rate(cell.path.rate_asked_bps)
        )
    } else if cell.floor_derivation.is_empty() {
        bound
    } else {
        format!("{bound} = {}", without_total(&cell.floor_derivation))
    })
}

/// Blocks that were repeated, and why; `None` where none was.
pub(crate) fn invalid_blocks(arm: &Arm) -> Option<String> {
    let count = arm.invalid_blocks;
    if count == 0 {
        return None;
    }
    let (blocks, was) = if count == 1 {
        ("block", "was")
    } else {
        ("blocks", "were")
    };
    let mut reasons = arm.invalid_because.clone();
    reasons.dedup();
    let because = if reasons.is_empty() {
        String::new()
    } else {
        format!(": {}", reasons.join("; "))
    };
    Some(format!(
        "{count} {blocks} of {} {was} measured on a path that was off, and repeated{because}",
        arm.name
    ))
}

/// A difference of medians with its unit.
pub(crate) fn difference(comparison: &Comparison, unit: TimeUnit) -> String {
    match (comparison.difference_s, comparison.difference_bps) {
        (Some(time), _) => format!("{} {}", signed(unit.number(time)), unit.symbol()),
        (None, Some(bits)) => signed(rate(bits)),
        (None, None) => DASH.into(),
    }
}

/// The interval of a difference.
pub(crate) fn difference_interval(comparison: &Comparison, unit: TimeUnit) -> String {
    match (comparison.difference_ci95_s, comparison.difference_ci95_bps) {
        (Some((low, high)), _) => {
            let ends = [low, high].map(|end| signed(unit.number(end)));
            format!("{} to {}", ends[0], ends[1])
        }
        (None, Some((low, high))) => format!("{} to {}", signed(rate(low)), signed(rate(high))),
        (None, None) => DASH.into(),
    }
}

/// A number with its sign, and none where it shows as zero.
fn signed(number: String) -> String {
    if number.starts_with('-') || !number.contains(|digit: char| ('1'..='9').contains(&digit)) {
        number
    } else {
        format!("+{number}")
    }
}

/// A probability: `0.034`, and never 0.
pub(crate) fn p_value(p: f64) -> String {
    if p < 0.0001 {
        "< 0.0001".into()
    } else if p < 0.1 {
        format!("{p:.4}")
    } else {
        format!("{p:.2}")
    }
}

/// Cliff's delta with its sign.
pub(crate) fn effect(delta: Option<f64>) -> String {
    delta.map_or_else(|| DASH.into(), |delta| signed(format!("{delta:.2}")))
}

/// The tests behind the p of a table.
pub(crate) fn tests(comparisons: &[Comparison]) -> String {
    let mut tests: Vec<String> = comparisons.iter().map(test).collect();
    tests.sort();
    tests.dedup();
    format!("p by {}.", tests.join("; or by "))
}

/// The test behind a p, and what was compared with what.
fn test(comparison: &Comparison) -> String {
    let pairs = if comparison.paired {
        "pairs by place in block"
    } else {
        "no pairs"
    };
    if comparison.test.is_empty() {
        format!("no test ({pairs}), all values alike")
    } else {
        format!("{} ({pairs})", comparison.test)
    }
}

/// A table with heads of its own.
#[derive(Debug)]
pub(crate) struct Table {
    pub(crate) heads: Vec<String>,
    pub(crate) rows: Vec<Vec<String>>,
}

type Column = (&'static str, fn(&Arm) -> Option<String>);

/// What TCP did in each arm, per transfer: RFC 6349's metrics and segments sent again.
pub(crate) fn transport(cell: &Cell) -> Option<Table> {
    let columns: [Column; 5] = [
        ("last half", |arm| arm.steady_bps.map(rate)),
        ("sent again", |arm| {
            arm.retransmissions.map(|segments| format!("{segments:.1}"))
        }),
        ("time ratio", |arm| {
            arm.rfc6349.as_ref()?.transfer_time_ratio.map(times)
        }),
        ("efficiency", |arm| {
            let efficiency = arm.rfc6349.as_ref()?.tcp_efficiency?;
            Some(format!("{:.2} %", efficiency * 100.0))
        }),
        ("buffer delay", |arm| {
            arm.rfc6349.as_ref()?.buffer_delay.map(percent)
        }),
    ];
    // The ratio of times follows from goodput and ceiling; alone it says nothing new.
    filled("TCP", cell, &columns).filter(|table| table.heads.len() > 2)
}

/// What the flows beside each arm got, and lost; `None` without rivals.
pub(crate) fn rivals(cell: &Cell) -> Option<Table> {
    let columns: [Column; 5] = [
        ("own", |arm| {
            Some(rate(arm.rivals.as_ref()?.own_bps.iter().sum()))
        }),
        ("rivals", |arm| {
            Some(rate(arm.rivals.as_ref()?.beside_bps.iter().sum()))
        }),
        ("alone", |arm| {
            Some(rate(arm.rivals.as_ref()?.alone_bps.iter().sum()))
        }),
        ("harm", |arm| arm.rivals.as_ref()?.harm.map(percent)),
        ("Jain", |arm| {
            let jain = arm.rivals.as_ref()?.jain?;
            Some(format!("{jain:.3}"))
        }),
    ];
    filled("beside rivals", cell, &columns)
}

/// Arms by columns, less those columns that no arm fills; `None` where that are all.
fn filled(head: &str, cell: &Cell, columns: &[Column]) -> Option<Table> {
    let filled: Vec<&Column> = columns
        .iter()
        .filter(|(_, value)| cell.arms.iter().any(|arm| value(arm).is_some()))
        .collect();
    if filled.is_empty() {
        return None;
    }
    let heads = filled.iter().map(|(name, _)| (*name).to_owned());
    let rows = cell.arms.iter().map(|arm| {
        let values = filled
            .iter()
            .map(|(_, value)| value(arm).unwrap_or_else(|| DASH.into()));
        std::iter::once(arm.name.clone()).chain(values).collect()
    });
    Some(Table {
        heads: std::iter::once(head.to_owned()).chain(heads).collect(),
        rows: rows.collect(),
    })
}

/// The unit for the rates of a cell.
pub(crate) fn rate_unit(cell: &Cell) -> RateUnit {
    let medians = cell.arms.iter().filter_map(|arm| arm.goodput_bps);
    RateUnit::for_rates(medians.fold(0.0, f64::max))
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
