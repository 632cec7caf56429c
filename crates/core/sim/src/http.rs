//! Programs at the ends: an HTTP client that uploads, an origin that answers, a relay between them.
//! Only lengths travel; what a request says is known to both ends beforehand.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use record::LimitSeconds;
use tcp::{Config, Event};
use units::{Bytes, Time};

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
        read: u64,
    },
    /// Hands everything on.
    Relay { upstream: Option<ConnectionId> },
}

/// A request and its response, in bytes.
#[derive(Clone, Copy, Debug)]
struct Exchange {
    request: u64,
    response: u64,
}

/// A finished transfer.
#[derive(Clone, Debug)]
pub(crate) struct Transfer {
    pub(crate) took: Duration,
    pub(crate) limits: LimitSeconds,
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

/// Head of an upload, as a signed PUT of an S3 client has it.
const HEAD: u64 = 600;
/// Head of a response without a body.
const RESPONSE: u64 = 230;
/// A padded HEAD request, as the relay primes with.
const PADDED: u64 = 7_168;
/// Bytes after which priming gives up.
const PRIMING_BUDGET: u64 = 32 << 20;
/// A transfer that takes longer has failed.
const PATIENCE: Duration = Duration::from_hours(2);

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

    /// Uploads `bytes` on `connection`, from `started` on, and waits for the answer.
    pub(crate) fn upload(
        &mut self,
        connection: ConnectionId,
        bytes: Bytes,
        started: Time,
    ) -> Result<Transfer, String> {
        self.world.keep_account(connection, Side::Near);
        let exchange = Exchange {
            request: HEAD + bytes.get(),
            response: RESPONSE,
        };
        let last = self.origin_of(connection);
        if let Some(Line {
            far: Far::Origin { expected, .. },
            ..
        }) = self.lines.get_mut(&last)
        {
            expected.push_back(exchange);
        }
        let Some(line) = self.lines.get_mut(&connection) else {
            return Err("there is no such connection".to_owned());
        };
        // Clients write the head first, so it travels as a segment of its own.
        line.requests.extend([HEAD, bytes.get()]);
        let target = line.received + RESPONSE;
        self.pump_near(connection);
        self.run(connection, |line| line.received >= target)?;
        Ok(Transfer {
            took: self.world.now().since(started),
            limits: self.world.limits(connection, Side::Near),
        })
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
    fn origin_of(&self, connection: ConnectionId) -> ConnectionId {
        match self.lines.get(&connection).map(|line| &line.far) {
            Some(Far::Relay {
                upstream: Some(upstream),
            }) => *upstream,
            _ => connection,
        }
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

    fn handle(&mut self, notice: Notice) {
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
        let read = self.world.read(connection, Side::Near, u64::MAX);
        line.received += read;
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
            Far::Origin { expected, read } => {
                *read += self.world.read(connection, Side::Far, u64::MAX);
                while let Some(exchange) = expected.front().filter(|next| next.request <= *read) {
                    *read -= exchange.request;
                    line.answers += exchange.response;
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
            line.answers -= self.world.write(connection, Side::Far, line.answers);
        }
    }
}

impl Default for Far {
    fn default() -> Self {
        Self::Origin {
            expected: VecDeque::new(),
            read: 0,
        }
    }
}
