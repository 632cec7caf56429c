//! One chunk: the unit that is read, checked and served.

use zeroize::Zeroizing;

use crate::NotAuthentic;
use crate::cipher::Cipher;

/// Plaintext bytes of every chunk but the last.
pub const CHUNK: u64 = 64 << 10;
/// Bytes that encryption adds to each chunk.
pub const OVERHEAD: u64 = 16;

/// Stored bytes of every chunk but the last.
pub(crate) const SEALED: u64 = CHUNK + OVERHEAD;
/// [`CHUNK`] where memory is counted.
pub(crate) const CHUNK_SIZE: usize = 64 << 10;
/// [`SEALED`] where memory is counted.
pub(crate) const SEALED_SIZE: usize = CHUNK_SIZE + TAG;
/// [`OVERHEAD`] where memory is counted.
pub(crate) const TAG: usize = 16;

/// Encrypts and decrypts the chunks of one sequence, and of no other: no key serves two.
pub(crate) struct ChunkKey(Cipher);

/// Stored bytes of `plain` bytes of plaintext; at least one chunk, so that an empty object is authentic too.
#[must_use]
pub const fn stored_length(plain: u64) -> u64 {
    let chunks = chunks(plain);
    plain.saturating_add(chunks.saturating_mul(OVERHEAD))
}

/// The inverse of [`stored_length`]; `None` for lengths that no plaintext has.
#[must_use]
pub const fn plain_length(stored: u64) -> Option<u64> {
    let chunks = stored.div_ceil(SEALED);
    let Some(plain) = stored.checked_sub(chunks.saturating_mul(OVERHEAD)) else {
        return None;
    };
    if stored_length(plain) == stored {
        Some(plain)
    } else {
        None
    }
}

/// Chunks of `plain` bytes.
pub(crate) const fn chunks(plain: u64) -> u64 {
    let chunks = plain.div_ceil(CHUNK);
    if chunks == 0 { 1 } else { chunks }
}

impl std::fmt::Debug for ChunkKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("ChunkKey")
    }
}

impl ChunkKey {
    pub(crate) fn new(key: &Zeroizing<[u8; 32]>) -> Self {
        Self(Cipher::new(key))
    }

    /// Encrypts in place and appends the tag.
    pub(crate) fn seal(&self, index: u64, last: bool, bytes: &mut Vec<u8>) {
        let nonce = nonce(index, last).expect("no object has 2^32 chunks");
        self.0.seal(nonce, bytes);
    }

    /// Decrypts in place; the plaintext is what stands before the tag.
    pub(crate) fn open(
        &self,
        index: u64,
        last: bool,
        bytes: &mut [u8],
    ) -> Result<(), NotAuthentic> {
        let nonce = nonce(index, last).ok_or(NotAuthentic::Chunk)?;
        self.0.open(nonce, bytes)
    }

    /// Decrypts into `plain`, which may be longer.
    pub(crate) fn open_copy(
        &self,
        index: u64,
        last: bool,
        stored: &[u8],
        plain: &mut [u8],
    ) -> Result<(), NotAuthentic> {
        let nonce = nonce(index, last).ok_or(NotAuthentic::Chunk)?;
        let (sealed, tag) = stored
            .split_last_chunk::<TAG>()
            .ok_or(NotAuthentic::Chunk)?;
        let plain = plain.get_mut(..sealed.len()).ok_or(NotAuthentic::Chunk)?;
        self.0.open_copy(nonce, sealed, tag, plain)
    }
}

/// Seven zeros, the number of the chunk, and whether it is the last. The key is new for each sequence, so the
/// prefix that STREAM has there need not be random.
fn nonce(index: u64, last: bool) -> Option<[u8; 12]> {
    let mut bytes = [0; 12];
    bytes[7..11].copy_from_slice(&u32::try_from(index).ok()?.to_be_bytes());
    bytes[11] = u8::from(last);
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn lengths_at_the_edges_of_chunks() {
        assert_eq!(stored_length(0), 16);
        assert_eq!(stored_length(1), 17);
        assert_eq!(stored_length(CHUNK), CHUNK + 16);
        assert_eq!(stored_length(CHUNK + 1), CHUNK + 33);
        for never in [0, 15, CHUNK + 17, CHUNK + 32, 2 * CHUNK + 48] {
            assert_eq!(plain_length(never), None, "{never}");
        }
    }

    proptest! {
        #[test]
        fn every_length_comes_back(plain in 0_u64..(5 << 40)) {
            prop_assert_eq!(plain_length(stored_length(plain)), Some(plain));
        }

        #[test]
        fn a_stored_length_stands_for_one_plaintext_or_none(stored in 0_u64..(5 << 40)) {
            if let Some(plain) = plain_length(stored) {
                prop_assert_eq!(stored_length(plain), stored);
            }
        }
    }
}
