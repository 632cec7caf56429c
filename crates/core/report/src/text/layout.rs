//! Paragraphs, bars and tables in columns of characters.

use crate::clean::{NO_BREAK, for_terminal, with_units_bound};

/// `text` in lines of at most `width` columns, the first after `label`, the others under its text.
/// A number and its unit stay together; a word longer than a line is broken.
pub(super) fn paragraph(label: &str, text: &str, width: usize) -> String {
    let indent = label.chars().count();
    let room = width.saturating_sub(indent).max(1);
    let mut lines = String::from(label);
    let mut column = 0;
    for word in with_units_bound(&for_terminal(text)).split(' ') {
        let letters: Vec<char> = word
            .chars()
            .map(|letter| if letter == NO_BREAK { ' ' } else { letter })
            .collect();
        for (index, piece) in letters.chunks(room).enumerate() {
            let space = usize::from(column > 0);
            if index > 0 || column + space + piece.len() > room {
                lines.push('\n');
                lines.extend(std::iter::repeat_n(' ', indent));
                column = 0;
            } else if space > 0 {
                lines.push(' ');
                column += 1;
            }
            lines.extend(piece);
            column += piece.len();
        }
    }
    lines.push('\n');
    lines
}

/// A bar for a share of one, in eighths of a character, `width` characters for all of it.
pub(super) fn bar(share: f64, width: u32) -> String {
    const EIGHTHS: [&str; 8] = ["", "▏", "▎", "▍", "▌", "▋", "▊", "▉"];
    let wanted = share.clamp(0.0, 1.0) * f64::from(width) * 8.0;
    let eighths = (0..=width * 8)
        .rev()
        .find(|count| f64::from(*count) <= wanted + 0.5)
        .unwrap_or_default();
    let (whole, rest) = (eighths / 8, eighths % 8);
    let mut bar: String = (0..whole).map(|_| '█').collect();
    bar.push_str(
        usize::try_from(rest)
            .ok()
            .and_then(|rest| EIGHTHS.get(rest))
            .unwrap_or(&""),
    );
    if bar.is_empty() && share > 0.0 {
        bar.push('▏');
    }
    bar
}

/// On which side a column's cells stand.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Align {
    Left,
    Right,
}

/// Rows in aligned columns, two spaces apart.
#[derive(Debug)]
pub(super) struct Table {
    indent: usize,
    columns: Vec<Align>,
    rows: Vec<Vec<String>>,
}

impl Table {
    pub(super) fn new(indent: usize, columns: &[Align]) -> Self {
        Self {
            indent,
            columns: columns.to_vec(),
            rows: Vec::new(),
        }
    }

    pub(super) fn row<T: AsRef<str>>(&mut self, cells: impl IntoIterator<Item = T>) {
        let cells = cells.into_iter().map(|cell| for_terminal(cell.as_ref()));
        self.rows.push(cells.collect());
    }

    /// The lines, without trailing spaces.
    pub(super) fn lines(&self) -> Vec<String> {
        let widths: Vec<usize> = (0..self.columns.len())
            .map(|column| {
                let cells = self.rows.iter().filter_map(|row| row.get(column));
                cells.map(|cell| cell.chars().count()).max().unwrap_or(0)
            })
            .collect();
        let line = |row: &Vec<String>| {
            let mut line = " ".repeat(self.indent);
            for (index, ((cell, width), align)) in
                row.iter().zip(&widths).zip(&self.columns).enumerate()
            {
                if index > 0 {
                    line.push_str("  ");
                }
                let space = " ".repeat(width - cell.chars().count());
                match align {
                    Align::Left => line.extend([cell.as_str(), &space]),
                    Align::Right => line.extend([space.as_str(), cell]),
                }
            }
            line.trim_end().to_owned()
        };
        self.rows.iter().map(line).collect()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn bars_grow_by_eighths_and_never_vanish() {
        assert_eq!(
            [0.0, 0.001, 0.5, 0.53, 1.0, 7.0].map(|share| bar(share, 4)),
            ["", "▏", "██", "██▏", "████", "████"]
        );
    }

    #[test]
    fn a_table_aligns_what_it_is_given() {
        let mut table = Table::new(2, &[Align::Left, Align::Right]);
        table.row(["arm", "n"]);
        table.row(["direct", "20"]);
        assert_eq!(table.lines(), ["  arm      n", "  direct  20"]);
    }

    proptest! {
        #[test]
        fn a_paragraph_keeps_its_words_and_its_width(text in "[a-z]{0,60}[a-z ]{0,300}", width in 20_usize..100) {
            let lines = paragraph("label  ", &text, width);
            for line in lines.lines() {
                prop_assert!(line.chars().count() <= width, "{}", line);
            }
            let words = |text: &str| text.split_whitespace().map(ToOwned::to_owned).collect::<Vec<_>>();
            // Words longer than a line come in pieces, so letters are compared.
            prop_assert_eq!(words(&lines)[1..].concat(), words(&text).concat());
        }
    }
}
