//! A request's body, from frames to the bytes that HTTP/1.1 has.

use std::collections::VecDeque;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use h2::RecvStream;
use hyper::body::Bytes;
use tokio::io::{AsyncRead, ReadBuf};

use super::{download::broken, head};

/// Reads a body as HTTP/1.1 frames it. A client's window opens again as its bytes are read here, so a slow origin
/// holds the client back.
pub(super) struct Upload {
    stream: RecvStream,
    /// Whether its length is not known beforehand.
    chunked: bool,
    /// What came and was not read yet: one frame, and its framing.
    ready: VecDeque<Bytes>,
    state: State,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum State {
    Data,
    Trailers,
    Ended,
}

// === impl Upload ===

impl Upload {
    pub(super) fn new(stream: RecvStream, chunked: bool) -> Self {
        Self {
            stream,
            chunked,
            ready: VecDeque::new(),
            state: State::Data,
        }
    }

    /// Takes in what comes next.
    fn poll_next(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.state {
            State::Data => match ready!(self.stream.poll_data(context)) {
                Some(data) => self.take(data.map_err(broken)?)?,
                None => self.state = State::Trailers,
            },
            State::Trailers => {
                let trailers = ready!(self.stream.poll_trailers(context)).map_err(broken)?;
                if self.chunked {
                    self.ready.push_back(Bytes::from_static(b"0\r\n"));
                    let lines = head::trailers(&trailers.unwrap_or_default());
                    self.ready.push_back(lines.into());
                }
                self.state = State::Ended;
            }
            State::Ended => {}
        }
        Poll::Ready(Ok(()))
    }

    fn take(&mut self, data: Bytes) -> io::Result<()> {
        let window = self.stream.flow_control();
        window.release_capacity(data.len()).map_err(broken)?;
        // An empty chunk would be the last one.
        if data.is_empty() {
            return Ok(());
        }
        if self.chunked {
            let size = format!("{:x}\r\n", data.len());
            self.ready.push_back(size.into());
            self.ready.push_back(data);
            self.ready.push_back(Bytes::from_static(b"\r\n"));
        } else {
            self.ready.push_back(data);
        }
        Ok(())
    }
}

impl AsyncRead for Upload {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let before = buffer.remaining();
        loop {
            while let Some(front) = this.ready.front_mut() {
                let count = front.len().min(buffer.remaining());
                buffer.put_slice(&front.split_to(count));
                if !front.is_empty() {
                    return Poll::Ready(Ok(()));
                }
                this.ready.pop_front();
            }
            if this.state == State::Ended {
                return Poll::Ready(Ok(()));
            }
            match this.poll_next(context) {
                Poll::Ready(result) => result?,
                // What is at hand goes on at once.
                Poll::Pending if buffer.remaining() < before => return Poll::Ready(Ok(())),
                Poll::Pending => return Poll::Pending,
            }
        }
    }
}
