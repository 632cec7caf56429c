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
use std::process::Stdio;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use link::{LossSpec, PathSpec};
use record::lab::Priming;
use scenario::{HostName, Scenario};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use units::{Bytes, LossRate};

use crate::probe::{self, Depth, End, PathReading, ProbeError};
use crate::results::Transfer;
use crate::tap::Tap;
use crate::worker::Worker;

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
/// Longest upload that is waited for.
const UPLOAD: Duration = Duration::from_mins(5);

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
            .link_command(binary, path_spec(scenario, seed))
            .map_err(BenchError::Topology)?;
        let mut link = Worker::start("link", command, &setup, &logs)?;
        let realtime = link.wait_for("that it is ready", READY, |line| {
            (line["event"] == "ready").then(|| line["realtime"].clone())
        })?;
        facts.insert("link: real-time priority".to_owned(), plain(&realtime));
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
            topology,
        })
    }

    /// Whether a relay of this name runs.
    pub fn has_relay(&self, name: &str) -> bool {
        self.relays.contains_key(name)
    }

    /// Starts the relay `name` beside the client and waits until its pool is ready.
    pub fn start_relay(&mut self, name: &str, arm: &str) -> Result<Priming, BenchError> {
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
            command.args(["--path-rate", &self.scenario.path.rate.to_string()]);
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
                _process: relay,
                tap,
                capture,
            },
        );
        Ok(priming)
    }

    /// Ends the relay `name` and returns the capture of everything it sent and received: between it and
    /// the origin, and between it and clients.
    pub fn stop_relay(&mut self, name: &str) -> Result<Option<PathBuf>, BenchError> {
        let Some(relay) = self.relays.remove(name) else {
            return Ok(None);
        };
        relay.tap.stop().map_err(BenchError::Capture)?;
        Ok(Some(relay.capture))
    }

    /// Whether `host` of a capture is the origin.
    #[must_use]
    pub fn is_origin(&self, host: &str) -> bool {
        host == topology::ORIGIN.to_string()
    }

    /// `count` uploads of `bytes` by the built-in client, one after the other, each proved by the
    /// digest of what the origin stored.
    pub fn upload(
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
            "bytes": bytes.get(),
            "first-index": 0,
            "uploads": count,
            "seed": self.seed,
            "reuse": reuse,
            "timeout-s": UPLOAD.as_secs_f64(),
        });
        let mut client = Worker::start("client", command, &config, &self.out.join("logs"))?;
        let mut transfers = Vec::new();
        for position in 0..count as usize {
            let upload = client.wait_for("the end of an upload", UPLOAD, |line| {
                line.get("sha256").is_some().then(|| line.clone())
            })?;
            let failure = match (upload["error"].as_str(), upload["sha256"].as_str()) {
                (Some(error), _) => Some(error.to_owned()),
                (None, Some(sent)) => self.difference_to_stored(sent)?,
                (None, None) => Some("the client did not say what it sent".to_owned()),
            };
            let seconds = upload["seconds"].as_f64().unwrap_or(f64::NAN);
            transfers.push(Transfer {
                position,
                seconds,
                failure,
            });
        }
        Ok(transfers)
    }

    /// `count` uploads of `bytes` by an external command, one process each. Their seconds are those of
    /// the whole process. Ends early when `stop` is set.
    pub fn upload_by_command(
        &mut self,
        command: &str,
        relay: Option<&str>,
        bytes: Bytes,
        count: u32,
        name: &str,
        stop: &AtomicBool,
    ) -> Result<Vec<Transfer>, BenchError> {
        let mut transfers = Vec::new();
        for position in 0..count as usize {
            if stop.load(Ordering::Relaxed) {
                break;
            }
            let object = self.write_object(bytes, &format!("{name}-{position}"))?;
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
            shell
                .args(["-c", &line])
                .env("AWS_ACCESS_KEY_ID", ACCESS_KEY)
                .env("AWS_SECRET_ACCESS_KEY", SECRET_KEY)
                .env("AWS_ENDPOINT_URL", self.endpoint())
                .env("AWS_REGION", "us-east-1")
                .env("AWS_DEFAULT_REGION", "us-east-1")
                .env("AWS_EC2_METADATA_DISABLED", "true")
                .stdin(Stdio::null());
            let fail = |source| BenchError::Command {
                command: line.clone(),
                source,
            };
            let began = Instant::now();
            let output = shell.output().map_err(fail)?;
            let seconds = began.elapsed().as_secs_f64();
            let failure = if output.status.success() {
                self.difference_to_stored(&object.sha256)?
            } else {
                let said = String::from_utf8_lossy(&output.stderr);
                let last = said.lines().last().unwrap_or("it said nothing").to_owned();
                Some(format!("`{line}` ended with {}: {last}", output.status))
            };
            fs::remove_file(&object.path).map_err(fail)?;
            transfers.push(Transfer {
                position,
                seconds,
                failure,
            });
        }
        Ok(transfers)
    }

    /// Waits for the origin's own report of the next object and compares digests. Transfers run one
    /// after the other, so the next object is this one.
    fn difference_to_stored(&mut self, sent: &str) -> Result<Option<String>, BenchError> {
        // The event leaves the origin before its response does: it is here, or nearly so.
        let stored = self.origin.wait_for("what it stored", READY, |line| {
            line["sha256"].as_str().map(str::to_owned)
        })?;
        Ok((stored != sent).then(|| format!("the origin stored {stored}, the client sent {sent}")))
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
        fastrand::Rng::with_seed(index).fill(&mut content);
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

    /// Begins to capture the client's packets into `file`.
    pub fn start_capture(&mut self, file: &Path) -> Result<(), BenchError> {
        let client = self.topology.namespace(HostName::Client);
        let tap = Tap::start(client, topology::DEVICE, file).map_err(BenchError::Capture)?;
        self.tap = Some(tap);
        Ok(())
    }

    /// Ends the capture. Packets that the kernel dropped are an error: an incomplete capture explains
    /// nothing.
    pub fn stop_capture(&mut self) -> Result<(), BenchError> {
        self.tap
            .take()
            .map_or(Ok(()), Tap::stop)
            .map_err(BenchError::Capture)
    }

    /// Measures the path from end to end, as the client and the origin see it.
    pub fn check_path(&self, depth: Depth) -> Result<PathReading, BenchError> {
        let end = |host, address: Ipv4Addr| End {
            namespace: self.topology.namespace(host),
            address: address.into(),
        };
        let near = end(HostName::Client, topology::CLIENT);
        let far = end(HostName::Origin, topology::ORIGIN);
        let spec = path_spec(&self.scenario, self.seed);
        probe::measure(&spec, near, far, depth).map_err(BenchError::Probe)
    }

    /// Explains `captures` as one timeline.
    pub fn explain(
        &self,
        captures: &[PathBuf],
        series: bool,
    ) -> Result<record::explain::Document, BenchError> {
        explain::explain(&self.binary, captures, series).map_err(BenchError::Explain)
    }

    /// What the manifest should say about this bench, at the end of a run.
    pub fn facts(&mut self) -> Result<BTreeMap<String, String>, BenchError> {
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
    _process: Worker,
    tap: Tap,
    capture: PathBuf,
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

/// The path model's settings for a scenario's path.
fn path_spec(scenario: &Scenario, seed: u64) -> PathSpec {
    let path = &scenario.path;
    let loss = if path.loss == LossRate::ZERO {
        LossSpec::None
    } else {
        LossSpec::Bernoulli(path.loss)
    };
    PathSpec::symmetric(path.rtt.get(), Some(path.rate), path.queue, loss, seed)
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
