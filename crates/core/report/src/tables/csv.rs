//! Comma-separated values (RFC 4180).

use std::borrow::Cow;

use super::{Table, Values};

pub(super) fn csv(table: &Table) -> String {
    let mut text = String::new();
    let names = table
        .columns
        .iter()
        .map(|column| Cow::Borrowed(column.name));
    line(&mut text, names);
    for row in 0..table.rows() {
        let cells = table.columns.iter().map(|column| cell(&column.values, row));
        line(&mut text, cells);
    }
    text
}

fn line<'a>(text: &mut String, cells: impl Iterator<Item = Cow<'a, str>>) {
    for (index, cell) in cells.enumerate() {
        if index > 0 {
            text.push(',');
        }
        text.push_str(&cell);
    }
    text.push_str("\r\n");
}

fn cell(values: &Values, row: usize) -> Cow<'_, str> {
    match values {
        Values::Int(values) => number(values.get(row).copied().flatten()),
        Values::Real(values) => number(values.get(row).copied().flatten()),
        Values::Flag(values) => number(values.get(row).copied().flatten()),
        Values::Text(values) => values
            .get(row)
            .and_then(Option::as_deref)
            .map_or(Cow::Borrowed(""), quoted),
    }
}

fn number<'a>(value: Option<impl ToString>) -> Cow<'a, str> {
    value.map_or(Cow::Borrowed(""), |value| Cow::Owned(value.to_string()))
}

/// A field, in quotes where it has to be. Names and paths come from captures: what a spreadsheet would
/// take for a formula gets an apostrophe in front.
fn quoted(text: &str) -> Cow<'_, str> {
    let formula = text.starts_with(['=', '+', '-', '@', '\t']);
    let quotes = text.contains([',', '"', '\r', '\n']);
    match (formula, quotes) {
        (false, false) => Cow::Borrowed(text),
        (true, false) => Cow::Owned(format!("'{text}")),
        (formula, true) => {
            let mark = if formula { "'" } else { "" };
            Cow::Owned(format!("\"{mark}{}\"", text.replace('"', "\"\"")))
        }
    }
}
