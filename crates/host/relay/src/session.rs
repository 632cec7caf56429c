//! One client's connection: its requests, one after the other.

mod arrival;

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::sync::watch;
use tokio::time::{Instant, timeout_at};

use crate::buffer::{Buffer, Buffers};
use crate::event::{EndedBy, Event, Phase, TlsReport};
use crate::exchange::{Exchange, Failure, Finished, Progress};
use crate::http::head::leading_empty_line;
use crate::http::request::RequestHead;
use crate::pool::{DialError, Lent, Pool};
use crate::server::Service;
use crate::stream::{HeadError, read_head, write_all};
use crate::transport::Transport;

/// How long, and for how many bytes, a client that is being turned away may finish what it is sending.
/// Closed at once, its unread bytes would make the kernel reset the connection, and the response that
/// explains it would be lost (RFC 9112 §9.6).
const LINGER: Duration = Duration::from_secs(2);
const LINGER_BYTES: usize = 16 << 20;

/// Connections on which a request may be tried before giving up.
const ATTEMPTS: usize = 3;

pub(crate) use arrival::Arrival;

/// A client's connection.
pub(crate) struct Session {
    pub(crate) id: u64,
    pub(crate) stream: Transport,
    pub(crate) peer: SocketAddr,
    pub(crate) pool: Arc<Pool>,
    /// What serves the next request, after a reload.
    pub(crate) newest: watch::Receiver<Arc<Service>>,
    pub(crate) buffers: Arc<Buffers>,
    /// Becomes true when the relay stops.
    pub(crate) draining: watch::Receiver<bool>,
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

/// What is known of the request under way, for its event. A request that is cut off with its task is
/// told of when this is dropped.
struct Record {
    pool: Arc<Pool>,
    client: u64,
    peer: SocketAddr,
    told: bool,
    started: Instant,
    method: String,
    path: String,
    connection: Option<u64>,
    hot: bool,
    progress: Progress,
    /// Of a client's first request.
    client_tls: Option<TlsReport>,
}

impl Session {
    /// Serves the client until one side closes.
    pub(crate) async fn serve(mut self) {
        let mut held: Option<Buffer> = None;
        let mut first = true;
        loop {
            // Between requests a session holds no buffer: ten thousand idle clients cost no memory.
            let pipelined = held.take().filter(|buffer| !buffer.is_empty());
            let mut buffer = match pipelined {
                Some(buffer) => buffer,
                None => match self.first_bytes().await {
                    Some(buffer) => buffer,
                    None => return self.close().await,
                },
            };
            match self.serve_request(&mut buffer, first).await {
                Next::Request => held = Some(buffer),
                Next::Close => return self.close().await,
                Next::Linger => return self.linger().await,
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
        let deadline = Instant::now() + self.pool.relay.limits.keep_alive_timeout;
        // TLS may have taken in more than was asked of it: then the socket has nothing to tell.
        let mut wait = !self.stream.is_tls();
        loop {
            if wait {
                tokio::select! {
                    biased;
                    readable = timeout_at(deadline, self.stream.tcp().readable()) => {
                        readable.ok()?.ok()?;
                    }
                    _ = self.draining.wait_for(|draining| *draining) => return None,
                }
            }
            wait = true;
            // Readiness may be a leftover of a read that filled its buffer exactly. Taken for the start
            // of a request, it would end an idle connection with an unasked 408.
            let mut buffer = self.buffers.lend();
            match buffer.read_ready(&mut self.stream).await {
                None => {}
                Some(Ok(0) | Err(_)) => return None,
                Some(Ok(_)) => return Some(buffer),
            }
        }
    }

    async fn serve_request(&mut self, buffer: &mut Buffer, first: bool) -> Next {
        // Where the listener speaks something else now, the session goes on with what it began with.
        if self.newest.has_changed().unwrap_or(false)
            && let Some(pool) = self.newest.borrow_and_update().pool()
        {
            self.pool = Arc::clone(pool);
        }
        let mut record = Record {
            pool: Arc::clone(&self.pool),
            client: self.id,
            peer: self.peer,
            told: false,
            started: Instant::now(),
            method: "-".into(),
            path: "-".into(),
            connection: None,
            hot: false,
            progress: Progress::default(),
            client_tls: if first { self.stream.report() } else { None },
        };
        let head = match self.receive_head(buffer).await {
            Ok(Some(head)) => head,
            Ok(None) => return Next::Close,
            Err(failure) => return self.fail(record, failure).await,
        };
        let length = head.1;
        let request = head.0;
        record.method.clone_from(&request.method);
        record.path = request.path().to_owned();
        if request.method == "CONNECT" {
            let failure = Failure {
                ended_by: EndedBy::Client,
                phase: Phase::RequestHead,
                status: Some(501),
                why: "CONNECT: this relay has one origin and is no proxy for others".into(),
                retry: false,
            };
            return self.fail(record, failure).await;
        }
        let forwarded = request.forwarded(&buffer.filled()[..length]);
        buffer.consume(length);
        match self
            .forward(buffer, &request, &forwarded, &mut record, first)
            .await
        {
            Ok(finished) => {
                let status = record.progress.status();
                let phase = match status {
                    Some(101) => Phase::Tunnel,
                    _ => Phase::ResponseBody,
                };
                record.tell(status, EndedBy::Completed, phase, None);
                match finished {
                    Finished {
                        client_open: true, ..
                    } => Next::Request,
                    Finished { linger: true, .. } => Next::Linger,
                    Finished { .. } => Next::Close,
                }
            }
            Err(failure) => self.fail(record, failure).await,
        }
    }

    /// Reads and understands a head; `None` where the client ended the connection instead.
    async fn receive_head(
        &mut self,
        buffer: &mut Buffer,
    ) -> Result<Option<(RequestHead, usize)>, Failure> {
        let limits = self.pool.relay.limits;
        let limit = usize::try_from(limits.head.get()).unwrap_or(usize::MAX);
        let deadline = Instant::now() + limits.head_timeout;
        let fail = |status, error: &HeadError| {
            Failure::new(EndedBy::Client, Phase::RequestHead, status, error)
        };
        let mut empty_lines = 0;
        loop {
            let read = timeout_at(deadline, read_head(&mut self.stream, buffer, limit)).await;
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

    /// Finds a connection and exchanges the messages; once more where that is safe.
    async fn forward(
        &mut self,
        buffer: &mut Buffer,
        request: &RequestHead,
        head: &[u8],
        record: &mut Record,
        first: bool,
    ) -> Result<Finished, Failure> {
        let mut attempt = 1;
        loop {
            // HTTP/1.0 ends its connection: that must not be a hot one. A retry must not meet another
            // connection that ended in the same moment.
            let alone = !request.version_1_1 || attempt > 1;
            let taken = if alone {
                self.pool.take_new().await
            } else {
                self.pool.take().await
            };
            let mut lent = taken.map_err(|error| dial_failure(&error))?;
            record.connection = Some(lent.id());
            record.hot = lent.hot;
            let limits = self.pool.relay.limits;
            let result = Exchange {
                client: &mut self.stream,
                buffer,
                request,
                limits: &limits,
                expect: self.pool.relay.expect,
                throttles: self.pool.throttles.as_ref(),
                buffers: &self.buffers,
                draining: &self.draining,
                progress: &record.progress,
            }
            .run(head, &mut lent)
            .await;
            match result {
                Ok(finished) => {
                    if first {
                        self.look(&mut lent);
                    }
                    if finished.origin_open {
                        lent.bring_back();
                    } else {
                        lent.close("its last response ended it");
                    }
                    return Ok(finished);
                }
                Err(failure) => {
                    lent.close(&failure.why);
                    if !failure.retry || attempt >= ATTEMPTS {
                        return Err(failure);
                    }
                    attempt += 1;
                }
            }
        }
    }

    /// Looks at both connections once the client's first data has flowed.
    fn look(&self, lent: &mut Lent) {
        let (pool, peer) = (&self.pool, self.peer);
        let profile = &pool.relay.front.client_profile;
        pool.looks
            .at_client(&pool.events, profile, self.stream.tcp(), peer);
        let far = lent.connection().stream.tcp();
        pool.looks
            .at_distance(&pool.events, peer, self.stream.tcp(), far);
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

// === impl Record ===

impl Record {
    fn tell(
        &mut self,
        status: Option<u16>,
        ended_by: EndedBy,
        phase: Phase,
        error: Option<String>,
    ) {
        self.told = true;
        let hot_ratio = match self.connection {
            Some(_) => self.pool.count_request(self.hot),
            None => self.pool.hot_ratio(),
        };
        (self.pool.events)(Event::RequestDone {
            client: self.client,
            peer: self.peer,
            connection: self.connection,
            method: std::mem::take(&mut self.method),
            path: std::mem::take(&mut self.path),
            status,
            bytes_up: self.progress.bytes_up.load(Ordering::Relaxed),
            bytes_down: self.progress.bytes_down.load(Ordering::Relaxed),
            seconds: self.started.elapsed().as_secs_f64(),
            hot: self.hot,
            hot_ratio,
            ended_by,
            phase,
            error,
            client_tls: self.client_tls.take().map(Box::new),
        });
    }

    /// How far the request has come.
    fn phase(&self) -> Phase {
        let uploaded = self.progress.uploaded.load(Ordering::Relaxed);
        match (self.connection, self.progress.status()) {
            (None, _) => Phase::Connecting,
            (Some(_), None) if uploaded => Phase::ResponseHead,
            (Some(_), None) => Phase::RequestBody,
            (Some(_), Some(101)) => Phase::Tunnel,
            (Some(_), Some(_)) => Phase::ResponseBody,
        }
    }
}

impl Drop for Record {
    fn drop(&mut self) {
        // Without a method, no request has come.
        if !self.told && self.method != "-" {
            let (status, phase) = (self.progress.status(), self.phase());
            let why = "the relay stopped before the request was over";
            self.tell(status, EndedBy::Relay, phase, Some(why.into()));
        }
    }
}

fn dial_failure(error: &DialError) -> Failure {
    let (ended_by, status) = if error.is_timeout() {
        (EndedBy::Timeout, 504)
    } else if error.is_resource() {
        (EndedBy::Resource, 503)
    } else {
        (EndedBy::Server, 502)
    };
    Failure::new(ended_by, Phase::Connecting, Some(status), error)
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
