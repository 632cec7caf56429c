//! The asking end: makes connections, drives what happens on them, and keeps the record.

mod connection;
mod sink;
mod totals;

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Condvar, Mutex};
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use record::flow::{Flow, Totals};
use units::Bytes;

use crate::engine::{Engine, SocketOptions};
use crate::live::{Progress, Sampler, locked};
use crate::protocol::{Ask, ReadPause};

/// How long after a stop what is under way may still come.
const GRACE: Duration = Duration::from_secs(2);

/// What a client does.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The server.
    pub server: SocketAddr,
    /// How our sockets are made. Congestion control and pace hold for whoever sends.
    pub socket: SocketOptions,
    /// Seed of the payload; every connection has its own stream.
    pub seed: u64,
    /// Between two samples of a series.
    pub interval: Duration,
    /// Flows side by side.
    pub lanes: u64,
    /// How much later each lane begins than the one before.
    pub stagger: Duration,
    /// A receiver stops reading once.
    pub read_pause: Option<ReadPause>,
    /// The server is any TCP host that takes what it gets: nothing is agreed with it, payload goes to it
    /// only, and its acknowledgements are what is counted.
    pub sink: bool,
    /// What is carried.
    pub workload: Workload,
}

/// What is carried on a lane.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Workload {
    /// Fixed sizes, one after the other.
    Sizes {
        /// Which way.
        direction: Directions,
        /// Payload bytes of each.
        sizes: Vec<Bytes>,
        /// Pause between two of them.
        idle: Duration,
        /// All on one connection, or each on its own.
        reuse: bool,
    },
    /// As much as goes in a time.
    Duration {
        /// Which way.
        direction: Directions,
        /// For how long.
        duration: Duration,
    },
    /// A request, its response, and so on, on one connection.
    Exchanges {
        /// Payload bytes.
        request: Bytes,
        /// Payload bytes.
        response: Bytes,
        /// How many.
        count: u64,
        /// Pause between a response and the next request; the exchanges' times leave it out.
        idle: Duration,
    },
}

/// Which way payload goes.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Directions {
    /// To the server.
    Up,
    /// To the client.
    Down,
    /// Both at the same time.
    Both,
}

/// What came of a plan.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// In the order in which they began.
    pub flows: Vec<Flow>,
    /// All together.
    pub totals: Totals,
    /// The moment that the flows' `started_s` counts from.
    pub began: SystemTime,
    /// Whether [`Control::stop`] cut it short.
    pub interrupted: bool,
}

/// Stops a run from another thread.
#[derive(Debug, Default)]
pub struct Control {
    stopped: AtomicBool,
    lock: Mutex<()>,
    wake: Condvar,
}

/// Carries out `plan`. `watch` hears every interval how it stands.
pub fn run(
    engine: &dyn Engine,
    plan: &Plan,
    control: &Control,
    watch: &mut (dyn FnMut(Progress) + Send),
) -> Outcome {
    let began = SystemTime::now();
    let run = Run {
        engine,
        plan,
        control,
        start: Instant::now(),
        sampler: Sampler::default(),
        begun: AtomicU64::new(0),
        flows: Mutex::default(),
    };
    thread::scope(|scope| {
        let sampler = &run.sampler;
        let mut stopped_at = None;
        scope.spawn(move || {
            sampler.run(plan.interval, &mut |progress| {
                watch(progress);
                // What waits for a peer that keeps silent is cut off.
                if control.is_stopped()
                    && stopped_at.get_or_insert_with(Instant::now).elapsed() > GRACE
                {
                    sampler.abort();
                }
            });
        });
        thread::scope(|lanes| {
            for lane in 0..plan.lanes {
                let run = &run;
                lanes.spawn(move || run.lane(lane));
            }
        });
        sampler.stop();
    });
    let mut flows = std::mem::take(&mut *locked(&run.flows));
    flows.sort_by_key(|flow| flow.index);
    Outcome {
        totals: totals::of(&flows),
        flows,
        began,
        interrupted: control.is_stopped(),
    }
}

/// A plan being carried out.
struct Run<'a> {
    engine: &'a dyn Engine,
    plan: &'a Plan,
    control: &'a Control,
    start: Instant,
    sampler: Sampler,
    begun: AtomicU64,
    flows: Mutex<Vec<Flow>>,
}

// === impl Run ===

impl Run<'_> {
    fn lane(&self, lane: u64) {
        let turn = u32::try_from(lane).unwrap_or(u32::MAX);
        self.control.wait(self.plan.stagger.saturating_mul(turn));
        match &self.plan.workload {
            Workload::Sizes {
                sizes, idle, reuse, ..
            } => {
                let asks: Vec<Ask> = sizes.iter().map(|size| Ask::Bytes(size.get())).collect();
                let each = if *reuse { asks.len().max(1) } else { 1 };
                for (index, asks) in asks.chunks(each).enumerate() {
                    if index > 0 {
                        self.control.wait(*idle);
                    }
                    self.connection(lane, asks);
                }
            }
            Workload::Duration { duration, .. } => {
                let nanos = u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX);
                self.connection(lane, &[Ask::Nanoseconds(nanos)]);
            }
            Workload::Exchanges { .. } => self.connection(lane, &[]),
        }
    }

    fn connection(&self, lane: u64, asks: &[Ask]) {
        if self.control.is_stopped() {
            return;
        }
        let index = self.begun.fetch_add(1, Ordering::Relaxed);
        let flow = connection::run(self, lane, index, asks);
        locked(&self.flows).push(flow);
    }
}

// === impl Control ===

impl Control {
    /// Ends the run soon: streams are cut, what was measured is kept.
    pub fn stop(&self) {
        let _guard = locked(&self.lock);
        self.stopped.store(true, Ordering::Release);
        self.wake.notify_all();
    }

    fn is_stopped(&self) -> bool {
        self.stopped.load(Ordering::Acquire)
    }

    /// Waits for `span`, or for the stop.
    fn wait(&self, span: Duration) {
        let end = Instant::now() + span;
        let mut guard = locked(&self.lock);
        while !self.is_stopped() {
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return;
            }
            guard = match self.wake.wait_timeout(guard, left) {
                Ok((guard, _)) => guard,
                Err(poisoned) => poisoned.into_inner().0,
            };
        }
    }
}

// === impl Directions ===

impl Directions {
    const fn up(self) -> bool {
        matches!(self, Self::Up | Self::Both)
    }

    const fn down(self) -> bool {
        matches!(self, Self::Down | Self::Both)
    }
}

// === impl Workload ===

impl Workload {
    const fn direction(&self) -> Directions {
        match self {
            Self::Sizes { direction, .. } | Self::Duration { direction, .. } => *direction,
            Self::Exchanges { .. } => Directions::Both,
        }
    }
}
