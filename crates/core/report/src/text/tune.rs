//! What `longhaul tune` prints: what holds the host back, largest gain first, with commands and undo.

use std::fmt::Write as _;

use record::tune::{Document, Finding, Gain, Kind};

use super::layout::paragraph;
use super::{Emphasis, Style};
use crate::quantity::{bytes, float, percent, rate, seconds, times};

/// Columns of a terminal that nobody has made larger.
const WIDTH: usize = 80;

/// Advice in 80 columns; commands stand on lines of their own, however long. `all` adds what is right already.
#[must_use]
pub fn tune(document: &Document, all: bool, style: Style) -> String {
    let path = &document.path;
    let mut text = String::new();
    let lost = if path.loss > 0.0 {
        format!(", {} lost", percent(path.loss))
    } else {
        String::new()
    };
    text.push_str(&paragraph(
        "path   ",
        &format!(
            "{} x {}{lost}: {} fly on it",
            rate(path.rate_bps),
            seconds(path.rtt_s),
            bytes(path.bdp_bytes)
        ),
        WIDTH,
    ));
    text.push_str(&paragraph("host   ", &host(document), WIDTH));
    text.push('\n');
    text.push_str(&style.paint(Emphasis::Heading, &verdict(document)));
    text.push('\n');
    for gain in &document.predictions {
        text.push_str(&paragraph("  ", &describe(gain), WIDTH));
    }
    for (number, finding) in (1_u32..).zip(&document.findings) {
        text.push('\n');
        write_finding(&mut text, number, finding, style);
    }
    if let Some(why) = &document.unpredicted {
        text.push('\n');
        text.push_str(&paragraph("note   ", why, WIDTH));
    }
    if all {
        listed(&mut text, "fine   ", &document.fine);
    } else if !document.fine.is_empty() {
        text.push('\n');
        let says = format!(
            "settings looked at that are right: {} (`--all` lists them)",
            document.fine.len()
        );
        text.push_str(&paragraph("fine   ", &says, WIDTH));
    }
    listed(&mut text, "unread ", &document.unknown);
    text
}

fn host(document: &Document) -> String {
    let host = &document.host;
    let mut text = host.system.clone();
    // Writing to a String cannot fail, here and below.
    if let Some(kernel) = &host.kernel {
        let _ = write!(text, " {kernel}");
    }
    if let Some(memory) = host.memory_bytes {
        let _ = write!(text, ", {:.1} GiB of memory", float(memory >> 20) / 1024.0);
    }
    text
}

fn verdict(document: &Document) -> String {
    if document.host.system != "linux" {
        return "What to look at on such a host, and what to change:".to_owned();
    }
    let applied = document
        .findings
        .iter()
        .filter(|finding| finding.kind.is_applied())
        .count();
    match applied {
        0 if document.findings.is_empty() => {
            "Nothing that is known here holds transfers back.".to_owned()
        }
        0 => "Nothing needs to change; some things to consider follow.".to_owned(),
        1 => "One setting holds transfers back or harms.".to_owned(),
        _ => format!(
            "{applied} settings hold transfers back or harm. Together, their change brings:"
        ),
    }
}

fn write_finding(text: &mut String, number: u32, finding: &Finding, style: Style) {
    let (emphasis, kind) = match finding.kind {
        Kind::Limits => (Emphasis::Alarm, "holds transfers back"),
        Kind::Folklore => (Emphasis::Alarm, "harms on any path"),
        Kind::Consider => (Emphasis::Notice, "to consider"),
    };
    let heading = format!("{number}. {} ({kind})", finding.name);
    text.push_str(&style.paint(emphasis, &heading));
    text.push('\n');
    text.push_str(&paragraph("   ", &finding.says, WIDTH));
    for change in &finding.changes {
        let from = change.from.split_whitespace().collect::<Vec<_>>().join(" ");
        let says = format!("{}: {from} -> {}", change.key, change.to);
        text.push_str(&paragraph("   ", &says, WIDTH));
    }
    for gain in &finding.gains {
        text.push_str(&paragraph("   gain  ", &describe(gain), WIDTH));
    }
    for (label, commands) in [("do  ", &finding.commands), ("undo", &finding.undo)] {
        for command in commands {
            let _ = writeln!(text, "   {label}  {command}");
        }
    }
    text.push_str(&style.paint(
        Emphasis::Quiet,
        &paragraph("   see   ", &finding.source, WIDTH),
    ));
}

fn describe(gain: &Gain) -> String {
    let change = if gain.saved() >= 0.5 && gain.after_s > 0.0 {
        format!("{} times faster", times(gain.before_s / gain.after_s))
    } else if gain.saved() >= 0.0 {
        format!("{} less", percent(gain.saved()))
    } else {
        format!("{} more", percent(-gain.saved()))
    };
    format!(
        "{}: {} -> {} ({change}; no design below {})",
        gain.transfer,
        seconds(gain.before_s),
        seconds(gain.after_s),
        seconds(gain.floor_s)
    )
}

fn listed(text: &mut String, label: &str, lines: &[String]) {
    if !lines.is_empty() {
        text.push('\n');
    }
    for line in lines {
        text.push_str(&paragraph(label, line, WIDTH));
    }
}

#[cfg(test)]
mod tests {
    use record::tune::{Change, Path, VERSION};

    use super::*;

    fn document() -> Document {
        Document {
            schema: "longhaul.tune".to_owned(),
            version: VERSION,
            host: record::tune::Host {
                system: "linux".to_owned(),
                kernel: Some("6.18.5".to_owned()),
                memory_bytes: Some(1 << 30),
            },
            path: Path {
                rtt_s: 0.19,
                rate_bps: 1e8,
                loss: 0.0,
                bdp_bytes: 2_375_000,
            },
            findings: vec![Finding {
                name: "receive-buffer".to_owned(),
                kind: Kind::Limits,
                says: "tcp_rmem ends at 8800 B.".to_owned(),
                source: "RFC 7323".to_owned(),
                changes: vec![Change {
                    key: "net.ipv4.tcp_rmem".to_owned(),
                    from: "1024\t8800\t8800".to_owned(),
                    to: "4096 131072 10485760".to_owned(),
                }],
                commands: vec!["sysctl -w net.ipv4.tcp_rmem='4096 131072 10485760'".to_owned()],
                undo: vec!["sysctl -w net.ipv4.tcp_rmem='1024 8800 8800'".to_owned()],
                gains: vec![Gain {
                    transfer: "download 47500 kB".to_owned(),
                    before_s: 2_200.0,
                    after_s: 4.4,
                    floor_s: 4.0,
                }],
            }],
            predictions: Vec::new(),
            unpredicted: None,
            fine: vec!["net.ipv4.tcp_sack is 1".to_owned()],
            unknown: Vec::new(),
        }
    }

    #[test]
    fn a_finding_says_from_what_to_what_the_gain_and_the_way_back() {
        let text = tune(&document(), false, Style::Plain);
        for part in [
            "1. receive-buffer (holds transfers back)",
            "net.ipv4.tcp_rmem: 1024 8800 8800 -> 4096 131072 10485760",
            "500 times faster",
            "   undo  sysctl -w net.ipv4.tcp_rmem='1024 8800 8800'",
            "settings looked at that are right: 1 (`--all` lists them)",
        ] {
            assert!(text.contains(part), "`{part}` is not in:\n{text}");
        }
    }

    #[test]
    fn what_is_right_is_listed_on_request_only() {
        let short = tune(&document(), false, Style::Plain);
        let long = tune(&document(), true, Style::Plain);
        assert!(!short.contains("tcp_sack"));
        assert!(long.contains("net.ipv4.tcp_sack is 1"));
    }
}
