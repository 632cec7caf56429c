use crate::{BadTarget, StreamId};

/// What the peer did that no version of the protocol allows. The connection it came over is over; its
/// frames that were not acknowledged go over others.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub enum Violation {
    /// The connection does not begin as a trunk's does: something else speaks on this port.
    #[error("the connection does not begin with a trunk's preface")]
    NotATrunk,
    /// The preface is damaged, or its fields contradict each other.
    #[error("the preface is malformed: {what}")]
    Preface {
        /// Which part.
        what: &'static str,
    },
    /// A frame of a kind that this version does not know.
    #[error("a frame of unknown kind {kind:#04x}")]
    UnknownFrame {
        /// The kind's code.
        kind: u8,
    },
    /// A frame longer, or shorter, than its kind can be.
    #[error("a {kind} frame of {len} bytes")]
    FrameLength {
        /// The kind.
        kind: &'static str,
        /// The length of its body in bytes.
        len: usize,
    },
    /// The frame's CRC32C is not that of its bytes: they were changed on the way.
    #[error("the checksum of a {kind} frame does not match its bytes")]
    Checksum {
        /// The kind, if its first byte can be believed.
        kind: &'static str,
    },
    /// A field holds what it cannot.
    #[error("a {kind} frame whose {field} is impossible")]
    Field {
        /// The kind.
        kind: &'static str,
        /// The field.
        field: &'static str,
    },
    /// A target that is no target.
    #[error("an open frame with a bad target")]
    Target(#[source] BadTarget),
    /// A frame numbered further ahead than a sender may go.
    #[error("frame {sequence} is too far ahead of {floor}")]
    Sequence {
        /// The frame's number.
        sequence: u64,
        /// All frames below this number are here.
        floor: u64,
    },
    /// More bytes than were allowed.
    #[error("{stream} exceeds the credit that it was given")]
    StreamCredit {
        /// The stream.
        stream: StreamId,
    },
    /// More bytes on all streams together than were allowed.
    #[error("all streams together exceed the credit that they were given")]
    TrunkCredit,
    /// A stream that the peer cannot have, because it is ours to open and we did not.
    #[error("{stream} was never opened")]
    NeverOpened {
        /// The stream.
        stream: StreamId,
    },
    /// A stream opened twice.
    #[error("{stream} was opened twice")]
    OpenedTwice {
        /// The stream.
        stream: StreamId,
    },
    /// Bytes at a place of a stream that has some, or beyond its end.
    #[error("{stream} has bytes where none can be")]
    Overlap {
        /// The stream.
        stream: StreamId,
    },
    /// An acknowledgement of what was never sent.
    #[error("an acknowledgement of frames that were never sent")]
    Acknowledgement,
    /// An end that leaves a session twice, or with other streams than it has opened.
    #[error("it leaves the session in a way that cannot be")]
    Leave,
    /// It makes this end owe more answers than it takes.
    #[error("it provokes answers faster than it takes them")]
    Backlog,
}
