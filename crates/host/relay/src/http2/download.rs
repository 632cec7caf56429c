//! A response, from the bytes of HTTP/1.1 to frames.

use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, ready};

use h2::server::SendResponse;
use h2::{Reason, SendStream};
use http::{HeaderMap, HeaderValue, Response, StatusCode, header};
use hyper::body::Bytes;
use tokio::io::AsyncWrite;

use super::head;
use crate::http::Malformed;
use crate::http::body::Body;
use crate::http::head::HeadScanner;
use crate::http::response::ResponseHead;

/// Bytes of one frame at most.
const PIECE: usize = 64 << 10;

/// What a client is answered, and whether it still wants to know. Shared by who writes the response and by who
/// watches for the end of the client's interest, both in one task.
pub(super) struct Answer(Mutex<Sending>);

enum Sending {
    /// Nothing final was said yet.
    Head(SendResponse<Bytes>),
    Body(SendStream<Bytes>),
    /// All was said.
    Ended,
}

/// Takes a response as HTTP/1.1 has it and answers with it.
pub(super) struct Download<'a> {
    answer: &'a Answer,
    method: &'a str,
    state: State,
}

enum State {
    Head {
        bytes: Vec<u8>,
        scanner: HeadScanner,
    },
    Body {
        body: Body,
        trailers: Vec<u8>,
    },
}

/// As the other side of the relay sees the end of a stream.
pub(super) fn broken(error: h2::Error) -> io::Error {
    io::Error::new(io::ErrorKind::ConnectionReset, error)
}

// === impl Answer ===

impl Answer {
    pub(super) fn new(respond: SendResponse<Bytes>) -> Self {
        Self(Mutex::new(Sending::Head(respond)))
    }

    /// Waits until the client gives the request up, or is gone.
    pub(super) async fn cancelled(&self) {
        poll_fn(|context| match &mut *self.lock() {
            Sending::Head(respond) => respond.poll_reset(context).map(drop),
            Sending::Body(stream) => stream.poll_reset(context).map(drop),
            Sending::Ended => Poll::Pending,
        })
        .await;
    }

    /// The response is whole. Where only its end says so, the client is told here.
    pub(super) fn finish(&self) {
        // A client that is gone does not hear it.
        let _ = self.send(Bytes::new(), true);
    }

    /// Ends the request, and what was answered with it, as broken off.
    pub(super) fn reset(&self, reason: Reason) {
        match &mut *self.lock() {
            Sending::Head(respond) => respond.send_reset(reason),
            Sending::Body(stream) => stream.send_reset(reason),
            Sending::Ended => {}
        }
    }

    /// Answers in the relay's own name.
    pub(super) fn refuse(&self, status: u16, head_only: bool) {
        let status = StatusCode::from_u16(status).unwrap_or(StatusCode::BAD_GATEWAY);
        let text = format!(
            "longhaul relay: {} {}\n",
            status.as_u16(),
            status.canonical_reason().unwrap_or_default()
        );
        let mut response = Response::new(());
        *response.status_mut() = status;
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("text/plain"));
        headers.insert(header::CONTENT_LENGTH, text.len().into());
        // The client may be gone as well; the event tells what came first.
        if self.begin(response, head_only).is_ok() && !head_only {
            let _ = self.send(text.into(), true);
        }
    }

    fn inform(&self, response: Response<()>) -> io::Result<()> {
        match &mut *self.lock() {
            Sending::Head(respond) => respond.send_informational(response).map_err(broken),
            Sending::Body(_) | Sending::Ended => Ok(()),
        }
    }

    fn begin(&self, response: Response<()>, ends: bool) -> io::Result<()> {
        let mut sending = self.lock();
        if let Sending::Head(respond) = &mut *sending {
            let stream = respond.send_response(response, ends).map_err(broken)?;
            *sending = if ends {
                Sending::Ended
            } else {
                Sending::Body(stream)
            };
        }
        Ok(())
    }

    /// How many of `wanted` bytes may be sent now.
    fn poll_room(&self, context: &mut Context<'_>, wanted: usize) -> Poll<io::Result<usize>> {
        let mut sending = self.lock();
        let Sending::Body(stream) = &mut *sending else {
            return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
        };
        stream.reserve_capacity(wanted);
        let mut room = stream.capacity();
        while room == 0 {
            room = match ready!(stream.poll_capacity(context)) {
                Some(room) => room.map_err(broken)?,
                None => return Poll::Ready(Err(io::ErrorKind::ConnectionReset.into())),
            };
        }
        Poll::Ready(Ok(room.min(wanted)))
    }

    fn send(&self, data: Bytes, ends: bool) -> io::Result<()> {
        let mut sending = self.lock();
        if let Sending::Body(stream) = &mut *sending {
            stream.send_data(data, ends).map_err(broken)?;
            if ends {
                *sending = Sending::Ended;
            }
        }
        Ok(())
    }

    fn send_trailers(&self, trailers: HeaderMap) -> io::Result<()> {
        let mut sending = self.lock();
        if let Sending::Body(stream) = &mut *sending {
            stream.send_trailers(trailers).map_err(broken)?;
            *sending = Sending::Ended;
        }
        Ok(())
    }

    fn lock(&self) -> MutexGuard<'_, Sending> {
        // Whatever its holder was doing when it panicked, the library's handles are whole.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

// === impl Download ===

impl<'a> Download<'a> {
    /// For the response to a request with this method.
    pub(super) fn new(answer: &'a Answer, method: &'a str) -> Self {
        Self {
            answer,
            method,
            state: State::head(),
        }
    }

    /// Takes some of `bytes`, and returns how many.
    fn poll_take(&mut self, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let taken = match &mut self.state {
            State::Head {
                bytes: head,
                scanner,
            } => {
                let before = head.len();
                if before == 0
                    && let Some(length) = scanner.scan(bytes).map_err(malformed)?
                {
                    // Here whole, as nearly all are, with a body behind it that needs no copy.
                    self.begin(&bytes[..length])?;
                    return Poll::Ready(Ok(length));
                }
                head.extend_from_slice(bytes);
                let Some(length) = scanner.scan(head).map_err(malformed)? else {
                    return Poll::Ready(Ok(bytes.len()));
                };
                head.truncate(length);
                let head = std::mem::take(head);
                self.begin(&head)?;
                length - before
            }
            State::Body { body, trailers } => {
                let framing = body.accept_framing(bytes, trailers).map_err(malformed)?;
                if framing > 0 {
                    if body.is_done() {
                        let trailers = std::mem::take(trailers);
                        self.end(&trailers)?;
                    }
                    return Poll::Ready(Ok(framing));
                }
                let wanted = body.data_ahead(bytes.len()).min(PIECE);
                if wanted == 0 {
                    // Behind the end.
                    return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
                }
                let room = ready!(self.answer.poll_room(context, wanted))?;
                let data = &bytes[..room];
                body.accept(data).map_err(malformed)?;
                self.answer
                    .send(Bytes::copy_from_slice(data), body.is_done())?;
                room
            }
        };
        Poll::Ready(Ok(taken))
    }

    fn begin(&mut self, head: &[u8]) -> io::Result<()> {
        let parsed = ResponseHead::parse(head).map_err(malformed)?;
        let response = head::response(&parsed, head).map_err(malformed)?;
        if parsed.is_interim() {
            self.state = State::head();
            return self.answer.inform(response);
        }
        let body = parsed.body(self.method);
        self.answer.begin(response, body.is_done())?;
        self.state = State::Body {
            body,
            trailers: Vec::new(),
        };
        Ok(())
    }

    /// After a chunked body.
    fn end(&self, trailers: &[u8]) -> io::Result<()> {
        let trailers = head::fields(trailers).map_err(malformed)?;
        if trailers.is_empty() {
            self.answer.send(Bytes::new(), true)
        } else {
            self.answer.send_trailers(trailers)
        }
    }
}

impl AsyncWrite for Download<'_> {
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        if bytes.is_empty() {
            return Poll::Ready(Ok(0));
        }
        self.get_mut().poll_take(context, bytes)
    }

    /// The client's connection is flushed by who serves it.
    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

// === impl State ===

impl State {
    fn head() -> Self {
        Self::Head {
            bytes: Vec::new(),
            scanner: HeadScanner::default(),
        }
    }
}

fn malformed(error: Malformed) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, error)
}
