use units::Time;

use crate::{ConnectionId, Digest, Excess, Explanation, Holds, Manner, Refusal, StreamId, Target};

/// Something for the driver to act on or to tell.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Event {
    /// The peer has let a connection in; the round trip is known.
    ConnectionReady {
        /// The connection.
        connection: ConnectionId,
    },
    /// A connection's windows hold what its path carries in a round trip, for the first time: what comes now goes
    /// out at full speed.
    ConnectionHot {
        /// The connection.
        connection: ConnectionId,
    },
    /// The trunk has no more use for a connection, or has lost faith in it: close its socket. It is down
    /// already; [`crate::Trunk::connection_down`] may be called for it and changes nothing.
    CloseConnection {
        /// The connection.
        connection: ConnectionId,
        /// Why.
        why: Closing,
    },
    /// The trunk wants this many connections in all (initiator only). Open what is missing, now and whenever
    /// one is lost, until another such event gives another number; surplus ones the trunk closes itself.
    WantConnections {
        /// How many, those that are up included.
        count: u32,
    },
    /// The peer has opened a stream. Connect to its target, then answer with
    /// [`crate::Trunk::accept_stream`] or [`crate::Trunk::reset`]. Its first bytes may be readable already.
    Opened {
        /// The stream.
        stream: StreamId,
        /// Where it wants to go.
        target: Target,
    },
    /// The peer has reached the target of a stream of ours.
    Accepted {
        /// The stream.
        stream: StreamId,
    },
    /// [`crate::Trunk::read`] has something again, bytes or the end.
    Readable {
        /// The stream.
        stream: StreamId,
    },
    /// [`crate::Trunk::write`] takes bytes again after it took fewer than were offered.
    Writable {
        /// The stream.
        stream: StreamId,
    },
    /// All bytes of both directions have been handed to the applications' sockets, and both digests agree.
    /// The stream is gone.
    Closed {
        /// The stream.
        stream: StreamId,
        /// What it carried.
        receipt: Receipt,
    },
    /// The stream ended before its time. It is gone.
    Reset {
        /// The stream.
        stream: StreamId,
        /// Why.
        why: Explanation,
        /// Who said so.
        by: By,
        /// What it carried until then.
        receipt: Receipt,
    },
    /// Bytes changed between two relays. The stream is reset, and somebody should know.
    Alarm {
        /// The stream.
        stream: StreamId,
        /// What its sender computed.
        sent: Digest,
        /// What its receiver computed.
        received: Digest,
    },
    /// The trunk is to take more, or less, from others on its path than before: give every connection, those
    /// that come later included, a congestion control of that kind.
    Manner {
        /// How it is to send from now on.
        manner: Manner,
        /// What was too much, where it is to take less.
        why: Option<Excess>,
    },
    /// The peer takes no new streams in this session, and this end opens none any more ([`crate::OpenError::Left`]).
    /// Those that are open go on; with the last of them the trunk is over.
    PeerLeaves,
    /// The trunk is over for good; streams that it had have been reset.
    Ended {
        /// Why.
        why: Explanation,
    },
}

/// Why a connection is closed from within.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Closing {
    /// Fewer connections do as well.
    Surplus,
    /// It was silent for [`crate::Config::dead_after`] while something was owed.
    Silent,
    /// The far relay did not let it in.
    Refused(Refusal),
    /// It belongs to a session that is over.
    SessionOver,
}

/// Who ended a stream.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum By {
    /// This end's driver.
    Us,
    /// The other end.
    Peer,
    /// The trunk itself.
    Trunk,
}

/// What a stream carried, as this end saw it.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Receipt {
    /// When it was opened here.
    pub opened_at: Time,
    /// When it ended here.
    pub closed_at: Time,
    /// What held its sending back at this end, from the opening to the end.
    pub held_by: Holds,
    /// This end's application to the other's.
    pub sent: Half,
    /// The other's to this end's.
    pub received: Half,
}

/// One direction in a receipt.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Half {
    /// Bytes that this end put on connections, or handed out.
    pub bytes: u64,
    /// Their digest, as this end computed it; `None` where the direction did not come to its end.
    pub digest: Option<Digest>,
    /// Whether the other end has said the same number of bytes and the same digest.
    pub confirmed: bool,
}
