//! What a one-line relay says of its process and of its ways in: the user, the administrator, proxies.

#![allow(missing_docs, reason = "a test has its name")]
#![allow(clippy::unwrap_used, reason = "tests fail by panicking")]

mod common;

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::thread;

use serde_json::Value;

use common::{longhaul, run};

/// A running relay that prints JSON lines; killed with the test that started it.
struct Relay {
    child: Child,
    events: BufReader<ChildStdout>,
}

impl Relay {
    fn start(command: &mut Command) -> Self {
        let mut child = command
            .arg("--json")
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let events = BufReader::new(child.stdout.take().unwrap());
        Self { child, events }
    }

    /// The next event of this name.
    fn event(&mut self, name: &str) -> Value {
        loop {
            let event = self.next();
            if event["event"] == name {
                return event;
            }
        }
    }

    /// One event of each name, in whatever order they come.
    fn events(&mut self, names: &[&str]) {
        let mut missing = names.to_vec();
        while !missing.is_empty() {
            let event = self.next();
            missing.retain(|name| event["event"] != *name);
        }
    }

    fn next(&mut self) -> Value {
        let mut line = String::new();
        assert_ne!(self.events.read_line(&mut line).unwrap(), 0, "it has ended");
        serde_json::from_str(&line).unwrap()
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A server that sends back what one client says.
fn echo() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let mut said = Vec::new();
            stream.read_to_end(&mut said).unwrap();
            stream.write_all(&said).unwrap();
        }
    });
    address
}

fn say(address: &str, said: &str) -> String {
    let mut client = TcpStream::connect(address).unwrap();
    client.write_all(said.as_bytes()).unwrap();
    client.shutdown(Shutdown::Write).unwrap();
    let mut answer = String::new();
    client.read_to_string(&mut answer).unwrap();
    answer
}

#[test]
fn after_its_start_the_relay_is_the_user_that_it_was_told_and_answers_an_administrator() {
    let target = echo();
    let mut relay = Relay::start(
        longhaul()
            .args(["relay", "tcp", "127.0.0.1:0", &target])
            .args(["--user", "nobody", "--admin", "127.0.0.1:0"]),
    );
    let address = relay.event("listening")["address"]
        .as_str()
        .unwrap()
        .to_owned();
    let admin = relay.event("admin")["address"].as_str().unwrap().to_owned();
    relay.event("ready");
    let status = format!("/proc/{}/status", relay.child.id());
    let status = std::fs::read_to_string(status).unwrap();
    let of = |field: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(field));
        line.unwrap()
            .split_whitespace()
            .map(str::to_owned)
            .collect::<Vec<_>>()
    };
    let nobody = run(Command::new("id").args(["-u", "nobody"])).stdout;
    assert_eq!(of("Uid:"), vec![nobody.trim(); 4], "this test needs root");
    assert_eq!(of("Groups:").len(), 1);
    assert_eq!(of("CapEff:"), ["0000000000000000"]);
    assert_eq!(say(&address, "hello"), "hello");
    let metrics = say(
        &admin,
        "GET /metrics HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n",
    );
    assert!(metrics.contains("longhaul_clients_total"), "{metrics}");
}

#[test]
fn a_user_that_is_none_is_named_before_the_first_client() {
    let refused = run(longhaul()
        .args(["relay", "tcp", "127.0.0.1:0", "127.0.0.1:1"])
        .args(["--user", "nobody-has-this-name"]));
    assert_eq!(refused.code, Some(3));
    assert!(
        refused
            .stderr
            .contains("there is no user `nobody-has-this-name`"),
        "{}",
        refused.stderr
    );
}

#[test]
fn a_proxy_takes_its_clients_where_it_may_and_prints_itself() {
    let target = echo();
    let arguments = ["relay", "proxy", "127.0.0.1:0", "--to", &target];
    let mut relay = Relay::start(longhaul().args(arguments));
    let address = relay.event("listening")["address"]
        .as_str()
        .unwrap()
        .to_owned();
    let asked = say(
        &address,
        &format!("CONNECT {target} HTTP/1.1\r\nHost: a\r\n\r\nhello"),
    );
    assert_eq!(asked, "HTTP/1.1 200 Connection established\r\n\r\nhello");
    assert_eq!(relay.event("connection-done")["asked_for"], target.as_str());

    let printed = run(longhaul().args(arguments).arg("--print-config"));
    assert!(
        printed.stdout.contains("target = \"asked\""),
        "{}",
        printed.stdout
    );
    assert!(
        printed.stdout.contains(&format!("to = [\"{target}\"]")),
        "{}",
        printed.stdout
    );
}

#[test]
fn a_transparent_relay_prints_itself_and_wants_tproxy_for_the_clients_address() {
    let printed = run(longhaul()
        .args([
            "relay",
            "transparent",
            ":9000",
            "--tproxy",
            "--keep-client-address",
        ])
        .arg("--print-config"));
    for line in [
        "target = \"original\"",
        "tproxy = true",
        "keep-client-address = true",
    ] {
        assert!(printed.stdout.contains(line), "{}", printed.stdout);
    }
    let refused = run(longhaul().args(["relay", "transparent", ":9000", "--keep-client-address"]));
    assert_eq!(refused.code, Some(2));
}

#[test]
fn https_to_an_http_relay_is_one_line_and_the_same_as_a_file() {
    let command = [
        "relay",
        "http",
        ":8080",
        "store.example:443",
        "--upstream-name",
        "a.example",
    ];
    let printed = run(longhaul().args(command).arg("--print-config"));
    assert!(printed.stdout.contains("[http.tls]"), "{}", printed.stdout);
    assert!(
        printed.stdout.contains("upstream-name = \"a.example\""),
        "{}",
        printed.stdout
    );
    let refused = run(longhaul().args(command).args(["--upstream", "plain"]));
    assert_eq!(refused.code, Some(2));
    assert!(
        refused
            .stderr
            .contains("http.tls.upstream-name: it is for upstream = \"tls\""),
        "{}",
        refused.stderr
    );
}

/// A port for listeners that are opened by address; below the range from which the kernel takes ports of its own.
fn free_port() -> u16 {
    (23_000..24_000)
        .find(|&port| TcpListener::bind(("127.0.0.1", port)).is_ok())
        .unwrap()
}

#[test]
fn a_newer_binary_takes_over_without_a_dropped_connection() {
    let target = echo();
    let port = free_port();
    let address = format!("127.0.0.1:{port}");
    let admin = format!("127.0.0.1:{}", port + 1);
    let mut relay = Relay::start(
        longhaul()
            .args(["relay", "tcp", &address, &target])
            .args(["--admin", &admin]),
    );
    relay.event("ready");
    let mut early = TcpStream::connect(&address).unwrap();
    early.write_all(b"before ").unwrap();
    let signal = Command::new("kill")
        .args(["-s", "USR2", &relay.child.id().to_string()])
        .status();
    assert!(signal.unwrap().success());
    // Clients come all the while: none is refused, and each gets its bytes back.
    let (stop, stopped) = std::sync::mpsc::channel::<()>();
    let there = address.clone();
    let others = thread::spawn(move || {
        let mut count = 0;
        while stopped.try_recv().is_err() {
            assert_eq!(say(&there, "hello"), "hello");
            count += 1;
        }
        count
    });
    // The successor says the one and this process the other, into the same stream, in either order.
    relay.events(&["ready", "draining"]);
    early.write_all(b"and after").unwrap();
    early.shutdown(Shutdown::Write).unwrap();
    let mut answer = String::new();
    early.read_to_string(&mut answer).unwrap();
    assert_eq!(answer, "before and after");
    assert!(relay.child.wait().unwrap().success());
    stop.send(()).unwrap();
    assert!(others.join().unwrap() > 0);
    // Whoever serves now is another process, which has the administrator's listener too.
    assert_eq!(say(&address, "hello"), "hello");
    let request = "GET /readyz HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n";
    assert!(say(&admin, request).starts_with("HTTP/1.1 200"));
    let successor = run(Command::new("sh").args([
        "-c",
        // A listening socket for each of its threads.
        &format!("ss -Hltnp 'sport = :{port}' | sed 's/.*pid=\\([0-9]*\\).*/\\1/' | sort -u"),
    ]));
    let successor = successor.stdout.trim().to_owned();
    assert_ne!(successor, relay.child.id().to_string());
    assert!(
        run(Command::new("kill").arg(&successor)).code == Some(0),
        "{successor}"
    );
    while TcpStream::connect(&address).is_ok() {
        thread::yield_now();
    }
}

#[test]
fn a_successor_that_cannot_start_changes_nothing() {
    let target = echo();
    let directory = tempfile::tempdir().unwrap();
    let binary = directory.path().join("longhaul");
    std::fs::copy(env!("CARGO_BIN_EXE_longhaul"), &binary).unwrap();
    let mut command = Command::new(&binary);
    let mut relay = Relay::start(command.args(["relay", "tcp", "127.0.0.1:0", &target]));
    let address = relay.event("listening")["address"]
        .as_str()
        .unwrap()
        .to_owned();
    relay.event("ready");
    std::fs::remove_file(&binary).unwrap();
    std::fs::write(&binary, "no program").unwrap();
    let signal = Command::new("kill")
        .args(["-s", "USR2", &relay.child.id().to_string()])
        .status();
    assert!(signal.unwrap().success());
    let warning = relay.event("warning");
    assert_eq!(warning["name"], "upgrade-failed");
    assert_eq!(say(&address, "hello"), "hello");
}
