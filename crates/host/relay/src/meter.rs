//! What a listener has done so far, counted from its events.

mod histogram;
mod prometheus;

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use profile::Side;
use record::LimitName;
use serde::Serialize;
use tokio::time::Instant;

use crate::event::{ConnectionDone, EndedBy, Event, Phase};
use histogram::Histogram;
pub(crate) use prometheus::write;

/// The counters of one listener.
pub(crate) struct Meter {
    /// The address, with the port that was really taken.
    pub(crate) listen: SocketAddr,
    counts: Mutex<Counts>,
    present: Mutex<BTreeMap<u64, (SocketAddr, Instant)>>,
}

/// A client, listed for as long as this lives.
pub(crate) struct Presence {
    meter: Arc<Meter>,
    id: u64,
}

#[derive(Clone, Debug, Default)]
struct Counts {
    accepted: u64,
    refused: u64,
    ended: BTreeMap<(EndedBy, Phase), u64>,
    bytes_up: u64,
    bytes_down: u64,
    limits_s: BTreeMap<(Side, LimitName), f64>,
    retransmitted: BTreeMap<Side, u64>,
    connect: Histogram,
    /// By the status' first digit; 0 where the client got none.
    requests: BTreeMap<u16, u64>,
    requests_hot: u64,
    request: Histogram,
    targets: BTreeMap<String, bool>,
    warnings: BTreeMap<&'static str, u64>,
}

/// A listener, for the administrator.
#[derive(Debug, Serialize)]
pub(crate) struct RelayStatus {
    listen: SocketAddr,
    clients: usize,
    accepted: u64,
    refused: u64,
    bytes_up: u64,
    bytes_down: u64,
    /// By who ended them.
    ended: BTreeMap<&'static str, u64>,
    requests: u64,
    requests_hot: u64,
    /// Targets whose state has ever changed, and whether they are there.
    targets: BTreeMap<String, bool>,
    warnings: BTreeMap<&'static str, u64>,
}

/// A client that is there, for the administrator.
#[derive(Debug, Serialize)]
pub(crate) struct ClientStatus {
    listen: SocketAddr,
    client: u64,
    peer: SocketAddr,
    seconds: f64,
}

// === impl Meter ===

impl Meter {
    pub(crate) fn new(listen: SocketAddr) -> Self {
        Self {
            listen,
            counts: Mutex::default(),
            present: Mutex::default(),
        }
    }

    /// Counts a client in.
    pub(crate) fn arrived(self: &Arc<Self>, id: u64, peer: SocketAddr) -> Presence {
        self.counts().accepted += 1;
        self.present().insert(id, (peer, Instant::now()));
        Presence {
            meter: Arc::clone(self),
            id,
        }
    }

    pub(crate) fn count(&self, event: &Event) {
        match event {
            Event::ConnectionDone(done) => self.counts().connection(done),
            Event::RequestDone {
                status,
                bytes_up,
                bytes_down,
                seconds,
                hot,
                ended_by,
                phase,
                ..
            } => {
                let mut counts = self.counts();
                *counts.ended.entry((*ended_by, *phase)).or_insert(0) += 1;
                *counts
                    .requests
                    .entry(status.unwrap_or(0) / 100)
                    .or_insert(0) += 1;
                counts.requests_hot += u64::from(*hot);
                counts.request.add(*seconds);
                counts.bytes_up += bytes_up;
                counts.bytes_down += bytes_down;
            }
            Event::Connected { seconds, .. } => self.counts().connect.add(*seconds),
            Event::Refused { .. } => self.counts().refused += 1,
            Event::Warning { name, .. } => *self.counts().warnings.entry(name).or_insert(0) += 1,
            Event::Target {
                target, available, ..
            } => {
                self.counts().targets.insert(target.clone(), *available);
            }
            Event::Listening { .. }
            | Event::Applied { .. }
            | Event::Primed { .. }
            | Event::PrimingFailed { .. }
            | Event::PoolReady { .. }
            | Event::Cooled { .. }
            | Event::Closed { .. }
            | Event::Admin { .. }
            | Event::Ready { .. }
            | Event::Reloaded { .. }
            | Event::ReloadFailed { .. }
            | Event::Draining { .. }
            | Event::Stopped { .. }
            | Event::Trunk(_) => {}
        }
    }

    pub(crate) fn status(&self) -> RelayStatus {
        let clients = self.present().len();
        let counts = self.counts();
        let mut ended = BTreeMap::new();
        for ((by, _), count) in &counts.ended {
            *ended.entry(by.as_str()).or_insert(0) += count;
        }
        RelayStatus {
            listen: self.listen,
            clients,
            accepted: counts.accepted,
            refused: counts.refused,
            bytes_up: counts.bytes_up,
            bytes_down: counts.bytes_down,
            ended,
            requests: counts.requests.values().sum(),
            requests_hot: counts.requests_hot,
            targets: counts.targets.clone(),
            warnings: counts.warnings.clone(),
        }
    }

    pub(crate) fn clients(&self) -> Vec<ClientStatus> {
        let present = self.present();
        let clients = present
            .iter()
            .map(|(&client, &(peer, since))| ClientStatus {
                listen: self.listen,
                client,
                peer,
                seconds: since.elapsed().as_secs_f64(),
            });
        clients.collect()
    }

    fn counts(&self) -> MutexGuard<'_, Counts> {
        // Counters are valid whatever their holder was doing when it panicked.
        self.counts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn present(&self) -> MutexGuard<'_, BTreeMap<u64, (SocketAddr, Instant)>> {
        self.present.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

// === impl Counts ===

impl Counts {
    fn connection(&mut self, done: &ConnectionDone) {
        *self.ended.entry((done.ended_by, done.phase)).or_insert(0) += 1;
        self.bytes_up += done.bytes_up;
        self.bytes_down += done.bytes_down;
        if let Some(seconds) = done.connect_seconds {
            self.connect.add(seconds);
        }
        let sides = [
            (Side::Client, &done.client_side),
            (Side::Server, &done.server_side),
        ];
        for (side, report) in sides {
            let Some(report) = report else {
                continue;
            };
            *self.retransmitted.entry(side).or_insert(0) += u64::from(report.retransmitted);
            for (&limit, seconds) in &report.limits_s {
                *self.limits_s.entry((side, limit)).or_insert(0.0) += seconds;
            }
        }
    }
}

impl Drop for Presence {
    fn drop(&mut self) {
        self.meter.present().remove(&self.id);
    }
}
