//! Ranges of one version, at the same time, delivered in their order.
//!
//! Each range is a lane: a task that reads it into memory, at most [`Plan::parallel`] of them and each at most
//! [`Plan::part`] bytes long. The first is the answer to the first request. Bytes are delivered in order and memory is bounded,
//! so all wait for a connection that stands still or crawls. Such a lane is relieved while the client waits: the end of its
//! range is read by a request of its own. The relieved connection is closed where its new end is reached, because its rest
//! is on the way already.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use bytes::Bytes;
use futures_util::stream::{self, StreamExt as _};
use http::header::{HeaderMap, RANGE};
use http::{Method, StatusCode};
use hyper::body::Incoming;
use tokio::sync::Notify;
use tokio::sync::mpsc::{self, UnboundedReceiver, UnboundedSender};
use tokio::task::AbortHandle;
use tokio::time::sleep;

use super::{ContentRange, Reading, content_range, range_header};
use crate::failed::Failed;
use crate::gateway::Gateway;
use crate::origin::Pieces;
use crate::path::Plan;
use crate::upload::parts::Leave;

/// What is here already is handed over in less.
const AT_ONCE: Duration = Duration::from_millis(1);
/// Less is not worth a request of its own.
const WORTH_ASKING: u64 = 128 << 10;
/// A lane that is done in fewer round trips is not relieved: the helper's first byte takes one.
const SOON: u32 = 5;
/// Where no answer has told the round-trip time.
const UNKNOWN_RTT: Duration = Duration::from_millis(100);
/// Over less, what a request costs is not the round trip.
const SHORTEST_RTT: Duration = Duration::from_millis(20);
/// A lane is slow at less than this part of what most of them reach.
const SLOW: f64 = 0.25;

/// Stored bytes on their way to a client.
pub(crate) struct Delivery {
    gateway: Gateway,
    reading: Reading,
    plan: Plan,
    /// In the order of their bytes; the first is delivered now.
    lanes: VecDeque<Lane>,
    /// First byte that nobody has asked for yet.
    next: u64,
    /// Last byte of all.
    last: u64,
    /// Whenever a lane is over.
    over: Arc<Notify>,
    /// From a request to its answer.
    rtt: Duration,
}

/// A range that is read ahead; reading ends with it.
struct Lane {
    pieces: UnboundedReceiver<Result<Bytes, Failed>>,
    /// First byte that has not been delivered.
    delivered: u64,
    shared: Arc<Mutex<Progress>>,
    _task: Task,
}

/// How far a lane has come, and how far it is to go.
#[derive(Clone, Copy, Debug)]
struct Progress {
    /// First byte that has not arrived.
    at: u64,
    /// First byte that others read.
    end: u64,
    /// A moment not long ago, at first that of its answer, and the first byte that had not arrived then.
    mark: Option<(Instant, u64)>,
    /// Bytes a second in the round trip before that moment.
    recent: Option<f64>,
    /// When it was over.
    over: Option<Instant>,
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
        let end = range.last.min(last) + 1;
        let rtt = gateway.origin().path().rtt();
        let rtt = rtt.unwrap_or(UNKNOWN_RTT).max(SHORTEST_RTT);
        let mut delivery = Self {
            gateway: gateway.clone(),
            reading,
            plan,
            lanes: VecDeque::new(),
            next: end,
            last,
            over: Arc::new(Notify::new()),
            rtt,
        };
        let body = gateway.origin().pieces(body);
        let first = delivery.lane(range.first, end, Leave::Free, async move { Ok(body) });
        delivery.lanes.push_back(first);
        delivery.read_ahead();
        delivery
    }

    /// Requests that it takes, unless slow lanes are relieved.
    pub(crate) fn parts(&self) -> u64 {
        let rest = (self.last + 1).saturating_sub(self.next);
        self.lanes.len() as u64 + rest.div_ceil(self.plan.part)
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
        let asked = Instant::now();
        loop {
            let Some(lane) = self.lanes.front_mut() else {
                self.read_ahead();
                if self.lanes.is_empty() {
                    return Ok(None);
                }
                continue;
            };
            if lane.delivered == lane.progress().end {
                self.lanes.pop_front();
                self.read_ahead();
                continue;
            }
            // Only who waits for bytes looks for ways to have them sooner.
            let piece = tokio::select! {
                biased;
                piece = lane.pieces.recv() => piece,
                () = self.over.notified() => {
                    self.read_ahead();
                    self.relieve();
                    continue;
                }
                // A lane that stands still tells nobody.
                () = sleep(self.rtt) => {
                    self.relieve();
                    continue;
                }
            };
            if asked.elapsed() > AT_ONCE {
                self.gateway.origin().path().waited();
            }
            let piece = piece
                .ok_or_else(|| Failed::internal("a range's reader ended before its range"))??;
            lane.delivered += piece.len() as u64;
            return Ok(Some(piece));
        }
    }

    fn read_ahead(&mut self) {
        while self.next <= self.last {
            let Some(leave) = self.gateway.leave(self.lanes.len(), self.plan.parallel) else {
                return;
            };
            let end = (self.last + 1).min(self.next + self.plan.part);
            let lane = self.ask(self.next, end, leave);
            self.lanes.push_back(lane);
            self.next = end;
        }
    }

    fn under_way(&self) -> usize {
        let lanes = self.lanes.iter().map(Lane::progress);
        lanes.filter(|lane| lane.at < lane.end).count()
    }

    /// Lets lanes that are over take work off those that would take longest.
    fn relieve(&mut self) {
        loop {
            let now = Instant::now();
            let progress: Vec<Progress> = self.lanes.iter().map(Lane::progress).collect();
            let Some((slow, cut)) = slowest(&progress, now, self.rtt) else {
                return;
            };
            let Some(leave) = self.gateway.leave(self.under_way(), self.plan.parallel) else {
                return;
            };
            // It may have gone on meanwhile, even beyond the cut.
            let end = {
                let mut lane = self.lanes[slow].shared();
                if lane.at > cut || lane.at == lane.end {
                    return;
                }
                std::mem::replace(&mut lane.end, cut)
            };
            let helper = self.ask(cut, end, leave);
            self.lanes.insert(slow + 1, helper);
        }
    }

    /// A lane from `first` up to `end`, by a request of its own.
    fn ask(&self, first: u64, end: u64, leave: Leave) -> Lane {
        let origin = self.gateway.origin().clone();
        let mut ask = self.reading.ask(Method::GET);
        let answer = async move {
            ask.headers.insert(RANGE, range_header(first, end - 1)?);
            let response = origin.send(ask).await?;
            let same = response.status() == StatusCode::PARTIAL_CONTENT
                && content_range(response.headers())
                    .is_some_and(|range| (range.first, range.last) == (first, end - 1));
            if !same {
                return Err(Failed::unreachable(
                    "the object changed, or the origin gave another range than was asked for",
                ));
            }
            Ok(origin.pieces(response.into_body()))
        };
        self.lane(first, end, leave, answer)
    }

    fn lane(
        &self,
        first: u64,
        end: u64,
        leave: Leave,
        answer: impl Future<Output = Result<Pieces, Failed>> + Send + 'static,
    ) -> Lane {
        let begun = Progress {
            at: first,
            end,
            mark: None,
            recent: None,
            over: None,
        };
        Lane::start(begun, self.rtt, leave, &self.over, answer)
    }
}

/// Of the lanes that are much slower than most the one that would take longest, and the byte from which another should read in
/// its stead so that both are done at the same time; `None` where nobody would gain.
fn slowest(lanes: &[Progress], now: Instant, rtt: Duration) -> Option<(usize, u64)> {
    let mut rates: Vec<f64> = lanes
        .iter()
        .filter_map(|lane| lane.rate(now, rtt))
        .collect();
    rates.sort_by(f64::total_cmp);
    let usual = *rates.get(rates.len() / 2)?;
    let (index, left, rate) = lanes
        .iter()
        .enumerate()
        .filter(|(_, lane)| lane.at < lane.end)
        .filter_map(|(index, lane)| Some((index, lane.end - lane.at, lane.rate(now, rtt)?)))
        .filter(|(_, _, rate)| *rate < SLOW * usual)
        .max_by(|one, other| (seconds(one.1, one.2)).total_cmp(&seconds(other.1, other.2)))?;
    if seconds(left, rate) < (SOON * rtt).as_secs_f64() {
        return None;
    }
    // The helper has its first byte after a round trip, and is taken to be as fast as most.
    let both = (float(left) - rate * rtt.as_secs_f64()) / (rate + usual);
    let taken = bytes(usual, Duration::from_secs_f64(both.max(0.0)));
    // Small rests are not cut in two.
    let taken = if taken + WORTH_ASKING > left {
        left
    } else {
        taken
    };
    Some((index, lanes[index].end - taken))
}

/// Seconds for `bytes` at `rate` bytes a second.
fn seconds(bytes: u64, rate: f64) -> f64 {
    float(bytes) / rate
}

/// What comes at `rate` bytes a second.
#[allow(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "far less than 2^53"
)]
fn bytes(rate: f64, time: Duration) -> u64 {
    (rate * time.as_secs_f64()) as u64
}

#[allow(clippy::cast_precision_loss, reason = "far less than 2^53")]
fn float(bytes: u64) -> f64 {
    bytes as f64
}

// === impl Progress ===

impl Progress {
    /// Its answer is here.
    fn answered(&mut self, now: Instant) {
        self.mark = Some((now, self.at));
    }

    /// So many bytes more.
    fn arrived(&mut self, bytes: u64, now: Instant, rtt: Duration) {
        self.at += bytes;
        let over = self.at == self.end;
        self.over = over.then_some(now);
        // What comes within a part of a round trip tells little, unless there is nothing else.
        if let Some((then, at)) = self.mark
            && (now - then >= rtt || over && self.recent.is_none())
        {
            self.recent = Some(float(self.at - at) / (now - then).as_secs_f64().max(1e-6));
            self.mark = Some((now, self.at));
        }
    }

    /// Bytes a second of late; `None` until its answer has been here for a round trip.
    fn rate(&self, now: Instant, rtt: Duration) -> Option<f64> {
        let (then, at) = self.mark?;
        let since = now.saturating_duration_since(then);
        if self.over.is_none() && since > 2 * rtt {
            // Nothing has come for a long time.
            return Some(float((self.at - at).max(1)) / since.as_secs_f64());
        }
        self.recent
    }
}

// === impl Lane ===

impl Lane {
    /// Reads the pieces of `answer` as far as `begun` says, or as it says later on.
    fn start(
        begun: Progress,
        rtt: Duration,
        leave: Leave,
        over: &Arc<Notify>,
        answer: impl Future<Output = Result<Pieces, Failed>> + Send + 'static,
    ) -> Self {
        let (sender, pieces) = mpsc::unbounded_channel();
        let shared = Arc::new(Mutex::new(begun));
        let task = {
            let (shared, over) = (Arc::clone(&shared), Arc::clone(over));
            tokio::spawn(async move {
                let outcome = match answer.await {
                    Ok(pieces) => read(pieces, rtt, &shared, &sender).await,
                    Err(failed) => Err(failed),
                };
                if let Err(failed) = outcome {
                    // A reader that has gone needs no reason.
                    let _ = sender.send(Err(failed));
                }
                drop(leave);
                over.notify_one();
            })
        };
        Self {
            pieces,
            delivered: begun.at,
            shared,
            _task: Task(task.abort_handle()),
        }
    }

    fn shared(&self) -> MutexGuard<'_, Progress> {
        locked(&self.shared)
    }

    fn progress(&self) -> Progress {
        *self.shared()
    }
}

/// Passes on what belongs to the lane; the rest of `pieces` is dropped, with its connection.
async fn read(
    mut pieces: Pieces,
    rtt: Duration,
    shared: &Mutex<Progress>,
    sender: &UnboundedSender<Result<Bytes, Failed>>,
) -> Result<(), Failed> {
    locked(shared).answered(Instant::now());
    while let Some(piece) = pieces.next().await {
        let mut piece = piece?;
        let over = {
            let mut progress = locked(shared);
            // Others read from the end on, and an origin may give more than was asked for.
            let most = usize::try_from(progress.end - progress.at).unwrap_or(usize::MAX);
            piece.truncate(most);
            progress.arrived(piece.len() as u64, Instant::now(), rtt);
            progress.at == progress.end
        };
        if sender.send(Ok(piece)).is_err() || over {
            return Ok(());
        }
    }
    Err(Failed::unreachable("the origin ended a range early"))
}

fn locked<T>(shared: &Mutex<T>) -> MutexGuard<'_, T> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

// === impl Task ===

impl Drop for Task {
    fn drop(&mut self) {
        self.0.abort();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const RTT: Duration = Duration::from_millis(200);
    const MIB: u64 = 1 << 20;

    /// Lanes of 4 MiB, side by side, which have got so far in a second.
    fn lanes(now: Instant, got: &[u64]) -> Vec<Progress> {
        let began = now.checked_sub(Duration::from_secs(1)).unwrap();
        let lane = |(number, got): (u64, &u64)| {
            let first = number * 4 * MIB;
            Progress {
                at: first + got,
                end: first + 4 * MIB,
                mark: Some((began, first)),
                recent: Some(float(*got)),
                over: (*got == 4 * MIB).then_some(now),
            }
        };
        (0..).zip(got).map(lane).collect()
    }

    #[test]
    fn the_slow_one_keeps_what_it_brings_while_the_helper_reads_the_rest() {
        let now = Instant::now();
        let lanes = lanes(now, &[MIB / 4, 4 * MIB, 4 * MIB]);
        let (index, cut) = slowest(&lanes, now, RTT).unwrap();
        assert_eq!(index, 0);
        // 3.75 MiB are left: 0.25 MiB/s for 0.2 s, then 4.25 MiB/s together, which take 0.87 s.
        let kept = float(cut - lanes[0].at) / float(MIB);
        assert!((kept - 0.25 * (0.2 + 0.87)).abs() < 0.01, "{kept} MiB");
    }

    #[test]
    fn who_stands_still_is_relieved_of_all() {
        let now = Instant::now();
        let lanes = lanes(now, &[0, 4 * MIB, 3 * MIB]);
        assert_eq!(slowest(&lanes, now, RTT), Some((0, lanes[0].at)));
    }

    #[test]
    fn equals_are_left_alone_and_so_are_those_that_are_nearly_done() {
        let now = Instant::now();
        for got in [
            &[2 * MIB, 2 * MIB, 3 * MIB][..],
            &[MIB, MIB],
            // A quarter of a MiB is left at 0.75 MiB/s: done in 1.7 round trips.
            &[4 * MIB, 4 * MIB],
            &[],
        ] {
            assert_eq!(slowest(&lanes(now, got), now, RTT), None, "{got:?}");
        }
        let mut nearly = lanes(now, &[MIB, 4 * MIB, 4 * MIB]);
        nearly[0].end = nearly[0].at + MIB / 4;
        assert_eq!(slowest(&nearly, now, RTT), None);
        nearly[0].mark = None;
        nearly[0].end = 4 * MIB;
        assert_eq!(slowest(&nearly, now, RTT), None, "not yet answered");
    }

    proptest! {
        #[test]
        fn a_cut_lies_within_what_is_left(got in proptest::collection::vec(0..=4 * MIB, 1..12), rtt_ms in 1_u64..500) {
            let now = Instant::now();
            let lanes = lanes(now, &got);
            if let Some((index, cut)) = slowest(&lanes, now, Duration::from_millis(rtt_ms)) {
                prop_assert!(lanes[index].at <= cut && cut < lanes[index].end);
            }
        }
    }
}
