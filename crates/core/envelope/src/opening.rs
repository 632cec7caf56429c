//! Stored bytes to plaintext.
//!
//! ```text
//!   stored bytes, by any connection        in their order
//!   ────────────────────────────────►  Early  ──────► Opening ──► plaintext
//!                                      most chunks    those that were cut
//! ```
//!
//! Chunks prove themselves one by one, so that whoever reads a part of an object can decrypt what he reads: at once, while a
//! processor still has the bytes at hand, and at the same time as others. Only a chunk that two of them read waits for its turn.

use std::sync::Arc;

use bytes::Bytes;

use crate::NotAuthentic;
use crate::buffers::{Buffer, Buffers};
use crate::chunk::ChunkKey;
use crate::layout::{Place, Runs};

/// Decrypts stored bytes that come in order. No byte of a chunk leaves before the whole chunk has proved authentic.
#[derive(Debug)]
pub struct Opening {
    early: Early,
    /// The next stored byte.
    at: u64,
    opened: Vec<Piece>,
}

/// Decrypts a part of the bytes before its turn, for an [`Opening`].
#[derive(Debug)]
pub struct Early {
    runs: Arc<Runs>,
    buffers: Buffers,
    /// That of the run that was read last: one is derived for each, and an object may have thousands.
    key: Option<(usize, ChunkKey)>,
    cut: Option<Cut>,
}

/// A chunk whose end is not here yet.
#[derive(Debug)]
struct Cut {
    place: Place,
    buffer: Buffer,
    /// Bytes that are here.
    here: usize,
}

/// Bytes on their way to an [`Opening`].
#[derive(Debug)]
pub struct Piece(Content);

#[derive(Debug)]
enum Content {
    Stored(Bytes),
    /// A chunk of so many stored bytes; of its plaintext what is wanted.
    Opened(u64, Bytes),
}

// === impl Opening ===

impl Opening {
    pub(crate) fn new(runs: Runs) -> Self {
        Self {
            at: runs.first(),
            early: Early {
                runs: Arc::new(runs),
                buffers: Buffers::default(),
                key: None,
                cut: None,
            },
            opened: Vec::new(),
        }
    }

    /// The same, of bytes that begin with the stored byte `at`: the first that is wanted, or one before it.
    #[must_use]
    pub fn beginning_at(mut self, at: u64) -> Self {
        self.at = self.at.min(at);
        self
    }

    /// The same, with memory that others have used and will use.
    #[must_use]
    pub fn using(mut self, buffers: &Buffers) -> Self {
        self.early.buffers = buffers.clone();
        self
    }

    /// For somebody who reads a part of the same bytes.
    #[must_use]
    pub fn early(&self) -> Early {
        self.early.clone()
    }

    /// Takes the next bytes; `out` gets the plaintext that they complete. Bytes that belong to no chunk that is wanted are passed
    /// over.
    ///
    /// # Errors
    /// [`NotAuthentic::Chunk`]; what is in `out` is authentic all the same.
    pub fn push(
        &mut self,
        piece: impl Into<Piece>,
        out: &mut Vec<Bytes>,
    ) -> Result<(), NotAuthentic> {
        let piece = piece.into();
        let length = piece.stored();
        let outcome = match piece.0 {
            Content::Stored(stored) => self.early.open(self.at, stored, &mut self.opened),
            Content::Opened(..) => {
                let next = self.early.runs.place(self.at);
                let fits = next.is_some_and(|next| (next.at, next.length) == (self.at, length));
                if self.early.cut.is_some() || !fits {
                    // It was opened for another place.
                    return Err(NotAuthentic::Chunk);
                }
                self.opened.push(piece);
                Ok(())
            }
        };
        self.at += length;
        // What is left as it was stored belongs to no chunk that is wanted.
        out.extend(self.opened.drain(..).filter_map(|piece| match piece.0 {
            Content::Opened(_, plain) if !plain.is_empty() => Some(plain),
            Content::Opened(..) | Content::Stored(_) => None,
        }));
        outcome
    }

    /// The bytes have ended.
    ///
    /// # Errors
    /// [`NotAuthentic::Truncated`] where chunks are missing.
    pub fn finish(&self) -> Result<(), NotAuthentic> {
        if self.early.cut.is_none() && self.early.runs.place(self.at).is_none() {
            Ok(())
        } else {
            Err(NotAuthentic::Truncated)
        }
    }
}

// === impl Early ===

impl Early {
    /// Takes stored bytes, of which the first is the byte `at` and those that follow come next. `out` gets the pieces that stand for
    /// them, in their order, but for a chunk whose end is still to come.
    ///
    /// # Errors
    /// [`NotAuthentic::Chunk`]; `out` has the pieces before it.
    pub fn open(
        &mut self,
        mut at: u64,
        mut stored: Bytes,
        out: &mut Vec<Piece>,
    ) -> Result<(), NotAuthentic> {
        let all = stored.len();
        while !stored.is_empty() {
            let mut cut = match self.cut.take() {
                Some(cut) if cut.end() == at => cut,
                // Something between was left out.
                Some(_) => return Err(NotAuthentic::Chunk),
                None => {
                    let place = self.runs.place(at);
                    let next = place.as_ref().map_or(u64::MAX, |place| place.at);
                    let before = usize::try_from(next - at).unwrap_or(usize::MAX);
                    let before = stored.split_to(before.min(stored.len()));
                    if !before.is_empty() {
                        at += before.len() as u64;
                        out.push(left_over(before, all));
                        continue;
                    }
                    let Some(place) = place else { continue };
                    if stored.len() >= place.size() {
                        at += place.length;
                        let chunk = stored.split_to(place.size());
                        out.push(self.whole(place, &chunk)?);
                        continue;
                    }
                    let buffer = self.buffers.take();
                    Cut {
                        place,
                        buffer,
                        here: 0,
                    }
                }
            };
            let now = stored.split_to(stored.len().min(cut.place.size() - cut.here));
            at += now.len() as u64;
            cut.push(&now);
            if cut.here < cut.place.size() {
                self.cut = Some(cut);
            } else {
                out.push(self.joined(cut)?);
            }
        }
        Ok(())
    }

    /// What is here of a chunk whose end somebody else will bring.
    pub fn give_up(&mut self) -> Option<Piece> {
        let cut = self.cut.take()?;
        Some(cut.buffer.share(0..cut.here).into())
    }

    /// A chunk that came in one piece.
    fn whole(&mut self, place: Place, stored: &[u8]) -> Result<Piece, NotAuthentic> {
        let mut buffer = self.buffers.take();
        let key = self.key(&place);
        key.open_copy(place.chunk, place.last, stored, buffer.bytes())?;
        Ok(Piece::opened(place, buffer))
    }

    /// A chunk that came in several.
    fn joined(&mut self, cut: Cut) -> Result<Piece, NotAuthentic> {
        let Cut {
            place,
            mut buffer,
            here,
        } = cut;
        let key = self.key(&place);
        key.open(place.chunk, place.last, &mut buffer.bytes()[..here])?;
        Ok(Piece::opened(place, buffer))
    }

    fn key(&mut self, place: &Place) -> &ChunkKey {
        let key = self.key.take().filter(|(run, _)| *run == place.run);
        let (_, key) = self
            .key
            .insert(key.unwrap_or_else(|| (place.run, self.runs.key(place.run))));
        key
    }
}

/// For another part.
impl Clone for Early {
    fn clone(&self) -> Self {
        Self {
            runs: Arc::clone(&self.runs),
            buffers: self.buffers.clone(),
            key: None,
            cut: None,
        }
    }
}

/// Bytes of no chunk, or of one whose beginning came elsewhere. They must not keep the memory of all that came with them.
fn left_over(bytes: Bytes, all: usize) -> Piece {
    if bytes.len() < all {
        Bytes::copy_from_slice(&bytes).into()
    } else {
        bytes.into()
    }
}

// === impl Cut ===

impl Cut {
    /// The next stored byte.
    const fn end(&self) -> u64 {
        self.place.at + self.here as u64
    }

    fn push(&mut self, stored: &[u8]) {
        let end = self.here + stored.len();
        self.buffer.bytes()[self.here..end].copy_from_slice(stored);
        self.here = end;
    }
}

// === impl Piece ===

impl Piece {
    fn opened(place: Place, plain: Buffer) -> Self {
        Self(Content::Opened(place.length, plain.share(place.wanted)))
    }

    /// Stored bytes that it stands for.
    #[must_use]
    pub fn stored(&self) -> u64 {
        match &self.0 {
            Content::Stored(bytes) => bytes.len() as u64,
            Content::Opened(length, _) => *length,
        }
    }

    /// What it holds: stored bytes, or plaintext.
    #[must_use]
    pub fn into_bytes(self) -> Bytes {
        match self.0 {
            Content::Stored(bytes) | Content::Opened(_, bytes) => bytes,
        }
    }
}

impl From<Bytes> for Piece {
    fn from(stored: Bytes) -> Self {
        Self(Content::Stored(stored))
    }
}

impl From<Vec<u8>> for Piece {
    fn from(stored: Vec<u8>) -> Self {
        Bytes::from(stored).into()
    }
}
