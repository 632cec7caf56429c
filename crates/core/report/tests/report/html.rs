use longhaul_report::{Explained, html};
use proptest::prelude::*;
use record::lab::Leg;
use record::{LimitName, explain};

use crate::{examples, sweep};

fn lab_page() -> String {
    let (direct, relay) = (examples::explained(), examples::explained_hot());
    html::lab(
        &examples::lab(),
        &[
            Explained {
                arm: "direct",
                document: &direct,
            },
            Explained {
                arm: "relay",
                document: &relay,
            },
        ],
    )
}

/// Puts a page where people can look at it.
fn keep(name: &str, page: &str) {
    let path = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    std::fs::write(path, page).unwrap();
}

#[test]
fn the_page_of_a_lab_run_holds_all_that_was_asked() {
    let page = lab_page();
    keep("report-lab.html", &page);
    let page = page.replace('\u{a0}', " ");
    for words in [
        "100 KiB over 200.6 ms: direct 1.018 s, relay 214.2 ms.",
        "4.75 times faster",
        "Sequence numbers over time",
        "Bytes in flight over time",
        "Completion times of upload 102400 B",
        "Where each second went",
        "no-connection-reuse",
        "Remedy.",
        "error -1.5 %",
        "longhaul lab run scenarios/field/c-uploads.toml --seed 20230613",
        "net.ipv4.tcp_rmem",
        "106176 B at 100 Mbit/s",
    ] {
        assert!(page.contains(words), "{words}");
    }
}

#[test]
fn the_hops_of_a_route_with_relays_are_drawn_and_those_of_a_direct_way_are_not() {
    let hop = |from: &str, to: &str, crosses_wan| Leg {
        from: from.into(),
        to: to.into(),
        crosses_wan,
        limits: [(LimitName::Application, 0.2)].into(),
    };
    let mut document = examples::lab();
    for arm in &mut document.cells[0].arms {
        arm.legs = match arm.name.as_str() {
            "relay" => vec![
                hop("client", "relay-hot", false),
                hop("relay-hot", "origin", true),
            ],
            _ => vec![hop("client", "origin", true)],
        };
    }
    let page = html::lab(&document, &[]);
    assert!(page.contains("client to relay-hot"));
    assert!(page.contains("The long path is relay-hot to origin; where"));
    assert!(!page.contains("direct, hop by hop"));
}

#[test]
fn the_page_of_an_explanation_draws_the_largest_connections() {
    let page = html::explain(&examples::explained());
    keep("report-explain.html", &page);
    assert_eq!(page.matches("Sequence numbers over time").count(), 8);
    assert!(page.contains("Connection 21: 10.1.0.2:40021 to storage.example:80"));
    assert!(page.contains("The 8 connections with the most data of 21."));
}

#[test]
fn a_page_fetches_nothing() {
    for page in [
        lab_page(),
        html::lab(&sweep::document(2, 2), &[]),
        html::explain(&examples::explained()),
    ] {
        let page = page.replace("http://www.w3.org/2000/svg", "");
        // Comments of the scripts, and ways within the page.
        let lines = page.lines().filter(|line| !line.trim().starts_with("//"));
        let page = lines.collect::<Vec<_>>().join("\n");
        let page = page.replace("href=\"#", "");
        for reference in [
            "http:", "https:", "//", "src=", "href=", "@import", "url(", "<link",
        ] {
            assert!(!page.contains(reference), "{reference}");
        }
    }
}

#[test]
fn every_element_that_opens_closes() {
    for page in [
        lab_page(),
        html::lab(&sweep::document(3, 2), &[]),
        html::lab(&sweep::crowded(), &[]),
        html::explain(&examples::explained()),
    ] {
        let page = page
            .split("<body")
            .nth(1)
            .unwrap()
            .split("<script>")
            .next()
            .unwrap();
        for name in [
            "section", "figure", "div", "table", "tr", "td", "th", "svg", "text", "rect",
            "details", "article", "ul", "li", "dl", "h1", "h2", "h3", "p", "span", "code", "pre",
            "title", "desc", "g", "a",
        ] {
            let opened = page.matches(&format!("<{name}>")).count()
                + page.matches(&format!("<{name} ")).count();
            let alone = page
                .split(&format!("<{name} "))
                .skip(1)
                .filter(|rest| rest.split('>').next().is_some_and(|tag| tag.ends_with('/')))
                .count();
            let closed = page.matches(&format!("</{name}>")).count();
            assert_eq!(opened, closed + alone, "{name}");
        }
    }
}

#[test]
fn the_page_of_a_sweep_has_every_picture() {
    let document = sweep::document(3, 3);
    let page = html::lab(&document, &[]);
    keep("report-sweep.html", &page);
    keep("report-crowded.html", &html::lab(&sweep::crowded(), &[]));
    keep(
        "report-streams.html",
        &html::lab(&sweep::document(1, 2), &[]),
    );
    for (words, count) in [
        ("Goodput by path.rtt", 3),
        ("Goodput by path.loss", 3),
        ("One transfer of stream of 20 s over time", 9),
        ("Rates of stream of 20 s", 9),
        ("data-name=\"queue at the bottleneck\"", 9),
        ("Cliff&#39;s delta", 9),
        ("buffer delay", 9),
        ("and repeated: RTT 74.1 ms instead of 70 ms", 9),
        ("href=\"#cell-", 9),
        ("<details class=\"cell\">", 9),
        ("This cell is not valid: ", 1),
        ("net.ipv4.tcp_rmem", 1),
    ] {
        let page = page.replace('\u{a0}', " ");
        assert_eq!(page.matches(words).count(), count, "{words}");
    }
}

#[test]
fn a_page_of_a_hundred_cells_still_opens() {
    let page = html::lab(&sweep::hundred(), &[]);
    keep("report-hundred.html", &page);
    assert!(page.len() < 12_000_000, "{} bytes", page.len());
    assert!(page.contains("further combinations are in the table"));
}

#[test]
fn a_run_without_captures_or_figures_is_still_a_page() {
    let mut document = examples::lab();
    document.cells[0].arms.clear();
    document.cells[1].arms[2].median_s = None;
    document.cells[1].arms[2].samples_s.clear();
    let page = html::lab(&document, &[]);
    assert!(page.contains("upload 102400 B"));
    document.cells.clear();
    assert!(html::lab(&document, &[]).contains("No two arms were measured."));
}

/// Every string of a document, replaced.
fn hostile(text: &str) -> (record::lab::Document, explain::Document) {
    fn replace(value: &mut serde_json::Value, text: &str) {
        match value {
            serde_json::Value::String(content) => *content = text.into(),
            serde_json::Value::Array(values) => {
                for value in values {
                    replace(value, text);
                }
            }
            serde_json::Value::Object(fields) => {
                for (name, value) in fields.iter_mut() {
                    // These are enumerations and cannot hold other words.
                    let fixed = [
                        "severity",
                        "confidence",
                        "vantage_confidence",
                        "dominant",
                        "limits",
                        "measure",
                    ]
                    .contains(&name.as_str());
                    if !fixed {
                        replace(value, text);
                    }
                }
                for map in ["facts", "other", "factors", "details", "counters"] {
                    if let Some(serde_json::Value::Object(fields)) = fields.get_mut(map) {
                        *fields = fields
                            .values()
                            .take(1)
                            .map(|value| (text.into(), value.clone()))
                            .collect();
                    }
                }
            }
            serde_json::Value::Null | serde_json::Value::Bool(_) | serde_json::Value::Number(_) => {
            }
        }
    }
    let mut lab = serde_json::to_value(examples::lab()).unwrap();
    let short = examples::document(
        vec![examples::connection(1, 0.0, 3000)],
        vec![examples::finding()],
    );
    let mut explain = serde_json::to_value(short).unwrap();
    replace(&mut lab, text);
    replace(&mut explain, text);
    (
        serde_json::from_value(lab).unwrap(),
        serde_json::from_value(explain).unwrap(),
    )
}

/// What the markup of a page consists of, without its text: names of elements and of attributes.
fn skeleton(page: &str) -> String {
    let mut skeleton = String::new();
    let mut rest = page;
    while let Some((_, tag)) = rest.split_once('<') {
        let (tag, after) = tag.split_once('>').unwrap();
        let outside: Vec<&str> = tag.split('"').step_by(2).collect();
        skeleton.push_str(&outside.concat());
        skeleton.push('\n');
        rest = after;
    }
    skeleton
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    /// Whatever a capture or a scenario calls things: the markup stays the one that a harmless name gives.
    #[test]
    fn no_name_changes_the_markup(text in prop_oneof![
        any::<String>(),
        "[<>&\"'/=a-z!\\-]{0,20}",
        Just("<script>alert(1)</script>".to_owned()),
        Just("\"><img onerror=alert(1)>".to_owned()),
        Just("--><!-- ]]> </title></style></svg>".to_owned()),
    ]) {
        let pages = |text: &str| {
            let (lab, explain) = hostile(text);
            let explained = [Explained { arm: text, document: &explain }];
            html::lab(&lab, &explained) + &html::explain(&explain)
        };
        // As long as the hostile one, because labels are left out where they do not fit.
        let harmless = "x".repeat(text.chars().count());
        prop_assert_eq!(skeleton(&pages(&text)), skeleton(&pages(&harmless)));
    }
}

/// The data of each linked plot of a page.
fn linked(page: &str) -> Vec<serde_json::Value> {
    page.split("<script type=\"application/json\">")
        .skip(1)
        .map(|rest| {
            let (json, _) = rest.split_once("</script>").unwrap();
            serde_json::from_str(json).unwrap()
        })
        .collect()
}

#[test]
fn a_page_carries_the_points_that_its_script_links() {
    let mut document = examples::explained();
    document.connections[0].series.as_mut().unwrap().rtt = vec![(0.0, f64::NAN), (0.1, 0.2)];
    document.connections[0].directions.client_to_server.bytes = u64::MAX;
    let page = html::explain(&document);
    let plots = linked(&page);
    assert_eq!(plots.len(), 8);
    let series = document.connections[0].series.as_ref().unwrap();
    let plot = &plots[0];
    assert_eq!(plot["data"].as_array().unwrap().len(), series.data.len());
    assert_eq!(
        plot["limits"].as_array().unwrap().len(),
        series.limits.len()
    );
    assert_eq!(
        plot["rtt"][0][1], 0,
        "what is no number is none in JSON either"
    );
    for name in [
        "acks", "edge", "flight", "window", "cwnd", "goodput", "sacks",
    ] {
        assert!(plot[name].is_array(), "{name}");
    }
    // The script finds every limit's colour by the class of its picture.
    for limit in plot["limits"].as_array().unwrap() {
        let class = format!(".{} {{", limit[3].as_str().unwrap());
        assert!(page.contains(&class), "{class}");
    }
}
