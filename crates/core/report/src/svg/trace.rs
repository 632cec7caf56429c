//! One transfer, packet by packet: the sequence graph and the bytes in flight.

use std::fmt::Write as _;

use super::axis::{Axis, Unit, text_width};
use super::canvas::{Anchor, Canvas, px, steps};
use super::style::{Sheet, limit_class};
use crate::excerpt::Excerpt;
use crate::limits::meaning;
use crate::quantity::{bytes, float, seconds};

const WIDTH: f64 = 470.0;
const HEIGHT: f64 = 330.0;
const LEFT: f64 = 58.0;
const RIGHT: f64 = 456.0;
const TOP: f64 = 40.0;
const BOTTOM: f64 = 262.0;
/// The band of limits lies between the axis and its labels.
const BAND: (f64, f64) = (270.0, 14.0);
const LABELS: f64 = 300.0;

/// What the axes of pictures side by side have in common, so that they can be compared by eye.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Scale {
    seconds: f64,
    sequence: f64,
    in_flight: f64,
}

impl Scale {
    /// The scale that holds all of these.
    pub(crate) fn of(excerpts: &[&Excerpt<'_>]) -> Self {
        let most = |value: &dyn Fn(&Excerpt<'_>) -> f64| {
            excerpts
                .iter()
                .map(|excerpt| value(excerpt))
                .filter(|value| value.is_finite())
                .fold(0.0, f64::max)
        };
        let in_flight = most(&|excerpt| float(largest_flight(excerpt)));
        let window = most(&|excerpt| float(largest_window(excerpt)));
        Self {
            seconds: most(&|excerpt| excerpt.duration_s()) * 1.02,
            sequence: most(&|excerpt| float(last_byte(excerpt))) * 1.06,
            // A window far above everything in flight would press the rest to the ground.
            in_flight: if window <= in_flight * 3.0 {
                in_flight.max(window) * 1.1
            } else {
                in_flight * 1.25
            },
        }
    }
}

/// The sequence graph of an excerpt.
pub(crate) fn sequence(excerpt: &Excerpt<'_>, scale: &Scale, sheet: Sheet) -> String {
    let mut canvas = Canvas::new(WIDTH, HEIGHT);
    let (x, y) = axes(scale.seconds, scale.sequence);
    canvas.readable(&x, &y);
    y.draw_left(&mut canvas, LEFT, RIGHT);
    x.draw_below(&mut canvas, TOP, BOTTOM, LABELS);
    let base = excerpt.base();
    let place = |t: f64, offset: u64| {
        let above = float(offset.saturating_sub(base));
        (x.at(t - excerpt.from_s), y.at(above))
    };
    canvas.clipped((LEFT, TOP), (RIGHT - LEFT, BOTTOM - TOP), |canvas| {
        let edge = excerpt.series.window_edge.iter();
        let edge = edge.filter(|(t, _)| excerpt.holds(*t));
        canvas.path(
            "lh-edge",
            &steps(edge.map(|(t, offset)| place(*t, *offset))),
            "right edge of the receive window",
        );
        let acks = excerpt.series.acks.iter();
        let acks = acks.filter(|(t, offset)| excerpt.holds(*t) && *offset >= base);
        canvas.path(
            "lh-ack",
            &steps(acks.map(|(t, offset)| place(*t, *offset))),
            "cumulative acknowledgments",
        );
        canvas.path(
            "lh-data",
            &segments(excerpt, &place, false),
            "data segments",
        );
        canvas.path(
            "lh-retransmission",
            &segments(excerpt, &place, true),
            "retransmissions",
        );
    });
    band(&mut canvas, excerpt, &x);
    let resent = retransmissions(excerpt);
    legend(
        &mut canvas,
        &[
            ("lh-data", "data"),
            ("lh-ack", "acknowledged"),
            ("lh-edge", "window edge"),
            (
                "lh-retransmission",
                if resent > 0 { "sent again" } else { "" },
            ),
        ],
    );
    canvas.text(
        "lh-quiet",
        (LEFT, LABELS + 19.0),
        Anchor::Start,
        "time; below the axis: what held the transfer back",
    );
    let description = format!(
        "Sequence graph: {} sent in {}, {resent} segments sent again.",
        bytes(last_byte(excerpt)),
        seconds(excerpt.duration_s()),
    );
    canvas.finish(sheet, "Sequence numbers over time", &description)
}

/// Bytes in flight of an excerpt against the receive window.
pub(crate) fn in_flight(excerpt: &Excerpt<'_>, scale: &Scale, sheet: Sheet) -> String {
    let mut canvas = Canvas::new(WIDTH, HEIGHT);
    let (x, y) = axes(scale.seconds, scale.in_flight);
    canvas.readable(&x, &y);
    y.draw_left(&mut canvas, LEFT, RIGHT);
    x.draw_below(&mut canvas, TOP, BOTTOM, LABELS);
    let place = |t: f64, value: u64| (x.at(t - excerpt.from_s), y.at(float(value)));
    let window = lasting(&excerpt.series.receive_window, excerpt);
    canvas.clipped((LEFT, TOP), (RIGHT - LEFT, BOTTOM - TOP), |canvas| {
        let flight = excerpt.series.in_flight.iter();
        let flight = flight.filter(|(t, _)| excerpt.holds(*t));
        let line = steps(flight.map(|(t, value)| place(*t, *value)));
        if let Some(area) = closed(&line, x.at(excerpt.duration_s())) {
            canvas.path("lh-flight-area", &area, "");
        }
        canvas.path("lh-flight", &line, "bytes in flight");
        canvas.path(
            "lh-edge",
            &steps(window.iter().map(|(t, value)| place(*t, *value))),
            "receive window",
        );
    });
    band(&mut canvas, excerpt, &x);
    legend(
        &mut canvas,
        &[
            ("lh-flight", "bytes in flight"),
            ("lh-edge", "receive window"),
        ],
    );
    let (flight, window) = (largest_flight(excerpt), largest_window(excerpt));
    if float(window) > scale.in_flight {
        let note = format!("the receive window is above: {}", bytes(window));
        canvas.text("lh-quiet", (RIGHT, TOP + 14.0), Anchor::End, &note);
    }
    canvas.text(
        "lh-quiet",
        (LEFT, LABELS + 19.0),
        Anchor::Start,
        "time; below the axis: what held the transfer back",
    );
    let description = format!(
        "At most {} in flight; the receive window reached {}.",
        bytes(flight),
        bytes(window)
    );
    canvas.finish(sheet, "Bytes in flight over time", &description)
}

fn axes(seconds: f64, upwards: f64) -> (Axis, Axis) {
    let x = Axis {
        from: 0.0,
        to: seconds,
        start: LEFT,
        end: RIGHT,
        unit: Unit::Seconds,
    };
    let y = Axis {
        from: 0.0,
        to: upwards,
        start: BOTTOM,
        end: TOP,
        unit: Unit::Bytes,
    };
    (x, y)
}

/// Vertical strokes from a segment's first to its last byte; a retransmission has a bar across.
fn segments(
    excerpt: &Excerpt<'_>,
    place: &impl Fn(f64, u64) -> (f64, f64),
    retransmissions: bool,
) -> String {
    let mut commands = String::new();
    let mut last = String::new();
    for point in &excerpt.series.data {
        if point.retransmission != retransmissions || !excerpt.holds(point.t) {
            continue;
        }
        let (x, low) = place(point.t, point.from);
        let (_, high) = place(point.t, point.to);
        // At least a pixel, or small segments would vanish.
        let mut stroke = format!("M{} {}V{}", px(x), px(low), px(high.min(low - 1.0)));
        if retransmissions {
            let _ = write!(stroke, "M{} {}H{}", px(x - 4.0), px(low), px(x + 4.0));
        }
        if stroke != last {
            commands.push_str(&stroke);
            last = stroke;
        }
    }
    commands
}

/// Which limit held, as a band under the axis.
fn band(canvas: &mut Canvas, excerpt: &Excerpt<'_>, x: &Axis) {
    for (from, to, name) in &excerpt.series.limits {
        let (from, to) = (from.max(excerpt.from_s), to.min(excerpt.to_s));
        if to <= from {
            continue;
        }
        let (left, right) = (x.at(from - excerpt.from_s), x.at(to - excerpt.from_s));
        let title = format!("{name}: {} ({})", seconds(to - from), meaning(*name));
        canvas.rectangle(
            limit_class(*name),
            (left, BAND.0),
            ((right - left).max(0.5), BAND.1),
            &title,
        );
        if right - left > text_width(name.as_str()) + 6.0 {
            let class = super::budget::label_class(*name);
            let middle = f64::midpoint(left, right);
            canvas.text(
                class,
                (middle, BAND.0 + 11.0),
                Anchor::Middle,
                name.as_str(),
            );
        }
    }
}

fn legend(canvas: &mut Canvas, entries: &[(&str, &str)]) {
    let mut x = LEFT;
    for (class, label) in entries.iter().filter(|(_, label)| !label.is_empty()) {
        canvas.line(class, (x, 20.0), (x + 18.0, 20.0));
        canvas.text("", (x + 23.0, 24.0), Anchor::Start, label);
        x += 36.0 + text_width(label);
    }
}

/// A stepped line with the ground below it.
fn closed(line: &str, right: f64) -> Option<String> {
    let start = line.strip_prefix('M')?;
    let left = start.split(' ').next()?;
    Some(format!("{line}H{}V{}H{left}Z", px(right), px(BOTTOM)))
}

/// Points inside an excerpt, with the value that held before it began and still holds when it ends.
fn lasting(points: &[(f64, u64)], excerpt: &Excerpt<'_>) -> Vec<(f64, u64)> {
    let before = points.iter().rev().find(|(t, _)| *t < excerpt.from_s);
    let mut kept: Vec<(f64, u64)> = before
        .map(|(_, value)| (excerpt.from_s, *value))
        .into_iter()
        .collect();
    let inside = points
        .iter()
        .filter(|(t, _)| (excerpt.from_s..=excerpt.to_s).contains(t));
    kept.extend(inside.copied());
    if let Some((_, value)) = kept.last().copied() {
        kept.push((excerpt.to_s, value));
    }
    kept
}

fn last_byte(excerpt: &Excerpt<'_>) -> u64 {
    let points = excerpt.series.data.iter();
    let last = points
        .filter(|point| excerpt.holds(point.t))
        .map(|point| point.to)
        .max();
    last.unwrap_or_default().saturating_sub(excerpt.base())
}

fn largest_flight(excerpt: &Excerpt<'_>) -> u64 {
    let points = excerpt.series.in_flight.iter();
    points
        .filter(|(t, _)| excerpt.holds(*t))
        .map(|(_, value)| *value)
        .max()
        .unwrap_or_default()
}

fn largest_window(excerpt: &Excerpt<'_>) -> u64 {
    let points = lasting(&excerpt.series.receive_window, excerpt);
    points
        .into_iter()
        .map(|(_, value)| value)
        .max()
        .unwrap_or_default()
}

fn retransmissions(excerpt: &Excerpt<'_>) -> usize {
    let points = excerpt.series.data.iter();
    points
        .filter(|point| point.retransmission && excerpt.holds(point.t))
        .count()
}
