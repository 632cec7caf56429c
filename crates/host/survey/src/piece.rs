//! Bytes of a capture on their way from the file to the threads.

use std::collections::VecDeque;
use std::io::{self, Read};
use std::sync::Arc;

use capture::Packet;
use units::Time;
use wire::LinkType;

use crate::WAITING;

/// Bytes read at once: more would leave the processor's caches before a thread has seen them.
const LEAST: usize = 512 << 10;

/// A part of a capture, and where its packets are.
#[derive(Debug, Default)]
pub(crate) struct Piece {
    /// Its bytes, and behind them those of pieces before, which need not be wiped.
    space: Vec<u8>,
    filled: usize,
    /// Per thread, its packets.
    pub(crate) lists: Vec<Vec<Framed>>,
}

/// A packet in a piece.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Framed {
    pub(crate) at: Time,
    /// Counted on through all captures.
    pub(crate) frame: u64,
    /// Where its captured bytes begin in the piece.
    start: u32,
    len: u32,
    pub(crate) original_len: u32,
    pub(crate) link: LinkType,
    pub(crate) shard: u16,
}

/// Pieces that are used again once every thread is done with them.
#[derive(Debug)]
pub(crate) struct Pieces {
    threads: usize,
    shared: VecDeque<Arc<Piece>>,
}

// === impl Piece ===

impl Piece {
    /// Puts `rest` in front and reads on: the number of bytes read, which is 0 at the end, and what went wrong
    /// behind them.
    pub(crate) fn fill(&mut self, rest: &[u8], from: &mut dyn Read) -> (usize, Option<io::Error>) {
        // A record may be longer than a piece.
        let whole = rest.len().saturating_add(LEAST);
        if self.space.len() < whole {
            self.space.resize(whole, 0);
        }
        self.space[..rest.len()].copy_from_slice(rest);
        let mut end = rest.len();
        let mut failed = None;
        // Pipes and decoders give little at a time.
        while end < whole && failed.is_none() {
            match from.read(&mut self.space[end..whole]) {
                Ok(0) => break,
                Ok(count) => end += count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => failed = Some(error),
            }
        }
        self.filled = end;
        (end - rest.len(), failed)
    }

    /// Its bytes.
    pub(crate) fn data(&self) -> &[u8] {
        &self.space[..self.filled]
    }

    /// Its bytes, and the lists that tell what they are.
    pub(crate) fn parts(&mut self) -> (&[u8], &mut [Vec<Framed>]) {
        (&self.space[..self.filled], &mut self.lists)
    }
}

// === impl Framed ===

impl Framed {
    pub(crate) fn of(packet: &Packet<'_>, data: &[u8], shard: u32, before: u64) -> Self {
        let start = packet
            .captured
            .as_ptr()
            .addr()
            .saturating_sub(data.as_ptr().addr());
        let small = |number: usize| u32::try_from(number).unwrap_or(u32::MAX);
        Self {
            at: packet.at,
            frame: before.saturating_add(packet.frame),
            start: small(start),
            len: small(packet.captured.len()),
            original_len: packet.original_len,
            link: packet.link,
            shard: u16::try_from(shard).unwrap_or(0),
        }
    }

    /// What was captured of it.
    pub(crate) fn captured(self, data: &[u8]) -> &[u8] {
        let start = usize::try_from(self.start).unwrap_or(usize::MAX);
        let len = usize::try_from(self.len).unwrap_or(usize::MAX);
        data.get(start..start.saturating_add(len))
            .unwrap_or_default()
    }
}

// === impl Pieces ===

impl Pieces {
    pub(crate) const fn new(threads: usize) -> Self {
        Self {
            threads,
            shared: VecDeque::new(),
        }
    }

    /// An empty piece.
    pub(crate) fn next(&mut self) -> Piece {
        // The one that a thread reads, those that wait, and the one that was just sent.
        let in_use = WAITING + 2;
        let oldest = (self.shared.len() >= in_use).then(|| self.shared.pop_front());
        let mut piece = match oldest.flatten().map(Arc::try_unwrap) {
            Some(Ok(piece)) => piece,
            // One thread is far behind the others: the piece is theirs.
            Some(Err(_)) | None => Piece::default(),
        };
        piece.lists.resize_with(self.threads, Vec::new);
        for list in &mut piece.lists {
            list.clear();
        }
        piece
    }

    /// A piece for all threads, to be used again.
    pub(crate) fn share(&mut self, piece: Piece) -> Arc<Piece> {
        let shared = Arc::new(piece);
        self.shared.push_back(Arc::clone(&shared));
        shared
    }
}
