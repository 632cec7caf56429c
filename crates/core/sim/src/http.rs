//! Programs at the ends: a client that asks, an origin that answers, relays between them.
//! Only lengths travel; what a request says is known to both ends beforehand.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use tcp::{Config, Event};
use units::{Bytes, Time};

use crate::lanes::Turn;

use crate::world::{ConnectionId, Notice, PathId, Side, World};

/// Programs of a world, by connection.
#[derive(Debug)]
pub(crate) struct Programs {
    pub(crate) world: World,
    lines: BTreeMap<ConnectionId, Line>,
}

/// What the programs at both ends of a connection have yet to do.
#[derive(Debug, Default)]
struct Line {
    /// Pieces that the near end writes one after the other.
    requests: VecDeque<u64>,
    established: bool,
    /// Bytes that the near end has received.
    received: u64,
    /// Exchanges that the far end has answered.
    finished: u64,
    /// Bytes after which the near end stops reading once, and for how long.
    pause: Option<(u64, Duration)>,
    /// Until when it has stopped.
    stopped_until: Option<Time>,
    far: Far,
    /// Bytes that the far end has yet to write.
    answers: u64,
    /// The connection whose far end is on the same host as our near end (a relay).
    downstream: Option<ConnectionId>,
    ended: Option<Event>,
}

#[derive(Debug)]
enum Far {
    /// Answers each request when it has arrived whole.
    Origin {
        expected: VecDeque<Exchange>,
        /// Bytes read that belong to no answered request yet.
        read: u64,
        /// Bytes read since the beginning.
        total: u64,
    },
    /// Hands everything on.
    Relay { upstream: Option<ConnectionId> },
}

/// A request and its response, in bytes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Exchange {
    pub(crate) request: u64,
    pub(crate) response: u64,
}

/// What priming took.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Primed {
    pub(crate) requests: u64,
    pub(crate) bytes: u64,
    pub(crate) took: Duration,
    pub(crate) cwnd: u64,
    pub(crate) peer_window: u64,
}

/// Head of a request, as a signed one of an S3 client has it.
pub(crate) const HEAD: u64 = 600;
/// Head of a response without a body.
pub(crate) const RESPONSE: u64 = 230;
/// A padded HEAD request, as the relay primes with.
const PADDED: u64 = 7_168;
/// Bytes after which priming gives up.
const PRIMING_BUDGET: u64 = 32 << 20;
/// What a relay holds in each direction.
const RELAY_BUFFER: u64 = 1 << 20;
/// A transfer that takes longer has failed.
pub(crate) const PATIENCE: Duration = Duration::from_hours(2);

// === impl Programs ===

impl Programs {
    pub(crate) const fn new(world: World) -> Self {
        Self {
            world,
            lines: BTreeMap::new(),
        }
    }

    /// Opens a connection to an origin.
    pub(crate) fn connect(&mut self, path: PathId, near: &Config, far: &Config) -> ConnectionId {
        let id = self.world.connect(path, near, far);
        self.lines.insert(id, Line::default());
        id
    }

    /// Opens a connection to a relay, whose requests will go on through `upstream`.
    pub(crate) fn connect_through(
        &mut self,
        path: PathId,
        near: &Config,
        far: &Config,
        upstream: ConnectionId,
    ) -> ConnectionId {
        let id = self.world.connect(path, near, far);
        let line = Line {
            far: Far::Relay {
                upstream: Some(upstream),
            },
            ..Line::default()
        };
        self.lines.insert(id, line);
        if let Some(line) = self.lines.get_mut(&upstream) {
            line.downstream = Some(id);
        }
        id
    }

    /// Waits for the handshake of `connection`.
    pub(crate) fn establish(&mut self, connection: ConnectionId) -> Result<(), String> {
        self.run(connection, |line| line.established)
    }

    /// Begins a turn on `connection`; how many bytes its near end will then have received, and how many
    /// exchanges its origin will have answered.
    pub(crate) fn begin(&mut self, connection: ConnectionId, turn: &Turn) -> (u64, u64) {
        let last = self.origin_of(connection);
        let mut finished = 0;
        if let Some(line) = self.lines.get_mut(&last)
            && let Far::Origin { expected, .. } = &mut line.far
        {
            expected.extend(&turn.exchanges);
            finished = line.finished + expected.len() as u64;
        }
        let Some(line) = self.lines.get_mut(&connection) else {
            return (u64::MAX, u64::MAX);
        };
        line.requests.extend(&turn.pieces);
        let responses: u64 = turn
            .exchanges
            .iter()
            .map(|exchange| exchange.response)
            .sum();
        let received = line.received + responses;
        self.pump_near(connection);
        // What is answered without a question begins at once.
        self.pump_far(last);
        (received, finished)
    }

    /// Bytes that the near end has received, and exchanges that its origin has answered.
    pub(crate) fn progress(&self, connection: ConnectionId) -> (u64, u64) {
        let received = self.lines.get(&connection).map_or(0, |line| line.received);
        let last = self.origin_of(connection);
        let finished = self.lines.get(&last).map_or(0, |line| line.finished);
        (received, finished)
    }

    /// Bytes of payload that arrived at either end since the connection was made: near, far.
    pub(crate) fn arrived(&self, connection: ConnectionId) -> (u64, u64) {
        let received = self.lines.get(&connection).map_or(0, |line| line.received);
        let last = self.lines.get(&self.origin_of(connection));
        let read = match last.map(|line| &line.far) {
            Some(Far::Origin { total, .. }) => *total,
            Some(Far::Relay { .. }) | None => 0,
        };
        (received, read)
    }

    /// Lets both directions of `connection` run without end, as far as asked.
    pub(crate) fn flood(&mut self, connection: ConnectionId, up: bool, down: bool) {
        const ENDLESS: u64 = 1 << 60;
        let mut turn = Turn {
            idle: Duration::ZERO,
            pieces: Vec::new(),
            exchanges: Vec::new(),
        };
        if up {
            turn.pieces.push(ENDLESS);
        }
        if down {
            turn.exchanges.push(Exchange {
                request: 0,
                response: ENDLESS,
            });
        }
        self.begin(connection, &turn);
    }

    /// Ends what [`flood`](Self::flood) began on all of `connections`, and waits until nothing of it is on
    /// the way any more.
    pub(crate) fn stop(&mut self, connections: &[ConnectionId]) {
        const QUIET: Duration = Duration::from_secs(5);
        // All before any is waited for, or the others would go on at full rate meanwhile.
        for connection in connections {
            let mut next = Some(*connection);
            while let Some(line) = next.and_then(|connection| self.lines.get_mut(&connection)) {
                line.requests.clear();
                line.answers = 0;
                next = match line.far {
                    Far::Relay { upstream } => upstream,
                    Far::Origin { .. } => None,
                };
            }
            self.close(*connection);
        }
        let arrived = |programs: &Self| -> Vec<(u64, u64)> {
            let each = connections.iter();
            each.map(|connection| programs.arrived(*connection))
                .collect()
        };
        // Ends by itself: what senders' buffers hold is finite.
        loop {
            let before = arrived(self);
            self.pass(self.world.now() + QUIET);
            if arrived(self) == before {
                return;
            }
        }
    }

    /// Makes the near end stop reading once, after `after` more bytes, for `span`.
    pub(crate) fn pause_reading(&mut self, connection: ConnectionId, after: u64, span: Duration) {
        if let Some(line) = self.lines.get_mut(&connection) {
            line.pause = Some((line.received + after, span));
        }
    }

    /// Goes on reading where a pause is over; otherwise when that will be.
    pub(crate) fn resume(&mut self, connection: ConnectionId) -> Option<Time> {
        let line = self.lines.get_mut(&connection)?;
        let until = line.stopped_until?;
        if self.world.now() < until {
            return Some(until);
        }
        line.stopped_until = None;
        self.pump_near(connection);
        None
    }

    /// Why a connection can carry nothing more.
    pub(crate) fn still_open(&self, connection: ConnectionId) -> Result<(), String> {
        match self.lines.get(&connection).and_then(|line| line.ended) {
            Some(event) => Err(format!("the connection ended: {event:?}")),
            None => Ok(()),
        }
    }

    /// Sends padded requests on `connection` until both windows hold `target` bytes, or the budget is
    /// spent.
    pub(crate) fn prime(
        &mut self,
        connection: ConnectionId,
        target: Bytes,
    ) -> Result<Primed, String> {
        let started = self.world.now();
        let mut primed = Primed::default();
        let mut awaited = self.lines.get(&connection).map_or(0, |line| line.received);
        loop {
            let (cwnd, peer_window) = self.windows(connection);
            primed.cwnd = cwnd;
            primed.peer_window = peer_window;
            let hot = cwnd >= target.get() && peer_window >= target.get();
            if hot || primed.bytes >= PRIMING_BUDGET {
                break;
            }
            // Twice the window, so that it is always full: only then it grows.
            let burst = (2 * cwnd).div_ceil(PADDED).max(4);
            let Some(line) = self.lines.get_mut(&connection) else {
                break;
            };
            for _ in 0..burst {
                line.requests.push_back(PADDED);
                if let Far::Origin { expected, .. } = &mut line.far {
                    expected.push_back(Exchange {
                        request: PADDED,
                        response: RESPONSE,
                    });
                }
            }
            primed.requests += burst;
            primed.bytes += burst * PADDED;
            awaited += burst * RESPONSE;
            self.pump_near(connection);
            // The last half of a burst overlaps with the next one.
            let enough = awaited - burst / 2 * RESPONSE;
            self.run(connection, |line| line.received >= enough)?;
        }
        self.run(connection, |line| line.received >= awaited)?;
        (primed.cwnd, primed.peer_window) = self.windows(connection);
        primed.took = self.world.now().since(started);
        Ok(primed)
    }

    /// Ends a connection as its client does.
    pub(crate) fn close(&mut self, connection: ConnectionId) {
        self.world.close(connection, Side::Near);
    }

    /// Lets time pass up to `until`.
    pub(crate) fn pass(&mut self, until: Time) {
        while let Some(notice) = self.world.next(until) {
            self.handle(notice);
        }
        self.world.run_until(until);
    }

    /// cwnd and the peer's window of the near end, in bytes.
    fn windows(&self, connection: ConnectionId) -> (u64, u64) {
        let Some(end) = self.world.end(connection, Side::Near) else {
            return (0, 0);
        };
        let view = end.sender();
        let mss = u64::from(view.mss);
        (u64::from(view.cwnd) * mss, view.outstanding + view.window)
    }

    /// The connection that ends at the origin.
    pub(crate) fn origin_of(&self, connection: ConnectionId) -> ConnectionId {
        let mut last = connection;
        while let Some(Far::Relay {
            upstream: Some(upstream),
        }) = self.lines.get(&last).map(|line| &line.far)
        {
            last = *upstream;
        }
        last
    }

    /// The first connection on `path` from this one towards the origin; itself where there is none.
    pub(crate) fn on_path(&self, connection: ConnectionId, path: PathId) -> ConnectionId {
        let mut next = Some(connection);
        while let Some(one) = next {
            if self.world.path_of(one) == path {
                return one;
            }
            next = match self.lines.get(&one).map(|line| &line.far) {
                Some(Far::Relay { upstream }) => *upstream,
                Some(Far::Origin { .. }) | None => None,
            };
        }
        connection
    }

    /// Lets the world go on until `done` holds for `connection`.
    fn run(
        &mut self,
        connection: ConnectionId,
        done: impl Fn(&Line) -> bool,
    ) -> Result<(), String> {
        let deadline = self.world.now() + PATIENCE;
        loop {
            if let Some(line) = self.lines.get(&connection) {
                if done(line) {
                    return Ok(());
                }
                if let Some(event) = line.ended {
                    return Err(format!("the connection ended: {event:?}"));
                }
            }
            match self.world.next(deadline) {
                Some(notice) => self.handle(notice),
                None => return Err(format!("nothing more happens at {}", self.world.now())),
            }
        }
    }

    pub(crate) fn handle(&mut self, notice: Notice) {
        let Notice {
            connection,
            side,
            event,
        } = notice;
        match (event, side) {
            (Event::Established, Side::Near) => {
                if let Some(line) = self.lines.get_mut(&connection) {
                    line.established = true;
                }
            }
            (Event::PeerClosed, Side::Far) => self.world.close(connection, Side::Far),
            (Event::Reset | Event::TimedOut | Event::Closed, _) => {
                if let Some(line) = self.lines.get_mut(&connection) {
                    line.ended = Some(event);
                }
            }
            (Event::Established | Event::PeerClosed | Event::Readable | Event::Writable, _) => {}
        }
        match side {
            Side::Near => self.pump_near(connection),
            Side::Far => self.pump_far(connection),
        }
    }

    /// The program that opened the connection: writes requests, reads answers.
    fn pump_near(&mut self, connection: ConnectionId) {
        let Some(line) = self.lines.get_mut(&connection) else {
            return;
        };
        while line.established
            && let Some(piece) = line.requests.front_mut()
        {
            *piece -= self.world.write(connection, Side::Near, *piece);
            if *piece > 0 {
                break;
            }
            line.requests.pop_front();
        }
        if line.stopped_until.is_some() {
            return;
        }
        // A relay reads only as much as can go on, so that the origin feels a slow client.
        let most = match line.downstream {
            Some(downstream) => {
                let waiting = self.lines.get(&downstream).map_or(0, |line| line.answers);
                RELAY_BUFFER.saturating_sub(waiting)
            }
            None => u64::MAX,
        };
        let read = self.world.read(connection, Side::Near, most);
        let now = self.world.now();
        let Some(line) = self.lines.get_mut(&connection) else {
            return;
        };
        line.received += read;
        if let Some((after, span)) = line.pause
            && line.received >= after
        {
            line.pause = None;
            line.stopped_until = Some(now + span);
        }
        if let Some(downstream) = line.downstream {
            // We are a relay: the answer goes back, and what waits may go on.
            if let Some(line) = self.lines.get_mut(&downstream) {
                line.answers += read;
            }
            self.pump_far(downstream);
        }
    }

    /// The program that was connected to: an origin or a relay.
    fn pump_far(&mut self, connection: ConnectionId) {
        let Some(line) = self.lines.get_mut(&connection) else {
            return;
        };
        match &mut line.far {
            Far::Origin {
                expected,
                read,
                total,
            } => {
                let more = self.world.read(connection, Side::Far, u64::MAX);
                *read += more;
                *total += more;
                while let Some(exchange) = expected.front().filter(|next| next.request <= *read) {
                    *read -= exchange.request;
                    line.answers += exchange.response;
                    line.finished += 1;
                    expected.pop_front();
                }
            }
            Far::Relay { upstream } => {
                // Only as much is read as can go on, so that the client feels the path.
                if let Some(upstream) = *upstream {
                    let waiting = self
                        .world
                        .end(connection, Side::Far)
                        .map_or(0, tcp::Connection::readable);
                    if waiting > 0 {
                        let passed = self.world.write(upstream, Side::Near, waiting);
                        self.world.read(connection, Side::Far, passed);
                    }
                }
            }
        }
        if line.answers > 0 {
            let written = self.world.write(connection, Side::Far, line.answers);
            line.answers -= written;
            if let Far::Relay {
                upstream: Some(upstream),
            } = line.far
                && written > 0
            {
                // There is room again for what the origin sends.
                self.refill(upstream);
            }
        }
    }

    /// Reads on at a relay whose client has taken some of what waited.
    fn refill(&mut self, upstream: ConnectionId) {
        let waiting = self.world.end(upstream, Side::Near);
        if waiting.is_some_and(|end| end.readable() > 0) {
            self.pump_near(upstream);
        }
    }
}

impl Default for Far {
    fn default() -> Self {
        Self::Origin {
            expected: VecDeque::new(),
            read: 0,
            total: 0,
        }
    }
}
