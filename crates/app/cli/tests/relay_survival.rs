//! What happens around a running relay, and must not end what passes through it: a disk that is full, a kernel without
//! buffers, and the death of the relay's own process.

#![allow(missing_docs, reason = "a test has its name")]
#![allow(clippy::unwrap_used, reason = "tests fail by panicking")]

mod common;

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use serde_json::Value;
use tempfile::TempDir;

use common::{longhaul, socket_activated};

/// Longer than anything here takes on a busy machine; only a hang meets it.
const PATIENCE: Duration = Duration::from_mins(1);

/// The disk: 64 pages, of which the filler takes all but eight.
const DISK: &str = "size=256k";
const FILLER: usize = 56 * 4096;

/// Mounts the disk where nobody else sees it, fills it, and becomes the relay. `$0` is the mount point, `$1` the
/// stream that goes to the disk.
const ON_A_FULL_DISK: &str = "set -e
    mount -t tmpfs -o \"$DISK\" none \"$0\"
    head -c \"$FILLER\" /dev/zero > \"$0/filler\"
    stream=$1; shift
    if [ \"$stream\" = stdout ]; then exec \"$@\" >> \"$0/log\"; else exec \"$@\" 2>> \"$0/log\"; fi";

/// A service that sends back what it gets, for as long as the test runs.
fn echo() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            thread::spawn(move || {
                let mut reader = stream.try_clone().unwrap();
                // A relay that is killed resets this.
                let _ = io::copy(&mut reader, &mut stream);
                let _ = stream.shutdown(std::net::Shutdown::Write);
            });
        }
    });
    address
}

/// A client that gets back what it sends.
fn converse(relay: SocketAddr) -> io::Result<()> {
    let mut client = TcpStream::connect(relay)?;
    client.set_read_timeout(Some(PATIENCE))?;
    let sent: Vec<u8> = (0..5000_u32)
        .map(|at| u8::try_from(at % 251).unwrap())
        .collect();
    client.write_all(&sent)?;
    client.shutdown(std::net::Shutdown::Write)?;
    let mut got = Vec::new();
    client.read_to_end(&mut got)?;
    assert!(
        sent.starts_with(&got),
        "{} bytes, others than were sent",
        got.len()
    );
    if got.len() < sent.len() {
        // What a killed process leaves open, the kernel ends as if all had been said.
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    Ok(())
}

/// Waits until `find` finds something.
fn wait_for<T>(what: &str, mut find: impl FnMut() -> Option<T>) -> T {
    let deadline = Instant::now() + PATIENCE;
    loop {
        if let Some(found) = find() {
            return found;
        }
        assert!(Instant::now() < deadline, "{what}");
        thread::sleep(Duration::from_millis(20));
    }
}

/// A process that is killed with the test that started it.
struct Killed(Child);

impl Drop for Killed {
    fn drop(&mut self) {
        // Already gone where the test went well.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A relay whose log is on a full disk of its own.
struct OnAFullDisk {
    relay: Killed,
    /// The disk, as the relay sees it.
    disk: PathBuf,
    /// Where it is mounted: removed before, it would take the mount with it.
    _folder: TempDir,
    /// What it says elsewhere.
    aside: Arc<Mutex<String>>,
    address: SocketAddr,
    admin: SocketAddr,
}

impl OnAFullDisk {
    fn start(service: SocketAddr, stream: &str, flags: &[&str]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let mut command = Command::new("unshare");
        command
            .args(["--mount", "--propagation", "private", "sh", "-c"])
            .arg(ON_A_FULL_DISK)
            .arg(folder.path())
            .arg(stream)
            .arg(longhaul().get_program())
            .args(["relay", "tcp", "127.0.0.1:0", &service.to_string()])
            .args(["--admin", "127.0.0.1:0"])
            .args(flags)
            .env("DISK", DISK)
            .env("FILLER", FILLER.to_string())
            .env("NO_COLOR", "1")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let mut child = command.spawn().expect("unshare is installed");
        let aside = Arc::new(Mutex::new(String::new()));
        let listening = Arc::clone(&aside);
        let (stdout, stderr) = (child.stdout.take().unwrap(), child.stderr.take().unwrap());
        thread::spawn(move || {
            // The one that goes to the disk ends at once.
            let both = BufReader::new(stdout.chain(stderr));
            for line in both.lines() {
                *listening.lock().unwrap() += &(line.unwrap() + "\n");
            }
        });
        let disk = PathBuf::from(format!("/proc/{}/root", child.id()));
        let disk = disk.join(folder.path().strip_prefix("/").unwrap());
        let mut started = Self {
            relay: Killed(child),
            disk,
            _folder: folder,
            aside,
            address: SocketAddr::from(([0, 0, 0, 0], 0)),
            admin: SocketAddr::from(([0, 0, 0, 0], 0)),
        };
        wait_for("it is ready", || {
            let log = started.log();
            (log.contains("\"ready\"") || log.contains(" ready: ")).then_some(())
        });
        let log = started.log();
        started.address = address_in(&log, &["\"listening\",\"address\":\"", "listening on "]);
        started.admin = address_in(&log, &["\"admin\",\"address\":\"", "administration on "]);
        started
    }

    fn log(&self) -> String {
        // Not there before the disk is.
        let log = fs::read(self.disk.join("log")).unwrap_or_default();
        String::from_utf8_lossy(&log).into_owned()
    }

    /// Lines of the log that the relay has counted as lost.
    fn lost(&self) -> u64 {
        let mut stream = TcpStream::connect(self.admin).unwrap();
        let request = format!(
            "GET /metrics HTTP/1.1\r\nHost: {}\r\nConnection: close\r\n\r\n",
            self.admin
        );
        stream.write_all(request.as_bytes()).unwrap();
        let mut metrics = String::new();
        stream.read_to_string(&mut metrics).unwrap();
        let series = "longhaul_lines_lost_total{file=\"log\",why=\"not-written\"} ";
        let (_, count) = metrics.split_once(series).expect("the metric is there");
        count.lines().next().unwrap().parse().unwrap()
    }

    /// Processor time so far.
    fn worked(&self) -> Duration {
        let stat = fs::read_to_string(format!("/proc/{}/stat", self.relay.0.id())).unwrap();
        let (_, fields) = stat.rsplit_once(") ").unwrap();
        let fields: Vec<&str> = fields.split(' ').collect();
        let ticks: u64 = [11, 12]
            .map(|at: usize| fields[at].parse::<u64>().unwrap())
            .iter()
            .sum();
        Duration::from_millis(ticks * 10)
    }
}

/// The address behind the first of these beginnings that is there.
fn address_in(log: &str, beginnings: &[&str]) -> SocketAddr {
    let found = beginnings
        .iter()
        .find_map(|beginning| log.split_once(beginning));
    let (_, rest) = found.unwrap_or_else(|| panic!("no address: {log}"));
    let end = rest.find(['"', ',', '/', ' ', '\n']).unwrap_or(rest.len());
    rest[..end].parse().unwrap()
}

/// Clients until lines were lost, and a good number beyond that.
fn fill(relay: &OnAFullDisk) -> u64 {
    wait_for("the disk is full", || {
        for _ in 0..50 {
            converse(relay.address).unwrap();
        }
        Some(relay.lost()).filter(|&lost| lost > 100)
    })
}

/// Waits for the line that tells of the loss and has this word; how many lines were lost.
fn told_of(relay: &OnAFullDisk, word: &str) -> u64 {
    let lost = relay.lost();
    converse(relay.address).unwrap();
    let warning = wait_for("the loss is told of", || {
        let log = relay.log();
        log.lines()
            .find(|line| line.contains(word))
            .map(str::to_owned)
    });
    assert!(
        warning.contains(&format!("{lost} events were lost")),
        "{warning}, {lost} counted"
    );
    assert!(warning.contains("No space left on device"), "{warning}");
    lost
}

#[test]
fn a_full_disk_costs_events_and_no_connection_and_is_told_of_once_and_counted() {
    let service = echo();
    let relay = OnAFullDisk::start(service, "stdout", &["--json"]);
    fill(&relay);
    // Nothing is tried again: with nobody there, the relay rests.
    let before = relay.worked();
    thread::sleep(Duration::from_secs(2));
    let worked = relay.worked().saturating_sub(before);
    assert!(worked < Duration::from_millis(200), "{worked:?} of 2 s");
    let aside = relay.aside.lock().unwrap().clone();
    assert_eq!(
        aside.matches("No space left on device").count(),
        1,
        "{aside}"
    );

    fs::remove_file(relay.disk.join("filler")).unwrap();
    let lost = told_of(&relay, "events-lost");
    converse(relay.address).unwrap();
    wait_for("events are written again", || {
        let log = relay.log();
        let (_, after) = log.split_once("events-lost")?;
        after.contains("connection-done").then_some(())
    });
    // What was cut short stands on a line of its own.
    let log = relay.log();
    let broken = log
        .lines()
        .filter(|line| serde_json::from_str::<Value>(line).is_err());
    assert!(broken.count() <= 1, "{log}");
    assert_eq!(relay.lost(), lost);
}

#[test]
fn a_log_on_a_full_disk_costs_its_lines_and_no_connection() {
    let service = echo();
    let relay = OnAFullDisk::start(service, "stderr", &[]);
    fill(&relay);
    fs::remove_file(relay.disk.join("filler")).unwrap();
    told_of(&relay, "[events-lost]");
}

/// As `Restart=always` does it: whenever the relay is gone, another is started with the same socket.
struct Supervisor {
    stop: Arc<AtomicBool>,
    process: Arc<AtomicU32>,
    thread: Option<JoinHandle<()>>,
}

impl Supervisor {
    fn start(socket: TcpListener, service: SocketAddr, mode: &'static str) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let process = Arc::new(AtomicU32::new(0));
        let (stopped, running) = (Arc::clone(&stop), Arc::clone(&process));
        let thread = thread::spawn(move || {
            while !stopped.load(Ordering::SeqCst) {
                let mut relay = Killed(relay_with(&socket, service, mode).spawn().unwrap());
                running.store(relay.0.id(), Ordering::SeqCst);
                while relay.0.try_wait().unwrap().is_none() {
                    if stopped.load(Ordering::SeqCst) {
                        return;
                    }
                    thread::sleep(Duration::from_millis(5));
                }
                running.store(0, Ordering::SeqCst);
            }
        });
        Self {
            stop,
            process,
            thread: Some(thread),
        }
    }

    /// Kills the relay as nothing can prevent, and returns which process that was.
    fn kill(&self) -> u32 {
        let id = wait_for("a relay runs", || {
            Some(self.process.load(Ordering::SeqCst)).filter(|&id| id != 0)
        });
        let kill = Command::new("kill")
            .args(["-KILL", &id.to_string()])
            .status();
        assert!(kill.unwrap().success());
        id
    }
}

impl Drop for Supervisor {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::SeqCst);
        if let Some(thread) = self.thread.take() {
            // Its panic has been told of.
            let _ = thread.join();
        }
    }
}

fn relay_with(socket: &TcpListener, service: SocketAddr, mode: &str) -> Command {
    let mut command = socket_activated(socket, mode, service);
    command.stdout(Stdio::null()).stderr(Stdio::null());
    if mode == "http" {
        command.args(["--prime", "off", "--pool-min-idle", "1"]);
    }
    command
}

/// What became of clients that come one after the other.
#[derive(Default)]
struct Clients {
    stop: AtomicBool,
    served: AtomicUsize,
    cut_off: AtomicUsize,
    refused: AtomicUsize,
}

impl Clients {
    fn come(&self, ask: impl Fn() -> io::Result<()>) {
        while !self.stop.load(Ordering::SeqCst) {
            let outcome = match ask() {
                Ok(()) => &self.served,
                Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => &self.refused,
                Err(_) => &self.cut_off,
            };
            outcome.fetch_add(1, Ordering::SeqCst);
        }
    }
}

/// Kills a relay five times under load. Its clients are cut off at most once per connection and death, and nobody is ever
/// refused.
fn survive_kills(mode: &'static str, service: SocketAddr, ask: fn(SocketAddr) -> io::Result<()>) {
    const KILLS: usize = 5;
    const CLIENTS: usize = 4;
    let socket = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = socket.local_addr().unwrap();
    let supervisor = Supervisor::start(socket, service, mode);
    let clients = Arc::new(Clients::default());
    let coming: Vec<_> = (0..CLIENTS)
        .map(|_| {
            let clients = Arc::clone(&clients);
            thread::spawn(move || clients.come(|| ask(address)))
        })
        .collect();
    let served = || clients.served.load(Ordering::SeqCst);
    let mut killed = Vec::new();
    for _ in 0..KILLS {
        let before = served();
        wait_for("clients are served", || {
            (served() > before + 50).then_some(())
        });
        killed.push(supervisor.kill());
    }
    let before = served();
    wait_for("clients are served after the last death", || {
        (served() > before + 50).then_some(())
    });
    clients.stop.store(true, Ordering::SeqCst);
    for client in coming {
        client.join().unwrap();
    }
    killed.dedup();
    assert_eq!(killed.len(), KILLS, "each was another process: {killed:?}");
    assert_eq!(clients.refused.load(Ordering::SeqCst), 0);
    let cut_off = clients.cut_off.load(Ordering::SeqCst);
    assert!(cut_off <= CLIENTS * KILLS, "{cut_off}");
}

#[test]
fn a_byte_stream_relay_that_is_killed_is_started_again_and_nobody_is_refused() {
    survive_kills("tcp", echo(), converse);
}

#[test]
fn an_http_relay_that_is_killed_is_started_again_and_nobody_is_refused() {
    survive_kills("http", origin(), |relay| {
        let mut client = TcpStream::connect(relay)?;
        client.set_read_timeout(Some(PATIENCE))?;
        client.write_all(b"GET / HTTP/1.1\r\nHost: o\r\nConnection: close\r\n\r\n")?;
        let mut answer = String::new();
        client.read_to_string(&mut answer)?;
        if answer.starts_with("HTTP/1.1 200") && answer.ends_with("\r\n\r\nok") {
            return Ok(());
        }
        Err(io::Error::other(answer))
    });
}

/// Answers every request.
fn origin() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            thread::spawn(move || {
                let lines = BufReader::new(stream.try_clone().unwrap()).lines();
                // A relay that is killed resets this.
                for line in lines.map_while(Result::ok) {
                    let answer = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";
                    if line.is_empty() && stream.write_all(answer).is_err() {
                        return;
                    }
                }
            });
        }
    });
    address
}

/// accept(2) fails so often for each thread that calls it.
const REFUSALS: usize = 5;

/// Nothing brings a real kernel to it on purpose: a tracer answers in its stead.
#[test]
fn a_kernel_without_buffers_is_asked_again_at_growing_distance_and_told_of() {
    let folder = tempfile::tempdir().unwrap();
    let calls = folder.path().join("calls");
    let mut command = Command::new("strace");
    command
        // The relay is this test's child, and the tracer ends with it.
        .args(["-D", "-f", "-qq", "-ttt", "-e", "trace=accept4", "-e"])
        .arg(format!("inject=accept4:error=ENOBUFS:when=1..{REFUSALS}"))
        .arg("-o")
        .arg(&calls)
        .arg(longhaul().get_program())
        .args(["relay", "tcp", "127.0.0.1:0", &echo().to_string(), "--json"])
        .stdout(Stdio::piped())
        .stderr(Stdio::null());
    let mut relay = Killed(command.spawn().expect("strace is installed"));
    let mut events = BufReader::new(relay.0.stdout.take().unwrap());
    let listening = next(&mut events, "listening");
    let address: SocketAddr = listening["address"].as_str().unwrap().parse().unwrap();
    converse(address).unwrap();
    let warning = next(&mut events, "warning");
    assert_eq!(warning["name"], "accept-shortage");
    let text = warning["text"].as_str().unwrap();
    assert!(text.contains("No buffer space available"), "{text}");
    assert_eq!(
        next(&mut events, "connection-done")["ended_by"],
        "completed"
    );
    let calls = fs::read_to_string(&calls).unwrap();
    // `THREAD SECONDS accept4(...) = -1 ENOBUFS ...`
    let mut refused: BTreeMap<&str, Vec<f64>> = BTreeMap::new();
    for call in calls.lines().filter(|call| call.contains("ENOBUFS")) {
        let mut words = call.split_whitespace();
        let (thread, at) = (words.next().unwrap(), words.next().unwrap());
        refused.entry(thread).or_default().push(at.parse().unwrap());
    }
    // All threads wait for the end of the same pause, so each is refused once between two, and all pauses lie between its first
    // refusal and its last.
    let first = refused
        .values()
        .map(|times| times[0])
        .fold(f64::MAX, f64::min);
    let pauses = 0.02 + 0.04 + 0.08 + 0.16;
    let mut all = refused.values().filter_map(|times| times.get(REFUSALS - 1));
    let last = all.next().expect("one thread was refused so often");
    for last in all.chain([last]) {
        assert!(last - first >= pauses, "it spins:\n{calls}");
    }
}

/// The key log, too, may be on the disk.
#[test]
fn a_key_log_that_cannot_be_written_costs_no_handshake() {
    let folder = tempfile::tempdir().unwrap();
    let made = common::run(
        longhaul()
            .args(["relay", "ca", "localhost", "--dir"])
            .arg(folder.path()),
    );
    assert_eq!(made.code, Some(0), "{made:?}");
    let file = |name: &str| folder.path().join(name);
    let mut command = longhaul();
    command
        .args(["relay", "tls", "127.0.0.1:0", &echo().to_string()])
        .args(["--upstream", "plain", "--key-log", "/dev/full", "--json"])
        .arg("--certificate")
        .args([file("localhost.pem"), file("localhost.key")])
        .stdout(Stdio::piped())
        .stderr(Stdio::null());
    let mut relay = Killed(command.spawn().unwrap());
    let mut events = BufReader::new(relay.0.stdout.take().unwrap());
    let address = next(&mut events, "listening")["address"]
        .as_str()
        .unwrap()
        .to_owned();
    let said = say_with_openssl(&address, &file("ca.pem"));
    assert_eq!(said, "hello\n");
    assert_eq!(
        next(&mut events, "connection-done")["client_tls"]["version"],
        "1.3"
    );
}

fn next(events: &mut impl io::BufRead, name: &str) -> Value {
    loop {
        let mut line = String::new();
        assert_ne!(events.read_line(&mut line).unwrap(), 0, "no `{name}`");
        let event: Value = serde_json::from_str(&line).unwrap();
        if event["event"] == name {
            return event;
        }
    }
}

/// Says hello, and returns what comes back.
fn say_with_openssl(address: &str, authority: &Path) -> String {
    let mut client = Command::new("openssl")
        .args(["s_client", "-quiet", "-verify_return_error"])
        .args(["-servername", "localhost", "-connect", address, "-CAfile"])
        .arg(authority)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .expect("openssl is installed");
    client
        .stdin
        .as_mut()
        .unwrap()
        .write_all(b"hello\n")
        .unwrap();
    let mut said = [0; 6];
    client
        .stdout
        .as_mut()
        .unwrap()
        .read_exact(&mut said)
        .unwrap();
    // It would wait for the server's end.
    client.kill().unwrap();
    client.wait().unwrap();
    String::from_utf8_lossy(&said).into_owned()
}
