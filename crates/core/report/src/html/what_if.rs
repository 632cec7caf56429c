//! The page of remedies tried one at a time.

use record::what_if::{Cell, Document, Verdict};

use super::page::Page;
use crate::limits;
use crate::what_if::{self, Columns};

/// What each remedy alone would bring, as one self-contained page.
pub fn what_if(document: &Document) -> String {
    let mut page = Page::default();
    page.markup("<header>\n<p class=\"facts\">");
    page.element(
        "<span>Longhaul, what if: <code>",
        &document.scenario,
        "</code></span>",
    );
    page.element("<span>seed ", &document.seed.to_string(), "</span>");
    page.element("<span>from arm <code>", &document.arm, "</code></span>");
    page.markup("</p>\n<h1>What each remedy alone would bring</h1>\n</header>\n");
    for cell in &document.cells {
        section(&mut page, cell);
    }
    page.manifest(&document.manifest);
    page.finish(&format!("{} - Longhaul, what if", document.scenario))
}

fn section(page: &mut Page, cell: &Cell) {
    page.element("<section>\n<h2>", &what_if::title(cell), "</h2>\n");
    for (label, said) in what_if::facts(cell) {
        page.element("<p><strong>", label, "</strong> ");
        page.text(&said).markup("</p>\n");
    }
    let columns = Columns::of(cell);
    let mut heads = columns.heads();
    heads.extend(["verdict".to_owned(), "then held by".to_owned()]);
    heads[1] = format!("median, {}", columns.unit());
    let heads: Vec<&str> = heads.iter().map(String::as_str).collect();
    let rows: Vec<Vec<String>> = cell
        .remedies
        .iter()
        .map(|remedy| {
            let mut row = columns.row(remedy);
            row.push(verdict(remedy.verdict).to_owned());
            let held = limits::by_size(&remedy.outcome.limits);
            row.push(
                held.first()
                    .map_or_else(String::new, |part| part.name.to_string()),
            );
            row
        })
        .collect();
    if !rows.is_empty() {
        page.table(&heads, &rows, &[0, 4, 5]);
    }
    let places: Vec<String> = cell
        .remedies
        .iter()
        .filter_map(|remedy| columns.places(remedy))
        .collect();
    page.list(
        "<h3>Where one transfer differs from the next</h3>\n",
        &places,
    );
    page.list("<h3>Not tried</h3>\n", &what_if::not_tried(cell));
    page.markup("</section>\n");
}

const fn verdict(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Helps => "helps",
        Verdict::NoDifference => "no difference",
        Verdict::Harms => "costs",
        Verdict::Unknown => "failed",
    }
}
