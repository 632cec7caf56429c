//! Which line is which arm.

use super::axis::{fitted, text_width};
use super::canvas::{Anchor, Canvas};
use super::style::arm_class;

/// Height of a row of entries.
const ROW: f64 = 18.0;
/// A longer name loses its middle.
const LONGEST: f64 = 190.0;
/// The stroke before a name, with the gap between them.
const STROKE: f64 = 28.0;

/// Entries of a legend, each with its place.
#[derive(Debug)]
pub(super) struct Legend {
    entries: Vec<(f64, f64, String, &'static str, String)>,
    /// Pixels that all rows take.
    pub(super) height: f64,
}

impl Legend {
    /// Names with their index among the arms, in rows between `left` and `right`.
    pub(super) fn of<'a>(
        names: impl IntoIterator<Item = (usize, &'a str)>,
        left: f64,
        right: f64,
    ) -> Self {
        let (mut x, mut y) = (left, 0.0);
        let mut entries = Vec::new();
        for (index, name) in names {
            let shown = fitted(name, LONGEST);
            let width = STROKE + text_width(&shown);
            if x > left && x + width > right {
                (x, y) = (left, y + ROW);
            }
            entries.push((x, y, shown, arm_class(name, index), name.to_owned()));
            x += width + 20.0;
        }
        let height = if entries.is_empty() { 0.0 } else { y + ROW };
        Self { entries, height }
    }

    /// Draws it below `top`.
    pub(super) fn draw(&self, canvas: &mut Canvas, top: f64) {
        for (x, y, shown, class, name) in &self.entries {
            let middle = top + y + ROW / 2.0;
            let class = format!("lh-line {class}");
            let stroke = format!("M{x:.1} {middle:.1}h22");
            canvas.path(&class, &stroke, name);
            canvas.text("", (x + STROKE, middle + 4.0), Anchor::Start, shown);
        }
    }
}
