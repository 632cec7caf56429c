//! Where each second went: one bar per arm, parts by limit.

use record::{LimitName, LimitSeconds};

use super::axis::{Axis, Unit, fitted, text_width};
use super::canvas::{Anchor, Canvas};
use super::distribution::{LONGEST_NAME, names_width};
use super::style::{Sheet, limit_class};
use crate::limits::{in_order, meaning};
use crate::quantity::{float, percent, seconds};

const WIDTH: f64 = 920.0;
const RIGHT: f64 = 840.0;
const LEGEND_COLUMN: f64 = 400.0;
const ROW: f64 = 44.0;
const TOP: f64 = 8.0;

/// One bar.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Row<'a> {
    pub(crate) name: &'a str,
    pub(crate) limits: &'a LimitSeconds,
}

/// Bars on one scale of seconds, with a legend of the limits that occur.
pub(crate) fn budgets(rows: &[Row<'_>], sheet: Sheet) -> String {
    let longest = rows
        .iter()
        .map(|row| row.limits.values().sum::<f64>())
        .filter(|value| value.is_finite())
        .fold(0.0, f64::max);
    let left = names_width(rows.iter().map(|row| row.name));
    let count = |length: usize| float(u64::try_from(length).unwrap_or_default());
    let bottom = TOP + ROW * count(rows.len());
    let names: Vec<LimitName> = LimitName::ALL
        .into_iter()
        .filter(|name| {
            rows.iter()
                .any(|row| row.limits.get(name).is_some_and(|time| *time > 0.0))
        })
        .collect();
    let legend_top = bottom + 40.0;
    let mut canvas = Canvas::new(WIDTH, legend_top + 20.0 * (count(names.len()) / 2.0).ceil());
    let x = Axis {
        from: 0.0,
        to: longest,
        start: left,
        end: RIGHT,
        unit: Unit::Seconds,
    };
    x.draw_below(&mut canvas, TOP, bottom, bottom + 17.0);
    for (index, row) in rows.iter().enumerate() {
        bar(&mut canvas, row, &x, TOP + ROW * count(index) + 6.0);
    }
    for (index, name) in names.iter().enumerate() {
        let at = (
            left + LEGEND_COLUMN * count(index % 2),
            legend_top + 20.0 * count(index / 2),
        );
        canvas.rectangle(limit_class(*name), (at.0, at.1 - 10.0), (12.0, 12.0), "");
        let entry = format!("{name}: {}", meaning(*name));
        canvas.text("lh-quiet", (at.0 + 18.0, at.1), Anchor::Start, &entry);
    }
    let description: Vec<String> = rows.iter().map(sentence).collect();
    canvas.finish(
        sheet,
        "Where each second went, by limit",
        &description.join(" "),
    )
}

fn bar(canvas: &mut Canvas, row: &Row<'_>, x: &Axis, top: f64) {
    let height = ROW - 14.0;
    let baseline = top + height / 2.0 + 4.0;
    let name = fitted(row.name, LONGEST_NAME / 1.1);
    canvas.text("lh-strong", (x.start - 12.0, baseline), Anchor::End, &name);
    let mut from = 0.0;
    for part in in_order(row.limits) {
        let (left, right) = (x.at(from), x.at(from + part.seconds));
        let title = format!(
            "{}: {} ({}) {}",
            part.name,
            seconds(part.seconds),
            percent(part.share),
            meaning(part.name)
        );
        let class = format!("lh-part {}", limit_class(part.name));
        canvas.rectangle(&class, (left, top), (right - left, height), &title);
        let label = format!("{} {}", part.name, seconds(part.seconds));
        let short = part.name.to_string();
        let room = |text: &str| right - left > text_width(text) + 10.0;
        let middle = (f64::midpoint(left, right), baseline);
        if room(&label) {
            canvas.text(label_class(part.name), middle, Anchor::Middle, &label);
        } else if room(&short) {
            canvas.text(label_class(part.name), middle, Anchor::Middle, &short);
        }
        from += part.seconds;
    }
    canvas.text(
        "lh-strong",
        (x.at(from) + 8.0, baseline),
        Anchor::Start,
        &seconds(from),
    );
}

/// Text that can be read on a limit's colour.
pub(super) const fn label_class(name: LimitName) -> &'static str {
    match name {
        LimitName::Propagation
        | LimitName::Application
        | LimitName::Closing
        | LimitName::Unknown => "lh-on-light",
        LimitName::Handshake
        | LimitName::TlsHandshake
        | LimitName::LossRecovery
        | LimitName::ReceiveWindow
        | LimitName::Policer
        | LimitName::Bottleneck
        | LimitName::SlowStart
        | LimitName::LossLimited
        | LimitName::CongestionAvoidance
        | LimitName::SendBuffer
        | LimitName::NagleDelayedAck => "lh-on-dark",
    }
}

fn sentence(row: &Row<'_>) -> String {
    let parts: Vec<String> = in_order(row.limits)
        .iter()
        .map(|part| format!("{} {}", part.name, seconds(part.seconds)))
        .collect();
    format!("{}: {}.", row.name, parts.join(", "))
}
