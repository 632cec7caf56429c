//! Ranges of one version, at the same time, delivered in their order.
//!
//! The first range is the answer to the first request. The others are read ahead into memory, each in a task of
//! its own, at most [`Plan::parallel`] of them and each at most [`Plan::part`] bytes long.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use bytes::Bytes;
use futures_util::stream::{self, StreamExt as _};
use http::header::{HeaderMap, RANGE};
use http::{Method, StatusCode};
use hyper::body::Incoming;
use tokio::sync::mpsc::{self, UnboundedReceiver};
use tokio::task::AbortHandle;

use super::{ContentRange, Reading, content_range, range_header};
use crate::failed::Failed;
use crate::gateway::Gateway;
use crate::origin::Pieces;
use crate::path::Plan;
use crate::upload::parts::Leave;

/// What is here already is handed over in less.
const AT_ONCE: Duration = Duration::from_millis(1);

/// Stored bytes on their way to a client.
pub(crate) struct Delivery {
    gateway: Gateway,
    reading: Reading,
    plan: Plan,
    /// What is delivered now.
    current: Pieces,
    /// Bytes of it that are still to come.
    left: u64,
    ahead: VecDeque<Lane>,
    /// First byte that nobody has asked for yet.
    next: u64,
    /// Last byte of all.
    last: u64,
}

/// A range that is read ahead; reading ends with it.
struct Lane {
    pieces: UnboundedReceiver<Result<Bytes, Failed>>,
    length: u64,
    task: Task,
}

/// A task that ends with this.
struct Task(AbortHandle);

// === impl Delivery ===

impl Delivery {
    /// Delivers `body`, which is `range` of an object that `head` describes, and then all up to `last`.
    pub(crate) fn begin(
        gateway: &Gateway,
        reading: &Reading,
        head: &HeaderMap,
        body: Incoming,
        range: ContentRange,
        last: u64,
        plan: Plan,
    ) -> Self {
        let mut reading = reading.clone();
        reading.pin(head);
        let mut delivery = Self {
            gateway: gateway.clone(),
            reading,
            plan,
            current: gateway.origin().pieces(body),
            left: range.last.min(last) - range.first + 1,
            ahead: VecDeque::new(),
            next: range.last + 1,
            last,
        };
        delivery.read_ahead();
        delivery
    }

    /// Requests that it takes.
    pub(crate) fn parts(&self) -> u64 {
        let rest = (self.last + 1).saturating_sub(self.next);
        1 + self.ahead.len() as u64 + rest.div_ceil(self.plan.part)
    }

    pub(crate) fn into_pieces(self) -> Pieces {
        Box::pin(stream::unfold(Some(self), |delivery| async move {
            let mut delivery = delivery?;
            match delivery.next().await {
                Ok(None) => None,
                Ok(Some(piece)) => Some((Ok(piece), Some(delivery))),
                Err(failed) => Some((Err(failed), None)),
            }
        }))
    }

    async fn next(&mut self) -> Result<Option<Bytes>, Failed> {
        loop {
            if self.left > 0 {
                let asked = Instant::now();
                let piece = self.current.next().await;
                if asked.elapsed() > AT_ONCE {
                    self.gateway.origin().path().waited();
                }
                let Some(piece) = piece else {
                    return Err(Failed::unreachable("the origin ended a range early"));
                };
                let mut piece = piece?;
                // An origin may give more than was asked for.
                let most = usize::try_from(self.left).unwrap_or(usize::MAX);
                piece.truncate(most);
                self.left -= piece.len() as u64;
                return Ok(Some(piece));
            }
            let Some(Lane {
                mut pieces,
                length,
                task,
            }) = self.ahead.pop_front()
            else {
                self.read_ahead();
                if self.ahead.is_empty() {
                    return Ok(None);
                }
                continue;
            };
            self.left = length;
            self.current = Box::pin(stream::poll_fn(move |context| {
                let _while_read = &task;
                pieces.poll_recv(context)
            }));
            self.read_ahead();
        }
    }

    fn read_ahead(&mut self) {
        while self.next <= self.last {
            let under_way = self.ahead.len() + usize::from(self.left > 0);
            let Some(leave) = self.gateway.leave(under_way, self.plan.parallel) else {
                return;
            };
            let end = self.last.min(self.next + self.plan.part - 1);
            let lane = Lane::start(&self.gateway, &self.reading, self.next, end, leave);
            self.ahead.push_back(lane);
            self.next = end + 1;
        }
    }
}

// === impl Lane ===

impl Lane {
    fn start(gateway: &Gateway, reading: &Reading, first: u64, last: u64, leave: Leave) -> Self {
        let (sender, pieces) = mpsc::unbounded_channel();
        let origin = gateway.origin().clone();
        let ask = reading.ask(Method::GET);
        let task = tokio::spawn(async move {
            let outcome = async {
                let mut ask = ask;
                ask.headers.insert(RANGE, range_header(first, last)?);
                let response = origin.send(ask).await?;
                let same = response.status() == StatusCode::PARTIAL_CONTENT
                    && content_range(response.headers())
                        .is_some_and(|range| (range.first, range.last) == (first, last));
                if !same {
                    return Err(Failed::unreachable(
                        "the object changed, or the origin gave another range than was asked for",
                    ));
                }
                let mut pieces = origin.pieces(response.into_body());
                while let Some(piece) = pieces.next().await {
                    if sender.send(Ok(piece?)).is_err() {
                        break;
                    }
                }
                Ok(())
            };
            if let Err(failed) = outcome.await {
                // A reader that has gone needs no reason.
                let _ = sender.send(Err(failed));
            }
            drop(leave);
        });
        Self {
            pieces,
            length: last - first + 1,
            task: Task(task.abort_handle()),
        }
    }
}

impl Drop for Task {
    fn drop(&mut self) {
        self.0.abort();
    }
}
