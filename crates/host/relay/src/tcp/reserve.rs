//! Memory for bulk transfers: lent while bytes are inside, and bounded for the whole relay.

use std::sync::Arc;
use std::sync::Mutex;
use std::sync::MutexGuard;
use std::sync::PoisonError;
use std::time::{Duration, Instant};

use sys::pipe::Pipe;

use crate::buffer::CAPACITY;

/// Measured on loopback: 64 KiB pipes cost 0.25 CPU s/GB, 1 MiB 0.16.
const PIPE_CAPACITY: usize = 1 << 20;

/// Pipes at the same time: 256 MiB, and 512 descriptors beside the 18,000 of 9,000 connections. A
/// process without `CAP_SYS_RESOURCE` ends up with 64 (`fs.pipe-user-pages-soft`).
const PIPES: usize = 256;

/// Buffers at the same time: 64 MiB. Whoever gets neither goes on with what fits into one small read.
const BUFFERS: usize = 256;

/// Kept for the next transfer: 16 MiB of pages at most, since a pipe's pages are gone when it is empty.
const SPARE: usize = 64;

/// How long no new pipe is tried after the kernel refused one.
const PAUSE: Duration = Duration::from_secs(1);

/// Pipes and buffers of one relay.
#[derive(Debug, Default)]
pub(super) struct Reserve {
    shelves: Mutex<Shelves>,
}

#[derive(Debug, Default)]
struct Shelves {
    pipes: Vec<Pipe>,
    buffers: Vec<Box<[u8]>>,
    /// Lent or spare.
    pipes_made: usize,
    buffers_made: usize,
    refused_at: Option<Instant>,
}

/// A pipe that comes back when dropped; one with bytes inside is closed instead.
#[derive(Debug)]
pub(super) struct LentPipe {
    home: Arc<Reserve>,
    pipe: Option<Pipe>,
}

/// A buffer that comes back when dropped.
#[derive(Debug)]
pub(super) struct LentBuffer {
    home: Arc<Reserve>,
    bytes: Box<[u8]>,
}

// === impl Reserve ===

impl Reserve {
    /// An empty pipe, unless all are lent or the kernel gives none.
    pub(super) fn pipe(self: &Arc<Self>) -> Option<LentPipe> {
        let mut shelves = self.lock();
        let pipe = match shelves.pipes.pop() {
            Some(pipe) => pipe,
            None => shelves.make_pipe()?,
        };
        drop(shelves);
        Some(LentPipe {
            home: Arc::clone(self),
            pipe: Some(pipe),
        })
    }

    /// A buffer of [`CAPACITY`], unless all are lent.
    pub(super) fn buffer(self: &Arc<Self>) -> Option<LentBuffer> {
        let mut shelves = self.lock();
        let spare = shelves.buffers.pop();
        if spare.is_none() {
            if shelves.buffers_made >= BUFFERS {
                return None;
            }
            shelves.buffers_made += 1;
        }
        drop(shelves);
        Some(LentBuffer {
            home: Arc::clone(self),
            bytes: spare.unwrap_or_else(|| vec![0; CAPACITY].into_boxed_slice()),
        })
    }

    fn lock(&self) -> MutexGuard<'_, Shelves> {
        // Shelves are valid whatever their holder was doing when it panicked.
        self.shelves.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

// === impl Shelves ===

impl Shelves {
    fn make_pipe(&mut self) -> Option<Pipe> {
        let paused = self.refused_at.is_some_and(|at| at.elapsed() < PAUSE);
        if paused || self.pipes_made >= PIPES {
            return None;
        }
        match Pipe::new(PIPE_CAPACITY) {
            Ok(pipe) => {
                self.pipes_made += 1;
                Some(pipe)
            }
            // No descriptors, or the user's share of pipes is used up: copying goes on without them.
            Err(_refused) => {
                self.refused_at = Some(Instant::now());
                None
            }
        }
    }
}

// === impl LentPipe ===

impl LentPipe {
    /// The pipe. Present until this is dropped.
    pub(super) fn get(&mut self) -> &mut Pipe {
        self.pipe.as_mut().expect("only drop takes it")
    }
}

impl Drop for LentPipe {
    fn drop(&mut self) {
        let Some(pipe) = self.pipe.take() else {
            return;
        };
        let mut shelves = self.home.lock();
        if pipe.inside() == 0 && shelves.pipes.len() < SPARE {
            shelves.pipes.push(pipe);
        } else {
            shelves.pipes_made -= 1;
        }
    }
}

// === impl LentBuffer ===

impl LentBuffer {
    pub(super) fn bytes(&mut self) -> &mut [u8] {
        &mut self.bytes
    }
}

impl Drop for LentBuffer {
    fn drop(&mut self) {
        let bytes = std::mem::take(&mut self.bytes);
        let mut shelves = self.home.lock();
        if shelves.buffers.len() < SPARE {
            shelves.buffers.push(bytes);
        } else {
            shelves.buffers_made -= 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_lent_is_bounded_and_comes_back() {
        let reserve = Arc::new(Reserve::default());
        let mut lent: Vec<_> = std::iter::from_fn(|| reserve.buffer()).collect();
        assert_eq!(lent.len(), BUFFERS);
        lent.pop();
        assert!(reserve.buffer().is_some());
        lent.clear();
        let shelves = reserve.lock();
        assert_eq!(
            (shelves.buffers.len(), shelves.buffers_made),
            (SPARE, SPARE)
        );
    }

    #[test]
    fn an_empty_pipe_is_lent_again() {
        let reserve = Arc::new(Reserve::default());
        drop(reserve.pipe().expect("this host gives pipes of 1 MiB"));
        assert_eq!(reserve.lock().pipes.len(), 1);
        let _lent = reserve.pipe();
        assert_eq!(reserve.lock().pipes_made, 1);
    }
}
