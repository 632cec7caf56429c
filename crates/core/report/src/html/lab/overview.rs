//! All cells at a glance: their table, and throughput along the factors of a sweep.

use std::collections::BTreeSet;

use record::lab::{Cell, Document};

use crate::html::page::Page;
use crate::measure::Measured;
use crate::quantity::{self, DASH};
use crate::svg::{self, Sheet};
use crate::sweep;

/// Pictures of a sweep on one page; the table has all of it.
const MOST_SLICES: usize = 24;

/// One row per cell, with a way to it.
pub(super) fn cells(page: &mut Page, document: &Document) {
    if document.cells.len() < 2 {
        return;
    }
    let factors: BTreeSet<&str> = document
        .cells
        .iter()
        .flat_map(|cell| cell.factors.keys().map(String::as_str))
        .collect();
    let mut arms: Vec<&str> = Vec::new();
    for arm in document.cells.iter().flat_map(|cell| &cell.arms) {
        if !arms.contains(&arm.name.as_str()) {
            arms.push(&arm.name);
        }
    }
    page.markup(
        "<section>\n<h2>All cells</h2>\n<div class=\"short\"><div class=\"scroll\"><table>\n",
    );
    page.markup("<thead><tr><th scope=\"col\">workload</th>");
    for factor in &factors {
        page.element("<th scope=\"col\">", sweep::short(factor), "</th>");
    }
    for arm in &arms {
        page.element("<th scope=\"col\" class=\"number\">", arm, "</th>");
    }
    page.markup("<th scope=\"col\">counts</th></tr></thead>\n<tbody>\n");
    for (index, cell) in document.cells.iter().enumerate() {
        let number = (index + 1).to_string();
        page.element("<tr><td><a href=\"#cell-", &number, "\">");
        page.element("", &cell.workload, "</a></td>");
        for factor in &factors {
            let value = cell.factors.get(*factor).map_or(DASH, String::as_str);
            page.element("<td>", value, "</td>");
        }
        for arm in &arms {
            page.element("<td class=\"number\">", &median(cell, arm), "</td>");
        }
        let counts = if cell.valid { "yes" } else { "no" };
        page.element("<td>", counts, "</td></tr>\n");
    }
    page.markup(
        "</tbody></table></div></div>\n<p class=\"quiet\">Medians, and in brackets their ratio to \
                 the first arm's.</p>\n</section>\n",
    );
}

fn median(cell: &Cell, name: &str) -> String {
    let measured = Measured::of(cell);
    let Some(arm) = cell.arms.iter().find(|arm| arm.name == name) else {
        return DASH.into();
    };
    let Some(median) = measured.median(arm) else {
        return DASH.into();
    };
    let ratio = cell.comparisons.iter().find(|one| one.arm == name);
    let ratio = ratio.and_then(|comparison| comparison.ratio);
    let ratio = ratio.map_or_else(String::new, |ratio| {
        format!(" ({})", quantity::ratio(ratio))
    });
    format!("{}{ratio}", measured.shown(median))
}

/// Goodput along every factor that is a number.
pub(super) fn sweep(page: &mut Page, document: &Document) {
    let slices = sweep::slices(document);
    if slices.is_empty() {
        return;
    }
    page.markup(
        "<section>\n<h2>Throughput by factor</h2>\n<p class=\"quiet\">Median goodput with its 95 % \
         interval. Values of a factor stand in their order, not to scale; the dotted line is what \
         the path's rate allows.</p>\n<div class=\"pair\">\n",
    );
    for slice in slices.iter().take(MOST_SLICES) {
        page.figure(&svg::along(slice, Sheet::Page), "");
    }
    page.markup("</div>\n");
    if let Some(more) = slices
        .len()
        .checked_sub(MOST_SLICES)
        .filter(|more| *more > 0)
    {
        let said = format!("{more} further combinations are in the table.");
        page.element("<p class=\"quiet\">", &said, "</p>\n");
    }
    page.markup("</section>\n");
}
