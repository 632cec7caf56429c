//! What `longhaul explain` prints: the top finding first, then where the time went.

use std::fmt::Write as _;

use record::LimitName;
use record::explain::{Capture, Connection, Document, Finding, Severity};

use super::icmp::icmp;
use super::layout::{Align, Table, bar, paragraph};
use super::sessions::sessions;
use super::{Emphasis, Style};
use super::{commands, traffic};
use crate::clean::for_terminal;
use crate::limits;
use crate::quantity::{DASH, bytes, grouped, percent, seconds, seconds_or_dash, short_seconds};
use crate::sentence;
use crate::statistics::{median, sorted};

/// Columns of a terminal that nobody has made larger.
const WIDTH: usize = 80;

/// Columns for both ends of a connection: as many as the other columns leave.
const SHORTEST_ENDS: usize = 12;
const LONGEST_ENDS: usize = 48;

/// Frames shown per finding; the document has them all.
const EVIDENCE: usize = 4;

/// An explanation in 80 columns, the most expensive finding on the first screen; ends with a newline.
pub fn explain(document: &Document, style: Style) -> String {
    let mut text = String::new();
    for capture in &document.captures {
        text.push_str(&paragraph("", &capture_line(capture), WIDTH));
    }
    if let Some(said) = sentence::explained(document) {
        text.push_str(&paragraph("", &said, WIDTH));
    }
    let (first, others) = document.findings.split_at(document.findings.len().min(1));
    for top in first {
        finding(&mut text, top, style);
    }
    if first.is_empty() {
        text.push('\n');
        text.push_str(&paragraph("", &sentence::without_findings(document), WIDTH));
    }
    budget(&mut text, document, style);
    connections(&mut text, document, style);
    traffic::servers(&mut text, document, style);
    sessions(&mut text, document, style, WIDTH);
    icmp(&mut text, document, style, WIDTH);
    for other in others {
        finding(&mut text, other, style);
    }
    commands::commands(&mut text, document, style);
    caveats(&mut text, document, style);
    text
}

fn capture_line(capture: &Capture) -> String {
    let mut kind = capture.format.clone();
    if let Some(compression) = &capture.compression {
        let _ = write!(kind, ", {compression}");
    }
    let mut line = format!(
        "{}  ({kind}, {} packets in {})",
        capture.file,
        grouped(capture.packets),
        seconds(capture.duration_s)
    );
    let others: Vec<String> = capture
        .other
        .iter()
        .map(|(what, count)| format!("{} {what}", grouped(*count)))
        .collect();
    if !others.is_empty() {
        let _ = write!(line, "; beside TCP: {}", others.join(", "));
    }
    line
}

fn finding(text: &mut String, finding: &Finding, style: Style) {
    let emphasis = match finding.severity {
        Severity::Critical => Emphasis::Alarm,
        Severity::Warning => Emphasis::Notice,
        Severity::Info => Emphasis::Heading,
    };
    let severity = sentence::severity(finding.severity);
    let name = for_terminal(&finding.name);
    let cost = finding
        .lost_s
        .map_or_else(String::new, |lost| format!("costs {}, ", seconds(lost)));
    let right = format!("{cost}{} confidence", sentence::confidence(finding));
    let used = severity.len() + 2 + name.chars().count() + right.chars().count();
    let space = " ".repeat(WIDTH.saturating_sub(used).max(2));
    text.push('\n');
    text.push_str(&style.paint(emphasis, &format!("{severity}  {name}")));
    text.push_str(&space);
    text.push_str(&right);
    text.push('\n');
    text.push_str(&paragraph("  ", &finding.summary, WIDTH));
    if !finding.remedy.is_empty() {
        text.push_str(&paragraph("  remedy     ", &finding.remedy, WIDTH));
    }
    for (index, prediction) in finding.predicted.iter().enumerate() {
        let label = if index == 0 {
            "  predicted  "
        } else {
            "             "
        };
        text.push_str(&paragraph(label, &sentence::prediction(prediction), WIDTH));
    }
    for (index, evidence) in finding.evidence.iter().take(EVIDENCE).enumerate() {
        let label = if index == 0 {
            "  evidence   "
        } else {
            "             "
        };
        text.push_str(&paragraph(label, &sentence::evidence(evidence), WIDTH));
    }
    if finding.evidence.len() > EVIDENCE {
        let more = match finding.evidence.len() - EVIDENCE {
            1 => "and 1 more frame".to_owned(),
            more => format!("and {more} more frames"),
        };
        text.push_str(&paragraph("             ", &more, WIDTH));
    }
    if let Some(filter) = &finding.filter {
        text.push_str(&paragraph("  filter     ", filter, WIDTH));
    }
    if !finding.source.is_empty() {
        let label = "  source     ";
        let lines = paragraph(label, &finding.source, WIDTH);
        text.push_str(&style.paint(Emphasis::Quiet, lines.trim_end_matches('\n')));
        text.push('\n');
    }
}

fn budget(text: &mut String, document: &Document, style: Style) {
    let parts = limits::by_size(&limits::total(document));
    if parts.is_empty() {
        return;
    }
    let all: f64 = parts.iter().map(|part| part.seconds).sum();
    let count = document.connections.len();
    let title = format!(
        "Where the time went: {} in {count} connection{}",
        seconds(all),
        if count == 1 { "" } else { "s" },
    );
    text.push('\n');
    text.push_str(&style.paint(Emphasis::Heading, &title));
    text.push('\n');
    // Bars against the largest part: what counts is how the parts compare.
    let largest = parts.first().map_or(1.0, |part| part.share);
    for part in parts {
        let bar = bar(part.share / largest, 39);
        let space = " ".repeat(39_usize.saturating_sub(bar.chars().count()));
        let _ = writeln!(
            text,
            "  {:<21}{bar}{space} {:>9} {:>7}",
            part.name,
            seconds(part.seconds),
            percent(part.share)
        );
    }
}

/// Connections that did the same: shown as one line.
struct Alike<'a> {
    members: Vec<&'a Connection>,
}

fn connections(text: &mut String, document: &Document, style: Style) {
    use Align::{Left, Right};
    let groups = alike(&document.connections);
    if groups.is_empty() {
        return;
    }
    text.push('\n');
    // Where all connections have one client, its name would only take room from the servers'.
    let mut clients = document
        .connections
        .iter()
        .map(|one| one.client.host.as_str());
    let client = clients
        .next()
        .filter(|first| clients.all(|other| other == *first));
    let title = client.map_or_else(
        || "Connections".to_owned(),
        |client| format!("Connections from {}", for_terminal(client)),
    );
    text.push_str(&style.paint(Emphasis::Heading, &title));
    text.push('\n');
    let table = |ends: usize, shares: bool| {
        let mut table = Table::new(2, &[Right, Right, Left, Right, Right, Right, Left]);
        let named = if client.is_some() {
            "to"
        } else {
            "from and to"
        };
        table.row(["id", "n", named, "RTT", "data", "time", "mostly"]);
        for group in &groups {
            table.row(group.cells(ends, client.is_some(), shares));
        }
        table
    };
    // Names of hosts are cut where the lines would not fit, then shares are left out.
    let fits = |lines: &Vec<String>| lines.iter().all(|line| line.chars().count() <= WIDTH);
    let lines = [true, false]
        .into_iter()
        .flat_map(|shares| {
            let lengths = (SHORTEST_ENDS..=LONGEST_ENDS).rev();
            lengths.map(move |ends| table(ends, shares).lines())
        })
        .find(fits)
        .unwrap_or_else(|| {
            let mut narrow = table(SHORTEST_ENDS, false);
            narrow.fit(WIDTH);
            narrow.lines()
        });
    for (index, line) in lines.iter().enumerate() {
        let emphasis = (index == 0).then_some(Emphasis::Quiet);
        match emphasis {
            Some(emphasis) => text.push_str(&style.paint(emphasis, line)),
            None => text.push_str(line),
        }
        text.push('\n');
    }
    if groups.len() < document.connections.len() {
        text.push_str("  Lines for n connections show their medians.\n");
    }
    if let Some(said) = sentence::vantage(document) {
        text.push_str(&paragraph("  ", &said, WIDTH));
    }
}

/// Groups of connections between the same hosts with the same shape, by first member.
fn alike(connections: &[Connection]) -> Vec<Alike<'_>> {
    let mut groups: Vec<Alike<'_>> = Vec::new();
    for connection in connections {
        match groups.iter_mut().find(|group| group.takes(connection)) {
            Some(group) => group.members.push(connection),
            None => groups.push(Alike {
                members: vec![connection],
            }),
        }
    }
    groups
}

impl Alike<'_> {
    /// Same hosts, same service, same number of requests, same limit, sizes within five percent.
    fn takes(&self, other: &Connection) -> bool {
        let Some(first) = self.members.first() else {
            return false;
        };
        first.client.host == other.client.host
            && first.server == other.server
            && first.transfers.len() == other.transfers.len()
            && dominant(first) == dominant(other)
            && is_near(sent(first), sent(other))
            && is_near(received(first), received(other))
    }

    fn cells(&self, ends: usize, one_client: bool, shares: bool) -> [String; 7] {
        let middle = |value: fn(&Connection) -> Option<f64>| {
            let values = self
                .members
                .iter()
                .filter_map(|connection| value(connection));
            median(&sorted(values))
        };
        let first = self.members.first();
        let mostly = first.and_then(|first| {
            let name = dominant(first)?;
            if !shares {
                return Some(name.to_string());
            }
            let shares = self
                .members
                .iter()
                .map(|one| limits::of(one).get(&name).copied().unwrap_or(0.0) / one.duration_s);
            let share = median(&sorted(shares)).map_or_else(String::new, percent);
            Some(format!("{name} {share}"))
        });
        [
            first.map_or_else(String::new, |first| first.id.to_string()),
            self.members.len().to_string(),
            self.ends(ends, one_client),
            seconds_or_dash(middle(|one| one.rtt.handshake_s.or(one.rtt.min_s))),
            self.data(),
            short(middle(|one| Some(one.duration_s))),
            mostly.unwrap_or_else(|| DASH.into()),
        ]
    }

    /// The median of the direction that carries more: `↑` from the client, `↓` to it.
    fn data(&self) -> String {
        let amount = |value: fn(&Connection) -> u64| {
            let mut values: Vec<u64> = self.members.iter().map(|one| value(one)).collect();
            values.sort_unstable();
            values.get(values.len() / 2).copied().unwrap_or_default()
        };
        let (up, down) = (amount(sent), amount(received));
        if down > up {
            format!("↓ {}", bytes(down))
        } else {
            format!("↑ {}", bytes(up))
        }
    }

    /// Both ends in at most `width` characters, or only the server where there is one client.
    fn ends(&self, width: usize, one_client: bool) -> String {
        let Some(first) = self.members.first() else {
            return String::new();
        };
        let server = format!("{}:{}", first.server.host, first.server.port);
        let ends = for_terminal(&match self.members.as_slice() {
            _ if one_client => server,
            [_] => format!("{}:{} > {server}", first.client.host, first.client.port),
            _ => format!("{} > {server}", first.client.host),
        });
        if ends.chars().count() <= width {
            return ends;
        }
        // The server says more than the client, and the end of a name more than its beginning.
        let tail: Vec<char> = ends.chars().rev().take(width - 1).collect();
        std::iter::once('…').chain(tail.into_iter().rev()).collect()
    }
}

/// Seconds in three digits, or a dash.
fn short(value: Option<f64>) -> String {
    value.map_or_else(|| DASH.into(), short_seconds)
}

/// What the captures cannot tell; the same sentence about many connections stands once.
fn caveats(text: &mut String, document: &Document, style: Style) {
    let said = sentence::caveats(document);
    if said.is_empty() {
        return;
    }
    text.push('\n');
    text.push_str(&style.paint(Emphasis::Heading, "What these captures cannot tell"));
    text.push('\n');
    for sentence in said {
        text.push_str(&paragraph("  - ", &sentence, WIDTH));
    }
}

fn dominant(connection: &Connection) -> Option<LimitName> {
    let directions = &connection.directions;
    if directions.server_to_client.bytes > directions.client_to_server.bytes {
        directions.server_to_client.dominant
    } else {
        directions.client_to_server.dominant
    }
}

const fn sent(connection: &Connection) -> u64 {
    connection.directions.client_to_server.bytes
}

const fn received(connection: &Connection) -> u64 {
    connection.directions.server_to_client.bytes
}

/// Within five percent, or both small.
fn is_near(one: u64, other: u64) -> bool {
    one.abs_diff(other) <= (one.max(other) / 20).max(64)
}
