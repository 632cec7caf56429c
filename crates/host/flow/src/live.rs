//! What a flow is doing right now: sampled at an interval, shown while it runs, kept for the record.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use record::flow::Sample;

use crate::engine::Stream;
use crate::incoming::{MOST_POINTS, thin};

/// A connection as its sampler sees it.
#[derive(Debug)]
pub(crate) struct Live {
    /// Number of the flow.
    index: u64,
    pub(crate) stream: Arc<dyn Stream>,
    opened_at: Instant,
    /// Payload bytes received here.
    pub(crate) received: AtomicU64,
    samples: Mutex<Vec<Sample>>,
}

/// All flows at a moment, for whoever watches.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Progress {
    /// Since the run began.
    pub elapsed: Duration,
    /// Those whose connections are open.
    pub flows: Vec<FlowProgress>,
    /// Payload bytes that reached their receiver so far, as far as this end knows: acknowledged by the
    /// peer, or received here. With those of connections that have gone.
    pub bytes: u64,
}

/// One flow at a moment.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct FlowProgress {
    /// Its number, as in the record.
    pub index: u64,
    /// Payload bytes that reached their receiver so far, as far as this end knows.
    pub bytes: u64,
    /// Congestion window, in bytes.
    pub cwnd: u64,
    /// Smoothed round-trip time; zero before there is one.
    pub rtt_s: f64,
    /// Segments retransmitted so far.
    pub retransmits: u64,
}

/// Takes samples of all connections in a thread of its own until it is dropped.
#[derive(Debug, Default)]
pub(crate) struct Sampler {
    open: Mutex<Vec<Arc<Live>>>,
    /// Bytes of connections that have gone.
    gone: AtomicU64,
    stopped: AtomicBool,
    lock: Mutex<()>,
    wake: Condvar,
}

// === impl Live ===

impl Live {
    pub(crate) fn new(index: u64, stream: Arc<dyn Stream>) -> Self {
        Self {
            index,
            stream,
            opened_at: Instant::now(),
            received: AtomicU64::new(0),
            samples: Mutex::default(),
        }
    }

    /// Takes a sample now.
    pub(crate) fn sample(&self) -> Option<Sample> {
        let sample = Sample {
            at_s: self.opened_at.elapsed().as_secs_f64(),
            ..self.stream.sample()?
        };
        let mut samples = locked(&self.samples);
        samples.push(sample.clone());
        if samples.len() >= MOST_POINTS {
            thin(&mut samples);
        }
        Some(sample)
    }

    /// Takes a sample, and says how it stands.
    fn look(&self) -> FlowProgress {
        let sample = self.sample().unwrap_or_default();
        FlowProgress {
            index: self.index,
            bytes: self.received.load(Ordering::Relaxed) + sample.acknowledged,
            cwnd: sample.cwnd,
            rtt_s: sample.rtt_s,
            retransmits: sample.retransmits,
        }
    }

    /// What was sampled so far, which is forgotten.
    pub(crate) fn take_samples(&self) -> Vec<Sample> {
        std::mem::take(&mut locked(&self.samples))
    }
}

// === impl Sampler ===

impl Sampler {
    pub(crate) fn add(&self, live: &Arc<Live>) {
        locked(&self.open).push(Arc::clone(live));
    }

    /// Forgets a connection, of which `bytes` were carried.
    pub(crate) fn remove(&self, live: &Arc<Live>, bytes: u64) {
        let mut open = locked(&self.open);
        let before = open.len();
        open.retain(|other| !Arc::ptr_eq(other, live));
        if open.len() < before {
            self.gone.fetch_add(bytes, Ordering::Relaxed);
        }
    }

    /// Samples every `interval` until [`stop`](Self::stop), and says what it saw.
    pub(crate) fn run(&self, interval: Duration, watch: &mut dyn FnMut(Progress)) {
        let start = Instant::now();
        let mut next = interval;
        while !self.stopped.load(Ordering::Acquire) {
            let wait = next.saturating_sub(start.elapsed());
            if wait.is_zero() {
                watch(self.look(start));
                next = next.max(start.elapsed().saturating_sub(interval)) + interval;
                continue;
            }
            let guard = locked(&self.lock);
            if !self.stopped.load(Ordering::Acquire) {
                drop(self.wake.wait_timeout(guard, wait));
            }
        }
    }

    /// Ends [`run`](Self::run).
    pub(crate) fn stop(&self) {
        let _guard = locked(&self.lock);
        self.stopped.store(true, Ordering::Release);
        self.wake.notify_all();
    }

    /// Shuts all connections down.
    pub(crate) fn abort(&self) {
        for live in locked(&self.open).iter() {
            live.stream.shut_down();
        }
    }

    fn look(&self, start: Instant) -> Progress {
        let open = locked(&self.open).clone();
        let flows: Vec<FlowProgress> = open.iter().map(|live| live.look()).collect();
        let carried: u64 = flows.iter().map(|flow| flow.bytes).sum();
        Progress {
            elapsed: start.elapsed(),
            bytes: self.gone.load(Ordering::Relaxed) + carried,
            flows,
        }
    }
}

/// A lock whose holder may have panicked: what it guards here is whole at every moment.
pub(crate) fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
