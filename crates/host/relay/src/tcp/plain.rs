//! A byte stream that needs nothing but two sockets, moved by whoever is told when they are ready.
//!
//! The same as what the parent module does in a task, for relays with one target, where nobody has to be asked or told anything before
//! bytes flow: see [`Tcp::is_plain`].

use std::net::{SocketAddr, TcpStream};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Waker};
use std::time::Duration;

use profile::Side;
use sys::readiness::Readiness;
use tokio::time::Instant;

use super::Tcp;
use super::direction::{self, Direction};
use super::watched::{Socket, Watched as _};
use crate::ending::Ended;
use crate::event::{EndedBy, Phase};
use crate::meter::Presence;
use crate::relayed::Account;
use crate::upstream::{ConnectError, Connected, Group, Shown};

/// A relay of plain byte streams, as one thread has it: what all its threads have, they would take from each other for every connection.
pub(crate) struct Plainly {
    tcp: Arc<Tcp>,
    /// What the thread has seen of sockets that connect to the target.
    shown: Mutex<Option<Shown>>,
}

/// One client's connection. Whoever has it [ends](Self::end) it.
pub(crate) struct Plain {
    service: Arc<Plainly>,
    account: Account<Socket>,
    /// Until there is a connection to the target.
    connecting: Option<Connecting>,
    up: Direction,
    down: Direction,
    /// Bytes, both ways, and when the last of them moved or a side ended.
    moved: u64,
    moved_at: Instant,
}

/// A connection to the target that is being made.
struct Connecting {
    connected: Connected<TcpStream>,
    since: Instant,
    readiness: Readiness,
}

/// How a turn ended.
#[derive(Debug)]
pub(crate) enum Turn {
    /// There is nothing to do before a socket is ready.
    Waits,
    /// There may be more to do when others have had theirs.
    Again,
    Over(Ended),
}

// === impl Plainly ===

impl Plainly {
    pub(crate) fn new(tcp: Arc<Tcp>) -> Self {
        Self {
            tcp,
            shown: Mutex::default(),
        }
    }

    /// Whether this is how one thread has `tcp`.
    pub(crate) fn is_of(&self, tcp: &Arc<Tcp>) -> bool {
        Arc::ptr_eq(&self.tcp, tcp)
    }

    /// Begins to connect to the target: see [`Group::go_straight`].
    pub(crate) fn connect(&self) -> Option<Result<Connected<TcpStream>, ConnectError>> {
        // What was seen is valid whatever its holder was doing when it panicked.
        let mut shown = self.shown.lock().unwrap_or_else(PoisonError::into_inner);
        self.tcp.only_target()?.go_straight(&mut shown)
    }

    fn group(&self) -> &Group {
        self.tcp.only_target().expect("only plain relays are here")
    }
}

// === impl Plain ===

impl Plain {
    /// A client's connection, and how it is over already where connecting could not begin.
    pub(crate) fn begin(
        service: Arc<Plainly>,
        id: u64,
        (client, peer): (TcpStream, SocketAddr),
        presence: Arc<Presence>,
        begun: Result<Connected<TcpStream>, ConnectError>,
        now: Instant,
    ) -> (Self, Option<Ended>) {
        let client = Socket::new(client, Readiness::default());
        let account = Account::open(id, client, peer, presence, Phase::Connecting, now);
        let connected = begun.map_err(|error| Ended::not_connected(&error));
        let connected = connected.and_then(|connected| {
            sys::socket::keep_urgent_inline(&connected.stream)
                .map_err(|error| Ended::because(EndedBy::Server, &error))?;
            Ok(connected)
        });
        let (connected, over) = match connected {
            Ok(connected) => (Some(connected), None),
            Err(ended) => (None, Some(ended)),
        };
        let plain = Self {
            service,
            account,
            connecting: connected.map(|connected| Connecting {
                connected,
                since: now,
                readiness: Readiness::default(),
            }),
            up: Direction::default(),
            down: Direction::default(),
            moved: 0,
            moved_at: now,
        };
        (plain, over)
    }

    pub(crate) fn service(&self) -> &Arc<Plainly> {
        &self.service
    }

    /// Both sockets, the client's first.
    pub(crate) fn sockets(&self) -> Option<(&Socket, &TcpStream)> {
        let connecting = self.connecting.as_ref()?;
        Some((&self.account.client, &connecting.connected.stream))
    }

    /// A socket is ready for something.
    pub(crate) fn is_told(&mut self, side: Side, readiness: Readiness) {
        match (side, &mut self.connecting, self.account.server()) {
            (Side::Client, ..) => self.account.client.is_told(readiness),
            (Side::Server, Some(connecting), _) => {
                connecting.readiness = connecting.readiness.and(readiness);
            }
            (Side::Server, None, Some(server)) => server.is_told(readiness),
            (Side::Server, None, None) => {}
        }
    }

    /// Goes on as far as its sockets are ready.
    pub(crate) fn turn(&mut self, now: Instant) -> Turn {
        let is_over = |connecting: &mut Connecting| connecting.readiness.is_writable();
        if let Some(connecting) = self.connecting.take_if(is_over) {
            let failed = connecting.readiness.has_failed();
            let group = self.service.group();
            let connected = match group.arrived(connecting.connected, failed) {
                Ok(connected) => connected,
                Err(error) => return Turn::Over(Ended::not_connected(&error)),
            };
            let connected = Connected {
                stream: Socket::new(connected.stream, connecting.readiness),
                peer: connected.peer,
                applied: connected.applied,
                congestion: connected.congestion,
                place: connected.place,
            };
            let Tcp {
                relay,
                looks,
                events,
                ..
            } = &*self.service.tcp;
            let took = (connecting.since, now);
            self.account
                .reached(connected, took, &relay.front, looks, events);
            self.account.enter_at(Phase::Data, now);
            self.moved_at = now;
        }
        if self.connecting.is_some() {
            return Turn::Waits;
        }
        self.forward(now)
    }

    /// When it is over unless something happens before.
    pub(crate) fn due_at(&self) -> Instant {
        let limits = &self.service.tcp.relay.limits;
        if let Some(connecting) = &self.connecting {
            return connecting.since + limits.connect_timeout;
        }
        let patience = if self.account.is_closing() {
            limits.half_closed_timeout
        } else {
            limits.idle_timeout
        };
        self.moved_at + patience
    }

    /// How it is over, if it has been [due](Self::due_at).
    pub(crate) fn overdue(&mut self, now: Instant) -> Option<Ended> {
        if now < self.due_at() {
            return None;
        }
        Some(match self.connecting.take() {
            Some(connecting) => {
                let waited: Duration = now - connecting.since;
                Ended::not_connected(&self.service.group().has_waited(waited))
            }
            None => Ended::timeout("no byte has moved for the limit"),
        })
    }

    /// Tells of its end, and closes both sides. Without a reason, it is the relay that ends it.
    pub(crate) fn end(mut self, ended: Option<Ended>) {
        if let Some(ended) = ended {
            self.account.end(ended);
        }
        let Tcp {
            relay,
            looks,
            events,
            ..
        } = &*self.service.tcp;
        let (up, down) = (self.up.given(), self.down.given());
        self.account.settle(up, down, &relay.front, looks, events);
    }

    /// As [`Account::forward`] does.
    fn forward(&mut self, now: Instant) -> Turn {
        let client = &self.account.client;
        let Some(server) = self.account.server() else {
            return Turn::Over(Ended::timeout("there is no connection to the target"));
        };
        let reserve = &self.service.tcp.reserve;
        // Whoever tells of readiness gives a turn as well.
        let context = &mut Context::from_waker(Waker::noop());
        // What has come to its end both ways is closed, and that is the last FIN.
        let is_last = self.down.is_closed();
        let up = match self.up.turn(context, (client, server), reserve, is_last) {
            Ok(up) => up,
            Err(broken) => {
                return Turn::Over(Ended::broken(broken, EndedBy::Client, EndedBy::Server));
            }
        };
        let is_last = self.up.is_closed();
        let down = match self.down.turn(context, (server, client), reserve, is_last) {
            Ok(down) => down,
            Err(broken) => {
                return Turn::Over(Ended::broken(broken, EndedBy::Server, EndedBy::Client));
            }
        };
        let sides = [
            (EndedBy::Client, client, self.up.listens()),
            (EndedBy::Server, server, self.down.listens()),
        ];
        // Whoever reads hears of it there; nobody does after a FIN, or while the other side takes nothing.
        let unheard = sides.into_iter().find_map(|(side, socket, listens)| {
            let error = if listens { Ok(()) } else { socket.failure() };
            Some(Ended::failed(side, &error.err()?))
        });
        let was_closing = self.account.is_closing();
        let (up_closed, down_closed) = (self.up.is_closed(), self.down.is_closed());
        if self.account.closes(up_closed, down_closed) {
            return Turn::Over(Ended::completed());
        }
        if let Some(ended) = unheard {
            return Turn::Over(ended);
        }
        let moved = self.up.given() + self.down.given();
        if moved != self.moved || was_closing != self.account.is_closing() {
            (self.moved, self.moved_at) = (moved, now);
        }
        if up == direction::Turn::Over || down == direction::Turn::Over {
            return Turn::Again;
        }
        Turn::Waits
    }
}
