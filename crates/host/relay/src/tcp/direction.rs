//! One direction of a byte stream: from a source to a sink, with nothing in between while it is idle.

use std::cell::RefCell;
use std::io;
use std::sync::Arc;
use std::task::{Context, Poll};

use super::reserve::{LentBuffer, LentPipe, Reserve};
use super::watched::Watched;
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

/// How a turn ended.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Turn {
    /// The end of the stream has been passed on.
    Closed,
    /// There is nothing to do before a socket is ready.
    Waits,
    /// There may be more to do when others have had theirs.
    Over,
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

    /// Moves what can be moved, as long as it is this connection's turn.
    ///
    /// Reads only when all that was read is written: a slow sink holds its source back. `is_last`: the sink is closed as soon as the
    /// source has come to its end, so nobody has to say that to it.
    pub(super) fn turn<S: Watched>(
        &mut self,
        context: &mut Context<'_>,
        (source, sink): (&S, &S),
        reserve: &Arc<Reserve>,
        is_last: bool,
    ) -> Result<Turn, Broken> {
        let rounds = if self.throttled { 1 } else { ROUNDS };
        for _ in 0..rounds {
            if self.closed {
                return Ok(Turn::Closed);
            }
            if !self.held.is_empty() {
                match sink.poll_writable(context) {
                    Poll::Pending => return Ok(Turn::Waits),
                    Poll::Ready(ready) => ready.map_err(Broken::Sink)?,
                }
                self.give(sink).map_err(Broken::Sink)?;
            } else if self.ended {
                let said = if is_last {
                    sink.failure()
                } else {
                    sys::socket::finish_sending(sink)
                };
                said.map_err(Broken::Sink)?;
                self.closed = true;
            } else {
                match source.poll_readable(context) {
                    Poll::Pending => return Ok(Turn::Waits),
                    Poll::Ready(ready) => ready.map_err(Broken::Source)?,
                }
                self.take(source, sink, reserve)?;
            }
        }
        Ok(Turn::Over)
    }

    /// The same; ready when the end of the stream has been passed on.
    pub(super) fn poll<S: Watched>(
        &mut self,
        context: &mut Context<'_>,
        source: &S,
        sink: &S,
        reserve: &Arc<Reserve>,
    ) -> Poll<Result<(), Broken>> {
        match self.turn(context, (source, sink), reserve, false)? {
            Turn::Closed => Poll::Ready(Ok(())),
            Turn::Waits => Poll::Pending,
            Turn::Over => {
                context.waker().wake_by_ref();
                Poll::Pending
            }
        }
    }

    /// Reads once, into the reserve where the stream is in bulk and the reserve has room.
    fn take<S: Watched>(
        &mut self,
        source: &S,
        sink: &S,
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

    fn take_by_pipe<S: Watched>(&mut self, source: &S, mut pipe: LentPipe) -> io::Result<usize> {
        let mut rest = Held::Nothing;
        let count = source.try_reading(|| match pipe.get().fill_from(source) {
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

    fn take_by_buffer<S: Watched>(
        &mut self,
        source: &S,
        mut buffer: LentBuffer,
    ) -> io::Result<usize> {
        let end = source.receive(buffer.bytes())?;
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
    fn take_small<S: Watched>(&mut self, source: &S, sink: &S) -> Result<(), Broken> {
        SCRATCH.with_borrow_mut(|scratch| {
            let count = match source.receive(scratch) {
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
            let written = match sink.send(&scratch[..count]) {
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
    fn give<S: Watched>(&mut self, sink: &S) -> io::Result<()> {
        let written = match &mut self.held {
            Held::Nothing => return Ok(()),
            Held::Rest { bytes, start } => sink.send(&bytes[*start..]),
            Held::Buffer { buffer, start, end } => sink.send(&buffer.bytes()[*start..*end]),
            Held::Pipe(pipe) => {
                let pipe = pipe.get();
                sink.try_writing(|| pipe.drain_to(sink))
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
