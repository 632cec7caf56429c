//! `longhaul lab run` beyond plain uploads, the whole binary on real kernels: sweeps, TLS, relays in a row.
//! Needs what `longhaul doctor` lists for the lab; without it, these tests fail.

#![allow(clippy::unwrap_used, reason = "in a test, a panic is the report")]

mod common;

use std::sync::{Mutex, PoisonError};

use common::{longhaul, run};
use record::lab::{Cell, Document};

const PATH: &str = r#"
name = "workloads"
seed = 7
[path]
rtt = "20 ms"
rate = "50 Mbit/s"
queue = "1 BDP"
[experiment]
runs = 1
block = 1
"#;

/// What `lab run` prints of [`PATH`] with `rest`, and that all transfers went well.
fn play(rest: &str) -> Document {
    // One lab at a time: two would measure each other.
    static LAB: Mutex<()> = Mutex::new(());
    let _alone = LAB.lock().unwrap_or_else(PoisonError::into_inner);
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("scenario.toml");
    std::fs::write(&file, format!("{PATH}{rest}")).unwrap();
    let mut command = longhaul();
    command.args(["lab", "run", "--json"]).arg(&file);
    let out = folder.path().join("out");
    let finished = run(command.arg("--out").arg(&out));
    assert_eq!(finished.code, Some(0), "{finished:#?}");
    let kept = std::fs::read_to_string(out.join("result.json")).unwrap();
    let kept: serde_json::Value = serde_json::from_str(&kept).unwrap();
    assert_eq!(finished.json(), kept, "stdout and result.json say the same");
    let document: Document = serde_json::from_value(kept).unwrap();
    for cell in &document.cells {
        assert!(cell.valid, "{:?}", cell.why);
        for arm in &cell.arms {
            assert_eq!((arm.n, arm.failed), (1, 0), "{arm:#?}");
        }
    }
    document
}

fn only(document: &Document) -> &Cell {
    assert_eq!(document.cells.len(), 1);
    &document.cells[0]
}

#[test]
fn a_pair_of_byte_relays_carries_a_stream_unharmed() {
    let document = play(
        r#"
        [relays.near]
        mode = "tcp"
        [relays.far]
        mode = "tcp"
        at = "far"
        [[workloads]]
        name = "1 MB"
        kind = "stream"
        bytes = "1 MB"
        [[arms]]
        name = "direct"
        [[arms]]
        name = "pair"
        relay = ["near", "far"]
        "#,
    );
    // A byte that differs fails its transfer.
    assert_eq!(only(&document).arms[1].name, "pair");
}

#[test]
fn a_download_over_tls_1_3_arrives() {
    let document = play(
        r#"
        [[workloads]]
        name = "200 kB"
        kind = "download"
        bytes = "200 kB"
        tls = "1.3"
        [[arms]]
        name = "direct"
        "#,
    );
    // TCP, TLS, the request: three round trips before the last byte.
    assert!(only(&document).arms[0].median_s.unwrap() > 0.06);
}

#[test]
fn a_sweep_is_one_document_with_a_cell_per_value() {
    let document = play(
        r#"
        [factors]
        "path.rtt" = ["20 ms", "40 ms"]
        [[workloads]]
        name = "100 kB"
        bytes = "100 kB"
        [[arms]]
        name = "direct"
        "#,
    );
    let rtts: Vec<&str> = document
        .cells
        .iter()
        .map(|cell| cell.factors["path.rtt"].as_str())
        .collect();
    assert_eq!(rtts, ["20 ms", "40 ms"]);
}
