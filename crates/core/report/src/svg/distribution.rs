//! Times of a workload's transfers, or their rates: as cumulative shares, and transfer by transfer.

use record::lab::{Arm, Cell};

use super::axis::{Axis, Unit, fitted, text_width};
use super::canvas::{Anchor, Canvas, px, steps};
use super::legend::Legend;
use super::style::{Sheet, arm_class};
use crate::measure::Measured;
use crate::quantity::float;
use crate::statistics::{median, quantile, sorted};

/// The share of transfers that had ended after a time (or were no faster than a rate), a line per arm.
pub(crate) fn completion(cell: &Cell, sheet: Sheet) -> String {
    const WIDTH: f64 = 470.0;
    const LEFT: f64 = 58.0;
    const RIGHT: f64 = 456.0;
    const HEIGHT: f64 = 210.0;
    let measured = Measured::of(cell);
    let with_samples = cell
        .arms
        .iter()
        .enumerate()
        .filter(|(_, arm)| !measured.samples(arm).is_empty());
    let names = with_samples.map(|(index, arm)| (index, arm.name.as_str()));
    let legend = Legend::of(names, LEFT, WIDTH);
    let top = legend.height + 34.0;
    let bottom = top + HEIGHT;
    let mut canvas = Canvas::new(WIDTH, bottom + 28.0);
    let x = value_axis(cell, LEFT, RIGHT);
    let y = Axis {
        from: 0.0,
        to: 1.0,
        start: bottom,
        end: top,
        unit: Unit::Share,
    };
    legend.draw(&mut canvas, 4.0);
    y.draw_left(&mut canvas, LEFT, RIGHT);
    x.draw_below(&mut canvas, top, bottom, bottom + 18.0);
    bound_line(&mut canvas, cell, &x, top, bottom);
    canvas.panel(&x, &y, "share of transfers", |canvas| {
        for (index, arm) in cell.arms.iter().enumerate() {
            let values = sorted(measured.samples(arm).iter().copied());
            let n = count(values.len());
            let points = values.iter().enumerate().flat_map(|(index, value)| {
                let x = x.at(*value);
                [
                    (x, y.at(count(index) / n)),
                    (x, y.at((count(index) + 1.0) / n)),
                ]
            });
            // The line begins on the ground and goes on at the top: everything has ended.
            let end = values.last().map(|last| (x.at(x.to.max(*last)), y.at(1.0)));
            let class = format!("lh-line {}", arm_class(&arm.name, index));
            canvas.path_of(&class, &steps(points.chain(end)), &arm.name);
        }
    });
    let (title, what) = if measured.is_rate() {
        ("Rates", "Share of transfers at most as fast.")
    } else {
        ("Completion times", "Share of transfers ended after a time.")
    };
    canvas.finish(
        sheet,
        &format!("{title} of {}", cell.workload),
        &format!("{what} {}", description(cell)),
    )
}

/// Every transfer as a point, one row per arm.
pub(crate) fn strips(cell: &Cell, sheet: Sheet) -> String {
    const RIGHT: f64 = 826.0;
    const ROW: f64 = 46.0;
    const TOP: f64 = 26.0;
    let left = names_width(cell.arms.iter().map(|arm| arm.name.as_str()));
    let bottom = TOP + ROW * count(cell.arms.len());
    let mut canvas = Canvas::new(920.0, bottom + 48.0);
    let x = value_axis(cell, left, RIGHT);
    x.draw_below(&mut canvas, TOP, bottom, bottom + 18.0);
    bound_line(&mut canvas, cell, &x, TOP, bottom);
    canvas.text(
        "lh-quiet",
        (RIGHT + 14.0, TOP - 2.0),
        Anchor::Start,
        "median",
    );
    for (index, arm) in cell.arms.iter().enumerate() {
        let middle = TOP + ROW * (count(index) + 0.5);
        strip(&mut canvas, cell, arm, index, &x, middle);
    }
    legend(&mut canvas, cell, bottom + 40.0, left);
    canvas.finish(
        sheet,
        &format!("Every transfer of {}", cell.workload),
        &description(cell),
    )
}

/// Room for names left of a plot, as wide as the longest needs within bounds.
pub(super) fn names_width<'a>(names: impl Iterator<Item = &'a str>) -> f64 {
    let longest = names.map(text_width).fold(0.0, f64::max);
    // Names are bold, which makes them a tenth wider.
    (longest * 1.1 + 16.0).clamp(104.0, LONGEST_NAME + 16.0)
}

/// A longer name beside a plot loses its middle.
pub(super) const LONGEST_NAME: f64 = 210.0;

/// An arm's name left of its row, in full for readers that ask.
pub(super) fn row_name(canvas: &mut Canvas, name: &str, x: f64, baseline: f64) {
    let shown = fitted(name, LONGEST_NAME / 1.1);
    canvas.text_with("lh-strong", (x - 12.0, baseline), Anchor::End, &shown, name);
}

fn strip(canvas: &mut Canvas, cell: &Cell, arm: &Arm, index: usize, x: &Axis, middle: f64) {
    /// More points than this cover one another; evenly spaced ones stand for them.
    const MOST_POINTS: usize = 200;
    let measured = Measured::of(cell);
    let class = arm_class(&arm.name, index);
    row_name(canvas, &arm.name, x.start, middle + 4.0);
    let values = sorted(measured.samples(arm).iter().copied());
    if values.len() > 2
        && let (Some(low), Some(high)) = (quantile(&values, 0.25), quantile(&values, 0.75))
    {
        let title = format!(
            "half of all transfers: {} to {}",
            measured.shown(low),
            measured.shown(high)
        );
        let (left, right) = (x.at(low), x.at(high));
        canvas.rectangle(
            &format!("lh-box {class}"),
            (left - 2.0, middle - 14.0),
            (right - left + 4.0, 28.0),
            &title,
        );
    }
    let every = values.len().div_ceil(MOST_POINTS).max(1);
    let samples = measured.samples(arm).iter().enumerate();
    for (number, value) in samples.step_by(every).filter(|(_, x)| x.is_finite()) {
        // Spread over the row by a fixed pattern: the fractional parts of multiples of the golden ratio.
        let spread = (count(number) * 0.618_034).fract() - 0.5;
        let title = format!(
            "{} number {}: {}",
            arm.name,
            number + 1,
            measured.shown(*value)
        );
        canvas.circle(
            &format!("lh-dot {class}"),
            (x.at(*value), middle + spread * 22.0),
            3.2,
            &title,
        );
    }
    for value in measured.reported(arm) {
        let title = format!("field report: {}", measured.shown(*value));
        canvas.path("lh-report", &diamond(x.at(*value), middle + 17.0), &title);
    }
    let Some(middle_value) = measured.median(arm).or_else(|| median(&values)) else {
        canvas.text(
            "lh-quiet",
            (x.end + 14.0, middle + 4.0),
            Anchor::Start,
            "none",
        );
        return;
    };
    let at = x.at(middle_value);
    canvas.line(
        &format!("lh-median {class}"),
        (at, middle - 16.0),
        (at, middle + 12.0),
    );
    canvas.text(
        &format!("lh-arm-text {class}"),
        (x.end + 14.0, middle + 4.0),
        Anchor::Start,
        &measured.shown(middle_value),
    );
}

fn legend(canvas: &mut Canvas, cell: &Cell, y: f64, left: f64) {
    let measured = Measured::of(cell);
    canvas.circle("lh-dot lh-arm2", (left + 4.0, y - 4.0), 3.2, "");
    canvas.text("lh-quiet", (left + 14.0, y), Anchor::Start, "one transfer");
    canvas.line(
        "lh-median lh-arm2",
        (left + 110.0, y - 11.0),
        (left + 110.0, y + 2.0),
    );
    canvas.text("lh-quiet", (left + 118.0, y), Anchor::Start, "median");
    canvas.rectangle("lh-box lh-arm2", (left + 184.0, y - 10.0), (18.0, 12.0), "");
    canvas.text("lh-quiet", (left + 208.0, y), Anchor::Start, "half of all");
    if cell
        .arms
        .iter()
        .any(|arm| !measured.reported(arm).is_empty())
    {
        canvas.path("lh-report", &diamond(left + 300.0, y - 4.0), "");
        canvas.text(
            "lh-quiet",
            (left + 310.0, y),
            Anchor::Start,
            "the field report's figures",
        );
    }
}

/// The floor of times or the ceiling of rates, with its name above the plot.
fn bound_line(canvas: &mut Canvas, cell: &Cell, x: &Axis, top: f64, bottom: f64) {
    let measured = Measured::of(cell);
    let Some(bound) = measured.bound() else {
        return;
    };
    let at = x.at(bound);
    canvas.line("lh-floor", (at, top - 14.0), (at, bottom));
    let label = format!("{} {}", measured.bound_name(), measured.shown(bound));
    let right_half = at > f64::midpoint(x.start, x.end);
    let (place, anchor) = if right_half {
        (at - 4.0, Anchor::End)
    } else {
        (at + 4.0, Anchor::Start)
    };
    canvas.text("lh-strong", (place, top - 4.0), anchor, &label);
}

/// From zero, so that lengths compare as values do, to a little beyond the largest.
fn value_axis(cell: &Cell, start: f64, end: f64) -> Axis {
    let measured = Measured::of(cell);
    let values = cell.arms.iter().flat_map(|arm| {
        let samples = measured.samples(arm).iter();
        samples.chain(measured.reported(arm)).copied()
    });
    let largest = sorted(values.chain(measured.bound())).last().copied();
    Axis {
        from: 0.0,
        to: largest.unwrap_or_default() * 1.03,
        start,
        end,
        unit: if measured.is_rate() {
            Unit::Rate
        } else {
            Unit::Seconds
        },
    }
}

pub(super) fn diamond(x: f64, y: f64) -> String {
    format!(
        "M{} {}L{} {}L{} {}L{} {}Z",
        px(x),
        px(y - 4.5),
        px(x + 4.5),
        px(y),
        px(x),
        px(y + 4.5),
        px(x - 4.5),
        px(y)
    )
}

fn description(cell: &Cell) -> String {
    let measured = Measured::of(cell);
    let bound = measured.bound().map(|bound| {
        format!(
            "The {} is {}.",
            measured.bound_name(),
            measured.shown(bound)
        )
    });
    let arms = cell.arms.iter().map(|arm| {
        let median = measured.median(arm);
        let median = median.map_or_else(|| "-".into(), |median| measured.shown(median));
        format!("{}: {} transfers, median {median}.", arm.name, arm.n)
    });
    bound.into_iter().chain(arms).collect::<Vec<_>>().join(" ")
}

fn count(length: usize) -> f64 {
    float(u64::try_from(length).unwrap_or_default())
}
