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

#[test]
fn a_field_is_overridden_and_the_page_written() {
    let folder = tempfile::tempdir().unwrap();
    let page = folder.path().join("page.html");
    let scenario = root().join("scenarios/field/c-uploads.toml");
    let finished = run(longhaul()
        .arg("simulate")
        .arg(&scenario)
        .args(["--json", "--set", "path.rtt=20 ms"])
        .args(["--set", "workloads[0].assert=[]"])
        .args(["--set", "workloads[1].assert=[]", "--html"])
        .arg(&page));
    assert_eq!(finished.code, Some(0), "{finished:#?}");
    // Five round trips, whatever their length.
    let direct = arm(&finished.json(), "100 KiB", "direct")["median_s"]
        .as_f64()
        .unwrap();
    assert!(
        (direct / 0.02 - 5.0).abs() < 0.5,
        "{direct} s is not five round trips of 20 ms"
    );
    let html = std::fs::read_to_string(page).unwrap();
    assert!(html.contains("c-uploads") && html.contains("<svg"));

    let refused = run(longhaul()
        .arg("simulate")
        .arg(&scenario)
        .args(["--set", "path.rat=1 Mbit/s"]));
    assert_eq!(refused.code, Some(2), "{refused:#?}");
    assert!(refused.stderr.contains("`path.rat`"), "{refused:#?}");
}

#[test]
fn remedies_are_ranked_and_what_does_not_help_is_said() {
    let folder = tempfile::tempdir().unwrap();
    let page = folder.path().join("page.html");
    let scenario = root().join("scenarios/field/c-uploads.toml");
    let what_if = || {
        let mut command = longhaul();
        command.arg("simulate").arg(&scenario).arg("--what-if");
        command
    };
    let told = run(what_if().arg("--html").arg(&page));
    assert_eq!(told.code, Some(0), "{told:#?}");
    for words in [
        "relay beside client, 2 hot connections",
        "does not help: origin: receive window",
        "not tried: initial-ssthresh: it is infinite",
    ] {
        assert!(told.stdout.contains(words), "{words}: {told:#?}");
    }
    let html = std::fs::read_to_string(page).unwrap();
    assert!(html.contains("2 hot connections") && html.contains("no difference"));

    let document = run(what_if().arg("--json")).json();
    let cell = &document["cells"][0];
    let hot = cell["remedies"].as_array().unwrap().iter();
    let hot = hot.clone().find(|one| one["name"] == "hot-pool").unwrap();
    assert_eq!(hot["verdict"], "helps");
    // What the lab's arm of that name takes in the same virtual time.
    let relay = simulate("20230613");
    let relay = arm(&relay, "100 KiB", "relay")["median_s"]
        .as_f64()
        .unwrap();
    let error = hot["outcome"]["median_s"].as_f64().unwrap() / relay - 1.0;
    assert!(error.abs() < 0.01, "{error}");

    let refused = run(what_if().args(["--arm", "none"]));
    assert_eq!(refused.code, Some(2), "{refused:#?}");
    assert!(refused.stderr.contains("`direct-reuse`"), "{refused:#?}");
}

#[test]
fn explain_names_the_low_threshold_on_the_simulated_wire() {
    const ARMS: &str = "arms=[\
        { name = \"low\", hosts.client.tcp.initial-ssthresh = \"65535 B\" },\
        { name = \"infinite\", hosts.client.tcp.initial-ssthresh = \"infinite\" }]";
    let folder = tempfile::tempdir().unwrap();
    let played = run(longhaul()
        .arg("simulate")
        .arg(root().join("scenarios/simulated/e-ssthresh-10g.toml"))
        // Small enough for captures: 625 kB in flight, of which the threshold allows a tenth.
        .args(["--set", "path.rate=100 Mbit/s", "--set", "path.rtt=50 ms"])
        .args(["--set", "path.queue=625 kB"])
        .args(["--set", "workloads[0].duration=5 s"])
        .args(["--set", "hosts.client.tcp.send-buffer=2 MiB"])
        .args(["--set", ARMS])
        .args(["--at", "client", "--json", "--pcap"])
        .arg(folder.path()));
    assert_eq!(played.code, Some(0), "{played:#?}");
    let found = |capture: &str| -> Vec<String> {
        let explained = run(longhaul()
            .arg("explain")
            .arg(folder.path().join(capture))
            .arg("--json"));
        let document = explained.json();
        let findings = document["findings"].as_array().unwrap();
        let names = findings.iter().map(|one| one["name"].as_str().unwrap());
        names.map(str::to_owned).collect()
    };
    let low = "low-initial-ssthresh".to_owned();
    let named = found("low-60_s-0-client.pcapng");
    assert!(named.contains(&low), "{named:?}");
    let named = found("infinite-60_s-0-client.pcapng");
    assert!(!named.contains(&low), "{named:?}");
}

#[test]
fn every_host_that_packets_pass_is_a_capture_point_and_others_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let simulate = |more: &[&str]| {
        run(longhaul()
            .arg("simulate")
            .arg(root().join("scenarios/field/d1-fixed-window.toml"))
            .args([
                "--set",
                "workloads[0].duration=1 s",
                "--set",
                "experiment.runs=1",
            ])
            .args(["--set", "experiment.block=1", "--json", "--pcap"])
            .arg(folder.path())
            .args(more))
    };
    let played = simulate(&["--set", "workloads[0].assert=[]"]);
    assert_eq!(played.code, Some(0), "{played:#?}");
    let mut names: Vec<String> = std::fs::read_dir(folder.path())
        .unwrap()
        .map(|file| file.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    let hosts = [
        ("direct", "client"),
        ("direct", "origin"),
        ("pair", "client"),
        ("pair", "far-relay"),
        ("pair", "origin"),
        ("pair", "relay"),
    ];
    assert_eq!(
        names,
        hosts.map(|(arm, host)| format!("{arm}-bulk,_20_s-0-{host}.pcapng"))
    );

    let refused = simulate(&["--set", "workloads[0].assert=[]", "--at", "rival"]);
    assert_eq!(refused.code, Some(2), "{refused:#?}");
    assert!(
        refused.stderr.contains("nothing to capture at `rival`"),
        "{refused:#?}"
    );
}

#[test]
fn an_asked_precision_decides_how_many_transfers_are_simulated() {
    let simulate = |precision: &str| {
        let played = run(longhaul()
            .arg("simulate")
            .arg(root().join("scenarios/field/c-uploads-60ms.toml"))
            .args(["--set", "path.loss=1 %", "--json"])
            .args(["--set", precision, "--set", "experiment.max-runs=60"])
            .args([
                "--set",
                "workloads[0].assert=[]",
                "--set",
                "workloads[1].assert=[]",
            ]));
        assert_eq!(played.code, Some(0), "{played:#?}");
        played.json()
    };
    let counts = |document: &Value| -> Vec<u64> {
        let cells = document["cells"].as_array().unwrap().iter();
        let arms = cells.flat_map(|cell| cell["arms"].as_array().unwrap());
        arms.map(|arm| arm["n"].as_u64().unwrap()).collect()
    };
    let (coarse, fine) = (
        simulate("experiment.precision=50 %"),
        simulate("experiment.precision=0.1 %"),
    );
    assert!(
        counts(&coarse).iter().all(|n| *n < 60),
        "{:?}",
        counts(&coarse)
    );
    assert!(counts(&fine).contains(&60), "{:?}", counts(&fine));
    assert_eq!(fine["conduct"]["precision"], 0.001);
    assert_eq!(
        fine["order"].as_array().unwrap().len() as u64 * fine["conduct"]["block"].as_u64().unwrap(),
        counts(&fine).iter().sum::<u64>()
    );
}
