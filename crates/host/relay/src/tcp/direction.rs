//! One direction of a byte stream: from a source to a sink, with nothing in between while it is idle.

use std::cell::RefCell;
use std::io;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use tokio::io::Interest;
use tokio::net::TcpStream;

use super::reserve::{LentBuffer, LentPipe, Reserve};
use crate::ending::Broken;

/// One read of a stream that is not known to be in bulk: the common sizes of TLS records and RPCs fit,
/// and a processor's nearest cache holds it.
const SMALL: usize = 16 * 1024;

/// Rounds of reading or writing before other connections of this thread get their turn.
const ROUNDS: usize = 16;

thread_local! {
    /// Where small reads land. No connection holds it: what cannot be written at once moves out.
    static SCRATCH: RefCell<[u8; SMALL]> = const { RefCell::new([0; SMALL]) };
}

/// Bytes on their way, and how far the stream has come.
#[derive(Debug, Default)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is one independent fact of a stream, not a state"
)]
pub(super) struct Direction {
    held: Held,
    /// Whether the last read filled what it was given: then the next goes through a pipe.
    bulk: bool,
    /// Whether it moves small pieces only, one in a turn, because what has moved is counted after each turn.
    throttled: bool,
    /// Whether the source has sent its FIN.
    ended: bool,
    /// Whether that FIN was passed on.
    closed: bool,
    /// Bytes given to the sink.
    given: u64,
}

/// What was read and is not written yet.
#[derive(Debug, Default)]
enum Held {
    #[default]
    Nothing,
    Rest {
        bytes: Box<[u8]>,
        start: usize,
    },
    Buffer {
        buffer: LentBuffer,
        start: usize,
        end: usize,
    },
    Pipe(LentPipe),
}

// === impl Direction ===

impl Direction {
    /// A direction in which `bytes` are to be written first.
    pub(super) fn beginning_with(bytes: &[u8], throttled: bool) -> Self {
        Self {
            held: Held::rest(bytes),
            throttled,
            ..Self::default()
        }
    }

    /// Bytes given to the sink so far.
    pub(super) fn given(&self) -> u64 {
        self.given
    }

    /// Whether the end of the stream was passed on.
    pub(super) fn is_closed(&self) -> bool {
        self.closed
    }

    /// Whether it waits for the source alone.
    pub(super) fn listens(&self) -> bool {
        self.held.is_empty() && !self.ended
    }

    /// Moves what can be moved; ready when the end of the stream has been passed on.
    ///
    /// Reads only when all that was read is written: a slow sink holds its source back.
    pub(super) fn poll(
        &mut self,
        context: &mut Context<'_>,
        source: &TcpStream,
        sink: &TcpStream,
        reserve: &Arc<Reserve>,
    ) -> Poll<Result<(), Broken>> {
        let rounds = if self.throttled { 1 } else { ROUNDS };
        for _ in 0..rounds {
            if self.closed {
                return Poll::Ready(Ok(()));
            }
            if !self.held.is_empty() {
                ready!(sink.poll_write_ready(context)).map_err(Broken::Sink)?;
                self.give(sink).map_err(Broken::Sink)?;
            } else if self.ended {
                sys::socket::finish_sending(sink).map_err(Broken::Sink)?;
                self.closed = true;
            } else {
                ready!(source.poll_read_ready(context)).map_err(Broken::Source)?;
                self.take(source, sink, reserve)?;
            }
        }
        context.waker().wake_by_ref();
        Poll::Pending
    }

    /// Reads once, into the reserve where the stream is in bulk and the reserve has room.
    fn take(
        &mut self,
        source: &TcpStream,
        sink: &TcpStream,
        reserve: &Arc<Reserve>,
    ) -> Result<(), Broken> {
        if !self.bulk || self.throttled {
            return self.take_small(source, sink);
        }
        let count = if let Some(pipe) = reserve.pipe() {
            self.take_by_pipe(source, pipe)
        } else if let Some(buffer) = reserve.buffer() {
            self.take_by_buffer(source, buffer)
        } else {
            return self.take_small(source, sink);
        };
        match count {
            Ok(count) => {
                self.ended = count == 0;
                self.bulk = count >= SMALL;
                Ok(())
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(()),
            Err(error) => Err(Broken::Source(error)),
        }
    }

    fn take_by_pipe(&mut self, source: &TcpStream, mut pipe: LentPipe) -> io::Result<usize> {
        let mut rest = Held::Nothing;
        let count = source.try_io(Interest::READABLE, || match pipe.get().fill_from(source) {
            // Nothing there, or urgent data, which only a read passes: either way reading tells. Within
            // the same attempt, since this answer also ends the socket's readiness.
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                SCRATCH.with_borrow_mut(|scratch| {
                    let count = sys::socket::receive(source, scratch)?;
                    rest = Held::rest(&scratch[..count]);
                    Ok(count)
                })
            }
            other => other,
        })?;
        self.held = if pipe.get().inside() > 0 {
            Held::Pipe(pipe)
        } else {
            rest
        };
        Ok(count)
    }

    fn take_by_buffer(&mut self, source: &TcpStream, mut buffer: LentBuffer) -> io::Result<usize> {
        let end = source.try_read(buffer.bytes())?;
        if end > 0 {
            self.held = Held::Buffer {
                buffer,
                start: 0,
                end,
            };
        }
        Ok(end)
    }

    /// Reads once and writes at once; what the sink does not take is kept.
    fn take_small(&mut self, source: &TcpStream, sink: &TcpStream) -> Result<(), Broken> {
        SCRATCH.with_borrow_mut(|scratch| {
            let count = match source.try_read(scratch) {
                Ok(count) => count,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(error) => return Err(Broken::Source(error)),
            };
            self.bulk = count == SMALL;
            if count == 0 {
                // A broken sink shows when the end is passed on.
                self.ended = true;
                return Ok(());
            }
            let written = match sink.try_write(&scratch[..count]) {
                Ok(written) => written,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => 0,
                Err(error) => return Err(Broken::Sink(error)),
            };
            self.count(written);
            self.held = Held::rest(&scratch[written..count]);
            Ok(())
        })
    }

    /// Writes once.
    fn give(&mut self, sink: &TcpStream) -> io::Result<()> {
        let written = match &mut self.held {
            Held::Nothing => return Ok(()),
            Held::Rest { bytes, start } => sink.try_write(&bytes[*start..]),
            Held::Buffer { buffer, start, end } => sink.try_write(&buffer.bytes()[*start..*end]),
            Held::Pipe(pipe) => {
                let pipe = pipe.get();
                sink.try_io(Interest::WRITABLE, || pipe.drain_to(sink))
            }
        };
        let written = match written {
            Ok(written) => written,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
            Err(error) => return Err(error),
        };
        self.count(written);
        if self.held.advance(written) {
            self.held = Held::Nothing;
        }
        Ok(())
    }

    fn count(&mut self, written: usize) {
        self.given += u64::try_from(written).unwrap_or(u64::MAX);
    }
}

// === impl Held ===

impl Held {
    fn rest(bytes: &[u8]) -> Self {
        if bytes.is_empty() {
            return Self::Nothing;
        }
        Self::Rest {
            bytes: bytes.into(),
            start: 0,
        }
    }

    fn is_empty(&self) -> bool {
        matches!(self, Self::Nothing)
    }

    /// Forgets `count` bytes that were written, and tells whether none are left.
    fn advance(&mut self, count: usize) -> bool {
        match self {
            Self::Nothing => true,
            Self::Rest { bytes, start } => {
                *start += count;
                *start >= bytes.len()
            }
            Self::Buffer { start, end, .. } => {
                *start += count;
                *start >= *end
            }
            // It counts for itself.
            Self::Pipe(pipe) => pipe.get().inside() == 0,
        }
    }
}
