//! Completion times of a workload: as cumulative shares, and transfer by transfer.

use record::lab::{Arm, Cell};

use super::axis::{Axis, Unit, text_width};
use super::canvas::{Anchor, Canvas, steps};
use super::style::{Sheet, arm_class};
use crate::quantity::{float, seconds, seconds_or_dash};
use crate::statistics::{median, quantile, sorted};

/// The share of transfers that had ended after a time, one line per arm.
pub(crate) fn completion(cell: &Cell, sheet: Sheet) -> String {
    const LEFT: f64 = 58.0;
    const RIGHT: f64 = 456.0;
    const TOP: f64 = 52.0;
    const BOTTOM: f64 = 262.0;
    let mut canvas = Canvas::new(470.0, 290.0);
    let x = time_axis(cell, LEFT, RIGHT);
    let y = Axis {
        from: 0.0,
        to: 1.0,
        start: BOTTOM,
        end: TOP,
        unit: Unit::Share,
    };
    canvas.readable(&x, &y);
    y.draw_left(&mut canvas, LEFT, RIGHT);
    x.draw_below(&mut canvas, TOP, BOTTOM, BOTTOM + 18.0);
    floor_line(&mut canvas, cell, &x, TOP, BOTTOM);
    let mut legend = LEFT;
    for (index, arm) in cell.arms.iter().enumerate() {
        let times = sorted(arm.samples_s.iter().copied());
        let Some(last) = times.last() else { continue };
        let n = count(times.len());
        let points = times.iter().enumerate().flat_map(|(index, time)| {
            let x = x.at(*time);
            [
                (x, y.at(count(index) / n)),
                (x, y.at((count(index) + 1.0) / n)),
            ]
        });
        // The line begins on the ground and goes on at the top: everything has ended.
        let points = points.chain([(x.at(x.to.max(*last)), y.at(1.0))]);
        let class = arm_class(&arm.name, index);
        let title = format!("{}: median {}", arm.name, seconds_or_dash(arm.median_s));
        canvas.path(&format!("lh-line {class}"), &steps(points), &title);
        canvas.line(
            &format!("lh-line {class}"),
            (legend, 14.0),
            (legend + 22.0, 14.0),
        );
        canvas.text("", (legend + 28.0, 18.0), Anchor::Start, &arm.name);
        legend += 52.0 + text_width(&arm.name);
    }
    let description: Vec<String> = cell.arms.iter().map(sentence).collect();
    canvas.finish(
        sheet,
        &format!("Completion times of {}", cell.workload),
        &format!(
            "Share of transfers ended after a time. The floor is {}. {}",
            seconds(cell.floor_s),
            description.join(" ")
        ),
    )
}

/// Every transfer as a point, one row per arm.
pub(crate) fn strips(cell: &Cell, sheet: Sheet) -> String {
    const LEFT: f64 = 104.0;
    const RIGHT: f64 = 840.0;
    const ROW: f64 = 46.0;
    const TOP: f64 = 26.0;
    let bottom = TOP + ROW * count(cell.arms.len());
    let mut canvas = Canvas::new(920.0, bottom + 48.0);
    let x = time_axis(cell, LEFT, RIGHT);
    x.draw_below(&mut canvas, TOP, bottom, bottom + 18.0);
    floor_line(&mut canvas, cell, &x, TOP, bottom);
    canvas.text(
        "lh-quiet",
        (RIGHT + 14.0, TOP - 2.0),
        Anchor::Start,
        "median",
    );
    for (index, arm) in cell.arms.iter().enumerate() {
        strip(
            &mut canvas,
            arm,
            index,
            &x,
            TOP + ROW * (count(index) + 0.5),
        );
    }
    legend(&mut canvas, cell, bottom + 40.0, LEFT);
    let description: Vec<String> = cell.arms.iter().map(sentence).collect();
    canvas.finish(
        sheet,
        &format!("Every transfer of {}", cell.workload),
        &format!(
            "The floor is {}. {}",
            seconds(cell.floor_s),
            description.join(" ")
        ),
    )
}

fn strip(canvas: &mut Canvas, arm: &Arm, index: usize, x: &Axis, middle: f64) {
    let class = arm_class(&arm.name, index);
    canvas.text(
        "lh-strong",
        (x.start - 12.0, middle + 4.0),
        Anchor::End,
        &arm.name,
    );
    let times = sorted(arm.samples_s.iter().copied());
    if let (Some(low), Some(high)) = (quantile(&times, 0.25), quantile(&times, 0.75)) {
        let title = format!(
            "half of all transfers: {} to {}",
            seconds(low),
            seconds(high)
        );
        let (left, right) = (x.at(low), x.at(high));
        canvas.rectangle(
            &format!("lh-box {class}"),
            (left - 2.0, middle - 14.0),
            (right - left + 4.0, 28.0),
            &title,
        );
    }
    for (number, time) in arm.samples_s.iter().enumerate() {
        // Spread over the row by a fixed pattern: the fractional parts of multiples of the golden ratio.
        let spread = (count(number) * 0.618_034).fract() - 0.5;
        let title = format!("{} number {}: {}", arm.name, number + 1, seconds(*time));
        canvas.circle(
            &format!("lh-dot {class}"),
            (x.at(*time), middle + spread * 22.0),
            3.2,
            &title,
        );
    }
    for time in &arm.reported_s {
        let title = format!("field report: {}", seconds(*time));
        canvas.path("lh-report", &diamond(x.at(*time), middle + 17.0), &title);
    }
    let Some(middle_time) = arm.median_s.or_else(|| median(&times)) else {
        return;
    };
    let at = x.at(middle_time);
    canvas.line(
        &format!("lh-median {class}"),
        (at, middle - 16.0),
        (at, middle + 12.0),
    );
    canvas.text(
        &format!("lh-arm-text {class}"),
        (x.end + 14.0, middle + 4.0),
        Anchor::Start,
        &seconds(middle_time),
    );
}

fn legend(canvas: &mut Canvas, cell: &Cell, y: f64, left: f64) {
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
    if cell.arms.iter().any(|arm| !arm.reported_s.is_empty()) {
        canvas.path("lh-report", &diamond(left + 300.0, y - 4.0), "");
        canvas.text(
            "lh-quiet",
            (left + 310.0, y),
            Anchor::Start,
            "the field report's figures",
        );
    }
}

fn floor_line(canvas: &mut Canvas, cell: &Cell, x: &Axis, top: f64, bottom: f64) {
    let at = x.at(cell.floor_s);
    canvas.line("lh-floor", (at, top - 14.0), (at, bottom));
    let label = format!("floor {}", seconds(cell.floor_s));
    let right_half = at > f64::midpoint(x.start, x.end);
    let (place, anchor) = if right_half {
        (at - 4.0, Anchor::End)
    } else {
        (at + 4.0, Anchor::Start)
    };
    canvas.text("lh-strong", (place, top - 4.0), anchor, &label);
}

/// From zero, so that lengths compare as times do, to a little beyond the slowest.
fn time_axis(cell: &Cell, start: f64, end: f64) -> Axis {
    let times = cell
        .arms
        .iter()
        .flat_map(|arm| arm.samples_s.iter().chain(&arm.reported_s));
    let slowest = sorted(times.copied()).last().copied().unwrap_or_default();
    Axis {
        from: 0.0,
        to: slowest.max(cell.floor_s) * 1.03,
        start,
        end,
        unit: Unit::Seconds,
    }
}

fn diamond(x: f64, y: f64) -> String {
    use super::canvas::px;
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

fn sentence(arm: &Arm) -> String {
    format!(
        "{}: {} transfers, median {}.",
        arm.name,
        arm.n,
        seconds_or_dash(arm.median_s)
    )
}

fn count(length: usize) -> f64 {
    float(u64::try_from(length).unwrap_or_default())
}
