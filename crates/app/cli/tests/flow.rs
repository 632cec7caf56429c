//! `longhaul flow` as a person or the lab starts it: two processes over loopback.

#![allow(clippy::unwrap_used, reason = "in a test, a panic is the report")]

mod common;

use std::io::{BufRead as _, BufReader};
use std::net::{TcpListener, TcpStream};
use std::process::{Child, ChildStdout, Command, Stdio};

use common::{longhaul, run};
use serde_json::Value;

/// A server that is listening.
struct Server {
    child: Child,
    lines: BufReader<ChildStdout>,
    address: String,
}

impl Server {
    fn start() -> Self {
        let mut child = longhaul()
            .args(["flow", "server", "127.0.0.1:0", "--json"])
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap());
        let mut ready = String::new();
        lines.read_line(&mut ready).unwrap();
        let ready: Value = serde_json::from_str(&ready).unwrap();
        assert_eq!(ready["event"], "ready");
        let address = ready["address"].as_str().unwrap().to_owned();
        Self {
            child,
            lines,
            address,
        }
    }

    fn event(&mut self) -> Value {
        let mut line = String::new();
        self.lines.read_line(&mut line).unwrap();
        serde_json::from_str(&line).unwrap()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // It may have ended already, as one test wants it to.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn a_flow_is_one_json_document_at_the_client_and_a_line_at_the_server() {
    let mut server = Server::start();
    let client = run(longhaul()
        .args(["flow", "client", &server.address, "--json"])
        .args(["--sizes", "40kB,5MB", "--reuse", "--parallel", "2"]));
    assert_eq!(client.code, Some(0), "{client:#?}");
    let document = client.json();
    assert_eq!(document["schema"], "longhaul.flow");
    assert_eq!(document["flows"].as_array().map(Vec::len), Some(2));
    assert_eq!(document["totals"]["bytes"], 2 * 5_040_000);
    assert_eq!(document["totals"]["data_ok"], true);
    for _ in 0..2 {
        let closed = server.event();
        assert_eq!(closed["event"], "closed");
        assert_eq!(closed["received"], 5_040_000);
        assert_eq!(closed["error"], Value::Null);
    }
}

#[test]
fn sigterm_ends_a_server_with_success() {
    let mut server = Server::start();
    let killed = Command::new("kill")
        .args(["-TERM", &server.child.id().to_string()])
        .status()
        .unwrap();
    assert!(killed.success());
    assert_eq!(server.child.wait().unwrap().code(), Some(0));
}

#[test]
fn a_client_without_a_server_says_what_to_start() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    // A port that is taken, and at which nobody listens.
    let taken = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let nobody = taken.local_addr().unwrap().to_string();
    let client = run(longhaul().args(["flow", "client", &nobody, "--bytes", "1kB"]));
    assert_eq!(client.code, Some(3), "{client:#?}");
    assert!(client.stderr.contains("flow server"), "{client:#?}");
}

#[test]
fn our_own_tcp_asks_for_what_it_needs() {
    let refused = run(longhaul().args(["flow", "server", "127.0.0.1:0", "--stack", "longhaul"]));
    assert_eq!(refused.code, Some(2), "{refused:#?}");
    assert!(refused.stderr.contains("--address"), "{refused:#?}");
}

#[test]
fn options_without_a_meaning_are_refused_instead_of_passed_over() {
    let refused = |options: &[&str], words: &str| {
        let client = run(longhaul()
            .args(["flow", "client", "192.0.2.1:7001"])
            .args(options));
        assert_eq!(client.code, Some(2), "{options:?}: {client:#?}");
        assert!(client.stderr.contains(words), "{options:?}: {client:#?}");
    };
    // The kernel has no such knob.
    refused(&["--initial-ssthresh", "65535"], "--initial-ssthresh");
    refused(&["--no-sack"], "--stack longhaul");
    refused(&["--set", "ecn=request"], "--set");
    refused(
        &["--set", "ecnn=request"],
        "loss-detection, ecn, keep-alive",
    );
    refused(&["--bytes", "1MB", "--count", "5"], "--count");
    refused(&["--count", "5"], "--burst");
    refused(&["--duration", "1s", "--idle", "1s"], "--idle");
}

#[test]
fn what_can_carry_nothing_is_refused() {
    for options in [
        &["--burst", "1MB", "--count", "0"][..],
        &["--exchange", "1kB:1kB", "--count", "0"],
        &["--duration", "0s"],
    ] {
        let client = run(longhaul()
            .args(["flow", "client", "192.0.2.1:7001"])
            .args(options));
        assert_eq!(client.code, Some(2), "{options:?}: {client:#?}");
        assert!(
            client.stderr.contains(options[options.len() - 2]),
            "{client:#?}"
        );
    }
}

/// An address that this host could not find behind the device waited two minutes for an answer.
#[test]
fn our_own_address_lies_behind_the_gateway() {
    for (address, gateway, words) in [
        (
            "10.99.0.2",
            "10.77.0.1/24",
            "is outside of `--gateway 10.77.0.1/24`",
        ),
        ("10.77.1.2", "10.77.0.1/24", "is outside of"),
        ("fd78::2", "fd77::1/64", "is outside of"),
        ("10.77.0.1", "10.77.0.1/24", "are both 10.77.0.1"),
        ("fd77::2", "10.77.0.1/24", "are not both IPv4 or both IPv6"),
        (
            "10.77.0.2",
            "10.77.0.1",
            "is not an address with its prefix",
        ),
        (
            "10.77.0.2",
            "10.77.0.1/33",
            "is not an address with its prefix",
        ),
    ] {
        let refused = run(longhaul()
            .args(["flow", "server", "0.0.0.0:0", "--stack", "longhaul"])
            .args(["--address", address, "--gateway", gateway]));
        assert_eq!(refused.code, Some(2), "{refused:#?}");
        assert!(refused.stderr.contains(words), "{refused:#?}");
    }
}

#[test]
fn a_server_has_a_port_and_an_address_that_can_be_found() {
    let without = run(longhaul().args(["flow", "client", "192.0.2.1"]));
    assert_eq!(without.code, Some(2), "{without:#?}");
    assert!(without.stderr.contains("192.0.2.1:7001"), "{without:#?}");
    // RFC 6761 section 6.4: nobody ever has a name below `invalid`.
    let unknown = run(longhaul().args(["flow", "client", "server.invalid:7001"]));
    assert_eq!(unknown.code, Some(3), "{unknown:#?}");
    assert!(
        unknown.stderr.contains("address of `server.invalid:7001`"),
        "{unknown:#?}"
    );
}

#[test]
fn a_page_shows_every_flow_over_time_and_fetches_nothing() {
    let server = Server::start();
    let folder = tempfile::tempdir().unwrap();
    let page = folder.path().join("flows.html");
    let client = run(longhaul()
        .args(["flow", "client", &server.address, "--duration", "500ms"])
        .args([
            "--parallel",
            "2",
            "--stagger",
            "100ms",
            "--interval",
            "20ms",
        ])
        .arg("--html")
        .arg(&page));
    assert_eq!(client.code, Some(0), "{client:#?}");
    let html = std::fs::read_to_string(&page).unwrap();
    assert!(html.starts_with("<!DOCTYPE html>") || html.starts_with("<!doctype html>"));
    assert_eq!(
        html.matches("<svg xmlns").count(),
        2,
        "over time, and the limits"
    );
    for flow in ["flow 0", "flow 1"] {
        let lines = html.matches(&format!("data-arm=\"{flow}\"")).count();
        assert_eq!(lines, 4, "goodput, window, RTT and flight of {flow}");
    }
    assert!(!html.contains("src=\"http"));
}

/// A script that holds, and one whose last line does not.
const SCRIPT: &str = "\
# A handshake.
+0   < S 0:0(0) win 65535 <mss 1000>
+0   > S. 0:0(0) ack 1
+.1  < . 1:1(0) ack 1 win 65535
+0   ? ESTABLISHED
";

fn script(text: &str) -> (tempfile::TempDir, String) {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("one.play");
    std::fs::write(&file, text).unwrap();
    (folder, file.to_string_lossy().into_owned())
}

#[test]
fn a_script_is_played_against_ours_and_the_kernel() {
    let (_folder, file) = script(SCRIPT);
    let played = run(longhaul().args(["flow", "play", "--against", "both", "--json", &file]));
    assert_eq!(played.code, Some(0), "{played:#?}");
    let document = played.json();
    assert_eq!(document["schema"], "longhaul.play");
    for (index, host) in ["ours", "kernel"].into_iter().enumerate() {
        let play = &document["plays"][index];
        assert_eq!(
            (&play["host"], &play["outcome"]),
            (&host.into(), &"passed".into())
        );
        assert_eq!(play["packets"].as_array().map(Vec::len), Some(3));
        assert_eq!(play["title"], "A handshake.");
    }
}

/// One script that wanted another congestion control kept a whole folder from being played.
#[test]
fn a_script_that_this_kernel_cannot_play_stops_no_other() {
    let folder = tempfile::tempdir().unwrap();
    // No kernel has this one.
    let wants = format!("set algorithm bbr3\n{SCRIPT}");
    std::fs::write(folder.path().join("a.play"), wants).unwrap();
    std::fs::write(folder.path().join("b.play"), SCRIPT).unwrap();
    let played = run(longhaul()
        .args(["flow", "play", "--against", "kernel"])
        .arg(folder.path()));
    assert_eq!(played.code, Some(3), "{played:#?}");
    for words in [
        "CANNOT    kernel",
        "the kernel cannot be told `Algorithm(Bbr3)`",
        "passed    kernel",
        "1 passed, 0 failed, 1 not playable on this host",
    ] {
        assert!(played.stdout.contains(words), "{words}: {played:#?}");
    }
}

/// A discard service, to which nothing but the peer's acknowledgements says how it went.
#[test]
fn what_a_sink_acknowledged_is_told() {
    let sink = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = sink.local_addr().unwrap().to_string();
    let reader = std::thread::spawn(move || {
        let (mut stream, _) = sink.accept().unwrap();
        std::io::copy(&mut stream, &mut std::io::sink()).unwrap()
    });
    let client = run(longhaul().args(["flow", "client", &address, "--sink", "--bytes", "2MB"]));
    assert_eq!(client.code, Some(0), "{client:#?}");
    assert_eq!(reader.join().unwrap(), 2_000_000);
    let line = client
        .stdout
        .lines()
        .find(|line| line.contains("acknowledged by"));
    assert!(
        line.is_some_and(|line| line.starts_with("  up   2.00 MB in ")),
        "{client:#?}"
    );
}

#[test]
fn a_script_that_does_not_hold_names_its_line_and_the_packet() {
    let (_folder, file) = script(&format!("{SCRIPT}+0 ! write 10\n+0 > P. 1:21(20) ack 1\n"));
    let played = run(longhaul().args(["flow", "play", &file]));
    assert_eq!(played.code, Some(1), "{played:#?}");
    let wanted = "line 7: expected `+0 > P. 1:21(20) ack 1`: seen `> P. 1:11(10) ack 1";
    assert!(played.stdout.contains(wanted), "{played:#?}");
    assert!(played.stdout.contains("the length differs"), "{played:#?}");
}

#[test]
fn what_is_no_script_is_refused_by_file_and_line() {
    let (_folder, file) = script("# Broken.\n+0 < S 0:0(0) win many\n");
    let refused = run(longhaul().args(["flow", "play", &file]));
    assert_eq!(refused.code, Some(2), "{refused:#?}");
    for wanted in ["one.play", "line 2", "`many` is no number"] {
        assert!(refused.stderr.contains(wanted), "{refused:#?}");
    }
    let empty = tempfile::tempdir().unwrap();
    let refused = run(longhaul().args(["flow", "play"]).arg(empty.path()));
    assert_eq!(refused.code, Some(2), "{refused:#?}");
    assert!(refused.stderr.contains("holds no scripts"), "{refused:#?}");
}
