//! A model sender whose every moment is known: it makes the captures that the tests explain.
//!
//! One client uploads requests to one server. The client's TCP does slow start with byte counting,
//! congestion avoidance by a segment per round trip, fast retransmit after three duplicate ACKs and a
//! retransmission timer; the server acknowledges every second segment or later, or after 40 ms. The path has a
//! bottleneck towards the server with an endless queue, and no bottleneck back.

#![allow(
    clippy::unwrap_used,
    reason = "test support: the model's numbers are small"
)]

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap};
use std::net::{IpAddr, Ipv4Addr};
use std::time::Duration;

use connections::{Tracked, Tracker};
use units::{SeqNum, Time};
use wire::{Endpoint, Host, Observation, SackBlocks, Segment, TcpFlags, TcpOptions, Timestamps};

pub(crate) const MSS: i64 = 1448;
const HEADERS: i64 = 52;
const DELAYED_ACK: Duration = Duration::from_millis(40);
const RESPONSE: i64 = 214;

/// A request: bytes of head and body, the server's time for it, the client's pause behind it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Request {
    pub(crate) head: i64,
    pub(crate) body: i64,
    pub(crate) server: Duration,
    pub(crate) pause: Duration,
}

/// Where the capture is made.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Tap {
    Client,
    Server,
}

/// One connection and its path.
#[derive(Clone, Debug)]
pub(crate) struct Model {
    pub(crate) rtt: Duration,
    /// Bit/s towards the server; zero for no bottleneck.
    pub(crate) rate: u64,
    pub(crate) initial_window: i64,
    pub(crate) ssthresh: i64,
    /// The server's window, first and at most; it grows by twice what arrives.
    pub(crate) window: (i64, i64),
    pub(crate) window_scale: Option<u8>,
    /// The sender's socket buffer: no more than this in flight.
    pub(crate) send_buffer: i64,
    pub(crate) requests: Vec<Request>,
    /// Data packets, counted from zero, that the path loses.
    pub(crate) losses: BTreeSet<u64>,
    /// Segments per ACK: two, or more where the receiver's card joins them (GRO).
    pub(crate) segments_per_ack: u32,
    /// Whether the sender hands down several segments as one.
    pub(crate) offload: bool,
    pub(crate) restart_after_idle: bool,
    pub(crate) tap: Tap,
    pub(crate) client_isn: u32,
    pub(crate) start: Time,
    pub(crate) port: u16,
}

impl Default for Model {
    fn default() -> Self {
        Self {
            rtt: Duration::from_millis(200),
            rate: 100_000_000,
            initial_window: 10 * MSS,
            ssthresh: i64::MAX,
            window: (4 << 20, 4 << 20),
            window_scale: Some(7),
            send_buffer: i64::MAX,
            requests: vec![Request {
                head: 293,
                body: 102_400,
                server: Duration::from_millis(3),
                pause: Duration::from_millis(1),
            }],
            losses: BTreeSet::new(),
            segments_per_ack: 2,
            offload: false,
            restart_after_idle: true,
            tap: Tap::Client,
            client_isn: 1_000,
            start: Time::ZERO,
            port: 40_000,
        }
    }
}

/// What a capture would hold of one packet; positions are relative, as the model knows them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shot {
    pub(crate) at: Time,
    pub(crate) from_client: bool,
    pub(crate) flags: TcpFlags,
    pub(crate) from: i64,
    pub(crate) len: i64,
    pub(crate) ack: Option<i64>,
    pub(crate) window: i64,
    pub(crate) sack: Option<(i64, i64)>,
    pub(crate) head: &'static [u8],
    port: u16,
    client_isn: u32,
    scale: Option<u8>,
}

const SERVER_ISN: u32 = 4_294_967_000;

impl Shot {
    /// The packet as a source would give it.
    pub(crate) fn observation(&self, frame: u64) -> Observation<'static> {
        let seq =
            |isn: u32, position: i64| SeqNum::new(isn.wrapping_add(1).wrapping_add(low(position)));
        let syn = self.flags.contains(TcpFlags::SYN);
        let (own, peer) = if self.from_client {
            (self.client_isn, SERVER_ISN)
        } else {
            (SERVER_ISN, self.client_isn)
        };
        let end = |last: u8, port| Endpoint {
            host: Host::Ip(IpAddr::V4(Ipv4Addr::new(10, 0, 0, last))),
            port,
        };
        let (client, server) = (end(1, self.port), end(2, 80));
        let shift = if syn { 0 } else { self.scale.unwrap_or(0) };
        let mut sack = SackBlocks::default();
        if let Some((left, right)) = self.sack {
            sack.push(seq(peer, left), seq(peer, right));
        }
        Observation::Tcp(Segment {
            at: self.at,
            frame,
            source: if self.from_client { client } else { server },
            destination: if self.from_client { server } else { client },
            flags: self.flags,
            seq: if syn {
                SeqNum::new(own)
            } else {
                seq(own, self.from)
            },
            ack: self.ack.map(|ack| seq(peer, ack)),
            window: u16::try_from((self.window >> shift).min(65_535)).unwrap(),
            payload_len: u32::try_from(self.len).unwrap(),
            payload: self.head,
            options: TcpOptions {
                mss: syn.then_some(1460),
                window_scale: self.scale.filter(|_| syn),
                sack_permitted: syn,
                sack,
                timestamps: Some(Timestamps { value: 1, echo: 1 }),
            },
            ip_id: None,
            ttl: None,
            ecn: None,
            header_len: 52,
        })
    }
}

fn low(position: i64) -> u32 {
    u32::try_from(position.rem_euclid(1 << 32)).unwrap()
}

/// Feeds shots of any number of connections in order of time.
pub(crate) fn track(shots: &[Shot]) -> Tracked {
    let mut tracker = Tracker::new();
    for (frame, shot) in (1..).zip(shots) {
        tracker.observe(&shot.observation(frame));
    }
    tracker.finish()
}

#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
enum What {
    /// A data segment reaches the server.
    Data(i64, i64),
    /// An ACK reaches the client: up to here, window, SACK block, response bytes.
    Ack(i64, i64, Option<(i64, i64)>, i64),
    DelayedAck(u64),
    Timer(u64),
    Respond,
    NextRequest,
    Fin,
}

impl Model {
    /// The capture.
    pub(crate) fn run(&self) -> Vec<Shot> {
        Run::new(self).run()
    }
}

struct Run<'a> {
    model: &'a Model,
    queue: BinaryHeap<Reverse<(Time, u64, What)>>,
    order: u64,
    now: Time,
    shots: Vec<Shot>,
    path_free: Time,
    packets: u64,
    // The client.
    cwnd: i64,
    ssthresh: i64,
    acked: i64,
    next: i64,
    data_end: i64,
    edge: i64,
    duplicates: u32,
    recovery: Option<i64>,
    timer: u64,
    last_send: Time,
    request: usize,
    response_acked: i64,
    // The server.
    received: i64,
    held: BTreeMap<i64, i64>,
    unacked_segments: u32,
    delayed: u64,
    window: i64,
    responded: i64,
}

impl<'a> Run<'a> {
    fn new(model: &'a Model) -> Self {
        Self {
            model,
            queue: BinaryHeap::new(),
            order: 0,
            now: model.start,
            shots: Vec::new(),
            path_free: Time::ZERO,
            packets: 0,
            cwnd: model.initial_window,
            ssthresh: model.ssthresh,
            acked: 0,
            next: 0,
            data_end: 0,
            edge: model.window.0.min(65_535),
            duplicates: 0,
            recovery: None,
            timer: 0,
            last_send: Time::ZERO,
            request: 0,
            response_acked: 0,
            received: 0,
            held: BTreeMap::new(),
            unacked_segments: 0,
            delayed: 0,
            window: model.window.0,
            responded: 0,
        }
    }

    fn run(mut self) -> Vec<Shot> {
        self.handshake();
        self.start_request();
        while let Some(Reverse((at, _, what))) = self.queue.pop() {
            self.now = at;
            match what {
                What::Data(from, to) => self.on_data(from, to),
                What::Ack(to, window, sack, response) => self.on_ack(to, window, sack, response),
                What::DelayedAck(id) if id == self.delayed && self.unacked_segments > 0 => {
                    self.acknowledge();
                }
                What::Timer(id) if id == self.timer && self.acked < self.next => self.on_timer(),
                What::DelayedAck(_) | What::Timer(_) => {}
                What::Respond => self.respond(),
                What::NextRequest => self.start_request(),
                What::Fin => self.fin(),
            }
        }
        self.shots.sort_by_key(|shot| shot.at);
        self.shots
    }

    fn at(&mut self, at: Time, what: What) {
        self.order += 1;
        self.queue.push(Reverse((at, self.order, what)));
    }

    fn half(&self) -> Duration {
        self.model.rtt / 2
    }

    /// Takes a picture where the tap is: `sent` at the sender, `arrives` at the receiver.
    fn shoot(&mut self, sent: Time, arrives: Time, shot: Shot) {
        let near = (self.model.tap == Tap::Client) == shot.from_client;
        let at = if near { sent } else { arrives };
        self.shots.push(Shot { at, ..shot });
    }

    fn shot(&self, from_client: bool, flags: TcpFlags) -> Shot {
        Shot {
            at: self.now,
            from_client,
            flags,
            from: 0,
            len: 0,
            ack: None,
            window: 65_535,
            sack: None,
            head: b"",
            port: self.model.port,
            client_isn: self.model.client_isn,
            scale: self.model.window_scale,
        }
    }

    fn handshake(&mut self) {
        let (start, half) = (self.now, self.half());
        let syn = self.shot(true, TcpFlags::SYN);
        self.shoot(start, start + half, syn);
        let mut syn_ack = self.shot(false, TcpFlags::SYN.union(TcpFlags::ACK));
        syn_ack.ack = Some(0);
        syn_ack.window = self.model.window.0;
        self.shoot(start + half, start + half * 2, syn_ack);
        self.now = start + half * 2 + Duration::from_micros(40);
        let mut ack = self.shot(true, TcpFlags::ACK);
        ack.ack = Some(0);
        self.shoot(self.now, self.now + half, ack);
        self.now += Duration::from_micros(100);
    }

    fn start_request(&mut self) {
        let Some(request) = self.model.requests.get(self.request) else {
            return;
        };
        let rto = self.model.rtt + Duration::from_millis(200);
        if self.model.restart_after_idle && self.next > 0 && self.now.since(self.last_send) > rto {
            self.cwnd = self.cwnd.min(self.model.initial_window);
        }
        self.data_end += request.head;
        self.send(b"POST /upload/files?signature=secret HTTP/1.1\r\n");
        self.data_end += request.body;
        self.send(b"");
    }

    fn send(&mut self, head: &'static [u8]) {
        let mut batch: Option<(i64, i64)> = None;
        while self.next < self.data_end {
            let len = MSS.min(self.data_end - self.next);
            let fits = self.next - self.acked + len <= self.cwnd
                && self.next - self.acked + len <= self.model.send_buffer
                && self.next + len <= self.edge;
            if !fits {
                break;
            }
            let (from, to) = (self.next, self.next + len);
            self.next = to;
            self.transmit(from, to);
            batch = match batch {
                Some((first, _)) if self.model.offload && to - first < 64_000 => Some((first, to)),
                other => {
                    self.flush(other, head);
                    Some((from, to))
                }
            };
        }
        self.flush(batch, head);
    }

    fn flush(&mut self, batch: Option<(i64, i64)>, head: &'static [u8]) {
        let Some((from, to)) = batch else { return };
        if self.model.tap == Tap::Client {
            self.shoot_data(self.now, from, to, head);
        }
    }

    fn shoot_data(&mut self, at: Time, from: i64, to: i64, head: &'static [u8]) {
        let mut shot = self.shot(true, TcpFlags::ACK);
        shot.from = from;
        shot.len = to - from;
        shot.ack = Some(self.response_acked);
        shot.head = head;
        shot.at = at;
        self.shots.push(shot);
    }

    fn transmit(&mut self, from: i64, to: i64) {
        self.last_send = self.now;
        let bits = u64::try_from((to - from + HEADERS) * 8).unwrap();
        let serialisation = match self.model.rate {
            0 => Duration::ZERO,
            rate => Duration::from_nanos(bits * 1_000_000_000 / rate),
        };
        self.path_free = self.path_free.max(self.now) + serialisation;
        let arrives = self.path_free + self.half();
        let number = self.packets;
        self.packets += 1;
        if !self.model.losses.contains(&number) {
            self.at(arrives, What::Data(from, to));
        }
        self.arm(self.path_free);
    }

    fn arm(&mut self, from: Time) {
        self.timer += 1;
        let timer = self.timer;
        let rto = self.model.rtt + Duration::from_millis(200);
        self.at(from.max(self.path_free) + rto, What::Timer(timer));
    }

    fn on_data(&mut self, from: i64, to: i64) {
        if self.model.tap == Tap::Server {
            self.shoot_data(
                self.now,
                from,
                to,
                if from == 0 {
                    b"POST /upload/files HTTP/1.1\r\n"
                } else {
                    b""
                },
            );
        }
        let in_order = from <= self.received;
        self.held.insert(from, to);
        let before = self.received;
        while let Some((&left, &right)) = self.held.first_key_value() {
            if left > self.received {
                break;
            }
            self.received = self.received.max(right);
            self.held.remove(&left);
        }
        self.window = (self.window + 2 * (self.received - before)).min(self.model.window.1);
        self.unacked_segments += 1;
        if !in_order
            || !self.held.is_empty()
            || self.unacked_segments >= self.model.segments_per_ack
        {
            self.acknowledge();
        } else {
            self.delayed += 1;
            let delayed = self.delayed;
            self.at(self.now + DELAYED_ACK, What::DelayedAck(delayed));
        }
        let request = &self.model.requests[self.request];
        if before < self.data_end && self.received == self.data_end {
            self.at(self.now + request.server, What::Respond);
        }
    }

    fn acknowledge(&mut self) {
        self.unacked_segments = 0;
        let arrives = self.now + self.half();
        let sack = self.held.iter().next().map(|(&left, _)| {
            let mut right = left;
            while let Some(&end) = self.held.get(&right) {
                right = end;
            }
            (left, right)
        });
        let mut shot = self.shot(false, TcpFlags::ACK);
        shot.from = self.responded;
        shot.ack = Some(self.received);
        shot.window = self.window;
        shot.sack = sack;
        self.shoot(self.now, arrives, shot);
        self.at(arrives, What::Ack(self.received, self.window, sack, 0));
    }

    fn respond(&mut self) {
        self.unacked_segments = 0;
        let arrives = self.now + self.half();
        let mut shot = self.shot(false, TcpFlags::ACK.union(TcpFlags::PSH));
        shot.from = self.responded;
        shot.len = RESPONSE;
        shot.ack = Some(self.received);
        shot.window = self.window;
        shot.head = b"HTTP/1.1 200 OK\r\n";
        self.responded += RESPONSE;
        self.shoot(self.now, arrives, shot);
        self.at(
            arrives,
            What::Ack(self.received, self.window, None, RESPONSE),
        );
    }

    fn on_ack(&mut self, to: i64, window: i64, sack: Option<(i64, i64)>, response: i64) {
        self.edge = self.edge.max(to + window);
        if to > self.acked {
            let acked = to - self.acked;
            self.acked = to;
            // The timer starts again with every ACK of new data (RFC 6298 §5.3).
            self.arm(self.now);
            self.duplicates = 0;
            match self.recovery {
                Some(point) if to < point => {
                    // A partial ACK shows the next hole (RFC 6582 §3.2).
                    self.repeat(to);
                }
                Some(_) => {
                    self.recovery = None;
                    self.cwnd = self.ssthresh;
                }
                None if self.cwnd < self.ssthresh => self.cwnd += acked,
                None => self.cwnd += (MSS * acked / self.cwnd).max(1),
            }
        } else if sack.is_some() {
            self.duplicates += 1;
            if self.duplicates == 3 && self.recovery.is_none() {
                self.recovery = Some(self.next);
                self.ssthresh = ((self.next - self.acked) / 2).max(2 * MSS);
                self.cwnd = self.ssthresh;
                self.repeat(to);
            }
        }
        if self.recovery.is_none() {
            self.send(b"");
        }
        if response > 0 {
            self.on_response(response);
        }
    }

    fn on_response(&mut self, response: i64) {
        self.response_acked += response;
        let mut ack = self.shot(true, TcpFlags::ACK);
        ack.at = self.now + Duration::from_micros(30);
        ack.from = self.next;
        ack.ack = Some(self.response_acked);
        let at = ack.at;
        self.shoot(at, at + self.half(), ack);
        let pause = self.model.requests[self.request].pause;
        self.request += 1;
        let next = if self.request < self.model.requests.len() {
            What::NextRequest
        } else {
            What::Fin
        };
        self.at(self.now + pause.max(Duration::from_micros(50)), next);
    }

    fn on_timer(&mut self) {
        self.ssthresh = ((self.next - self.acked) / 2).max(2 * MSS);
        self.cwnd = MSS;
        self.recovery = None;
        self.repeat(self.acked);
    }

    fn repeat(&mut self, from: i64) {
        let to = (from + MSS).min(self.next);
        if self.model.tap == Tap::Client {
            self.shoot_data(self.now, from, to, b"");
        }
        self.transmit(from, to);
    }

    fn fin(&mut self) {
        let (now, half) = (self.now, self.half());
        let mut fin = self.shot(true, TcpFlags::FIN.union(TcpFlags::ACK));
        fin.from = self.next;
        fin.ack = Some(self.response_acked);
        self.shoot(now, now + half, fin);
        let mut answer = self.shot(false, TcpFlags::FIN.union(TcpFlags::ACK));
        answer.from = self.responded;
        answer.ack = Some(self.next + 1);
        answer.window = self.window;
        self.shoot(now + half, now + half * 2, answer);
        let mut last = self.shot(true, TcpFlags::ACK);
        last.from = self.next + 1;
        last.ack = Some(self.responded + 1);
        self.shoot(now + half * 2, now + half * 3, last);
    }
}
