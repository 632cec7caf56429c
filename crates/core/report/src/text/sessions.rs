//! What runs above TCP, one line per server and kind.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use record::explain::{Connection, Document, Tls};

use super::layout::paragraph;
use super::{Emphasis, Style};
use crate::quantity::seconds;
use crate::statistics::{median, sorted};

/// TLS and SSH of all connections; empty where there are neither.
pub(super) fn sessions(text: &mut String, document: &Document, style: Style, width: usize) {
    let mut lines = tls(&document.connections);
    lines.extend(ssh(&document.connections));
    if lines.is_empty() {
        return;
    }
    text.push('\n');
    text.push_str(&style.paint(Emphasis::Heading, "Above TCP"));
    text.push('\n');
    for line in lines {
        text.push_str(&paragraph("  ", &line, width));
    }
}

/// Per server, version and group: how many connections, resumed ones, round trips, and the wait for data.
fn tls(connections: &[Connection]) -> Vec<String> {
    let mut kinds: BTreeMap<(String, String), Vec<&Tls>> = BTreeMap::new();
    for connection in connections {
        let Some(tls) = &connection.tls else { continue };
        let server = format!("{}:{}", connection.server.host, connection.server.port);
        let mut kind = tls.version.clone().unwrap_or_else(|| "TLS".to_owned());
        if let Some(group) = &tls.group {
            kind.push_str(", ");
            kind.push_str(group);
        }
        kinds.entry((server, kind)).or_default().push(tls);
    }
    kinds
        .into_iter()
        .map(|((server, kind), all)| {
            let count = |holds: fn(&Tls) -> bool| all.iter().filter(|tls| holds(tls)).count();
            let mut line = format!("{server}  {kind}: {} set up", all.len());
            let details = [
                (count(|tls| tls.resumed == Some(true)), "resumed"),
                (count(|tls| tls.retry), "with a second hello"),
                (
                    count(|tls| tls.client_hello_segments > 1),
                    "with a split Client Hello",
                ),
                (count(|tls| tls.early_data), "with early data"),
            ];
            for (number, what) in details {
                if number > 0 {
                    let _ = write!(line, ", {number} {what}");
                }
            }
            let middle = |value: fn(&Tls) -> Option<f64>| {
                median(&sorted(all.iter().filter_map(|tls| value(tls))))
            };
            if let Some(trips) = middle(|tls| Some(f64::from(tls.round_trips))) {
                let many = if trips > 1.0 { "s" } else { "" };
                let _ = write!(line, "; {trips:.0} round trip{many}");
            }
            if let Some(first) = middle(|tls| tls.first_data_s) {
                let _ = write!(line, "; hello to data {}", seconds(first));
            }
            line
        })
        .collect()
}

/// Who speaks SSH to whom.
fn ssh(connections: &[Connection]) -> Vec<String> {
    let mut pairs: BTreeMap<String, usize> = BTreeMap::new();
    for connection in connections {
        let Some(ssh) = &connection.ssh else { continue };
        let name =
            |banner: &Option<String>| banner.clone().unwrap_or_else(|| "not seen".to_owned());
        let server = format!("{}:{}", connection.server.host, connection.server.port);
        let pair = format!(
            "{server}  {}, from {}",
            name(&ssh.server),
            name(&ssh.client)
        );
        *pairs.entry(pair).or_default() += 1;
    }
    pairs
        .into_iter()
        .map(|(pair, count)| {
            if count > 1 {
                format!("{pair} ({count} times)")
            } else {
                pair
            }
        })
        .collect()
}
