//! What ICMP told: round trips of echoes, and errors about packets of connections.

use std::collections::BTreeMap;

use record::explain::{Document, Echo, Icmp};

use super::layout::paragraph;
use super::{Emphasis, Style};
use crate::quantity::seconds_or_dash;

pub(super) fn icmp(text: &mut String, document: &Document, style: Style, width: usize) {
    let lines: Vec<String> = document
        .echoes
        .iter()
        .map(echo)
        .chain(errors(document))
        .collect();
    if lines.is_empty() {
        return;
    }
    text.push('\n');
    text.push_str(&style.paint(Emphasis::Heading, "ICMP"));
    text.push('\n');
    for line in lines {
        text.push_str(&paragraph("  ", &line, width));
    }
}

fn echo(echo: &Echo) -> String {
    let resolved = match echo.resolved {
        0 => String::new(),
        count => format!(", without what ARP took in {count} of them"),
    };
    format!(
        "{} > {}: {} of {} answered, RTT {}{resolved}",
        echo.from,
        echo.to,
        echo.replies,
        echo.requests,
        seconds_or_dash(echo.rtt.median_s)
    )
}

/// The same word from the same router about any number of packets stands once.
fn errors(document: &Document) -> Vec<String> {
    type Word<'a> = (&'a str, &'a str, Option<u32>, &'a str);
    let mut said: BTreeMap<Word<'_>, (usize, u32)> = BTreeMap::new();
    for connection in &document.connections {
        for Icmp {
            from,
            reason,
            mtu,
            about,
            ..
        } in &connection.icmp
        {
            let word = (from.as_str(), reason.as_str(), *mtu, about.as_str());
            said.entry(word).or_insert((0, connection.id)).0 += 1;
        }
    }
    said.into_iter()
        .map(|((from, reason, mtu, about), (times, first))| {
            let most = mtu.map_or_else(String::new, |mtu| format!(", at most {mtu} B go on"));
            let packets = if times == 1 {
                "a packet".to_owned()
            } else {
                format!("{times} packets")
            };
            format!(
                "{from}: {reason}{most} (about {packets} from the {about}, first of connection {first})"
            )
        })
        .collect()
}
