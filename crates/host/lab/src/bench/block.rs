//! One block on a bench: what is watched while it runs, and its transfers, by kind of workload.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use comparison::Transfer;
use scenario::{Arm, Capture, Flow, Kind, Tls, Workload};

use super::counters::KernelCounters;
use super::rivals::Share;
use super::sampler::{self, Sampler, Snapshot};
use super::series::{Observation, QueueSample, bits};
use super::topology::Place;
use super::{Bench, BenchError, TopologyError, wire};
use crate::emulator::Interval;
use crate::experiment::apparatus::{Task, Trial};
use crate::probe::Depth;
use crate::tap::{Tap, TapError};

/// Lateness that spoils nothing, however short the path: a scheduler's tick of a busy machine.
const LATENESS_GRAIN: Duration = Duration::from_millis(1);
/// Lateness that is allowed where it is bound to be larger and the run has said so: without real-time
/// priority, and above [`FAST`].
const LATENESS_LOOSE: Duration = Duration::from_millis(5);
/// Above this rate, in bits per second, both ends of a transfer take all of a small machine's processors,
/// and lateness of a superpacket is queueing like any other: up to 4 ms were measured with full goodput at
/// 6 Gbit/s.
const FAST: u64 = 500_000_000;

/// A transfer as it was seen, and between which moments, in seconds since 1970.
#[derive(Debug)]
pub(super) struct Seen {
    pub(super) transfer: Transfer,
    pub(super) from_s: f64,
    pub(super) to_s: f64,
}

/// What one task is about.
#[derive(Clone, Copy, Debug)]
pub(super) struct Job<'a> {
    pub(super) arm: &'a Arm,
    /// The workload's index in the scenario.
    pub(super) index: usize,
    pub(super) workload: &'a Workload,
    pub(super) route: &'a [String],
    /// Transfers in all, warm-up included.
    pub(super) transfers: u32,
    pub(super) warm_up: u32,
    pub(super) name: &'a str,
}

/// Everything that watches a block. Dropping it ends all of it.
#[derive(Debug)]
struct Watch {
    taps: Vec<(Tap, PathBuf, Place)>,
    /// None where there is no series, or no kernel's TCP to watch.
    sampler: Option<Sampler>,
    interval: Option<Duration>,
    upwards: bool,
}

/// What watching a block has brought.
#[derive(Debug)]
struct Watched {
    observation: Observation,
    /// Files by the place whose packets they hold.
    captures: BTreeMap<Place, PathBuf>,
    /// What was off about the link, or about the captures.
    problems: Vec<String>,
}

/// What is noted while a block's transfers run.
#[derive(Debug, Default)]
pub(super) struct Account {
    /// The kernels' counters when each that counts began.
    pub(super) counters: Vec<HostCounters>,
    /// What the flows of each transfer that counts got, in order; without those that failed.
    pub(super) shares: Vec<Share>,
    /// What flows say of their own TCP.
    pub(super) snapshots: Vec<Snapshot>,
}

/// Kernel counters of every host by its name.
type HostCounters = BTreeMap<String, KernelCounters>;

// === impl Job ===

impl Job<'_> {
    /// Connections at once.
    pub(super) fn parallel(&self) -> u32 {
        self.arm
            .parallel
            .unwrap_or_else(|| self.workload.parallel())
    }

    /// The program that does the transfers, if not ours.
    pub(super) fn program(&self) -> Option<&str> {
        let of_arm = self.arm.command.as_deref();
        of_arm.or(self.workload.command.as_deref())
    }

    /// The version of TLS that the client speaks; plain where absent.
    pub(super) fn tls(&self) -> Option<Tls> {
        self.arm.tls.or(self.workload.tls)
    }

    /// Whether the wire tells how long a transfer took: another program's own clock includes its start.
    fn is_timed_on_the_wire(&self) -> bool {
        self.program().is_some() && self.workload.kind != Kind::Command
    }

    /// The place of a transfer among those that count; `None` in the warm-up.
    pub(super) fn position(&self, number: u32) -> Option<usize> {
        let position = number.checked_sub(self.warm_up)?;
        usize::try_from(position).ok()
    }
}

impl Bench {
    /// Does a block. `route` is the arm's, or another one instead.
    pub(super) fn perform(
        &mut self,
        task: &Task<'_>,
        route: &[String],
    ) -> Result<Trial, BenchError> {
        let scenario = self.scenario.clone();
        let whole = Job {
            arm: &scenario.arms[task.arm],
            index: task.workload,
            workload: &scenario.workloads[task.workload],
            route,
            transfers: task.warm_up + task.transfers,
            warm_up: task.warm_up,
            name: task.name,
        };
        if !whole.is_timed_on_the_wire() {
            return self.watched(&whole);
        }
        // A capture for each run of a command: what belongs to which is beyond doubt then, whatever it
        // sends.
        let mut trial = Trial::default();
        for number in 0..whole.transfers {
            let name = format!("{}-{number}", task.name);
            let one = self.watched(&Job {
                transfers: 1,
                warm_up: u32::from(number < task.warm_up),
                name: &name,
                ..whole
            })?;
            let spoiled = one.is_spoiled();
            trial.add(one, number.saturating_sub(task.warm_up));
            if spoiled {
                break;
            }
        }
        Ok(trial)
    }

    /// The transfers of a job, watched from all sides.
    fn watched(&mut self, job: &Job<'_>) -> Result<Trial, BenchError> {
        let alone = self.measure_rivals_alone(job.index, job.workload)?;
        if alone.is_spoiled() {
            return Ok(alone);
        }
        let rivals = self.start_rivals(job.workload)?;
        let watch = self.watch(job)?;
        let mut account = Account::default();
        self.link.start_schedule()?;
        let seen = self.transfers(job, &mut account)?;
        account.counters.push(self.counters()?);
        let counted = account
            .counters
            .windows(2)
            .map(|looks| difference(&looks[0], &looks[1]));
        let counted: Vec<BTreeMap<String, u64>> = counted.collect();
        let rivals = match rivals {
            None => Vec::new(),
            Some(rivals) => {
                let looks = self.end_rivals(rivals)?;
                let alone_bps = self
                    .alone_bps
                    .get(&job.index)
                    .map_or(&[][..], Vec::as_slice);
                let shares = account.shares.into_iter();
                shares
                    .map(|share| share.beside(&looks, alone_bps))
                    .collect()
            }
        };
        // The check comes before captures end: it gives the last FIN the round trip that it needs to be
        // captured.
        let reading = self.check_path(Depth::RoundTrip)?;
        let Watched {
            mut observation,
            mut captures,
            problems: link_problems,
        } = self.end_watch(watch)?;
        if self.own_tcp_sends(job) {
            observation.snapshots = account.snapshots;
        }

        let mut trial = Trial {
            captured: seen.len(),
            legs: self.leg_captures(job, |place| captures.get(&place).cloned()),
            captures: captures.remove(&Place::Client).into_iter().collect(),
            readings: alone.readings.into_iter().chain([reading]).collect(),
            link_problems,
            rivals,
            ..Trial::default()
        };
        for (number, one) in (0..).zip(seen) {
            let Some(position) = job.position(number) else {
                continue;
            };
            let mut transfer = self.on_the_wire(job, one.transfer, &trial.captures)?;
            transfer.position = position;
            if let Some(counted) = counted.get(position) {
                transfer.counters.extend(counted.clone());
            }
            if transfer.steady_bps.is_none() && transfer.failure.is_none() {
                let half = f64::midpoint(one.from_s, one.to_s);
                transfer.steady_bps = observation.goodput_between(half, one.to_s);
            }
            trial.series.push(observation.series(one.from_s, one.to_s));
            trial.moments.push((one.from_s, one.to_s));
            trial.transfers.push(transfer);
        }
        Ok(trial)
    }

    /// Each transfer of a job, in order.
    fn transfers(&mut self, job: &Job<'_>, account: &mut Account) -> Result<Vec<Seen>, BenchError> {
        let Some(program) = job.program() else {
            return match job.workload.kind {
                Kind::Upload | Kind::Download | Kind::Replicate => {
                    let seen = self.objects(job, account)?;
                    account.shares = counted(job, &seen).filter_map(Seen::share).collect();
                    Ok(seen)
                }
                Kind::Stream | Kind::Exchange | Kind::Burst => self.flows(job, account),
                // A scenario is refused whose command is missing.
                Kind::Command => Ok(Vec::new()),
            };
        };
        let mut seen = Vec::new();
        for number in 0..job.transfers {
            self.note_beginning(job, number, account)?;
            seen.push(self.by_command(job, program, number)?);
        }
        account.shares = counted(job, &seen).filter_map(Seen::share).collect();
        Ok(seen)
    }

    /// With an external program, the time that the wire shows.
    fn on_the_wire(
        &self,
        job: &Job<'_>,
        transfer: Transfer,
        captures: &[PathBuf],
    ) -> Result<Transfer, BenchError> {
        if !job.is_timed_on_the_wire() {
            return Ok(transfer);
        }
        let document = self.explain(captures, false)?;
        Ok(wire::timed(transfer, &document))
    }

    fn watch(&mut self, job: &Job<'_>) -> Result<Watch, BenchError> {
        let mut taps = Vec::new();
        for (place, suffix) in self.tapped(job) {
            let (tap, file) = self.tap_at(place, None, &format!("{}{suffix}", job.name))?;
            taps.push((tap, file, place));
        }
        let interval = self.scenario.experiment.series_interval();
        let upwards = job.workload.direction() != Flow::Down;
        self.start_account()?;
        let sampler = match interval {
            None => None,
            Some(interval) => {
                self.link.sample(Some(interval))?;
                let sender = self.sender(job);
                let namespace = &self.topology.node(sender).namespace;
                let kernel = !self.own_tcp_sends(job);
                let start = || Sampler::start(namespace, interval).map_err(BenchError::Sampler);
                kernel.then(start).transpose()?
            }
        };
        Ok(Watch {
            taps,
            sampler,
            interval,
            upwards,
        })
    }

    /// Whose packets are kept in a block, and what is added to their files' names.
    fn tapped(&self, job: &Job<'_>) -> Vec<(Place, String)> {
        let nodes = self.topology.nodes();
        let ends = nodes.filter(|(place, _)| !matches!(place, Place::Hop(_)));
        let senders = self.ends_that_send(job);
        let experiment = &self.scenario.experiment;
        // Predictions speak of what the client waits.
        let explained = experiment.explains.as_ref() == Some(&job.arm.name);
        let kept = ends.filter(|(place, _)| match experiment.capture {
            _ if *place == Place::Client && job.is_timed_on_the_wire() => true,
            Capture::None => false,
            Capture::Client => senders.contains(place) || (*place == Place::Client && explained),
            Capture::All => true,
        });
        let named = kept.map(|(place, node)| match place {
            Place::Client => (place, String::new()),
            Place::Origin | Place::Rival | Place::RivalSink | Place::Hop(_) => {
                (place, format!("-at-{}", node.name))
            }
        });
        named.collect()
    }

    /// The host whose TCP sends the payload across the WAN.
    pub(super) fn sender(&self, job: &Job<'_>) -> Place {
        // Client and origin are on different sides: some leg lies between.
        self.long_haul(job.route, job.workload)
            .map_or(Place::Client, |seat| seat.sender)
    }

    /// Whether the payload leaves by our own TCP, which no kernel can be asked about.
    pub(super) fn own_tcp_sends(&self, job: &Job<'_>) -> bool {
        self.topology.node(self.sender(job)).own_tcp.is_some()
    }

    fn end_watch(&mut self, watch: Watch) -> Result<Watched, BenchError> {
        let snapshots = match watch.sampler {
            Some(sampler) => sampler.stop().map_err(BenchError::Sampler)?,
            None => Vec::new(),
        };
        if watch.interval.is_some() {
            self.link.sample(None)?;
        }
        let (queue, mut problems) = self.end_account()?;
        let mut captures = BTreeMap::new();
        for (tap, file, place) in watch.taps {
            match tap.stop() {
                Ok(()) => {}
                // A processor was too busy for the capture, or for the path: which of them is not to be told.
                Err(error @ TapError::Dropped { .. }) => problems.push(error.to_string()),
                Err(source) => {
                    return Err(BenchError::Capture {
                        host: self.topology.node(place).name.clone(),
                        source,
                    });
                }
            }
            captures.insert(place, file);
        }
        let observation = Observation {
            interval_s: watch
                .interval
                .map_or(0.0, |interval| interval.as_secs_f64()),
            snapshots,
            queue,
            upwards: watch.upwards,
        };
        Ok(Watched {
            observation,
            captures,
            problems,
        })
    }

    /// The link's own account begins anew: the next one speaks of what comes now, and of nothing before.
    pub(super) fn start_account(&mut self) -> Result<(), BenchError> {
        self.link.read()?;
        Ok(())
    }

    /// The queues' samples since [`start_account`](Self::start_account), and what was off about the link.
    pub(super) fn end_account(&mut self) -> Result<(Vec<QueueSample>, Vec<String>), BenchError> {
        let (queue, interval) = self.link.read()?;
        let problems = interval.map_or_else(Vec::new, |interval| self.problems_of(&interval));
        Ok((queue, problems))
    }

    /// Why nothing counts that was measured in this interval.
    fn problems_of(&self, interval: &Interval) -> Vec<String> {
        let path = &self.scenario.path;
        let is_fast = path.bottleneck_rate().bits_per_s() > FAST;
        let grain = if is_fast || self.unpunctual.is_some() {
            LATENESS_LOOSE
        } else {
            LATENESS_GRAIN
        };
        interval.problems(path.rtt.get(), grain)
    }

    /// Looks at the kernels' counters where transfer `number`, which is about to begin, counts.
    pub(super) fn note_beginning(
        &self,
        job: &Job<'_>,
        number: u32,
        account: &mut Account,
    ) -> Result<(), BenchError> {
        if job.position(number).is_some() {
            account.counters.push(self.counters()?);
        }
        Ok(())
    }

    /// The counters of every host's kernel now, but of those whose TCP is ours.
    fn counters(&self) -> Result<HostCounters, BenchError> {
        let nodes = self.topology.nodes();
        nodes
            .filter(|(_, node)| node.own_tcp.is_none())
            .map(|(_, node)| {
                let counters = KernelCounters::of(&node.namespace)
                    .map_err(|source| BenchError::Topology(TopologyError::Namespace(source)))?;
                Ok((node.name.clone(), counters))
            })
            .collect()
    }
}

/// Those of a job's transfers that count.
fn counted<'a>(job: &Job<'_>, seen: &'a [Seen]) -> impl Iterator<Item = &'a Seen> {
    let warm_up = usize::try_from(job.warm_up).unwrap_or(usize::MAX);
    seen.iter().skip(warm_up)
}

fn difference(before: &HostCounters, after: &HostCounters) -> BTreeMap<String, u64> {
    let mut counted = BTreeMap::new();
    for (host, after) in after {
        if let Some(before) = before.get(host) {
            let named = before
                .until(after)
                .map(|(name, count)| (format!("{host}: {name}"), count));
            counted.extend(named);
        }
    }
    counted
}

// === impl Seen ===

impl Seen {
    /// A transfer that has ended just now and took so long.
    pub(super) fn until_now(transfer: Transfer) -> Self {
        let to_s = sampler::unix_now_s();
        Self {
            from_s: to_s - transfer.seconds,
            to_s,
            transfer,
        }
    }

    /// What it got as a whole, where it went well.
    fn share(&self) -> Option<Share> {
        let transfer = &self.transfer;
        let counts = transfer.failure.is_none() && transfer.seconds > 0.0;
        counts.then(|| Share {
            from_s: self.from_s,
            to_s: self.to_s,
            own_bps: vec![bits(transfer.bytes) / transfer.seconds],
        })
    }
}

// === impl Trial ===

impl Trial {
    /// Whether the path was off meanwhile.
    pub(super) fn is_spoiled(&self) -> bool {
        let off = self.readings.iter().any(|reading| !reading.is_valid());
        off || !self.link_problems.is_empty()
    }

    /// Adds the trial of a single transfer, whose place is `position`.
    fn add(&mut self, one: Self, position: u32) {
        let place = usize::try_from(position).unwrap_or(usize::MAX);
        self.transfers
            .extend(one.transfers.into_iter().map(|transfer| Transfer {
                position: place,
                ..transfer
            }));
        self.series.extend(one.series);
        self.captures.extend(one.captures);
        self.legs.extend(one.legs);
        self.moments.extend(one.moments);
        self.rivals.extend(one.rivals);
        self.captured += one.captured;
        self.readings.extend(one.readings);
        self.link_problems.extend(one.link_problems);
    }
}
