//! The page of a run of flows.

use record::flow::{Direction, Document, Flow, Sample};
use record::lab::SeriesPoint;

use super::page::Page;
use crate::quantity::{bytes, float, rate, ratio, seconds, seconds_or_dash};
use crate::svg::{self, MOST_POINTS, Row, Sheet, Track};

/// More lines than this cannot be told apart.
const MOST_TRACKS: usize = 20;

/// Flows over time and as a table, as one self-contained page.
pub fn flow(document: &Document) -> String {
    let mut page = Page::default();
    page.markup("<header>\n<p class=\"facts\">");
    page.element("<span>Longhaul flow: ", &document.workload, "</span>");
    page.element("<span>to <code>", &document.server, "</code></span>");
    page.element("<span>", &format!("{} TCP", document.stack), "</span>");
    page.element("<span>seed ", &document.seed.to_string(), "</span>");
    page.markup("</p>\n");
    page.element("<h1>", &headline(document), "</h1>\n</header>\n");
    over_time(&mut page, &document.flows);
    page.markup("<section>\n<h2>Flows</h2>\n");
    table(&mut page, &document.flows);
    page.markup("</section>\n");
    exchanges(&mut page, &document.flows);
    budgets(&mut page, &document.flows);
    page.manifest(&document.manifest);
    page.finish(&format!("{} - Longhaul flow", document.workload))
}

fn headline(document: &Document) -> String {
    let totals = &document.totals;
    let mut parts = vec![format!(
        "{} in {}",
        bytes(totals.bytes),
        seconds(totals.seconds)
    )];
    parts.extend(totals.goodput_bps.map(rate));
    if document.flows.len() > 1 {
        parts.push(format!("{} flows", document.flows.len()));
    }
    let fairness = totals.jain.map(|jain| format!("fairness {}", ratio(jain)));
    parts.extend(fairness);
    if totals.failed > 0 {
        parts.push(format!("{} failed", totals.failed));
    }
    if !totals.data_ok {
        parts.push("bytes came that were not sent".to_owned());
    }
    if document.interrupted {
        parts.push("interrupted".to_owned());
    }
    parts.join(", ")
}

fn over_time(page: &mut Page, flows: &[Flow]) {
    let series: Vec<(String, Vec<SeriesPoint>)> = flows
        .iter()
        .map(|flow| (format!("flow {}", flow.index), points(flow)))
        .collect();
    let tracks: Vec<Track<'_>> = series
        .iter()
        .enumerate()
        .filter(|(_, (_, points))| !points.is_empty())
        .take(MOST_TRACKS)
        .map(|(index, (name, points))| Track {
            index,
            name,
            points,
        })
        .collect();
    let lead = "What the sender's TCP said at every interval, since the run began.";
    let Some(picture) = svg::tracks(&tracks, "Flows over time", lead, MOST_POINTS, Sheet::Page)
    else {
        return;
    };
    page.markup("<section>\n<h2>Over time</h2>\n");
    page.figure(
        &picture,
        "Goodput is what the receiver acknowledged in each interval. A stroke on the ground marks \
         segments sent again.",
    );
    if tracks.len() < flows.len() {
        let drawn = format!("Drawn: {} of {} flows.", tracks.len(), flows.len());
        page.element("<p>", &drawn, "</p>\n");
    }
    page.markup("</section>\n");
}

/// A flow's samples on the clock of the run.
fn points(flow: &Flow) -> Vec<SeriesPoint> {
    let before = std::iter::once(None).chain(flow.samples.iter().map(Some));
    flow.samples
        .iter()
        .zip(before)
        .map(|(sample, before)| SeriesPoint {
            at_s: flow.started_s + sample.at_s,
            goodput_bps: before.and_then(|before| goodput(before, sample)),
            cwnd: Some(sample.cwnd),
            rtt_s: (sample.rtt_s > 0.0).then_some(sample.rtt_s),
            in_flight: Some(sample.in_flight),
            queue: None,
            retransmissions: Some(sample.retransmits),
        })
        .collect()
}

fn goodput(before: &Sample, sample: &Sample) -> Option<f64> {
    let span = sample.at_s - before.at_s;
    let acknowledged = sample.acknowledged.saturating_sub(before.acknowledged);
    (span > 0.0).then(|| float(acknowledged) * 8.0 / span)
}

fn table(page: &mut Page, flows: &[Flow]) {
    let heads = [
        "flow",
        "way",
        "began",
        "connect",
        "bytes",
        "seconds",
        "goodput",
        "sent again",
        "data",
    ];
    let mut rows = Vec::new();
    for flow in flows {
        let resent = flow.samples.last().map_or(0, |last| last.retransmits);
        let mut row = |way: &str, began: f64, count: u64, span: f64, goodput, data: &str| {
            rows.push(vec![
                flow.index.to_string(),
                way.to_owned(),
                seconds(began),
                seconds_or_dash(flow.connect_s),
                bytes(count),
                seconds(span),
                Option::map_or(goodput, String::new(), rate),
                resent.to_string(),
                data.to_owned(),
            ]);
        };
        for transfer in &flow.transfers {
            let way = match transfer.direction {
                Direction::Up => "up",
                Direction::Down => "down",
            };
            let data = match (transfer.first_difference, transfer.data_ok) {
                (Some(_), _) => "differs",
                (None, true) => "ok",
                (None, false) => "incomplete",
            };
            row(
                way,
                flow.started_s + transfer.started_s,
                transfer.bytes,
                transfer.seconds,
                transfer.goodput_bps,
                data,
            );
        }
        if let Some(error) = &flow.error {
            row("", flow.started_s, flow.bytes, flow.seconds, None, error);
        }
    }
    page.table(&heads, &rows, &[0, 1, 8]);
}

fn exchanges(page: &mut Page, flows: &[Flow]) {
    let rows: Vec<Vec<String>> = flows
        .iter()
        .filter_map(|flow| {
            let exchanges = flow.exchanges.as_ref()?;
            Some(vec![
                flow.index.to_string(),
                bytes(exchanges.request),
                bytes(exchanges.response),
                exchanges.samples_s.len().to_string(),
                seconds_or_dash(exchanges.median_s),
                seconds_or_dash(exchanges.p95_s),
                seconds_or_dash(exchanges.p99_s),
                seconds_or_dash(exchanges.max_s),
            ])
        })
        .collect();
    if rows.is_empty() {
        return;
    }
    page.markup("<section>\n<h2>Exchanges</h2>\n");
    let heads = [
        "flow", "request", "response", "count", "median", "95 %", "99 %", "longest",
    ];
    page.table(&heads, &rows, &[0]);
    page.markup("</section>\n");
}

fn budgets(page: &mut Page, flows: &[Flow]) {
    let names: Vec<String> = flows
        .iter()
        .map(|flow| format!("flow {}", flow.index))
        .collect();
    let rows: Vec<Row<'_>> = flows
        .iter()
        .zip(&names)
        .filter(|(flow, _)| !flow.limits.is_empty())
        .map(|(flow, name)| Row {
            name,
            limits: &flow.limits,
        })
        .collect();
    if rows.is_empty() {
        return;
    }
    page.markup("<section>\n<h2>What held each flow back</h2>\n");
    page.figure(&svg::budgets(&rows, Sheet::Page), "");
    page.markup("</section>\n");
}
