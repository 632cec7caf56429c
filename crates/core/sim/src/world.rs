use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::time::Duration;

use link::{Direction, Ecn, InvalidPath, Item, Path, PathCounters, PathSpec, Segments};
use tcp::{Config, Connection, EcnCodepoint, Event, Hold, Output, Segment, SenderView};
use units::{Bytes, Rate, SeqNum, Time};

use crate::account::Account;
use crate::packet::Packet;
use crate::watch::Watch;

/// Endpoints, the paths between them, and the time.
#[derive(Debug)]
pub struct World {
    now: Time,
    paths: Vec<Road>,
    /// Two for each connection: the near end, then the far end.
    ends: Vec<End>,
    timers: BinaryHeap<Reverse<(Time, u64, usize)>>,
    made: u64,
    notices: VecDeque<Notice>,
    log: Option<Vec<LogEntry>>,
    delivered: u64,
    watch: Option<Watched>,
    /// When the watch wants to look next; the end of time without one.
    look_at: Time,
}

/// A watch and the ends that it looks at, all on one path and of one direction.
#[derive(Debug)]
struct Watched {
    watch: Watch,
    ends: Vec<usize>,
}

/// A path of a [`World`].
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub struct PathId(usize);

/// A connection of a [`World`].
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub struct ConnectionId(usize);

/// The ends of a connection: the near one opened it.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub enum Side {
    /// Opened the connection; its packets go forward on the path.
    Near,
    /// Was connected to.
    Far,
}

/// Something an application wants to know.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Notice {
    /// On which connection.
    pub connection: ConnectionId,
    /// At which end.
    pub side: Side,
    /// What.
    pub event: Event,
}

/// A segment at an end, for comparing runs and for writing captures.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LogEntry {
    /// When.
    pub at: Time,
    /// On which connection.
    pub connection: ConnectionId,
    /// At which end.
    pub side: Side,
    /// Whether it left there or arrived.
    pub way: Way,
    /// The segment.
    pub segment: Segment,
}

/// What a segment does at an end.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Way {
    /// It leaves.
    Sent,
    /// It has come.
    Arrived,
}

#[derive(Debug)]
struct Road {
    path: Path<Packet>,
    /// Product of rate and round-trip time in bytes, both ways; from there on a path is full.
    product: u64,
    /// Bytes by which its IP header is larger than that of IPv4.
    larger_header: u32,
}

#[derive(Debug)]
struct End {
    connection: Option<Connection>,
    /// How to answer a SYN.
    config: Option<Box<Config>>,
    iss: SeqNum,
    path: usize,
    direction: Direction,
    /// When it wants to be woken, and when its earliest entry in the heap will do so.
    wanted: Option<Time>,
    scheduled: Option<Time>,
    account: Option<Account>,
    history: Option<Vec<Held>>,
}

/// What held an end back from a moment on, as the endpoint itself knows it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Held {
    /// From when.
    pub since: Time,
    /// What.
    pub hold: Hold,
    /// The sender's figures.
    pub sender: SenderView,
}

// === impl ConnectionId ===

impl ConnectionId {
    /// Its number in the order in which connections were opened, from 0.
    #[must_use]
    pub const fn number(self) -> usize {
        self.0
    }
}

// === impl World ===

impl World {
    /// An empty world at time zero.
    #[must_use]
    pub fn new() -> Self {
        Self {
            now: Time::ZERO,
            paths: Vec::new(),
            ends: Vec::new(),
            timers: BinaryHeap::new(),
            made: 0,
            notices: VecDeque::new(),
            log: None,
            delivered: 0,
            watch: None,
            look_at: Time::MAX,
        }
    }

    /// Keeps every segment from now on.
    pub fn record(&mut self) {
        self.log.get_or_insert_default();
    }

    /// The segments kept since [`record`](Self::record), in the order of time.
    #[must_use]
    pub fn log(&self) -> &[LogEntry] {
        self.log.as_deref().unwrap_or_default()
    }

    /// The moment at which the world stands.
    #[must_use]
    pub const fn now(&self) -> Time {
        self.now
    }

    /// Packets delivered by all paths so far.
    #[must_use]
    pub const fn packets(&self) -> u64 {
        self.delivered
    }

    /// Adds a path.
    pub fn add_path(&mut self, spec: &PathSpec) -> Result<PathId, InvalidPath> {
        let rate = spec.forward.bottleneck_rate();
        let rate = rate.unwrap_or(Rate::bit_per_s(u64::MAX));
        let product = rate.checked_mul(spec.rtt()).map_or(u64::MAX, Bytes::get);
        let path = Path::new(spec, Duration::ZERO)?;
        self.paths.push(Road {
            path,
            product,
            larger_header: 0,
        });
        Ok(PathId(self.paths.len() - 1))
    }

    /// From now on the IP header of every packet on a path takes `bytes` more than that of IPv4.
    pub fn enlarge_headers(&mut self, path: PathId, bytes: u32) {
        self.paths[path.0].larger_header = bytes;
    }

    /// Counts the times of a path's schedule and traces from now on.
    pub fn start_schedule(&mut self, path: PathId) {
        self.paths[path.0].path.start_schedule(self.now);
    }

    /// Where the packets of a path are.
    #[must_use]
    pub fn counters(&self, path: PathId) -> PathCounters {
        self.paths[path.0].path.counters()
    }

    /// The path of a connection.
    #[must_use]
    pub fn path_of(&self, connection: ConnectionId) -> PathId {
        PathId(self.ends[index(connection, Side::Near)].path)
    }

    /// Opens a connection from the near to the far end of `path`.
    pub fn connect(&mut self, path: PathId, near: &Config, far: &Config) -> ConnectionId {
        let id = ConnectionId(self.ends.len() / 2);
        // Distinct, and far apart: connections of one world never share numbers by accident.
        let number = u32::try_from(self.ends.len()).unwrap_or(u32::MAX);
        let iss = |salt: u32| SeqNum::new((number ^ salt).wrapping_mul(0x9e37_79b1));
        let end = |connection, config, salt, direction| End {
            connection,
            config,
            iss: iss(salt),
            path: path.0,
            direction,
            wanted: None,
            scheduled: None,
            account: None,
            history: None,
        };
        let connection = Connection::connect(near, self.now, iss(1));
        self.ends
            .push(end(Some(connection), None, 1, Direction::Forward));
        let far = Some(Box::new(far.clone()));
        self.ends.push(end(None, far, 2, Direction::Backward));
        self.drain(index(id, Side::Near));
        id
    }

    /// Books from now on what holds this end back.
    pub fn keep_account(&mut self, connection: ConnectionId, side: Side) {
        let now = self.now;
        self.ends[index(connection, side)].account = Some(Account::new(now));
    }

    /// Seconds by limit since [`keep_account`](Self::keep_account).
    #[must_use]
    pub fn limits(&self, connection: ConnectionId, side: Side) -> record::LimitSeconds {
        let account = self.ends[index(connection, side)].account.as_ref();
        account
            .map(|account| account.seconds(self.now))
            .unwrap_or_default()
    }

    /// Keeps from now on every change of what holds this end back and of its sender's figures: the truth
    /// against which observers of packets are measured.
    pub fn keep_history(&mut self, connection: ConnectionId, side: Side) {
        self.ends[index(connection, side)]
            .history
            .get_or_insert_default();
    }

    /// What [`keep_history`](Self::keep_history) kept, in the order of time.
    #[must_use]
    pub fn history(&self, connection: ConnectionId, side: Side) -> &[Held] {
        let history = self.ends[index(connection, side)].history.as_deref();
        history.unwrap_or_default()
    }

    /// Looks at these ends every `interval` from now on, at their figures taken together and at the queue
    /// before them. They share a path and a direction.
    pub fn watch(&mut self, ends: &[(ConnectionId, Side)], interval: Duration) {
        let ends: Vec<usize> = ends.iter().map(|(id, side)| index(*id, *side)).collect();
        let watch = Watch::new(self.now, interval, self.views(&ends));
        self.look_at = watch.next_at();
        self.watch = Some(Watched { watch, ends });
    }

    /// Ends the watch; what it saw up to now.
    pub fn watched(&mut self) -> Option<record::lab::Series> {
        if self.now >= self.look_at {
            self.look(self.now);
        }
        self.look_at = Time::MAX;
        Some(self.watch.take()?.watch.into_series())
    }

    /// One end of a connection; `None` at the far end before the SYN has come.
    #[must_use]
    pub fn end(&self, connection: ConnectionId, side: Side) -> Option<&Connection> {
        self.ends[index(connection, side)].connection.as_ref()
    }

    /// Writes as much of `bytes` as the send buffer takes, and returns how much.
    pub fn write(&mut self, connection: ConnectionId, side: Side, bytes: u64) -> u64 {
        let now = self.now;
        self.act(connection, side, |end| end.write(now, bytes))
            .unwrap_or(0)
    }

    /// Reads at most `most` bytes and returns how many.
    pub fn read(&mut self, connection: ConnectionId, side: Side, most: u64) -> u64 {
        let number = index(connection, side);
        let Some(end) = &mut self.ends[number].connection else {
            return 0;
        };
        let count = end.read(self.now, most);
        if end.owes_acknowledgement() {
            self.drain(number);
        }
        count
    }

    /// Sends a FIN behind what was written.
    pub fn close(&mut self, connection: ConnectionId, side: Side) {
        self.act(connection, side, Connection::close);
    }

    fn act<T>(
        &mut self,
        connection: ConnectionId,
        side: Side,
        action: impl FnOnce(&mut Connection) -> T,
    ) -> Option<T> {
        let at = index(connection, side);
        let result = self.ends[at].connection.as_mut().map(action);
        self.drain(at);
        result
    }

    /// The next thing an application wants to know, up to `until`; `None` when there is nothing more,
    /// with the world standing at `until`, or where its last event was.
    pub fn next(&mut self, until: Time) -> Option<Notice> {
        loop {
            if let Some(notice) = self.notices.pop_front() {
                return Some(notice);
            }
            if !self.step(until) {
                return None;
            }
        }
    }

    /// Runs up to `until`, passing every notice over.
    pub fn run_until(&mut self, until: Time) {
        while self.next(until).is_some() {}
        self.now = self.now.max(until);
    }

    /// Lets the next event happen, unless it lies after `until`.
    fn step(&mut self, until: Time) -> bool {
        let mut arrival: Option<(Time, usize)> = None;
        for (number, road) in self.paths.iter().enumerate() {
            if let Some(at) = road.path.next_at()
                && arrival.is_none_or(|(earliest, _)| at < earliest)
            {
                arrival = Some((at, number));
            }
        }
        let timer = self.timers.peek().map(|Reverse((at, _, end))| (*at, *end));
        match (arrival, timer) {
            (Some((at, path)), timer) if at <= until && timer.is_none_or(|(due, _)| at <= due) => {
                self.reach(at);
                self.deliver(path);
                true
            }
            (_, Some((at, end))) if at <= until => {
                self.timers.pop();
                self.reach(at);
                self.wake(at, end);
                true
            }
            _ => false,
        }
    }

    /// Lets time come to an event; what was to be seen before it is seen.
    #[inline]
    fn reach(&mut self, at: Time) {
        if at >= self.look_at {
            self.look(at);
        }
        self.now = self.now.max(at);
    }

    /// Looks as often as the watch wants to up to `at`: at the ends nothing has happened since the last
    /// event, the queue has gone on draining.
    #[cold]
    fn look(&mut self, at: Time) {
        let Some(mut watched) = self.watch.take() else {
            return;
        };
        while watched.watch.next_at() <= at {
            let moment = watched.watch.next_at();
            let queue = watched.ends.first().map_or(Bytes::ZERO, |&end| {
                let end = &self.ends[end];
                let path = &mut self.paths[end.path].path;
                path.catch_up(moment);
                path.queued_bytes(end.direction)
            });
            watched.watch.look(self.views(&watched.ends), queue);
        }
        self.look_at = watched.watch.next_at();
        self.watch = Some(watched);
    }

    fn views(&self, ends: &[usize]) -> impl Iterator<Item = SenderView> {
        let ends = ends.iter().map(|&end| self.ends[end].connection.as_ref());
        ends.flatten().map(Connection::sender)
    }

    fn deliver(&mut self, path: usize) {
        let now = self.now;
        while let Some(delivery) = self.paths[path].path.poll(now) {
            self.delivered += 1;
            if delivery.corruption.is_some() {
                // Its receiver's checksum tells, and nobody else.
                continue;
            }
            let to = delivery.payload.to;
            let mut segment = delivery.payload.segment();
            if delivery.marked {
                segment.ecn = EcnCodepoint::Ce;
            }
            if let Some(log) = &mut self.log {
                let (connection, side) = place(to);
                log.push(LogEntry {
                    at: now,
                    connection,
                    side,
                    way: Way::Arrived,
                    segment,
                });
            }
            let end = &mut self.ends[to];
            if let Some(connection) = &mut end.connection {
                connection.handle_segment(now, &segment);
            } else if let Some(config) = &end.config {
                end.connection = Connection::accept(config, now, &segment, end.iss);
            }
            self.drain(to);
            let due_at = self.paths[path].path.next_at();
            if due_at.is_none_or(|at| at > now) {
                return;
            }
        }
    }

    fn wake(&mut self, at: Time, number: usize) {
        let end = &mut self.ends[number];
        if end.scheduled != Some(at) {
            // An earlier entry has replaced this one.
            return;
        }
        end.scheduled = None;
        if end.wanted.is_some_and(|wanted| wanted <= at) {
            if let Some(connection) = &mut end.connection {
                connection.handle_timeout(at);
            }
            self.drain(number);
        } else {
            self.schedule(number);
        }
    }

    /// Does all that an end wants at this moment.
    fn drain(&mut self, number: usize) {
        let now = self.now;
        let end = &mut self.ends[number];
        let Some(connection) = &mut end.connection else {
            return;
        };
        let (id, side) = place(number);
        loop {
            match connection.poll_output(now) {
                Output::Transmit { segment, .. } => {
                    if let Some(log) = &mut self.log {
                        log.push(LogEntry {
                            at: now,
                            connection: id,
                            side,
                            way: Way::Sent,
                            segment,
                        });
                    }
                    let road = &mut self.paths[end.path];
                    let item = Item {
                        segments: Segments::single(segment.ipv4_len() + road.larger_header)
                            .with_ecn(Ecn::from_bits(segment.ecn.bits())),
                        payload: Packet::new(number ^ 1, &segment),
                    };
                    road.path.offer(now, end.direction, item);
                }
                Output::Event(event) => self.notices.push_back(Notice {
                    connection: id,
                    side,
                    event,
                }),
                Output::Timeout(at) => {
                    end.wanted = at;
                    break;
                }
            }
        }
        if let Some(account) = &mut end.account {
            account.update(now, connection, self.paths[end.path].product);
        }
        if let Some(history) = &mut end.history {
            let (hold, sender) = (connection.hold().0, connection.sender());
            let changed = history
                .last()
                .is_none_or(|last| (last.hold, last.sender) != (hold, sender));
            if changed {
                history.push(Held {
                    since: now,
                    hold,
                    sender,
                });
            }
        }
        self.schedule(number);
    }

    /// Makes sure that the heap holds an entry no later than the end wants. One that comes too early
    /// is cheaper than one for every ACK.
    fn schedule(&mut self, number: usize) {
        let end = &mut self.ends[number];
        let Some(wanted) = end.wanted else { return };
        if end.scheduled.is_some_and(|scheduled| scheduled <= wanted) {
            return;
        }
        end.scheduled = Some(wanted);
        self.made += 1;
        self.timers.push(Reverse((wanted, self.made, number)));
    }
}

impl Default for World {
    fn default() -> Self {
        Self::new()
    }
}

/// The inverse of [`index`].
const fn place(number: usize) -> (ConnectionId, Side) {
    let side = if number.is_multiple_of(2) {
        Side::Near
    } else {
        Side::Far
    };
    (ConnectionId(number / 2), side)
}

const fn index(connection: ConnectionId, side: Side) -> usize {
    2 * connection.0
        + match side {
            Side::Near => 0,
            Side::Far => 1,
        }
}
