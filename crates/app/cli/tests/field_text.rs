//! The three traces of field report C, cut out of it as they were printed, explained by the binary.

#![allow(clippy::unwrap_used, reason = "in a test, a panic is the report")]

mod common;

use std::io::Write as _;
use std::process::Stdio;

use common::{Finished, field_data, longhaul};
use serde_json::Value;

/// The blocks of the report that tcpdump printed, each from its command line to the end of the block.
fn traces() -> Option<Vec<String>> {
    let report = field_data()?.join("seeds/002_fbacd287669d9fc8.txt");
    let text = std::fs::read_to_string(report).expect("the report can be read");
    let mut blocks: Vec<String> = Vec::new();
    let mut inside = false;
    for line in text.lines() {
        if line.starts_with("$ sudo tcpdump") {
            inside = true;
            blocks.push(String::new());
        } else if inside && !belongs(line) {
            inside = false;
        }
        if inside && let Some(block) = blocks.last_mut() {
            block.push_str(line);
            block.push('\n');
        }
    }
    Some(blocks)
}

/// Packets, the two lines of tcpdump's banner, and empty lines; the report's line numbers and prose end a
/// block.
fn belongs(line: &str) -> bool {
    line.is_empty()
        || line.contains(" IP ")
        || line.starts_with("tcpdump:")
        || line.starts_with("listening on")
}

fn explain(trace: &str) -> Value {
    let mut child = longhaul()
        .args(["explain", "--json", "-"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    child
        .stdin
        .take()
        .unwrap()
        .write_all(trace.as_bytes())
        .unwrap();
    let finished = Finished::from(child.wait_with_output().unwrap());
    assert_eq!(finished.code, Some(0), "{finished:#?}");
    finished.json()
}

fn number(value: &Value) -> f64 {
    value
        .as_f64()
        .unwrap_or_else(|| panic!("{value} is no number"))
}

fn close_to(value: &Value, expected: f64, tolerance: f64) -> bool {
    (number(value) - expected).abs() <= tolerance
}

/// Every direction's limits sum to the connection's duration.
fn assert_budget(document: &Value) {
    for connection in document["connections"].as_array().unwrap() {
        let duration = number(&connection["duration_s"]);
        for direction in ["client_to_server", "server_to_client"] {
            let limits = connection["directions"][direction]["limits"]
                .as_object()
                .unwrap();
            let sum: f64 = limits.values().map(number).sum();
            assert!(
                (sum - duration).abs() < 1e-6,
                "{direction}: {sum} of {duration}: {limits:?}"
            );
        }
    }
}

fn finding<'a>(document: &'a Value, name: &str) -> Option<&'a Value> {
    document["findings"]
        .as_array()
        .unwrap()
        .iter()
        .find(|finding| finding["name"] == name)
}

#[test]
fn the_ping_trace_gives_an_rtt_without_tcp() {
    let Some(traces) = traces() else { return };
    let document = explain(&traces[0]);
    assert_eq!(document["connections"].as_array().unwrap().len(), 0);
    let echo = &document["echoes"][0];
    assert_eq!(echo["replies"], 4);
    assert!(close_to(&echo["rtt"]["median_s"], 0.2004, 0.0001), "{echo}");
}

#[test]
fn the_1_kib_upload_is_complete() {
    let Some(traces) = traces() else { return };
    assert_eq!(traces.len(), 4, "the report prints four traces");
    let document = explain(&traces[1]);
    assert_budget(&document);
    let connections = document["connections"].as_array().unwrap();
    assert_eq!(connections.len(), 1);
    let connection = &connections[0];
    assert!(
        close_to(&connection["rtt"]["handshake_s"], 0.2004, 0.0001),
        "{}",
        connection["rtt"]
    );
    assert_eq!(connection["directions"]["client_to_server"]["bytes"], 1745);
    assert_eq!(connection["directions"]["server_to_client"]["bytes"], 214);
    let transfer = &connection["transfers"][0];
    assert_eq!(transfer["request"], "POST /upload/files");
    assert_eq!(transfer["status"], 200);
    assert!(
        close_to(&transfer["with_handshake_s"], 0.404, 0.003),
        "{transfer}"
    );
    assert_eq!(connection["close"]["first"], "client");
    assert!(
        connection["close"]["close_wait"]
            .as_str()
            .unwrap()
            .contains("server")
    );
}

#[test]
fn five_unshared_uploads_pay_a_handshake_and_a_slow_start_each() {
    let Some(traces) = traces() else { return };
    let document = explain(&traces[2]);
    assert_budget(&document);
    let connections = document["connections"].as_array().unwrap();
    assert_eq!(connections.len(), 5);
    for connection in connections {
        let rtt = &connection["rtt"];
        assert!(close_to(&rtt["handshake_s"], 0.20115, 0.0003), "{rtt}");
        // One server FIN echoes another connection's time stamp: 1.2 s for whoever trusts it.
        assert!(number(&rtt["max_s"]) < 0.5, "a false RTT: {rtt}");
        assert_eq!(
            connection["directions"]["client_to_server"]["bytes"],
            103_123
        );
        let transfer = &connection["transfers"][0];
        assert!(
            close_to(&transfer["with_handshake_s"], 1.012, 0.006),
            "{transfer}"
        );
        assert_eq!(connection["close"]["first"], "client");
        assert!(
            !connection["caveats"].as_array().unwrap().is_empty(),
            "the trace is filtered"
        );
    }
    let reuse = finding(&document, "no-connection-reuse").expect("five connections, five uploads");
    assert!(number(&reuse["lost_s"]) > 2.0, "{reuse}");
    assert!(!reuse["evidence"].as_array().unwrap().is_empty());
}

#[test]
fn five_shared_uploads_get_faster_on_one_connection() {
    let Some(traces) = traces() else { return };
    let document = explain(&traces[3]);
    assert_budget(&document);
    let connections = document["connections"].as_array().unwrap();
    assert_eq!(connections.len(), 1);
    assert!(close_to(
        &connections[0]["rtt"]["handshake_s"],
        0.2012,
        0.0002
    ));
    let transfers = connections[0]["transfers"].as_array().unwrap();
    assert_eq!(transfers.len(), 5);
    // From the request's first byte to the response: the report's own times less its client's share.
    for (transfer, expected) in transfers
        .iter()
        .zip([0.8103, 0.4345, 0.2653, 0.2497, 0.2496])
    {
        assert!(
            close_to(&transfer["complete_s"], expected, 0.001),
            "{expected}: {transfer}"
        );
        assert!(number(&transfer["request_bytes"]) > 103_000.0, "{transfer}");
    }
    assert!(
        finding(&document, "no-connection-reuse").is_none(),
        "it is reused"
    );
    let close = &connections[0]["close"];
    assert_eq!(close["first"], "client");
    let caveats = connections[0]["caveats"].to_string();
    assert!(
        caveats.contains("filter") || caveats.contains("missing"),
        "{caveats}"
    );
}

#[test]
fn a_trace_becomes_a_scenario_of_the_same_path_and_sizes() {
    let Some(traces) = traces() else { return };
    let folder = tempfile::tempdir().unwrap();
    let (text, file) = (
        folder.path().join("trace.txt"),
        folder.path().join("s.toml"),
    );
    std::fs::write(&text, &traces[1]).unwrap();
    let emitted = common::run(
        longhaul()
            .arg("explain")
            .arg(&text)
            .arg("--emit-scenario")
            .arg(&file),
    );
    assert_eq!(emitted.code, Some(0), "{emitted:#?}");
    let checked = common::run(longhaul().args(["lab", "check"]).arg(&file));
    assert_eq!(checked.code, Some(0), "{checked:#?}");
    let simulated = common::run(longhaul().arg("simulate").arg(&file).arg("--json")).json();
    let cell = &simulated["cells"][0];
    assert!(
        close_to(&cell["path"]["rtt_asked_s"], 0.2004, 0.001),
        "{cell}"
    );
    // The report measured 409 ms for this upload.
    assert!(
        close_to(&cell["arms"][0]["median_s"], 0.409, 0.03),
        "{cell}"
    );
}

/// The report's own before and after: five uploads on connections of their own, five on one.
#[test]
fn the_reports_two_traces_compare() {
    let Some(traces) = traces() else { return };
    let folder = tempfile::tempdir().unwrap();
    let files = [
        (folder.path().join("unshared.txt"), &traces[2]),
        (folder.path().join("shared.txt"), &traces[3]),
    ];
    let mut compare = longhaul();
    compare.args(["explain", "--compare", "--json"]);
    for (file, trace) in &files {
        std::fs::write(file, trace).unwrap();
        compare.arg(file);
    }
    let change = common::run(&mut compare).json();
    assert_eq!(change["before"]["connections"], 5);
    assert_eq!(change["after"]["connections"], 1);
    let gone = change["gone"].as_array().unwrap();
    assert!(
        gone.iter().any(|name| name == "no-connection-reuse"),
        "{change}"
    );
    let handshake = change["limits"]
        .as_array()
        .unwrap()
        .iter()
        .find(|limit| limit["name"] == "handshake")
        .unwrap();
    // Five handshakes become one.
    assert!(close_to(&handshake["before_s"], 0.2, 0.01), "{handshake}");
    assert!(close_to(&handshake["after_s"], 0.04, 0.01), "{handshake}");
}

#[test]
fn a_comparison_takes_two_captures() {
    let refused = common::run(longhaul().args(["explain", "--compare", "only-one.pcap"]));
    assert_eq!(refused.code, Some(2), "{refused:#?}");
    assert!(refused.stderr.contains("two captures"), "{refused:#?}");
}
