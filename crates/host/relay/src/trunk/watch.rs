//! Looking at running trunks from time to time: a sample a minute for the history, and an active probe as often as
//! the configuration says.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::{Instant, MissedTickBehavior, interval_at};
use trunk::{Holds, Totals};
use units::{Bytes, Rate};

use super::account::{Account, Sample, unix_now};
use super::echo::{self, Probe};
use super::event::{TrunkEvent, limits};
use super::status::{Trunks, Watched};
use crate::event::Events;

/// Between two samples: two days of them are what the history keeps.
const SAMPLE_EVERY: Duration = Duration::from_mins(1);

/// What the last probes found, by trunk.
#[derive(Debug, Default)]
pub(super) struct Health {
    found: Mutex<BTreeMap<String, Found>>,
}

/// One probe's result.
#[derive(Clone, Debug)]
pub(super) struct Found {
    pub(super) at_unix_s: u64,
    pub(super) probe: Probe,
}

// === impl Health ===

impl Health {
    /// Whether no trunk was found ill by its last probe.
    pub(super) fn is_well(&self) -> bool {
        self.found().values().all(|found| found.probe.healthy)
    }

    pub(super) fn found(&self) -> BTreeMap<String, Found> {
        self.lock().clone()
    }

    /// Takes note of what a probe found; whether that differs from the last one.
    fn note(&self, probe: Probe) -> bool {
        let (name, healthy) = (probe.trunk.clone(), probe.healthy);
        let found = Found {
            at_unix_s: unix_now(),
            probe,
        };
        let before = self.lock().insert(name, found);
        before.is_none_or(|before| before.probe.healthy != healthy)
    }

    /// Forgets trunks that are no more.
    fn keep(&self, watched: &[Watched]) {
        self.lock()
            .retain(|name, _| watched.iter().any(|trunk| trunk.engine.name == *name));
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, Found>> {
        self.found.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Probes every trunk each `every`, for ever, and tells of every change.
pub(super) async fn probe(trunks: Trunks, health: Arc<Health>, every: Duration, events: Events) {
    let mut ticks = ticks(every);
    loop {
        ticks.tick().await;
        // One that was left ends by itself, and takes no stream for a probe.
        let mut watched = trunks();
        watched.retain(|watched| watched.engine.takes_streams());
        health.keep(&watched);
        for Watched { engine, targets } in watched {
            let probe = echo::probe(&engine, &targets).await;
            let (trunk, healthy, why) = (probe.trunk.clone(), probe.healthy, probe.problem());
            if health.note(probe) {
                let told = TrunkEvent::TrunkHealth {
                    trunk,
                    healthy,
                    why,
                };
                events(told.into());
            }
        }
    }
}

/// Adds a sample of every trunk to its history each minute, for ever.
pub(super) async fn sample(minute: Arc<Minute>, account: Arc<Account>) {
    let mut ticks = ticks(SAMPLE_EVERY);
    loop {
        ticks.tick().await;
        for (name, sample) in minute.end() {
            account.remember(&name, sample);
        }
    }
}

/// The minute that is under way.
pub(super) struct Minute {
    trunks: Trunks,
    begun: Mutex<Begun>,
}

/// How all trunks were at its beginning.
struct Begun {
    at: Instant,
    readings: BTreeMap<String, Reading>,
}

// === impl Minute ===

impl Minute {
    pub(super) fn new(trunks: Trunks) -> Self {
        let begun = Begun {
            at: Instant::now(),
            readings: BTreeMap::new(),
        };
        Self {
            trunks,
            begun: Mutex::new(begun),
        }
    }

    /// What has happened on every trunk since it began.
    pub(super) fn so_far(&self) -> BTreeMap<String, Sample> {
        let readings = self.readings();
        self.lock().samples(&readings, Instant::now())
    }

    /// The same, and another one begins.
    fn end(&self) -> BTreeMap<String, Sample> {
        let (readings, at) = (self.readings(), Instant::now());
        let mut begun = self.lock();
        let samples = begun.samples(&readings, at);
        *begun = Begun { at, readings };
        samples
    }

    fn readings(&self) -> BTreeMap<String, Reading> {
        let mut now: BTreeMap<String, Reading> = BTreeMap::new();
        for Watched { engine, .. } in (self.trunks)() {
            // Sessions of one far end stand under its name together.
            let reading = now.entry(engine.name.clone()).or_default();
            reading.add(&engine.reading());
        }
        now
    }

    fn lock(&self) -> MutexGuard<'_, Begun> {
        self.begun.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Begun {
    fn samples(&self, now: &BTreeMap<String, Reading>, at: Instant) -> BTreeMap<String, Sample> {
        let span = at.saturating_duration_since(self.at);
        let earlier = |name| self.readings.get(name).cloned().unwrap_or_default();
        now.iter()
            .map(|(name, reading)| (name.clone(), reading.since(&earlier(name), span)))
            .collect()
    }
}

fn ticks(every: Duration) -> tokio::time::Interval {
    let every = every.max(Duration::from_millis(1));
    let mut ticks = interval_at(Instant::now() + every, every);
    // A host that was asleep has nothing to catch up on.
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    ticks
}

/// A trunk at one moment, with counters that only grow while its session lasts.
#[derive(Clone, Debug, Default)]
pub(super) struct Reading {
    pub(super) up: bool,
    pub(super) streams: usize,
    pub(super) connections: usize,
    pub(super) delivered: u64,
    pub(super) received: u64,
    pub(super) round_trip: Option<Duration>,
    pub(super) modest: bool,
    pub(super) totals: Totals,
    pub(super) held_by: Holds,
}

impl Reading {
    fn add(&mut self, other: &Self) {
        self.up |= other.up;
        self.streams += other.streams;
        self.connections += other.connections;
        self.delivered += other.delivered;
        self.received += other.received;
        self.round_trip = self.round_trip.max(other.round_trip);
        self.modest |= other.modest;
        self.totals += other.totals;
        self.held_by += other.held_by;
    }

    /// What happened since `earlier`, `span` ago. A session that has begun anew counts from zero.
    fn since(&self, earlier: &Self, span: Duration) -> Sample {
        let per_second = |now: u64, before: u64| {
            let bytes = Bytes::new(now.saturating_sub(before));
            bytes.checked_per(span).map_or(0, Rate::bits_per_s)
        };
        let (now, before) = (&self.totals, &earlier.totals);
        Sample {
            at_unix_s: unix_now(),
            seconds: span.as_secs_f64(),
            up: self.up,
            streams: self.streams,
            connections: self.connections,
            sent_bps: per_second(self.delivered, earlier.delivered),
            received_bps: per_second(self.received, earlier.received),
            rtt_s: self.round_trip.map(|span| span.as_secs_f64()),
            retransmitted_bytes: now.retransmitted.saturating_sub(before.retransmitted),
            repeated_bytes: now.repeated.saturating_sub(before.repeated),
            modest: self.modest,
            limits_s: limits(&self.held_by.since(&earlier.held_by)),
        }
    }
}
