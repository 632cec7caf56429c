//! `longhaul top` on this machine's own connections, and what it records.

#![allow(clippy::unwrap_used, reason = "in a test, a panic is the report")]

mod common;

use std::io::{Read as _, Write as _};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::process::{Command, Stdio};

use common::{longhaul, run};
use serde_json::Value;
use tempfile::TempDir;

/// A pair of connected sockets of this process, and the listener that tells who opened them.
fn pair() -> (TcpStream, TcpStream, TcpListener) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let (server, _) = listener.accept().unwrap();
    (client, server, listener)
}

fn lines(text: &str) -> Vec<Value> {
    text.lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

#[test]
fn a_table_names_both_ends_the_process_and_the_limit() {
    let (client, server, _listener) = pair();
    // One port alone may be somebody else's too, towards another peer.
    let port = |stream: &TcpStream| stream.local_addr().unwrap().port();
    let filter = format!("port {} and port {}", port(&client), port(&server));
    let shown = run(longhaul().args(["top", "--once", "-i", "50 ms", "--filter", &filter]));
    assert_eq!(shown.code, Some(0), "{shown:#?}");
    assert!(shown.stdout.starts_with("2 connections"), "{shown:#?}");
    let ends = format!("{}  127.0.0.1:", client.local_addr().unwrap());
    assert!(shown.stdout.contains(&ends), "{shown:#?}");
    assert!(shown.stdout.contains("application"), "{shown:#?}");
    let process = std::fs::read_to_string("/proc/self/comm").unwrap();
    assert!(shown.stdout.contains(process.trim()), "{shown:#?}");
}

#[test]
fn what_is_recorded_is_explained_with_the_process_that_leaves_connections_open() {
    let (mut client, mut server, _listener) = pair();
    let port = |stream: &TcpStream| stream.local_addr().unwrap().port();
    let filter = format!("dport {} and sport {}", port(&client), port(&server));
    let folder = TempDir::new().unwrap();
    for name in ["plain.jsonl", "small.jsonl.zst"] {
        let file = folder.path().join(name);
        let mut top = longhaul();
        top.args([
            "top",
            "--json",
            "-i",
            "100 ms",
            // However busy this machine is, a reading every interval.
            "--max-cpu",
            "0",
            "--duration",
            "3 s",
            "-f",
            &filter,
        ])
        .arg("--record")
        .arg(&file)
        .stdout(Stdio::piped());
        let mut running = top.spawn().unwrap();
        // The header and the first reading, so that what follows lies between readings.
        let mut printed = running.stdout.take().unwrap();
        let mut beginning = [0; 400];
        printed.read_exact(&mut beginning).unwrap();
        server.write_all(&vec![7; 300_000]).unwrap();
        client.read_exact(&mut vec![0; 300_000]).unwrap();
        client.shutdown(Shutdown::Write).unwrap();
        let mut rest = String::new();
        printed.read_to_string(&mut rest).unwrap();
        assert!(running.wait().unwrap().success());
        let text = String::from_utf8_lossy(&beginning).into_owned() + &rest;
        let all = lines(&text);
        assert_eq!(all[0]["line"], "header");
        assert_eq!(all[0]["schema"], "longhaul.top");
        let listed = |line: &Value| line["connections"].as_array().map_or(0, Vec::len);
        let quiet = all.iter().skip(1).filter(|line| listed(line) == 0).count();
        assert!(quiet > 0, "a connection at rest is listed once");

        let document = run(longhaul().arg("explain").arg(&file).arg("--json")).json();
        assert_eq!(
            document["captures"][0]["format"],
            "recording of `longhaul top`"
        );
        let connection = &document["connections"][0];
        let sent = &connection["directions"]["server_to_client"];
        if name == "plain.jsonl" {
            assert_eq!(sent["bytes"], 300_000, "{document:#}");
        }
        let finding = &document["findings"][0];
        assert_eq!(finding["name"], "half-closed-by-peer", "{document:#}");
        let me = format!("process {}", std::process::id());
        assert!(
            finding["summary"].as_str().unwrap().contains(&me),
            "{finding:#}"
        );
        let text = run(longhaul().arg("explain").arg(&file));
        assert_eq!(text.code, Some(0), "{text:#?}");
        assert!(text.stdout.contains("CLOSE_WAIT"), "{text:#?}");
    }
}

#[test]
fn another_namespace_is_read_by_name_and_by_process() {
    let name = format!("lh-top-{}", std::process::id());
    let ip = |arguments: &[&str]| {
        let status = Command::new("ip").args(arguments).status().unwrap();
        assert!(status.success(), "ip {arguments:?}");
    };
    ip(&["netns", "add", &name]);
    ip(&["-n", &name, "link", "set", "lo", "up"]);
    let program = "import socket,sys\n\
        l=socket.create_server(('127.0.0.1',4000))\n\
        c=socket.create_connection(('127.0.0.1',4000)); s,_=l.accept()\n\
        print('ready',flush=True); sys.stdin.read()";
    let mut inside = Command::new("ip")
        .args(["netns", "exec", &name, "python3", "-c", program])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    inside
        .stdout
        .as_mut()
        .unwrap()
        .read_exact(&mut [0; 5])
        .unwrap();
    let process = inside.id().to_string();
    for which in [&name, &process] {
        let shown = run(longhaul().args(["top", "--once", "-i", "20 ms", "--netns", which]));
        assert!(shown.stdout.starts_with("2 connections"), "{shown:#?}");
        assert!(shown.stdout.contains("python3"), "{shown:#?}");
    }
    let all = run(longhaul().args([
        "top",
        "--once",
        "-i",
        "20 ms",
        "--all-netns",
        "-f",
        "sport 4000",
    ]));
    assert!(
        all.stdout.contains(&format!("{name}: 127.0.0.1:4000")),
        "{all:#?}"
    );
    drop(inside.stdin.take());
    inside.wait().unwrap();
    ip(&["netns", "delete", &name]);
}

#[test]
fn mistakes_are_named_with_the_next_step() {
    let filter = run(longhaul().args(["top", "--once", "--filter", "dport https"]));
    assert_eq!(filter.code, Some(2));
    assert!(filter.stderr.contains("expected a port"), "{filter:#?}");
    let sort = run(longhaul().args(["top", "--once", "--sort", "size"]));
    assert_eq!(sort.code, Some(2));
    assert!(sort.stderr.contains("goodput"), "{sort:#?}");
    let namespace = run(longhaul().args(["top", "--once", "--netns", "lh-no-such"]));
    assert_eq!(namespace.code, Some(3));
    assert!(namespace.stderr.contains("lh-no-such"), "{namespace:#?}");
}
