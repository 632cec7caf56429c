use alloc::collections::{BTreeMap, VecDeque};
use core::ops::AddAssign;
use core::time::Duration;

use bytes::Bytes;
use units::{Bytes as Size, Rate, Time};

use crate::ConnectionId;
use crate::decoder::Decoder;
use crate::holding::Ledger;
use crate::pace::{Mark, Pace};
use crate::padding::Warmth;
use crate::rein::Rein;
use crate::reserve::Reserve;

/// One WAN connection as one end sees it.
#[derive(Debug)]
pub(crate) struct Connection {
    pub(crate) decoder: Decoder,
    /// What goes out before any frame.
    pub(crate) preface: Option<Bytes>,
    pub(crate) stage: Stage,
    /// The peer is to be told that this connection retires.
    pub(crate) retire_due: bool,
    /// The peer sends no more reliable frames here.
    pub(crate) peer_retired: bool,
    /// The driver was told that it is hot.
    pub(crate) hot_told: bool,
    /// How fast it got.
    pub(crate) warmth: Warmth,
    /// What holds it back.
    pub(crate) ledger: Ledger,
    /// How fast its socket may pace.
    pub(crate) rein: Rein,
    /// How much its socket may hold unsent.
    pub(crate) reserve: Reserve,
    /// Reliable frames that went out here and are not acknowledged, in order.
    pub(crate) fifo: VecDeque<Sent>,
    /// Bytes of `fifo`.
    pub(crate) in_flight: u64,
    /// Reliable frames that the peer has acknowledged.
    pub(crate) acknowledged: u64,
    /// Reliable frames that came in here.
    pub(crate) received: u64,
    pub(crate) acks: Acks,
    pub(crate) pings: Pings,
    pub(crate) pace: Pace,
    /// What the driver last saw of the socket.
    pub(crate) seen: Option<Observation>,
    /// When anything last came in.
    pub(crate) heard_at: Time,
    /// When the oldest frame of `fifo` began to be the oldest.
    pub(crate) progress_at: Time,
    pub(crate) health: Health,
    pub(crate) totals: Totals,
}

/// Whether acknowledgements come.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Health {
    Well,
    /// Its frames go over others, and it gets no new ones, until an acknowledgement comes.
    Stalled {
        since: Time,
    },
    /// That, and another has been asked for in its place.
    Replaced,
}

/// What a connection is there for.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Stage {
    /// The peer's preface has not come yet; frames go out all the same (initiator only).
    Greeting,
    /// Both prefaces are through.
    Ready,
    /// It gets no new frames, and is closed once all are acknowledged.
    Retiring,
    /// The peer was told that the trunk is over.
    Ending,
}

impl Stage {
    pub(crate) const fn takes_frames(self) -> bool {
        matches!(self, Self::Greeting | Self::Ready)
    }
}

/// A reliable frame on one connection.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sent {
    pub(crate) sequence: u64,
    pub(crate) len: u64,
    pub(crate) mark: Mark,
}

/// What this connection's peer has been told of what came in.
#[derive(Debug, Default)]
pub(crate) struct Acks {
    /// The counts of each connection as last written to this one.
    pub(crate) told: BTreeMap<ConnectionId, u64>,
    /// When the next is due at the latest.
    pub(crate) due_at: Option<Time>,
    /// It is due.
    pub(crate) due: bool,
    /// Bytes that came in here since the last.
    pub(crate) pending: u64,
}

#[derive(Debug, Default)]
pub(crate) struct Pings {
    /// Since when the peer owes a sign of life.
    pub(crate) asked_at: Option<Time>,
    /// Sent and not answered.
    pub(crate) open: Option<(u64, Time)>,
    /// To be sent.
    pub(crate) due: bool,
    /// To be answered.
    pub(crate) echo: Option<u64>,
}

/// Bytes on a connection, since it came up.
#[derive(Clone, Copy, Debug, Default)]
pub struct Totals {
    /// Given to the socket: prefaces, frames, padding.
    pub sent: u64,
    /// Received from it.
    pub received: u64,
    /// Payload of streams among those sent, repeated chunks included.
    pub payload: u64,
    /// Payload that was sent again because another connection stalled or died.
    pub repeated: u64,
    /// Padding among those sent.
    pub padding: u64,
    /// What the kernel sent again, as far as the driver has seen.
    pub retransmitted: u64,
}

impl AddAssign for Totals {
    fn add_assign(&mut self, other: Self) {
        self.sent += other.sent;
        self.received += other.received;
        self.payload += other.payload;
        self.repeated += other.repeated;
        self.padding += other.padding;
        self.retransmitted += other.retransmitted;
    }
}

/// What the driver sees of a connection's socket, from `TCP_INFO` and the like. What it cannot know it
/// leaves out.
#[derive(Clone, Copy, Debug, Default)]
pub struct Observation {
    /// The kernel's smoothed round trip.
    pub round_trip: Option<Duration>,
    /// The least one of the kernel's last minutes.
    pub least_round_trip: Option<Duration>,
    /// The kernel's latest delivery rate.
    pub delivery_rate: Option<Rate>,
    /// At which rate the kernel lets segments go, where it paces them.
    pub pacing_rate: Option<Rate>,
    /// The congestion window.
    pub congestion_window: Option<Size>,
    /// The peer's receive window.
    pub peer_window: Option<Size>,
    /// Given to the socket and not yet sent.
    pub unsent: Size,
    /// Sent and not acknowledged by the peer's kernel.
    pub unacknowledged: Size,
    /// Sent in all, repetitions included.
    pub sent: Size,
    /// Of those, repetitions.
    pub retransmitted: Size,
}

impl Connection {
    pub(crate) fn new(preface: Bytes, stage: Stage, now: Time) -> Self {
        Self {
            decoder: Decoder::default(),
            preface: Some(preface),
            stage,
            retire_due: false,
            peer_retired: false,
            hot_told: false,
            warmth: Warmth::default(),
            ledger: Ledger::new(now),
            rein: Rein::default(),
            reserve: Reserve::default(),
            fifo: VecDeque::new(),
            in_flight: 0,
            acknowledged: 0,
            received: 0,
            acks: Acks::default(),
            // The peer has to answer the preface, or it is none.
            pings: Pings {
                due: true,
                asked_at: Some(now),
                ..Pings::default()
            },
            pace: Pace::default(),
            seen: None,
            heard_at: now,
            progress_at: now,
            health: Health::Well,
            totals: Totals::default(),
        }
    }

    /// Takes note of a reliable frame that goes out.
    pub(crate) fn push(&mut self, sequence: u64, len: u64, now: Time) {
        let idle = self.fifo.is_empty();
        if idle {
            self.progress_at = now;
        }
        let mark = self.pace.mark(idle, now);
        self.fifo.push_back(Sent {
            sequence,
            len,
            mark,
        });
        self.in_flight += len;
    }

    /// Without an acknowledgement for too long.
    pub(crate) fn is_stalled(&self) -> bool {
        self.health != Health::Well
    }

    /// Whether new frames may go out here.
    pub(crate) fn takes_frames(&self) -> bool {
        !self.is_stalled() && self.stage.takes_frames()
    }
}
