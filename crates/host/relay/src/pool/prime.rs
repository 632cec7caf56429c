//! Making a connection hot: harmless requests, pipelined, until both windows hold their target.
//!
//! Our congestion window grows by what is acknowledged, and only while it is what holds data back. The
//! origin's receive window grows with what its application reads per round trip: Linux offers about twice
//! that (`tcp_rcv_space_adjust` in `net/ipv4/tcp_input.c`). So real bytes have to be sent, as many at once
//! as fit, and read by the application at the other end. A padded `HEAD` request does that without any
//! effect (RFC 9110 §9.2.1), and many of them may be under way at once:
//!
//= https://www.rfc-editor.org/rfc/rfc9112#section-9.3.2
//# A client that supports persistent connections MAY "pipeline" its requests (i.e., send multiple
//# requests without waiting for each response).
//
//! Segments are paced at the path's rate where it is known, so that slow start fills the path without
//! filling its queue.

use std::collections::BTreeMap;
use std::future::{Future, poll_fn};
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use sys::tcp_info::{TcpInfo, TcpInfoError};
use tokio::io::{AsyncRead as _, AsyncWrite as _, ReadBuf};
use tokio::time::{Instant, timeout_at};
use units::{Bytes, Rate};

use super::connection::missing;
use crate::Priming;
use crate::event::Missing;
use crate::http::Malformed;
use crate::http::body::Body;
use crate::http::head::HeadScanner;
use crate::http::response::ResponseHead;
use crate::transport::Transport;

/// Requests written with one system call: several segments' worth, so that the path, not the loop,
/// holds data back.
const BATCH: usize = 16;

/// A priming that came to its end, hot or not.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Primed {
    pub(crate) spent: Spent,
    pub(crate) target: Bytes,
    pub(crate) missing: Vec<Missing>,
    /// Whether it was given up because a request waited for the connection.
    pub(crate) interrupted: bool,
    /// The connection when all was answered.
    pub(crate) info: TcpInfo,
    /// Segments sent again during priming.
    pub(crate) retransmitted: u32,
    /// The fastest delivery of payload, if a queue or loss shows that the path, not a window, set it.
    pub(crate) bottleneck: Option<Rate>,
}

/// What a priming cost.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Spent {
    /// Requests answered.
    pub(crate) requests: u64,
    /// Bytes sent.
    pub(crate) bytes: u64,
    pub(crate) time: Duration,
    /// Answers by status class.
    pub(crate) statuses: BTreeMap<String, u64>,
}

/// A priming that left the connection unusable.
#[derive(Debug, thiserror::Error)]
pub(crate) enum PrimeError {
    #[error("cannot exchange priming requests")]
    Exchange(#[source] io::Error),
    #[error("cannot look at the connection")]
    Inspect(#[source] TcpInfoError),
    #[error("the origin ended the connection during priming")]
    Ended,
    #[error("the origin's answer to a priming request is malformed")]
    Malformed(#[source] Malformed),
    #[error("the origin did not answer all priming requests in time")]
    Unanswered,
}

/// Primes a connection of which both sides are idle. `quiet` is awaited before each batch: it may hold
/// priming back while requests use the path. Once `wanted` says that a request waits for the connection
/// itself, no more is sent, and priming ends when what is under way was answered.
///
/// On failure, what was spent is told beside the error.
pub(crate) async fn prime<F: Future<Output = ()>>(
    stream: &mut Transport,
    priming: &Priming,
    target: Bytes,
    quiet: impl Fn() -> F,
    wanted: impl Fn() -> bool,
) -> Result<Primed, (PrimeError, Spent)> {
    let mut run = Run {
        stream,
        priming,
        target,
        batch: request(priming).repeat(BATCH),
        sent: 0,
        answers: Answers::new(&priming.method),
        started: Instant::now(),
        fastest: None,
        slowest_rtt: Duration::ZERO,
        interrupted: false,
    };
    match run.finish(quiet, wanted).await {
        Ok((info, retransmitted)) => Ok(Primed {
            missing: missing(&info, target),
            interrupted: run.interrupted,
            spent: run.spent(),
            target,
            bottleneck: run.bottleneck(&info, retransmitted),
            info,
            retransmitted,
        }),
        Err(error) => Err((error, run.spent())),
    }
}

/// The harmless request. The padding stands in a field of its own, which origins ignore.
pub(crate) fn request(priming: &Priming) -> Vec<u8> {
    let padding = usize::try_from(priming.padding.get()).unwrap_or_default();
    format!(
        "{} {} HTTP/1.1\r\nHost: {}\r\nUser-Agent: longhaul-prime\r\nX-Longhaul-Padding: {}\r\n\r\n",
        priming.method,
        priming.path,
        priming.host,
        "0".repeat(padding),
    )
    .into_bytes()
}

struct Run<'a> {
    stream: &'a mut Transport,
    priming: &'a Priming,
    target: Bytes,
    /// [`BATCH`] requests, one after the other.
    batch: Vec<u8>,
    /// Bytes that the kernel has taken.
    sent: usize,
    answers: Answers,
    started: Instant,
    /// The fastest delivery seen.
    fastest: Option<Rate>,
    /// The longest smoothed round-trip time seen.
    slowest_rtt: Duration,
    /// Whether a request has been waiting for the connection.
    interrupted: bool,
}

impl Run<'_> {
    /// Writes and reads until the target holds or a budget ends, then until all is answered. Returns the
    /// connection as it is then, and the segments that had to be sent again.
    async fn finish<F: Future<Output = ()>>(
        &mut self,
        quiet: impl Fn() -> F,
        wanted: impl Fn() -> bool,
    ) -> Result<(TcpInfo, u32), PrimeError> {
        let before = self.inspect()?;
        let writing_ends = self.started + self.priming.max_time;
        // What is under way when the budget ends still has to be answered: pipelined requests cannot be
        // taken back. Four more round trips and a second for the origin's work.
        let reading_ends = writing_ends + before.rtt * 4 + Duration::from_secs(1);
        let mut growing = true;
        loop {
            self.interrupted = self.interrupted || wanted();
            let within_budget = self.within_budget(writing_ends) && !self.interrupted;
            let info = self.inspect()?;
            self.fastest = self.fastest.max(info.delivery_rate);
            self.slowest_rtt = self.slowest_rtt.max(info.rtt);
            growing = growing && within_budget && !missing(&info, self.target).is_empty();
            if !growing && self.whole() && self.answers.count == self.requests() {
                // Now that nothing is in flight, the origin's window is what it has to offer.
                let info = self.inspect()?;
                let done = missing(&info, self.target).is_empty() || !within_budget;
                if done {
                    let again = info.total_retrans.saturating_sub(before.total_retrans);
                    return Ok((info, again));
                }
                growing = true;
            }
            let writing = growing || !self.whole();
            if writing && self.whole() {
                quiet().await;
            }
            let moved = poll_fn(|context| self.poll_move(context, writing, growing));
            timeout_at(reading_ends, moved)
                .await
                .map_err(|_elapsed| PrimeError::Unanswered)??;
        }
    }

    /// What the path delivers, if that is what held priming back: then a queue stood at its bottleneck
    /// (a sixteenth of the round trip, well above jitter), or overflowed.
    ///
    /// A sixty-fourth is left free, so that the queue which the measurement made can drain.
    fn bottleneck(&self, info: &TcpInfo, retransmitted: u32) -> Option<Rate> {
        let base = info.min_rtt?;
        let queued = self.slowest_rtt > base + base / 16 || retransmitted > 0;
        let fastest = self.fastest.filter(|_| queued)?.bits_per_s();
        Some(Rate::bit_per_s(fastest - fastest / 64))
    }

    fn within_budget(&self, writing_ends: Instant) -> bool {
        let sent = u64::try_from(self.sent).unwrap_or(u64::MAX);
        sent < self.priming.max_bytes.get()
            && self.requests() < self.priming.max_requests
            && Instant::now() < writing_ends
    }

    /// Requests begun.
    fn requests(&self) -> u64 {
        let begun = self.sent.div_ceil(self.request_length());
        u64::try_from(begun).unwrap_or(u64::MAX)
    }

    /// Whether the last request begun has been written to its end.
    fn whole(&self) -> bool {
        self.sent.is_multiple_of(self.request_length())
    }

    fn request_length(&self) -> usize {
        self.batch.len() / BATCH
    }

    /// Takes in what has come and writes once; ready when either moved something.
    fn poll_move(
        &mut self,
        context: &mut Context<'_>,
        writing: bool,
        growing: bool,
    ) -> Poll<Result<(), PrimeError>> {
        let mut moved = false;
        let mut bytes = [0; 16 * 1024];
        let mut buffer = ReadBuf::new(&mut bytes);
        match Pin::new(&mut *self.stream).poll_read(context, &mut buffer) {
            Poll::Ready(Ok(())) if buffer.filled().is_empty() => {
                return Poll::Ready(Err(PrimeError::Ended));
            }
            Poll::Ready(Ok(())) => {
                self.answers.take(buffer.filled())?;
                moved = true;
            }
            Poll::Ready(Err(error)) => return Poll::Ready(Err(PrimeError::Exchange(error))),
            Poll::Pending => {}
        }
        if writing {
            let (start, end) = self.piece(growing);
            let piece = &self.batch[start..end];
            match Pin::new(&mut *self.stream).poll_write(context, piece) {
                Poll::Ready(Ok(count)) => {
                    self.sent += count;
                    moved = true;
                }
                Poll::Ready(Err(error)) => return Poll::Ready(Err(PrimeError::Exchange(error))),
                Poll::Pending => {}
            }
        } else if let Poll::Ready(Err(error)) = Pin::new(&mut *self.stream).poll_flush(context) {
            // Until it is ready, TLS holds back the end of a request.
            return Poll::Ready(Err(PrimeError::Exchange(error)));
        }
        if moved {
            Poll::Ready(Ok(()))
        } else {
            Poll::Pending
        }
    }

    /// What to write next, from where to where in the batch: all of it while growing, else only the rest of
    /// the request that was begun.
    fn piece(&self, growing: bool) -> (usize, usize) {
        let start = self.sent % self.batch.len();
        if !growing {
            let rest = self.request_length() - self.sent % self.request_length();
            return (start, start + rest);
        }
        // No further than the last request that the budget allows.
        let allowed = usize::try_from(self.priming.max_requests).unwrap_or(usize::MAX);
        let left = allowed
            .saturating_mul(self.request_length())
            .saturating_sub(self.sent);
        (start, self.batch.len().min(start + left))
    }

    fn inspect(&self) -> Result<TcpInfo, PrimeError> {
        TcpInfo::of(self.stream.tcp()).map_err(PrimeError::Inspect)
    }

    fn spent(&self) -> Spent {
        Spent {
            requests: self.answers.count,
            bytes: u64::try_from(self.sent).unwrap_or(u64::MAX),
            time: self.started.elapsed(),
            statuses: self.answers.statuses.clone(),
        }
    }
}

/// Counts the answers in a stream of them.
#[derive(Debug)]
struct Answers {
    method: String,
    count: u64,
    statuses: BTreeMap<String, u64>,
    /// The head being received.
    head: Vec<u8>,
    scanner: HeadScanner,
    /// The body being received.
    body: Body,
}

impl Answers {
    /// Longer than any answer to a `HEAD` request.
    const MAX_HEAD: usize = 64 * 1024;

    fn new(method: &str) -> Self {
        Self {
            method: method.to_owned(),
            count: 0,
            statuses: BTreeMap::new(),
            head: Vec::new(),
            scanner: HeadScanner::default(),
            body: Body::EMPTY,
        }
    }

    fn take(&mut self, mut bytes: &[u8]) -> Result<(), PrimeError> {
        loop {
            if !self.body.is_done() {
                let taken = self.body.accept(bytes).map_err(PrimeError::Malformed)?;
                bytes = &bytes[taken..];
                if !self.body.is_done() {
                    return Ok(());
                }
                self.count += 1;
            }
            if bytes.is_empty() {
                return Ok(());
            }
            let before = self.head.len();
            self.head.extend_from_slice(bytes);
            let end = self
                .scanner
                .scan(&self.head)
                .map_err(PrimeError::Malformed)?;
            let Some(end) = end else {
                if self.head.len() > Self::MAX_HEAD {
                    return Err(PrimeError::Malformed(Malformed::TooManyFields));
                }
                return Ok(());
            };
            bytes = &bytes[end - before..];
            let head = ResponseHead::parse(&self.head[..end]).map_err(PrimeError::Malformed)?;
            self.head.clear();
            self.scanner = HeadScanner::default();
            if head.is_interim() {
                continue;
            }
            let class = format!("{}xx", head.status / 100);
            *self.statuses.entry(class).or_default() += 1;
            self.body = head.body(&self.method);
            if !head.keeps_alive() || self.body == Body::UntilClose {
                return Err(PrimeError::Ended);
            }
            if self.body.is_done() {
                self.count += 1;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_counted_however_they_arrive() {
        let stream = b"HTTP/1.1 404 Not Found\r\nContent-Length: 9\r\n\r\n\
                       HTTP/1.1 100 Continue\r\n\r\n\
                       HTTP/1.1 200 OK\r\n\r\nHTTP/1.1 403 No\r\nContent-Length: 0\r\n\r\n";
        for size in 1..stream.len() {
            let mut answers = Answers::new("HEAD");
            for piece in stream.chunks(size) {
                answers.take(piece).unwrap();
            }
            assert_eq!(answers.count, 3, "pieces of {size}");
            assert_eq!(answers.statuses["4xx"], 2);
            assert_eq!(answers.statuses["2xx"], 1);
        }
    }

    #[test]
    fn an_answer_with_a_body_counts_once_it_is_complete() {
        let mut answers = Answers::new("OPTIONS");
        answers
            .take(b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nab")
            .unwrap();
        assert_eq!(answers.count, 0);
        answers
            .take(b"cHTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n")
            .unwrap();
        assert_eq!(answers.count, 2);
    }

    #[test]
    fn an_origin_that_closes_after_its_answer_ends_priming() {
        let mut answers = Answers::new("HEAD");
        let error = answers
            .take(b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n")
            .unwrap_err();
        assert!(matches!(error, PrimeError::Ended));
    }
}
