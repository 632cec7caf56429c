//! One side's byte stream as HTTP is spoken over it: a socket, or TLS on a socket.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};

use sys::socket::{IdleState, idle_state};
use tokio::io::{AsyncRead, AsyncWrite, Interest, ReadBuf};
use tokio::net::{TcpStream, tcp};
use tokio_rustls::TlsStream;

use crate::event::TlsReport;
use crate::tls::report;

/// A connection to a client or to an origin.
#[derive(Debug)]
pub(crate) enum Transport {
    Plain(TcpStream),
    Tls(Box<TlsStream<Counted>>),
}

/// A socket that counts the bytes its kernel has taken.
#[derive(Debug)]
pub(crate) struct Counted {
    stream: TcpStream,
    taken: u64,
}

/// The half of a connection that is read from.
pub(crate) enum ReadEnd<'a> {
    Plain(tcp::ReadHalf<'a>),
    Tls(tokio::io::ReadHalf<&'a mut TlsStream<Counted>>),
}

/// The half of a connection that is written to.
pub(crate) enum WriteEnd<'a> {
    Plain(tcp::WriteHalf<'a>),
    Tls(tokio::io::WriteHalf<&'a mut TlsStream<Counted>>),
}

// === impl Transport ===

impl Transport {
    /// The socket below.
    pub(crate) fn tcp(&self) -> &TcpStream {
        match self {
            Self::Plain(stream) => stream,
            Self::Tls(stream) => &stream.get_ref().0.stream,
        }
    }

    pub(crate) fn is_tls(&self) -> bool {
        matches!(self, Self::Tls(_))
    }

    /// Whether the handshake agreed on HTTP/2 (ALPN).
    pub(crate) fn speaks_http2(&self) -> bool {
        match self {
            Self::Plain(_) => false,
            Self::Tls(stream) => stream.get_ref().1.alpn_protocol() == Some(b"h2"),
        }
    }

    /// What the handshake agreed on.
    pub(crate) fn report(&self) -> Option<TlsReport> {
        match self {
            Self::Plain(_) => None,
            Self::Tls(stream) => report::of(stream),
        }
    }

    /// Both directions at the same time.
    pub(crate) fn split(&mut self) -> (ReadEnd<'_>, WriteEnd<'_>) {
        match self {
            Self::Plain(stream) => {
                let (reader, writer) = stream.split();
                (ReadEnd::Plain(reader), WriteEnd::Plain(writer))
            }
            Self::Tls(stream) => {
                let (reader, writer) = tokio::io::split(&mut **stream);
                (ReadEnd::Tls(reader), WriteEnd::Tls(writer))
            }
        }
    }

    /// Bytes of TLS that the kernel has taken; 0 without TLS, where an error of a write says that it took
    /// none. With TLS a write can fail after its first records have left.
    pub(crate) fn taken(&self) -> u64 {
        match self {
            Self::Plain(_) => 0,
            Self::Tls(stream) => stream.get_ref().0.taken,
        }
    }

    /// What has become of a connection on which nothing is expected.
    ///
    /// With TLS, bytes are not always the application's: a server sends tickets after the handshake, and keys
    /// may be updated at any time. Those are taken in here.
    pub(crate) fn idle_state(&mut self) -> IdleState {
        let below = idle_state(self.tcp());
        let Self::Tls(stream) = self else {
            return below;
        };
        match below {
            IdleState::Finished | IdleState::Failed => return below,
            // Also with nothing on the socket: what came before may wait here, decrypted.
            IdleState::Quiet | IdleState::Unsolicited => {}
        }
        let mut byte = [0];
        let mut buffer = ReadBuf::new(&mut byte);
        // Whoever reads next registers itself.
        let mut context = Context::from_waker(Waker::noop());
        match Pin::new(stream).poll_read(&mut context, &mut buffer) {
            Poll::Pending => IdleState::Quiet,
            Poll::Ready(Ok(())) if buffer.filled().is_empty() => IdleState::Finished,
            Poll::Ready(Ok(())) => IdleState::Unsolicited,
            Poll::Ready(Err(_)) => IdleState::Failed,
        }
    }

    /// The same, as far as the runtime has been told: without asking the kernel, unless there is something to ask. What comes at
    /// this moment is seen when the runtime looks next. With TLS the kernel is asked all the same.
    pub(crate) fn heard_state(&mut self) -> IdleState {
        let Self::Plain(stream) = self else {
            return self.idle_state();
        };
        let heard = stream.try_io(Interest::READABLE, || match idle_state(stream) {
            IdleState::Quiet => Err(io::ErrorKind::WouldBlock.into()),
            ended @ (IdleState::Finished | IdleState::Unsolicited | IdleState::Failed) => Ok(ended),
        });
        heard.unwrap_or(IdleState::Quiet)
    }

    /// Ends our direction of a connection that is about to be dropped, as far as that goes without waiting.
    ///
    //= https://www.rfc-editor.org/rfc/rfc8446#section-6.1
    //# Each party MUST send a "close_notify" alert before closing its write
    //# side of the connection, unless it has already sent some error alert.
    pub(crate) fn say_goodbye(&mut self) {
        if let Self::Tls(stream) = self {
            let mut context = Context::from_waker(Waker::noop());
            // A peer that takes nothing any more does not hold up the close.
            let _ = Pin::new(stream).poll_shutdown(&mut context);
        }
    }
}

// === impl Counted ===

impl Counted {
    pub(crate) fn new(stream: TcpStream) -> Self {
        Self { stream, taken: 0 }
    }

    fn count(&mut self, written: Poll<io::Result<usize>>) -> Poll<io::Result<usize>> {
        if let Poll::Ready(Ok(count)) = written {
            self.taken += u64::try_from(count).unwrap_or(u64::MAX);
        }
        written
    }
}

impl AsyncRead for Counted {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl AsyncWrite for Counted {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.count(written)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        pieces: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write_vectored(context, pieces);
        self.count(written)
    }

    /// So that all records at hand leave in one system call.
    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

// === impl Transport, ReadEnd, WriteEnd ===

/// Passes reading on to what the variant holds.
macro_rules! read_through {
    ($type:ty) => {
        impl AsyncRead for $type {
            fn poll_read(
                self: Pin<&mut Self>,
                context: &mut Context<'_>,
                buffer: &mut ReadBuf<'_>,
            ) -> Poll<io::Result<()>> {
                match self.get_mut() {
                    Self::Plain(stream) => Pin::new(stream).poll_read(context, buffer),
                    Self::Tls(stream) => Pin::new(stream).poll_read(context, buffer),
                }
            }
        }
    };
}

/// Passes writing on to what the variant holds.
macro_rules! write_through {
    ($type:ty) => {
        impl AsyncWrite for $type {
            fn poll_write(
                self: Pin<&mut Self>,
                context: &mut Context<'_>,
                bytes: &[u8],
            ) -> Poll<io::Result<usize>> {
                match self.get_mut() {
                    Self::Plain(stream) => Pin::new(stream).poll_write(context, bytes),
                    Self::Tls(stream) => Pin::new(stream).poll_write(context, bytes),
                }
            }

            fn poll_write_vectored(
                self: Pin<&mut Self>,
                context: &mut Context<'_>,
                pieces: &[io::IoSlice<'_>],
            ) -> Poll<io::Result<usize>> {
                match self.get_mut() {
                    Self::Plain(stream) => Pin::new(stream).poll_write_vectored(context, pieces),
                    Self::Tls(stream) => Pin::new(stream).poll_write_vectored(context, pieces),
                }
            }

            fn is_write_vectored(&self) -> bool {
                true
            }

            fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
                match self.get_mut() {
                    Self::Plain(stream) => Pin::new(stream).poll_flush(context),
                    Self::Tls(stream) => Pin::new(stream).poll_flush(context),
                }
            }

            fn poll_shutdown(
                self: Pin<&mut Self>,
                context: &mut Context<'_>,
            ) -> Poll<io::Result<()>> {
                match self.get_mut() {
                    Self::Plain(stream) => Pin::new(stream).poll_shutdown(context),
                    Self::Tls(stream) => Pin::new(stream).poll_shutdown(context),
                }
            }
        }
    };
}

read_through!(Transport);
read_through!(ReadEnd<'_>);
write_through!(Transport);
write_through!(WriteEnd<'_>);
