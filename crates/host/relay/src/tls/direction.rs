//! One direction between two byte streams of which at least one is encrypted, so that every byte passes
//! through this process.

use std::cell::RefCell;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead as _, AsyncWrite as _, ReadBuf};

use super::socket::Stream;
use crate::ending::Broken;

/// Plain bytes of a full TLS record.
const RECORD: usize = 16 * 1024;

/// Read before anything is written: four full records, which then leave in one system call.
const READ: usize = 4 * RECORD;

/// Rounds of reading and writing before other connections of this thread get their turn.
const ROUNDS: usize = 16;

/// What a direction moves before others get their turn.
#[derive(Clone, Copy, Debug)]
pub(super) struct Turn {
    rounds: usize,
    /// Bytes read in a round.
    read: usize,
}

impl Turn {
    /// A short one where a throttle holds the direction: it learns only afterwards what has moved.
    pub(super) const fn new(throttled: bool) -> Self {
        if throttled {
            Self {
                rounds: 1,
                read: RECORD,
            }
        } else {
            Self {
                rounds: ROUNDS,
                read: READ,
            }
        }
    }
}

thread_local! {
    /// Where reads land. No connection holds it: what cannot be written at once moves out, so that an
    /// idle connection costs nothing here and a slow reader at most `READ`.
    static SCRATCH: RefCell<Vec<u8>> = RefCell::new(vec![0; READ]);
}

/// Bytes on their way, and how far the stream has come.
#[derive(Debug, Default)]
pub(super) struct Direction {
    /// Read and not written yet, from `start`.
    held: Box<[u8]>,
    start: usize,
    /// Whether the sink may hold bytes that its socket has not taken.
    unflushed: bool,
    /// Whether the source has properly ended: its FIN, after a `close_notify` where it speaks TLS.
    ended: bool,
    /// Whether that end was passed on.
    closed: bool,
    /// Bytes given to the sink.
    given: u64,
}

impl Direction {
    /// Bytes given to the sink so far.
    pub(super) fn given(&self) -> u64 {
        self.given
    }

    /// Whether the end of the stream was passed on.
    pub(super) fn is_closed(&self) -> bool {
        self.closed
    }

    /// Moves what can be moved; ready when the end of the stream has been passed on.
    ///
    /// Reads only when all that was read is written: a slow sink holds its source back.
    pub(super) fn poll(
        &mut self,
        context: &mut Context<'_>,
        source: &mut Stream,
        sink: &mut Stream,
        turn: Turn,
    ) -> Poll<Result<(), Broken>> {
        for _ in 0..turn.rounds {
            if self.closed {
                return Poll::Ready(Ok(()));
            }
            if self.start < self.held.len() {
                let rest = &self.held[self.start..];
                let written = ready!(Pin::new(&mut *sink).poll_write(context, rest));
                let written = written.and_then(some).map_err(Broken::Sink)?;
                self.count(written);
                self.start += written;
                if self.start == self.held.len() {
                    (self.held, self.start) = (Box::default(), 0);
                }
            } else if self.unflushed {
                ready!(Pin::new(&mut *sink).poll_flush(context)).map_err(Broken::Sink)?;
                self.unflushed = false;
            } else if self.ended {
                ready!(Pin::new(&mut *sink).poll_shutdown(context)).map_err(Broken::Sink)?;
                self.closed = true;
            } else {
                ready!(self.take(context, source, sink, turn.read))?;
            }
        }
        context.waker().wake_by_ref();
        Poll::Pending
    }

    /// Reads what is at hand and writes at once; what the sink does not take is kept.
    fn take(
        &mut self,
        context: &mut Context<'_>,
        source: &mut Stream,
        sink: &mut Stream,
        limit: usize,
    ) -> Poll<Result<(), Broken>> {
        SCRATCH.with_borrow_mut(|scratch| {
            let mut buffer = ReadBuf::new(&mut scratch[..limit]);
            while buffer.remaining() > 0 && !self.ended {
                let before = buffer.filled().len();
                match Pin::new(&mut *source).poll_read(context, &mut buffer) {
                    Poll::Ready(Ok(())) => self.ended = buffer.filled().len() == before,
                    Poll::Ready(Err(error)) => return Poll::Ready(Err(Broken::Source(error))),
                    Poll::Pending if before > 0 => break,
                    Poll::Pending => return Poll::Pending,
                }
            }
            let mut rest = buffer.filled();
            while !rest.is_empty() {
                match Pin::new(&mut *sink).poll_write(context, rest) {
                    Poll::Ready(written) => {
                        let written = written.and_then(some).map_err(Broken::Sink)?;
                        self.count(written);
                        rest = &rest[written..];
                    }
                    Poll::Pending => break,
                }
            }
            self.held = rest.into();
            Poll::Ready(Ok(()))
        })
    }

    fn count(&mut self, written: usize) {
        self.given += u64::try_from(written).unwrap_or(u64::MAX);
        self.unflushed = true;
    }
}

/// A sink that takes nothing and says so would keep its source waiting for ever.
fn some(written: usize) -> io::Result<usize> {
    if written == 0 {
        return Err(io::ErrorKind::WriteZero.into());
    }
    Ok(written)
}
