//! One workload under one combination of factors.

use record::lab::{Arm, Cell, PredictedArm};

use crate::excerpt::{Excerpt, Explained};
use crate::headline::{self, Contrast};
use crate::html::page::Page;
use crate::measure::Measured;
use crate::quantity::{DASH, bytes, percent, ratio, seconds, seconds_or_dash};
use crate::sentence;
use crate::svg::{self, Row, Scale, Sheet};

/// Where a cell stands on its page.
#[derive(Clone, Copy, Debug)]
pub(super) struct Place {
    /// From 1.
    pub(super) number: usize,
    /// Whether it is folded under its title.
    pub(super) folded: bool,
    /// Points of each line over time.
    pub(super) most_points: usize,
}

pub(super) fn section(page: &mut Page, cell: &Cell, place: &Place, explained: &[Explained<'_>]) {
    page.element("<section id=\"cell-", &place.number.to_string(), "\">\n");
    if place.folded {
        page.markup("<details class=\"cell\"><summary><h2>");
        title(page, cell);
        page.markup("</h2>");
        page.element(
            "<span class=\"quiet\"> ",
            &summary(cell),
            "</span></summary>\n",
        );
    } else {
        page.markup("<h2>");
        title(page, cell);
        page.markup("</h2>\n");
    }
    measured(page, cell, place.number == 1);
    comparisons(page, cell);
    transport(page, cell);
    seconds_by_limit(page, cell);
    over_time(page, cell, place.most_points);
    packets(page, cell, explained);
    if place.folded {
        page.markup("</details>\n");
    }
    page.markup("</section>\n");
}

fn title(page: &mut Page, cell: &Cell) {
    page.text(&sentence::cell_title(cell));
}

/// A folded cell's medians in one line.
fn summary(cell: &Cell) -> String {
    let measured = Measured::of(cell);
    let arms = cell.arms.iter().map(|arm| {
        let median = measured.median(arm);
        let median = median.map_or_else(|| DASH.into(), |median| measured.shown(median));
        format!("{} {median}", arm.name)
    });
    let mut summary = arms.collect::<Vec<_>>().join(", ");
    if !cell.valid {
        summary.push_str("; not valid");
    }
    summary
}

/// Every transfer, the distribution and the figures.
fn measured(page: &mut Page, cell: &Cell, is_first: bool) {
    if !is_first && let Some(contrast) = Contrast::of(cell) {
        let sentence = headline::sentence(&contrast);
        page.element(
            "<p><strong>",
            &sentence.unwrap_or_default(),
            "</strong></p>\n",
        );
    }
    if !cell.valid {
        let why = cell.why.as_deref().unwrap_or("no reason is recorded");
        page.element(
            "<p class=\"warning\">This cell is not valid: ",
            why,
            "</p>\n",
        );
    }
    let measured = Measured::of(cell);
    let (every, share) = if measured.is_rate() {
        (
            "The rate of every transfer, payload alone. No design can come right of the ceiling.",
            "Share of transfers that were at most as fast.",
        )
    } else {
        (
            "Every transfer as it was timed by the client. No design can come left of the floor.",
            "Share of transfers that had ended after a time.",
        )
    };
    page.figure(&svg::strips(cell, Sheet::Page), every);
    page.markup("<div class=\"pair\">\n");
    page.figure(&svg::completion(cell, Sheet::Page), share);
    page.markup("<dl>\n");
    if let Some(bound) = sentence::bound(cell) {
        let open = if measured.is_rate() {
            "<dt>ceiling</dt><dd>"
        } else {
            "<dt>floor</dt><dd>"
        };
        page.element(open, &bound, "</dd>\n");
    }
    page.element("<dt>path</dt><dd>", &sentence::path(&cell.path), "</dd>\n");
    for prediction in &cell.predictions {
        page.element("<dt>predicted</dt><dd>", &predicted(prediction), "</dd>\n");
    }
    for arm in &cell.arms {
        if let Some(first) = arm.first_unprimed_s {
            let said = format!(
                "{} for the first transfer through {}",
                seconds(first),
                arm.name
            );
            page.element("<dt>pool not primed</dt><dd>", &said, "</dd>\n");
        }
        if let Some(invalid) = sentence::invalid_blocks(arm) {
            page.element("<dt>repeated</dt><dd>", &invalid, "</dd>\n");
        }
    }
    page.markup("</dl>\n</div>\n");
    table(page, cell);
}

fn predicted(prediction: &PredictedArm) -> String {
    let error = prediction.error.map_or_else(String::new, |error| {
        format!(" (error {} %)", sentence::signed_percent(error))
    });
    format!(
        "{} for {}, before it ran; measured {}{error}. {}",
        seconds(prediction.predicted_s),
        prediction.arm,
        seconds_or_dash(prediction.measured_s),
        prediction.derivation
    )
}

fn table(page: &mut Page, cell: &Cell) {
    if Measured::of(cell).is_rate() {
        table_of_rates(page, cell);
    } else {
        table_of_times(page, cell);
    }
}

fn name_with_failures(arm: &Arm) -> String {
    if arm.failed == 0 {
        arm.name.clone()
    } else {
        format!("{} ({} failed)", arm.name, arm.failed)
    }
}

fn table_of_times(page: &mut Page, cell: &Cell) {
    let unit = sentence::time_unit(cell);
    let rows: Vec<Vec<String>> = cell
        .arms
        .iter()
        .map(|arm| {
            vec![
                name_with_failures(arm),
                arm.n.to_string(),
                unit.number_or_dash(arm.median_s),
                unit.number_or_dash(arm.p05_s),
                unit.number_or_dash(arm.p95_s),
                unit.interval(arm.ci95_s),
                arm.share_of_floor.map_or_else(|| DASH.into(), percent),
                unit.reported(&arm.by_position_s),
                unit.reported(&arm.reported_s),
            ]
        })
        .collect();
    let first = format!("times in {}", unit.symbol());
    let heads = [
        first.as_str(),
        "n",
        "median",
        "p05",
        "p95",
        "95 % of median",
        "of floor",
        "by place in block",
        "field report",
    ];
    page.markup("<div class=\"short\">");
    page.table(&heads, &rows, &[0, 7, 8]);
    page.markup("</div>\n");
}

fn table_of_rates(page: &mut Page, cell: &Cell) {
    let unit = sentence::rate_unit(cell);
    let rows: Vec<Vec<String>> = cell
        .arms
        .iter()
        .map(|arm| {
            let reported: Vec<String> = arm
                .reported_bps
                .iter()
                .map(|rate| unit.number(*rate))
                .collect();
            vec![
                name_with_failures(arm),
                arm.n.to_string(),
                unit.number_or_dash(arm.goodput_bps),
                unit.interval(arm.goodput_ci95_bps),
                unit.number_or_dash(arm.steady_bps),
                arm.share_of_floor.map_or_else(|| DASH.into(), percent),
                if reported.is_empty() {
                    DASH.into()
                } else {
                    reported.join(" ")
                },
            ]
        })
        .collect();
    let first = format!("goodput in {}", unit.symbol());
    let heads = [
        first.as_str(),
        "n",
        "median",
        "95 % of median",
        "last half",
        "of ceiling",
        "field report",
    ];
    page.markup("<div class=\"short\">");
    page.table(&heads, &rows, &[0, 6]);
    page.markup("</div>\n");
}

/// Every other arm against the first.
fn comparisons(page: &mut Page, cell: &Cell) {
    let Some(first) = cell.comparisons.first() else {
        return;
    };
    let unit = sentence::time_unit(cell);
    let rows: Vec<Vec<String>> = cell
        .comparisons
        .iter()
        .map(|comparison| {
            let interval = comparison.ratio_ci95;
            let interval = interval.map(|(low, high)| format!("{} to {}", ratio(low), ratio(high)));
            vec![
                comparison.arm.clone(),
                comparison.ratio.map_or_else(|| DASH.into(), ratio),
                interval.unwrap_or_else(|| DASH.into()),
                sentence::difference(comparison, unit),
                sentence::difference_interval(comparison, unit),
                comparison.p.map_or_else(|| DASH.into(), sentence::p_value),
                sentence::effect(comparison.effect),
            ]
        })
        .collect();
    let against = format!("against {}", first.against);
    let heads = [
        against.as_str(),
        "ratio",
        "95 % of ratio",
        "difference",
        "95 % of difference",
        "p",
        "Cliff's delta",
    ];
    page.markup("<div class=\"short\">");
    page.table(&heads, &rows, &[0]);
    page.markup("</div>\n");
    let tests = sentence::tests(&cell.comparisons);
    page.element("<p class=\"quiet\">", &tests, "</p>\n");
}

/// What TCP did, and what became of rivals.
fn transport(page: &mut Page, cell: &Cell) {
    let tables = [sentence::transport(cell), sentence::rivals(cell)];
    for table in tables.into_iter().flatten() {
        let heads: Vec<&str> = table.heads.iter().map(String::as_str).collect();
        page.markup("<div class=\"short\">");
        page.table(&heads, &table.rows, &[0]);
        page.markup("</div>\n");
    }
}

/// The median transfer's inside, all arms on one axis of time.
fn over_time(page: &mut Page, cell: &Cell, most_points: usize) {
    let Some(picture) = svg::time_series(cell, most_points, Sheet::Page) else {
        return;
    };
    page.markup("<h3>One transfer over time</h3>\n");
    page.figure(
        &picture,
        "The transfer of each arm that took the median time, as its sender saw it. Strokes on the ground \
         mark segments sent again.",
    );
}

fn seconds_by_limit(page: &mut Page, cell: &Cell) {
    let rows: Vec<Row<'_>> = cell
        .arms
        .iter()
        .filter(|arm| arm.limits.values().any(|time| *time > 0.0))
        .map(|arm| Row {
            name: &arm.name,
            limits: &arm.limits,
        })
        .collect();
    if rows.is_empty() {
        return;
    }
    page.markup("<h3>Where each second went</h3>\n");
    page.figure(
        &svg::budgets(&rows, Sheet::Page),
        "Mean seconds per transfer by what held it back, from the captures.",
    );
    for arm in cell.arms.iter().filter(|arm| arm.legs.len() > 1) {
        hops(page, arm);
    }
}

/// The hops of a route with relays, each as its own sender saw it.
fn hops(page: &mut Page, arm: &Arm) {
    let names: Vec<String> = arm
        .legs
        .iter()
        .map(|leg| format!("{} to {}", leg.from, leg.to))
        .collect();
    let rows: Vec<Row<'_>> = names
        .iter()
        .zip(&arm.legs)
        .map(|(name, leg)| Row {
            name,
            limits: &leg.limits,
        })
        .collect();
    let across = arm.legs.iter().zip(&names).find(|(leg, _)| leg.crosses_wan);
    let wan = across.map_or_else(String::new, |(_, name)| {
        format!(
            " The long path is {name}; where another hop shows application, it waits for that one."
        )
    });
    let caption = format!("{}, hop by hop, each as its sender saw it.{wan}", arm.name);
    page.figure(&svg::budgets(&rows, Sheet::Page), &caption);
}

/// The median transfer of two arms side by side, on the same scales.
fn packets(page: &mut Page, cell: &Cell, explained: &[Explained<'_>]) {
    let drawn: Vec<(&str, Excerpt<'_>)> = explained
        .iter()
        .filter_map(|one| Some((one.arm, Excerpt::of_workload(one.document, cell)?)))
        .collect();
    if drawn.is_empty() {
        return;
    }
    let contrast = Contrast::of(cell);
    let ends: Vec<&str> = contrast.map_or_else(Vec::new, |contrast| {
        vec![contrast.before.name.as_str(), contrast.after.name.as_str()]
    });
    let mut shown: Vec<&(&str, Excerpt<'_>)> = ends
        .iter()
        .filter_map(|name| drawn.iter().find(|(arm, _)| arm == name))
        .collect();
    if shown.is_empty() {
        shown = drawn.iter().take(2).collect();
    }
    let excerpts: Vec<&Excerpt<'_>> = shown.iter().map(|(_, excerpt)| excerpt).collect();
    let scale = Scale::of(&excerpts);
    page.markup("<h3>One transfer, packet by packet</h3>\n<div class=\"pair\">\n");
    for (arm, excerpt) in &shown {
        page.markup("<div>");
        let title = format!("{arm}: {}", seconds(excerpt.duration_s()));
        page.element("<h3>", &title, "</h3>\n");
        page.figure(
            &svg::sequence(excerpt, &scale, Sheet::Page),
            "Sequence graph: each stroke is a segment, the line right of it its acknowledgment.",
        );
        let flight = format!("Bytes in flight of {}.", asked(excerpt));
        page.figure(&svg::in_flight(excerpt, &scale, Sheet::Page), &flight);
        page.markup("</div>\n");
    }
    page.markup("</div>\n");
}

/// The request that an excerpt shows, for its caption.
fn asked(excerpt: &Excerpt<'_>) -> String {
    let connection = excerpt.connection;
    let request = excerpt.transfer.map_or_else(String::new, |transfer| {
        format!("{} ({}), ", transfer.request, bytes(transfer.request_bytes))
    });
    format!(
        "{request}connection {} to {}:{}",
        connection.id, connection.server.host, connection.server.port
    )
}
