//! TCP's state over a transfer, arm beside arm (or flow beside flow) on one axis of time.

use record::lab::{Cell, SeriesPoint};

use super::axis::{Axis, Unit};
use super::canvas::{Anchor, Canvas, polyline, px, steps};
use super::legend::Legend;
use super::style::{Sheet, arm_class};
use crate::quantity::{float, seconds};
use crate::statistics::sorted;

const WIDTH: f64 = 920.0;
const LEFT: f64 = 84.0;
const RIGHT: f64 = 900.0;
const PANEL: f64 = 112.0;
const GAP: f64 = 30.0;

/// What a panel shows of each point.
struct Quantity {
    name: &'static str,
    unit: Unit,
    value: fn(&SeriesPoint) -> Option<f64>,
    /// Whether a value holds until the next one, as a window does; otherwise points are joined.
    holds: bool,
}

const QUANTITIES: [Quantity; 5] = [
    Quantity {
        name: "goodput",
        unit: Unit::Rate,
        value: |point| point.goodput_bps,
        holds: false,
    },
    Quantity {
        name: "congestion window",
        unit: Unit::Bytes,
        value: |point| point.cwnd.map(float),
        holds: true,
    },
    Quantity {
        name: "RTT",
        unit: Unit::Seconds,
        value: |point| point.rtt_s,
        holds: false,
    },
    Quantity {
        name: "in flight",
        unit: Unit::Bytes,
        value: |point| point.in_flight.map(float),
        holds: false,
    },
    Quantity {
        name: "queue at the bottleneck",
        unit: Unit::Bytes,
        value: |point| point.queue.map(float),
        holds: false,
    },
];

/// What is drawn in one colour: a name, its place among its kind, and its points.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Track<'a> {
    pub(crate) index: usize,
    pub(crate) name: &'a str,
    pub(crate) points: &'a [SeriesPoint],
}

/// A panel for every quantity that an arm's series has, each with a line per arm of at most `most`
/// points. `None` where no arm has a series.
pub(crate) fn time_series(cell: &Cell, most: usize, sheet: Sheet) -> Option<String> {
    let arms: Vec<Track<'_>> = cell
        .arms
        .iter()
        .enumerate()
        .filter_map(|(index, arm)| {
            let points = arm.series.as_ref()?.points.as_slice();
            let name = arm.name.as_str();
            (!points.is_empty()).then_some(Track {
                index,
                name,
                points,
            })
        })
        .collect();
    let title = format!("One transfer of {} over time", cell.workload);
    tracks(
        &arms,
        &title,
        "The transfer that took the median time.",
        most,
        sheet,
    )
}

/// The same for any tracks; `lead` begins the description.
pub(crate) fn tracks(
    arms: &[Track<'_>],
    title: &str,
    lead: &str,
    most: usize,
    sheet: Sheet,
) -> Option<String> {
    let shown: Vec<&Quantity> = QUANTITIES
        .iter()
        .filter(|quantity| {
            let mut points = arms.iter().flat_map(|track| track.points);
            points.any(|point| (quantity.value)(point).is_some())
        })
        .collect();
    if shown.is_empty() {
        return None;
    }
    let names = arms.iter().map(|track| (track.index, track.name));
    let legend = Legend::of(names, LEFT, WIDTH);
    let top = legend.height + 30.0;
    let place = |panel: usize| top + (PANEL + GAP) * count(panel);
    let bottom = place(shown.len() - 1) + PANEL;
    let mut canvas = Canvas::new(WIDTH, bottom + 30.0);
    legend.draw(&mut canvas, 2.0);
    let last = arms
        .iter()
        .flat_map(|track| track.points.iter().map(|point| point.at_s));
    let x = Axis {
        from: 0.0,
        to: sorted(last).last().copied().unwrap_or_default(),
        start: LEFT,
        end: RIGHT,
        unit: Unit::Seconds,
    };
    for (number, quantity) in shown.iter().enumerate() {
        let top = place(number);
        let is_last = number + 1 == shown.len();
        let points = arms.iter().flat_map(|track| track.points);
        let values = points.filter_map(|point| (quantity.value)(point));
        let largest = sorted(values).last().copied().unwrap_or_default();
        let y = Axis {
            from: 0.0,
            to: largest * 1.06,
            start: top + PANEL,
            end: top,
            unit: quantity.unit,
        };
        frame(&mut canvas, quantity.name, &x, &y, is_last);
        canvas.panel(&x, &y, quantity.name, |canvas| {
            for track in arms {
                let class = format!("lh-series {}", arm_class(track.name, track.index));
                let line = line(track.points, quantity, &x, &y, most);
                canvas.path_of(&class, &line, track.name);
            }
        });
        if quantity.name == "goodput" {
            for track in arms {
                resent(&mut canvas, track, &x, y.start);
            }
        }
    }
    let description: Vec<String> = arms
        .iter()
        .map(|track| {
            let until = track.points.last().map_or(0.0, |point| point.at_s);
            let (name, count) = (track.name, track.points.len());
            format!("{name}: {count} points over {}.", seconds(until))
        })
        .collect();
    let description = format!("{lead} {}", description.join(" "));
    Some(canvas.finish(sheet, title, &description))
}

fn frame(canvas: &mut Canvas, name: &str, x: &Axis, y: &Axis, with_labels: bool) {
    canvas.text("lh-strong", (LEFT, y.end - 8.0), Anchor::Start, name);
    y.draw_left_with(canvas, LEFT, RIGHT, 3);
    if with_labels {
        x.draw_below(canvas, y.end, y.start, y.start + 18.0);
    } else {
        for (value, _) in x.ticks(6) {
            canvas.line("lh-grid", (x.at(value), y.end), (x.at(value), y.start));
        }
        canvas.line("lh-axis", (x.start, y.start), (x.end, y.start));
    }
}

/// A quantity as a line of at most `most` points; where it is not known the line holds.
fn line(points: &[SeriesPoint], quantity: &Quantity, x: &Axis, y: &Axis, most: usize) -> String {
    let known = points
        .iter()
        .filter_map(|point| Some((point.at_s, (quantity.value)(point)?)));
    let known = known.filter(|(at, value)| at.is_finite() && value.is_finite());
    let kept = thinned(&known.collect::<Vec<_>>(), most);
    let placed = kept.into_iter().map(|(at, value)| (x.at(at), y.at(value)));
    if quantity.holds {
        steps(placed)
    } else {
        polyline(placed)
    }
}

/// At most about `most` points: of every stretch its lowest and its highest, in their order, so that no
/// peak and no stall is lost.
fn thinned(points: &[(f64, f64)], most: usize) -> Vec<(f64, f64)> {
    if points.len() <= most {
        return points.to_vec();
    }
    let stretch = (2 * points.len()).div_ceil(most.max(2));
    points
        .chunks(stretch)
        .flat_map(|chunk| {
            let by_value = |(one, other): (&(f64, f64), &(f64, f64))| one.1.total_cmp(&other.1);
            let low = chunk.iter().min_by(|one, other| by_value((one, other)));
            let high = chunk.iter().max_by(|one, other| by_value((one, other)));
            let mut ends: Vec<(f64, f64)> = low.into_iter().chain(high).copied().collect();
            ends.sort_by(|one, other| one.0.total_cmp(&other.0));
            ends.dedup();
            ends
        })
        .collect()
}

/// A stroke on the ground wherever segments were sent again since the point before.
fn resent(canvas: &mut Canvas, track: &Track<'_>, x: &Axis, ground: f64) {
    let mut before = 0;
    let mut strokes = String::new();
    let mut last = String::new();
    for point in track.points {
        let Some(resent) = point.retransmissions else {
            continue;
        };
        if resent > before {
            let stroke = format!("M{} {}v-7", px(x.at(point.at_s)), px(ground));
            if stroke != last {
                strokes.push_str(&stroke);
            }
            last = stroke;
        }
        before = resent;
    }
    let class = format!("lh-resent {}", arm_class(track.name, track.index));
    let title = format!("{}: segments sent again", track.name);
    canvas.path(&class, &strokes, &title);
}

fn count(length: usize) -> f64 {
    float(u64::try_from(length).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thinning_keeps_peaks_stalls_and_order() {
        let mut points: Vec<(f64, f64)> = (0..10_000).map(|n| (f64::from(n), 5.0)).collect();
        points[1_234].1 = 900.0;
        points[7_777].1 = 0.0;
        let kept = thinned(&points, 500);
        assert!(kept.len() <= 502, "{}", kept.len());
        assert!(kept.contains(&(1_234.0, 900.0)) && kept.contains(&(7_777.0, 0.0)));
        assert!(kept.windows(2).all(|pair| pair[0].0 < pair[1].0));
        assert_eq!(thinned(&points[..100], 500), points[..100]);
        assert!(thinned(&[], 0).is_empty());
    }
}
