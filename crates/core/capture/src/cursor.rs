use alloc::vec::Vec;

use crate::Ending;

/// A place in a stream of bytes of which a part is at hand.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Cursor {
    /// Where the unread bytes begin in the bytes at hand.
    start: usize,
    /// The same place, counted from the start of the stream.
    offset: u64,
    /// Bytes to pass over that are not at hand yet.
    pending: u64,
    /// How long the record is that is being passed over.
    skipped: u64,
}

impl Cursor {
    pub(crate) fn rest(self, data: &[u8]) -> &[u8] {
        data.get(self.start..).unwrap_or_default()
    }

    pub(crate) const fn offset(self) -> u64 {
        self.offset
    }

    /// Moves over bytes at hand.
    pub(crate) fn consume(&mut self, count: usize) {
        self.start += count;
        self.offset = self.offset.saturating_add(len64(count));
    }

    /// Moves over bytes of which only some may be at hand, so that a block nobody reads takes no memory
    /// whatever length it claims.
    pub(crate) fn skip(&mut self, count: u64, data: &[u8]) {
        self.skipped = count;
        self.pending = count;
        self.settle(data);
    }

    fn settle(&mut self, data: &[u8]) {
        let here = self.rest(data).len();
        let step = usize::try_from(self.pending).map_or(here, |pending| pending.min(here));
        self.consume(step);
        self.pending -= len64(step);
    }

    /// The unread bytes stand at the front of what will be at hand next.
    pub(crate) const fn restart(&mut self) {
        self.start = 0;
    }

    /// Other bytes are at hand, which begin with the unread ones.
    pub(crate) fn resume(&mut self, data: &[u8]) {
        if self.pending > 0 {
            self.settle(data);
        }
    }

    /// How the stream ends if `data` is all there is.
    pub(crate) fn ending(self, data: &[u8]) -> Ending {
        if self.pending > 0 {
            let present = self.skipped - self.pending;
            return Ending::CutShort {
                offset: self.offset.saturating_sub(present),
                present,
            };
        }
        match len64(self.rest(data).len()) {
            0 => Ending::Complete,
            present => Ending::CutShort {
                offset: self.offset,
                present,
            },
        }
    }
}

/// The fed bytes that have not been read yet, and the cursor in them.
#[derive(Clone, Debug, Default)]
pub(crate) struct Buffer {
    pub(crate) bytes: Vec<u8>,
    pub(crate) cursor: Cursor,
}

impl Buffer {
    /// Takes the next bytes of the stream. What was read is dropped first, so the buffer holds one chunk
    /// and the unfinished record before it.
    pub(crate) fn feed(&mut self, bytes: &[u8]) {
        self.bytes.drain(..self.cursor.start.min(self.bytes.len()));
        self.cursor.start = 0;
        self.bytes.extend_from_slice(bytes);
        if self.cursor.pending > 0 {
            self.cursor.settle(&self.bytes);
        }
    }

    pub(crate) fn ending(&self) -> Ending {
        self.cursor.ending(&self.bytes)
    }
}

/// `usize` has at most 64 bits on every target of Rust.
pub(crate) fn len64(count: usize) -> u64 {
    u64::try_from(count).unwrap_or(u64::MAX)
}
