//! Plaintext to stored bytes.

use bytes::Bytes;

use crate::chunk::{CHUNK_SIZE, ChunkKey};
use crate::key::{DataKey, PartSalt};

/// Encrypts a sequence of chunks as its plaintext arrives. The last chunk comes only from [`Sealing::finish`]: what
/// is left out there was never complete.
#[derive(Debug)]
pub struct Sealing {
    key: ChunkKey,
    index: u64,
    /// Plaintext that waits: up to a whole chunk, since the last one is marked.
    waiting: Vec<u8>,
    /// Stands before the first chunk.
    salt: Option<PartSalt>,
}

impl Sealing {
    /// Of an object that is written whole.
    #[must_use]
    pub fn whole(key: &DataKey) -> Self {
        Self::new(key.whole(), None)
    }

    /// Of a part; `salt` is random, and new whenever a part is written.
    #[must_use]
    pub fn part(key: &DataKey, salt: PartSalt) -> Self {
        Self::new(key.part(&salt), Some(salt))
    }

    fn new(key: ChunkKey, salt: Option<PartSalt>) -> Self {
        Self {
            key,
            index: 0,
            waiting: Vec::new(),
            salt,
        }
    }

    /// Takes plaintext; `out` gets what can be stored by now.
    pub fn push(&mut self, mut plain: &[u8], out: &mut Vec<Bytes>) {
        if let Some(salt) = self.salt.take() {
            out.push(Bytes::copy_from_slice(&salt.0));
        }
        while !plain.is_empty() {
            if self.waiting.len() == CHUNK_SIZE {
                out.push(self.seal(false));
            }
            if self.waiting.capacity() == 0 {
                self.waiting.reserve_exact(CHUNK_SIZE + 16);
            }
            let (now, later) = plain.split_at(plain.len().min(CHUNK_SIZE - self.waiting.len()));
            self.waiting.extend_from_slice(now);
            plain = later;
        }
    }

    /// Ends the sequence.
    pub fn finish(mut self, out: &mut Vec<Bytes>) {
        self.push(&[], out);
        out.push(self.seal(true));
    }

    fn seal(&mut self, last: bool) -> Bytes {
        let mut chunk = std::mem::take(&mut self.waiting);
        self.key.seal(self.index, last, &mut chunk);
        self.index += 1;
        Bytes::from(chunk)
    }
}
