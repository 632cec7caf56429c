//! A thread that watches sockets itself and moves plain byte streams between them.
//!
//! What a short connection costs is system calls, and beside them whatever else is done for it shows: as a task of a runtime, with its
//! wakers, timers and registrations, it cost a third more. So streams that need [nothing but two sockets](crate::tcp::plain) are served
//! here: accepted, connected and moved by one loop, which touches each when one of its sockets is ready, and looks at the clock of all
//! of them when the first is due. Whatever has to wait for anything else is served by a task.

mod inside;
mod orders;
mod streams;

use std::collections::VecDeque;
use std::future::Future;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll, Waker};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use profile::Side;
use sys::readiness::{Poller, Ready};
use tokio::runtime::Handle;
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::Instant;

use crate::door::{Gate, Knock, Visitor};
use crate::ending::Ended;
use crate::event::EndedBy;
use crate::server::Service;
use crate::tcp::plain::{Plain, Plainly, Turn};
use inside::Guest;
pub(crate) use inside::Inside;
use orders::{Inbox, Order};
pub(crate) use orders::{Lease, Post, Reactor};
use streams::{Key, Served, Streams, Token};

/// How many more connections than the least busy reactor one may have before a new one changes over, which costs
/// a wake-up: more than chance brings to short connections, few enough for eight long ones to end up well divided.
const UNEVEN: usize = 3;

/// Time from one look at all clocks to the next, so that thousands of streams that are due one after the other cost little. One that begins, or
/// ends a side, and is due before that is looked at in time.
const LOOKS_APART: Duration = Duration::from_millis(50);

/// A reactor's thread. What it serves ends with it.
pub(crate) struct Thread {
    pub(crate) reactor: Reactor,
    thread: Option<JoinHandle<()>>,
}

/// What the thread has.
struct Rounds {
    inbox: Arc<Inbox>,
    poller: Poller,
    entrances: Vec<Entrance>,
    streams: Streams,
    /// The services of all streams, and of those that come next.
    services: Vec<Arc<Plainly>>,
    /// Those that get a turn next.
    due: VecDeque<Key>,
    /// Entrances before which somebody stands, and at which of their sockets.
    arrivals: Vec<(u32, u16)>,
    /// When the clocks of all are to be looked at.
    look_at: Option<Instant>,
    now: Instant,
}

/// A listener that was lent.
struct Entrance {
    number: u32,
    gate: Gate,
    post: Arc<Post>,
    awaited: Awaited,
}

/// What an entrance waits for.
enum Awaited {
    Arrivals,
    /// For what an accepted connection needs.
    Until(Instant),
    /// For a place, for somebody who was let in already.
    Place(Pin<Box<dyn Future<Output = OwnedSemaphorePermit> + Send>>),
}

// === impl Thread ===

impl Thread {
    /// `runtime` does what others have begun by an event of a stream.
    pub(crate) fn start(name: String, runtime: Handle) -> io::Result<Self> {
        let inbox = Arc::new(Inbox::new()?);
        let poller = Poller::new()?;
        poller.watch_arrivals(&inbox.bell, Token::Bell.number())?;
        let rounds = Rounds {
            inbox: Arc::clone(&inbox),
            poller,
            entrances: Vec::new(),
            streams: Streams::default(),
            services: Vec::new(),
            due: VecDeque::new(),
            arrivals: Vec::new(),
            look_at: None,
            now: Instant::now(),
        };
        let thread = thread::Builder::new().name(name).spawn(move || {
            let _inside = runtime.enter();
            rounds.run();
        })?;
        Ok(Self {
            reactor: Reactor::new(inbox),
            thread: Some(thread),
        })
    }
}

impl Drop for Thread {
    fn drop(&mut self) {
        self.reactor.order(Order::Stop);
        if let Some(thread) = self.thread.take() {
            // A thread that has panicked has ended as well.
            let _ = thread.join();
        }
    }
}

// === impl Rounds ===

impl Rounds {
    fn run(mut self) {
        let mut ready = Vec::new();
        // A fault of its own ends the thread, but not without a word.
        let _ = catch_unwind(AssertUnwindSafe(|| while self.round(&mut ready) {}));
        self.inbox.close();
        for key in self.streams.keys() {
            self.end(key, None);
        }
        self.inbox.close();
    }

    /// Waits, and does what is to be done then. `false` where the thread is to end.
    fn round(&mut self, ready: &mut Vec<Ready>) -> bool {
        let timeout = self.timeout();
        if self.poller.wait(timeout, ready).is_err() {
            // Its own descriptor is not one any more: nothing could be watched.
            return false;
        }
        self.now = Instant::now();
        let mut rung = false;
        for Ready { token, readiness } in ready.drain(..) {
            match Token::of(token) {
                Token::Bell => rung = true,
                Token::Entrance(number, socket) => self.arrivals.push((number, socket)),
                Token::Stream(key, side) => {
                    if let Some(served) = self.streams.get(key) {
                        served.plain.is_told(side, readiness);
                        if !std::mem::replace(&mut served.is_due, true) {
                            self.due.push_back(key);
                        }
                    }
                }
            }
        }
        // Who is due again gets a turn in the next round.
        for _ in 0..self.due.len() {
            if let Some(key) = self.due.pop_front() {
                self.turn(key);
            }
        }
        while let Some((number, socket)) = self.arrivals.pop() {
            // Others' words are said there as well.
            let _ = catch_unwind(AssertUnwindSafe(|| self.arrive(number, socket)));
        }
        if rung && !self.hear() {
            return false;
        }
        self.look();
        true
    }

    /// How long nothing is to be done.
    fn timeout(&self) -> Option<Duration> {
        if !self.due.is_empty() {
            return Some(Duration::ZERO);
        }
        let pauses = self.entrances.iter().filter_map(Entrance::until);
        let next = pauses.chain(self.look_at).min()?;
        Some(next.saturating_duration_since(self.now))
    }

    /// Does what others have ordered.
    fn hear(&mut self) -> bool {
        self.inbox.bell.silence();
        for order in self.inbox.take() {
            match order {
                Order::Lend(number, gate, post) => self.open(Entrance {
                    number,
                    gate: *gate,
                    post,
                    awaited: Awaited::Until(self.now),
                }),
                Order::Return(number, reply) => {
                    let mut all = self.entrances.iter();
                    let index = all.position(|entrance| entrance.number == number);
                    // None where it was taken back before.
                    if let Some(index) = index {
                        let entrance = self.entrances.swap_remove(index);
                        if let Awaited::Arrivals = entrance.awaited {
                            entrance.forget(&self.poller);
                        }
                        // Whoever does not want it any more lets it close.
                        let _ = reply.send(entrance.gate);
                        self.forget_unused();
                    }
                }
                Order::Serve(visitor, post, guest) => self.serve(visitor, &post, guest),
                Order::Cut(inside) => {
                    for key in self.streams.keys_of(&inside) {
                        self.end(key, None);
                    }
                }
                Order::Stop => return false,
            }
        }
        for index in 0..self.entrances.len() {
            self.enter(index);
        }
        true
    }

    /// Gives a stream its turn.
    fn turn(&mut self, key: Key) {
        let now = self.now;
        let Some(served) = self.streams.get(key) else {
            return;
        };
        served.is_due = false;
        // As in a runtime, a fault in one stream is not another's end.
        let turn = catch_unwind(AssertUnwindSafe(|| served.plain.turn(now)));
        match turn {
            Ok(Turn::Waits) => {}
            Ok(Turn::Again) => {
                served.is_due = true;
                self.due.push_back(key);
            }
            Ok(Turn::Over(ended)) => return self.end(key, Some(ended)),
            Err(_told_by_the_hook) => return self.end(key, None),
        }
        let due_at = served.plain.due_at();
        self.look_by(due_at);
    }

    /// All clocks are looked at then, or before.
    fn look_by(&mut self, due_at: Instant) {
        self.look_at = Some(self.look_at.map_or(due_at, |at| at.min(due_at)));
    }

    /// Ends what is overdue, and lets in again where a pause is over.
    fn look(&mut self) {
        for index in 0..self.entrances.len() {
            if self.entrances[index]
                .until()
                .is_some_and(|until| until <= self.now)
            {
                self.watch(index);
            }
        }
        if self.look_at.is_none_or(|at| self.now < at) {
            return;
        }
        let mut over = Vec::new();
        let mut next: Option<Instant> = None;
        for (key, plain) in self.streams.all() {
            match catch_unwind(AssertUnwindSafe(|| plain.overdue(self.now))) {
                Ok(None) => {
                    let due_at = plain.due_at();
                    next = Some(next.map_or(due_at, |at| at.min(due_at)));
                }
                Ok(ended) => over.push((key, ended)),
                Err(_told_by_the_hook) => over.push((key, None)),
            }
        }
        self.look_at = next.map(|at| at.max(self.now + LOOKS_APART));
        for (key, ended) in over {
            self.end(key, ended);
        }
    }

    fn end(&mut self, key: Key, ended: Option<Ended>) {
        let Some(served) = self.streams.remove(key) else {
            return;
        };
        self.inbox.load.store(self.streams.len(), Ordering::Relaxed);
        let Served {
            plain,
            place,
            guest,
            ..
        } = *served;
        let service = Arc::clone(plain.service());
        // Others' words are said here.
        let _ = catch_unwind(AssertUnwindSafe(|| plain.end(ended)));
        drop((place, guest));
        // Here and among all services.
        let is_last = Arc::strong_count(&service) == 2;
        drop(service);
        if is_last {
            self.forget_unused();
        }
    }

    /// Forgets services that no stream has and none will get here: they would look at their targets for as long as they are there.
    fn forget_unused(&mut self) {
        let mut services = std::mem::take(&mut self.services);
        services.retain(|service| {
            let is_newest = |entrance: &Entrance| match &**entrance.post.service.borrow() {
                Service::Tcp(tcp) => service.is_of(tcp),
                Service::Http(_) | Service::Tls(_) => false,
            };
            Arc::strong_count(service) > 1 || self.entrances.iter().any(is_newest)
        });
        self.services = services;
    }

    /// Lets clients in by a listener, one who waits inside already before all others.
    fn open(&mut self, entrance: Entrance) {
        let index = self.entrances.len();
        self.entrances.push(entrance);
        let entrance = &mut self.entrances[index];
        if entrance.gate.is_full() {
            entrance.awaited = Awaited::Place(Box::pin(entrance.gate.place()));
            self.enter(index);
        } else {
            self.watch(index);
        }
    }

    /// Tells of arrivals from now on.
    ///
    /// By all sockets of its address, as the reactors of its other entrances do: whoever is idle takes the next. By their own alone, which
    /// is how the kernel divides connections among them, one would wait for a busy thread beside an idle one.
    fn watch(&mut self, index: usize) {
        let entrance = &mut self.entrances[index];
        let sockets = (0_u16..).zip(entrance.gate.listeners());
        let watched = sockets.into_iter().try_for_each(|(index, socket)| {
            let token = Token::Entrance(entrance.number, index).number();
            self.poller.watch_shared_arrivals(socket, token)
        });
        entrance.awaited = match watched {
            Ok(()) => Awaited::Arrivals,
            Err(error) => {
                entrance.forget(&self.poller);
                Awaited::Until(entrance.gate.falls_short(&error))
            }
        };
    }

    /// Somebody stands before an entrance.
    fn arrive(&mut self, number: u32, socket: u16) {
        let mut all = self.entrances.iter();
        let Some(index) = all.position(|entrance| entrance.number == number) else {
            return;
        };
        let entrance = &mut self.entrances[index];
        if !matches!(entrance.awaited, Awaited::Arrivals) {
            // It has stopped letting in since that was told.
            return;
        }
        let awaited = match entrance.gate.knock(socket.into()) {
            Knock::Came(visitor) => {
                let post = Arc::clone(&entrance.post);
                return self.place(visitor, &post);
            }
            Knock::Nobody | Knock::Again => return,
            Knock::Full => Awaited::Place(Box::pin(entrance.gate.place())),
            Knock::Short(until) => Awaited::Until(until),
        };
        entrance.awaited = awaited;
        // Nobody else is let in meanwhile, and would be told of all the time.
        entrance.forget(&self.poller);
        self.enter(index);
    }

    /// Lets somebody in who waits for a place, where there is one now.
    fn enter(&mut self, index: usize) {
        let entrance = &mut self.entrances[index];
        let Awaited::Place(place) = &mut entrance.awaited else {
            return;
        };
        let waker = Waker::from(Arc::clone(&self.inbox));
        let Poll::Ready(place) = place.as_mut().poll(&mut Context::from_waker(&waker)) else {
            return;
        };
        let visitor = entrance.gate.enter(place);
        let post = Arc::clone(&entrance.post);
        self.watch(index);
        if let Some(visitor) = visitor {
            self.place(visitor, &post);
        }
    }

    /// Serves a client here, or has another reactor do it that has much less to do.
    fn place(&mut self, visitor: Visitor<std::net::TcpStream>, post: &Arc<Post>) {
        // From here on, so that nobody who changes over is overlooked.
        let guest = post.inside.enter();
        let loads = post.reactors.iter().map(Reactor::load);
        match better_off(self.streams.len(), loads) {
            Some(better) => {
                post.reactors[better].order(Order::Serve(visitor, Arc::clone(post), guest));
            }
            None => self.serve(visitor, post, guest),
        }
    }

    fn serve(&mut self, visitor: Visitor<std::net::TcpStream>, post: &Arc<Post>, guest: Guest) {
        // As with a stream's turn; the client sees its connection closed.
        let _ = catch_unwind(AssertUnwindSafe(|| self.begin(visitor, post, guest)));
    }

    fn begin(&mut self, visitor: Visitor<std::net::TcpStream>, post: &Arc<Post>, guest: Guest) {
        let service = self.plainly(post);
        let begun = service.and_then(|service| Some((service.connect()?, service)));
        let Some((begun, service)) = begun else {
            // Where that entrance has closed meanwhile, the client sees its connection closed as well.
            let _ = post.elsewhere.send(visitor);
            return;
        };
        let Visitor {
            stream,
            peer,
            place,
        } = visitor;
        let id = post.accepted.fetch_add(1, Ordering::Relaxed) + 1;
        let presence = Arc::new(post.meter.arrived(id, &stream, peer));
        let client = (stream, peer);
        let (plain, over) = Plain::begin(service, id, client, presence, begun, self.now);
        let due_at = plain.due_at();
        let key = self.streams.insert(Served {
            plain,
            place,
            guest,
            is_due: false,
        });
        self.inbox.load.store(self.streams.len(), Ordering::Relaxed);
        if over.is_some() {
            return self.end(key, over);
        }
        if let Err(error) = self.watch_both(key) {
            return self.end(key, Some(Ended::because(EndedBy::Resource, &error)));
        }
        self.look_by(due_at);
    }

    /// The newest service of a post, if it is one of plain streams.
    fn plainly(&mut self, post: &Post) -> Option<Arc<Plainly>> {
        let service = post.service.borrow();
        let Service::Tcp(tcp) = &**service else {
            return None;
        };
        let known = self.services.iter().find(|known| known.is_of(tcp));
        if known.is_some() {
            return known.cloned();
        }
        if !tcp.is_plain() {
            return None;
        }
        let new = Arc::new(Plainly::new(Arc::clone(tcp)));
        self.services.push(Arc::clone(&new));
        Some(new)
    }

    fn watch_both(&mut self, key: Key) -> io::Result<()> {
        let served = self.streams.get(key);
        let Some((client, server)) = served.and_then(|served| served.plain.sockets()) else {
            return Ok(());
        };
        let token = |side| Token::Stream(key, side).number();
        self.poller.watch(client, token(Side::Client))?;
        self.poller.watch(server, token(Side::Server))
    }
}

// === impl Entrance ===

impl Entrance {
    /// Is told of arrivals no more.
    fn forget(&self, poller: &Poller) {
        for socket in self.gate.listeners() {
            // Where one is not watched, there is nothing to forget.
            let _ = poller.forget(socket);
        }
    }

    /// Until when nobody is let in.
    fn until(&self) -> Option<Instant> {
        match self.awaited {
            Awaited::Until(until) => Some(until),
            Awaited::Arrivals | Awaited::Place(_) => None,
        }
    }
}

/// Who is to serve a new connection, where that is not the one with a load of `own`.
pub(crate) fn better_off(own: usize, loads: impl Iterator<Item = usize>) -> Option<usize> {
    let (index, least) = loads.enumerate().min_by_key(|&(_, load)| load)?;
    (own >= least.saturating_add(UNEVEN)).then_some(index)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_new_connection_changes_over_only_where_another_thread_has_much_less_to_do() {
        assert_eq!(better_off(0, [0].into_iter()), None);
        assert_eq!(better_off(2, [2, 0].into_iter()), None);
        assert_eq!(better_off(3, [3, 0].into_iter()), Some(1));
        assert_eq!(better_off(5, [3, 2, 5].into_iter()), Some(1));
        // The busy one gives away until the difference is small, wherever connections come in.
        let mut loads = [0, 0];
        for _ in 0..8 {
            let chosen = better_off(loads[0], loads.into_iter()).unwrap_or(0);
            loads[chosen] += 1;
        }
        assert_eq!(loads, [5, 3]);
    }
}
