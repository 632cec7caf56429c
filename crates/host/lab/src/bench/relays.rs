//! Relays of a bench: our own in each of their modes, or another program in their place.

mod file;

use std::fs;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use record::lab::Priming;
use scenario::{Kind, Relay, RelayMode, Scenario, Site};
use serde_json::Value;

use self::file::{RelayFile, Stand};
use super::addresses;
use super::command::Placeholders;
use super::topology::Place;
use super::{Bench, BenchError, FLOW_PORT, PRIMED, READY};
use crate::tap::Tap;
use crate::worker::Worker;

/// Longer than padding takes to fill any path that it can fill.
const HOT: Duration = Duration::from_secs(20);

/// A relay at work, and the capture at its device. Dropping it ends both.
#[derive(Debug)]
pub(super) struct RunningRelay {
    /// One per port; all of one relay.
    pub(super) processes: Vec<Worker>,
    tap: Option<(Tap, PathBuf)>,
    /// At the origin, of this relay's connections only, where it sends payload into the relay's pool.
    behind: Option<(Tap, PathBuf)>,
}

// === impl RunningRelay ===

impl RunningRelay {
    /// Everything that passes its device, complete once it has ended.
    pub(super) fn capture(&self) -> Option<PathBuf> {
        self.tap.as_ref().map(|(_, file)| file.clone())
    }

    /// What passes between it and the origin, captured there.
    pub(super) fn capture_behind(&self) -> Option<PathBuf> {
        self.behind.as_ref().map(|(_, file)| file.clone())
    }
}

impl Bench {
    /// Starts the relays of a route that do not run yet, the last first: one that primes its connections
    /// needs somebody behind it.
    pub(super) fn start_route(
        &mut self,
        route: &[String],
        arm: &str,
    ) -> Result<Vec<Priming>, BenchError> {
        let mut primed = Vec::new();
        for index in self.plan.route(route).into_iter().rev() {
            if !self.relays.contains_key(&index) {
                let (relay, priming) = self.start_relay(index, arm)?;
                self.relays.insert(index, relay);
                primed.extend(priming);
            }
        }
        Ok(primed)
    }

    /// Ends the first relay of a route.
    pub(super) fn stop_first(&mut self, route: &[String]) -> Result<(), BenchError> {
        match self.plan.route(route).first() {
            Some(index) => self.stop_relay(*index),
            None => Ok(()),
        }
    }

    /// Ends all relays, whose captures are complete then.
    pub(super) fn stop_relays(&mut self) -> Result<(), BenchError> {
        let running: Vec<usize> = self.relays.keys().copied().collect();
        running
            .into_iter()
            .try_for_each(|index| self.stop_relay(index))
    }

    fn stop_relay(&mut self, index: usize) -> Result<(), BenchError> {
        let Some(relay) = self.relays.remove(&index) else {
            return Ok(());
        };
        let places = [Place::Hop(index), Place::Origin];
        for (place, tap) in places.into_iter().zip([relay.tap, relay.behind]) {
            if let Some((tap, _)) = tap {
                tap.stop().map_err(|source| BenchError::Capture {
                    host: self.topology.node(place).name.clone(),
                    source,
                })?;
            }
        }
        Ok(())
    }

    fn start_relay(
        &mut self,
        index: usize,
        arm: &str,
    ) -> Result<(RunningRelay, Option<Priming>), BenchError> {
        let name = self.plan.hops[index].relay.clone();
        let spec = self.scenario.relays.get(&name).cloned().unwrap_or_default();
        let host = self.worker_name(index);
        // From before the first SYN, so that everything about its connections is known.
        let tap = self
            .captures_relays()
            .then(|| self.tap_at(Place::Hop(index), None, &format!("at-{host}")))
            .transpose()?;
        let peer = self.topology.address(Place::Hop(index));
        let behind = self
            .origin_fills_pool(index)
            .then(|| self.tap_at(Place::Origin, Some(peer), &format!("at-origin-of-{host}")))
            .transpose()?;
        let mut relay = RunningRelay {
            processes: Vec::new(),
            tap,
            behind,
        };
        if self.has_pool(index) {
            let (process, priming) = self.start_http(index, &spec, arm)?;
            relay.processes.push(process);
            return Ok((relay, Some(priming)));
        }
        for port in ports(&self.scenario, &spec) {
            let process = self.start_forwarder(index, &spec, port)?;
            relay.processes.push(process);
        }
        Ok((relay, None))
    }

    fn start_http(
        &mut self,
        index: usize,
        spec: &Relay,
        arm: &str,
    ) -> Result<(Worker, Priming), BenchError> {
        let command = self.relay_command(index, spec, self.scenario.origin.port)?;
        let mut relay = Worker::start(&self.worker_name(index), command, &(), &self.logs)?;
        let mut priming = Priming {
            arm: arm.to_owned(),
            ..Priming::default()
        };
        relay.wait_for("that its pool is ready", PRIMED, |line| {
            note_priming(&mut priming, line);
            (line["event"] == "pool-ready").then_some(())
        })?;
        Ok((relay, priming))
    }

    /// A relay of bytes: ours, or another program.
    fn start_forwarder(
        &mut self,
        index: usize,
        spec: &Relay,
        port: u16,
    ) -> Result<Worker, BenchError> {
        let (listen, target) = self.ends_of(index, port);
        let place = Place::Hop(index);
        let resolve = Some((self.scenario.origin.name.as_str(), target.ip()));
        let command = if let Some(line) = &spec.command {
            let placeholders = Placeholders::new([
                ("address", listen.ip().to_string()),
                ("port", listen.port().to_string()),
                ("target", target.to_string()),
                ("target_address", target.ip().to_string()),
                ("target_port", target.port().to_string()),
            ]);
            let mut shell = self.command(place, "/bin/sh", resolve)?;
            shell.args(["-c", &placeholders.fill(line)]);
            shell
        } else {
            self.relay_command(index, spec, port)?
        };
        let name = format!("{}-{port}", self.worker_name(index));
        let mut relay = Worker::start(&name, command, &(), &self.logs)?;
        self.wait_until_listening(place, port, &mut relay)?;
        if spec.mode == RelayMode::Trunk && spec.at == Site::Near {
            // A trunk is there before its first client, and hot where it knows how hot it has to be.
            relay.wait_for("that its trunk is connected", READY, |line| {
                (line["event"] == "wan-connected").then_some(())
            })?;
            if spec.knows_path_rate {
                // Hosts whose buffers hold less than the path never let it become hot: it is measured as it is.
                let _ = relay.wait_for("that its trunk is hot", HOT, |line| {
                    (line["event"] == "wan-hot").then_some(())
                });
            }
        }
        Ok(relay)
    }

    /// Our own relay, from a file that is kept beside its last words.
    fn relay_command(&self, index: usize, spec: &Relay, port: u16) -> Result<Command, BenchError> {
        let (listen, target) = self.ends_of(index, port);
        let origin = &self.scenario.origin;
        let [certificate, key] = &self.identity;
        let ip = self.scenario.path.ip;
        let [near, far] = [Site::Near, Site::Far].map(|site| addresses::network(ip, site));
        let file = RelayFile::of(
            spec,
            Stand {
                listen,
                target,
                origin: SocketAddr::new(self.topology.tcp_address(Place::Origin), port),
                name: &origin.name,
                lans: [&near, &far],
                rate: self.scenario.path.bottleneck_rate(),
                identity: (certificate, key),
            },
        );
        let path = self
            .logs
            .join(format!("{}-{port}.toml", self.worker_name(index)));
        let text = toml::to_string(&file).map_err(BenchError::RelayFile)?;
        fs::write(&path, text).map_err(|source| BenchError::Object {
            path: path.clone(),
            source,
        })?;
        let resolve = Some((origin.name.as_str(), target.ip()));
        let mut command = self.command(Place::Hop(index), &self.binary, resolve)?;
        command.args(file.verb()).args(["--json", "--config"]);
        command.arg(path);
        Ok(command)
    }

    /// Where hop `index` listens, and where it connects to.
    fn ends_of(&self, index: usize, port: u16) -> (SocketAddr, SocketAddr) {
        let hop = &self.plan.hops[index];
        let next = self.plan.route(&hop.behind).first().copied();
        let target = self
            .topology
            .tcp_address(next.map_or(Place::Origin, Place::Hop));
        let listen = self.topology.address(Place::Hop(index));
        (SocketAddr::new(listen, port), SocketAddr::new(target, port))
    }

    fn worker_name(&self, index: usize) -> String {
        self.topology.node(Place::Hop(index)).name.clone()
    }

    /// Waits until something listens at `port` of `place`; `process` is who should.
    pub(super) fn wait_until_listening(
        &self,
        place: Place,
        port: u16,
        process: &mut Worker,
    ) -> Result<(), BenchError> {
        let namespace = &self.topology.node(place).namespace;
        process.wait_until("that it listens", READY, || {
            namespace.enter(|| is_listening(port)).unwrap_or_default()
        })?;
        Ok(())
    }
}

/// The ports that clients of `relay` will ask for.
fn ports(scenario: &Scenario, relay: &Relay) -> Vec<u16> {
    let (plain, tls) = (scenario.origin.port, scenario.origin.tls_port());
    if relay.mode == RelayMode::Tls && relay.command.is_none() {
        return vec![tls];
    }
    let mut ports = Vec::new();
    for workload in &scenario.workloads {
        let with_tls = scenario.arms.iter().any(|arm| arm.tls.is_some()) || workload.tls.is_some();
        match workload.kind {
            Kind::Upload | Kind::Download | Kind::Replicate | Kind::Command => {
                ports.push(plain);
                ports.extend(with_tls.then_some(tls));
            }
            Kind::Stream | Kind::Exchange | Kind::Burst => ports.push(FLOW_PORT),
        }
    }
    ports.sort_unstable();
    ports.dedup();
    ports
}

/// Whether a TCP socket of this thread's namespace listens at `port`, whatever its address
/// (`/proc/net/tcp`: local address and port in hexadecimal, then the other end, then the state).
fn is_listening(port: u16) -> bool {
    const LISTENING: &str = "0A";
    let listens = |line: &str| {
        let mut words = line.split_whitespace().skip(1);
        let local = words.next().and_then(|local| local.rsplit_once(':'));
        let number = local.and_then(|(_, port)| u16::from_str_radix(port, 16).ok());
        number == Some(port) && words.nth(1) == Some(LISTENING)
    };
    ["/proc/thread-self/net/tcp", "/proc/thread-self/net/tcp6"]
        .iter()
        .any(|file| {
            let table = fs::read_to_string(file).unwrap_or_default();
            table.lines().any(listens)
        })
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

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    #[test]
    fn a_listener_is_seen_whatever_its_address_and_a_connection_is_none() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        assert!(is_listening(port));
        let client = std::net::TcpStream::connect(("127.0.0.1", port)).unwrap();
        assert!(!is_listening(client.local_addr().unwrap().port()));
        drop(listener);
        assert!(!is_listening(port));
    }
}
