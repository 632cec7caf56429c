//! `longhaul relay` as its users run it: the whole binary on loopback, beside a small origin.

#![allow(missing_docs, reason = "a test has its name")]
#![allow(clippy::unwrap_used, reason = "tests fail by panicking")]

mod common;

use std::io::{BufRead as _, BufReader, Read as _, Seek as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::unix::net::UnixDatagram;
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;

use common::{longhaul, run, socket_activated};

/// Longer than anything here takes on a busy machine; only a hang meets it.
const PATIENCE: Duration = Duration::from_secs(30);

/// An origin that answers every request with 200 and tells what it got, on any number of connections.
struct Origin {
    address: SocketAddr,
    got: Receiver<Vec<u8>>,
}

impl Origin {
    fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let (sender, got) = channel();
        thread::spawn(move || {
            for stream in listener.incoming() {
                let (mut stream, sender) = (stream.unwrap(), sender.clone());
                thread::spawn(move || {
                    while let Some(request) = read_request(&mut stream) {
                        let answer = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";
                        // Nobody is left to tell where the relay or the test has gone.
                        if sender.send(request).is_err() || stream.write_all(answer).is_err() {
                            return;
                        }
                    }
                });
            }
        });
        Self { address, got }
    }
}

/// A head and as many bytes as its Content-Length says; `None` at the end of the connection.
fn read_request(stream: &mut TcpStream) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    while !bytes.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        stream.read_exact(&mut byte).ok()?;
        bytes.push(byte[0]);
    }
    let head = String::from_utf8_lossy(&bytes).into_owned();
    let length = head
        .lines()
        .find_map(|line| line.strip_prefix("Content-Length: "))
        .map_or(0, |length| length.parse().unwrap());
    let mut body = vec![0; length];
    stream.read_exact(&mut body).ok()?;
    bytes.extend(body);
    Some(bytes)
}

/// A running relay that prints JSON lines; killed with the test that started it.
struct Relay {
    child: Child,
    events: Option<BufReader<ChildStdout>>,
    address: SocketAddr,
}

impl Relay {
    fn start(command: &mut Command) -> Self {
        let mut child = command
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let events = BufReader::new(child.stdout.take().unwrap());
        let mut relay = Self {
            child,
            events: Some(events),
            address: SocketAddr::from(([0, 0, 0, 0], 0)),
        };
        relay.address = relay.event("listening")["address"]
            .as_str()
            .unwrap()
            .parse()
            .unwrap();
        relay
    }

    /// The next event of this name.
    fn event(&mut self, name: &str) -> Value {
        let events = self.events.as_mut().expect("started with --json");
        loop {
            let mut line = String::new();
            assert_ne!(events.read_line(&mut line).unwrap(), 0, "no `{name}`");
            let event: Value = serde_json::from_str(&line).unwrap();
            if event["event"] == name {
                return event;
            }
        }
    }

    fn signal(&self, name: &str) {
        let kill = Command::new("kill")
            .args(["-s", name, &self.child.id().to_string()])
            .status();
        assert!(kill.unwrap().success());
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        // Already gone where the test went well.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A relay without priming, so that the origin sees what clients send and nothing else.
fn one_liner(origin: SocketAddr) -> Command {
    let mut command = longhaul();
    command
        .args(["relay", "http", "127.0.0.1:0", &origin.to_string()])
        .args(["--prime", "off", "--pool-min-idle", "0", "--json"]);
    command
}

const PUT: &[u8] = b"PUT /b/k?X-Amz-Signature=5ec2e7 HTTP/1.1\r\nhoST: store.example\r\n\
    Authorization: AWS4-HMAC-SHA256 Credential=5ec2e7\r\nX-Odd:  two\r\nContent-Length: 5\r\n\r\nhello";

fn put(relay: &Relay) -> String {
    let mut client = TcpStream::connect(relay.address).unwrap();
    client.write_all(PUT).unwrap();
    let mut answer = [0; 64];
    let count = client.read(&mut answer).unwrap();
    String::from_utf8_lossy(&answer[..count]).into_owned()
}

#[test]
fn one_line_relays_bytes_unchanged_and_sigterm_drains_with_success() {
    let origin = Origin::start();
    let mut relay = Relay::start(&mut one_liner(origin.address));
    assert!(put(&relay).starts_with("HTTP/1.1 200 OK\r\n"));
    assert_eq!(origin.got.recv().unwrap(), PUT);
    let done = relay.event("request-done");
    assert_eq!(done["path"], "/b/k");
    assert_eq!(done["ended_by"], "completed");
    assert_eq!(
        (&done["bytes_up"], &done["bytes_down"]),
        (&5.into(), &2.into())
    );
    assert!(!done.to_string().contains("5ec2e7"), "{done}");
    relay.signal("TERM");
    let stopped = relay.event("stopped");
    assert_eq!(stopped["requests"], 1);
    assert_eq!(relay.child.wait().unwrap().code(), Some(0));
}

#[test]
fn a_request_under_way_is_finished_before_the_relay_ends() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let mut relay = Relay::start(&mut one_liner(listener.local_addr().unwrap()));
    let mut client = TcpStream::connect(relay.address).unwrap();
    client.write_all(PUT).unwrap();
    let (mut origin, _) = listener.accept().unwrap();
    assert_eq!(read_request(&mut origin).unwrap(), PUT);
    relay.signal("TERM");
    assert_eq!(relay.event("draining")["clients"], 1);
    origin
        .write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
        .unwrap();
    let mut answer = String::new();
    client.read_to_string(&mut answer).unwrap();
    assert!(answer.ends_with("ok"), "{answer}");
    assert_eq!(relay.event("stopped")["aborted"], 0);
    assert_eq!(relay.child.wait().unwrap().code(), Some(0));
}

#[test]
fn a_port_in_use_is_the_environments_fault_and_named() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let refused = run(longhaul().args(["relay", "http", &address, "127.0.0.1:9"]));
    assert_eq!(refused.code, Some(3), "{refused:?}");
    assert!(refused.stderr.contains(&address), "{refused:?}");
    assert!(refused.stderr.contains("in use"), "{refused:?}");
}

#[test]
fn log_lines_are_for_people_and_carry_no_secret() {
    let origin = Origin::start();
    let mut command = longhaul();
    command
        .args(["relay", "http", "127.0.0.1:0", &origin.address.to_string()])
        .args(["--prime", "off", "--pool-min-idle", "0"])
        .stdout(Stdio::null())
        .stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut log = BufReader::new(child.stderr.take().unwrap());
    let mut said = String::new();
    let address = loop {
        let start = said.len();
        assert_ne!(log.read_line(&mut said).unwrap(), 0, "{said}");
        if let Some((_, rest)) = said[start..].split_once("listening on ") {
            break rest.split_once(',').unwrap().0.parse().unwrap();
        }
    };
    let relay = Relay {
        events: None,
        child,
        address,
    };
    put(&relay);
    relay.signal("INT");
    log.read_to_string(&mut said).unwrap();
    assert!(said.contains(" PUT /b/k 200 in "), "{said}");
    assert!(said.contains("up 5 B, down 2 B"), "{said}");
    assert!(said.contains("completed\n"), "{said}");
    assert!(said.contains("stopped after 1 requests"), "{said}");
    assert!(!said.contains("5ec2e7") && !said.contains('{'), "{said}");
}

#[test]
fn a_printed_configuration_runs_and_checks_as_the_command_line_did() {
    let origin = Origin::start();
    let printed = run(one_liner(origin.address).arg("--print-config"));
    assert_eq!(printed.code, Some(0), "{printed:?}");
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), &printed.stdout).unwrap();

    let checked = run(longhaul()
        .args(["relay", "check", "--config"])
        .arg(file.path()));
    assert_eq!(checked.code, Some(0), "{checked:?}");
    for part in [
        "client side: profile `lan`",
        "TCP_NODELAY",
        "in effect true",
    ] {
        assert!(checked.stdout.contains(part), "{part}: {checked:?}");
    }

    let mut command = longhaul();
    command
        .args(["relay", "run", "--json", "--config", "-"])
        .stdin(std::fs::File::open(file.path()).unwrap());
    let relay = Relay::start(&mut command);
    assert!(put(&relay).starts_with("HTTP/1.1 200 OK\r\n"));
    assert_eq!(origin.got.recv().unwrap(), PUT);
}

#[test]
fn a_byte_stream_is_relayed_by_one_line_and_by_the_file_that_it_prints() {
    let service = TcpListener::bind("127.0.0.1:0").unwrap();
    let target = service.local_addr().unwrap().to_string();
    let arguments = ["relay", "tcp", "127.0.0.1:0", &target, "--send-proxy", "v1"];
    let printed = run(longhaul().args(arguments).arg("--print-config"));
    assert_eq!(printed.code, Some(0), "{printed:?}");
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), &printed.stdout).unwrap();
    let checked = run(longhaul()
        .args(["relay", "check", "--config"])
        .arg(file.path()));
    assert!(
        checked.stdout.contains("server side: profile `wan`"),
        "{checked:?}"
    );

    let mut by_file = longhaul();
    by_file
        .args(["relay", "run", "--json", "--config"])
        .arg(file.path());
    let mut by_line = longhaul();
    by_line.args(arguments).arg("--json");
    for mut command in [by_line, by_file] {
        let mut relay = Relay::start(&mut command);
        let mut client = TcpStream::connect(relay.address).unwrap();
        client.write_all(b"hello").unwrap();
        client.shutdown(std::net::Shutdown::Write).unwrap();
        let (mut server, _) = service.accept().unwrap();
        let mut got = String::new();
        server.read_to_string(&mut got).unwrap();
        assert!(got.starts_with("PROXY TCP4 127.0.0.1 127.0.0.1 "), "{got}");
        assert!(got.ends_with("\r\nhello"), "{got}");
        server.write_all(b"bye").unwrap();
        drop(server);
        got.clear();
        client.read_to_string(&mut got).unwrap();
        assert_eq!(got, "bye");
        let done = relay.event("connection-done");
        assert_eq!(done["ended_by"], "completed");
        assert_eq!(done["closed_first"], "client");
        assert_eq!(
            (&done["bytes_up"], &done["bytes_down"]),
            (&5.into(), &3.into())
        );
        assert!(done["server_side"]["rtt_s"].as_f64().unwrap() > 0.0);
        relay.signal("TERM");
        assert_eq!(relay.event("stopped")["connections"], 1);
        assert_eq!(relay.child.wait().unwrap().code(), Some(0));
    }
}

/// Sends a line as `openssl s_client` and returns what came back until the end.
fn say_with_openssl(address: SocketAddr, authority: &Path, line: &str) -> String {
    let mut client = Command::new("openssl")
        .args(["s_client", "-quiet", "-verify_return_error"])
        .args(["-verify_hostname", "store.example"])
        .args(["-servername", "store.example"])
        .args(["-connect", &address.to_string()])
        .arg("-CAfile")
        .arg(authority)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .expect("openssl is installed");
    let mut stdin = client.stdin.take().unwrap();
    stdin.write_all(line.as_bytes()).unwrap();
    let mut said = String::new();
    let mut stdout = client.stdout.take().unwrap();
    stdout.read_to_string(&mut said).unwrap();
    client.wait().unwrap();
    said
}

#[test]
fn a_certificate_of_ones_own_authority_lets_https_clients_through() {
    let directory = tempfile::tempdir().unwrap();
    let made = run(longhaul()
        .args(["relay", "ca", "store.example", "--dir"])
        .arg(directory.path()));
    assert_eq!(made.code, Some(0), "{made:?}");
    let authority = directory.path().join("ca.pem");
    for client in ["boto3", "aws-cli", "rclone", "Java", "Firefox", "Chrome"] {
        assert!(made.stdout.contains(client), "{client}: {made:?}");
    }
    assert!(
        made.stdout.contains(authority.to_str().unwrap()),
        "{made:?}"
    );

    let service = TcpListener::bind("127.0.0.1:0").unwrap();
    let target = service.local_addr().unwrap().to_string();
    let mut command = longhaul();
    command
        .args([
            "relay",
            "tls",
            "127.0.0.1:0",
            &target,
            "--upstream",
            "plain",
        ])
        .arg("--certificate")
        .arg(directory.path().join("store.example.pem"))
        .arg(directory.path().join("store.example.key"));
    let printed = run(command.arg("--print-config"));
    assert_eq!(printed.code, Some(0), "{printed:?}");
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), &printed.stdout).unwrap();
    let mut by_file = longhaul();
    by_file
        .args(["relay", "run", "--json", "--config"])
        .arg(file.path());
    let mut relay = Relay::start(&mut by_file);

    let serving = thread::spawn(move || {
        let (mut server, _) = service.accept().unwrap();
        let mut got = [0; 6];
        server.read_exact(&mut got).unwrap();
        server.write_all(b"bye").unwrap();
        got
    });
    assert_eq!(
        say_with_openssl(relay.address, &authority, "hello\n"),
        "bye"
    );
    assert_eq!(&serving.join().unwrap(), b"hello\n");
    let done = relay.event("connection-done");
    assert_eq!(done["client_tls"]["version"], "1.3");
    assert_eq!(done["client_tls"]["server_name"], "store.example");
}

#[test]
fn a_certificate_that_is_not_there_is_named_before_the_first_client() {
    let refused = run(longhaul()
        .args(["relay", "tls", "127.0.0.1:0", "127.0.0.1:9"])
        .args(["--certificate", "/nowhere/cert.pem", "/nowhere/key.pem"]));
    assert_eq!(refused.code, Some(3), "{refused:?}");
    assert!(refused.stderr.contains("/nowhere/cert.pem"), "{refused:?}");
}

#[test]
fn everything_that_is_wrong_with_a_configuration_is_told_at_once() {
    let file = tempfile::NamedTempFile::new().unwrap();
    let text = "[[http]]\nlisten = \"here\"\ntargett = \"store\"\nallow = [\"10.10.10.7/99\"]\n\
        [http.pool]\nmin-idle = 9\nmax-connections = \"3\"\n[http.limits]\nstreams = 0\n";
    std::fs::write(file.path(), text).unwrap();
    let refused = run(longhaul()
        .args(["relay", "check", "--config"])
        .arg(file.path()));
    assert_eq!(refused.code, Some(2), "{refused:?}");
    let name = file.path().display();
    let places = [
        "2:10: `here` is not an address and a port",
        "3:1: there is no key `targett` here",
        "4:10: `10.10.10.7/99` is not an address block",
        "7:19: wants a whole number, 0 or more, not \"3\"",
        "9:11: with 0 nobody could ask",
    ];
    for place in places {
        let told = format!("{name}:{place}");
        assert!(refused.stderr.contains(&told), "{told}: {refused:#?}");
    }
    let count = refused.stderr.matches(&format!("\n{name}:")).count();
    assert_eq!(count, places.len(), "{refused:#?}");
    assert!(
        refused
            .stderr
            .contains("targett = \"store\"\n      | ^^^^^^^ did you mean `target`?"),
        "{refused:#?}"
    );
}

/// States as the relay tells them, read as they come: the kernel keeps only a few that nobody reads.
fn heard(supervisor: UnixDatagram) -> Receiver<String> {
    let (sender, states) = channel();
    thread::spawn(move || {
        let mut bytes = [0; 256];
        while let Ok(count) = supervisor.recv(&mut bytes) {
            let state = String::from_utf8_lossy(&bytes[..count]).into_owned();
            if sender.send(state).is_err() {
                return;
            }
        }
    });
    states
}

/// The next of them that begins like this.
fn told(states: &Receiver<String>, beginning: &str) -> String {
    let deadline = Instant::now() + PATIENCE;
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        let state = states.recv_timeout(left).expect("the relay tells it");
        if state.starts_with(beginning) {
            return state;
        }
    }
}

#[test]
fn sighup_reloads_the_file_and_the_supervisor_is_told_of_every_state() {
    let service = TcpListener::bind("127.0.0.1:0").unwrap();
    let directory = tempfile::tempdir().unwrap();
    let (path, file) = (
        directory.path().join("notify"),
        directory.path().join("relay.toml"),
    );
    let supervisor = heard(UnixDatagram::bind(&path).unwrap());
    let text = format!(
        "[[tcp]]\nlisten = \"127.0.0.1:0\"\ntarget = \"{}\"\n",
        service.local_addr().unwrap()
    );
    std::fs::write(&file, &text).unwrap();
    let mut command = longhaul();
    command
        .args(["relay", "run", "--json", "--config"])
        .arg(&file)
        .env("NOTIFY_SOCKET", &path)
        .env("WATCHDOG_USEC", "100000");
    let mut relay = Relay::start(&mut command);
    assert_eq!(told(&supervisor, "READY"), "READY=1");
    told(&supervisor, "WATCHDOG=1");
    told(&supervisor, "WATCHDOG=1");

    let mut client = TcpStream::connect(relay.address).unwrap();
    let (mut server, _) = service.accept().unwrap();
    std::fs::write(&file, text.clone() + "[tcp.limits]\nconnections = 5\n").unwrap();
    relay.signal("HUP");
    assert_eq!(relay.event("reloaded")["listeners"], 1);
    assert!(told(&supervisor, "RELOADING=1").contains("MONOTONIC_USEC="));
    told(&supervisor, "READY=1");

    std::fs::write(&file, text + "[tcp.limit]\nconnections = 5\n").unwrap();
    relay.signal("HUP");
    let why = relay.event("reload-failed")["why"].to_string();
    assert!(
        why.contains("relay.toml:4:6: there is no key `limit` here; did you mean `limits`?"),
        "{why}"
    );
    told(&supervisor, "READY=1");
    client.write_all(b"still here").unwrap();
    let mut got = [0; 10];
    server.read_exact(&mut got).unwrap();
    assert_eq!(&got, b"still here");
    drop((client, server));
    relay.signal("TERM");
    told(&supervisor, "STOPPING=1");
    assert_eq!(relay.child.wait().unwrap().code(), Some(0));
}

#[test]
fn a_listener_that_the_supervisor_has_opened_is_taken_over() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let service = TcpListener::bind("127.0.0.1:0").unwrap();
    let mut command = socket_activated(&listener, "tcp", service.local_addr().unwrap());
    // Nobody is turned away while it starts: this waits in the kernel's queue.
    let mut client = TcpStream::connect(address).unwrap();
    let relay = Relay::start(&mut command);
    assert_eq!(relay.address, address);
    client.write_all(b"hello").unwrap();
    let (mut server, _) = service.accept().unwrap();
    let mut got = [0; 5];
    server.read_exact(&mut got).unwrap();
    assert_eq!(&got, b"hello");
}

/// Root may lock any amount; the kernel's account of the process shows that the relay did.
#[test]
fn a_running_relay_keeps_its_program_in_memory() {
    let relay = Relay::start(&mut one_liner(Origin::start().address));
    let status = std::fs::read_to_string(format!("/proc/{}/status", relay.child.id())).unwrap();
    let locked = status.lines().find_map(|line| line.strip_prefix("VmLck:"));
    assert_ne!(locked.unwrap().trim(), "0 kB");
}

/// What a process was started with, or has started itself again with.
fn environment(process: &Child) -> Vec<String> {
    let variables = std::fs::read(format!("/proc/{}/environ", process.id())).unwrap();
    String::from_utf8_lossy(&variables)
        .split_terminator('\0')
        .map(str::to_owned)
        .collect()
}

#[test]
fn who_has_tuned_copies_of_memory_is_left_alone() {
    let tunables = "glibc.cpu.x86_rep_movsb_threshold=4096";
    let mut command = one_liner(Origin::start().address);
    let relay = Relay::start(command.env("GLIBC_TUNABLES", tunables));
    let environment = environment(&relay.child);
    assert!(environment.contains(&format!("GLIBC_TUNABLES={tunables}")));
    assert!(
        !environment
            .iter()
            .any(|variable| variable.starts_with("LONGHAUL_STARTED_AGAIN"))
    );
}

/// Where copies are slow, the process that a supervisor has started is the one that serves, with all that it was given.
#[test]
fn a_relay_that_starts_itself_again_keeps_its_input_and_its_place() {
    let slow = sys::copying::slowdown() >= sys::copying::SLOW;
    let origin = Origin::start();
    let mut file = tempfile::tempfile().unwrap();
    let config = format!(
        "[[http]]\nlisten = \"127.0.0.1:0\"\ntarget = \"{}\"\nprime = {{ enabled = false }}\n",
        origin.address
    );
    file.write_all(config.as_bytes()).unwrap();
    file.rewind().unwrap();
    let mut command = longhaul();
    command
        .args(["relay", "run", "--json", "--config", "-"])
        .env("GLIBC_TUNABLES", "glibc.malloc.perturb=0")
        .stdin(file);
    let relay = Relay::start(&mut command);
    assert!(put(&relay).starts_with("HTTP/1.1 200 OK\r\n"));
    let environment = environment(&relay.child);
    let tunables = if slow {
        format!(
            "GLIBC_TUNABLES=glibc.malloc.perturb=0:{}",
            sys::copying::TUNABLE
        )
    } else {
        "GLIBC_TUNABLES=glibc.malloc.perturb=0".to_owned()
    };
    // glibc ends each tunable with a zero where it has read it.
    assert!(environment.join(":").contains(&tunables), "{environment:?}");
}

#[test]
fn help_teaches_with_examples() {
    let help = run(longhaul().args(["relay", "http", "--help"]));
    assert_eq!(help.code, Some(0));
    for part in [
        "longhaul relay http 0.0.0.0:80 store.example:80",
        "tcp_slow_start_after_idle=0",
        "Default: loopback",
    ] {
        assert!(help.stdout.contains(part), "{part}: {}", help.stdout);
    }
    let help = run(longhaul().args(["relay", "--help"]));
    for verb in ["http", "tcp", "tls", "run", "check", "ca"] {
        assert!(help.stdout.contains(verb), "{verb}: {}", help.stdout);
    }
}
