//! Bytes of objects, in memory that is used again.
//!
//! A page that a process has never touched costs the kernel a fault and a page of zeroes, in a virtual machine one more
//! fault of its host. An origin that takes a GiB in new memory spends more time on that than on receiving and hashing it, and its clients
//! would be measured against it.

use std::fmt;
use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;

/// Bytes of a piece of memory.
const BLOCK: usize = 1 << 20;

/// Bytes in pieces. Clones share them.
#[derive(Clone, Debug, Default)]
pub(super) struct Content {
    pieces: Vec<Bytes>,
    length: u64,
}

/// Pieces of memory that no object uses any more. Clones share them.
#[derive(Clone, Default)]
pub(super) struct Memory(Arc<Mutex<Vec<Box<[u8]>>>>);

/// Content that grows.
#[derive(Debug)]
pub(super) struct Growing {
    content: Content,
    block: Option<Block>,
    memory: Memory,
}

/// A piece of memory, filled from its beginning.
#[derive(Debug)]
struct Block {
    bytes: Box<[u8]>,
    filled: usize,
    memory: Memory,
}

// === impl Content ===

impl Content {
    /// Bytes of all pieces.
    pub(super) const fn len(&self) -> u64 {
        self.length
    }

    /// What lies in `range`, which ends at [`Content::len`] at the latest.
    pub(super) fn slice(&self, range: Range<u64>) -> Self {
        let mut found = Self::default();
        let mut start = 0;
        for piece in &self.pieces {
            let end = start + size(piece);
            let (from, to) = (range.start.max(start), range.end.min(end));
            if from < to {
                // Both lie within a piece.
                let within = |at: u64| usize::try_from(at - start).unwrap_or(usize::MAX);
                found.push(piece.slice(within(from)..within(to)));
            }
            start = end;
        }
        found
    }

    /// Its pieces, in their order.
    pub(super) fn into_pieces(self) -> Vec<Bytes> {
        self.pieces
    }

    fn push(&mut self, piece: Bytes) {
        self.length += size(&piece);
        self.pieces.push(piece);
    }
}

// === impl Memory ===

impl Memory {
    /// Content without a byte, to be filled from this memory.
    pub(super) fn growing(&self) -> Growing {
        Growing {
            content: Content::default(),
            block: None,
            memory: self.clone(),
        }
    }

    fn block(&self) -> Block {
        let used = self.with(Vec::pop);
        Block {
            bytes: used.unwrap_or_else(|| vec![0; BLOCK].into()),
            filled: 0,
            memory: self.clone(),
        }
    }

    /// Every change is one push or pop, so a poisoned lock guards whole pieces.
    fn with<T>(&self, change: impl FnOnce(&mut Vec<Box<[u8]>>) -> T) -> T {
        change(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl fmt::Debug for Memory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Memory")
            .field(&self.with(|free| free.len()))
            .finish()
    }
}

// === impl Growing ===

impl Growing {
    /// Bytes so far.
    pub(super) fn len(&self) -> u64 {
        let block = self.block.as_ref().map_or(0, |block| size(block.as_ref()));
        self.content.len() + block
    }

    /// Copies bytes to the end.
    pub(super) fn extend(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            let block = self.block.get_or_insert_with(|| self.memory.block());
            bytes = block.fill(bytes);
            if block.filled == BLOCK {
                self.close();
            }
        }
    }

    /// Shares what another has, at the end.
    pub(super) fn append(&mut self, content: &Content) {
        self.close();
        for piece in &content.pieces {
            self.content.push(piece.clone());
        }
    }

    /// All of it.
    pub(super) fn finish(mut self) -> Content {
        self.close();
        self.content
    }

    /// Whole blocks are kept, and what fills one in part is copied: small objects would take a block each.
    fn close(&mut self) {
        match self.block.take() {
            None => {}
            Some(block) if block.filled == BLOCK => self.content.push(Bytes::from_owner(block)),
            Some(block) => self.content.push(Bytes::copy_from_slice(block.as_ref())),
        }
    }
}

// === impl Block ===

impl Block {
    /// Takes as much as fits; the rest.
    fn fill<'a>(&mut self, bytes: &'a [u8]) -> &'a [u8] {
        let (taken, rest) = bytes.split_at(bytes.len().min(BLOCK - self.filled));
        self.bytes[self.filled..][..taken.len()].copy_from_slice(taken);
        self.filled += taken.len();
        rest
    }
}

impl AsRef<[u8]> for Block {
    fn as_ref(&self) -> &[u8] {
        &self.bytes[..self.filled]
    }
}

impl Drop for Block {
    fn drop(&mut self) {
        let bytes = std::mem::take(&mut self.bytes);
        self.memory.with(|free| free.push(bytes));
    }
}

/// A length in the unit of sizes on the wire.
pub(super) fn size(bytes: &[u8]) -> u64 {
    u64::try_from(bytes.len()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn joined(content: Content) -> Vec<u8> {
        content.into_pieces().concat()
    }

    #[test]
    fn memory_that_objects_leave_is_used_again() {
        let memory = Memory::default();
        for _ in 0..3 {
            let mut growing = memory.growing();
            growing.extend(&vec![7; 2 * BLOCK + 1]);
            let content = growing.finish();
            assert_eq!(content.len(), 2 * BLOCK as u64 + 1);
            let (shared, part) = (content.clone(), content.slice(5..6));
            drop(content);
            // The third held one byte, which was copied.
            assert_eq!(memory.with(|free| free.len()), 1);
            drop(shared);
            assert_eq!(memory.with(|free| free.len()), 2, "a slice holds its piece");
            drop(part);
            assert_eq!(memory.with(|free| free.len()), 3);
        }
    }

    proptest! {
        #[test]
        fn what_was_put_in_comes_out(
            lengths in proptest::collection::vec(0..BLOCK * 3 / 2, 0..6), shared: bool, cut in (0..=8_usize, 0..=8_usize),
        ) {
            let memory = Memory::default();
            let (mut growing, mut expected) = (memory.growing(), Vec::new());
            for (number, length) in lengths.into_iter().enumerate() {
                let bytes: Vec<u8> = (0..length).map(|at| u8::try_from((at * 31 + number) % 251).unwrap()).collect();
                if shared {
                    let mut other = memory.growing();
                    other.extend(&bytes);
                    growing.append(&other.finish());
                } else {
                    growing.extend(&bytes);
                }
                expected.extend(bytes);
                prop_assert_eq!(growing.len(), expected.len() as u64);
            }
            let content = growing.finish();
            let at = |eighths: usize| expected.len() * eighths / 8;
            let (from, to) = (at(cut.0.min(cut.1)), at(cut.0.max(cut.1)));
            let slice = content.slice(from as u64..to as u64);
            prop_assert_eq!(slice.len(), (to - from) as u64);
            prop_assert!(joined(slice) == expected[from..to]);
            prop_assert!(joined(content) == expected);
        }
    }
}
