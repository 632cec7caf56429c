//! Looking at running trunks from time to time: a sample a minute for the history, and an active probe as often as
//! the configuration says.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::time::{Instant, MissedTickBehavior, interval_at};
use trunk::{Holds, Totals};

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

    fn lock(&self) -> std::sync::MutexGuard<'_, BTreeMap<String, Found>> {
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
pub(super) async fn sample(trunks: Trunks, account: Arc<Account>) {
    let mut ticks = ticks(SAMPLE_EVERY);
    let mut before: BTreeMap<String, Reading> = BTreeMap::new();
    loop {
        ticks.tick().await;
        let mut now = BTreeMap::new();
        for Watched { engine, .. } in trunks() {
            // Sessions of one far end stand under its name together.
            let reading: &mut Reading = now.entry(engine.name.clone()).or_default();
            reading.add(&engine.reading());
        }
        for (name, reading) in &now {
            let earlier = before.get(name).cloned().unwrap_or_default();
            account.remember(name, reading.since(&earlier));
        }
        before = now;
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

    /// What happened since `earlier`, a minute ago. A session that has begun anew counts from zero.
    fn since(&self, earlier: &Self) -> Sample {
        let per_second = |now: u64, before: u64| {
            now.saturating_sub(before).saturating_mul(8) / SAMPLE_EVERY.as_secs()
        };
        let (now, before) = (&self.totals, &earlier.totals);
        Sample {
            at_unix_s: unix_now(),
            seconds: SAMPLE_EVERY.as_secs_f64(),
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
