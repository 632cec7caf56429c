//! Ranges of one version, at the same time, delivered in their order.
//!
//! Readers, at most [`Plan::parallel`] of them and each with a connection of its own, read one range after the other, so that
//! no connection rests while there is something to ask for. Bytes are delivered in order and memory is bounded, so all wait
//! for a connection that is slow. That is why a range is only as long as its connection needs for three windows, and why one
//! that stands still or crawls is relieved while the client waits: the end of its range is read by a request of its own. The
//! relieved connection is closed where its new end is reached, because its rest is on the way already.

mod progress;

use std::collections::VecDeque;
use std::future::ready;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use bytes::Bytes;
use futures_util::stream::{self, StreamExt as _};
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
/// So many round trips a connection takes for a range from ten packets on.
const ROUND_TRIPS_BEFORE_THE_END: u64 = 4;
/// Where no answer has told the round-trip time.
const UNKNOWN_RTT: Duration = Duration::from_millis(100);

/// Stored bytes on their way to a client.
pub(crate) struct Delivery {
    shared: Arc<Shared>,
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
    pieces: UnboundedReceiver<Result<Bytes, Failed>>,
    progress: Arc<Mutex<Progress>>,
}

/// The reader's end of a range.
struct Task {
    first: u64,
    end: u64,
    pieces: UnboundedSender<Result<Bytes, Failed>>,
    progress: Arc<Mutex<Progress>>,
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
            self.hire();
            if self.shared.state().delivered == self.front.progress().end {
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
                continue;
            }
            // Only who waits for bytes looks for ways to have them sooner.
            let piece = tokio::select! {
                biased;
                piece = self.front.pieces.recv() => piece,
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
            if asked.elapsed() > AT_ONCE {
                self.shared.gateway.origin().path().waited();
            }
            let piece = piece
                .ok_or_else(|| Failed::internal("a range's reader ended before its range"))??;
            self.shared.state().delivered += piece.len() as u64;
            return Ok(Some(piece));
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

    fn begin_with(&mut self, task: Task, line: Line, leave: Leave) {
        let reader = Reader {
            shared: Arc::clone(&self.shared),
            line,
            leave,
        };
        self.readers.spawn(reader.read(task));
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
        let outcome = task.read(answer, self.rtt).await;
        task.end(outcome);
        self.moved.notify_one();
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
        let (range, task) = Range::new(state.next, end);
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
            |flight| next_length(flight, plan, left),
        );
        // The last ones are the shorter the less is left: who comes to the end early must not wait for who has just begun. But so
        // short that together they no longer fill the path, the end would take longer.
        let fair = (left / plan.parallel as u64).max(plan.least);
        let end = self.next + length.min(fair).min(left);
        let fits = end - self.delivered <= plan.memory;
        (self.next < end && fits).then_some(end)
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

    /// The end of the range that is delivered now, where half of what memory holds waits for it already and it would take long yet:
    /// who asks for work helps there, before all others have to rest.
    fn take_over(&mut self, memory: u64, rtt: Duration) -> Option<Task> {
        let waiting = self.ranges.iter().map(|range| range.progress().here());
        if waiting.sum::<u64>() < memory / 2 {
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
    /// fill the path. The slowest of them must not have much.
    fn first_length(&self) -> u64 {
        let plan = self.plan;
        let all = plan.parallel as u64;
        let quarter = plan.part / 4;
        let length = 5 * quarter + 7 * quarter * (self.begun % all) / all;
        let most = (2 * FIRST_RANGE).min(plan.memory / 2 / all);
        length.min(most).max(SMALLEST_RANGE)
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
        let task = Task {
            first,
            end,
            pieces: sender,
            progress: Arc::clone(&progress),
        };
        (Self { pieces, progress }, task)
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
            let asked = self.ask((task.first, task.end));
            let outcome = task.read(asked, rtt).await;
            let (whole, flight) = {
                let progress = *locked(&task.progress);
                shared.state().remember(progress.mean());
                (progress.end == task.end, progress.flight(rtt))
            };
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

    /// Asks for the bytes from `first` to below `end`.
    async fn ask(&mut self, (first, end): (u64, u64)) -> Result<Pieces, Failed> {
        let mut ask = self.shared.reading.ask(Method::GET);
        ask.headers.insert(RANGE, range_header(first, end - 1)?);
        let response = self.line.send(ask).await?;
        let same = response.status() == StatusCode::PARTIAL_CONTENT
            && content_range(response.headers())
                .is_some_and(|range| (range.first, range.last) == (first, end - 1));
        if !same {
            return Err(Failed::unreachable(
                "the object changed, or the origin gave another range than was asked for",
            ));
        }
        Ok(self.line.pieces(response.into_body()))
    }
}

// === impl Task ===

impl Task {
    /// Reads the range from `answer`, unless it has been delivered meanwhile: others may have read all that was left of one that
    /// stands still.
    async fn read(
        &self,
        answer: impl Future<Output = Result<Pieces, Failed>>,
        rtt: Duration,
    ) -> Result<(), Failed> {
        let reading = async { self.fill(answer.await?, rtt).await };
        tokio::select! {
            biased;
            outcome = reading => outcome,
            () = self.pieces.closed() => Ok(()),
        }
    }

    /// Passes on what belongs to the range; the rest of `pieces` is dropped, with its connection.
    async fn fill(&self, mut pieces: Pieces, rtt: Duration) -> Result<(), Failed> {
        locked(&self.progress).answered(Instant::now());
        while let Some(piece) = pieces.next().await {
            let mut piece = piece?;
            let over = {
                let mut progress = locked(&self.progress);
                // Others read from the end on, and an origin may give more than was asked for.
                let most = usize::try_from(progress.end - progress.at).unwrap_or(usize::MAX);
                piece.truncate(most);
                progress.arrived(piece.len() as u64, Instant::now(), rtt);
                progress.at == progress.end
            };
            if self.pieces.send(Ok(piece)).is_err() || over {
                return Ok(());
            }
        }
        Err(Failed::unreachable("the origin ended a range early"))
    }

    /// Tells the deliverer why there is no more.
    fn end(&self, outcome: Result<(), Failed>) {
        if let Err(failed) = outcome {
            // A reader that has gone needs no reason.
            let _ = self.pieces.send(Err(failed));
        }
    }
}

/// Bytes that a connection of this flight should be asked for next, of so many that are `left`. Whole windows, since what is a
/// little longer takes one more round trip in which little moves. One that is not filled does not grow: more than half of what it
/// should be is asked for more. Near the end nobody should be left that takes a round trip more than the others.
fn next_length(flight: Flight, plan: Plan, left: u64) -> u64 {
    if plan.round_trips(left) < 2 {
        return flight.sure.clamp(1, plan.part);
    }
    // In slow start the next window is as much again.
    let window = flight.sure.max(1) * if flight.grows { 2 } else { 1 };
    if window >= plan.part {
        return plan.part;
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

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn who_reads_what_has_been_delivered_ends() {
        let (range, task) = Range::new(0, 10);
        // Others have read it all.
        locked(&range.progress).end = 0;
        drop(range);
        let reading = task.read(std::future::pending(), UNKNOWN_RTT);
        let ended = tokio::time::timeout(Duration::from_mins(1), reading).await;
        ended.unwrap().unwrap();
    }

    #[test]
    fn near_the_end_who_brings_little_leaves_the_rest_to_many_others() {
        const MIB: u64 = 1 << 20;
        let plan = Plan {
            part: MIB,
            spread: 0,
            first: MIB,
            least: MIB,
            parallel: 4,
            memory: 64 * MIB,
        };
        let (front, _task) = Range::new(0, MIB);
        let (ranges, _tasks): (VecDeque<_>, Vec<_>) = (1..4)
            .map(|number| Range::new(number * MIB, (number + 1) * MIB))
            .unzip();
        let state = |under_way: usize, rates: usize| {
            for (number, range) in (0..).zip(std::iter::once(&front).chain(&ranges)) {
                let mut progress = locked(&range.progress);
                let end = progress.end;
                progress.at = if number < under_way { end - 1 } else { end };
            }
            State {
                plan,
                guessed: false,
                front: Arc::clone(&front.progress),
                ranges: VecDeque::new(),
                next: 4 * MIB,
                delivered: 0,
                begun: 4,
                rates: vec![1e6; rates].into(),
            }
        };
        let with = |under_way, rates, left, flight| {
            let mut state = state(under_way, rates);
            state.ranges = ranges.iter().map(share).collect();
            state.is_for_others(left, flight)
        };
        let near = 4 * 4 * MIB - 1;
        let of = |sure| Some(Flight { sure, grows: false });
        for little in [None, of(MIB / 2 - 1)] {
            assert!(with(3, RATES, near, little));
            // Long before the end, or at the beginning of it all, it may still grow.
            assert!(!with(3, RATES, near + 1, little));
            assert!(!with(3, RATES - 1, near, little));
            // Nobody else might come.
            assert!(!with(2, RATES, near, little));
        }
        assert!(!with(3, RATES, near, of(MIB / 2)));
    }

    #[test]
    fn a_download_over_an_unknown_path_is_planned_anew_once() {
        let plan = |parallel| Plan {
            part: FIRST_RANGE,
            spread: 0,
            first: FIRST_RANGE,
            least: SMALLEST_RANGE,
            parallel,
            memory: 64 * FIRST_RANGE,
        };
        let (front, _task) = Range::new(0, FIRST_RANGE);
        let mut state = State {
            plan: plan(48),
            guessed: true,
            front: Arc::clone(&front.progress),
            ranges: VecDeque::new(),
            next: FIRST_RANGE,
            delivered: 0,
            begun: 1,
            rates: VecDeque::new(),
        };
        let shown = Some(Rate::mbit_per_s(1000));
        for (rate, asked_for, followed) in [(None, 7, 48), (shown, 190, 190), (shown, 7, 190)] {
            state.learn(rate, || plan(asked_for));
            assert_eq!(state.plan.parallel, followed);
        }
    }

    #[test]
    fn ranges_are_of_whole_windows_that_are_let_grow() {
        const KIB: u64 = 1 << 10;
        let plan = Plan {
            part: 2048 * KIB,
            spread: 0,
            first: 1024 * KIB,
            least: 1024 * KIB,
            parallel: 10,
            memory: 1 << 30,
        };
        let long_before_the_end = 30 * plan.least;
        for (sure, grows, length) in [
            // At least a byte is sure.
            (0, false, SMALLEST_RANGE),
            (100 * KIB, false, 300 * KIB),
            (100 * KIB, true, 600 * KIB),
            (700 * KIB, false, 2100 * KIB),
            (1100 * KIB, false, 3300 * KIB),
            (600 * KIB, true, plan.part),
            (5000 * KIB, false, plan.part),
        ] {
            let flight = Flight { sure, grows };
            assert_eq!(
                next_length(flight, plan, long_before_the_end),
                length,
                "{flight:?}"
            );
            let near = next_length(flight, plan, 2 * 10 * plan.least - 1);
            assert_eq!(near, sure.clamp(1, plan.part), "{flight:?}");
        }
    }

    /// Another's view of a range.
    fn share(range: &Range) -> Range {
        let (_, pieces) = mpsc::unbounded_channel();
        Range {
            pieces,
            progress: Arc::clone(&range.progress),
        }
    }

    #[test]
    fn who_asks_for_work_helps_where_half_of_the_memory_waits() {
        const MIB: u64 = 1 << 20;
        let rtt = Duration::from_millis(200);
        let (front, _task) = Range::new(0, 4 * MIB);
        let mut ranges = VecDeque::new();
        for number in 1..=4 {
            let (range, _task) = Range::new(4 * number * MIB, 4 * (number + 1) * MIB);
            locked(&range.progress).at += 2 * MIB;
            ranges.push_back(range);
        }
        let mut state = State {
            plan: Plan {
                part: 4 * MIB,
                spread: 0,
                first: MIB,
                least: MIB,
                parallel: 5,
                memory: 17 * MIB,
            },
            guessed: false,
            front: Arc::clone(&front.progress),
            ranges,
            next: 20 * MIB,
            delivered: 0,
            begun: 4,
            rates: [2e6, 2e6].into(),
        };
        // An eighth of a MiB in the last two round trips: it will not be there soon.
        let then = Instant::now().checked_sub(2 * rtt).unwrap();
        let mut slow = Progress::of(0, 4 * MIB);
        slow.answered(then);
        slow.arrived(MIB / 16, then + rtt, rtt);
        slow.arrived(MIB / 16, then + 2 * rtt, rtt);
        *locked(&front.progress) = slow;
        assert!(state.take_over(17 * MIB, rtt).is_none(), "8 of 17 MiB wait");
        let task = state.take_over(16 * MIB, rtt).unwrap();
        assert_eq!(front.progress().end, task.first);
        assert!(
            task.first > MIB / 8 && task.end == 4 * MIB,
            "{}",
            task.first
        );
        let behind: Vec<u64> = state
            .ranges
            .iter()
            .map(|range| range.progress().at / MIB)
            .collect();
        assert_eq!(behind[1..], [6, 10, 14, 18]);
        assert_eq!(state.ranges.len(), 5);
        // Others help as well, until what is left to it is here soon.
        let mut end = task.first;
        while let Some(task) = state.take_over(16 * MIB, rtt) {
            assert!(task.first < task.end && task.end == end);
            end = task.first;
        }
        assert!(front.progress().at <= end && front.progress().end == end);
    }
}
