//! Remedies tried one at a time, ranked by what they save.

use record::what_if::{Cell, Document, Remedy, Verdict};

use super::layout::{Align, Table, paragraph};
use super::{Emphasis, Style};
use crate::clean::for_terminal;
use crate::quantity::percent;
use crate::what_if;

/// Columns that the text may use.
const WIDTH: usize = 80;

/// What each remedy alone would bring, up to 80 columns wide; ends with a newline.
pub fn what_if(document: &Document, style: Style) -> String {
    let mut text = String::new();
    let title = format!(
        "{}  seed {}  what if, from arm `{}`",
        for_terminal(&document.scenario),
        document.seed,
        for_terminal(&document.arm)
    );
    line(&mut text, &style.paint(Emphasis::Heading, &title));
    for cell in &document.cells {
        text.push('\n');
        let title = for_terminal(&what_if::title(cell));
        line(&mut text, &style.paint(Emphasis::Heading, &title));
        for (label, said) in what_if::facts(cell) {
            text.push_str(&paragraph(&format!("  {label:5}  "), &said, WIDTH));
        }
        remedies(&mut text, cell, style);
    }
    text
}

fn remedies(text: &mut String, cell: &Cell, style: Style) {
    let of = |verdict| what_if::of(cell, verdict);
    if of(Verdict::Helps).next().is_some() {
        text.push('\n');
        for (number, row) in table(cell).lines().iter().enumerate() {
            let emphasis = match number {
                0 => Emphasis::Quiet,
                1 => Emphasis::Good,
                _ => {
                    line(text, row);
                    continue;
                }
            };
            line(text, &style.paint(emphasis, row));
        }
    } else if cell.today.failure.is_none() && !cell.remedies.is_empty() {
        line(text, "  Nothing that was tried helps.");
    }
    text.push('\n');
    if let Some(then) = what_if::then(cell) {
        text.push_str(&paragraph("  with the first of these: ", &then, WIDTH));
    }
    let columns = what_if::Columns::of(cell);
    for places in of(Verdict::Helps).filter_map(|remedy| columns.places(remedy)) {
        text.push_str(&paragraph("  ", &places, WIDTH));
    }
    for (said, verdict) in [
        ("does not help: ", Verdict::NoDifference),
        ("makes it slower: ", Verdict::Harms),
        ("failed: ", Verdict::Unknown),
    ] {
        let remedies: Vec<String> = of(verdict).map(with_ratio).collect();
        if !remedies.is_empty() {
            let said = format!("  {said}");
            text.push_str(&paragraph(&said, &remedies.join("; "), WIDTH));
        }
    }
    if !cell.not_tried.is_empty() {
        let said = what_if::not_tried(cell).join("; ");
        text.push_str(&paragraph("  not tried: ", &said, WIDTH));
    }
}

/// What helps, best first.
fn table(cell: &Cell) -> Table {
    use Align::{Left, Right};
    let columns = what_if::Columns::of(cell);
    let mut table = Table::new(2, &[Left, Right, Right, Right]);
    let mut heads = columns.heads();
    heads[0] = format!("helps, in {}", columns.unit());
    table.row(heads);
    for remedy in what_if::of(cell, Verdict::Helps) {
        table.row(columns.row(remedy));
    }
    table.fit(WIDTH);
    table
}

fn with_ratio(remedy: &Remedy) -> String {
    match (remedy.ratio, &remedy.outcome.failure) {
        (_, Some(failure)) => format!("{} ({failure})", remedy.change),
        (Some(ratio), None) => {
            format!("{} ({})", remedy.change, change(ratio - 1.0))
        }
        (None, None) => remedy.change.clone(),
    }
}

/// With its sign, unless it rounds to nothing.
fn change(share: f64) -> String {
    if share.abs() < 0.0005 {
        "0 %".to_owned()
    } else if share > 0.0 {
        format!("+{}", percent(share))
    } else {
        percent(share)
    }
}

fn line(text: &mut String, line: &str) {
    text.push_str(line);
    text.push('\n');
}
