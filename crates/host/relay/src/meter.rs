//! What a listener has done so far, counted from its events.

mod histogram;
mod prometheus;

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::os::fd::AsFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use profile::Side;
use record::LimitName;
use record::page::Listener;
use serde::Serialize;
use tokio::time::Instant;

use crate::event::{ConnectionDone, EndedBy, Event, Phase, TlsReport};
use crate::traces::Tracer;
use crate::watch::{Entry, Watch};
use histogram::Histogram;
pub(crate) use prometheus::write;

/// The counters of one listener.
pub(crate) struct Meter {
    /// The address, with the port that was really taken.
    pub(crate) listen: SocketAddr,
    watch: Arc<Watch>,
    pub(crate) tracer: Tracer,
    counts: Mutex<Counts>,
    present: Mutex<BTreeMap<u64, Present>>,
    /// Connections of a pool to its targets.
    pooled: Mutex<BTreeMap<u64, Entry>>,
}

/// A client that is there.
struct Present {
    peer: SocketAddr,
    since: Instant,
    /// Requests that were told of; `None` until something was, and for byte streams.
    requests: Option<u64>,
    entry: Arc<Entry>,
}

/// A client, listed for as long as this lives.
pub(crate) struct Presence {
    meter: Arc<Meter>,
    id: u64,
    entry: Arc<Entry>,
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
    /// By side, version, and whether a session was resumed.
    handshakes: BTreeMap<(Side, String, bool), u64>,
    /// What was read back last, by side, profile and option.
    options: BTreeMap<(Side, String, &'static str), String>,
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
    pub(crate) fn new(listen: SocketAddr, watch: Arc<Watch>, tracer: Tracer) -> Self {
        Self {
            listen,
            watch,
            tracer,
            pooled: Mutex::default(),
            counts: Mutex::default(),
            present: Mutex::default(),
        }
    }

    /// Counts a client in.
    pub(crate) fn arrived(
        self: &Arc<Self>,
        id: u64,
        stream: &impl AsFd,
        peer: SocketAddr,
    ) -> Presence {
        self.counts().accepted += 1;
        let ends = self.watch.ends_of(stream, peer);
        let entry = Arc::new(self.watch.client(self.listen, ends));
        let present = Present {
            peer,
            since: Instant::now(),
            requests: None,
            entry: Arc::clone(&entry),
        };
        self.present().insert(id, present);
        Presence {
            meter: Arc::clone(self),
            id,
            entry,
        }
    }

    pub(crate) fn count(&self, event: &Event) {
        self.tracer.notice(event);
        match event {
            Event::ConnectionDone(done) => {
                self.counts().connection(done);
                if self.watch.is_asked()
                    && let Some(present) = self.present().get(&done.client)
                {
                    present.entry.done(done);
                }
            }
            Event::RequestDone {
                client,
                method,
                error,
                status,
                bytes_up,
                bytes_down,
                seconds,
                hot,
                ended_by,
                phase,
                client_tls,
                ..
            } => {
                let mut counts = self.counts();
                counts.handshake(Side::Client, client_tls.as_deref());
                *counts.ended.entry((*ended_by, *phase)).or_insert(0) += 1;
                *counts
                    .requests
                    .entry(status.unwrap_or(0) / 100)
                    .or_insert(0) += 1;
                counts.requests_hot += u64::from(*hot);
                counts.request.add(*seconds);
                counts.bytes_up += bytes_up;
                counts.bytes_down += bytes_down;
                drop(counts);
                if let Some(present) = self.present().get_mut(client) {
                    // Without a method, there was none.
                    let request = u64::from(method != "-");
                    *present.requests.get_or_insert(0) += request;
                    let (by, phase) = (ended_by.as_str(), phase.as_str());
                    present.entry.request_done(by, phase, error.as_deref());
                }
            }
            Event::Connected {
                connection,
                local,
                peer,
                seconds,
                tls,
                ..
            } => {
                let mut counts = self.counts();
                counts.connect.add(*seconds);
                counts.handshake(Side::Server, tls.as_deref());
                drop(counts);
                let ends = local.map(|local| (local, *peer));
                let entry = self.watch.pooled(self.listen, ends);
                self.pooled().insert(*connection, entry);
            }
            Event::Closed { connection, .. } => _ = self.pooled().remove(connection),
            Event::Applied {
                side,
                profile,
                options,
                ..
            } => {
                let mut counts = self.counts();
                for option in options {
                    let key = (*side, profile.clone(), option.option);
                    counts.options.insert(key, option.effective.clone());
                }
            }
            Event::Refused { .. } => self.counts().refused += 1,
            Event::Warning { name, .. } => *self.counts().warnings.entry(name).or_insert(0) += 1,
            Event::Target {
                target, available, ..
            } => {
                self.counts().targets.insert(target.clone(), *available);
            }
            Event::Listening { .. }
            | Event::Primed { .. }
            | Event::PrimingFailed { .. }
            | Event::PoolReady { .. }
            | Event::Cooled { .. }
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

    /// For the page; `mode` and `target` are the newest configuration's.
    pub(crate) fn page(&self, mode: &str, target: &str) -> Listener {
        let status = self.status();
        let requests = mode == "http";
        let ended = status.ended.into_iter();
        Listener {
            listen: status.listen.to_string(),
            mode: mode.to_owned(),
            target: target.to_owned(),
            clients: u64::try_from(status.clients).unwrap_or(u64::MAX),
            accepted: status.accepted,
            refused: status.refused,
            bytes_up: status.bytes_up,
            bytes_down: status.bytes_down,
            requests: requests.then_some(status.requests),
            requests_hot: requests.then_some(status.requests_hot),
            ended: ended.map(|(by, count)| (by.to_owned(), count)).collect(),
            targets: status.targets,
        }
    }

    pub(crate) fn clients(&self) -> Vec<ClientStatus> {
        let present = self.present();
        let clients = present.iter().map(|(&client, present)| ClientStatus {
            listen: self.listen,
            client,
            peer: present.peer,
            seconds: present.since.elapsed().as_secs_f64(),
        });
        clients.collect()
    }

    fn counts(&self) -> MutexGuard<'_, Counts> {
        // Counters are valid whatever their holder was doing when it panicked.
        self.counts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn present(&self) -> MutexGuard<'_, BTreeMap<u64, Present>> {
        self.present.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn pooled(&self) -> MutexGuard<'_, BTreeMap<u64, Entry>> {
        self.pooled.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

// === impl Counts ===

impl Counts {
    fn handshake(&mut self, side: Side, report: Option<&TlsReport>) {
        if let Some(report) = report {
            let key = (side, report.version.clone(), report.resumed);
            *self.handshakes.entry(key).or_insert(0) += 1;
        }
    }

    fn connection(&mut self, done: &ConnectionDone) {
        *self.ended.entry((done.ended_by, done.phase)).or_insert(0) += 1;
        self.bytes_up += done.bytes_up;
        self.bytes_down += done.bytes_down;
        if let Some(seconds) = done.connect_seconds {
            self.connect.add(seconds);
        }
        self.handshake(Side::Client, done.client_tls.as_ref());
        self.handshake(Side::Server, done.server_tls.as_ref());
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

// === impl Presence ===

impl Presence {
    /// Whether anybody hears, or can ask, how the connection ended.
    pub(crate) fn is_heard(&self) -> bool {
        self.meter.watch.is_heard() || self.meter.tracer.is_on()
    }

    /// The client's stream goes on to `peer`.
    pub(crate) fn reached(&self, stream: &impl AsFd, peer: SocketAddr) {
        if let Some(ends) = self.meter.watch.ends_of(stream, peer) {
            self.entry.joined(Side::Server, ends);
        }
    }
}

impl Drop for Presence {
    fn drop(&mut self) {
        let left = self.meter.present().remove(&self.id);
        if let Some(present) = left
            && let Some(requests) = present.requests
        {
            let stayed = present.since.elapsed();
            let tracer = &self.meter.tracer;
            tracer.left(self.id, present.peer, stayed, requests);
        }
    }
}
