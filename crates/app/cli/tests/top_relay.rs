//! `longhaul top --relay`: a running relay's connections, here and in a network that only the relay sees.
//! Needs root for its namespaces; without it, these tests fail.

#![allow(clippy::unwrap_used, reason = "in a test, a panic is the report")]

mod common;

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};

use common::{longhaul, run};
use serde_json::Value;
use tempfile::TempDir;

/// A process that prints lines of JSON, and ends with this at the latest.
struct Talking {
    child: Child,
    lines: BufReader<ChildStdout>,
}

impl Talking {
    fn start(command: &mut Command) -> Self {
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap());
        Self { child, lines }
    }

    /// The first line in which something is found.
    fn until<T>(&mut self, find: impl Fn(&Value) -> Option<T>) -> T {
        let mut last = String::new();
        loop {
            let mut line = String::new();
            let count = self.lines.read_line(&mut line).unwrap();
            assert!(count > 0, "not found until its end; last: {last}");
            if let Some(found) = find(&serde_json::from_str(&line).unwrap()) {
                return found;
            }
            last = line;
        }
    }

    /// The address in the next event of this name.
    fn address(&mut self, event: &str) -> String {
        self.until(|line| (line["event"] == event).then(|| line["address"].clone()))
            .as_str()
            .unwrap()
            .to_owned()
    }

    /// Ends it as Ctrl-C does.
    fn interrupt(mut self) {
        let id = self.child.id().to_string();
        assert!(
            Command::new("kill")
                .args(["-INT", &id])
                .status()
                .unwrap()
                .success()
        );
        let mut rest = String::new();
        self.lines.read_to_string(&mut rest).unwrap();
        assert!(self.child.wait().unwrap().success());
    }
}

impl Drop for Talking {
    fn drop(&mut self) {
        // Already gone where the test went well.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// `top` of connections of the relay at `admin`, for much longer than it takes to see them.
fn top(command: &mut Command, admin: &str, record: Option<&Path>) -> Talking {
    command.args(["top", "--json", "-i", "200 ms", "--max-cpu", "0"]);
    command.args(["--duration", "2 min", "--relay", admin]);
    command.args(["--filter", &format!("relay {admin}")]);
    if let Some(record) = record {
        command.arg("--record").arg(record);
    }
    Talking::start(command)
}

/// Both sockets of a connection, the client's first, once both are listed together.
fn both(line: &Value) -> Option<[Value; 2]> {
    let rows = line["connections"].as_array()?;
    let side = |name: &str| {
        rows.iter()
            .find(|row| row["relayed"]["side"] == name)
            .cloned()
    };
    Some([side("client")?, side("server")?])
}

#[test]
fn a_relay_of_this_host_has_its_sockets_told_apart_and_joined() {
    let origin = TcpListener::bind("127.0.0.1:0").unwrap();
    let target = origin.local_addr().unwrap().to_string();
    let mut relay = Talking::start(longhaul().args([
        "relay",
        "tcp",
        "127.0.0.1:0",
        &target,
        "--admin",
        "127.0.0.1:0",
        "--json",
    ]));
    let listener = relay.address("listening");
    let admin = relay.address("admin");
    let mut client = TcpStream::connect(&listener).unwrap();
    let (mut server, _) = origin.accept().unwrap();
    client.write_all(&[7; 1000]).unwrap();
    server.read_exact(&mut [0; 1000]).unwrap();

    let mut watching = top(&mut longhaul(), &admin, None);
    let [at_client, at_server] = watching.until(both);
    let text = |address: std::net::SocketAddr| Value::from(address.to_string());
    assert_eq!(at_client["peer"], text(client.local_addr().unwrap()));
    assert_eq!(at_client["local"], text(client.peer_addr().unwrap()));
    assert_eq!(at_client["role"], "server");
    assert_eq!(at_server["local"], text(server.peer_addr().unwrap()));
    assert_eq!(at_server["relayed"]["other"], at_client["peer"]);
    assert_eq!(at_client["relayed"]["other"], at_server["peer"]);
    assert_eq!(
        at_client["relayed"]["connection"],
        at_server["relayed"]["connection"]
    );
    for row in [&at_client, &at_server] {
        assert_eq!(
            row["relayed"]["elsewhere"], false,
            "one row per socket: {row:#}"
        );
        assert_eq!(row["process"]["pid"], relay.child.id());
        assert_eq!(row["relayed"]["listener"], listener.as_str());
    }
    watching.interrupt();
}

/// Two hosts with a cable between them: `near` has 10.0.0.1, `far` has 10.0.0.2.
struct Hosts {
    near: String,
    far: String,
}

impl Hosts {
    fn new() -> Self {
        let id = std::process::id();
        let hosts = Self {
            near: format!("lh-tr-near-{id}"),
            far: format!("lh-tr-far-{id}"),
        };
        let (near, far) = (hosts.near.as_str(), hosts.far.as_str());
        ip(&["netns", "add", near]);
        ip(&["netns", "add", far]);
        ip(&[
            "-n", near, "link", "add", "eth0", "type", "veth", "peer", "name", "eth0", "netns", far,
        ]);
        for (host, address) in [(near, "10.0.0.1/24"), (far, "10.0.0.2/24")] {
            ip(&["-n", host, "address", "add", address, "dev", "eth0"]);
            ip(&["-n", host, "link", "set", "eth0", "up"]);
            ip(&["-n", host, "link", "set", "lo", "up"]);
        }
        hosts
    }
}

impl Drop for Hosts {
    fn drop(&mut self) {
        for host in [&self.near, &self.far] {
            let _ = Command::new("ip").args(["netns", "delete", host]).status();
        }
    }
}

fn ip(arguments: &[&str]) {
    let status = Command::new("ip").args(arguments).status().unwrap();
    assert!(status.success(), "ip {arguments:?}");
}

fn inside(host: &str, program: impl AsRef<std::ffi::OsStr>) -> Command {
    let mut command = Command::new("ip");
    command
        .args(["netns", "exec", host])
        .arg(program)
        .env("NO_COLOR", "1");
    command
}

/// A server that swallows, and a client that sends a little through the relay again and again, until nobody holds
/// its input any more.
const TRAFFIC: &str = "
import select, socket, sys, threading
served = socket.create_server(('10.0.0.1', 7000))
client = socket.create_connection(('10.0.0.2', 9000))
server, _ = served.accept()
def swallow():
    while server.recv(65536):
        pass
threading.Thread(target=swallow, daemon=True).start()
while not select.select([sys.stdin], [], [], 0.05)[0]:
    client.sendall(bytes(10000))
";

fn configuration(folder: &Path) -> std::path::PathBuf {
    let file = folder.join("relay.toml");
    let text = r#"
        [admin]
        listen = "10.0.0.2:9901"
        allow = ["10.0.0.1/32"]
        [[tcp]]
        listen = "10.0.0.2:9000"
        target = "10.0.0.1:7000"
    "#;
    std::fs::write(&file, text).unwrap();
    file
}

#[test]
fn a_relay_of_another_host_tells_its_connections_and_they_are_recorded_and_explained() {
    let folder = TempDir::new().unwrap();
    let hosts = Hosts::new();
    let longhaul_path = longhaul().get_program().to_owned();
    let mut relay = Talking::start(
        inside(&hosts.far, &longhaul_path)
            .args(["relay", "run", "--json", "--config"])
            .arg(configuration(folder.path())),
    );
    relay.address("listening");
    let mut traffic = inside(&hosts.near, "python3")
        .args(["-c", TRAFFIC])
        .stdin(Stdio::piped())
        .spawn()
        .unwrap();

    let record = folder.path().join("relay.jsonl.zst");
    let mut command = inside(&hosts.near, &longhaul_path);
    let mut watching = top(&mut command, "10.0.0.2:9901", Some(&record));
    // What the relay sends to the server moves; two readings of the relay's own lie between.
    let [at_client, at_server] = watching.until(|line| {
        both(line).filter(|[_, server]| server["out_bps"].as_f64().is_some_and(|out| out > 0.0))
    });
    watching.interrupt();
    drop(traffic.stdin.take());
    traffic.wait().unwrap();

    assert_eq!(at_client["namespace"], "relay 10.0.0.2:9901");
    assert_eq!(at_client["local"], "10.0.0.2:9000");
    assert_eq!(at_server["peer"], "10.0.0.1:7000");
    assert_eq!(at_server["relayed"]["elsewhere"], true);
    assert_eq!(at_server["relayed"]["other"], at_client["peer"]);
    assert_eq!(at_server["state"], "established");
    assert!(
        at_client["bytes_in"].as_u64().unwrap() >= 10_000,
        "{at_client:#}"
    );
    let limits = at_server["limits"].as_object().unwrap();
    let known: f64 = limits.values().filter_map(Value::as_f64).sum();
    assert!(
        known > 0.0,
        "the relay's own clocks divide it: {at_server:#}"
    );

    let explained = run(longhaul().arg("explain").arg(&record).arg("--json")).json();
    let connections = explained["connections"].as_array().unwrap();
    assert_eq!(connections.len(), 2, "{explained:#}");
    let up = connections
        .iter()
        .find(|one| one["server"]["port"] == 7000)
        .unwrap_or_else(|| panic!("{explained:#}"));
    assert!(up["directions"]["client_to_server"]["bytes"].as_u64() > Some(0));
    let caveats = up["caveats"].to_string();
    assert!(
        caveats.contains("the server side of connection")
            && caveats.contains("of the relay at 10.0.0.2:9901"),
        "{caveats}"
    );
}
