//! What `longhaul explain --compare` prints: what changed, limit by limit.

use std::fmt::Write as _;

use record::change::{Document, Side};

use super::layout::{Align, Table, paragraph};
use super::{Emphasis, Style};
use crate::quantity::{seconds, seconds_or_dash, times};

/// Columns of a terminal that nobody has made larger.
const WIDTH: usize = 80;
/// Changes smaller than this share of a transfer's time are not worth a line.
const WORTH_A_LINE: f64 = 0.005;

/// A comparison in 80 columns; ends with a newline.
#[must_use]
pub fn change(document: &Document, style: Style) -> String {
    let mut text = String::new();
    text.push_str(&paragraph("before  ", &side(&document.before), WIDTH));
    text.push_str(&paragraph("after   ", &side(&document.after), WIDTH));
    text.push('\n');
    text.push_str(&style.paint(Emphasis::Heading, &verdict(document)));
    text.push_str("\n\n");

    let mut table = Table::new(2, &[Align::Left, Align::Right, Align::Right, Align::Right]);
    table.row(["seconds per transfer", "before", "after", "change"]);
    let worth = WORTH_A_LINE * document.before.seconds.max(document.after.seconds);
    for limit in &document.limits {
        if limit.before_s.max(limit.after_s) < worth {
            continue;
        }
        let change = seconds(limit.change_s.abs());
        let sign = if limit.change_s < 0.0 { "-" } else { "+" };
        table.row([
            limit.name.to_string(),
            seconds(limit.before_s),
            seconds(limit.after_s),
            format!("{sign}{change}"),
        ]);
    }
    for (index, line) in table.lines().into_iter().enumerate() {
        if index == 0 {
            text.push_str(&style.paint(Emphasis::Quiet, &line));
        } else {
            text.push_str(&line);
        }
        text.push('\n');
    }

    for (label, names) in [
        ("gone       ", &document.gone),
        ("remaining  ", &document.remaining),
        ("new        ", &document.new),
    ] {
        if !names.is_empty() {
            text.push('\n');
            text.push_str(&paragraph(label, &names.join(", "), WIDTH));
        }
    }
    for caveat in &document.caveats {
        text.push('\n');
        text.push_str(&paragraph("note       ", caveat, WIDTH));
    }
    text
}

fn side(side: &Side) -> String {
    let mut text = side.files.join(", ");
    let _ = write!(
        text,
        ": {} transfer{} on {} connection{}, median {}",
        side.transfers,
        if side.transfers == 1 { "" } else { "s" },
        side.connections,
        if side.connections == 1 { "" } else { "s" },
        seconds_or_dash(side.median_s),
    );
    text
}

fn verdict(document: &Document) -> String {
    match (document.before.median_s, document.after.median_s) {
        (Some(before), Some(after)) if before > 0.0 && after > 0.0 => {
            if after <= before {
                format!("{} times faster at the median.", times(before / after))
            } else {
                format!("{} times slower at the median.", times(after / before))
            }
        }
        _ => "Nothing to compare by time.".to_owned(),
    }
}
