//! `longhaul trunk` as its users run it: two processes, a target, and what happens when one is killed.

#![allow(missing_docs, reason = "a test has its name")]
#![allow(clippy::unwrap_used, reason = "tests fail by panicking")]

mod common;

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::time::Instant;

use serde_json::Value;

use common::trunk::{End, echo, far, free_port, identities, near, ping};
use common::{longhaul, run};

#[test]
fn a_far_relay_that_is_killed_ends_its_streams_with_a_reason_and_its_successor_serves_new_ones() {
    let directory = tempfile::tempdir().unwrap();
    let (near_identity, far_identity) = identities(directory.path());
    let (target, place) = (echo(), free_port());
    let mut far_end = far(&far_identity, place, target);
    far_end.address("far-listening");
    let mut near_end = near(&near_identity, place, target, &[]);
    let entrance = near_end.address("trunk-listening");
    let mut client = TcpStream::connect(entrance).unwrap();
    ping(&mut client);

    far_end.kill();
    near_end.event("wan-lost");
    let mut successor = far(&far_identity, place, target);
    successor.address("far-listening");
    let listening = Instant::now();
    let done = near_end.event("stream-done");
    assert_eq!(done["reason"], "peer-restarted", "{done:#}");
    assert!(
        client.read(&mut [0]).is_err(),
        "the client of before is reset"
    );
    let mut client = TcpStream::connect(entrance).unwrap();
    ping(&mut client);
    assert!(
        listening.elapsed().as_secs() < 2,
        "recovery took {:?}",
        listening.elapsed()
    );
}

#[test]
fn a_near_relay_that_is_killed_comes_back_to_the_same_far_relay() {
    let directory = tempfile::tempdir().unwrap();
    let (near_identity, far_identity) = identities(directory.path());
    let (target, place) = (echo(), free_port());
    let mut far_end = far(&far_identity, place, target);
    far_end.address("far-listening");
    for _ in 0..3 {
        let mut near_end = near(&near_identity, place, target, &[]);
        let mut client = TcpStream::connect(near_end.address("trunk-listening")).unwrap();
        ping(&mut client);
        near_end.kill();
        let ended = client.read(&mut [0]);
        assert!(matches!(ended, Ok(0) | Err(_)), "{ended:?}");
    }
}

#[test]
fn a_check_passes_data_through_both_relays_and_reaches_the_target() {
    let directory = tempfile::tempdir().unwrap();
    let (near_identity, far_identity) = identities(directory.path());
    let (target, place, status) = (echo(), free_port(), free_port().to_string());
    let mut far_end = far(&far_identity, place, target);
    far_end.address("far-listening");
    let mut near_end = near(&near_identity, place, target, &["--status", &status]);
    near_end.address("trunk-listening");
    let check = || run(longhaul().args(["trunk", "check", "--json", "--status", &status]));
    let well = check();
    assert_eq!(well.code, Some(0), "{well:#?}");
    let report = well.json();
    assert_eq!(
        report["probes"][0]["echo"]["error"],
        Value::Null,
        "{report:#}"
    );
    assert_eq!(
        report["probes"][0]["targets"][0]["target"],
        target.to_string()
    );

    let unreachable = free_port();
    let elsewhere = free_port().to_string();
    let mut other = near(
        &near_identity,
        place,
        unreachable,
        &["--status", &elsewhere],
    );
    other.address("trunk-listening");
    let ill = run(longhaul().args(["trunk", "check", "--status", &elsewhere]));
    assert_eq!(ill.code, Some(1), "{ill:#?}");
    assert!(
        ill.stdout.contains("does not allow this target"),
        "{ill:#?}"
    );
}

#[test]
fn a_running_end_tells_its_state_its_past_and_its_metrics() {
    let directory = tempfile::tempdir().unwrap();
    let (near_identity, far_identity) = identities(directory.path());
    let (target, place, status) = (echo(), free_port(), free_port().to_string());
    let mut far_end = far(&far_identity, place, target);
    far_end.address("far-listening");
    let more = ["--status", &status, "--probe-every", "1 s"];
    let mut near_end = near(&near_identity, place, target, &more);
    let mut open = TcpStream::connect(near_end.address("trunk-listening")).unwrap();
    ping(&mut open);
    let mut over = open.peer_addr().map(TcpStream::connect).unwrap().unwrap();
    ping(&mut over);
    // Told once, at the first probe.
    let health = near_end.event("trunk-health");
    assert_eq!(health["healthy"], true, "{health:#}");
    drop(over);
    let done = near_end.event("stream-done");
    assert!(done["limits_s"]["application"].is_number(), "{done:#}");

    let state = run(longhaul().args(["trunk", "status", "--json", "--status", &status])).json();
    assert_eq!(state["trunks"][0]["up"], true, "{state:#}");
    let stream = &state["streams"][0];
    assert_eq!(stream["target"], target.to_string(), "{state:#}");
    assert_eq!(stream["sent_bytes"], 4, "{state:#}");
    let shown = run(longhaul().args(["trunk", "status", "--status", &status]));
    assert!(shown.stdout.contains("held back by"), "{shown:#?}");
    let past = run(longhaul().args(["trunk", "history", "--status", &status]));
    assert!(past.stdout.contains(&target.to_string()), "{past:#?}");

    let get = |path: &str, host: &str| {
        let mut asked = TcpStream::connect(&status).unwrap();
        let head = format!("GET {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n");
        asked.write_all(head.as_bytes()).unwrap();
        let mut answer = String::new();
        asked.read_to_string(&mut answer).unwrap();
        answer
    };
    let metrics = get("/metrics", "localhost");
    for name in [
        "longhaul_trunk_up{",
        "longhaul_trunk_streams_ended_total{",
        "longhaul_trunk_healthy{",
        "process_cpu_seconds_total ",
    ] {
        assert!(metrics.contains(name), "{name}: {metrics}");
    }
    assert!(get("/healthz", "127.0.0.1").starts_with("HTTP/1.1 200"));
    assert!(get("/metrics", "evil.example").starts_with("HTTP/1.1 403"));

    far_end.kill();
    near_end.event("wan-lost");
    assert!(get("/healthz", "127.0.0.1").starts_with("HTTP/1.1 503"));
}

#[test]
fn a_check_of_nobody_names_the_flag_that_is_missing() {
    let nobody = free_port().to_string();
    let check = run(longhaul().args(["trunk", "check", "--status", &nobody]));
    assert_eq!(check.code, Some(3));
    assert!(check.stderr.contains("--status"), "{check:#?}");
}

#[test]
fn a_printed_configuration_names_what_the_line_said() {
    let printed = run(longhaul().args([
        "trunk",
        "near",
        ":6000",
        "--via",
        "site-b:7000",
        "--to",
        "aix-vm-2:22",
        "--print-config",
    ]));
    assert_eq!(printed.code, Some(0), "{printed:#?}");
    for part in [
        "[[near]]",
        "site-b:7000",
        "[[near.listeners]]",
        "0.0.0.0:6000",
        "aix-vm-2:22",
    ] {
        assert!(printed.stdout.contains(part), "{part}: {printed:#?}");
    }
    let open = run(longhaul().args(["trunk", "far", ":7000", "--allow-target", "0.0.0.0/0:*"]));
    assert_eq!(open.code, Some(2));
    assert!(
        open.stderr.contains("every port of every host"),
        "{open:#?}"
    );
}

#[test]
fn an_end_works_on_as_many_threads_as_its_file_says() {
    let directory = tempfile::tempdir().unwrap();
    let (_, identity) = identities(directory.path());
    let file = directory.path().join("far.toml");
    for threads in [1, 3] {
        let config = format!(
            "threads = {threads}\n[[far]]\nlisten = \"127.0.0.1:0\"\nallow-targets = [\"127.0.0.1:22\"]\n\
             [far.security]\nidentity = {identity:?}\n"
        );
        std::fs::write(&file, config).unwrap();
        let mut end = End::start(longhaul().args(["trunk", "run", "--config"]).arg(&file));
        end.address("far-listening");
        // A thread takes its name when it first runs.
        let begun = Instant::now();
        while end.threads("tokio-rt-worker") < threads && begun.elapsed().as_secs() < 20 {
            std::thread::yield_now();
        }
        assert_eq!(end.threads("tokio-rt-worker"), threads);
    }
}

#[test]
fn a_trunk_without_keys_says_how_to_make_them() {
    let directory = tempfile::tempdir().unwrap();
    let nowhere = directory.path().join("none");
    let far = run(longhaul()
        .args([
            "trunk",
            "far",
            "127.0.0.1:0",
            "--allow-target",
            "db:1",
            "--identity",
        ])
        .arg(nowhere));
    assert_eq!(far.code, Some(3));
    assert!(far.stderr.contains("longhaul trunk init"), "{far:#?}");
}
