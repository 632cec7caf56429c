//! One request and its response between a client and a connection to the origin.
//!
//! # When a request is sent a second time
//! Only where it cannot have had an effect:
//! - The connection's kernel had taken no byte of it when it turned out dead. Nothing was sent; any
//!   method may go to another connection.
//! - The request is safe and has no body (`GET`, `HEAD`, `OPTIONS`, `TRACE`: RFC 9110 §9.2.1), the
//!   connection had been used before, and it ended without a byte of response. That is an origin closing
//!   an idle connection while the request was on its way (RFC 9112 §9.3.1). Once, on a new connection.
//!
//! `PUT` and `DELETE` are idempotent, and are not sent again: that two of them equal one holds only while
//! nobody else writes to the same object in between.
//!
//! # A final response before the end of the request
//! An origin may answer before it has read the body: an error, or its refusal of `Expect: 100-continue`.
//! The client may then stop sending, and nobody can tell where its next request would begin. So that
//! response carries `Connection: close`, the client's connection ends after it, and the origin's
//! connection is not used again.

use std::future::pending;
use std::io;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU16, AtomicU64, Ordering};

use tokio::io::{AsyncRead, AsyncWrite, copy_bidirectional_with_sizes};
use tokio::sync::watch;
use tokio::time::Instant;

use crate::alarm::{Alarm, within};
use crate::buffer::{Buffer, Buffers};
use crate::event::{EndedBy, Phase};
use crate::http::body::Body;
use crate::http::request::RequestHead;
use crate::http::response::ResponseHead;
use crate::pool::Lent;
use crate::stream::{
    CopyError, HeadError, Tally, copy_body, read_head, write_all, write_both, write_message,
};
use crate::throttle::{Throttle, Throttles};
use crate::transport::{ReadEnd, Transport};
use crate::{Expect, Limits};

/// What an exchange works with.
pub(crate) struct Exchange<'a, R, W> {
    /// What comes from the client.
    pub(crate) reader: &'a mut R,
    /// What goes to the client.
    pub(crate) writer: &'a mut W,
    /// What was read from the client beyond the request's head.
    pub(crate) buffer: &'a mut Buffer,
    pub(crate) request: &'a RequestHead,
    pub(crate) limits: &'a Limits,
    /// Who answers a request that waits with its body.
    pub(crate) expect: Expect,
    pub(crate) throttles: Option<&'a Throttles>,
    pub(crate) buffers: &'a Arc<Buffers>,
    pub(crate) draining: &'a watch::Receiver<bool>,
    pub(crate) progress: &'a Progress,
    /// For the time limit of the response.
    pub(crate) alarm: &'a mut Alarm,
}

/// How far an exchange has come, readable while it runs and after it failed.
#[derive(Debug, Default)]
pub(crate) struct Progress {
    pub(crate) bytes_up: AtomicU64,
    pub(crate) bytes_down: AtomicU64,
    /// The final status, once its head is on the way to the client; 0 before.
    status: AtomicU16,
    pub(crate) uploaded: AtomicBool,
    /// Whether the client was told to go on with its body.
    continued: AtomicBool,
}

/// How an exchange ended well.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Finished {
    /// Whether the client may send its next request on this connection.
    pub(crate) client_open: bool,
    /// Whether the origin's connection is at a message boundary and stays.
    pub(crate) origin_open: bool,
    /// Whether the client may still be sending what nobody will read.
    pub(crate) linger: bool,
}

/// How an exchange ended badly.
#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) ended_by: EndedBy,
    pub(crate) phase: Phase,
    /// What the client is told, if nothing was told yet and there is somebody to tell.
    pub(crate) status: Option<u16>,
    pub(crate) why: String,
    /// Whether the request may be sent once more.
    pub(crate) retry: bool,
}

/// How a response was forwarded.
enum Response {
    Whole(Finished),
    /// `101 Switching Protocols`, and what the origin has sent after it.
    Upgraded(Buffer),
}

// === impl Progress ===

impl Progress {
    pub(crate) fn status(&self) -> Option<u16> {
        Some(self.status.load(Ordering::Relaxed)).filter(|&status| status != 0)
    }
}

// === impl Finished ===

impl Finished {
    /// Gives the origin's connection back for the next request, where it can serve one.
    pub(crate) fn give_back(self, lent: Lent) {
        if self.origin_open {
            lent.bring_back();
        } else {
            lent.close("its last response ended it");
        }
    }
}

// === impl Failure ===

impl Failure {
    pub(crate) fn new(
        ended_by: EndedBy,
        phase: Phase,
        status: Option<u16>,
        error: &(dyn std::error::Error + 'static),
    ) -> Self {
        Self {
            ended_by,
            phase,
            status,
            why: crate::chain(error),
            retry: false,
        }
    }
}

// === impl Exchange ===

impl<'a, R, W> Exchange<'a, R, W>
where
    R: AsyncRead + Unpin,
    W: AsyncWrite + Unpin,
{
    /// Sends the head (as the origin is to get it) and forwards the rest of both messages.
    pub(crate) async fn run(&mut self, head: &[u8], lent: &mut Lent) -> Result<Finished, Failure> {
        self.progress.uploaded.store(false, Ordering::Relaxed);
        self.answer_expectation().await?;
        let reused = lent.reused;
        let origin = &mut lent.connection().stream;
        let mut body = self.request.body();
        let owed = self.send_head(head, &mut body, origin).await?;
        let response = self.forward(body, owed, origin, reused).await?;
        match response {
            Response::Whole(finished) => Ok(finished),
            // What is rare stands on the heap: a future is copied several times for each request, with room for all that it may
            // come to.
            Response::Upgraded(leftover) => Box::pin(self.tunnel(origin, leftover)).await,
        }
    }

    /// Tells a client that waits with its body to go on, where that is this relay's to say. The origin is sent
    /// the expectation all the same: it is part of what came.
    ///
    //= https://www.rfc-editor.org/rfc/rfc9110#section-15.2.1
    //# The server intends to send a final response after the request has
    //# been fully received and acted upon.
    async fn answer_expectation(&mut self) -> Result<(), Failure> {
        let waits = self.request.version_1_1
            && self.request.fields.waits
            && !self.request.body().is_done()
            && self.buffer.is_empty();
        let first = !self.progress.continued.load(Ordering::Relaxed);
        if self.expect == Expect::Answer && waits && first {
            send(self.writer, b"HTTP/1.1 100 Continue\r\n\r\n", self.limits).await?;
            self.progress.continued.store(true, Ordering::Relaxed);
        }
        Ok(())
    }

    /// Writes the head, and with it what the kernel takes of the body's bytes at hand; returns how many
    /// of those are still to be written. A connection that refuses its very first byte has sent nothing:
    /// then the request may go elsewhere, and the buffer still holds all of it.
    async fn send_head(
        &mut self,
        head: &[u8],
        body: &mut Body,
        origin: &mut Transport,
    ) -> Result<usize, Failure> {
        let patience = self.limits.body_timeout;
        let accepted = body
            .accept(self.buffer.filled())
            .map_err(|error| upload_failure(&CopyError::Malformed(error)))?;
        self.tally_up().admit(accepted).await;
        let body = &self.buffer.filled()[..accepted];
        let before = origin.taken();
        let first = within(patience, pin!(write_both(origin, head, body))).await;
        let taken = match first {
            Ok(Ok(taken)) if taken > 0 => taken,
            Ok(refused) => {
                let error = refused
                    .err()
                    .unwrap_or_else(|| io::ErrorKind::WriteZero.into());
                let error = CopyError::Write(error);
                let mut failure =
                    Failure::new(EndedBy::Server, Phase::RequestBody, Some(502), &error);
                failure.retry = origin.taken() == before;
                return Err(failure);
            }
            Err(_elapsed) => return Err(upload_failure(&CopyError::WriteTimeout)),
        };
        write_all(origin, head.get(taken..).unwrap_or_default(), patience)
            .await
            .map_err(|error| upload_failure(&error))?;
        let taken = taken.saturating_sub(head.len());
        self.buffer.consume(taken);
        self.tally_up().count(taken);
        Ok(accepted - taken)
    }

    fn tally_up(&self) -> Tally<'a> {
        Tally {
            copied: &self.progress.bytes_up,
            throttle: self.throttles.map(|throttles| &*throttles.up),
        }
    }

    /// Forwards the request's body and the response at the same time.
    async fn forward(
        &mut self,
        mut body: Body,
        owed: usize,
        origin: &mut Transport,
        reused: bool,
    ) -> Result<Response, Failure> {
        let tally = self.tally_up();
        let client_read = &mut *self.reader;
        let (origin_read, mut origin_write) = origin.split();
        let (progress, limits, request) = (self.progress, self.limits, self.request);
        let throttles = self.throttles;
        let buffer = &mut *self.buffer;
        let alarm = &mut *self.alarm;
        let mut upload = pin!(async {
            let patience = limits.body_timeout;
            let to = &mut origin_write;
            copy_body(client_read, buffer, &mut body, owed, to, patience, tally).await?;
            progress.uploaded.store(true, Ordering::Relaxed);
            Ok(())
        });
        let mut download = pin!(
            Download {
                request,
                limits,
                progress,
                draining: self.draining,
                unanswered: reused,
                throttle: throttles.map(|throttles| &*throttles.down),
                origin: origin_read,
                client: &mut *self.writer,
                buffer: self.buffers.lend(),
            }
            .run()
        );
        let mut response_due = None;
        let mut uploading = true;
        loop {
            tokio::select! {
                // The upload first: when a response comes, it must be known whether the request had
                // been sent to its end.
                biased;
                uploaded = &mut upload, if uploading => {
                    uploading = false;
                    match uploaded {
                        // A broken upload may have an answer under way that says why.
                        Ok(()) | Err(CopyError::Write(_)) => {
                            response_due = Some(Instant::now() + limits.response_timeout);
                        }
                        // A client that stops sending because its answer is on the way does as it should.
                        Err(_) if progress.status().is_some() => {}
                        Err(error) => return Err(upload_failure(&error)),
                    }
                }
                response = &mut download => return response,
                () = async {
                    match response_due.filter(|_| progress.status().is_none()) {
                        Some(due) => alarm.ring(due).await,
                        None => pending().await,
                    }
                    // The head may have come since: then only silence ends the rest.
                    if progress.status().is_some() {
                        pending::<()>().await;
                    }
                } => {
                    return Err(Failure {
                        ended_by: EndedBy::Timeout,
                        phase: Phase::ResponseHead,
                        status: Some(504),
                        why: "the origin did not answer in time".into(),
                        retry: false,
                    });
                }
            }
        }
    }

    /// Forwards bytes both ways until both sides have finished; each side's end is passed on.
    async fn tunnel(
        &mut self,
        origin: &mut Transport,
        leftover: Buffer,
    ) -> Result<Finished, Failure> {
        let failure = |error: &CopyError| Failure::new(EndedBy::Client, Phase::Tunnel, None, error);
        let patience = self.limits.body_timeout;
        write_all(self.writer, leftover.filled(), patience)
            .await
            .map_err(|e| failure(&e))?;
        count(&self.progress.bytes_down, leftover.filled().len());
        drop(leftover);
        write_all(origin, self.buffer.filled(), patience)
            .await
            .map_err(|e| failure(&e))?;
        let early = self.buffer.filled().len();
        count(&self.progress.bytes_up, early);
        self.buffer.consume(early);
        let size = crate::buffer::CAPACITY;
        let mut client = tokio::io::join(&mut *self.reader, &mut *self.writer);
        let (up, down) = copy_bidirectional_with_sizes(&mut client, origin, size, size)
            .await
            .map_err(|error| failure(&CopyError::Write(error)))?;
        self.progress.bytes_up.fetch_add(up, Ordering::Relaxed);
        self.progress.bytes_down.fetch_add(down, Ordering::Relaxed);
        Ok(Finished {
            client_open: false,
            origin_open: false,
            linger: false,
        })
    }
}

/// The way of one response.
struct Download<'a, W> {
    request: &'a RequestHead,
    limits: &'a Limits,
    progress: &'a Progress,
    draining: &'a watch::Receiver<bool>,
    /// Whether the origin may have closed the connection before the request reached it: it was used
    /// before, and not a byte of response has come.
    unanswered: bool,
    throttle: Option<&'a Throttle>,
    origin: ReadEnd<'a>,
    client: &'a mut W,
    buffer: Buffer,
}

impl<W: AsyncWrite + Unpin> Download<'_, W> {
    async fn run(mut self) -> Result<Response, Failure> {
        loop {
            let (head, length) = self.read_head().await?;
            let raw = &self.buffer.filled()[..length];
            if head.is_interim() {
                //= https://www.rfc-editor.org/rfc/rfc9110#section-15.2
                //# A proxy MUST forward 1xx responses unless the proxy itself requested the generation
                //# of the 1xx response.
                //= https://www.rfc-editor.org/rfc/rfc9110#section-15.2
                //# a server MUST NOT send a 1xx response to an HTTP/1.0 client
                let told = head.status == 100 && self.progress.continued.load(Ordering::Relaxed);
                if self.request.version_1_1 && !told {
                    let forwarded = head.forwarded(raw, false);
                    let head = forwarded.as_deref().unwrap_or(raw);
                    send(self.client, head, self.limits).await?;
                }
                self.unanswered = false;
                self.buffer.consume(length);
                continue;
            }
            if head.status == 101 {
                if !self.request.fields.upgrade {
                    return Err(malformed("the origin switches protocols unasked"));
                }
                // What part of the rest belongs to which protocol, nobody could tell.
                if !self.progress.uploaded.load(Ordering::Relaxed) {
                    return Err(malformed(
                        "the origin switches protocols inside the request",
                    ));
                }
                let raw = raw.to_vec();
                self.progress.status.store(101, Ordering::Relaxed);
                send(self.client, &raw, self.limits).await?;
                self.buffer.consume(length);
                return Ok(Response::Upgraded(self.buffer));
            }
            return self.finish(&head, length).await.map(Response::Whole);
        }
    }

    /// Forwards the final response, of which the head's `length` bytes stand in the buffer.
    async fn finish(mut self, head: &ResponseHead, length: usize) -> Result<Finished, Failure> {
        let mut body = head.body(&self.request.method);
        let until_close = body == Body::UntilClose;
        let complete = self.progress.uploaded.load(Ordering::Relaxed);
        let client_open =
            complete && !until_close && self.request.keeps_alive() && !*self.draining.borrow();
        let (raw, rest) = self.buffer.filled().split_at(length);
        let accepted = body
            .accept(rest)
            .map_err(|error| malformed(&crate::chain(&CopyError::Malformed(error))))?;
        let forwarded = head.forwarded(raw, !client_open);
        self.progress.status.store(head.status, Ordering::Relaxed);
        let tally = Tally {
            copied: &self.progress.bytes_down,
            throttle: self.throttle,
        };
        tally.admit(accepted).await;
        let (client, patience) = (&mut *self.client, self.limits.body_timeout);
        let written = match &forwarded {
            Some(head) => write_message(client, head, &rest[..accepted], patience).await,
            // As it came, in one piece.
            None => write_all(client, &self.buffer.filled()[..length + accepted], patience).await,
        };
        written.map_err(|error| download_failure(&error))?;
        self.buffer.consume(length + accepted);
        tally.count(accepted);
        copy_body(
            &mut self.origin,
            &mut self.buffer,
            &mut body,
            0,
            self.client,
            self.limits.body_timeout,
            tally,
        )
        .await
        .map_err(|error| download_failure(&error))?;
        Ok(Finished {
            client_open,
            // Bytes after the response's end belong to no request. After a request of version 1.0 the
            // origin closes, whether it says so or not.
            origin_open: complete
                && !until_close
                && self.request.version_1_1
                && head.keeps_alive()
                && self.buffer.is_empty(),
            linger: !complete,
        })
    }

    async fn read_head(&mut self) -> Result<(ResponseHead, usize), Failure> {
        let limit = usize::try_from(self.limits.head.get()).unwrap_or(usize::MAX);
        let length = read_head(&mut self.origin, &mut self.buffer, limit)
            .await
            .map_err(|error| {
                let mut failure =
                    Failure::new(EndedBy::Server, Phase::ResponseHead, Some(502), &error);
                let silent = match error {
                    HeadError::Ended { partial } => !partial,
                    HeadError::Read(_) => self.buffer.is_empty(),
                    HeadError::TooLong | HeadError::Malformed(_) => false,
                };
                failure.retry = silent && self.unanswered && self.request.is_safe_and_empty();
                failure
            })?;
        let head = ResponseHead::parse(&self.buffer.filled()[..length])
            .map_err(|error| malformed(&crate::chain(&HeadError::Malformed(error))))?;
        Ok((head, length))
    }
}

fn count(counter: &AtomicU64, bytes: usize) {
    counter.fetch_add(u64::try_from(bytes).unwrap_or(u64::MAX), Ordering::Relaxed);
}

async fn send(
    client: &mut (impl AsyncWrite + Unpin),
    bytes: &[u8],
    limits: &Limits,
) -> Result<(), Failure> {
    write_all(client, bytes, limits.body_timeout)
        .await
        .map_err(|error| download_failure(&error))
}

fn malformed(why: &str) -> Failure {
    Failure {
        ended_by: EndedBy::Server,
        phase: Phase::ResponseHead,
        status: Some(502),
        why: why.to_owned(),
        retry: false,
    }
}

fn upload_failure(error: &CopyError) -> Failure {
    let (ended_by, status) = match error {
        // Gone, or half gone inside its own request: nobody to tell.
        CopyError::Read(_) | CopyError::Truncated => (EndedBy::Client, None),
        CopyError::ReadTimeout => (EndedBy::Timeout, Some(408)),
        CopyError::Malformed(_) => (EndedBy::Client, Some(400)),
        CopyError::Write(_) => (EndedBy::Server, Some(502)),
        CopyError::WriteTimeout => (EndedBy::Timeout, Some(504)),
    };
    Failure::new(ended_by, Phase::RequestBody, status, error)
}

fn download_failure(error: &CopyError) -> Failure {
    let ended_by = match error {
        CopyError::Read(_) | CopyError::Truncated | CopyError::Malformed(_) => EndedBy::Server,
        CopyError::ReadTimeout | CopyError::WriteTimeout => EndedBy::Timeout,
        CopyError::Write(_) => EndedBy::Client,
    };
    Failure::new(ended_by, Phase::ResponseBody, None, error)
}
