use alloc::collections::{BTreeMap, VecDeque};
use alloc::vec::Vec;
use core::time::Duration;

use bytes::{Bytes, BytesMut};
use units::Time;

use crate::DigestKind;
use crate::digest::Hasher;
use crate::frame::Summary;

/// Pieces below this are gathered into one buffer, so that a peer's small frames cannot cost many times
/// their bytes.
const SMALL: usize = 2 << 10;

/// One stream's bytes from the trunk to this end's application.
#[derive(Debug)]
pub(crate) struct Incoming {
    /// In order, waiting for the reader.
    ready: VecDeque<Bytes>,
    /// Small pieces behind `ready`.
    tail: BytesMut,
    /// Chunks that overtook others, by offset.
    early: BTreeMap<u64, Vec<Bytes>>,
    /// All bytes below have arrived.
    arrived: u64,
    /// All bytes below have been given to the reader.
    read: u64,
    /// All bytes below have been handed to the application's socket.
    consumed: u64,
    hasher: Hasher,
    end: Option<Summary>,
    /// The peer has been told that everything is handed on.
    pub(crate) confirmed: bool,
    window: Window,
}

/// How much the peer may send ahead of the application.
#[derive(Debug)]
struct Window {
    size: u64,
    /// The peer may send bytes below this offset.
    limit: u64,
    /// What of `consumed` the peer has been told.
    told: u64,
    /// When `told` last changed, as the start of the window's turn.
    turned_at: Time,
}

/// The bytes lie where others do, or behind the end.
#[derive(Debug)]
pub(crate) struct Overlap;

/// What a reader gets.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Read {
    /// The next bytes, in order. Report them with [`crate::Trunk::consumed`] once the application's socket
    /// has taken them.
    Data(Bytes),
    /// Nothing now; [`crate::Event::Readable`] says when.
    Pending,
    /// The other end has finished writing, and all its bytes have been read: shut the socket down for
    /// writing.
    End,
}

impl Incoming {
    pub(crate) fn new(digest: DigestKind, window: u64, now: Time) -> Self {
        Self {
            ready: VecDeque::new(),
            tail: BytesMut::new(),
            early: BTreeMap::new(),
            arrived: 0,
            read: 0,
            consumed: 0,
            hasher: Hasher::new(digest),
            end: None,
            confirmed: false,
            window: Window {
                size: window,
                limit: window,
                told: 0,
                turned_at: now,
            },
        }
    }

    /// Whether a chunk up to this offset is within what was granted.
    pub(crate) const fn admits(&self, end: u64) -> bool {
        end <= self.window.limit
    }

    /// Takes a chunk; whether the reader can go on because of it.
    pub(crate) fn insert(&mut self, offset: u64, pieces: Vec<Bytes>) -> Result<bool, Overlap> {
        let len: u64 = pieces.iter().map(|piece| piece.len() as u64).sum();
        let end = offset.checked_add(len).ok_or(Overlap)?;
        if len == 0 {
            return Ok(false);
        }
        if offset < self.arrived || self.end.is_some_and(|total| end > total.bytes) {
            return Err(Overlap);
        }
        if offset > self.arrived {
            let before = self.early.range(..end).next_back();
            if before.is_some_and(|(start, pieces)| start + total(pieces) > offset) {
                return Err(Overlap);
            }
            self.early.insert(offset, pieces);
            return Ok(false);
        }
        if self
            .early
            .first_key_value()
            .is_some_and(|(start, _)| *start < end)
        {
            return Err(Overlap);
        }
        self.append(pieces);
        while let Some(next) = self.early.first_entry()
            && *next.key() == self.arrived
        {
            let pieces = next.remove();
            self.append(pieces);
        }
        Ok(true)
    }

    fn append(&mut self, pieces: Vec<Bytes>) {
        for piece in pieces {
            self.arrived += piece.len() as u64;
            if piece.len() < SMALL && !(self.ready.is_empty() && self.tail.is_empty()) {
                self.tail.extend_from_slice(&piece);
                if self.tail.len() >= SMALL {
                    self.ready.push_back(self.tail.split().freeze());
                }
            } else {
                self.flush_tail();
                self.ready.push_back(piece);
            }
        }
    }

    fn flush_tail(&mut self) {
        if !self.tail.is_empty() {
            self.ready
                .push_back(core::mem::take(&mut self.tail).freeze());
        }
    }

    /// The other end's finish. `Err` where bytes lie behind it, or it says another end than before.
    pub(crate) fn finish(&mut self, end: Summary) -> Result<(), Overlap> {
        let beyond = self
            .early
            .last_key_value()
            .is_some_and(|(start, pieces)| start + total(pieces) > end.bytes);
        if self.end.is_some() || self.arrived > end.bytes || beyond {
            return Err(Overlap);
        }
        self.end = Some(end);
        Ok(())
    }

    pub(crate) fn read(&mut self) -> Read {
        if self.ready.is_empty() {
            self.flush_tail();
        }
        match self.ready.pop_front() {
            Some(bytes) => {
                self.read += bytes.len() as u64;
                self.hasher.update(&bytes);
                Read::Data(bytes)
            }
            None if self.is_complete() => Read::End,
            None => Read::Pending,
        }
    }

    /// Whether [`Self::read`] would give something.
    pub(crate) fn is_readable(&self) -> bool {
        self.arrived > self.read || self.is_complete()
    }

    /// Everything up to the end has been given to the reader.
    fn is_complete(&self) -> bool {
        self.end.is_some_and(|end| end.bytes == self.read)
    }

    /// The application's socket has taken `len` more bytes: what of them is new, since a driver that
    /// reports more than it read must not grow the credit.
    pub(crate) fn consume(&mut self, len: u64) -> u64 {
        let len = len.min(self.read - self.consumed);
        self.consumed += len;
        len
    }

    /// Bytes given to the reader or waiting for it, not yet handed on. Not those that overtook others.
    pub(crate) fn unconsumed(&self) -> u64 {
        self.arrived - self.consumed + self.early.values().map(|pieces| total(pieces)).sum::<u64>()
    }

    pub(crate) const fn bytes(&self) -> u64 {
        self.read
    }

    /// The application's socket has taken everything up to the end.
    pub(crate) fn is_consumed(&self) -> bool {
        self.end.is_some_and(|end| end.bytes == self.consumed)
    }

    /// What this end computed and what the other said, once everything has been given to the reader.
    pub(crate) fn outcome(&self) -> Option<(Summary, Summary)> {
        let end = self.end.filter(|end| end.bytes == self.read)?;
        Some((
            Summary {
                bytes: self.read,
                digest: self.hasher.digest(),
            },
            end,
        ))
    }

    /// The credit to tell, if it is time. The window doubles while it turns over within two round trips,
    /// as it does exactly while it is what limits the peer.
    ///
    /// `free` is what the trunk's credit leaves: where that is scarce, even little is told, because the
    /// sender holds every stream to what is free.
    pub(crate) fn credit(
        &mut self,
        free: u64,
        most: u64,
        round_trip: Option<Duration>,
        now: Time,
    ) -> Option<(u64, u64)> {
        let fresh = self.consumed - self.window.told;
        if fresh == 0 || fresh < self.window.size.min(free) / 4 || self.end.is_some() {
            return None;
        }
        let turn = now.since(self.window.turned_at);
        let quick = round_trip.is_some_and(|round_trip| turn < round_trip * 2);
        if quick && fresh >= self.window.size / 4 {
            self.window.size = (self.window.size * 2).min(most.max(self.window.size));
        }
        self.window.told = self.consumed;
        self.window.turned_at = now;
        self.window.limit = self.window.limit.max(self.consumed + self.window.size);
        Some((self.consumed, self.window.limit))
    }

    /// The peer may send up to this offset, whatever else it was told.
    pub(crate) fn raise_limit(&mut self, limit: u64) {
        self.window.limit = self.window.limit.max(limit);
    }

    pub(crate) const fn window(&self) -> u64 {
        self.window.size
    }
}

fn total(pieces: &[Bytes]) -> u64 {
    pieces.iter().map(|piece| piece.len() as u64).sum()
}
