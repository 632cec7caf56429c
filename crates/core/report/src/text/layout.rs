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

    /// Shortens the first column (names) so that lines have at most `width` columns, as far as eight
    /// letters of each name; then columns are left out from the right.
    pub(super) fn fit(&mut self, width: usize) {
        const LEAST: usize = 8;
        let longest = |table: &Self| table.lines().iter().map(|line| line.chars().count()).max();
        while longest(self).is_some_and(|longest| longest > width) {
            let excess = longest(self).unwrap_or(width).saturating_sub(width);
            let names = self.rows.iter().filter_map(|row| row.first());
            let widest = names.map(|name| name.chars().count()).max().unwrap_or(0);
            if widest > LEAST {
                let room = widest.saturating_sub(excess).max(LEAST);
                for name in self.rows.iter_mut().filter_map(|row| row.first_mut()) {
                    *name = elided(name, room);
                }
            } else if self.columns.len() > 2 {
                self.columns.pop();
                for row in &mut self.rows {
                    row.truncate(self.columns.len());
                }
            } else {
                return;
            }
        }
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

/// A name in at most `room` letters: its middle gives way, because both of its ends tell it from others.
fn elided(name: &str, room: usize) -> String {
    let letters: Vec<char> = name.chars().collect();
    if letters.len() <= room {
        return name.to_owned();
    }
    let kept = room.saturating_sub(1);
    let (head, tail) = (kept.div_ceil(2), kept / 2);
    let head = letters.iter().take(head);
    let tail = letters.iter().skip(letters.len() - tail);
    head.chain(std::iter::once(&'…')).chain(tail).collect()
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

    #[test]
    fn long_names_give_way_before_numbers_do() {
        let mut table = Table::new(2, &[Align::Left, Align::Right, Align::Left]);
        table.row(["a-name-that-is-longer-than-a-line", "20", "note"]);
        table.fit(20);
        assert_eq!(table.lines(), ["  a-na…ine  20  note"]);
        table.fit(15);
        assert_eq!(table.lines(), ["  a-na…ine  20"]);
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
