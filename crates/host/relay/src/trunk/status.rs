//! The state of a running end, and an active probe of it, as JSON over HTTP on loopback.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use serde::Serialize;
use tokio::net::TcpListener;
use tokio::time::timeout;
use trunk::ConnectionStatus;
use units::Rate;

use super::echo::{self, Probe};
use super::engine::Engine;

/// A reader that has not asked by then is gone; a probe takes its own time.
const PATIENCE: Duration = Duration::from_mins(2);

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
    /// TCP's congestion window.
    pub cwnd_bytes: Option<u64>,
    /// TCP's smoothed round trip.
    pub tcp_rtt_s: Option<f64>,
    /// The other end's receive window.
    pub peer_window_bytes: Option<u64>,
    /// In the send buffer, not yet sent.
    pub unsent_bytes: Option<u64>,
}

/// The result of probing all trunks of a process.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct CheckReport {
    /// Whether every trunk is well.
    pub healthy: bool,
    /// One per trunk.
    pub probes: Vec<Probe>,
}

/// Answers for ever.
pub(super) async fn serve(listener: TcpListener, trunks: Trunks) {
    loop {
        let Ok((stream, _peer)) = listener.accept().await else {
            // Out of descriptors, most likely; those who ask can ask again.
            tokio::time::sleep(Duration::from_millis(100)).await;
            continue;
        };
        let trunks = Arc::clone(&trunks);
        tokio::spawn(async move {
            let service = service_fn(|request| answer(request, Arc::clone(&trunks)));
            let connection = http1::Builder::new()
                .keep_alive(false)
                .serve_connection(TokioIo::new(stream), service);
            // Whoever goes away in between wanted no answer.
            let _ = timeout(PATIENCE, connection).await;
        });
    }
}

/// Binds the address that [`serve`] answers at.
pub(super) async fn bind(address: SocketAddr) -> std::io::Result<TcpListener> {
    TcpListener::bind(address).await
}

async fn answer(
    request: Request<Incoming>,
    trunks: Trunks,
) -> Result<Response<Full<Bytes>>, Infallible> {
    let (status, body) = match (request.method(), request.uri().path()) {
        (&Method::GET, "/status") => {
            let trunks = trunks();
            let trunks = trunks.iter().map(|watched| status(&watched.engine));
            let report = TrunkStatus {
                trunks: trunks.collect(),
            };
            (StatusCode::OK, serde_json::to_vec_pretty(&report))
        }
        (&Method::GET, "/check") => {
            let report = check(trunks()).await;
            let status = if report.healthy {
                StatusCode::OK
            } else {
                StatusCode::SERVICE_UNAVAILABLE
            };
            (status, serde_json::to_vec_pretty(&report))
        }
        _ => (
            StatusCode::NOT_FOUND,
            Ok(b"{\"error\": \"there is GET /status and GET /check\"}".to_vec()),
        ),
    };
    let body = Bytes::from(body.unwrap_or_default());
    let mut response = Response::new(Full::new(body));
    *response.status_mut() = status;
    response.headers_mut().insert(
        hyper::header::CONTENT_TYPE,
        hyper::header::HeaderValue::from_static("application/json"),
    );
    Ok(response)
}

/// Probes every trunk. Of several far relays, each is expected to be well: a spare that does not work is
/// found out before it is needed.
async fn check(trunks: Vec<Watched>) -> CheckReport {
    let mut probes = Vec::new();
    for Watched { engine, targets } in trunks {
        probes.push(echo::probe(&engine, &targets).await);
    }
    CheckReport {
        healthy: !probes.is_empty() && probes.iter().all(|probe| probe.healthy),
        probes,
    }
}

fn status(engine: &Engine) -> OneTrunk {
    let (session, status, connections) = engine.status();
    OneTrunk {
        trunk: engine.name.clone(),
        session: session.to_string(),
        up: engine.is_up(),
        wanted_connections: status.wanted,
        streams: status.streams,
        send_held_bytes: status.send_held.get(),
        receive_held_bytes: status.receive_held.get(),
        padding_left_bytes: status.padding_left.get(),
        connections: connections.iter().map(OneConnection::from).collect(),
    }
}

impl From<&ConnectionStatus> for OneConnection {
    fn from(status: &ConnectionStatus) -> Self {
        let seen = status.observation;
        let seconds = |span: Option<Duration>| span.map(|span| span.as_secs_f64());
        Self {
            connection: status.connection.number(),
            ready: status.ready,
            stalled: status.stalled,
            rtt_s: seconds(status.smoothed),
            min_rtt_s: seconds(status.round_trip),
            delivery_bps: status.rate.map(Rate::bits_per_s),
            in_flight_bytes: status.in_flight.get(),
            sent_bytes: status.totals.sent,
            received_bytes: status.totals.received,
            repeated_bytes: status.totals.repeated,
            padding_bytes: status.totals.padding,
            cwnd_bytes: seen
                .and_then(|seen| seen.congestion_window)
                .map(units::Bytes::get),
            tcp_rtt_s: seconds(seen.and_then(|seen| seen.round_trip)),
            peer_window_bytes: seen
                .and_then(|seen| seen.peer_window)
                .map(units::Bytes::get),
            unsent_bytes: seen.map(|seen| seen.unsent.get()),
        }
    }
}
