//! Flows of somebody else on the same path: started before a block's transfers, measured beside them, and
//! once without them.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use scenario::{Flow, Rival, Workload};

use super::sampler::{self, Snapshot};
use super::series::bits;
use super::topology::Place;
use super::{Bench, BenchError, FLOW_PORT};
use crate::worker::Worker;

/// How long rivals are measured alone, where the workload does not last for a time itself: over ten round
/// trips of the longest path there is.
const ALONE: Duration = Duration::from_secs(6);
/// Longer than any run; rivals end when they are told.
const WITHOUT_END: &str = "24h";

/// Rival flows at work. Dropping it ends them.
#[derive(Debug)]
pub(super) struct RunningRivals {
    processes: Vec<Worker>,
    began: Snapshot,
}

impl Bench {
    /// Starts a workload's rivals and gives them their head start; what they reach alone is measured before,
    /// once. `None` where it has none.
    pub(super) fn start_rivals(
        &mut self,
        index: usize,
        workload: &Workload,
    ) -> Result<Option<RunningRivals>, BenchError> {
        if workload.rivals.is_empty() {
            return Ok(None);
        }
        if !self.alone_bps.contains_key(&index) {
            let mut rivals = self.begin_rivals(&workload.rivals)?;
            let lasting = workload.duration.map_or(ALONE, units::Span::get);
            self.wait(lasting, &mut rivals)?;
            let alone = self.end_rivals(rivals)?;
            self.alone_bps.insert(index, alone);
        }
        self.begin_rivals(&workload.rivals).map(Some)
    }

    fn begin_rivals(&mut self, rivals: &[Rival]) -> Result<RunningRivals, BenchError> {
        let server = SocketAddr::new(self.topology.address(Place::RivalSink), FLOW_PORT);
        let mut running = RunningRivals {
            processes: Vec::new(),
            began: Snapshot::default(),
        };
        let mut head_start = Duration::ZERO;
        for (number, rival) in rivals.iter().enumerate() {
            let mut command = self.command(Place::Rival, &self.binary, None)?;
            command.args(["flow", "client", &server.to_string(), "--json"]);
            command.args(["--duration", WITHOUT_END]);
            command.args(["--parallel", &rival.count.to_string()]);
            let way = match rival.direction {
                Flow::Up => "up",
                Flow::Down => "down",
                Flow::Both => "both",
            };
            command.args(["--direction", way]);
            if let Some(name) = &rival.congestion_control {
                command.args(["--congestion-control", name]);
            }
            let name = format!("rival-{number}");
            running
                .processes
                .push(Worker::start(&name, command, &(), &self.logs)?);
            head_start = head_start.max(rival.head_start.get());
        }
        self.wait(head_start, &mut running)?;
        running.began = self.look_at_rivals()?;
        Ok(running)
    }

    /// Ends them; payload bits per second of each flow since its head start.
    pub(super) fn end_rivals(&mut self, mut rivals: RunningRivals) -> Result<Vec<f64>, BenchError> {
        let ended = self.look_at_rivals()?;
        for process in &mut rivals.processes {
            process.expect_alive("what rivals reached")?;
        }
        let seconds = ended.at_unix_s - rivals.began.at_unix_s;
        let moved = |snapshot: &Snapshot, cookie: u64| {
            let reading = snapshot.sockets.get(&cookie);
            reading.map_or(0, |reading| reading.acknowledged + reading.received)
        };
        let rates = ended.sockets.keys().map(|cookie| {
            let bytes = moved(&ended, *cookie).saturating_sub(moved(&rivals.began, *cookie));
            bits(bytes) / seconds.max(f64::MIN_POSITIVE)
        });
        let rates = rates.collect();
        drop(rivals);
        self.drain()?;
        Ok(rates)
    }

    fn look_at_rivals(&self) -> Result<Snapshot, BenchError> {
        let namespace = &self.topology.node(Place::Rival).namespace;
        sampler::look(namespace).map_err(BenchError::Sampler)
    }

    fn wait(&mut self, span: Duration, rivals: &mut RunningRivals) -> Result<(), BenchError> {
        const LOOK: Duration = Duration::from_millis(100);
        let end = Instant::now() + span;
        while Instant::now() < end {
            self.expect_all_alive()?;
            for process in &mut rivals.processes {
                process.expect_alive("the head start of rivals")?;
            }
            std::thread::sleep(LOOK.min(end.saturating_duration_since(Instant::now())));
        }
        Ok(())
    }
}
