//! What `longhaul top --once` prints: the host in a few lines, then its connections.

use std::fmt::Write as _;

use record::top::{Connection, Pile, Reading, Relay};

use super::layout::{Align, Table, paragraph};
use super::{Emphasis, Style};
use crate::quantity::{DASH, bytes, float, grouped, rate, seconds, short_seconds};

/// One reading of a host, in `width` columns as far as ends of connections can be shortened.
#[must_use]
pub fn top(reading: &Reading, width: usize, style: Style) -> String {
    let summary = &reading.summary;
    let mut text = paragraph(
        "",
        &format!(
            "{} connections, {} out, {} in, {:.0} segments/s sent again",
            grouped(summary.connections),
            rate(summary.out_bps),
            rate(summary.in_bps),
            summary.retransmissions_per_s
        ),
        width,
    );
    let states = summary.states.iter();
    counts(
        &mut text,
        "states  ",
        states.map(|(state, count)| (state.as_str(), *count)),
        width,
    );
    let limits = summary.limits.iter();
    counts(
        &mut text,
        "limits  ",
        limits.map(|(limit, count)| (limit.as_str(), *count)),
        width,
    );
    for pile in &reading.close_wait {
        let line = paragraph("", &close_wait(pile), width);
        text.push_str(&style.paint(Emphasis::Notice, line.trim_end()));
        text.push('\n');
    }
    for one in &reading.relays {
        text.push_str(&paragraph("relay   ", &relay(one), width));
    }
    text.push('\n');
    connections(&mut text, &reading.connections, width, style);
    let listed = u64::try_from(reading.connections.len()).unwrap_or(u64::MAX);
    if listed < summary.connections {
        let _ = writeln!(
            text,
            "and {} more (`-n` shows more of them)",
            grouped(summary.connections - listed)
        );
    }
    text
}

/// A pile of connections in a sentence.
#[must_use]
pub fn close_wait(pile: &Pile) -> String {
    let who = pile.process.as_ref().map_or_else(
        || "a process that this user cannot see".to_owned(),
        |process| format!("{} (process {})", process.name, process.pid),
    );
    format!(
        "CLOSE_WAIT: {} held by {who}, which should close them; the oldest for {}",
        grouped(pile.connections),
        seconds(pile.oldest_s)
    )
}

/// A relay's listener in a sentence.
#[must_use]
pub fn relay(relay: &Relay) -> String {
    let mut line = format!(
        "{}: {} clients now, {} so far, {} turned away, {} up, {} down",
        relay.listen,
        grouped(relay.clients),
        grouped(relay.accepted),
        grouped(relay.refused),
        bytes(relay.bytes_up),
        bytes(relay.bytes_down)
    );
    if relay.requests > 0 {
        let _ = write!(
            line,
            ", {} requests, {:.0} % of them on hot connections",
            grouped(relay.requests),
            100.0 * float(relay.requests_hot) / float(relay.requests)
        );
    }
    let away: Vec<&str> = relay
        .targets
        .iter()
        .filter(|(_, is_there)| !**is_there)
        .map(|(target, _)| target.as_str())
        .collect();
    if !away.is_empty() {
        let _ = write!(line, "; not there: {}", away.join(", "));
    }
    line
}

fn counts<'a>(
    text: &mut String,
    label: &str,
    counts: impl Iterator<Item = (&'a str, u64)>,
    width: usize,
) {
    let words: Vec<String> = counts
        .map(|(name, count)| format!("{name} {}", grouped(count)))
        .collect();
    if !words.is_empty() {
        text.push_str(&paragraph(label, &words.join(", "), width));
    }
}

fn connections(text: &mut String, connections: &[Connection], width: usize, style: Style) {
    if connections.is_empty() {
        return;
    }
    let mut columns = vec![Align::Left; 4];
    columns.extend([Align::Right; 8]);
    columns.extend([Align::Left, Align::Right]);
    let mut table = Table::new(0, &columns);
    table.row([
        "process", "local", "peer", "state", "for", "out", "in", "rtt", "min", "cwnd", "flight",
        "again", "limit", "for",
    ]);
    for one in connections {
        table.row(cells(one));
    }
    table.fit(width);
    for (index, line) in table.lines().into_iter().enumerate() {
        let line = if index == 0 {
            style.paint(Emphasis::Heading, &line)
        } else {
            line
        };
        text.push_str(&line);
        text.push('\n');
    }
}

/// The columns of a connection, as words.
fn cells(one: &Connection) -> [String; 14] {
    let time = |time: Option<f64>| time.map_or_else(|| DASH.into(), short_seconds);
    let at_least = if one.state_seen { "" } else { ">" };
    let local = match &one.namespace {
        Some(namespace) => format!("{namespace}: {}", one.local),
        None => one.local.clone(),
    };
    [
        one.process
            .as_ref()
            .map_or_else(|| DASH.into(), |process| process.name.clone()),
        local,
        one.peer.clone(),
        one.state.to_string(),
        format!("{at_least}{}", short_seconds(one.state_s)),
        rate(one.out_bps),
        rate(one.in_bps),
        time(one.rtt_s),
        time(one.min_rtt_s),
        bytes(one.cwnd_bytes),
        bytes(one.in_flight_bytes),
        grouped(one.retransmissions),
        one.limit.to_string(),
        short_seconds(one.limit_s),
    ]
}
