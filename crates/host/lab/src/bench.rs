//! The bench an experiment works on: hosts in namespaces, the link between them, the origin at its end,
//! relays, clients and captures. It knows how to do one thing at a time; [`experiment`](crate::experiment)
//! decides what and how often.
//!
//! Arms whose hosts are set alike share a bench; the others have one each, all alive at once, so that their
//! blocks can take turns.

mod addresses;
mod block;
mod command;
mod counters;
mod error;
mod explain;
mod flow;
mod host;
mod legs;
mod link;
mod objects;
mod own_tcp;
mod plan;
mod relays;
mod rivals;
mod sampler;
mod series;
mod set;
mod stores;
mod topology;
mod wire;

use std::collections::BTreeMap;
use std::fs;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use ::link::PathSpec;
use scenario::{Capture, Kind, Scenario, Workload};
use serde_json::Value;
use sys::isolation;
use sys::tun::Tun;

use crate::emulator;
use crate::experiment::Options;
use crate::probe::{self, Depth, End, PathReading};
use crate::tap::Tap;
use crate::worker::{Worker, WorkerError};

use self::link::{Link, Netem};
pub use crate::tap::TapError;
pub use crate::worker::WorkerError as ProcessError;
pub use command::quoted;
pub use error::BenchError;
pub use explain::ExplainError;
pub use host::HostError;
pub(crate) use legs::{Lasts, Leg, LegCapture};
use plan::Plan;
use relays::RunningRelay;
pub use sampler::SamplerError;
pub(crate) use set::Benches;
pub use topology::TopologyError;
use topology::{Place, Topology, WAN, Wan};

/// How long a process may take to get ready. Generous: two busy cores start slowly.
const READY: Duration = Duration::from_secs(20);
/// How long a pool may take to be primed.
const PRIMED: Duration = Duration::from_mins(1);
/// How long a process may take from letting its devices go to its end.
const DYING: Duration = Duration::from_secs(1);
/// Longest transfer that is waited for, beyond the time that a workload asks for itself.
const TRANSFER: Duration = Duration::from_mins(5);
/// How long after a command's end its object may be on its way to our ears.
const STORED: Duration = Duration::from_secs(5);
/// How long transfers' remains may be on their way: a relay's 64 MiB at 5 Mbit/s.
const DRAINED: Duration = Duration::from_mins(2);
/// How long nothing must move in the link before sockets are asked whether they have more. Longer than any
/// pause of a sender that has something to send and no timeout to wait for.
const QUIET: Duration = Duration::from_millis(20);
/// What errors say that the lab waited for.
const A_TRANSFER: &str = "the end of a transfer";
const A_MEASUREMENT: &str = "the path's measurement";

/// Keys of the lab's own store; they protect nothing.
const ACCESS_KEY: &str = "longhaul-lab";
const SECRET_KEY: &str = "longhaul-lab-secret";
const BUCKET: &str = "lab";
/// Where streams and exchanges are answered.
const FLOW_PORT: u16 = 7_001;

/// A network with everything on it.
#[derive(Debug)]
pub(crate) struct Bench {
    binary: PathBuf,
    out: PathBuf,
    logs: PathBuf,
    /// Begins the names of files that other benches have too.
    prefix: String,
    seed: u64,
    scenario: Scenario,
    plan: Plan,
    topology: Topology,
    /// The path is down without it.
    link: Link,
    origin: Worker,
    /// What the origin shows where it speaks TLS, as PEM.
    certificate: Option<String>,
    /// SHA-256 of the objects that the origin has from the start, by their size.
    made: BTreeMap<u64, String>,
    /// Where that certificate and its key are, for programs that take files.
    identity: [PathBuf; 2],
    /// Beside the client, where objects are replicated.
    near_store: Option<Worker>,
    /// One process in each host, for `lab shell` to follow.
    _holders: Vec<Worker>,
    /// Servers of flows, at the origin and for rivals, where a workload needs them.
    flow_servers: Vec<Worker>,
    /// Payload bits per second of each rival flow alone, by workload.
    alone_bps: BTreeMap<usize, Vec<f64>>,
    /// By number of the plan's hop.
    relays: BTreeMap<usize, RunningRelay>,
    facts: BTreeMap<String, String>,
    /// Why the link has no real-time priority, where it has none.
    unpunctual: Option<String>,
}

// === impl Bench ===

impl Bench {
    /// Namespaces, devices, link and origin of `plan`, ready for transfers.
    fn build(
        scenario: &Scenario,
        plan: Plan,
        options: &Options,
        name: &str,
    ) -> Result<Self, BenchError> {
        let (binary, out, seed) = (&options.binary, &options.out, options.seed);
        let logs = out.join("logs").join(name);
        for path in [out.join("captures"), out.join("objects"), logs.clone()] {
            fs::create_dir_all(&path).map_err(|source| BenchError::Folder { path, source })?;
        }
        let mut topology = Topology::build(scenario, &plan, options.backend, &logs)
            .map_err(BenchError::Topology)?;
        let mut facts = topology.facts();
        let path = scenario.path.spec(seed);
        let mut unpunctual = None;
        let link = match topology.wan().map_err(BenchError::Topology)? {
            Wan::Tuns(ends) => {
                let (process, granted, scheduling) = start_link(binary, path, *ends, &logs)?;
                facts.insert("link: real-time priority".to_owned(), scheduling.clone());
                unpunctual = (!granted).then_some(scheduling);
                Link::Ours(process)
            }
            Wan::Cable(ends) => {
                Link::Netem(Netem::start(&path, ends, WAN).map_err(BenchError::Netem)?)
            }
        };
        let prefix = match name {
            "" => String::new(),
            name => format!("{name}-"),
        };
        let identity =
            [stores::CERTIFICATE, stores::KEY].map(|file| out.join(format!("{prefix}{file}")));
        let origin = stores::start_origin(scenario, seed, binary, &topology, (&identity, &logs))?;
        let mut flow_servers = Vec::new();
        if scenario.workloads.iter().any(is_flow) {
            let server = flow::start_server(Place::Origin, binary, &topology, &logs)?;
            flow_servers.push(server);
        }
        if plan.rivals {
            let server = flow::start_server(Place::RivalSink, binary, &topology, &logs)?;
            flow_servers.push(server);
        }
        Ok(Self {
            _holders: hold(scenario, binary, &topology, &prefix, &logs)?,
            flow_servers,
            alone_bps: BTreeMap::new(),
            origin: origin.process,
            certificate: origin.certificate,
            made: origin.made,
            identity,
            near_store: stores::start_near_store(scenario, seed, binary, &topology, &logs)?,
            binary: binary.to_owned(),
            out: out.to_owned(),
            logs,
            prefix,
            seed,
            scenario: scenario.clone(),
            plan,
            link,
            relays: BTreeMap::new(),
            facts,
            unpunctual,
            topology,
        })
    }

    /// Names of its hosts, as `lab shell` takes them.
    fn hosts(&self) -> impl Iterator<Item = String> {
        let nodes = self.topology.nodes();
        nodes.map(|(_, node)| format!("{}{}", self.prefix, node.name))
    }

    fn check_path(&mut self, depth: Depth) -> Result<PathReading, BenchError> {
        // Without its link the path is gone, and the probe would only say that.
        self.link.expect_alive(A_MEASUREMENT)?;
        self.drain()?;
        // Every check sees the same part of it, its beginning.
        self.link.start_schedule()?;
        let end = |place| {
            let node = self.topology.node(place);
            End {
                namespace: &node.namespace,
                address: node.address,
            }
        };
        let (near, far) = (end(Place::Client), end(Place::Origin));
        let spec = self.scenario.path.spec(self.seed);
        let measured = probe::measure(&spec, near, far, depth);
        if measured.is_err() {
            // It may have ended meanwhile, and says more about why than the probe can.
            self.link.expect_not_dying(A_MEASUREMENT, DYING)?;
        }
        measured.map_err(BenchError::Probe)
    }

    /// Explains `captures` as one timeline.
    fn explain(
        &self,
        captures: &[PathBuf],
        series: bool,
    ) -> Result<record::explain::Document, BenchError> {
        explain::explain(&self.binary, captures, series).map_err(BenchError::Explain)
    }

    /// Waits until nothing is on its way any more, in the link or in the kernels' sockets: what transfers or
    /// rivals have left behind would be seen as a wrong path. A queue that is empty does not say so: relays
    /// may still hold seconds of payload, which a sender that loss holds back sends without ever filling it.
    fn drain(&mut self) -> Result<(), BenchError> {
        let deadline = Instant::now() + DRAINED;
        let quiet = if self.has_own_tcp() {
            // No kernel can be asked about it, but it answers or repeats within a round trip.
            QUIET + self.scenario.path.rtt.get()
        } else {
            QUIET
        };
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            self.link.await_quiet(quiet, left)?;
            match self.unacknowledged()? {
                Some((host, bytes)) if Instant::now() > deadline => {
                    return Err(BenchError::Undrained {
                        host,
                        bytes,
                        limit: DRAINED,
                    });
                }
                Some(_) => {}
                None => return Ok(()),
            }
        }
    }

    /// A host whose kernel still has to bring payload to a peer, and how many bytes of it.
    fn unacknowledged(&self) -> Result<Option<(String, u64)>, BenchError> {
        // The peer of a socket that spoke with our own TCP may be gone: then it never empties.
        if self.has_own_tcp() {
            return Ok(None);
        }
        for (_, node) in self.topology.nodes() {
            let bytes = sampler::unacknowledged(&node.namespace).map_err(BenchError::Sampler)?;
            if bytes > 0 {
                return Ok(Some((node.name.clone(), bytes)));
            }
        }
        Ok(None)
    }

    fn has_own_tcp(&self) -> bool {
        self.topology
            .nodes()
            .any(|(_, node)| node.own_tcp.is_some())
    }

    fn facts(&mut self) -> Result<BTreeMap<String, String>, BenchError> {
        let mut facts = self.facts.clone();
        facts.extend(self.link.facts()?);
        Ok(facts)
    }

    /// An error with its last words where a process has ended that the path or the store depends on.
    fn expect_all_alive(&mut self) -> Result<(), WorkerError> {
        self.link.expect_alive(A_TRANSFER)?;
        self.origin.expect_alive(A_TRANSFER)?;
        for server in self.near_store.iter_mut().chain(&mut self.flow_servers) {
            server.expect_alive(A_TRANSFER)?;
        }
        let relays = self.relays.values_mut();
        for process in relays.flat_map(|relay| &mut relay.processes) {
            process.expect_alive(A_TRANSFER)?;
        }
        Ok(())
    }

    fn command(
        &self,
        place: Place,
        program: impl AsRef<std::ffi::OsStr>,
        resolve: Option<(&str, IpAddr)>,
    ) -> Result<Command, BenchError> {
        self.topology
            .command(place, program, resolve)
            .map_err(BenchError::Topology)
    }

    /// A command on the client's host, for which the origin's name leads through `route`.
    fn client_command(
        &self,
        program: impl AsRef<std::ffi::OsStr>,
        route: &[String],
    ) -> Result<Command, BenchError> {
        let address = self.entry_of(route);
        let resolve = Some((self.scenario.origin.name.as_str(), address));
        self.command(Place::Client, program, resolve)
    }

    /// What the origin's name resolves to at the client: the first relay, or the origin itself.
    fn entry_of(&self, route: &[String]) -> IpAddr {
        let first = self.plan.route(route).first().copied();
        self.topology
            .tcp_address(first.map_or(Place::Origin, Place::Hop))
    }

    /// Whether packets are kept at the client and behind relays.
    fn captures_relays(&self) -> bool {
        self.scenario.experiment.capture != Capture::None
    }

    /// Begins to capture what passes `place`'s device, into a file of this name: all of it, or only packets
    /// that come from `peer` or go there.
    fn tap_at(
        &self,
        place: Place,
        peer: Option<IpAddr>,
        name: &str,
    ) -> Result<(Tap, PathBuf), BenchError> {
        let folder = self.out.join("captures");
        let file = folder.join(format!("{}{name}.pcapng", self.prefix));
        let node = self.topology.node(place);
        let tap = Tap::start(&node.namespace, node.device, (node.link_type, peer), &file);
        let tap = tap.map_err(|source| BenchError::Capture {
            host: node.name.clone(),
            source,
        })?;
        Ok((tap, file))
    }
}

/// Our own link between two devices, whether it has real-time priority, and that in words.
fn start_link(
    binary: &Path,
    path: PathSpec,
    [near, far]: [Tun; 2],
    logs: &Path,
) -> Result<(Worker, bool, String), BenchError> {
    let mut command = Command::new(binary);
    command.args(["lab", "worker", "link"]);
    isolation::die_with_parent(&mut command);
    let setup = emulator::hand_over(&mut command, path, near, far);
    let mut link = Worker::start("link", command, &setup, logs)?;
    let realtime = link.wait_for("that it is ready", READY, |line| {
        (line["event"] == "ready").then(|| line["realtime"].clone())
    })?;
    Ok((
        link,
        realtime["granted"] == true,
        plain(&realtime["scheduling"]),
    ))
}

/// A process in each host that does nothing, and whose command line says where it is.
fn hold(
    scenario: &Scenario,
    binary: &Path,
    topology: &Topology,
    prefix: &str,
    logs: &Path,
) -> Result<Vec<Worker>, BenchError> {
    let origin = topology.address(Place::Origin);
    let resolve = Some((scenario.origin.name.as_str(), origin));
    let mut holders = Vec::new();
    for (place, node) in topology.nodes() {
        let mut command = topology
            .command(place, binary, resolve)
            .map_err(BenchError::Topology)?;
        let host = format!("{prefix}{}", node.name);
        command.args(["lab", "worker", "hold", &host, &scenario.name]);
        holders.push(Worker::start(&format!("hold-{host}"), command, &(), logs)?);
    }
    Ok(holders)
}

/// Whether `longhaul flow` does it.
fn is_flow(workload: &Workload) -> bool {
    matches!(workload.kind, Kind::Stream | Kind::Exchange | Kind::Burst)
}

/// A JSON value as one line of text, without the quotes of a string.
fn plain(value: &Value) -> String {
    value
        .as_str()
        .map_or_else(|| value.to_string(), str::to_owned)
}
