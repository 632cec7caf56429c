//! Flows of somebody else on the same path: started before a block's transfers, measured beside them, and
//! once without them.
//!
//! Beside a transfer is between its beginning and its end, and not a moment longer: before and after it a rival
//! has the path for itself. So the rival's kernel is asked all the time, and what it says is taken at these two
//! moments afterwards.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use comparison::Rivals;
use scenario::{Flow, Rival, Workload};

use super::sampler::{Sampler, Snapshot};
use super::series::bits;
use super::topology::Place;
use super::{Bench, BenchError, FLOW_PORT};
use crate::experiment::apparatus::Trial;
use crate::probe::Depth;
use crate::worker::Worker;

/// How long rivals are measured alone, where the workload does not last for a time itself: over ten round
/// trips of the longest path there is.
const ALONE: Duration = Duration::from_secs(6);
/// Longer than any run; rivals end when they are told.
const WITHOUT_END: &str = "24h";

/// Between two looks at the rival's sockets. Of a rate that changes in between half of this is put on the wrong
/// side: 10 ms of a transfer of a second are one percent.
const LOOK: Duration = Duration::from_millis(20);

/// Rival flows at work. Dropping it ends them.
#[derive(Debug)]
pub(super) struct RunningRivals {
    processes: Vec<Worker>,
    sampler: Sampler,
}

/// What each flow of one transfer got, and between which moments, in seconds since 1970.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Share {
    pub(super) from_s: f64,
    pub(super) to_s: f64,
    /// Payload bits per second of each.
    pub(super) own_bps: Vec<f64>,
}

impl Bench {
    /// Measures what a workload's rivals reach alone, and the path after it like after a block; the trial has
    /// nothing else. Nothing is measured where that is known, or where there are no rivals, and nothing is kept
    /// where the path was off.
    pub(super) fn measure_rivals_alone(
        &mut self,
        index: usize,
        workload: &Workload,
    ) -> Result<Trial, BenchError> {
        let mut trial = Trial::default();
        if workload.rivals.is_empty() || self.alone_bps.contains_key(&index) {
            return Ok(trial);
        }
        self.start_account()?;
        let mut rivals = self.begin_rivals(&workload.rivals)?;
        self.link.start_schedule()?;
        let lasting = workload.duration.map_or(ALONE, units::Span::get);
        self.wait(lasting, &mut rivals.processes)?;
        let looks = self.end_rivals(rivals)?;
        trial.readings.push(self.check_path(Depth::RoundTrip)?);
        (_, trial.link_problems) = self.end_account()?;
        if !trial.is_spoiled() {
            let ends = looks.first().zip(looks.last());
            let alone = ends.map(|(first, last)| rates(&looks, first.at_unix_s, last.at_unix_s));
            self.alone_bps.insert(index, alone.unwrap_or_default());
        }
        Ok(trial)
    }

    /// Starts a workload's rivals and gives them their head start; `None` where it has none.
    pub(super) fn start_rivals(
        &mut self,
        workload: &Workload,
    ) -> Result<Option<RunningRivals>, BenchError> {
        if workload.rivals.is_empty() {
            return Ok(None);
        }
        self.begin_rivals(&workload.rivals).map(Some)
    }

    fn begin_rivals(&mut self, rivals: &[Rival]) -> Result<RunningRivals, BenchError> {
        let server = SocketAddr::new(self.topology.address(Place::RivalSink), FLOW_PORT);
        let mut processes = Vec::new();
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
            processes.push(Worker::start(&name, command, &(), &self.logs)?);
            head_start = head_start.max(rival.head_start.get());
        }
        self.wait(head_start, &mut processes)?;
        let namespace = &self.topology.node(Place::Rival).namespace;
        let sampler = Sampler::start(namespace, LOOK).map_err(BenchError::Sampler)?;
        Ok(RunningRivals { processes, sampler })
    }

    /// Ends them; what was seen of them since their head start.
    pub(super) fn end_rivals(
        &mut self,
        rivals: RunningRivals,
    ) -> Result<Vec<Snapshot>, BenchError> {
        let RunningRivals {
            mut processes,
            sampler,
        } = rivals;
        let looks = sampler.stop().map_err(BenchError::Sampler)?;
        for process in &mut processes {
            process.expect_alive("what rivals reached")?;
        }
        drop(processes);
        self.drain()?;
        Ok(looks)
    }

    fn wait(&mut self, span: Duration, rivals: &mut [Worker]) -> Result<(), BenchError> {
        const WATCH: Duration = Duration::from_millis(100);
        let end = Instant::now() + span;
        while Instant::now() < end {
            self.expect_all_alive()?;
            for process in &mut *rivals {
                process.expect_alive("the head start of rivals")?;
            }
            std::thread::sleep(WATCH.min(end.saturating_duration_since(Instant::now())));
        }
        Ok(())
    }
}

// === impl Share ===

impl Share {
    /// What rivals got beside it, by what was seen of them, and get alone.
    pub(super) fn beside(self, looks: &[Snapshot], alone_bps: &[f64]) -> Rivals {
        Rivals {
            alone_bps: alone_bps.to_vec(),
            beside_bps: rates(looks, self.from_s, self.to_s),
            own_bps: self.own_bps,
        }
    }
}

/// Payload bits per second of each socket between two moments.
fn rates(looks: &[Snapshot], from_s: f64, to_s: f64) -> Vec<f64> {
    let seconds = (to_s - from_s).max(f64::MIN_POSITIVE);
    let seen = looks.iter().flat_map(|look| look.sockets.keys().copied());
    let cookies: BTreeSet<u64> = seen.collect();
    let rates = cookies.into_iter().map(|cookie| {
        let moved = moved_at(looks, cookie, to_s) - moved_at(looks, cookie, from_s);
        moved / seconds
    });
    rates.collect()
}

/// Payload bits that a socket had moved at a moment: between two looks in proportion, outside of them what the
/// nearest one saw.
fn moved_at(looks: &[Snapshot], cookie: u64, at_s: f64) -> f64 {
    let moved = |look: &Snapshot| {
        let reading = look.sockets.get(&cookie);
        bits(reading.map_or(0, |reading| reading.acknowledged + reading.received))
    };
    let next = looks.partition_point(|look| look.at_unix_s <= at_s);
    let before = next.checked_sub(1).and_then(|before| looks.get(before));
    match (before, looks.get(next)) {
        (Some(before), Some(after)) => {
            let share = (at_s - before.at_unix_s) / (after.at_unix_s - before.at_unix_s);
            moved(before) + share * (moved(after) - moved(before))
        }
        (Some(nearest), None) | (None, Some(nearest)) => moved(nearest),
        (None, None) => 0.0,
    }
}

#[cfg(test)]
mod tests {
    use super::super::sampler::Reading;
    use super::*;

    fn look(at_unix_s: f64, moved: [u64; 2]) -> Snapshot {
        let reading = |acknowledged| Reading {
            acknowledged,
            ..Reading::default()
        };
        Snapshot {
            at_unix_s,
            sockets: (7..).zip(moved.map(reading)).collect(),
        }
    }

    #[test]
    fn a_rival_is_measured_while_the_transfer_lasts_and_not_before_or_after() {
        // All of the path until 11, half of it until 13, all of it again.
        let looks = [
            look(10.0, [0, 100]),
            look(11.0, [1_000, 100]),
            look(13.0, [2_000, 100]),
            look(14.0, [3_000, 100]),
        ];
        let share = |from_s, to_s| Share {
            from_s,
            to_s,
            own_bps: vec![4_000.0],
        };
        let beside = share(11.0, 13.0).beside(&looks, &[8_000.0, 0.0]);
        assert_eq!(beside.beside_bps, [4_000.0, 0.0]);
        assert_eq!(beside.alone_bps, [8_000.0, 0.0]);
        assert_eq!(beside.own_bps, [4_000.0]);
        // Between looks in proportion.
        let beside = share(12.0, 13.5).beside(&looks, &[]).beside_bps;
        assert_eq!(beside, [(500.0 + 500.0) * 8.0 / 1.5, 0.0]);
        // What nobody saw is nothing.
        assert_eq!(share(14.0, 20.0).beside(&looks, &[]).beside_bps, [0.0; 2]);
        assert_eq!(share(1.0, 2.0).beside(&[], &[]).beside_bps, [0.0; 0]);
    }
}
