//! Clients that speak HTTP/2 (RFC 9113). Each of their requests becomes one of HTTP/1.1 and goes the way that all
//! requests go: over a hot connection, with the same limits, retries and events.
//!
//! - [`head`] translates heads both ways, [`upload`] a request's body, [`download`] a response.
//! - Field values, their order and the body's bytes stay as they came; names are in lower case, as HTTP/2 has
//!   them. Signatures (`SigV4`) are made over names in lower case, so they stay valid.
//! - What one client can make the relay hold is bounded: streams at once, windows, the size of a head, resets.

mod download;
mod head;
#[cfg(test)]
mod tests;
mod upload;

use std::future::poll_fn;
use std::os::fd::{AsFd, OwnedFd};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use h2::server::{Builder, Connection, SendResponse};
use h2::{Reason, RecvStream};
use http::Request;
use hyper::body::Bytes;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::task::JoinSet;
use tokio::time::{Instant, Sleep, sleep_until, timeout};

use crate::alarm::Alarm;
use crate::buffer::Buffer;
use crate::event::{EndedBy, Phase, TlsReport};
use crate::exchange::Failure;
use crate::session::{Asked, Record, Visit};
use crate::transport::Transport;
use download::{Answer, Download};
use upload::Upload;

/// What a client without TLS begins with where it knows that HTTP/2 is spoken here (RFC 9113 §3.4).
pub(crate) const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// Bytes of bodies that a client may send ahead of what the origin takes: per request, and in all. Both cover a
/// gigabit LAN of 2 ms; a relay is near its clients.
const STREAM_WINDOW: u32 = 256 << 10;
const CONNECTION_WINDOW: u32 = 1 << 20;
/// Bytes of responses that wait for one client's window, per request.
const SEND_BUFFER: usize = 256 << 10;
/// One DATA frame: with less than the common 16 KiB, the framing would cost more than it does.
const FRAME: u32 = 64 << 10;
/// Requests that a client may cancel before it has to let as many come to their end. Each one costs the origin's
/// connection, and costs the client nothing (CVE-2023-44487).
const CANCELLED: u64 = 100;
/// How long a client is waited for that was told to end.
const LINGER: Duration = Duration::from_secs(2);

/// A byte stream of which the first bytes were read already.
struct Wire {
    early: Option<Buffer>,
    stream: Transport,
}

/// One client's connection.
struct Client {
    visit: Visit,
    connection: Connection<Wire, Bytes>,
    streams: JoinSet<Done>,
    /// The client's socket, until its first request has shown what flows over it.
    socket: Option<Arc<OwnedFd>>,
    /// What was agreed on in its handshake, until that is told.
    tls: Option<TlsReport>,
    tally: Tally,
}

/// How a client's requests have ended so far.
#[derive(Debug, Default)]
struct Tally {
    completed: u64,
    cancelled: u64,
}

/// How one request ended.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Done {
    Completed,
    Cancelled,
}

/// Why a client's connection ends.
#[derive(Debug, thiserror::Error)]
enum Ended {
    #[error("the client did not begin to speak HTTP/2 in time")]
    TooSlow,
    #[error("the client's HTTP/2 is not understood")]
    Broken(#[source] h2::Error),
    #[error("the client cancels most of its requests")]
    Cancelling,
}

/// One request of a client.
struct Exchange {
    visit: Visit,
    socket: Option<Arc<OwnedFd>>,
    record: Record,
    answer: Answer,
}

/// Serves a client until one side closes. `early` was read from it already.
pub(crate) async fn serve(visit: Visit, stream: Transport, early: Option<Buffer>) {
    let tls = stream.report();
    let record = Record::open(&visit, tls.clone());
    let error = match Client::meet(visit, stream, early, tls).await {
        Ok(client) => client.serve().await.err(),
        Err(error) => Some(error),
    };
    if let Some(error) = error {
        let by = match error {
            Ended::TooSlow => EndedBy::Timeout,
            Ended::Broken(_) | Ended::Cancelling => EndedBy::Client,
        };
        let mut record = record;
        record.tell(None, by, Phase::RequestHead, Some(crate::chain(&error)));
    }
}

// === impl Client ===

impl Client {
    /// Exchanges settings.
    async fn meet(
        visit: Visit,
        stream: Transport,
        early: Option<Buffer>,
        tls: Option<TlsReport>,
    ) -> Result<Self, Ended> {
        // Without one, the first connection's options are not read back; nothing else depends on it.
        let socket = stream.tcp().as_fd().try_clone_to_owned().ok();
        let limits = visit.pool.relay.limits;
        let handshake = Builder::new()
            .initial_window_size(STREAM_WINDOW)
            .initial_connection_window_size(CONNECTION_WINDOW)
            .max_send_buffer_size(SEND_BUFFER)
            .max_frame_size(FRAME)
            .max_concurrent_streams(limits.streams)
            .max_header_list_size(u32::try_from(limits.head.get()).unwrap_or(u32::MAX))
            .handshake(Wire { early, stream });
        let connection = timeout(limits.head_timeout, handshake)
            .await
            .map_err(|_elapsed| Ended::TooSlow)?
            .map_err(Ended::Broken)?;
        Ok(Self {
            visit,
            connection,
            streams: JoinSet::new(),
            socket: socket.map(Arc::new),
            tls,
            tally: Tally::default(),
        })
    }

    async fn serve(mut self) -> Result<(), Ended> {
        let result = self.receive().await;
        // Requests under way find out by themselves that there is nobody to answer.
        drop(self.connection);
        while self.streams.join_next().await.is_some() {}
        result
    }

    /// Takes requests until the connection is over.
    async fn receive(&mut self) -> Result<(), Ended> {
        let patience = self.visit.pool.relay.limits.keep_alive_timeout;
        let mut draining = self.visit.draining.clone();
        let mut ending = false;
        let mut idle = pin!(sleep_until(Instant::now() + patience));
        loop {
            tokio::select! {
                biased;
                _ = draining.wait_for(|draining| *draining), if !ending => {
                    self.say_goodbye(idle.as_mut());
                    ending = true;
                }
                Some(done) = self.streams.join_next() => {
                    if self.tally.count(done.unwrap_or(Done::Cancelled)) {
                        break;
                    }
                    let wait = if ending { LINGER } else { patience };
                    idle.as_mut().reset(Instant::now() + wait);
                }
                accepted = self.connection.accept() => match accepted {
                    None => return Ok(()),
                    // A client that is gone is no event; one that speaks something else is.
                    Some(Err(error)) if error.is_io() => return Ok(()),
                    Some(Err(error)) => return Err(Ended::Broken(error)),
                    Some(Ok((request, respond))) => self.begin(request, respond),
                },
                () = idle.as_mut(), if self.streams.is_empty() => {
                    if ending {
                        return Ok(());
                    }
                    self.say_goodbye(idle.as_mut());
                    ending = true;
                }
            }
        }
        self.connection.abrupt_shutdown(Reason::ENHANCE_YOUR_CALM);
        let closed = poll_fn(|context| self.connection.poll_closed(context));
        // Whether it hears why or not, it has to go.
        let _ = timeout(LINGER, closed).await;
        Err(Ended::Cancelling)
    }

    /// Tells the client to send no further request.
    fn say_goodbye(&mut self, idle: Pin<&mut Sleep>) {
        self.connection.graceful_shutdown();
        idle.reset(Instant::now() + LINGER);
    }

    fn begin(&mut self, request: Request<RecvStream>, respond: SendResponse<Bytes>) {
        self.visit.renew();
        let exchange = Exchange {
            record: Record::open(&self.visit, self.tls.take()),
            visit: self.visit.clone(),
            socket: self.socket.take(),
            answer: Answer::new(respond),
        };
        self.streams.spawn(exchange.serve(request));
    }
}

// === impl Tally ===

impl Tally {
    /// Returns whether that was one too many that was cancelled.
    fn count(&mut self, done: Done) -> bool {
        match done {
            Done::Completed => self.completed += 1,
            Done::Cancelled => self.cancelled += 1,
        }
        self.cancelled > CANCELLED && self.cancelled > self.completed
    }
}

// === impl Exchange ===

impl Exchange {
    async fn serve(mut self, request: Request<RecvStream>) -> Done {
        let (parts, body) = request.into_parts();
        let limit = usize::try_from(self.visit.pool.relay.limits.head.get()).unwrap_or(usize::MAX);
        let translated = match head::request(&parts, body.is_end_stream(), limit) {
            Ok(translated) => translated,
            Err(refused) => {
                self.record
                    .read_line(parts.method.as_str(), parts.uri.path());
                let status = Some(refused.status());
                let (by, phase) = (EndedBy::Client, Phase::RequestHead);
                return self.fail(Failure::new(by, phase, status, &refused));
            }
        };
        self.record.read(&translated.request);
        let mut reader = Upload::new(body, translated.request.fields.chunked);
        let mut writer = Download::new(&self.answer, &translated.request.method);
        let mut buffer = self.visit.buffers.lend_later();
        let mut alarm = Alarm::default();
        let asked = Asked {
            request: &translated.request,
            head: &translated.head,
            buffer: &mut buffer,
            alarm: &mut alarm,
        };
        let forwarding = self
            .visit
            .forward(asked, &mut reader, &mut writer, &mut self.record);
        let forwarded = tokio::select! {
            biased;
            forwarded = forwarding => Some(forwarded),
            () = self.answer.cancelled() => None,
        };
        match forwarded {
            Some(Ok((finished, mut lent))) => {
                if let Some(socket) = self.socket.take() {
                    self.visit.look(&*socket, &mut lent);
                }
                finished.give_back(lent);
                self.answer.finish();
                self.record.finished();
                Done::Completed
            }
            Some(Err(failure)) => self.fail(failure),
            None => {
                let (status, phase) = (self.record.progress.status(), self.record.phase());
                let why = Some("the client cancelled it".into());
                self.record.tell(status, EndedBy::Client, phase, why);
                Done::Cancelled
            }
        }
    }

    /// Tells the client, where it can still be told, and the log.
    fn fail(mut self, failure: Failure) -> Done {
        let sent = self.record.progress.status();
        let answer = failure.status.filter(|_| sent.is_none());
        match answer {
            Some(status) => self.answer.refuse(status, self.record.method == "HEAD"),
            // What was sent must not look like the whole.
            None => self.answer.reset(Reason::INTERNAL_ERROR),
        }
        let why = Some(failure.why);
        self.record
            .tell(sent.or(answer), failure.ended_by, failure.phase, why);
        if failure.ended_by == EndedBy::Client && answer.is_none() {
            Done::Cancelled
        } else {
            Done::Completed
        }
    }
}

// === impl Wire ===

impl AsyncRead for Wire {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<std::io::Result<()>> {
        let this = self.get_mut();
        if let Some(early) = &mut this.early {
            let count = early.filled().len().min(buffer.remaining());
            buffer.put_slice(&early.filled()[..count]);
            early.consume(count);
            if early.is_empty() {
                this.early = None;
            }
            return Poll::Ready(Ok(()));
        }
        Pin::new(&mut this.stream).poll_read(context, buffer)
    }
}

impl AsyncWrite for Wire {
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<std::io::Result<usize>> {
        Pin::new(&mut self.get_mut().stream).poll_write(context, bytes)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        pieces: &[std::io::IoSlice<'_>],
    ) -> Poll<std::io::Result<usize>> {
        Pin::new(&mut self.get_mut().stream).poll_write_vectored(context, pieces)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_flush(context)
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_shutdown(context)
    }
}
