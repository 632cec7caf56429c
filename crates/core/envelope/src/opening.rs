//! Stored bytes to plaintext.

use std::collections::VecDeque;

use bytes::{Buf as _, Bytes};

use crate::NotAuthentic;
use crate::chunk::{CHUNK_SIZE, ChunkKey};
use crate::layout::{Run, RunKey};

/// Decrypts stored bytes that come in order. No byte of a chunk leaves before the whole chunk has proved authentic.
#[derive(Debug)]
pub struct Opening {
    runs: VecDeque<Run>,
    /// Of the first run.
    key: Option<ChunkKey>,
    chunk: Vec<u8>,
}

impl Opening {
    pub(crate) fn new(runs: VecDeque<Run>) -> Self {
        Self {
            runs,
            key: None,
            chunk: Vec::new(),
        }
    }

    /// Takes stored bytes; `out` gets the plaintext that they complete. Bytes behind the last chunk that is
    /// wanted are passed over.
    ///
    /// # Errors
    /// [`NotAuthentic::Chunk`]; what is in `out` is authentic all the same.
    pub fn push(&mut self, stored: &Bytes, out: &mut Vec<Bytes>) -> Result<(), NotAuthentic> {
        let mut stored = stored.clone();
        while let Some(run) = self.runs.front_mut() {
            leave_out(&mut run.before, &mut stored);
            if run.before > 0 {
                return Ok(());
            }
            if run.chunk == run.end_chunk {
                leave_out(&mut run.after, &mut stored);
                if run.after > 0 && self.runs.len() > 1 {
                    return Ok(());
                }
                self.runs.pop_front();
                self.key = None;
                continue;
            }
            let (length, last) = run.next();
            let length = usize::try_from(length).unwrap_or(usize::MAX);
            let key = self.key.get_or_insert_with(|| run.key.derive());
            let plain = if self.chunk.is_empty() && stored.len() >= length {
                key.opened(run.chunk, last, &stored.split_to(length))?
            } else {
                if self.chunk.capacity() == 0 {
                    self.chunk.reserve_exact(CHUNK_SIZE + 16);
                }
                let missing = length.saturating_sub(self.chunk.len());
                let now = stored.split_to(missing.min(stored.len()));
                self.chunk.extend_from_slice(&now);
                if self.chunk.len() < length {
                    return Ok(());
                }
                let mut chunk = std::mem::take(&mut self.chunk);
                key.open(run.chunk, last, &mut chunk)?;
                chunk
            };
            run.chunk += 1;
            let mut plain = Bytes::from(plain);
            leave_out(&mut run.skip, &mut plain);
            let wanted = usize::try_from(run.take).unwrap_or(usize::MAX);
            plain.truncate(wanted);
            run.take -= plain.len() as u64;
            if !plain.is_empty() {
                out.push(plain);
            }
        }
        Ok(())
    }

    /// The bytes have ended.
    ///
    /// # Errors
    /// [`NotAuthentic::Truncated`] where chunks are missing.
    pub fn finish(&self) -> Result<(), NotAuthentic> {
        let done = |run: &Run| run.chunk == run.end_chunk && run.before == 0;
        if self.runs.iter().all(done) {
            Ok(())
        } else {
            Err(NotAuthentic::Truncated)
        }
    }
}

/// Passes over up to `count` bytes.
fn leave_out(count: &mut u64, bytes: &mut Bytes) {
    let now = usize::try_from(*count)
        .unwrap_or(usize::MAX)
        .min(bytes.len());
    bytes.advance(now);
    *count -= now as u64;
}

impl RunKey {
    fn derive(&self) -> ChunkKey {
        match self {
            Self::Whole(key) => key.whole(),
            Self::Part(key, salt) => key.part(salt),
        }
    }
}
