use std::pin::Pin;
use std::task::{Context, Poll, Waker};

use envelope::{CHUNK, DataKey, Layout, OVERHEAD, Sealing};
use proptest::prelude::*;

use super::*;

const MIB: u64 = 1 << 20;
/// Of a long path that four connections with 1 MiB each fill.
const PLAN: Plan = Plan {
    part: 2 * MIB,
    spread: 0,
    first: MIB,
    least: MIB,
    parallel: 4,
    memory: 64 * MIB,
    waiting: None,
};

/// A download by this plan, of which `front` is delivered and nothing else has been asked for.
fn state(plan: Plan, front: &Range) -> State {
    State {
        plan,
        guessed: false,
        front: Arc::clone(&front.progress),
        ranges: VecDeque::new(),
        next: front.progress().end,
        delivered: 0,
        begun: 0,
        rates: VecDeque::new(),
    }
}

#[tokio::test]
async fn who_reads_what_has_been_delivered_ends() {
    let (range, task) = Range::new(0, 10);
    // Others have read it all.
    locked(&range.progress).end = 0;
    drop(range);
    let (nothing, opening) = (std::future::pending(), OnceLock::new());
    let reading = task.read(nothing, UNKNOWN_RTT, &opening);
    let ended = tokio::time::timeout(Duration::from_mins(1), reading).await;
    ended.unwrap().unwrap();
}

/// An encrypted object of a few chunks: its plaintext, what is stored, and what opens it.
fn encrypted() -> (Vec<u8>, Bytes, Opening) {
    let key = DataKey::new([7; 32]);
    let plain: Vec<u8> = (0..5 * CHUNK + 9).map(|at| at.to_be_bytes()[6]).collect();
    let (mut sealing, mut stored) = (Sealing::whole(&key), Vec::new());
    sealing.push(&plain, &mut stored);
    sealing.finish(&mut stored);
    let stored = Bytes::from(stored.concat());
    let layout = Layout::whole(key, stored.len() as u64, None).unwrap();
    let opening = layout.plan(0, layout.plain() - 1).unwrap().opening;
    (plain, stored, opening)
}

#[tokio::test]
async fn a_changed_chunk_is_found_by_its_reader_behind_what_is_authentic() {
    let (_, stored, opening) = encrypted();
    let mut changed = stored.to_vec();
    changed[299_998] ^= 1;
    let changed = Bytes::from(changed);
    let (first, end) = (100_000, stored.len());
    for is_known in [false, true] {
        let early = OnceLock::new();
        if is_known {
            early.get_or_init(|| opening.early());
        }
        let (mut range, task) = Range::new(first as u64, end as u64);
        let pieces = changed[first..]
            .chunks(150_000)
            .map(|piece| Ok(changed.slice_ref(piece)));
        let pieces: Pieces = Box::pin(stream::iter(pieces.collect::<Vec<_>>()));
        let outcome = task.read(ready(Ok(pieces)), UNKNOWN_RTT, &early).await;
        assert_eq!(outcome.is_err(), is_known);
        task.end(outcome);
        let mut at = first as u64;
        while let Some(Ok(piece)) = range.next(at).await {
            at += piece.stored();
        }
        let found = 4 * (CHUNK + OVERHEAD);
        assert_eq!(at, if is_known { found } else { end as u64 });
    }
}

#[test]
fn who_waits_for_a_range_hears_that_it_was_cut_where_its_reader_had_come_to() {
    let (_, stored, opening) = encrypted();
    let known = Arc::new(OnceLock::new());
    known.get_or_init(|| opening.early());
    for rest in [0, 1000] {
        let mut read = Read::begin(Range::new(0, stored.len() as u64), &known);
        let chunk = CHUNK + OVERHEAD;
        read.bytes(&stored, chunk + rest);
        let context = &mut Context::from_waker(Waker::noop());
        let first = std::pin::pin!(read.range.next(0)).poll(context);
        assert!(matches!(first, Poll::Ready(Some(Ok(piece))) if piece.stored() == chunk));
        let progress = Arc::clone(&read.range.progress);
        let mut next = Box::pin(read.range.next(chunk));
        assert!(next.as_mut().poll(context).is_pending());
        cut_at(&progress, chunk + rest).unwrap();
        read.origin.unwrap().send(Ok(stored.slice(..7))).unwrap();
        assert!(read.reader.as_mut().poll(context).is_ready());
        drop(read.reader);
        let found = next.as_mut().poll(context);
        drop(next);
        match found {
            Poll::Ready(None) => assert_eq!(rest, 0),
            Poll::Ready(Some(Ok(piece))) => assert_eq!(piece.stored(), rest),
            wrong @ (Poll::Ready(Some(Err(_))) | Poll::Pending) => panic!("{wrong:?}"),
        }
        let end = std::pin::pin!(read.range.next(chunk + rest)).poll(context);
        assert!(matches!(end, Poll::Ready(None)));
    }
}

/// What may happen to a download.
#[derive(Clone, Copy, Debug)]
enum Happens {
    /// The reader of this range gets so many bytes.
    Bytes(usize, u64),
    /// This range ends so far behind what has come of it, and another begins there.
    Cut(usize, u64),
    /// The connection of this range ends. What has not come of it is asked for again.
    End(usize),
    /// The client takes a piece.
    Take,
    /// It is known how the object is decrypted.
    Known,
}

fn happens() -> impl Strategy<Value = Happens> {
    prop_oneof![
        6 => (0_usize..8, 1_u64..150_000).prop_map(|(range, bytes)| Happens::Bytes(range, bytes)),
        2 => (0_usize..8, prop_oneof![Just(0), 0_u64..100_000]).prop_map(|(range, at)| Happens::Cut(range, at)),
        1 => (0_usize..8).prop_map(Happens::End),
        4 => Just(Happens::Take),
        1 => Just(Happens::Known),
    ]
}

/// A range, its reader, and who sends it bytes up to where it first ended.
struct Read {
    range: Range,
    reader: Pin<Box<dyn Future<Output = ()>>>,
    connections: UnboundedSender<Pieces>,
    origin: Option<UnboundedSender<Result<Bytes, Failed>>>,
    sent: u64,
    end: u64,
}

impl Read {
    fn begin((range, task): (Range, Task), opening: &Arc<OnceLock<Early>>) -> Self {
        let (connections, mut pieces) = mpsc::unbounded_channel::<Pieces>();
        let opening = Arc::clone(opening);
        let (sent, end) = task.rest().unwrap();
        let reader = Box::pin(async move {
            let mut outcome = Ok(());
            while task.rest().is_some() {
                let connection = ready(Ok(pieces.recv().await.unwrap()));
                outcome = task.read(connection, UNKNOWN_RTT, &opening).await;
                if outcome.as_ref().is_err_and(Failed::may_pass) {
                    locked(&task.progress).broke(Instant::now());
                    outcome = Ok(());
                }
            }
            task.end(outcome);
        });
        let mut read = Self {
            range,
            reader,
            connections,
            origin: None,
            sent,
            end,
        };
        read.connect();
        read
    }

    /// What has not come is asked for over a new connection, where somebody still asks.
    fn connect(&mut self) {
        let (origin, mut bytes) = mpsc::unbounded_channel();
        self.origin = Some(origin);
        let Progress { at, end, .. } = self.range.progress();
        (self.sent, self.end) = (at, end);
        let pieces = stream::poll_fn(move |context| bytes.poll_recv(context));
        let _ = self.connections.send(Box::pin(pieces));
    }

    fn bytes(&mut self, stored: &Bytes, count: u64) {
        let to = (self.sent + count).min(self.end);
        let at = |place: u64| usize::try_from(place).unwrap();
        if let Some(origin) = self.origin.as_ref().filter(|_| self.sent < to) {
            // A reader that has come to its end hears nothing.
            let _ = origin.send(Ok(stored.slice(at(self.sent)..at(to))));
        }
        self.sent = to;
        self.poll();
    }

    fn poll(&mut self) {
        // As the runtime does, not once it has ended.
        if !self.range.pieces.is_closed() {
            let _ = self
                .reader
                .as_mut()
                .poll(&mut Context::from_waker(Waker::noop()));
        }
    }
}

proptest! {
    #[test]
    fn wherever_and_whenever_ranges_are_cut_the_plaintext_comes_in_order(
        edges in proptest::collection::vec(1_u64..5 * CHUNK, 0..3),
        story in proptest::collection::vec(happens(), 0..80),
    ) {
        let (plain, stored, mut opening) = encrypted();
        let (known, early) = (Arc::new(OnceLock::new()), opening.early());
        let mut edges = [&[0, stored.len() as u64][..], &edges].concat();
        edges.sort_unstable();
        edges.dedup();
        let new = |first, end| Read::begin(Range::new(first, end), &known);
        let mut reads: VecDeque<Read> = edges.windows(2).map(|two| new(two[0], two[1])).collect();
        let (mut delivered, mut out) = (0, Vec::new());
        let mut take = |reads: &mut VecDeque<Read>| {
            let Some(front) = reads.front_mut() else { return };
            let next = {
                let next = std::pin::pin!(front.range.next(delivered));
                next.poll(&mut Context::from_waker(Waker::noop()))
            };
            match next {
                Poll::Ready(Some(piece)) => {
                    let piece = piece.unwrap();
                    delivered += piece.stored();
                    opening.push(piece, &mut out).unwrap();
                }
                Poll::Ready(None) => drop(reads.pop_front()),
                Poll::Pending => {}
            }
        };
        for happens in story {
            match happens {
                Happens::Take => take(&mut reads),
                Happens::Known => {
                    known.get_or_init(|| early.clone());
                }
                Happens::Bytes(range, count) => {
                    if let Some(read) = reads.get_mut(range) {
                        read.bytes(&stored, count);
                    }
                }
                Happens::Cut(range, behind) => {
                    let progress = reads.get(range).map(|read| read.range.progress());
                    if let Some(Progress { at, end, .. }) = progress.filter(|range| range.at < range.end) {
                        let cut = at + behind % (end - at);
                        prop_assert_eq!(cut_at(&reads[range].range.progress, cut), Some(end));
                        reads.insert(range + 1, new(cut, end));
                    }
                }
                Happens::End(range) => {
                    if let Some(read) = reads.get_mut(range) {
                        read.origin = None;
                        read.poll();
                        read.connect();
                    }
                }
            }
        }
        while !reads.is_empty() {
            for read in &mut reads {
                read.bytes(&stored, u64::MAX / 2);
            }
            take(&mut reads);
        }
        opening.finish().unwrap();
        prop_assert!(out.concat() == plain);
    }
}

#[test]
fn near_the_end_who_brings_little_leaves_the_rest_to_many_others() {
    let plan = Plan { part: MIB, ..PLAN };
    let (front, _task) = Range::new(0, MIB);
    let (ranges, _tasks): (VecDeque<_>, Vec<_>) = (1..4)
        .map(|number| Range::new(number * MIB, (number + 1) * MIB))
        .unzip();
    let with = |under_way, rates, left, flight| {
        for (number, range) in (0..).zip(std::iter::once(&front).chain(&ranges)) {
            let mut progress = locked(&range.progress);
            let end = progress.end;
            progress.at = if number < under_way { end - 1 } else { end };
        }
        let state = State {
            ranges: ranges.iter().map(share).collect(),
            next: 4 * MIB,
            begun: 4,
            rates: vec![1e6; rates].into(),
            ..state(plan, &front)
        };
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
        waiting: None,
    };
    let (front, _task) = Range::new(0, FIRST_RANGE);
    let mut state = State {
        guessed: true,
        begun: 1,
        ..state(plan(48), &front)
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
        waiting: None,
    };
    let long_before_the_end = 30 * plan.least;
    for (sure, grows, length) in [
        (0, false, SMALLEST_RANGE),
        (100 * KIB, false, 300 * KIB),
        (100 * KIB, true, 600 * KIB),
        (700 * KIB, false, 2100 * KIB),
        (1100 * KIB, false, 3300 * KIB),
        (600 * KIB, true, plan.part),
        (1535 * KIB, false, 3 * 1535 * KIB),
        (1536 * KIB, false, plan.part),
        (5000 * KIB, false, plan.part),
    ] {
        let flight = Flight { sure, grows };
        assert_eq!(
            next_length(flight, plan, long_before_the_end, false),
            length,
            "{flight:?}"
        );
        let near = next_length(flight, plan, 2 * 10 * plan.least - 1, false);
        assert_eq!(near, sure.clamp(FIRST_WINDOW, plan.part), "{flight:?}");
    }
    // Where much waits, nobody takes two round trips more than who has all in one.
    for (sure, grows, length) in [
        (0, false, FIRST_WINDOW),
        (100 * KIB, false, 200 * KIB),
        (100 * KIB, true, 400 * KIB),
        (511 * KIB, true, 1022 * KIB * 2),
        (512 * KIB, true, 1024 * KIB),
        (1023 * KIB, false, 2046 * KIB),
        (1024 * KIB, false, 1024 * KIB),
        (5000 * KIB, false, plan.part),
    ] {
        let flight = Flight { sure, grows };
        let length_of = next_length(flight, plan, long_before_the_end, true);
        assert_eq!(length_of, length, "{flight:?}");
    }
}

#[test]
fn who_begins_when_all_others_have_is_asked_for_its_first_window() {
    let (front, _task) = Range::new(0, MIB);
    let mut state = state(PLAN, &front);
    for begun in 0..4 {
        state.begun = begun;
        assert!(state.first_length() >= 2 * MIB, "{begun}");
    }
    state.begun = 4;
    assert_eq!(state.first_length(), FIRST_WINDOW);
    // All wait for the client.
    locked(&front.progress).at = SMALLEST_RANGE;
    assert!(state.first_length() >= 2 * MIB);
    locked(&front.progress).at = 0;
    // Over a short path a request costs more than what waits.
    state.plan.waiting = Some(MIB);
    assert!(state.first_length() >= 2 * MIB);
}

#[test]
fn the_first_ranges_of_a_long_object_take_turns_within_a_round_trip() {
    let rtt = Duration::from_millis(200);
    let (front, _task) = Range::new(0, MIB);
    let mut state = state(PLAN, &front);
    let long = WORTH_TURNS * 4 * MIB;
    for (begun, turn) in [(0, 0), (1, 50), (3, 150), (4, 0), (u64::MAX, 0)] {
        state.begun = begun;
        assert_eq!(state.turn(long - 1, rtt), Duration::from_millis(turn));
        assert!(state.turn(long - 2, rtt).is_zero());
    }
    state.begun = 3;
    state.plan.waiting = Some(MIB);
    assert!(state.turn(long - 1, rtt).is_zero());
}

#[test]
fn much_waits_where_it_is_as_much_as_a_long_path_holds() {
    let (front, _task) = Range::new(0, MIB);
    let (behind, _task) = Range::new(MIB, 5 * MIB);
    let mut state = State {
        ranges: [share(&behind)].into(),
        next: 5 * MIB,
        begun: 4,
        ..state(
            Plan {
                part: MIB,
                parallel: 3,
                ..PLAN
            },
            &front,
        )
    };
    locked(&behind.progress).at = 4 * MIB - 1;
    assert!(!state.waits_much());
    locked(&behind.progress).at = 4 * MIB;
    assert!(state.waits_much());
    locked(&front.progress).at = SMALLEST_RANGE - 1;
    assert!(state.waits_much());
    locked(&front.progress).at = SMALLEST_RANGE;
    assert!(!state.waits_much(), "but for the client");
    locked(&front.progress).at = 0;
    state.plan.waiting = Some(MIB);
    assert!(!state.waits_much());
}

/// Another's view of a range.
fn share(range: &Range) -> Range {
    let (_, pieces) = mpsc::unbounded_channel();
    Range {
        pieces,
        progress: Arc::clone(&range.progress),
        early: Arc::clone(&range.early),
    }
}

#[test]
fn who_asks_for_work_helps_where_half_of_the_memory_waits() {
    let rtt = Duration::from_millis(200);
    let (front, _task) = Range::new(0, 4 * MIB);
    let mut ranges = VecDeque::new();
    for number in 1..=4 {
        let (range, _task) = Range::new(4 * number * MIB, 4 * (number + 1) * MIB);
        locked(&range.progress).at += 2 * MIB;
        ranges.push_back(range);
    }
    let plan = Plan {
        part: 4 * MIB,
        parallel: 5,
        memory: 17 * MIB,
        ..PLAN
    };
    let mut state = State {
        ranges,
        next: 20 * MIB,
        begun: 4,
        rates: [2e6, 2e6].into(),
        ..state(plan, &front)
    };
    // An eighth of a MiB in the last two round trips: it will not be there soon.
    let then = Instant::now().checked_sub(2 * rtt).unwrap();
    let mut slow = Progress::of(0, 4 * MIB);
    slow.answered(then);
    slow.arrived(MIB / 16, then + rtt, rtt);
    slow.arrived(MIB / 16, then + 2 * rtt, rtt);
    *locked(&front.progress) = slow;
    assert!(state.take_over(17 * MIB, rtt).is_none(), "8 of 17 MiB wait");
    for (waiting, room) in [(8 * MIB, false), (8 * MIB + 1, true)] {
        state.plan.waiting = Some(waiting);
        assert_eq!(state.has_room(17 * MIB), room);
        assert!(!state.has_room(17 * MIB + 1));
    }
    let begin = |task: &Task| locked(&task.progress).at;
    let task = state.take_over(16 * MIB, rtt).unwrap();
    assert_eq!(front.progress().end, begin(&task));
    assert!(
        begin(&task) > MIB / 8 && task.end == 4 * MIB,
        "{}",
        begin(&task)
    );
    let behind: Vec<u64> = state
        .ranges
        .iter()
        .map(|range| range.progress().at / MIB)
        .collect();
    assert_eq!(behind[1..], [6, 10, 14, 18]);
    assert_eq!(state.ranges.len(), 5);
    // Others help as well, until what is left to it is here soon.
    let mut end = begin(&task);
    while let Some(task) = state.take_over(16 * MIB, rtt) {
        assert!(begin(&task) < task.end && task.end == end);
        end = begin(&task);
    }
    assert!(front.progress().at <= end && front.progress().end == end);
}
