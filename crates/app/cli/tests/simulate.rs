//! A scenario in virtual time, by the whole binary.

#![allow(clippy::unwrap_used, reason = "in a test, a panic is the report")]

mod common;

use common::{longhaul, root, run};
use serde_json::Value;

fn simulate(seed: &str) -> Value {
    let scenario = root().join("scenarios/field/c-uploads.toml");
    let finished = run(longhaul()
        .arg("simulate")
        .arg(scenario)
        .args(["--json", "--seed", seed]));
    assert_eq!(finished.code, Some(0), "{finished:#?}");
    finished.json()
}

fn arm<'a>(document: &'a Value, workload: &str, name: &str) -> &'a Value {
    let cells = document["cells"].as_array().unwrap();
    let cell = cells
        .iter()
        .find(|cell| cell["workload"] == workload)
        .unwrap();
    let arms = cell["arms"].as_array().unwrap();
    arms.iter().find(|arm| arm["name"] == name).unwrap()
}

#[test]
fn the_field_case_takes_the_round_trips_that_slow_start_needs() {
    let document = simulate("1");
    // A handshake, three rounds of slow start (10 + 20 + 40 segments), the round trip of the rest.
    let direct = arm(&document, "100 KiB", "direct")["median_s"]
        .as_f64()
        .unwrap();
    assert!(
        (direct / 0.2004 - 5.0).abs() < 0.05,
        "{direct} s is not five round trips"
    );
    for workload in ["100 KiB", "1 MiB"] {
        let share = arm(&document, workload, "relay")["share_of_floor"]
            .as_f64()
            .unwrap();
        assert!(
            share > 0.99 && share <= 1.0,
            "{workload}: {share} of the floor"
        );
    }
    let limits = arm(&document, "100 KiB", "direct")["limits"]
        .as_object()
        .unwrap();
    assert!(limits["slow-start"].as_f64().unwrap() > 0.59, "{limits:?}");
    assert!(
        document["assertions"]
            .as_array()
            .unwrap()
            .iter()
            .all(|one| one["holds"] == true)
    );
}

#[test]
fn a_seed_gives_one_result() {
    let mut first = simulate("7");
    let mut second = simulate("7");
    for document in [&mut first, &mut second] {
        document["manifest"]["started_at"].take();
    }
    assert_eq!(first, second);
}
