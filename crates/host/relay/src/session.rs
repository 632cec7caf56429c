//! One client's connection: its requests, one after the other.

mod arrival;
mod record;
mod visit;

use std::pin::pin;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::{Instant, timeout_at};

use crate::alarm::{Alarm, until};
use crate::buffer::Buffer;
use crate::event::{EndedBy, Phase};
use crate::exchange::{Failure, Finished};
use crate::http::head::leading_empty_line;
use crate::http::request::RequestHead;
use crate::http2;
use crate::stream::{HeadError, read_head, write_all};
use crate::transport::Transport;
pub(crate) use arrival::Arrival;
pub(crate) use record::Record;
pub(crate) use visit::{Asked, Visit};

/// How long, and for how many bytes, a client that is being turned away may finish what it is sending.
/// Closed at once, its unread bytes would make the kernel reset the connection, and the response that
/// explains it would be lost (RFC 9112 §9.6).
const LINGER: Duration = Duration::from_secs(2);
const LINGER_BYTES: usize = 16 << 20;

/// A client's connection.
pub(crate) struct Session {
    pub(crate) visit: Visit,
    pub(crate) stream: Transport,
    pub(crate) alarm: Alarm,
}

/// What follows a request.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Next {
    Request,
    Close,
    /// Close, once the client has read what it was sent.
    Linger,
    /// Close so that the client cannot take what it got for the whole.
    Reset,
}

impl Session {
    /// Serves the client until one side closes.
    pub(crate) async fn serve(mut self) {
        if self.stream.speaks_http2() {
            return Box::pin(http2::serve(self.visit, self.stream, None)).await;
        }
        let mut held: Option<Buffer> = None;
        let mut first = true;
        loop {
            // Between requests a session holds no buffer: ten thousand idle clients cost no memory.
            let pipelined = held.take().filter(|buffer| !buffer.is_empty());
            let mut buffer = match pipelined {
                Some(buffer) => buffer,
                None => match self.first_bytes().await {
                    Some(buffer) => buffer,
                    None => return Box::pin(self.close()).await,
                },
            };
            if first && self.begins_http2(&mut buffer).await {
                return Box::pin(http2::serve(self.visit, self.stream, Some(buffer))).await;
            }
            match self.serve_request(&mut buffer, first).await {
                Next::Request => held = Some(buffer),
                Next::Close => return Box::pin(self.close()).await,
                Next::Linger => return Box::pin(self.linger()).await,
                Next::Reset => {
                    // A response cut short must not look like one that lasts until the close.
                    let _ = self.stream.tcp().set_zero_linger();
                    return;
                }
            }
            first = false;
        }
    }

    /// Waits for the first bytes of a request; `None` when the connection is to be closed.
    async fn first_bytes(&mut self) -> Option<Buffer> {
        let deadline = Instant::now() + self.visit.pool.relay.limits.keep_alive_timeout;
        // TLS may have taken in more than was asked of it: then the socket has nothing to tell.
        let mut wait = !self.stream.is_tls();
        loop {
            if wait {
                tokio::select! {
                    biased;
                    readable = self.stream.tcp().readable() => readable.ok()?,
                    () = self.alarm.ring(deadline) => return None,
                    _ = self.visit.draining.wait_for(|draining| *draining) => return None,
                }
            }
            wait = true;
            // Readiness may be a leftover of a read that filled its buffer exactly. Taken for the start
            // of a request, it would end an idle connection with an unasked 408.
            let mut buffer = self.visit.buffers.lend();
            match buffer.read_ready(&mut self.stream).await {
                None => {}
                Some(Ok(0) | Err(_)) => return None,
                Some(Ok(_)) => return Some(buffer),
            }
        }
    }

    /// Whether a client without TLS speaks HTTP/2 without having asked.
    ///
    //= https://www.rfc-editor.org/rfc/rfc9113#section-3.3
    //# A client that knows that a server supports HTTP/2 can establish a TCP
    //# connection and send the connection preface
    async fn begins_http2(&mut self, buffer: &mut Buffer) -> bool {
        let relay = &self.visit.pool.relay;
        if !relay.http2 || self.stream.is_tls() {
            return false;
        }
        let deadline = Instant::now() + relay.limits.head_timeout;
        while http2::PREFACE.starts_with(buffer.filled()) && buffer.filled() != http2::PREFACE {
            match timeout_at(deadline, buffer.read_from(&mut self.stream)).await {
                Ok(Ok(count)) if count > 0 => {}
                // Whoever reads the head finds the same, and tells.
                _ => return false,
            }
        }
        buffer.filled().starts_with(http2::PREFACE)
    }

    async fn serve_request(&mut self, buffer: &mut Buffer, first: bool) -> Next {
        self.visit.renew();
        let tls = if first { self.stream.report() } else { None };
        let mut record = Record::open(&self.visit, tls);
        let deadline = record.started + self.visit.pool.relay.limits.head_timeout;
        let head = match self.receive_head(buffer, deadline).await {
            Ok(Some(head)) => head,
            Ok(None) => return Next::Close,
            Err(failure) => return Box::pin(self.fail(record, failure)).await,
        };
        let length = head.1;
        let request = head.0;
        record.read(&request);
        if request.method == "CONNECT" {
            let failure = Failure {
                ended_by: EndedBy::Client,
                phase: Phase::RequestHead,
                status: Some(501),
                why: "CONNECT: this relay has one origin and is no proxy for others".into(),
                retry: false,
            };
            return Box::pin(self.fail(record, failure)).await;
        }
        let forwarded = request.forwarded(&buffer.filled()[..length]);
        buffer.consume(length);
        match self
            .exchange(buffer, &request, &forwarded, &mut record, first)
            .await
        {
            Ok(finished) => {
                record.finished();
                match finished {
                    Finished {
                        client_open: true, ..
                    } => Next::Request,
                    Finished { linger: true, .. } => Next::Linger,
                    Finished { .. } => Next::Close,
                }
            }
            Err(failure) => Box::pin(self.fail(record, failure)).await,
        }
    }

    /// Reads and understands a head; `None` where the client ended the connection instead.
    async fn receive_head(
        &mut self,
        buffer: &mut Buffer,
        deadline: Instant,
    ) -> Result<Option<(RequestHead, usize)>, Failure> {
        let limit = self.visit.pool.relay.limits.head.get();
        let limit = usize::try_from(limit).unwrap_or(usize::MAX);
        let fail = |status, error: &HeadError| {
            Failure::new(EndedBy::Client, Phase::RequestHead, status, error)
        };
        let mut empty_lines = 0;
        loop {
            let read = until(deadline, pin!(read_head(&mut self.stream, buffer, limit))).await;
            let length = match read {
                Ok(Ok(length)) => length,
                Ok(Err(HeadError::Ended { partial: false })) => return Ok(None),
                // A client that resets an idle connection has nothing to be told.
                Ok(Err(HeadError::Read(_))) if buffer.is_empty() => return Ok(None),
                Ok(Err(error)) => {
                    let status = match error {
                        HeadError::TooLong => Some(431),
                        HeadError::Malformed(_) => Some(400),
                        HeadError::Ended { .. } | HeadError::Read(_) => None,
                    };
                    return Err(fail(status, &error));
                }
                Err(_elapsed) => {
                    return Err(Failure {
                        ended_by: EndedBy::Timeout,
                        phase: Phase::RequestHead,
                        status: Some(408),
                        why: "the head did not come to its end in time".into(),
                        retry: false,
                    });
                }
            };
            let head = &buffer.filled()[..length];
            if leading_empty_line(head) == length && empty_lines == 0 {
                empty_lines += 1;
                buffer.consume(length);
                continue;
            }
            let parsed = RequestHead::parse(head);
            return parsed
                .map(|request| Some((request, length)))
                .map_err(|error| fail(Some(400), &HeadError::Malformed(error)));
        }
    }

    /// Forwards a request and its response. Once a client's first data has flowed, its connection is looked at.
    async fn exchange(
        &mut self,
        buffer: &mut Buffer,
        request: &RequestHead,
        head: &[u8],
        record: &mut Record,
        first: bool,
    ) -> Result<Finished, Failure> {
        let (mut reader, mut writer) = self.stream.split();
        let asked = Asked {
            request,
            head,
            buffer,
            alarm: &mut self.alarm,
        };
        let (finished, mut lent) = self
            .visit
            .forward(asked, &mut reader, &mut writer, record)
            .await?;
        drop((reader, writer));
        lent.remember(&mut self.visit.before);
        if first {
            self.visit.look(self.stream.tcp(), &mut lent);
        }
        finished.give_back(lent);
        Ok(finished)
    }

    /// Tells the client, where it can still be told, and the log.
    async fn fail(&mut self, mut record: Record, failure: Failure) -> Next {
        let sent = record.progress.status();
        let answer = failure.status.filter(|_| sent.is_none());
        if let Some(status) = answer {
            let text = answer_text(status, record.method == "HEAD");
            let patience = Duration::from_secs(1);
            // The client may be gone as well; the event tells what came first.
            let _ = write_all(&mut self.stream, text.as_bytes(), patience).await;
        }
        let why = Some(failure.why);
        record.tell(sent.or(answer), failure.ended_by, failure.phase, why);
        match (answer, sent) {
            (Some(_), _) => Next::Linger,
            (None, Some(_)) => Next::Reset,
            (None, None) => Next::Close,
        }
    }

    /// Ends the connection. What was sent is whole: with TLS, that has to be said.
    async fn close(&mut self) {
        if self.stream.is_tls() {
            let deadline = Instant::now() + LINGER;
            // Nobody waits longer for a client that does not listen.
            let _ = timeout_at(deadline, self.stream.shutdown()).await;
        }
    }

    /// Ends the connection in the direction of the client and lets it finish sending.
    async fn linger(&mut self) {
        let deadline = Instant::now() + LINGER;
        let mut sink = [0; 8 * 1024];
        let mut left = LINGER_BYTES;
        if self.stream.shutdown().await.is_err() {
            return;
        }
        while let Ok(Ok(count)) = timeout_at(deadline, self.stream.read(&mut sink)).await {
            left = left.saturating_sub(count);
            if count == 0 || left == 0 {
                return;
            }
        }
    }
}

/// A response of the relay's own: as little as lets a client and its user understand.
fn answer_text(status: u16, head_only: bool) -> String {
    let reason = match status {
        400 => "Bad Request",
        408 => "Request Timeout",
        431 => "Request Header Fields Too Large",
        501 => "Not Implemented",
        503 => "Service Unavailable",
        504 => "Gateway Timeout",
        _ => "Bad Gateway",
    };
    let body = format!("longhaul relay: {status} {reason}\n");
    let length = body.len();
    format!(
        "HTTP/1.1 {status} {reason}\r\nContent-Type: text/plain\r\nContent-Length: {length}\r\n\
         Connection: close\r\n\r\n{}",
        if head_only { "" } else { &body },
    )
}
