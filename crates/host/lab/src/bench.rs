//! The bench an experiment works on: hosts in namespaces, the link between them, the origin at its end,
//! relays, clients and captures. It knows how to do one thing at a time; [`experiment`](crate::experiment)
//! decides what and how often.

mod command;
mod explain;
mod topology;

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use record::lab::Priming;
use scenario::{HostName, Scenario};
use serde::Deserialize;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use units::Bytes;

use crate::experiment::apparatus::Apparatus;
use crate::probe::{self, Depth, End, PathReading, ProbeError};
use crate::tap::Tap;
use crate::worker::Worker;
use comparison::{SplitMix64, Transfer};

pub use crate::tap::TapError;
pub use crate::worker::WorkerError;
use command::Placeholders;
pub use explain::ExplainError;
use topology::Topology;
pub use topology::TopologyError;

/// How long a process may take to get ready. Generous: two busy cores start slowly.
const READY: Duration = Duration::from_secs(20);
/// How long a pool may take to be primed.
const PRIMED: Duration = Duration::from_mins(1);
/// How long a process may take from letting its devices go to its end.
const DYING: Duration = Duration::from_secs(1);
/// Longest upload that is waited for.
const UPLOAD: Duration = Duration::from_mins(5);
/// How long after a command's end its object may be on its way to our ears.
const STORED: Duration = Duration::from_secs(5);
/// What errors say that the lab waited for.
const AN_UPLOAD: &str = "the end of an upload";
const A_MEASUREMENT: &str = "the path's measurement";

/// Keys of the lab's own store; they protect nothing.
const ACCESS_KEY: &str = "longhaul-lab";
const SECRET_KEY: &str = "longhaul-lab-secret";
const BUCKET: &str = "lab";

/// The bench of one scenario.
#[derive(Debug)]
pub struct Bench {
    binary: PathBuf,
    out: PathBuf,
    seed: u64,
    scenario: Scenario,
    topology: Topology,
    /// Ends with the bench; the path is down without it.
    link: Worker,
    origin: Worker,
    relays: BTreeMap<String, RunningRelay>,
    /// The capture at the client.
    tap: Option<Tap>,
    facts: BTreeMap<String, String>,
    /// Why the link has no real-time priority, where it has none.
    unpunctual: Option<String>,
}

/// The bench could not be built, or broke.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BenchError {
    /// A folder of results could not be made.
    #[error("cannot make `{}`", path.display())]
    Folder {
        /// The folder.
        path: PathBuf,
        /// What the kernel said.
        #[source]
        source: io::Error,
    },
    /// Namespaces, devices or routes.
    #[error("cannot build the network of the scenario")]
    Topology(#[source] TopologyError),
    /// A process of the scenario.
    #[error(transparent)]
    Worker(#[from] WorkerError),
    /// The path could not be measured at all.
    #[error("cannot measure the path")]
    Probe(#[source] ProbeError),
    /// The capture.
    #[error("cannot capture at the client")]
    Capture(#[source] TapError),
    /// `explain` could not be run on a capture.
    #[error("cannot explain a capture")]
    Explain(#[source] ExplainError),
    /// The object that an external command uploads could not be written.
    #[error("cannot write the object `{}`", path.display())]
    Object {
        /// The file.
        path: PathBuf,
        /// What the kernel said.
        #[source]
        source: io::Error,
    },
    /// The external command could not be started or watched.
    #[error("cannot run the client command `{command}`")]
    Command {
        /// As it was given to the shell.
        command: String,
        /// What the kernel said.
        #[source]
        source: io::Error,
    },
}

// === impl Bench ===

impl Bench {
    /// Namespaces, devices, link and origin of `scenario`, ready for transfers.
    pub fn build(
        scenario: &Scenario,
        binary: &Path,
        out: &Path,
        seed: u64,
    ) -> Result<Self, BenchError> {
        for folder in ["captures", "logs", "objects"] {
            let path = out.join(folder);
            fs::create_dir_all(&path).map_err(|source| BenchError::Folder { path, source })?;
        }
        let logs = out.join("logs");
        let mut topology = Topology::build(scenario, &logs).map_err(BenchError::Topology)?;
        let mut facts = topology.facts();
        let (command, setup) = topology
            .link_command(binary, scenario.path.spec(seed))
            .map_err(BenchError::Topology)?;
        let mut link = Worker::start("link", command, &setup, &logs)?;
        let realtime = link.wait_for("that it is ready", READY, |line| {
            (line["event"] == "ready").then(|| line["realtime"].clone())
        })?;
        let scheduling = plain(&realtime["scheduling"]);
        facts.insert("link: real-time priority".to_owned(), scheduling.clone());
        let unpunctual = (realtime["granted"] != true).then_some(scheduling);
        Ok(Self {
            origin: start_origin(scenario, binary, &topology, &logs)?,
            binary: binary.to_owned(),
            out: out.to_owned(),
            seed,
            scenario: scenario.clone(),
            link,
            relays: BTreeMap::new(),
            tap: None,
            facts,
            unpunctual,
            topology,
        })
    }
}

impl Apparatus for Bench {
    fn has_relay(&self, name: &str) -> bool {
        self.relays.contains_key(name)
    }

    fn start_relay(&mut self, name: &str, arm: &str) -> Result<Priming, BenchError> {
        let spec = self.scenario.relays.get(name).cloned().unwrap_or_default();
        let (origin, port) = (&self.scenario.origin.name, self.scenario.origin.port);
        let resolve = Some((origin.as_str(), topology::ORIGIN));
        let mut command = self.command(HostName::Relay, &self.binary, resolve)?;
        command.args(["relay", "http", "--json", "--server-profile", "s3"]);
        command.args(["--pool-min-idle", &spec.pool_min_idle.to_string()]);
        command.args(["--prime", if spec.prime { "on" } else { "off" }]);
        if let Some(window) = spec.hot_window {
            command.args(["--hot-window", &window.to_string()]);
        }
        if spec.knows_path_rate {
            command.args([
                "--path-rate",
                &self.scenario.path.bottleneck_rate().to_string(),
            ]);
        }
        command.arg(format!("{}:{port}", self.address_of(Some(name))));
        command.arg(format!("{origin}:{port}"));

        // From before the first SYN, so that everything about its connections is known.
        let capture = self
            .out
            .join("captures")
            .join(format!("at-relay-{name}.pcapng"));
        let host = self.topology.namespace(HostName::Relay);
        let tap = Tap::start(host, topology::DEVICE, &capture).map_err(BenchError::Capture)?;
        let logs = self.out.join("logs");
        let mut relay = Worker::start(&format!("relay-{name}"), command, &(), &logs)?;
        let mut priming = Priming {
            arm: arm.to_owned(),
            ..Priming::default()
        };
        relay.wait_for("that its pool is ready", PRIMED, |line| {
            note_priming(&mut priming, line);
            (line["event"] == "pool-ready").then_some(())
        })?;
        self.relays.insert(
            name.to_owned(),
            RunningRelay {
                process: relay,
                tap,
                capture,
            },
        );
        Ok(priming)
    }

    fn stop_relay(&mut self, name: &str) -> Result<Option<PathBuf>, BenchError> {
        let Some(relay) = self.relays.remove(name) else {
            return Ok(None);
        };
        relay.tap.stop().map_err(BenchError::Capture)?;
        Ok(Some(relay.capture))
    }

    fn is_origin(&self, host: &str) -> bool {
        host == topology::ORIGIN.to_string()
    }

    fn upload(
        &mut self,
        relay: Option<&str>,
        bytes: Bytes,
        count: u32,
        reuse: bool,
        name: &str,
    ) -> Result<Vec<Transfer>, BenchError> {
        let resolve = Some((self.scenario.origin.name.as_str(), self.address_of(relay)));
        let mut command = self.command(HostName::Client, &self.binary, resolve)?;
        command.args(["lab", "worker", "client"]);
        let config = json!({
            "endpoint": self.endpoint(),
            "bucket": BUCKET,
            "key-prefix": name,
            "credentials": { "access-key": ACCESS_KEY, "secret-key": SECRET_KEY },
            "sizes": [bytes.get()],
            "first-index": 0,
            "transfers": count,
            "seed": self.seed,
            "reuse": reuse,
            "timeout-s": UPLOAD.as_secs_f64(),
        });
        let mut client = Worker::start("client", command, &config, &self.out.join("logs"))?;
        let mut transfers = Vec::new();
        for position in 0..count as usize {
            let uploaded = |line: &Value| serde_json::from_value::<Uploaded>(line.clone()).ok();
            let upload =
                client.wait_watching(AN_UPLOAD, UPLOAD, uploaded, || self.expect_all_alive())?;
            let failure = match upload.error {
                Some(error) => {
                    self.expect_all_alive()?;
                    Some(error)
                }
                None => self.difference_to_sent(&upload.objects)?,
            };
            transfers.push(Transfer {
                position,
                seconds: upload.seconds,
                bytes: if failure.is_none() { bytes.get() } else { 0 },
                failure,
                ..Transfer::default()
            });
        }
        Ok(transfers)
    }

    fn upload_by_command(
        &mut self,
        command: &str,
        relay: Option<&str>,
        bytes: Bytes,
        name: &str,
        position: usize,
    ) -> Result<Transfer, BenchError> {
        let object = self.write_object(bytes, name)?;
        let placeholders = Placeholders::new([
            ("file", object.path.display().to_string()),
            ("size", bytes.get().to_string()),
            ("bucket", BUCKET.to_owned()),
            ("key", object.name.clone()),
            ("url", self.endpoint()),
        ]);
        let line = placeholders.fill(command);
        let resolve = Some((self.scenario.origin.name.as_str(), self.address_of(relay)));
        let mut shell = self.command(HostName::Client, "/bin/sh", resolve)?;
        shell.args(["-c", &line]);
        command::give_credentials(&mut shell, ACCESS_KEY, SECRET_KEY, &self.endpoint());
        let fail = |source| BenchError::Command {
            command: line.clone(),
            source,
        };
        // What an earlier command left at the origin must not be taken for this one's.
        while self.origin.take(stored_digest).is_some() {}
        let log = self.out.join("logs").join("client-command.log");
        let mut watch = || self.expect_all_alive();
        let ended = command::run(shell, &log, UPLOAD, &mut watch).map_err(fail)??;
        let failure = match ended.failure {
            Some(failure) => {
                self.expect_all_alive()?;
                Some(failure)
            }
            None => self.difference_to_only_stored(&object.sha256)?,
        };
        fs::remove_file(&object.path).map_err(fail)?;
        Ok(Transfer {
            position,
            seconds: ended.seconds,
            bytes: if failure.is_none() { bytes.get() } else { 0 },
            failure,
            ..Transfer::default()
        })
    }

    fn start_capture(&mut self, file: &Path) -> Result<(), BenchError> {
        let client = self.topology.namespace(HostName::Client);
        let tap = Tap::start(client, topology::DEVICE, file).map_err(BenchError::Capture)?;
        self.tap = Some(tap);
        Ok(())
    }

    fn stop_capture(&mut self) -> Result<(), BenchError> {
        self.tap
            .take()
            .map_or(Ok(()), Tap::stop)
            .map_err(BenchError::Capture)
    }

    fn check_path(&mut self, depth: Depth) -> Result<PathReading, BenchError> {
        // Without its link the path is gone, and the probe would only say that.
        self.link.expect_alive(A_MEASUREMENT)?;
        let end = |host, address: Ipv4Addr| End {
            namespace: self.topology.namespace(host),
            address: address.into(),
        };
        let near = end(HostName::Client, topology::CLIENT);
        let far = end(HostName::Origin, topology::ORIGIN);
        let spec = self.scenario.path.spec(self.seed);
        let measured = probe::measure(&spec, near, far, depth);
        if measured.is_err() {
            // It may have ended meanwhile, and says more about why than the probe can.
            self.link.expect_not_dying(A_MEASUREMENT, DYING)?;
        }
        measured.map_err(BenchError::Probe)
    }

    fn explain(
        &self,
        captures: &[PathBuf],
        series: bool,
    ) -> Result<record::explain::Document, BenchError> {
        explain::explain(&self.binary, captures, series).map_err(BenchError::Explain)
    }

    fn facts(&mut self) -> Result<BTreeMap<String, String>, BenchError> {
        self.link.ask()?;
        let counters = self.link.wait_for("its counters", READY, |line| {
            (line["event"] == "counters").then(|| line.clone())
        })?;
        let mut facts = self.facts.clone();
        for part in ["forward", "backward", "lateness"] {
            facts.insert(format!("link: {part}"), plain(&counters[part]));
        }
        Ok(facts)
    }

    fn unpunctual(&self) -> Option<&str> {
        self.unpunctual.as_deref()
    }
}

impl Bench {
    /// Compares every object that a client sent with what the origin says of it.
    fn difference_to_sent(&mut self, sent: &[Sent]) -> Result<Option<String>, BenchError> {
        for object in sent {
            let difference = self.difference_to_stored(&object.key, &object.sha256)?;
            if difference.is_some() {
                return Ok(difference);
            }
        }
        Ok(None)
    }

    /// Waits for the origin's own report of the object `key` and compares digests.
    fn difference_to_stored(
        &mut self,
        key: &str,
        sent: &str,
    ) -> Result<Option<String>, BenchError> {
        // The event leaves the origin before its response does: it is here, or nearly so.
        let stored = self.origin.wait_for("what it stored", READY, |line| {
            (line["key"] == key).then(|| stored_digest(line)).flatten()
        })?;
        Ok(difference(sent, &stored))
    }

    /// Compares the digest of what a command stored; it chooses its keys itself, so that order must tell.
    fn difference_to_only_stored(&mut self, sent: &str) -> Result<Option<String>, BenchError> {
        let stored = match self
            .origin
            .wait_for("what it stored", STORED, stored_digest)
        {
            Ok(stored) => stored,
            Err(WorkerError::Silent { .. }) => {
                let why = "the client command ended with success, but the origin stored nothing";
                return Ok(Some(why.to_owned()));
            }
            Err(error) => return Err(error.into()),
        };
        if self.origin.take(stored_digest).is_some() {
            let why = "the client command stored more than one object; let it upload {file} once";
            return Ok(Some(why.to_owned()));
        }
        Ok(difference(sent, &stored))
    }

    /// An error with its last words where a process has ended that the path or the store depends on.
    fn expect_all_alive(&mut self) -> Result<(), WorkerError> {
        self.link.expect_alive(AN_UPLOAD)?;
        self.origin.expect_alive(AN_UPLOAD)?;
        for relay in self.relays.values_mut() {
            relay.process.expect_alive(AN_UPLOAD)?;
        }
        Ok(())
    }

    /// An object of pseudo-random content, as a file for commands that upload files.
    fn write_object(&self, bytes: Bytes, name: &str) -> Result<Object, BenchError> {
        let path = self.out.join("objects").join(format!("{name}.data"));
        let length = usize::try_from(bytes.get()).unwrap_or(usize::MAX);
        let mut content = vec![0; length];
        // Another seed for every object, so that no two have the same digest.
        let index = name.bytes().fold(self.seed, |sum, byte| {
            sum.wrapping_mul(0x0100_0000_01b3)
                .wrapping_add(u64::from(byte))
        });
        SplitMix64::new(index).fill(&mut content);
        fs::write(&path, &content).map_err(|source| BenchError::Object {
            path: path.clone(),
            source,
        })?;
        Ok(Object {
            path,
            name: name.to_owned(),
            sha256: sha256_hex(&content),
        })
    }

    fn command(
        &self,
        host: HostName,
        program: impl AsRef<std::ffi::OsStr>,
        resolve: Option<(&str, Ipv4Addr)>,
    ) -> Result<std::process::Command, BenchError> {
        self.topology
            .command(host, program, resolve)
            .map_err(BenchError::Topology)
    }

    fn endpoint(&self) -> String {
        let origin = &self.scenario.origin;
        format!("http://{}:{}", origin.name, origin.port)
    }

    /// What the endpoint's name resolves to at the client: a relay, or the origin itself.
    fn address_of(&self, relay: Option<&str>) -> Ipv4Addr {
        relay
            .and_then(|name| self.scenario.relays.keys().position(|known| known == name))
            .map_or(topology::ORIGIN, topology::relay_address)
    }
}

/// A relay's process and the capture at its device. Dropping it ends both.
#[derive(Debug)]
struct RunningRelay {
    process: Worker,
    tap: Tap,
    capture: PathBuf,
}

/// What the built-in client says about an upload.
#[derive(Deserialize)]
struct Uploaded {
    objects: Vec<Sent>,
    seconds: f64,
    error: Option<String>,
}

#[derive(Deserialize)]
struct Sent {
    key: String,
    sha256: String,
}

struct Object {
    path: PathBuf,
    name: String,
    sha256: String,
}

fn start_origin(
    scenario: &Scenario,
    binary: &Path,
    topology: &Topology,
    logs: &Path,
) -> Result<Worker, BenchError> {
    let mut command = topology
        .command(HostName::Origin, binary, None)
        .map_err(BenchError::Topology)?;
    command.args(["lab", "worker", "origin"]);
    let config = json!({
        "listen": format!("{}:{}", topology::ORIGIN, scenario.origin.port),
        "credentials": { "access-key": ACCESS_KEY, "secret-key": SECRET_KEY },
        "bucket": BUCKET,
    });
    let mut origin = Worker::start("origin", command, &config, logs)?;
    origin.wait_for("that it listens", READY, |line| {
        (line["event"] == "listening").then_some(())
    })?;
    Ok(origin)
}

/// Adds what a relay says about priming to the account of its pool.
fn note_priming(priming: &mut Priming, line: &Value) {
    if line["event"] == "primed" {
        let smaller = |known: Option<u64>, new: &Value| match (known, new.as_u64()) {
            (Some(known), Some(new)) => Some(known.min(new)),
            (known, new) => known.or(new),
        };
        priming.connections += 1;
        priming.requests += line["requests"].as_u64().unwrap_or(0);
        priming.bytes += line["bytes"].as_u64().unwrap_or(0);
        priming.cwnd = smaller(priming.cwnd, &line["cwnd_bytes"]);
        priming.peer_window = smaller(priming.peer_window, &line["peer_window_bytes"]);
    }
    if line["event"] == "pool-ready" {
        priming.seconds = line["seconds"].as_f64().unwrap_or(0.0);
    }
}

/// The digest in an origin's report of an object.
fn stored_digest(line: &Value) -> Option<String> {
    line["sha256"].as_str().map(str::to_owned)
}

fn difference(sent: &str, stored: &str) -> Option<String> {
    (stored != sent).then(|| {
        format!("the origin stored other bytes than were sent: SHA-256 {stored}, not {sent}")
    })
}

/// A JSON value as one line of text, without the quotes of a string.
fn plain(value: &Value) -> String {
    value
        .as_str()
        .map_or_else(|| value.to_string(), str::to_owned)
}

fn sha256_hex(content: &[u8]) -> String {
    use std::fmt::Write as _;
    Sha256::digest(content)
        .iter()
        .fold(String::with_capacity(64), |mut text, byte| {
            // Writing to a String cannot fail.
            let _ = write!(text, "{byte:02x}");
            text
        })
}
