use core::time::Duration;

use units::{PacketOverhead, Time};

use crate::Reason;

/// One direction of a connection, on the clock of the place where it was captured.
#[derive(Clone, Debug)]
pub struct Timeline {
    /// The connection's first packet.
    pub from: Time,
    /// Its last packet.
    pub to: Time,
    /// Connection set-up.
    pub handshake: Option<(Time, Time)>,
    /// TLS set-up.
    pub tls: Option<(Time, Time)>,
    /// The first FIN or RST of either side.
    pub ending_at: Option<Time>,
    /// Round-trip time of the path without queues.
    pub base_rtt: Option<Duration>,
    /// From the tap to the sender and back without queues. ACK events are already late by it, and by what
    /// queued, where echoed timestamps tell that: that is when data which they release can pass the tap.
    /// Zero in a capture made at the sender.
    pub feedback_delay: Duration,
    /// Whether round trips show what queued: at the sender they do, elsewhere only by echoed timestamps.
    pub queues_show: bool,
    /// Payload and headers of a full segment.
    pub segment: PacketOverhead,
    /// How the receiver's window field is to be read.
    pub window: WindowField,
    /// Whether the protocol above has a window of its own, as SSH channels do.
    pub peer_window: bool,
    /// Why waits cannot be judged, where the capture does not show enough.
    pub blind: Option<Reason>,
    /// What the sender sent and what reached it, in order of time.
    pub events: Vec<Event>,
}

/// Whether the window's numbers can be believed.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum WindowField {
    /// Scaling was agreed, and the windows in the events are scaled.
    Scaled,
    /// Scaling was not agreed: 65,535 bytes are the end.
    Unscaled,
    /// The SYNs are missing: windows are `None`, except closed ones.
    Unknown,
}

/// Something at a moment.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Event {
    /// When it took effect at the tap.
    pub at: Time,
    /// What.
    pub kind: EventKind,
}

impl Event {
    /// Whether bytes were sent for the first time.
    pub(crate) const fn is_new_data(&self) -> bool {
        matches!(self.kind, EventKind::Sent { repair: None, .. })
    }
}

/// What a sender did or learned. Positions count payload bytes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum EventKind {
    /// It sent the bytes `[from, to)`.
    Sent {
        /// First byte.
        from: i64,
        /// Byte after the last.
        to: i64,
        /// Why again, if the bytes were sent before.
        repair: Option<Repair>,
    },
    /// It was told that everything below `to` has arrived.
    Ack {
        /// First byte not yet acknowledged.
        to: i64,
        /// The receiver's window from there, in bytes; `None` where its scale is not known.
        window: Option<u64>,
        /// Nothing but an ACK: no data of the other direction, no FIN.
        bare: bool,
        /// SACK blocks show that later bytes have arrived.
        holds_more: bool,
        /// Position after the last byte that they report, where no ACK before reported as much: that byte has just
        /// arrived.
        newest: Option<i64>,
        /// When the tap saw it; away from the sender that is before it took effect.
        passed_at: Time,
    },
}

/// Why bytes were sent again.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Repair {
    /// Duplicate ACKs or SACK showed a hole.
    Fast,
    /// The retransmission timer ran out.
    Timeout,
    /// A probe for a lost tail.
    TailProbe,
    /// The bytes had arrived.
    Spurious,
    /// Unknown.
    Unknown,
}
