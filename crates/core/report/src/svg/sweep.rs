//! Throughput along a factor of a sweep.

use super::axis::{Axis, Unit, fitted};
use super::canvas::{Anchor, Canvas, polyline};
use super::legend::Legend;
use super::style::{Sheet, arm_class};
use crate::quantity::{float, rate};
use crate::statistics::sorted;
use crate::sweep::{Slice, short};

const WIDTH: f64 = 470.0;
const LEFT: f64 = 76.0;
const RIGHT: f64 = 456.0;
const HEIGHT: f64 = 180.0;
/// Distance of the outermost values from the plot's edges.
const MARGIN: f64 = 30.0;

/// Median goodput of every arm for every value of a factor, with its 95 % interval and the ceiling.
/// Values stand at equal distances in their order, because a loss of 0 has no place on a logarithmic axis
/// and hides all others on a linear one.
pub(crate) fn along(slice: &Slice<'_>, sheet: Sheet) -> String {
    let mut names: Vec<&str> = Vec::new();
    for arm in slice.cells.iter().flat_map(|(_, cell)| &cell.arms) {
        if !names.contains(&arm.name.as_str()) {
            names.push(&arm.name);
        }
    }
    let legend = Legend::of(names.iter().copied().enumerate(), LEFT, WIDTH);
    let top = legend.height + 26.0;
    let bottom = top + HEIGHT;
    let mut canvas = Canvas::new(WIDTH, bottom + 44.0);
    let title = fitted(&slice.title, WIDTH - 8.0);
    canvas.text("lh-strong", (4.0, 14.0), Anchor::Start, &title);
    legend.draw(&mut canvas, 20.0);
    let values = slice.cells.iter().flat_map(|(_, cell)| {
        let medians = cell.arms.iter().filter_map(|arm| arm.goodput_bps);
        let highs = cell.arms.iter().filter_map(|arm| arm.goodput_ci95_bps);
        medians.chain(highs.map(|(_, high)| high))
    });
    let largest = sorted(values).last().copied().unwrap_or_default();
    let y = Axis {
        from: 0.0,
        to: largest * 1.08,
        start: bottom,
        end: top,
        unit: Unit::Rate,
    };
    y.draw_left(&mut canvas, LEFT, RIGHT);
    canvas.line("lh-axis", (LEFT, bottom), (RIGHT, bottom));
    let steps = count(slice.cells.len().saturating_sub(1)).max(1.0);
    let step = (RIGHT - LEFT - 2.0 * MARGIN) / steps;
    let at = |place: usize| LEFT + MARGIN + step * count(place);
    // Labels give way where they would run into each other.
    let every = (1..=slice.cells.len().max(1)).find(|every| step * count(*every) >= 54.0);
    let every = every.unwrap_or_else(|| slice.cells.len().max(1));
    for (place, (value, _)) in slice.cells.iter().enumerate() {
        canvas.line("lh-grid", (at(place), top), (at(place), bottom));
        if place % every == 0 {
            let label = fitted(value, 60.0);
            canvas.text(
                "lh-quiet",
                (at(place), bottom + 17.0),
                Anchor::Middle,
                &label,
            );
        }
    }
    let factor = fitted(short(slice.factor), RIGHT - LEFT);
    let middle = f64::midpoint(LEFT, RIGHT);
    canvas.text("lh-quiet", (middle, bottom + 36.0), Anchor::Middle, &factor);
    let ceilings = slice
        .cells
        .iter()
        .enumerate()
        .filter_map(|(place, (_, cell))| {
            let ceiling = cell.ceiling_bps.filter(|ceiling| *ceiling <= y.to)?;
            Some((at(place), y.at(ceiling)))
        });
    canvas.path(
        "lh-floor",
        &polyline(ceilings),
        "what the path's rate allows",
    );
    for (index, name) in names.iter().enumerate() {
        arm(&mut canvas, slice, name, index, &y, &at);
    }
    let description: Vec<String> = slice
        .cells
        .iter()
        .map(|(value, cell)| {
            let arms = cell.arms.iter().map(|arm| {
                let median = arm.goodput_bps.map_or_else(|| "-".into(), rate);
                format!("{} {median}", arm.name)
            });
            format!("{value}: {}.", arms.collect::<Vec<_>>().join(", "))
        })
        .collect();
    canvas.finish(
        sheet,
        &format!("Goodput by {}", slice.factor),
        &format!("{}. {}", slice.title, description.join(" ")),
    )
}

fn arm(
    canvas: &mut Canvas,
    slice: &Slice<'_>,
    name: &str,
    index: usize,
    y: &Axis,
    at: &impl Fn(usize) -> f64,
) {
    let class = arm_class(name, index);
    // Arms stand a little beside each other, so that intervals can be told apart.
    let aside = (count(index % 5) - 2.0) * 3.0;
    let points: Vec<_> = slice
        .cells
        .iter()
        .enumerate()
        .filter_map(|(place, (value, cell))| {
            let arm = cell.arms.iter().find(|arm| arm.name == name)?;
            let x = at(place) + aside;
            Some((x, value, arm.goodput_bps?, arm.goodput_ci95_bps))
        })
        .collect();
    let line = points.iter().map(|(x, _, median, _)| (*x, y.at(*median)));
    canvas.path(&format!("lh-series {class}"), &polyline(line), name);
    for (x, value, median, interval) in points {
        if let Some((low, high)) = interval {
            let whisker = format!("lh-whisker {class}");
            canvas.line(&whisker, (x, y.at(low)), (x, y.at(high)));
        }
        let title = format!("{name} at {value}: {}", rate(median));
        canvas.circle(&format!("lh-point {class}"), (x, y.at(median)), 3.2, &title);
    }
}

fn count(length: usize) -> f64 {
    float(u64::try_from(length).unwrap_or_default())
}
