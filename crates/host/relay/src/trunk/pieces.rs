//! Bytes in pieces, as the core gives them, written by one system call.

use std::collections::VecDeque;
use std::io::IoSlice;

use bytes::{Buf as _, Bytes};

/// Pieces of one vectored write; the kernel's limit is 1024.
const SLICES: usize = 64;

/// As many pieces as one write takes.
pub(super) fn slices(queue: &VecDeque<Bytes>) -> Vec<IoSlice<'_>> {
    let front = queue.iter().take(SLICES);
    front.map(|bytes| IoSlice::new(bytes)).collect()
}

/// Forgets `count` bytes from the front.
pub(super) fn advance(queue: &mut VecDeque<Bytes>, mut count: usize) {
    while let Some(front) = queue.front_mut() {
        if count < front.len() {
            front.advance(count);
            return;
        }
        count -= front.len();
        queue.pop_front();
    }
}
