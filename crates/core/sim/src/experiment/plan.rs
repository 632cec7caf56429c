//! What a transfer consists of: turns for each connection.

use std::collections::VecDeque;
use std::time::Duration;

use scenario::{Arm, Flow, Kind, Tls, Workload};
use units::{Bytes, Span};

use crate::http::{Exchange, HEAD, RESPONSE};
use crate::lanes::Turn;

/// The turns of one transfer.
#[derive(Clone, Debug, Default)]
pub(super) struct Plan {
    /// By connection, one after the other.
    pub(super) lanes: Vec<Vec<Turn>>,
    /// For whichever connection is free.
    pub(super) shared: VecDeque<Turn>,
    /// Before and after all others, alone.
    pub(super) first: Option<Turn>,
    pub(super) last: Option<Turn>,
    /// Whether connections are made before the clock starts.
    pub(super) connected: bool,
}

/// Head of a question that has none of HTTP's.
const ASK: u64 = 64;
/// Least overhead of a TLS record (RFC 8446 section 5.2): header, content type, tag.
const RECORD: u64 = 22;
/// Payload of a full record.
const FULL_RECORD: u64 = 1 << 14;

/// The plan of a transfer of `workload` in `arm`; `None` for what runs for a time.
pub(super) fn plan(workload: &Workload, arm: &Arm) -> Option<Plan> {
    let parallel = usize::try_from(arm.parallel(workload)).unwrap_or(1);
    let tls = arm.tls(workload);
    let sized = || -> Vec<Bytes> {
        match workload.bytes {
            Some(bytes) => vec![bytes],
            None => workload.sizes.clone(),
        }
    };
    let count = usize::try_from(workload.count()).unwrap_or(1);
    let idle = workload.idle.map_or(Duration::ZERO, Span::get);
    let alike = |turns: Vec<Turn>| Plan {
        lanes: vec![turns; parallel],
        ..Plan::default()
    };
    Some(match (workload.kind, workload.part) {
        (Kind::Upload, None) => alike(sized().into_iter().map(|bytes| put(bytes, tls)).collect()),
        (Kind::Download, None) => alike(sized().into_iter().map(|bytes| get(bytes, tls)).collect()),
        (Kind::Upload | Kind::Download, Some(part)) => {
            let upload = workload.kind == Kind::Upload;
            let parts = sized().into_iter().flat_map(|bytes| cut(bytes, part));
            let turn = |bytes| {
                if upload {
                    put(bytes, tls)
                } else {
                    get(bytes, tls)
                }
            };
            let small = upload.then(|| get(Bytes::new(300), tls));
            Plan {
                lanes: vec![Vec::new(); parallel],
                shared: parts.map(turn).collect(),
                first: small.clone(),
                last: small,
                connected: false,
            }
        }
        (Kind::Replicate, _) => {
            let object = workload.bytes.unwrap_or(Bytes::ZERO);
            let parts: Vec<Bytes> = match workload.part {
                Some(part) => cut(object, part).collect(),
                None => vec![object],
            };
            let objects = (0..count).flat_map(|_| parts.clone());
            Plan {
                lanes: vec![Vec::new(); parallel],
                shared: objects.map(|bytes| put(bytes, tls)).collect(),
                ..Plan::default()
            }
        }
        (Kind::Exchange, _) => {
            let (request, response) = (workload.request().get(), workload.response().get());
            let turns = (0..count).map(|number| Turn {
                idle: if number == 0 { Duration::ZERO } else { idle },
                pieces: vec![request],
                exchanges: vec![Exchange { request, response }],
            });
            alike(turns.collect())
        }
        (Kind::Burst, _) => {
            let burst = Turn {
                idle,
                ..flow(workload.bytes?.get(), workload.direction(), ASK)
            };
            Plan {
                connected: true,
                ..alike(vec![burst; count])
            }
        }
        (Kind::Stream, _) => alike(vec![flow(workload.bytes?.get(), workload.direction(), 0)]),
        (Kind::Command, _) => return None,
    })
}

/// What a handshake costs on a new connection: its round trips, and about the bytes that rustls sends
/// with one small ECDSA certificate and, in 1.3, a share of X25519MLKEM768. The client's last flight
/// travels with its first request.
pub(super) fn handshake(tls: Option<Tls>) -> Vec<Turn> {
    match tls {
        None => Vec::new(),
        Some(Tls::V1_3) => vec![turn(0, 1_480, 1_950)],
        Some(Tls::V1_2) => vec![turn(0, 250, 800), turn(0, 130, 280)],
    }
}

fn put(bytes: Bytes, tls: Option<Tls>) -> Turn {
    turn(HEAD, on_the_wire(bytes.get(), tls), RESPONSE)
}

fn get(bytes: Bytes, tls: Option<Tls>) -> Turn {
    turn(0, HEAD, RESPONSE + on_the_wire(bytes.get(), tls))
}

/// Clients write a head first, so it travels as a segment of its own.
fn turn(head: u64, body: u64, response: u64) -> Turn {
    Turn {
        idle: Duration::ZERO,
        pieces: [head, body]
            .into_iter()
            .filter(|piece| *piece > 0)
            .collect(),
        exchanges: vec![Exchange {
            request: head + body,
            response,
        }],
    }
}

/// Bytes one way: the far end sends by itself, or after `ask` bytes, and gives a receipt for what it gets, as
/// `longhaul flow` does: the client knows by it that all has arrived.
fn flow(bytes: u64, direction: Flow, ask: u64) -> Turn {
    const RECEIPT: u64 = 1;
    let up = Exchange {
        request: bytes,
        response: RECEIPT,
    };
    let down = Exchange {
        request: ask,
        response: bytes,
    };
    let (pieces, exchanges) = match direction {
        Flow::Up => (vec![bytes], vec![up]),
        Flow::Down => (vec![ask], vec![down]),
        Flow::Both => (vec![ask, bytes], vec![down, up]),
    };
    Turn {
        idle: Duration::ZERO,
        pieces: pieces.into_iter().filter(|piece| *piece > 0).collect(),
        exchanges,
    }
}

fn on_the_wire(bytes: u64, tls: Option<Tls>) -> u64 {
    match tls {
        None => bytes,
        Some(_) => bytes + bytes.div_ceil(FULL_RECORD) * RECORD,
    }
}

fn cut(bytes: Bytes, part: Bytes) -> impl Iterator<Item = Bytes> {
    let (bytes, part) = (bytes.get(), part.get().max(1));
    let parts = bytes.div_ceil(part);
    (0..parts).map(move |number| Bytes::new(part.min(bytes - number * part)))
}
