//! Linear axes with ticks at round values.

use super::canvas::{Anchor, Canvas};
use crate::quantity::float;

/// What an axis counts.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Unit {
    Seconds,
    Bytes,
    Share,
    /// Bits per second.
    Rate,
}

/// Values from `from` to `to` on pixels from `start` to `end`.
#[derive(Clone, Copy, Debug)]
pub(super) struct Axis {
    pub(super) from: f64,
    pub(super) to: f64,
    pub(super) start: f64,
    pub(super) end: f64,
    pub(super) unit: Unit,
}

impl Unit {
    pub(super) const fn symbol(self) -> &'static str {
        match self {
            Self::Seconds => "s",
            Self::Bytes => "B",
            Self::Share => "share",
            Self::Rate => "bit/s",
        }
    }

    /// The factor and the name in which values up to `largest` are written.
    fn scale(self, largest: f64) -> (f64, &'static str) {
        match self {
            Self::Seconds if largest < 0.002 => (1e6, "µs"),
            Self::Seconds if largest < 2.0 => (1e3, "ms"),
            Self::Seconds => (1.0, "s"),
            Self::Bytes if largest < 2e3 => (1.0, "B"),
            Self::Bytes if largest < 2e6 => (1e-3, "kB"),
            Self::Bytes if largest < 2e9 => (1e-6, "MB"),
            Self::Bytes => (1e-9, "GB"),
            Self::Share => (100.0, "%"),
            Self::Rate if largest < 2e3 => (1.0, "bit/s"),
            Self::Rate if largest < 2e6 => (1e-3, "kbit/s"),
            Self::Rate if largest < 2e9 => (1e-6, "Mbit/s"),
            Self::Rate => (1e-9, "Gbit/s"),
        }
    }
}

impl Axis {
    /// The pixel of a value.
    pub(super) fn at(&self, value: f64) -> f64 {
        let span = self.to - self.from;
        if span > 0.0 {
            self.start + (value - self.from) / span * (self.end - self.start)
        } else {
            self.start
        }
    }

    /// Round values, about `wanted` of them, with their labels. The unit stands at the last one.
    pub(super) fn ticks(&self, wanted: u32) -> Vec<(f64, String)> {
        let (factor, unit) = self.unit.scale(self.to.abs().max(self.from.abs()));
        let (from, to) = (self.from * factor, self.to * factor);
        let Some(step) = round_step((to - from) / f64::from(wanted.max(1))) else {
            return Vec::new();
        };
        let first = (from / step).ceil();
        let decimals = (0..6_i32)
            .find(|digits| {
                let moved = step * 10_f64.powi(*digits);
                (moved - moved.round()).abs() < 1e-6
            })
            .unwrap_or(6);
        let decimals = usize::try_from(decimals).unwrap_or_default();
        let mut ticks: Vec<(f64, String)> = (0..=4 * wanted)
            .map(|index| (first + f64::from(index)) * step)
            .take_while(|value| *value <= to + step * 1e-6)
            .map(|value| (value / factor, format!("{value:.decimals$}")))
            .collect();
        if let Some((_, label)) = ticks.last_mut() {
            label.push(' ');
            label.push_str(unit);
        }
        ticks
    }

    /// Draws this axis below a plot whose top is `top`.
    pub(super) fn draw_below(&self, canvas: &mut Canvas, top: f64, bottom: f64, labels_at: f64) {
        for (value, label) in self.ticks(6) {
            let x = self.at(value);
            canvas.line("lh-grid", (x, top), (x, bottom));
            // The last label carries the unit and must not run out of the picture.
            let half = text_width(&label) / 2.0;
            let middle = x.min(self.end + EDGE - half);
            canvas.text("lh-quiet", (middle, labels_at), Anchor::Middle, &label);
        }
        canvas.line("lh-axis", (self.start, bottom), (self.end, bottom));
    }

    /// Draws this axis left of a plot whose right end is `right`.
    pub(super) fn draw_left(&self, canvas: &mut Canvas, left: f64, right: f64) {
        self.draw_left_with(canvas, left, right, 5);
    }

    /// The same with about `wanted` labels, for flat plots.
    pub(super) fn draw_left_with(&self, canvas: &mut Canvas, left: f64, right: f64, wanted: u32) {
        for (value, label) in self.ticks(wanted) {
            let y = self.at(value);
            canvas.line("lh-grid", (left, y), (right, y));
            canvas.text("lh-quiet", (left - 7.0, y + 4.0), Anchor::End, &label);
        }
    }
}

/// Room beyond the end of an axis.
const EDGE: f64 = 12.0;

/// About how wide a text is, in pixels at the size of labels.
pub(super) fn text_width(text: &str) -> f64 {
    float_of(text.chars().count()) * LETTER
}

/// A letter's width at the size of labels, in pixels.
const LETTER: f64 = 6.6;

fn float_of(count: usize) -> f64 {
    float(u64::try_from(count).unwrap_or(u64::MAX))
}

/// A text that fits into so many pixels: where it does not, its middle gives way.
pub(super) fn fitted(text: &str, pixels: f64) -> String {
    let letters: Vec<char> = text.chars().collect();
    let mut kept = letters.len();
    while kept > 2 && text_width(text) > pixels && float_of(kept) * LETTER > pixels {
        kept -= 1;
    }
    if kept == letters.len() {
        return text.to_owned();
    }
    let head = kept / 2;
    let tail = kept - head - 1;
    let head = letters.iter().take(head);
    let tail = letters.iter().skip(letters.len() - tail);
    head.chain(std::iter::once(&'…')).chain(tail).collect()
}

/// The smallest of 1, 2 and 5 times a power of ten that is at least `least`.
fn round_step(least: f64) -> Option<f64> {
    if !least.is_finite() || least <= 0.0 {
        return None;
    }
    (-12..=15_i32)
        .flat_map(|power| [1.0, 2.0, 5.0].map(|digit| digit * 10_f64.powi(power)))
        .find(|step| *step >= least * 0.999_999)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn axis(from: f64, to: f64, unit: Unit) -> Axis {
        Axis {
            from,
            to,
            start: 0.0,
            end: 100.0,
            unit,
        }
    }

    fn labels(axis: &Axis) -> Vec<String> {
        axis.ticks(5).into_iter().map(|(_, label)| label).collect()
    }

    #[test]
    fn ticks_are_round_and_carry_their_unit_once() {
        assert_eq!(
            labels(&axis(0.0, 1.05, Unit::Seconds)),
            ["0", "500", "1000 ms"]
        );
        assert_eq!(labels(&axis(0.0, 12.0, Unit::Seconds)), ["0", "5", "10 s"]);
        assert_eq!(
            labels(&axis(0.0, 102_871.0, Unit::Bytes)),
            ["0", "50", "100 kB"]
        );
        assert_eq!(
            labels(&axis(0.0, 1.0, Unit::Share)),
            ["0", "20", "40", "60", "80", "100 %"]
        );
        assert_eq!(labels(&axis(1.0, 1.0, Unit::Seconds)), [""; 0]);
    }

    #[test]
    fn long_names_lose_their_middle() {
        assert_eq!(fitted("relay", 66.0), "relay");
        assert_eq!(fitted("a-very-long-name-of-an-arm", 66.0), "a-ver…-arm");
        assert_eq!(fitted("", 66.0), "");
    }

    #[test]
    fn rates_have_the_unit_that_people_would_choose() {
        assert_eq!(
            labels(&axis(0.0, 104e6, Unit::Rate)),
            ["0", "50", "100 Mbit/s"]
        );
    }

    proptest! {
        #[test]
        fn ticks_lie_on_the_axis_and_are_never_too_many(from in 0.0..1e6_f64, span in 1e-9..1e9_f64) {
            let axis = axis(from, from + span, Unit::Bytes);
            let ticks = axis.ticks(5);
            prop_assert!(ticks.len() <= 7);
            for (value, _) in ticks {
                prop_assert!((-1e-3..=100.001).contains(&axis.at(value)));
            }
        }
    }
}
