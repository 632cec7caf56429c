//! What the protocol costs without any socket: gigabytes through both ends in one thread.
//!
//! ```sh
//! cargo run --release -p longhaul-trunk --example throughput
//! ```
#![allow(
    clippy::unwrap_used,
    reason = "a measurement that fails has nothing to say"
)]
#![allow(clippy::print_stdout, reason = "the figures are its output")]
#![allow(
    clippy::disallowed_types,
    reason = "a measurement needs the real clock; the library has none"
)]
#![allow(
    clippy::disallowed_methods,
    reason = "a measurement needs the real clock; the library has none"
)]

extern crate longhaul_trunk as trunk;

use std::time::Instant;

use bytes::Bytes;
use trunk::{Config, ConnectionId, DigestKind, Event, Preface, Read, Session, Target, Trunk};
use units::Time;

/// What an application's socket gives, and a WAN socket takes, at a time.
const PIECE: usize = 256 << 10;
const TOTAL: u64 = 4_000_000_000;

struct Pair {
    near: Trunk,
    far: Trunk,
    connection: ConnectionId,
    started: Instant,
    /// Bytes on the WAN, both ways.
    wire: u64,
}

fn main() {
    println!(
        "{} GB in pieces of {PIECE} bytes, one connection, both ends in one thread",
        TOTAL / 1_000_000_000
    );
    for digest in [DigestKind::Blake3, DigestKind::Xxh3] {
        let (seconds, wire) = carry(digest);
        let added = wire - TOTAL;
        println!(
            "{:9} {:.3} CPU s/GB for both ends, {:.1} Gbit per CPU second, {:.3} % bytes added",
            digest.name(),
            seconds * 1e9 / to_f64(TOTAL),
            to_f64(TOTAL) * 8e-9 / seconds,
            to_f64(added) * 100.0 / to_f64(TOTAL),
        );
    }
}

/// CPU seconds, and bytes on the WAN.
fn carry(digest: DigestKind) -> (f64, u64) {
    let content = Bytes::from(
        (0..PIECE)
            .map(|at| u8::try_from(at % 251).unwrap())
            .collect::<Vec<_>>(),
    );
    let mut pair = Pair::new(digest);
    let stream = pair
        .near
        .open(&Target::new("sink:9").unwrap(), pair.now())
        .unwrap();
    let (mut written, mut read) = (0, 0);
    let before = cpu_seconds();
    while read < TOTAL {
        while written < TOTAL {
            let mut offer = content.clone();
            let now = pair.now();
            let taken = pair.near.write(stream, &mut offer, now).unwrap();
            if taken == 0 {
                break;
            }
            written += taken as u64;
        }
        pair.exchange();
        let now = pair.now();
        while let Ok(Read::Data(bytes)) = pair.far.read(stream, now) {
            read += bytes.len() as u64;
            pair.far.consumed(stream, bytes.len(), now);
        }
    }
    (cpu_seconds() - before, pair.wire)
}

impl Pair {
    fn new(digest: DigestKind) -> Self {
        let started = Instant::now();
        let now = Time::from_millis(1);
        let config = Config {
            digest,
            ..Config::default()
        };
        let mut near = Trunk::initiate(
            config.clone(),
            Session {
                trunk: [1; 16],
                epoch: 1,
            },
        )
        .unwrap();
        let connection = near.connection_up(now);
        let mut out = Vec::new();
        near.transmit(connection, PIECE, &mut out, now);
        let first: Vec<u8> = out.iter().flatten().copied().collect();
        let Some((Preface::Hello(hello), len)) = Preface::decode(&first).unwrap() else {
            panic!("a near end begins with its hello");
        };
        let mut far = Trunk::accept(config, &hello, 1).unwrap();
        far.connection_accepted(&hello, now).unwrap();
        far.receive(connection, Bytes::copy_from_slice(&first[len..]), now)
            .unwrap();
        Self {
            near,
            far,
            connection,
            started,
            wire: 0,
        }
    }

    fn now(&self) -> Time {
        Time::from_nanos(u64::try_from(self.started.elapsed().as_nanos()).unwrap_or(u64::MAX))
    }

    /// One turn of the connection in each direction.
    fn exchange(&mut self) {
        let now = self.now();
        self.wire += pass(self.connection, &mut self.near, &mut self.far, now);
        self.wire += pass(self.connection, &mut self.far, &mut self.near, now);
        while let Some(event) = self.far.poll_event() {
            if let Event::Opened { stream, .. } = event {
                self.far.accept_stream(stream).unwrap();
            }
        }
        while self.near.poll_event().is_some() {}
    }
}

/// Seconds that this thread has had a processor: on a busy machine the clock would count others' work.
fn cpu_seconds() -> f64 {
    let counters = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap();
    let nanos: u64 = counters.split_whitespace().next().unwrap().parse().unwrap();
    to_f64(nanos) / 1e9
}

/// What one end gives in one turn goes to the other; how many bytes that is.
fn pass(connection: ConnectionId, from: &mut Trunk, to: &mut Trunk, now: Time) -> u64 {
    let mut out = Vec::new();
    let len = from.transmit(connection, PIECE, &mut out, now);
    for bytes in out {
        to.receive(connection, bytes, now).unwrap();
    }
    from.tick(now);
    len as u64
}

#[allow(clippy::cast_precision_loss, reason = "figures of three digits")]
fn to_f64(number: u64) -> f64 {
    number as f64
}
