//! What plays a bench's path: our own link, a process between two TUN devices; or netem, disciplines of the two
//! devices of a cable, for a second opinion on kernels that have it.

use std::collections::BTreeMap;
use std::process::Stdio;
use std::thread;
use std::time::{Duration, Instant};

use link::{Direction, DirectionSpec, QueueLimit};
use serde_json::Value;
use sys::namespace::NetworkNamespace;
use units::{Bytes, Rate};

use super::series::QueueSample;
use super::{BenchError, READY, plain};
use crate::emulator::Interval;
use crate::netem::{self, NetemError};
use crate::worker::{Worker, WorkerError};

/// Bytes that Ethernet's header adds to a packet of the IP path, which `tbf` counts.
const ETHERNET: u64 = 14;
/// A full packet of the path.
const FULL: u64 = 1_500;

/// A path that is being played.
#[derive(Debug)]
pub(super) enum Link {
    /// By our own emulator, which ends with the bench.
    Ours(Worker),
    /// By the kernel's.
    Netem(Netem),
}

/// Both ends of a cable, and the disciplines on the way out of them.
#[derive(Debug)]
pub(super) struct Netem {
    /// Near and far.
    ends: [NetworkNamespace; 2],
    device: &'static str,
}

// === impl Link ===

impl Link {
    /// An error with its last words where the path is gone.
    pub(super) fn expect_alive(&mut self, waiting_for: &'static str) -> Result<(), WorkerError> {
        match self {
            Self::Ours(process) => process.expect_alive(waiting_for),
            // Nothing runs that could end.
            Self::Netem(_) => Ok(()),
        }
    }

    /// The same where it may be ending just now.
    pub(super) fn expect_not_dying(
        &mut self,
        waiting_for: &'static str,
        dying: Duration,
    ) -> Result<(), WorkerError> {
        match self {
            Self::Ours(process) => process.expect_not_dying(waiting_for, dying),
            Self::Netem(_) => Ok(()),
        }
    }

    /// Waits until nothing has waited, flown or moved for `quiet`, at most for `left`.
    pub(super) fn await_quiet(
        &mut self,
        quiet: Duration,
        left: Duration,
    ) -> Result<(), BenchError> {
        match self {
            Self::Ours(process) => {
                process.tell(&format!("quiet {}", quiet.as_secs_f64()))?;
                process.wait_for("that its path is quiet", left, |line| {
                    (line["event"] == "quiet").then_some(())
                })?;
                Ok(())
            }
            Self::Netem(netem) => netem.await_quiet(quiet, left),
        }
    }

    /// The path's schedule and traces begin now. netem has none.
    pub(super) fn start_schedule(&mut self) -> Result<(), WorkerError> {
        match self {
            Self::Ours(process) => process.tell("start"),
            Self::Netem(_) => Ok(()),
        }
    }

    /// Begins to note the queues every so often, or ends it. Of netem's queues nothing is noted: asking for them
    /// takes a process each time.
    pub(super) fn sample(&mut self, every: Option<Duration>) -> Result<(), WorkerError> {
        match self {
            Self::Ours(process) => process.tell(&every.map_or_else(
                || "sample off".to_owned(),
                |every| format!("sample {}", every.as_secs_f64()),
            )),
            Self::Netem(_) => Ok(()),
        }
    }

    /// Its account since it was last read, and the samples since then. netem keeps no account of its lateness.
    pub(super) fn read(&mut self) -> Result<(Vec<QueueSample>, Option<Interval>), WorkerError> {
        let Self::Ours(process) = self else {
            return Ok((Vec::new(), None));
        };
        let mut queue = Vec::new();
        process.tell("read")?;
        let interval = process.wait_for("its account", READY, |line| {
            queue.extend(queue_sample(line));
            if line["event"] != "interval" {
                return None;
            }
            serde_json::from_value(line.clone()).ok()
        })?;
        Ok((queue, Some(interval)))
    }

    /// What it has done since the start, for the manifest.
    pub(super) fn facts(&mut self) -> Result<BTreeMap<String, String>, BenchError> {
        match self {
            Self::Ours(process) => {
                process.tell("counters")?;
                let counters = process.wait_for("its counters", READY, |line| {
                    (line["event"] == "counters").then(|| line.clone())
                })?;
                let parts = ["forward", "backward", "lateness"];
                let named = parts.map(|part| (format!("link: {part}"), plain(&counters[part])));
                Ok(named.into())
            }
            Self::Netem(netem) => {
                let mut facts =
                    BTreeMap::from([("link: played by".to_owned(), "netem".to_owned())]);
                for (direction, disciplines) in Direction::BOTH.into_iter().zip(netem.look()?) {
                    let name = match direction {
                        Direction::Forward => "link: forward",
                        Direction::Backward => "link: backward",
                    };
                    facts.insert(name.to_owned(), disciplines.to_string());
                }
                Ok(facts)
            }
        }
    }
}

// === impl Netem ===

impl Netem {
    /// Plays `path` on the way out of `device`, which each of `ends` (near and far) has.
    pub(super) fn start(
        path: &link::PathSpec,
        ends: [NetworkNamespace; 2],
        device: &'static str,
    ) -> Result<Self, NetemError> {
        for (end, direction) in ends.iter().zip(Direction::BOTH) {
            let spec = on_ethernet(path.direction(direction));
            netem::apply(&spec, device, || end.command("tc"))?;
        }
        Ok(Self { ends, device })
    }

    fn await_quiet(&self, quiet: Duration, left: Duration) -> Result<(), BenchError> {
        let deadline = Instant::now() + left;
        let mut before = None;
        loop {
            let now = self.look()?;
            let moved = now.each_ref().map(movement);
            let waits = now.iter().any(|disciplines| backlog(disciplines) > 0);
            if before == Some(moved) && !waits {
                return Ok(());
            }
            if Instant::now() > deadline {
                return Err(BenchError::Netem(NetemError::Restless));
            }
            before = Some(moved);
            thread::sleep(quiet);
        }
    }

    /// The disciplines of both ends, with what passed them.
    fn look(&self) -> Result<[Value; 2], BenchError> {
        let [near, far] = self.ends.each_ref().map(|end| {
            let shown = end
                .command("tc")
                .args(["-statistics", "-json", "qdisc", "show", "dev", self.device])
                .stdin(Stdio::null())
                .output()
                .map_err(NetemError::Run)?;
            serde_json::from_slice(&shown.stdout).map_err(NetemError::Unreadable)
        });
        Ok([
            near.map_err(BenchError::Netem)?,
            far.map_err(BenchError::Netem)?,
        ])
    }
}

/// Packets that have passed the root discipline.
fn movement(disciplines: &Value) -> u64 {
    disciplines[0]["packets"].as_u64().unwrap_or_default()
}

/// Bytes that wait or fly.
fn backlog(disciplines: &Value) -> u64 {
    let all = disciplines.as_array().into_iter().flatten();
    all.filter_map(|one| one["backlog"].as_u64()).sum()
}

/// The direction with room for the headers that a cable adds: full packets then have the path's own rate.
fn on_ethernet(spec: &DirectionSpec) -> DirectionSpec {
    let wider = |number: u64| number.saturating_mul(FULL + ETHERNET) / FULL;
    let mut spec = spec.clone();
    spec.rate = spec
        .rate
        .map(|rate| Rate::bit_per_s(wider(rate.bits_per_s())));
    if let QueueLimit::Bytes(bytes) = spec.queue {
        spec.queue = QueueLimit::Bytes(Bytes::new(wider(bytes.get())));
    }
    spec
}

fn queue_sample(line: &Value) -> Option<QueueSample> {
    if line["event"] != "sample" {
        return None;
    }
    Some(QueueSample {
        at_unix_s: line["at_unix_s"].as_f64()?,
        forward: line["forward"]["queue_bytes"].as_u64()?,
        backward: line["backward"]["queue_bytes"].as_u64()?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As `tc -s -j` of iproute2 6.1 prints it; netem is the root, and the bucket its leaf.
    const SHOWN: &str = r#"[
        {"kind":"netem","handle":"1:","root":true,"refcnt":3,"options":{"limit":1000000},
         "bytes":2106364,"packets":1398,"drops":3,"overlimits":0,"requeues":0,"backlog":3028,"qlen":2},
        {"kind":"tbf","handle":"2:","parent":"1:1","options":{"rate":2500000,"burst":5000,"lat":38000},
         "bytes":2106364,"packets":1398,"drops":0,"overlimits":4126,"requeues":0,"backlog":0,"qlen":0}]"#;

    #[test]
    fn what_moves_and_what_waits_is_read_from_tc() {
        let shown: Value = serde_json::from_str(SHOWN).unwrap();
        assert_eq!((movement(&shown), backlog(&shown)), (1_398, 3_028));
        assert_eq!((movement(&Value::Null), backlog(&Value::Null)), (0, 0));
    }

    #[test]
    fn a_full_packet_passes_a_cables_bucket_in_the_paths_time() {
        let spec = DirectionSpec {
            rate: Some(Rate::mbit_per_s(15)),
            queue: QueueLimit::Bytes(Bytes::new(15_000)),
            ..DirectionSpec::default()
        };
        let wide = on_ethernet(&spec);
        let time = |bytes: u64, rate: Rate| bytes * 8 * 1_000_000 / rate.bits_per_s();
        assert_eq!(
            time(1_514, wide.rate.unwrap()),
            time(1_500, Rate::mbit_per_s(15))
        );
        assert_eq!(wide.queue, QueueLimit::Bytes(Bytes::new(10 * 1_514)));
    }
}
