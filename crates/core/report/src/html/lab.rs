//! The page of a lab run.

use record::lab::{Cell, Document, PredictedArm};

use super::page::Page;
use crate::excerpt::{Excerpt, Explained};
use crate::headline::{self, Contrast};
use crate::quantity::{DASH, bytes, percent, seconds, seconds_or_dash};
use crate::sentence;
use crate::svg::{self, Row, Scale, Sheet};

/// A lab run as one self-contained page.
///
/// `explained` holds what `explain` said about the captures of arms, in the order in which their
/// findings should stand; graphs are drawn for those that carry series.
pub fn lab(document: &Document, explained: &[Explained<'_>]) -> String {
    let mut page = Page::default();
    header(&mut page, document);
    for (index, cell) in document.cells.iter().enumerate() {
        page.markup("<section>\n");
        measured(&mut page, cell, index == 0);
        seconds_by_limit(&mut page, cell);
        packets(&mut page, cell, explained);
        page.markup("</section>\n");
    }
    findings(&mut page, explained);
    conduct(&mut page, document);
    let caveats: Vec<String> = explained
        .iter()
        .flat_map(|one| {
            let said = sentence::caveats(one.document).into_iter();
            said.map(|caveat| format!("{}: {caveat}", one.arm))
        })
        .collect();
    page.list("<h2>What the captures cannot tell</h2>\n", &caveats);
    page.manifest(&document.manifest);
    page.finish(&format!("{} - Longhaul lab", document.scenario))
}

fn header(page: &mut Page, document: &Document) {
    page.markup("<header>\n<p class=\"facts\">");
    page.element(
        "<span>Longhaul lab: <code>",
        &document.scenario,
        "</code></span>",
    );
    page.element("<span>seed ", &document.seed.to_string(), "</span>");
    if let Some(started) = &document.manifest.started_at {
        page.element("<span>", started, "</span>");
    }
    if let Some(kernel) = &document.manifest.kernel {
        page.element("<span>Linux ", kernel, "</span>");
    }
    page.markup("</p>\n");
    let sentence = headline::of(document);
    let sentence = sentence.unwrap_or_else(|| "No two arms were measured.".into());
    page.element("<h1>", &sentence, "</h1>\n");
    if document.interrupted {
        page.markup(
            "<p class=\"warning\">The run was interrupted: what stands here was measured, the rest \
             is missing.</p>\n",
        );
    }
    page.markup("</header>\n");
}

/// Every transfer, the distribution and the figures.
fn measured(page: &mut Page, cell: &Cell, is_first: bool) {
    page.markup("<h2>").text(&cell.workload);
    for (factor, value) in &cell.factors {
        page.markup(", ").text(factor).markup(" ").text(value);
    }
    page.markup("</h2>\n");
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
    page.figure(
        &svg::strips(cell, Sheet::Page),
        "Every transfer as it was timed by the client. No design can come left of the floor.",
    );
    page.markup("<div class=\"pair\">\n");
    page.figure(
        &svg::completion(cell, Sheet::Page),
        "Share of transfers that had ended after a time.",
    );
    page.markup("<dl>\n");
    let floor = format!(
        "{} = {}",
        seconds(cell.floor_s),
        sentence::without_total(&cell.floor_derivation)
    );
    page.element("<dt>floor</dt><dd>", &floor, "</dd>\n");
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
    let unit = sentence::time_unit(cell);
    let rows: Vec<Vec<String>> = cell
        .arms
        .iter()
        .map(|arm| {
            let failed = if arm.failed == 0 {
                String::new()
            } else {
                format!(" ({} failed)", arm.failed)
            };
            vec![
                format!("{}{failed}", arm.name),
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

fn findings(page: &mut Page, explained: &[Explained<'_>]) {
    if explained.iter().all(|one| one.document.findings.is_empty()) {
        return;
    }
    page.markup("<section>\n<h2>Why, and what to do</h2>\n");
    for one in explained {
        if one.document.findings.is_empty() {
            continue;
        }
        page.element("<h3>In the capture of ", one.arm, "</h3>\n");
        for finding in &one.document.findings {
            page.finding(finding);
        }
    }
    page.markup("</section>\n");
}

/// How the run went: priming, assertions, the order of blocks.
fn conduct(page: &mut Page, document: &Document) {
    if document.priming.is_empty() && document.assertions.is_empty() && document.order.is_empty() {
        return;
    }
    page.markup("<section>\n<h2>How it was run</h2>\n");
    for cost in &document.priming {
        let said = format!("{}: {}.", cost.arm, sentence::priming(cost));
        page.element("<p>Priming of ", &said, "</p>\n");
    }
    if !document.assertions.is_empty() {
        page.markup("<ul>\n");
        for assertion in &document.assertions {
            let open = if assertion.holds {
                "<li class=\"holds\">holds: <code>"
            } else {
                "<li class=\"fails\">fails: <code>"
            };
            page.element(open, &assertion.text, "</code> ");
            page.element(
                "<span class=\"quiet\">",
                &assertion.detail,
                "</span></li>\n",
            );
        }
        page.markup("</ul>\n");
    }
    if !document.order.is_empty() {
        let blocks = document.order.len().to_string();
        page.element(
            "<details><summary>Order of the ",
            &blocks,
            " blocks</summary>\n",
        );
        page.element(
            "<p class=\"quiet\">",
            &document.order.join(", "),
            "</p></details>\n",
        );
    }
    page.markup("</section>\n");
}
