//! Memory that chunks are decrypted into, used again once nobody reads them any more.

use std::fmt;
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;

use crate::chunk::SEALED_SIZE;

/// So many are kept: 32 MiB, more than a client mostly has not taken yet of a download over a short path.
const KEPT: usize = 512;

/// Memory for plaintext; clones share it. What was given back last is taken first: a processor may still have it at hand.
#[derive(Clone, Default)]
pub struct Buffers(Arc<Mutex<Vec<Box<[u8]>>>>);

/// Room for a chunk as it is stored.
pub(crate) struct Buffer {
    /// Empty once it has gone back.
    bytes: Box<[u8]>,
    home: Buffers,
}

impl Buffers {
    pub(crate) fn take(&self) -> Buffer {
        let kept = self.kept().pop();
        Buffer {
            bytes: kept.unwrap_or_else(|| vec![0; SEALED_SIZE].into_boxed_slice()),
            home: self.clone(),
        }
    }

    fn kept(&self) -> MutexGuard<'_, Vec<Box<[u8]>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Without what was read.
impl fmt::Debug for Buffers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Buffers")
    }
}

impl Buffer {
    pub(crate) fn bytes(&mut self) -> &mut [u8] {
        &mut self.bytes
    }

    /// This part of it. The memory goes back with the last who holds it.
    pub(crate) fn share(self, part: Range<usize>) -> Bytes {
        Bytes::from_owner(self).slice(part)
    }
}

impl AsRef<[u8]> for Buffer {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

impl fmt::Debug for Buffer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Buffer")
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        let bytes = std::mem::take(&mut self.bytes);
        let mut kept = self.home.kept();
        if kept.len() < KEPT {
            kept.push(bytes);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_comes_back_with_the_last_who_holds_it_and_not_more_than_is_kept() {
        let buffers = Buffers::default();
        let mut buffer = buffers.take();
        buffer.bytes()[5] = 7;
        let place = buffer.bytes().as_ptr();
        let shared = buffer.share(5..10);
        let other = shared.clone();
        drop(shared);
        assert!(buffers.kept().is_empty());
        assert_eq!(other[..], [7, 0, 0, 0, 0]);
        drop(other);
        assert_eq!(buffers.take().bytes().as_ptr(), place);
        let many: Vec<Buffer> = (0..2 * KEPT).map(|_| buffers.take()).collect();
        drop(many);
        assert_eq!(buffers.kept().len(), KEPT);
    }
}
