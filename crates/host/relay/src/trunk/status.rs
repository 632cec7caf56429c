//! The state of a running end, as it is told in JSON.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use record::LimitSeconds;
use serde::Serialize;
use trunk::{ConnectionStatus, Heat, StreamId, StreamStatus};
use units::Rate;

use super::account::{Account, TrunkHistory};
use super::echo::{self, Probe};
use super::engine::{About, Engine};
use super::event::limits;
use super::metrics::{self, Exposed};
use super::tunnel::Application;
use super::watch::{Health, Minute};

/// Whoever can name the trunks of this process, and what may be reached through each.
pub(super) type Trunks = Arc<dyn Fn() -> Vec<Watched> + Send + Sync>;

/// A trunk, and the targets that clients at this end reach through it.
pub(super) struct Watched {
    pub(super) engine: Arc<Engine>,
    pub(super) targets: Vec<String>,
}

/// The state of all trunks of a process.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct TrunkStatus {
    /// The trunks.
    pub trunks: Vec<OneTrunk>,
}

/// The state of one trunk.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct OneTrunk {
    /// What it is called.
    pub trunk: String,
    /// Who its two ends are to each other.
    pub session: String,
    /// Whether a connection has joined and is not stalled.
    pub up: bool,
    /// WAN connections that it would like.
    pub wanted_connections: u32,
    /// Streams that are open.
    pub streams: usize,
    /// Accepted from applications and not acknowledged by the other end.
    pub send_held_bytes: u64,
    /// Received and not taken by applications.
    pub receive_held_bytes: u64,
    /// Padding that may still be spent on keeping connections hot.
    pub padding_left_bytes: u64,
    /// Whether it makes room for others on its path.
    pub modest: bool,
    /// Payload that the other end has acknowledged since the session began.
    pub delivered_bytes: u64,
    /// Payload that has come since the session began.
    pub received_bytes: u64,
    /// Payload that went out again because a connection stalled or died, all connections so far.
    pub repeated_bytes: u64,
    /// Bytes that the kernel sent again, all connections so far.
    pub retransmitted_bytes: u64,
    /// Padding, all connections so far.
    pub padding_bytes: u64,
    /// What held streams' sending back at this end; two streams' seconds in one second are two.
    pub limits_s: LimitSeconds,
    /// WAN connections.
    pub connections: Vec<OneConnection>,
}

/// The state of one WAN connection.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct OneConnection {
    /// Its number in the session.
    pub connection: u32,
    /// Whether the other end has let it in.
    pub ready: bool,
    /// Whether its windows hold what the path carries in a round trip.
    pub hot: bool,
    /// Whether it carries nothing because acknowledgements have stopped.
    pub stalled: bool,
    /// Smoothed round trip of frames, with what queues on the way.
    pub rtt_s: Option<f64>,
    /// The least one of late.
    pub min_rtt_s: Option<f64>,
    /// The highest delivery rate of late.
    pub delivery_bps: Option<u64>,
    /// Bytes of frames that are not acknowledged.
    pub in_flight_bytes: u64,
    /// Bytes to the socket since it came up.
    pub sent_bytes: u64,
    /// Bytes from the socket since it came up.
    pub received_bytes: u64,
    /// Payload among those sent that had gone out on another connection before.
    pub repeated_bytes: u64,
    /// Padding among those sent.
    pub padding_bytes: u64,
    /// Bytes that the kernel sent again.
    pub retransmitted_bytes: u64,
    /// TCP's congestion window.
    pub cwnd_bytes: Option<u64>,
    /// TCP's smoothed round trip.
    pub tcp_rtt_s: Option<f64>,
    /// The other end's receive window.
    pub peer_window_bytes: Option<u64>,
    /// In the send buffer, not yet sent.
    pub unsent_bytes: Option<u64>,
    /// What has held its sending back since it came up, as its socket told whenever it was looked at.
    pub limits_s: LimitSeconds,
}

/// A stream that is open.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct OneStream {
    /// The trunk.
    pub trunk: String,
    /// Its number in the session.
    pub stream: u64,
    /// What was asked for.
    pub target: String,
    /// The client's address, at the end where it came in.
    pub client: Option<SocketAddr>,
    /// The address that was connected to, at the other end.
    pub server: Option<SocketAddr>,
    /// Since it was opened here.
    pub seconds: f64,
    /// Bytes from this end's application that went out.
    pub sent_bytes: u64,
    /// Of those, not acknowledged by the other end.
    pub in_flight_bytes: u64,
    /// Accepted from this end's application, and not gone out.
    pub queued_bytes: u64,
    /// Bytes given to this end's application.
    pub received_bytes: u64,
    /// What the other end may send ahead of this end's application.
    pub window_bytes: u64,
    /// What has held its sending back at this end.
    pub limits_s: LimitSeconds,
}

/// The result of probing all trunks of a process.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct CheckReport {
    /// Whether every trunk is well.
    pub healthy: bool,
    /// One per trunk.
    pub probes: Vec<Probe>,
}

/// What the questions of an administrator are answered from.
#[derive(Clone)]
pub(super) struct Desk {
    pub(super) trunks: Trunks,
    pub(super) account: Arc<Account>,
    pub(super) health: Arc<Health>,
    pub(super) minute: Arc<Minute>,
}

// === impl Desk ===

impl Desk {
    pub(super) fn status(&self) -> TrunkStatus {
        let trunks = (self.trunks)();
        TrunkStatus {
            trunks: trunks
                .iter()
                .map(|watched| status(&watched.engine))
                .collect(),
        }
    }

    pub(super) fn streams(&self) -> Vec<OneStream> {
        let mut all = Vec::new();
        for Watched { engine, .. } in (self.trunks)() {
            let streams = engine.streams().into_iter();
            all.extend(streams.map(|(id, status, about)| stream(&engine, id, &status, about)));
        }
        all
    }

    pub(super) fn history(&self) -> TrunkHistory {
        let mut history = self.account.history();
        // Whoever asks now must not wait for the minute to be over.
        for (trunk, sample) in self.minute.so_far() {
            history.trunks.entry(trunk).or_default().push(sample);
        }
        history
    }

    pub(super) fn metrics(&self) -> String {
        metrics::write(&Exposed {
            trunks: self.status().trunks,
            counts: self.account.counts(),
            health: self.health.found(),
            usage: sys::process::Usage::now().ok(),
        })
    }

    /// Whether clients are well served here: some trunk can carry their streams, and the last active probes, where
    /// there are any, found nothing.
    pub(super) fn is_well(&self) -> bool {
        let trunks = (self.trunks)();
        trunks.iter().any(|watched| watched.engine.is_up()) && self.health.is_well()
    }

    /// Probes every trunk now. Of several far relays, each is expected to be well: a spare that does not work is
    /// found out before it is needed.
    pub(super) async fn check(&self) -> CheckReport {
        let mut probes = Vec::new();
        let trunks = (self.trunks)().into_iter();
        // One that was left takes no stream for a probe.
        for Watched { engine, targets } in trunks.filter(|one| one.engine.takes_streams()) {
            probes.push(echo::probe(&engine, &targets).await);
        }
        CheckReport {
            healthy: !probes.is_empty() && probes.iter().all(|probe| probe.healthy),
            probes,
        }
    }
}

fn status(engine: &Engine) -> OneTrunk {
    let (session, status, connections) = engine.status();
    let reading = engine.reading();
    OneTrunk {
        trunk: engine.name.clone(),
        session: session.to_string(),
        up: reading.up,
        wanted_connections: status.wanted,
        streams: status.streams,
        send_held_bytes: status.send_held.get(),
        receive_held_bytes: status.receive_held.get(),
        padding_left_bytes: status.padding_left.get(),
        modest: reading.modest,
        delivered_bytes: reading.delivered,
        received_bytes: reading.received,
        repeated_bytes: reading.totals.repeated,
        retransmitted_bytes: reading.totals.retransmitted,
        padding_bytes: reading.totals.padding,
        limits_s: limits(&reading.held_by),
        connections: connections
            .iter()
            .map(|status| connection(engine, status))
            .collect(),
    }
}

fn stream(engine: &Engine, id: StreamId, status: &StreamStatus, about: About) -> OneStream {
    let (client, server) = match about.application {
        Some(Application::Client(peer)) => (Some(peer), None),
        Some(Application::Server(peer)) => (None, Some(peer)),
        None => (None, None),
    };
    OneStream {
        trunk: engine.name.clone(),
        stream: id.number(),
        target: about.target,
        client,
        server,
        seconds: engine.age_of(status).as_secs_f64(),
        sent_bytes: status.sent.get(),
        in_flight_bytes: status.in_flight.get(),
        queued_bytes: status.queued.get(),
        received_bytes: status.received.get(),
        window_bytes: status.window.get(),
        limits_s: limits(&status.held_by),
    }
}

fn connection(engine: &Engine, status: &ConnectionStatus) -> OneConnection {
    let held_by = engine.with(|trunk, now| trunk.connection_held_by(status.connection, now));
    let seen = status.observation;
    let seconds = |span: Option<Duration>| span.map(|span| span.as_secs_f64());
    OneConnection {
        connection: status.connection.number(),
        ready: status.ready,
        hot: status.heat == Heat::Hot,
        stalled: status.stalled,
        rtt_s: seconds(status.smoothed),
        min_rtt_s: seconds(status.round_trip),
        delivery_bps: status.rate.map(Rate::bits_per_s),
        in_flight_bytes: status.in_flight.get(),
        sent_bytes: status.totals.sent,
        received_bytes: status.totals.received,
        repeated_bytes: status.totals.repeated,
        padding_bytes: status.totals.padding,
        retransmitted_bytes: status.totals.retransmitted,
        cwnd_bytes: seen
            .and_then(|seen| seen.congestion_window)
            .map(units::Bytes::get),
        tcp_rtt_s: seconds(seen.and_then(|seen| seen.round_trip)),
        peer_window_bytes: seen
            .and_then(|seen| seen.peer_window)
            .map(units::Bytes::get),
        unsent_bytes: seen.map(|seen| seen.unsent.get()),
        limits_s: limits(&held_by.unwrap_or_default()),
    }
}
