//! A socket as byte streams are moved by it, whoever watches it.

use std::cell::Cell;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::task::{Context, Poll};

use sys::readiness::Readiness;
use tokio::io::Interest;
use tokio::net::TcpStream;

/// A socket that somebody watches, and tells when it is ready.
pub(crate) trait Watched: AsFd + Sized {
    /// Ready when reading may bring something; otherwise `context` hears of it.
    fn poll_readable(&self, context: &mut Context<'_>) -> Poll<io::Result<()>>;

    /// Ready when writing may come to something; otherwise `context` hears of it.
    fn poll_writable(&self, context: &mut Context<'_>) -> Poll<io::Result<()>>;

    /// Reads somehow; `WouldBlock` says that there is nothing to read any more.
    fn try_reading<R>(&self, attempt: impl FnOnce() -> io::Result<R>) -> io::Result<R>;

    /// Writes somehow; `WouldBlock` says that there is no room any more.
    fn try_writing<R>(&self, attempt: impl FnOnce() -> io::Result<R>) -> io::Result<R>;

    /// Reads once.
    fn receive(&self, buffer: &mut [u8]) -> io::Result<usize> {
        self.try_reading(|| sys::socket::receive(self, buffer))
    }

    /// What the connection has failed by, as far as that was told and nobody has heard of it.
    fn failure(&self) -> io::Result<()>;

    /// Writes once.
    fn send(&self, bytes: &[u8]) -> io::Result<usize> {
        self.try_writing(|| sys::socket::send(self, bytes))
    }
}

impl Watched for TcpStream {
    fn failure(&self) -> io::Result<()> {
        sys::socket::take_error(self)
    }

    fn poll_readable(&self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.poll_read_ready(context)
    }

    fn poll_writable(&self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.poll_write_ready(context)
    }

    fn try_reading<R>(&self, attempt: impl FnOnce() -> io::Result<R>) -> io::Result<R> {
        self.try_io(Interest::READABLE, attempt)
    }

    fn try_writing<R>(&self, attempt: impl FnOnce() -> io::Result<R>) -> io::Result<R> {
        self.try_io(Interest::WRITABLE, attempt)
    }
}

/// A socket that a reactor watches.
#[derive(Debug)]
pub(crate) struct Socket {
    stream: std::net::TcpStream,
    readiness: Cell<Readiness>,
}

impl Socket {
    pub(crate) fn new(stream: std::net::TcpStream, readiness: Readiness) -> Self {
        Self {
            stream,
            readiness: Cell::new(readiness),
        }
    }

    /// It is ready for this as well.
    pub(crate) fn is_told(&self, readiness: Readiness) {
        self.readiness.set(self.readiness.get().and(readiness));
    }

    fn poll(&self, is: impl Fn(Readiness) -> bool) -> Poll<io::Result<()>> {
        // The reactor tells of everything, and looks then.
        if is(self.readiness.get()) {
            Poll::Ready(Ok(()))
        } else {
            Poll::Pending
        }
    }

    fn attempt<R>(
        &self,
        attempt: impl FnOnce() -> io::Result<R>,
        otherwise: impl Fn(Readiness) -> Readiness,
    ) -> io::Result<R> {
        let outcome = attempt();
        if let Err(error) = &outcome
            && error.kind() == io::ErrorKind::WouldBlock
        {
            self.readiness.set(otherwise(self.readiness.get()));
        }
        outcome
    }
}

impl AsFd for Socket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.stream.as_fd()
    }
}

impl Watched for Socket {
    fn failure(&self) -> io::Result<()> {
        if !self.readiness.get().has_failed() {
            return Ok(());
        }
        sys::socket::take_error(self)
    }

    fn poll_readable(&self, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.poll(Readiness::is_readable)
    }

    fn poll_writable(&self, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.poll(Readiness::is_writable)
    }

    fn try_reading<R>(&self, attempt: impl FnOnce() -> io::Result<R>) -> io::Result<R> {
        self.attempt(attempt, Readiness::emptied)
    }

    fn try_writing<R>(&self, attempt: impl FnOnce() -> io::Result<R>) -> io::Result<R> {
        self.attempt(attempt, Readiness::filled)
    }

    /// What fills less than `buffer` was all that there was: nobody has to ask again to know. Not so where urgent data may have stopped it,
    /// which the runtime's sockets are not told of.
    fn receive(&self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.try_reading(|| sys::socket::receive(self, buffer))?;
        let readiness = self.readiness.get();
        if count > 0 && count < buffer.len() && !readiness.is_urgent() {
            self.readiness.set(readiness.emptied());
        }
        Ok(count)
    }
}
