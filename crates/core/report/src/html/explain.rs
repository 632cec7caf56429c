//! The page of an explanation.

mod linked;

use record::Tally;
use record::explain::{CensusEntry, Connection, Document};

use super::page::{Page, rtt};
use crate::excerpt::{Excerpt, largest};
use crate::limits;
use crate::quantity::{DASH, bytes, grouped, seconds};
use crate::sentence;
use crate::svg::{self, Row, Scale, Sheet};

/// An explanation as one self-contained page; graphs are drawn for connections that carry series.
pub fn explain(document: &Document) -> String {
    let mut page = Page::default();
    header(&mut page, document);
    page.markup("<section>\n<h2>Where the time went</h2>\n");
    let total = limits::total(document);
    let row = Row {
        name: "all",
        limits: &total,
    };
    page.figure(
        &svg::budgets(&[row], Sheet::Page),
        "Seconds of all connections together, each in the direction that carries its data.",
    );
    page.markup("</section>\n");
    if !document.findings.is_empty() {
        page.markup("<section>\n<h2>Why, and what to do</h2>\n");
        for finding in &document.findings {
            page.finding(finding);
        }
        page.markup("</section>\n");
    }
    connections(&mut page, document);
    graphs(&mut page, document);
    census(&mut page, document);
    let caveats = sentence::caveats(document);
    page.list("<h2>What these captures cannot tell</h2>\n", &caveats);
    page.manifest(&document.manifest);
    page.finish_with(
        "Longhaul explain",
        include_str!("explain/linked.css"),
        concat!(include_str!("page.js"), include_str!("explain/linked.js")),
    )
}

fn header(page: &mut Page, document: &Document) {
    page.markup("<header>\n<p class=\"facts\"><span>Longhaul explain</span>");
    for capture in &document.captures {
        let said = format!(
            "{}: {}, {} packets in {}",
            capture.file,
            capture.format,
            grouped(capture.packets),
            seconds(capture.duration_s)
        );
        page.element("<span>", &said, "</span>");
    }
    page.markup("</p>\n");
    let top = document.findings.first().map_or_else(
        || sentence::without_findings(document),
        |finding| finding.summary.clone(),
    );
    page.element("<h1>", &top, "</h1>\n");
    if let Some(said) = sentence::explained(document) {
        page.element("<p>", &said, "</p>\n");
    }
    page.markup("</header>\n");
}

fn connections(page: &mut Page, document: &Document) {
    page.markup("<section>\n<h2>Connections</h2>\n");
    let rows: Vec<Vec<String>> = document.connections.iter().map(row).collect();
    let heads = [
        "",
        "client",
        "server",
        "RTT",
        "sent",
        "received",
        "time",
        "mostly",
        "closed by",
    ];
    if rows.len() > 40 {
        let count = rows.len().to_string();
        page.element("<details><summary>All ", &count, " connections</summary>\n");
        page.table(&heads, &rows, &[1, 2, 7, 8]);
        page.markup("</details>\n");
    } else {
        page.table(&heads, &rows, &[1, 2, 7, 8]);
    }
    if let Some(said) = sentence::vantage(document) {
        page.element("<p>", &said, "</p>\n");
    }
    page.markup("</section>\n");
}

fn row(connection: &Connection) -> Vec<String> {
    let mostly = limits::by_size(limits::of(connection));
    let mostly = mostly.first().map_or_else(
        || DASH.into(),
        |part| format!("{} {}", part.name, seconds(part.seconds)),
    );
    let close = &connection.close;
    vec![
        connection.id.to_string(),
        format!("{}:{}", connection.client.host, connection.client.port),
        format!("{}:{}", connection.server.host, connection.server.port),
        rtt(&connection.rtt),
        bytes(connection.directions.client_to_server.bytes),
        bytes(connection.directions.server_to_client.bytes),
        seconds(connection.duration_s),
        mostly,
        close
            .first
            .as_ref()
            .map_or_else(|| close.how.clone(), |who| format!("{who} ({})", close.how)),
    ]
}

/// Which options, versions and groups are in use, per host.
fn census(page: &mut Page, document: &Document) {
    let counted = |values: &Tally| {
        let each: Vec<String> = values
            .iter()
            .map(|(value, count)| match values.len() {
                1 => value.to_owned(),
                _ => format!("{value} ({count})"),
            })
            .collect();
        if each.is_empty() {
            DASH.into()
        } else {
            each.join(", ")
        }
    };
    let row = |role: &str, entry: &CensusEntry| {
        vec![
            entry.host.clone(),
            role.to_owned(),
            entry.connections.to_string(),
            counted(&entry.mss),
            counted(&entry.window_scale),
            counted(&entry.sack),
            counted(&entry.timestamps),
            counted(&entry.tls_versions),
            counted(&entry.tls_groups),
        ]
    };
    let census = &document.census;
    let clients = census.clients.iter().map(|entry| row("client", entry));
    let servers = census.servers.iter().map(|entry| row("server", entry));
    let rows: Vec<Vec<String>> = clients.chain(servers).collect();
    if rows.is_empty() {
        return;
    }
    page.markup("<section>\n<h2>In use</h2>\n<details><summary>Options, TLS versions and groups per host</summary>\n");
    let heads = [
        "host",
        "as",
        "connections",
        "MSS",
        "window scale",
        "SACK",
        "timestamps",
        "TLS",
        "group",
    ];
    page.table(&heads, &rows, &[0, 1, 3, 4, 5, 6, 7, 8]);
    page.markup("</details>\n</section>\n");
}

fn graphs(page: &mut Page, document: &Document) {
    let all = document
        .connections
        .iter()
        .filter(|connection| connection.series.is_some())
        .count();
    let drawn: Vec<Excerpt<'_>> = largest(document)
        .into_iter()
        .filter_map(Excerpt::whole)
        .collect();
    if drawn.is_empty() {
        return;
    }
    page.markup("<section>\n<h2>Packet by packet</h2>\n");
    if all > drawn.len() {
        let said = format!(
            "The {} connections with the most data of {all}.",
            drawn.len()
        );
        page.element("<p class=\"quiet\">", &said, "</p>\n");
    }
    for excerpt in &drawn {
        let connection = excerpt.connection;
        let title = format!(
            "Connection {}: {}:{} to {}:{}, {}",
            connection.id,
            connection.client.host,
            connection.client.port,
            connection.server.host,
            connection.server.port,
            seconds(connection.duration_s)
        );
        page.element("<h3>", &title, "</h3>\n");
        page.data("linked", &linked::points(connection, excerpt.series));
        page.markup("<div class=\"pair\">\n");
        let scale = Scale::of(&[excerpt]);
        page.figure(
            &svg::sequence(excerpt, &scale, Sheet::Page),
            "Sequence graph: each stroke is a segment, the line right of it its acknowledgment.",
        );
        page.figure(
            &svg::in_flight(excerpt, &scale, Sheet::Page),
            "Bytes in flight against the receive window.",
        );
        page.markup("</div>\n");
    }
    page.markup("</section>\n");
}
