use units::Time;

use crate::Segment;

/// What an endpoint wants.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Output {
    /// Send this segment.
    Transmit {
        /// The segment.
        segment: Segment,
        /// Offset of its first payload byte in the stream of what was written, from 0.
        offset: u64,
    },
    /// Something the application wants to know.
    Event(Event),
    /// Nothing until this moment, at which [`handle_timeout`](crate::Connection::handle_timeout) is due;
    /// `None` for as long as no segment comes.
    Timeout(Option<Time>),
}

/// What happened to a connection.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Event {
    /// The handshake is complete.
    Established,
    /// There is something to read; not repeated until it was read.
    Readable,
    /// There is room to write again after a write found too little.
    Writable,
    /// The peer will send no more; what it sent can still be read.
    PeerClosed,
    /// All that was written has been acknowledged, and both sides are closed.
    Closed,
    /// The peer ended the connection, or refused it.
    Reset,
    /// The peer does not answer any more.
    TimedOut,
}

/// Where received payload belongs.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Placement {
    /// Offset in the peer's stream, from 0.
    pub offset: u64,
    /// Bytes at the payload's beginning that are not wanted.
    pub skip: u32,
    /// Bytes after them that are.
    pub len: u32,
}

/// Events that wait to be taken, each at most once, in the order in which they can happen.
#[derive(Debug, Default)]
pub(crate) struct Pending(u8);

// === impl Pending ===

impl Pending {
    const ORDER: [Event; 7] = [
        Event::Established,
        Event::Readable,
        Event::Writable,
        Event::PeerClosed,
        Event::Closed,
        Event::Reset,
        Event::TimedOut,
    ];

    pub(crate) fn push(&mut self, event: Event) {
        if let Some(bit) = Self::ORDER.iter().position(|&known| known == event) {
            self.0 |= 1 << bit;
        }
    }

    pub(crate) fn pop(&mut self) -> Option<Event> {
        if self.0 == 0 {
            return None;
        }
        let bit = self.0.trailing_zeros();
        self.0 &= self.0 - 1;
        Self::ORDER.get(usize::try_from(bit).ok()?).copied()
    }
}
