//! One connection, and what each of its sockets has been held back by.

use std::net::SocketAddr;
use std::time::Duration;

use limit::kernel::Reading;
use profile::Side;
use record::LimitSeconds;
use record::page::{self, End};
use sys::sock_diag::TcpSocket;
use sys::tcp_info::State;

use super::Ends;
use super::past::{Past, Point};
use crate::event::{ConnectionDone, SideReport};

/// What a band covers.
const BAND: Duration = Duration::from_mins(2);
/// What `held` and the rate of a row look back on.
pub(super) const LATELY: Duration = Duration::from_mins(1);

/// A connection through the relay.
#[derive(Debug)]
pub(super) struct Connection {
    listener: SocketAddr,
    opened: Duration,
    client: Option<Way>,
    server: Option<Way>,
    /// How it ended, or how its newest request did.
    pub(super) outcome: Option<End>,
    ended: Option<Duration>,
}

/// What one socket sends.
#[derive(Debug)]
struct Way {
    ends: Ends,
    /// The kernel's number of the socket: another one may have the same ends one day.
    cookie: Option<u64>,
    read_at: Duration,
    before: Reading,
    bytes_before: u64,
    now: Figures,
    limits_s: LimitSeconds,
    past: Past,
}

/// The newest figures.
#[derive(Clone, Debug, Default)]
struct Figures {
    rtt: Duration,
    min_rtt: Option<Duration>,
    cwnd: u64,
    in_flight: u64,
    peer_window: Option<u64>,
    congestion_control: Option<String>,
    listed: Option<Listed>,
}

/// What a kernel's list says of a socket beyond what it sends.
#[derive(Clone, Debug)]
struct Listed {
    state: State,
    received: u64,
    send_queue: u32,
    receive_queue: u32,
    ssthresh: Option<u64>,
}

// === impl Connection ===

impl Connection {
    pub(super) fn new(listener: SocketAddr, now: Duration) -> Self {
        Self {
            listener,
            opened: now,
            client: None,
            server: None,
            outcome: None,
            ended: None,
        }
    }

    pub(super) fn join(&mut self, side: Side, ends: Ends, now: Duration) {
        *self.way_mut(side) = Some(Way::new(ends, now));
    }

    pub(super) fn sockets(&self) -> Vec<(Side, Ends)> {
        let sides = [(Side::Client, &self.client), (Side::Server, &self.server)];
        let joined = sides.into_iter();
        joined
            .filter_map(|(side, way)| Some((side, way.as_ref()?.ends)))
            .collect()
    }

    /// Takes in what the kernel says of one of its sockets; what lies between this and the reading before.
    pub(super) fn read(&mut self, side: Side, socket: TcpSocket, now: Duration) -> Option<Point> {
        self.way_mut(side).as_mut()?.read(socket, now)
    }

    pub(super) fn done(&mut self, done: &ConnectionDone, now: Duration) {
        self.outcome = Some(End {
            at_s: 0.0,
            by: done.ended_by.as_str().to_owned(),
            phase: done.phase.as_str().to_owned(),
            error: done.error.clone(),
        });
        let sides = [
            (Side::Client, &done.client_side, done.bytes_down),
            (Side::Server, &done.server_side, done.bytes_up),
        ];
        for (side, report, bytes) in sides {
            if let (Some(way), Some(report)) = (self.way_mut(side), report) {
                way.finish(report, bytes, now);
            }
        }
    }

    pub(super) fn end(&mut self, now: Duration) {
        self.ended = Some(now);
    }

    /// Whether one of its addresses contains `part`.
    pub(super) fn is_found_by(&self, part: &str) -> bool {
        let ends = [
            Some(self.listener),
            self.peer(Side::Client),
            self.peer(Side::Server),
        ];
        ends.into_iter()
            .flatten()
            .any(|address| address.to_string().contains(part))
    }

    /// What holds its directions back now.
    pub(super) fn limits(&self) -> impl Iterator<Item = record::LimitName> {
        self.ways().filter_map(Way::limit)
    }

    pub(super) fn goodput_bps(&self) -> f64 {
        self.ways().map(Way::goodput_bps).sum()
    }

    pub(super) fn bytes(&self) -> u64 {
        self.ways().map(|way| way.bytes_before).sum()
    }

    pub(super) fn rtt(&self) -> Duration {
        self.ways().map(|way| way.now.rtt).max().unwrap_or_default()
    }

    pub(super) fn retransmissions(&self) -> u64 {
        self.ways().map(|way| way.before.retransmissions).sum()
    }

    pub(super) fn opened(&self) -> Duration {
        self.opened
    }

    pub(super) fn held(&self) -> f64 {
        self.ways()
            .map(|way| way.past.held(LATELY))
            .fold(0.0, f64::max)
    }

    pub(super) fn row(&self, id: u64) -> page::Connection {
        let text = |address: SocketAddr| address.to_string();
        page::Connection {
            id,
            listener: self.listener.to_string(),
            client: self.peer(Side::Client).map(text),
            server: self.peer(Side::Server).map(text),
            opened_s: self.opened.as_secs_f64(),
            up: self.server.as_ref().map(Way::row),
            down: self.client.as_ref().map(Way::row),
            end: self.ended.map(|at| End {
                at_s: at.as_secs_f64(),
                ..self.outcome.clone().unwrap_or_else(|| End {
                    by: "completed".into(),
                    ..End::default()
                })
            }),
        }
    }

    pub(super) fn history(&self, id: u64, now: Duration) -> page::History {
        let moments = |way: &Option<Way>| way.as_ref().map(|way| way.past.moments());
        page::History {
            at_s: now.as_secs_f64(),
            connection: self.row(id),
            up: moments(&self.server).unwrap_or_default(),
            down: moments(&self.client).unwrap_or_default(),
        }
    }

    fn peer(&self, side: Side) -> Option<SocketAddr> {
        let way = match side {
            Side::Client => &self.client,
            Side::Server => &self.server,
        };
        way.as_ref().map(|way| way.ends.1)
    }

    fn ways(&self) -> impl Iterator<Item = &Way> {
        self.client.iter().chain(&self.server)
    }

    fn way_mut(&mut self, side: Side) -> &mut Option<Way> {
        match side {
            Side::Client => &mut self.client,
            Side::Server => &mut self.server,
        }
    }
}

// === impl Way ===

impl Way {
    fn new(ends: Ends, now: Duration) -> Self {
        Self {
            ends,
            cookie: None,
            read_at: now,
            before: Reading::default(),
            bytes_before: 0,
            now: Figures::default(),
            limits_s: LimitSeconds::new(),
            past: Past::default(),
        }
    }

    fn read(&mut self, socket: TcpSocket, now: Duration) -> Option<Point> {
        // A socket of before that had the same ends, and has not quite left yet.
        if *self.cookie.get_or_insert(socket.cookie) != socket.cookie {
            return None;
        }
        let info = socket.info?;
        let reading = info.reading();
        let span = now.saturating_sub(self.read_at);
        let bytes = info.bytes_acked.map_or(0, units::Bytes::get);
        let division = reading.since(&self.before, span);
        let again = reading.retransmissions;
        let mut point = Point {
            to: now,
            span,
            bytes: bytes.saturating_sub(self.bytes_before),
            rtt: info.rtt,
            cwnd: info.cwnd().get(),
            in_flight: info.in_flight().get(),
            retransmissions: again.saturating_sub(self.before.retransmissions),
            ..Point::default()
        };
        point.divide(&division);
        division.add_to(&mut self.limits_s);
        self.past.push(point.clone());
        self.read_at = now;
        self.before = reading;
        self.bytes_before = bytes;
        self.now = Figures {
            rtt: info.rtt,
            min_rtt: info.min_rtt,
            cwnd: info.cwnd().get(),
            in_flight: info.in_flight().get(),
            peer_window: info.snd_wnd.map(units::Bytes::get),
            congestion_control: socket.congestion_control,
            listed: Some(Listed {
                state: socket.state,
                received: info.bytes_received.map_or(0, units::Bytes::get),
                send_queue: socket.send_queue,
                receive_queue: socket.receive_queue,
                ssthresh: reading
                    .ssthresh
                    .map(|segments| segments.saturating_mul(info.snd_mss.get())),
            }),
        };
        Some(point)
    }

    /// Takes in what the kernel knew at the end. Where it was never asked before, that is all there is.
    fn finish(&mut self, report: &SideReport, bytes: u64, now: Duration) {
        if self.past.newest().is_none() {
            let mut point = Point {
                to: now,
                span: now.saturating_sub(self.read_at),
                bytes,
                rtt: Duration::try_from_secs_f64(report.rtt_s).unwrap_or_default(),
                cwnd: report.cwnd_bytes,
                retransmissions: report.retransmitted.into(),
                ..Point::default()
            };
            for (name, seconds) in &report.limits_s {
                *point.of(*name) = seconds_f32(*seconds);
            }
            self.limits_s.clone_from(&report.limits_s);
            self.past.push(point);
        }
        self.bytes_before = bytes;
        self.before.retransmissions = report.retransmitted.into();
        let seconds = |seconds: f64| Duration::try_from_secs_f64(seconds).ok();
        self.now.rtt = seconds(report.rtt_s).unwrap_or_default();
        self.now.min_rtt = report.min_rtt_s.and_then(seconds);
        self.now.cwnd = report.cwnd_bytes;
        self.now.in_flight = 0;
    }

    fn limit(&self) -> Option<record::LimitName> {
        let newest = self.past.newest()?;
        // A rest is one point however long it lasts, and its newest second is like all others.
        newest.prevailing()
    }

    fn goodput_bps(&self) -> f64 {
        self.past.newest().map_or(0.0, Point::goodput_bps)
    }

    fn row(&self) -> page::Way {
        let now = &self.now;
        page::Way {
            bytes: self.bytes_before,
            goodput_bps: self.goodput_bps(),
            rtt_s: Some(now.rtt.as_secs_f64()).filter(|rtt| *rtt > 0.0),
            min_rtt_s: now.min_rtt.map(|rtt| rtt.as_secs_f64()),
            cwnd_bytes: now.cwnd,
            in_flight_bytes: now.in_flight,
            peer_window_bytes: now.peer_window,
            retransmissions: self.before.retransmissions,
            congestion_control: now.congestion_control.clone(),
            limit: self.limit(),
            limits_s: self.limits_s.clone(),
            band: self.past.band(BAND),
            socket: self.socket(),
        }
    }

    fn socket(&self) -> Option<page::Socket> {
        let listed = self.now.listed.as_ref()?;
        Some(page::Socket {
            cookie: self.cookie?,
            local: self.ends.0.to_string(),
            peer: self.ends.1.to_string(),
            state: listed.state.into(),
            read_s: self.read_at.as_secs_f64(),
            received_bytes: listed.received,
            send_queue_bytes: listed.send_queue.into(),
            receive_queue_bytes: listed.receive_queue.into(),
            ssthresh_bytes: listed.ssthresh,
        })
    }
}

#[expect(clippy::cast_possible_truncation, reason = "seconds, for a picture")]
fn seconds_f32(seconds: f64) -> f32 {
    seconds as f32
}
