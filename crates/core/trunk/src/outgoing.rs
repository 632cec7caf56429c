use alloc::collections::VecDeque;
use alloc::vec::Vec;

use bytes::{Bytes, BytesMut};

use crate::DigestKind;
use crate::digest::Hasher;
use crate::frame::Summary;

/// Writes below this are gathered into one buffer: a thousand keystrokes must not be a thousand allocations.
const SMALL: usize = 4 << 10;

/// Where more follows, a chunk ends at a multiple of this: BLAKE3 hashes sixteen of its chunks of 1 KiB at a time, and the
/// peer hashes each of ours as it comes.
const ALIGNMENT: usize = 16 << 10;

/// One stream's bytes from this end's application to the trunk.
#[derive(Debug)]
pub(crate) struct Outgoing {
    queue: VecDeque<Bytes>,
    /// Small writes behind the queue.
    tail: BytesMut,
    /// Bytes in `queue` and `tail`.
    queued: u64,
    /// Offset of the next byte to go out for the first time.
    sent: u64,
    /// Bytes that went out and are not acknowledged.
    pub(crate) in_flight: u64,
    /// The peer takes bytes below this offset.
    limit: u64,
    /// The peer has handed on the bytes below this offset.
    consumed: u64,
    hasher: Hasher,
    end: End,
    /// The writer was told to wait, and waits for an event.
    pub(crate) starved: bool,
}

/// How far the end of a direction has come.
#[derive(Clone, Copy, Debug)]
enum End {
    /// More may be written.
    Open,
    /// Nothing more will be; some is still queued.
    Wanted,
    /// The finish frame went out with this.
    Sent(Summary),
    /// The peer has answered with the same.
    Confirmed(Summary),
}

/// How a receipt compares with what was sent.
pub(crate) enum Confirmation {
    Agrees,
    /// What was sent, for the alarm.
    Differs(Summary),
    /// A receipt before the end: the peer cannot have one.
    Premature,
}

impl Outgoing {
    pub(crate) fn new(digest: DigestKind, limit: u64) -> Self {
        Self {
            queue: VecDeque::new(),
            tail: BytesMut::new(),
            queued: 0,
            sent: 0,
            in_flight: 0,
            limit,
            consumed: 0,
            hasher: Hasher::new(digest),
            end: End::Open,
            starved: false,
        }
    }

    pub(crate) fn push(&mut self, bytes: Bytes) {
        self.queued += bytes.len() as u64;
        // As much at a time as there is: the digest costs half as much again in small pieces.
        self.hasher.update(&bytes);
        if bytes.len() < SMALL {
            self.tail.extend_from_slice(&bytes);
            if self.tail.len() >= SMALL {
                self.queue.push_back(self.tail.split().freeze());
            }
        } else {
            self.flush_tail();
            self.queue.push_back(bytes);
        }
    }

    fn flush_tail(&mut self) {
        if !self.tail.is_empty() {
            self.queue
                .push_back(core::mem::take(&mut self.tail).freeze());
        }
    }

    /// The next at most `max` bytes, with their offset.
    pub(crate) fn chunk(&mut self, max: usize) -> (u64, Vec<Bytes>) {
        let offset = self.sent;
        let max = self.align(max);
        let mut left = max;
        let mut pieces = Vec::new();
        self.flush_tail();
        while left > 0
            && let Some(front) = self.queue.front_mut()
        {
            let piece = front.split_to(left.min(front.len()));
            if front.is_empty() {
                self.queue.pop_front();
            }
            left -= piece.len();
            pieces.push(piece);
        }
        let len = (max - left) as u64;
        self.queued -= len;
        self.sent += len;
        self.in_flight += len;
        (offset, pieces)
    }

    /// `max`, or somewhat less where a chunk of `max` bytes would end away from the [`ALIGNMENT`].
    fn align(&self, max: usize) -> usize {
        let end = self.sent + max as u64;
        let beyond = usize::try_from(end % ALIGNMENT as u64).unwrap_or(0);
        if self.queued > max as u64 && beyond < max {
            max - beyond
        } else {
            max
        }
    }

    /// Bytes that are not with the peer yet, for all this end knows.
    pub(crate) const fn held(&self) -> u64 {
        self.queued + self.in_flight
    }

    pub(crate) const fn queued(&self) -> u64 {
        self.queued
    }

    pub(crate) const fn sent(&self) -> u64 {
        self.sent
    }

    /// Bytes that wait and that the stream's credit lets go.
    pub(crate) fn sendable(&self) -> u64 {
        self.queued.min(self.credit())
    }

    /// Bytes that the stream's credit lets go.
    pub(crate) const fn credit(&self) -> u64 {
        self.limit.saturating_sub(self.sent)
    }

    /// Bytes that may fill the peer's memory, for all this end knows.
    pub(crate) const fn unconsumed(&self) -> u64 {
        self.sent.saturating_sub(self.consumed)
    }

    /// Credit never goes back: frames overtake each other.
    pub(crate) fn raise_credit(&mut self, consumed: u64, limit: u64) {
        self.consumed = self.consumed.max(consumed);
        self.limit = self.limit.max(limit);
    }

    pub(crate) const fn is_open(&self) -> bool {
        matches!(self.end, End::Open)
    }

    pub(crate) fn finish(&mut self) {
        if self.is_open() {
            self.end = End::Wanted;
        }
    }

    /// Whether the finish frame is next.
    pub(crate) const fn finish_due(&self) -> bool {
        matches!(self.end, End::Wanted) && self.queued == 0
    }

    /// What the finish frame says; it counts as sent.
    pub(crate) fn take_finish(&mut self) -> Summary {
        let summary = Summary {
            bytes: self.sent,
            digest: self.hasher.digest(),
        };
        self.end = End::Sent(summary);
        summary
    }

    pub(crate) fn confirm(&mut self, receipt: Summary) -> Confirmation {
        match self.end {
            End::Sent(sent) | End::Confirmed(sent) if sent == receipt => {
                self.end = End::Confirmed(sent);
                self.consumed = self.sent;
                Confirmation::Agrees
            }
            End::Sent(sent) | End::Confirmed(sent) => Confirmation::Differs(sent),
            End::Open | End::Wanted => Confirmation::Premature,
        }
    }

    pub(crate) const fn is_confirmed(&self) -> bool {
        matches!(self.end, End::Confirmed(_))
    }

    pub(crate) const fn summary(&self) -> Option<Summary> {
        match self.end {
            End::Sent(summary) | End::Confirmed(summary) => Some(summary),
            End::Open | End::Wanted => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec;

    use super::*;

    #[test]
    fn chunks_end_at_the_alignment_while_more_follows_and_none_is_held_back() {
        const MOST: usize = 64 << 10;
        let mut outgoing = Outgoing::new(DigestKind::Blake3, u64::MAX);
        let mut next = |len: usize| {
            outgoing.push(Bytes::from(vec![7; len]));
            let mut ends = Vec::new();
            while outgoing.queued() > 0 {
                let (offset, pieces) = outgoing.chunk(MOST);
                let len: usize = pieces.iter().map(Bytes::len).sum();
                assert!(0 < len && len <= MOST, "{len}");
                ends.push(offset + len as u64);
            }
            ends
        };
        assert_eq!(next(5_000), [5_000], "what there is leaves at once");
        assert_eq!(next(150_000), [65_536, 131_072, 155_000]);
        assert_eq!(next(20), [155_020]);
    }
}
