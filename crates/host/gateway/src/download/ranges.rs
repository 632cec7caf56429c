//! Ranges of one version, at the same time, delivered in their order.
//!
//! Readers, at most [`Plan::parallel`] of them and each with a connection of its own, read one range after the other, so that
//! no connection rests while there is something to ask for. Bytes are delivered in order and memory is bounded, so all wait
//! for a connection that is slow. That is why a range is only as long as its connection needs for three windows, for one or two
//! where as much as the path holds waits already, and why one that stands still or crawls is relieved while the client waits: the
//! end of its range is read by a request of its own. The relieved connection is closed where its new end is reached, because its
//! rest is on the way already.

mod progress;
#[cfg(test)]
mod tests;

use std::collections::VecDeque;
use std::future::ready;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use bytes::Bytes;
use envelope::{Early, Opening, Piece};
use futures_util::stream::{self, Stream, StreamExt as _};
use http::header::{HeaderMap, RANGE};
use http::{Method, StatusCode};
use hyper::body::Incoming;
use tokio::sync::mpsc::{self, UnboundedReceiver, UnboundedSender};
use tokio::sync::{Notify, oneshot};
use tokio::task::JoinSet;
use tokio::time::sleep;
use units::Rate;

use super::{ContentRange, Reading, content_range, range_header};
use crate::failed::Failed;
use crate::gateway::Gateway;
use crate::known::Version;
use crate::origin::{Line, Pieces};
use crate::path::{FIRST_RANGE, Flight, LONG, Plan, SMALLEST_RANGE};
use crate::upload::parts::Leave;
use progress::{BESIDE_OTHERS, BY_A_BEGINNER, OTHERS_REST, Progress, slowest, usual};

/// What is here already is handed over in less.
const AT_ONCE: Duration = Duration::from_millis(1);
/// Of so many ranges most tell what is usual.
const RATES: usize = 32;
/// A range is at most as long as what its connection brings in so many round trips: one that is slow must not have much for
/// which others could wait.
const MOST_WINDOWS: u64 = 3;
/// What a connection that has yet to open its window brings in its first round trip: ten packets (RFC 6928, section 2).
const FIRST_WINDOW: u64 = 14_000;
/// So many round trips a connection takes for a range from ten packets on.
const ROUND_TRIPS_BEFORE_THE_END: u64 = 4;
/// Round trips of a full path that an object takes at least whose first ranges take turns.
const WORTH_TURNS: u64 = 8;
/// Where a connection breaks, what has not arrived of its range is asked for again, over another: so often, and so many round
/// trips later. The first time at once: that one has broken tells nothing about others.
const AGAIN: [u32; 4] = [0, 1, 2, 4];
/// Where no answer has told the round-trip time.
const UNKNOWN_RTT: Duration = Duration::from_millis(100);

/// Stored bytes on their way to a client.
pub(crate) struct Delivery {
    shared: Arc<Shared>,
    began: Instant,
    /// Delivered now.
    front: Range,
    /// They end with this.
    readers: JoinSet<()>,
}

/// What all readers know.
struct Shared {
    gateway: Gateway,
    reading: Reading,
    /// Last byte of all.
    last: u64,
    /// From a request to its answer.
    rtt: Duration,
    /// What decrypts the object, if it is encrypted and as soon as that is known.
    early: OnceLock<Early>,
    state: Mutex<State>,
    /// Whenever a range has been begun, or a reader has come to its end.
    moved: Notify,
}

struct State {
    plan: Plan,
    /// Whether nobody knew the path's rate when that was made.
    guessed: bool,
    /// Of the range that is delivered now.
    front: Arc<Mutex<Progress>>,
    /// In the order of their bytes, behind the one that is delivered now.
    ranges: VecDeque<Range>,
    /// First byte that nobody has asked for yet.
    next: u64,
    /// First byte that has not been delivered.
    delivered: u64,
    /// Ranges.
    begun: u64,
    /// Bytes a second of the last ones.
    rates: VecDeque<f64>,
}

/// The deliverer's end of a range.
struct Range {
    pieces: UnboundedReceiver<Result<Piece, Failed>>,
    progress: Arc<Mutex<Progress>>,
    early: Arc<Mutex<Option<Early>>>,
}

/// The reader's end of a range.
struct Task {
    /// Who begins with it waits so long.
    turn: Duration,
    end: u64,
    pieces: UnboundedSender<Result<Piece, Failed>>,
    progress: Arc<Mutex<Progress>>,
    /// Decrypts it, once the object's key is known. Locked until what comes out of it is on its way.
    early: Arc<Mutex<Option<Early>>>,
}

/// Reads a range, and then others as long as there is room for them.
struct Reader {
    shared: Arc<Shared>,
    line: Line,
    leave: Leave,
}

/// A delivery whose first answer is not here yet, of an object that is taken for one that was seen before.
pub(crate) struct Ahead {
    delivery: Delivery,
    first: oneshot::Sender<Pieces>,
    version: Version,
    range: (u64, u64),
}

// === impl Ahead ===

impl Ahead {
    /// Asks for what lies behind `range`, from its first byte to below its second, up to `last`. Somebody else asks for the range.
    pub(crate) fn begin(
        gateway: &Gateway,
        reading: &Reading,
        version: Version,
        range: (u64, u64),
        last: u64,
    ) -> Self {
        let (first, answer) = oneshot::channel();
        let answer = async {
            let given_up = |_| Failed::internal("a download's first range was given up");
            answer.await.map_err(given_up)
        };
        Self {
            delivery: Delivery::of(gateway, reading, &version.head(), range, last, answer),
            first,
            version,
            range,
        }
    }

    /// Whether the object is what it was taken for: `head` describes it, its first answer is `range`, and it is wanted up to
    /// `last`.
    pub(crate) fn fits(&self, head: &HeaderMap, range: ContentRange, last: u64) -> bool {
        self.version.is_of(head)
            && (range.first, range.last + 1) == self.range
            && last == self.delivery.shared.last
    }

    /// Delivers it; `body` is its first range.
    pub(crate) fn go_on(self, gateway: &Gateway, body: Incoming) -> Delivery {
        // Its reader waits for nothing else.
        let _ = self.first.send(gateway.origin().pieces(body));
        self.delivery
    }
}

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
    ) -> Self {
        let first = (range.first, range.last.min(last) + 1);
        let pieces = gateway.origin().pieces(body);
        Self::of(gateway, reading, head, first, last, ready(Ok(pieces)))
    }

    /// Delivers what `answer` brings, from the first of `first` to below the second, and then all up to `last`, of the version
    /// that `head` names.
    fn of(
        gateway: &Gateway,
        reading: &Reading,
        head: &HeaderMap,
        first: (u64, u64),
        last: u64,
        answer: impl Future<Output = Result<Pieces, Failed>> + Send + 'static,
    ) -> Self {
        // Only now: the first answer, where it is here, tells how long the path is.
        let plan = gateway.reading_plan();
        let mut reading = reading.clone();
        reading.pin(head);
        let (first, end) = first;
        let (front, task) = Range::new(first, end);
        let rtt = gateway.origin().path().rtt();
        let shared = Arc::new(Shared {
            gateway: gateway.clone(),
            reading,
            last,
            rtt: rtt.unwrap_or(UNKNOWN_RTT).max(LONG),
            early: OnceLock::new(),
            state: Mutex::new(State {
                plan,
                guessed: gateway.origin().path().rate().is_none(),
                front: Arc::clone(&front.progress),
                ranges: VecDeque::new(),
                next: end,
                delivered: first,
                begun: 0,
                rates: VecDeque::new(),
            }),
            moved: Notify::new(),
        });
        let mut readers = JoinSet::new();
        readers.spawn(Arc::clone(&shared).first(task, answer));
        let mut delivery = Self {
            shared,
            began: Instant::now(),
            front,
            readers,
        };
        delivery.hire();
        delivery
    }

    /// Requests that it takes at least.
    pub(crate) fn parts(&self) -> u64 {
        let state = self.shared.state();
        let rest = (self.shared.last + 1).saturating_sub(state.next);
        1 + state.ranges.len() as u64 + rest.div_ceil(state.plan.part)
    }

    /// Has chunks decrypted where and when they arrive, for this.
    pub(crate) fn decrypt(&self, opening: &Opening) {
        self.shared.early.get_or_init(|| opening.early());
    }

    pub(crate) fn into_pieces(self) -> Pieces {
        Box::pin(self.into_stream().map(|piece| piece.map(Piece::into_bytes)))
    }

    pub(crate) fn into_stream(self) -> impl Stream<Item = Result<Piece, Failed>> + Send {
        stream::unfold(Some(self), |delivery| async move {
            let mut delivery = delivery?;
            match delivery.next().await {
                Ok(None) => None,
                Ok(Some(piece)) => Some((Ok(piece), Some(delivery))),
                Err(failed) => Some((Err(failed), None)),
            }
        })
    }

    async fn next(&mut self) -> Result<Option<Piece>, Failed> {
        let asked = Instant::now();
        loop {
            self.hire();
            let delivered = self.shared.state().delivered;
            // Only who waits for bytes looks for ways to have them sooner.
            let piece = tokio::select! {
                biased;
                piece = self.front.next(delivered) => piece,
                () = self.shared.moved.notified() => {
                    self.relieve();
                    continue;
                }
                // A connection that stands still tells nobody.
                () = sleep(self.shared.rtt) => {
                    self.relieve();
                    continue;
                }
            };
            if let Some(piece) = piece {
                if asked.elapsed() > AT_ONCE && !self.shared.is_asked_for() {
                    let began = self.began.elapsed();
                    self.shared.gateway.origin().path().waited(began);
                }
                let piece = piece?;
                self.shared.state().delivered += piece.stored();
                return Ok(Some(piece));
            }
            let next = {
                let mut state = self.shared.state();
                let next = state.ranges.pop_front();
                if let Some(next) = &next {
                    state.front = Arc::clone(&next.progress);
                }
                next
            };
            match next {
                Some(next) => self.front = next,
                None if self.shared.is_asked_for() => return Ok(None),
                // Others hold all leaves but that of a reader who is about to end, or to begin a range.
                None => tokio::select! {
                    _ = self.readers.join_next() => {}
                    () = self.shared.moved.notified() => {}
                },
            }
        }
    }

    /// As many readers as there is something to read for.
    fn hire(&mut self) {
        while self.shared.state().wanted(&self.shared, None).is_some() {
            let Some(leave) = self.leave() else { return };
            let line = self.shared.gateway.origin().line();
            let Some(task) = self.shared.task(line.flight) else {
                return;
            };
            self.begin_with(task, line, leave);
        }
    }

    /// Lets others take work off those that would take longest.
    fn relieve(&mut self) {
        loop {
            let Some(leave) = self.leave() else { return };
            let task = {
                let mut state = self.shared.state();
                let all = std::iter::once(&self.front).chain(&state.ranges);
                let progress: Vec<Progress> = all.map(Range::progress).collect();
                let Some(usual) = usual(state.rates.iter().copied()) else {
                    return;
                };
                let helper = self.shared.gateway.origin().next_flight();
                let others_rest = if state.plan.is_little(helper) {
                    BY_A_BEGINNER
                } else {
                    OTHERS_REST
                };
                let slowest =
                    |some, mercy| slowest(some, usual, mercy, Instant::now(), self.shared.rtt);
                let found = if state.next > self.shared.last {
                    slowest(&progress, others_rest)
                } else if state.wanted(&self.shared, None).is_none() {
                    // All wait for the one that is delivered now.
                    let front = slowest(&progress[..1], others_rest);
                    front.or_else(|| slowest(&progress, BESIDE_OTHERS))
                } else {
                    slowest(&progress, BESIDE_OTHERS)
                };
                let Some((slow, cut)) = found else { return };
                let range = match slow.checked_sub(1) {
                    None => &self.front,
                    Some(behind) => &state.ranges[behind],
                };
                let Some(end) = cut_at(&range.progress, cut) else {
                    return;
                };
                let (range, task) = Range::new(cut, end);
                state.ranges.insert(slow, range);
                task
            };
            let line = self.shared.gateway.origin().line();
            self.begin_with(task, line, leave);
        }
    }

    fn leave(&mut self) -> Option<Leave> {
        while self.readers.try_join_next().is_some() {}
        let parallel = self.shared.state().plan.parallel;
        self.shared.gateway.leave(self.readers.len(), parallel)
    }

    /// A reader begins with this range when it is its turn.
    fn begin_with(&mut self, task: Task, line: Line, leave: Leave) {
        let reader = Reader {
            shared: Arc::clone(&self.shared),
            line,
            leave,
        };
        self.readers.spawn(async move {
            sleep(task.turn).await;
            reader.read(task).await;
        });
    }
}

// === impl Shared ===

impl Shared {
    /// The range that somebody else has asked for.
    async fn first(
        self: Arc<Self>,
        task: Task,
        answer: impl Future<Output = Result<Pieces, Failed>> + Send,
    ) {
        let mut outcome = task.read(answer, self.rtt, &self.early).await;
        if outcome.as_ref().is_err_and(Failed::may_pass) {
            locked(&task.progress).broke(Instant::now());
            let mut line = self.gateway.origin().line();
            outcome = self.bring(&task, &mut line).await;
            line.broken = outcome.is_err() || !task.is_whole();
        }
        task.end(outcome);
        self.moved.notify_one();
    }

    /// Reads what has not arrived of a range, over `line` and over others where that breaks.
    async fn bring(&self, task: &Task, line: &mut Line) -> Result<(), Failed> {
        let mut waits = AGAIN.into_iter();
        loop {
            let Some(rest) = task.rest() else {
                return Ok(());
            };
            let asked = self.ask(line, rest);
            let outcome = task.read(asked, self.rtt, &self.early).await;
            let Some(wait) = waits
                .next()
                .filter(|_| outcome.as_ref().is_err_and(Failed::may_pass))
            else {
                return outcome;
            };
            locked(&task.progress).broke(Instant::now());
            sleep(self.rtt * wait).await;
            line.broken = true;
            *line = self.gateway.origin().line();
        }
    }

    /// Asks for the bytes from `first` to below `end`.
    async fn ask(&self, line: &mut Line, (first, end): (u64, u64)) -> Result<Pieces, Failed> {
        let mut ask = self.reading.ask(Method::GET);
        ask.headers.insert(RANGE, range_header(first, end - 1)?);
        let response = line.send(ask).await?;
        let status = response.status();
        if status.is_server_error() {
            let text = format!("the origin answered {status} in the middle");
            return Err(Failed::cut_off(text));
        }
        let same = status == StatusCode::PARTIAL_CONTENT
            && content_range(response.headers())
                .is_some_and(|range| (range.first, range.last) == (first, end - 1));
        if !same {
            return Err(Failed::unreachable(
                "the object changed, or the origin gave another range than was asked for",
            ));
        }
        Ok(line.pieces(response.into_body()))
    }

    /// The next range for a connection of this flight, as far as it is known; `None` where there is nothing left or no room.
    fn task(&self, flight: Option<Flight>) -> Option<Task> {
        let mut state = self.state();
        let rate = self.gateway.origin().path().rate();
        state.learn(rate, || self.gateway.reading_plan());
        let memory = state.plan.memory;
        if let Some(task) = state.take_over(memory, self.rtt) {
            return Some(task);
        }
        // There may be too many for it.
        if state.under_way() >= state.plan.parallel {
            return None;
        }
        let end = state.wanted(self, flight)?;
        let (range, mut task) = Range::new(state.next, end);
        if flight.is_none() {
            task.turn = state.turn(self.last, self.rtt);
        }
        state.ranges.push_back(range);
        state.next = end;
        state.begun += 1;
        self.moved.notify_one();
        Some(task)
    }

    /// Whether nothing is left to be asked for.
    fn is_asked_for(&self) -> bool {
        self.state().next > self.last
    }

    fn state(&self) -> MutexGuard<'_, State> {
        locked(&self.state)
    }
}

// === impl State ===

impl State {
    /// Plans anew where nobody knew the path's rate: it shows only while something is under way. Once: who would follow what comes
    /// in, by asking for as much again, follows his own waves.
    fn learn(&mut self, rate: Option<Rate>, plan: impl FnOnce() -> Plan) {
        if self.guessed && rate.is_some() {
            self.plan = plan();
            self.guessed = false;
        }
    }

    /// Where a range would end that begins with the next byte, for a connection of this flight.
    fn wanted(&self, shared: &Shared, flight: Option<Flight>) -> Option<u64> {
        let plan = self.plan;
        let left = (shared.last + 1).saturating_sub(self.next);
        if self.is_for_others(left, flight) {
            return None;
        }
        let length = flight.map_or_else(
            || self.first_length(),
            |flight| next_length(flight, plan, left, self.waits_much()),
        );
        // The last ones are the shorter the less is left: who comes to the end early must not wait for who has just begun. But so
        // short that together they no longer fill the path, the end would take longer.
        let fair = (left / plan.parallel as u64).max(plan.least);
        let end = self.next + length.min(fair).min(left);
        (self.next < end && self.has_room(end)).then_some(end)
    }

    /// Whether all below `end` may be asked for now.
    fn has_room(&self, end: u64) -> bool {
        let fits = end - self.delivered <= self.plan.memory;
        fits && self.plan.waiting.is_none_or(|most| self.waiting() < most)
    }

    /// Whether the bytes that are `left` to be asked for are for others than a connection of this flight: near the end one that
    /// brings little, or has yet to show what it brings, would keep the client waiting for some round trips when all others are
    /// done.
    fn is_for_others(&self, left: u64, flight: Option<Flight>) -> bool {
        let plan = self.plan;
        let near = plan.round_trips(left) < ROUND_TRIPS_BEFORE_THE_END && self.rates.len() == RATES;
        // As long as many others come for more.
        near && plan.is_little(flight) && 2 * self.under_way() > plan.parallel
    }

    /// Ranges of which something has yet to come.
    fn under_way(&self) -> usize {
        let front = *locked(&self.front);
        let all = std::iter::once(front).chain(self.ranges.iter().map(Range::progress));
        all.filter(|range| range.at < range.end).count()
    }

    /// Bytes that are here and wait for those of the range that is delivered now.
    fn waiting(&self) -> u64 {
        self.ranges
            .iter()
            .map(|range| range.progress().here())
            .sum()
    }

    /// Whether as much as the path holds is here and waits for others: the path is full, and more windows at a time only make more
    /// wait.
    fn waits_much(&self) -> bool {
        self.client_waits() && self.waiting() >= self.plan.held()
    }

    /// Whether the client takes all that comes over a long path. Where others wait for a client that is slow, short ranges would
    /// bring nothing but requests.
    fn client_waits(&self) -> bool {
        self.plan.is_long() && locked(&self.front).at < self.delivered + SMALLEST_RANGE
    }

    /// The end of the range that is delivered now, where half of what memory holds waits for it already and it would take long yet:
    /// who asks for work helps there, before all others have to rest.
    fn take_over(&mut self, memory: u64, rtt: Duration) -> Option<Task> {
        if self.waiting() < memory / 2 {
            return None;
        }
        let usual = usual(self.rates.iter().copied())?;
        let front = *locked(&self.front);
        let (_, cut) = slowest(&[front], usual, OTHERS_REST, Instant::now(), rtt)?;
        let end = cut_at(&self.front, cut)?;
        let (range, task) = Range::new(cut, end);
        self.ranges.push_front(range);
        Some(task)
    }

    /// From 1.25 to 3 times a connection's share of the path, the later the longer: slow start brings about twice a window until it
    /// has opened it, and those who begin together must not all rest for a round trip at the same time, nor before their windows
    /// fill the path. The slowest of them must not have much. Who begins when all others have, in the place of one that was
    /// relieved, has its first window only: all would wait for it.
    fn first_length(&self) -> u64 {
        let plan = self.plan;
        let all = plan.parallel as u64;
        if self.client_waits() && self.begun >= all {
            return FIRST_WINDOW;
        }
        let quarter = plan.part / 4;
        let length = 5 * quarter + 7 * quarter * (self.begun % all) / all;
        let most = (2 * FIRST_RANGE).min(plan.memory / 2 / all);
        length.min(most).max(SMALLEST_RANGE)
    }

    /// When the next range is asked for, over a connection that begins with ten packets as others do: all at once, their packets
    /// queue, and a store's CUBIC takes the delay for a full path and ends their slow start (HyStart) at half of what the path
    /// holds. So they begin within a round trip, one after the other. Where all is here in a few, that would be long.
    fn turn(&self, last: u64, rtt: Duration) -> Duration {
        let plan = self.plan;
        let all = plan.parallel as u64;
        let is_short = plan.round_trips((last + 1).saturating_sub(self.delivered)) < WORTH_TURNS;
        if !plan.is_long() || self.begun >= all || is_short {
            return Duration::ZERO;
        }
        let count = |ranges: u64| u32::try_from(ranges).unwrap_or(u32::MAX);
        rtt / count(all) * count(self.begun)
    }

    fn remember(&mut self, rate: Option<f64>) {
        if self.rates.len() == RATES {
            self.rates.pop_front();
        }
        self.rates.extend(rate);
    }
}

// === impl Range ===

impl Range {
    fn new(first: u64, end: u64) -> (Self, Task) {
        let (sender, pieces) = mpsc::unbounded_channel();
        let progress = Arc::new(Mutex::new(Progress::of(first, end)));
        let early = Arc::default();
        let task = Task {
            turn: Duration::ZERO,
            end,
            pieces: sender,
            progress: Arc::clone(&progress),
            early: Arc::clone(&early),
        };
        let range = Self {
            pieces,
            progress,
            early,
        };
        (range, task)
    }

    /// The next piece, where all below the stored byte `delivered` has been delivered; `None` once that is the range's end. Nothing
    /// is lost if it is dropped while it waits.
    async fn next(&mut self, delivered: u64) -> Option<Result<Piece, Failed>> {
        let progress = self.progress();
        if progress.at == progress.end
            && let Some(piece) = self.left_over()
        {
            return Some(Ok(piece));
        }
        if delivered == progress.end {
            return None;
        }
        let piece = self.pieces.recv().await;
        // It may have been cut meanwhile, where its reader had come to.
        if piece.is_none() && delivered != self.progress().end {
            let early = "a range's reader ended before its range";
            return Some(Err(Failed::internal(early)));
        }
        piece
    }

    /// What its reader has of a chunk whose end others bring. All of the range has arrived, but where it was cut its reader need not
    /// come by any more.
    fn left_over(&self) -> Option<Piece> {
        let mut early = locked(&self.early);
        // What it has sent stands before that.
        let early = early.as_mut().filter(|_| self.pieces.is_empty());
        early.and_then(Early::give_up)
    }

    fn progress(&self) -> Progress {
        *locked(&self.progress)
    }
}

// === impl Reader ===

impl Reader {
    async fn read(mut self, mut task: Task) {
        let shared = Arc::clone(&self.shared);
        let rtt = shared.rtt;
        loop {
            let outcome = shared.bring(&task, &mut self.line).await;
            let whole = task.is_whole();
            let progress = *locked(&task.progress);
            shared.state().remember(progress.mean());
            let flight = progress.flight(rtt, self.line.flight);
            let failed = outcome.is_err();
            task.end(outcome);
            self.line.broken = failed || !whole;
            if failed {
                break;
            }
            self.line.flight = flight;
            if !whole {
                // Its rest is on the way.
                self.line = shared.gateway.origin().line();
            }
            // Others may have waited longer for it.
            if matches!(self.leave, Leave::Counted(_)) {
                self.leave = Leave::Free;
                let parallel = shared.state().plan.parallel;
                match shared.gateway.leave(1, parallel) {
                    Some(leave) => self.leave = leave,
                    None => break,
                }
            }
            let Some(another) = shared.task(self.line.flight) else {
                break;
            };
            task = another;
        }
        drop(self);
        shared.moved.notify_one();
    }
}

// === impl Task ===

impl Task {
    /// What has not arrived of it, from the first byte to below the second; `None` where that is nothing.
    fn rest(&self) -> Option<(u64, u64)> {
        let progress = locked(&self.progress);
        (progress.at < progress.end).then_some((progress.at, progress.end))
    }

    /// Whether it was never cut.
    fn is_whole(&self) -> bool {
        locked(&self.progress).end == self.end
    }

    /// Reads the range from `answer`, unless it has been delivered meanwhile: others may have read all that was left of one that
    /// stands still.
    async fn read(
        &self,
        answer: impl Future<Output = Result<Pieces, Failed>>,
        rtt: Duration,
        known: &OnceLock<Early>,
    ) -> Result<(), Failed> {
        let reading = async { self.fill(answer.await?, rtt, known).await };
        tokio::select! {
            biased;
            outcome = reading => outcome,
            () = self.pieces.closed() => Ok(()),
        }
    }

    /// Passes on what belongs to the range; the rest of `pieces` is dropped, with its connection.
    async fn fill(
        &self,
        mut pieces: Pieces,
        rtt: Duration,
        known: &OnceLock<Early>,
    ) -> Result<(), Failed> {
        locked(&self.progress).answered(Instant::now());
        while let Some(piece) = pieces.next().await {
            let mut piece = piece?;
            let (at, over) = {
                let mut progress = locked(&self.progress);
                let at = progress.at;
                // Others read from the end on, and an origin may give more than was asked for.
                let most = usize::try_from(progress.end - at).unwrap_or(usize::MAX);
                piece.truncate(most);
                progress.arrived(piece.len() as u64, Instant::now(), rtt);
                (at, progress.at == progress.end)
            };
            let is_heard = self.send(at, piece, over, known)?;
            if over || !is_heard {
                return Ok(());
            }
        }
        Err(Failed::cut_off("the origin ended a range early"))
    }

    /// Sends bytes that begin with the stored byte `at`, decrypted as far as they can be; whether anybody hears it.
    fn send(
        &self,
        at: u64,
        bytes: Bytes,
        over: bool,
        known: &OnceLock<Early>,
    ) -> Result<bool, Failed> {
        let mut early = locked(&self.early);
        if early.is_none() {
            *early = known.get().cloned();
        }
        let Some(early) = early.as_mut() else {
            return Ok(self.pieces.send(Ok(bytes.into())).is_ok());
        };
        let mut pieces = Vec::new();
        let outcome = early.open(at, bytes, &mut pieces);
        if over {
            pieces.extend(early.give_up());
        }
        let is_heard = pieces
            .into_iter()
            .all(|piece| self.pieces.send(Ok(piece)).is_ok());
        outcome?;
        Ok(is_heard)
    }

    /// Tells the deliverer why there is no more. Where the range was cut meanwhile, what is here may be all of it.
    fn end(&self, outcome: Result<(), Failed>) {
        if let Err(failed) = outcome {
            let mut early = locked(&self.early);
            let rest = early.as_mut().and_then(Early::give_up);
            // A reader that has gone needs no reason.
            for last in rest.map(Ok).into_iter().chain([Err(failed)]) {
                let _ = self.pieces.send(last);
            }
        }
    }
}

/// Bytes that a connection of this flight should be asked for next, of so many that are `left`. Whole windows, since what is a
/// little longer takes one more round trip in which little moves. One that is not filled does not grow: more than half of what it
/// should be is asked for more. Near the end, and where much waits for the client, nobody should be left that takes a round trip
/// more than the others.
fn next_length(flight: Flight, plan: Plan, left: u64, waits_much: bool) -> u64 {
    if plan.round_trips(left) < 2 {
        return flight.sure.max(FIRST_WINDOW).min(plan.part);
    }
    // In slow start the next window is as much again.
    let window = flight.sure.max(1) * if flight.grows { 2 } else { 1 };
    // Not two windows more where it is nearly one: together they would have more in flight than path and queue hold.
    if window >= plan.part / 4 * 3 {
        return plan.part;
    }
    if waits_much {
        // Windows of this size fill the path, or have to grow for it.
        let windows = if window < plan.least { 2 } else { 1 };
        return (windows * window).max(FIRST_WINDOW).min(plan.part);
    }
    if !flight.grows {
        // One window and a bit of the next would take two round trips. Their windows bound what all of these have in flight, to
        // less than ranges of a part each do.
        let room = plan.memory / 2 / plan.parallel as u64;
        let most = room.max(plan.part);
        return (window * MOST_WINDOWS).max(SMALLEST_RANGE).min(most);
    }
    match plan.part / window {
        0 | 1 => plan.part,
        windows => {
            let length = window * windows.min(MOST_WINDOWS);
            length.max(SMALLEST_RANGE).min(plan.part)
        }
    }
}

/// Ends a range at `cut`, and returns where it was to end; `None` where it has gone on meanwhile, even beyond the cut.
fn cut_at(progress: &Mutex<Progress>, cut: u64) -> Option<u64> {
    let mut progress = locked(progress);
    let open = progress.at <= cut && progress.at < progress.end;
    open.then(|| std::mem::replace(&mut progress.end, cut))
}

fn locked<T>(shared: &Mutex<T>) -> MutexGuard<'_, T> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}
