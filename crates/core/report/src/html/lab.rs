//! The page of a lab run.

mod cell;
mod overview;

use record::lab::Document;

use super::page::Page;
use crate::excerpt::Explained;
use crate::headline;
use crate::{sentence, svg};

/// Cells that stand open one below another; of more, each is folded under its title.
const OPEN_CELLS: usize = 4;

/// A lab run as one self-contained page.
///
/// `explained` holds what `explain` said about the captures of arms, in the order in which their
/// findings should stand; graphs are drawn for those that carry series.
pub fn lab(document: &Document, explained: &[Explained<'_>]) -> String {
    let mut page = Page::default();
    header(&mut page, document);
    overview::cells(&mut page, document);
    overview::sweep(&mut page, document);
    let folded = document.cells.len() > OPEN_CELLS;
    // Captures are explained by arm; in a sweep nobody could say which of its cells they show.
    let swept = document.cells.iter().any(|cell| !cell.factors.is_empty());
    let explained_here = if swept { &[] } else { explained };
    for (index, cell) in document.cells.iter().enumerate() {
        let place = cell::Place {
            number: index + 1,
            folded,
            most_points: points_per_line(document),
        };
        cell::section(&mut page, cell, &place, explained_here);
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
    let title = format!("{} - Longhaul lab", document.scenario);
    page.finish_with(
        &title,
        concat!(include_str!("../svg/arms.css"), include_str!("lab/lab.css")),
        include_str!("lab/lab.js"),
    )
}

/// Points of a line in a series, so that a page of a hundred cells still opens.
fn points_per_line(document: &Document) -> usize {
    /// About 15 bytes each: 3 MB of lines.
    const ON_PAGE: usize = 200_000;
    let arms = document.cells.iter().flat_map(|cell| &cell.arms);
    let series = arms.filter(|arm| arm.series.is_some()).count();
    // Five quantities each.
    (ON_PAGE / (5 * series.max(1))).clamp(60, svg::MOST_POINTS)
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
    if let Some(conduct) = &document.conduct {
        page.element("<p>", &sentence::conduct(conduct), "</p>\n");
    }
    if let Some(why) = &document.broken {
        page.element(
            "<p class=\"warning\">The run was broken off: ",
            why,
            "</p>\n",
        );
    }
    if document.interrupted {
        page.markup(
            "<p class=\"warning\">The run was interrupted: what stands here was measured, the rest \
             is missing.</p>\n",
        );
    }
    page.markup("</header>\n");
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
