//! `longhaul flow` as a person or the lab starts it: two processes over loopback.

#![allow(clippy::unwrap_used, reason = "in a test, a panic is the report")]

mod common;

use std::io::{BufRead as _, BufReader};
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
    let mut server = Server::start();
    server.child.kill().unwrap();
    server.child.wait().unwrap();
    let client = run(longhaul().args(["flow", "client", &server.address, "--bytes", "1kB"]));
    assert_eq!(client.code, Some(3), "{client:#?}");
    assert!(client.stderr.contains("flow server"), "{client:#?}");
}

#[test]
fn our_own_tcp_asks_for_what_it_needs() {
    let refused = run(longhaul().args(["flow", "server", "127.0.0.1:0", "--stack", "longhaul"]));
    assert_eq!(refused.code, Some(2), "{refused:#?}");
    assert!(refused.stderr.contains("--address"), "{refused:#?}");
}
