//! Connections to an origin that are there, and fast, before the request comes.
//!
//! The pool keeps a minimum of idle connections, each primed ([`prime`]) until its windows hold what an
//! upload needs. Requests take the hottest and youngest one and bring it back; a download takes the one that
//! served the same client before, or one that is not primed, since priming does not open the origin's window, and other
//! downloads do. A long upload waits a while for a primed one, no longer than a new one would take: beside primed ones a
//! cold one stays slow, and brings its part last of all. In the background, one task replaces what was lost and re-primes what has cooled, one connection at a time,
//! because two primings at the path's rate would take the path from each other and from requests.

mod connection;
mod dial;
mod keeper;
mod long;
pub(crate) mod prime;
mod traffic;

use std::pin::pin;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use tokio::sync::{Notify, Semaphore};
use tokio::time::{Instant, timeout_at};

use crate::HttpRelay;
use crate::event::{Event, Events};
use crate::looks::Looks;
use crate::throttle::Throttles;
use crate::tls::handshakes::Handshakes;
pub(crate) use connection::{Connection, Liveness, Temperature};
pub(crate) use dial::DialError;
pub(crate) use keeper::keep;
use long::LongUploads;
use traffic::Traffic;

use crate::upstream::Group;

/// The connections to one origin.
pub(crate) struct Pool {
    pub(crate) relay: Arc<HttpRelay>,
    pub(crate) handshakes: Handshakes,
    pub(crate) throttles: Option<Throttles>,
    pub(crate) events: Events,
    /// Whether the kernel forgets congestion windows over idle time, where the algorithm lets it.
    forgets_windows: bool,
    targets: Arc<Group>,
    /// Round-trip time of the connection made last, in microseconds; 0 before the first.
    rtt_us: AtomicU64,
    idle: Mutex<Vec<Connection>>,
    /// One permit per connection that may exist.
    slots: Arc<Semaphore>,
    traffic: Traffic,
    /// Told when a connection was closed, for the keeper: not when one is taken or brought back, or it
    /// would look at all of them once per request.
    lost: Notify,
    /// Told when a connection was brought back, for requests that wait for one.
    returned: Notify,
    /// Long uploads that wait for a primed connection.
    long: LongUploads,
    /// How often a connection that came back made the idle ones enough again, or went to an upload that waited for it.
    /// The keeper looks too seldom to see that between two requests nothing was missing.
    refills: AtomicU64,
    stopping: AtomicBool,
    next_id: AtomicU64,
    served: AtomicU64,
    served_hot: AtomicU64,
    pub(crate) looks: Looks,
    verified: AtomicBool,
    started: Instant,
}

/// Which connection a request wants.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Wanted {
    /// For a request that may be sent again, a download mostly (also `OPTIONS` and `TRACE`): the one of this name, whose window at the origin its client's last download has opened; or else one
    /// that is not primed, since priming does nothing for it, and if there is one, none for whose client it is kept.
    Download(Option<u64>),
    /// A primed one, for an upload of so many bytes.
    Primed(u64),
    /// Any, the hottest first.
    Best,
}

/// The connection that served a client's last request. While the client has this, its next download finds the connection where there
/// are others for other clients.
#[derive(Clone, Debug)]
pub(crate) struct Before {
    id: u64,
    client: Arc<()>,
}

/// A connection lent to a request. Unless it is brought back, it is closed with this.
pub(crate) struct Lent {
    pool: Arc<Pool>,
    connection: Option<Connection>,
    /// Whether it had served before or been primed, so that the origin may have closed it meanwhile.
    pub(crate) reused: bool,
    /// Whether both windows held their target when it was lent.
    pub(crate) hot: bool,
}

// === impl Pool ===

impl Pool {
    pub(crate) fn new(
        relay: Arc<HttpRelay>,
        handshakes: Handshakes,
        events: Events,
        forgets_windows: bool,
    ) -> Arc<Self> {
        let front = &relay.front;
        let targets = Group::new(
            front.targets(),
            &front.balancing,
            &front.server_profile,
            Arc::clone(&events),
        );
        Arc::new(Self {
            targets,
            throttles: Throttles::new(front.bandwidth),
            slots: Arc::new(Semaphore::new(relay.pool.max_connections)),
            relay,
            handshakes,
            events,
            forgets_windows,
            rtt_us: AtomicU64::new(0),
            idle: Mutex::default(),
            traffic: Traffic::new(),
            lost: Notify::new(),
            returned: Notify::new(),
            long: LongUploads::default(),
            refills: AtomicU64::new(0),
            stopping: AtomicBool::new(false),
            next_id: AtomicU64::new(1),
            served: AtomicU64::new(0),
            served_hot: AtomicU64::new(0),
            looks: Looks::default(),
            verified: AtomicBool::new(false),
            started: Instant::now(),
        })
    }

    /// The idle connection that is `wanted`, or else another one, or a new one, or the next that comes back where
    /// there may be no more.
    pub(crate) async fn take(self: &Arc<Self>, wanted: Wanted) -> Result<Lent, DialError> {
        if let Wanted::Primed(bytes) = wanted
            && let Some(lent) = Box::pin(self.take_primed(bytes)).await
        {
            return Ok(lent);
        }
        let find = |pool: &Self| pool.take_idle(wanted);
        if let Some((connection, hot)) = find(self) {
            return Ok(self.lend(connection, true, hot));
        }
        Box::pin(self.wait_for(find)).await
    }

    /// A primed connection, or the next that comes back, in the order of asking; `None` where there is none to wait for, or none
    /// came in time.
    async fn take_primed(self: &Arc<Self>, bytes: u64) -> Option<Lent> {
        // What is idle while others wait is on its way to one of them.
        let mut may_look = !self.long.waiting.any();
        let _waiting = self.long.waiting.enter();
        let patience = long::slow_start(bytes) * self.rtt().unwrap_or_default();
        let deadline = Instant::now() + patience;
        loop {
            let mut moved = pin!(self.long.moved.notified());
            // Registered before looking, as in `wait_for`.
            moved.as_mut().enable();
            if may_look {
                if let Some((connection, hot)) = self.find_idle(Liveness::Sure, Connection::is_open)
                {
                    return Some(self.lend(connection, true, hot));
                }
                if self.long.lent() == 0 {
                    return None;
                }
            }
            timeout_at(deadline, moved).await.ok()?;
            may_look = true;
        }
    }

    /// A connection that no request has used, for one that cannot share: HTTP/1.0, or a second try.
    pub(crate) async fn take_new(self: &Arc<Self>) -> Result<Lent, DialError> {
        self.wait_for(|pool| {
            // Where idle connections take all the room, one of them makes way.
            if pool.slots.available_permits() == 0
                && let Some(connection) = pool.take_coldest()
            {
                pool.close(
                    connection,
                    "a request that cannot share one needs its place",
                );
            }
            None
        })
        .await
    }

    /// What `find` finds, or a new connection, or the same again each time that one comes back.
    async fn wait_for(
        self: &Arc<Self>,
        find: impl Fn(&Self) -> Option<(Connection, bool)>,
    ) -> Result<Lent, DialError> {
        let deadline = Instant::now() + self.relay.limits.connect_timeout;
        loop {
            let mut returned = pin!(self.returned.notified());
            // Registered before looking: two connections that come back between the looks and the waits
            // of two requests leave one permit only, and the second request would wait beside an idle
            // connection.
            returned.as_mut().enable();
            if let Some((connection, hot)) = find(self) {
                return Ok(self.lend(connection, true, hot));
            }
            if let Ok(slot) = Arc::clone(&self.slots).try_acquire_owned() {
                let connection = self.dial(slot, deadline).await?;
                return Ok(self.lend(connection, false, false));
            }
            let _waiting = self.traffic.wait();
            let wait = timeout_at(deadline, returned);
            wait.await.map_err(|_elapsed| DialError::Exhausted {
                connections: self.relay.pool.max_connections,
                waited: self.relay.limits.connect_timeout,
            })?;
        }
    }

    /// How long the path was when it was measured last.
    fn rtt(&self) -> Option<Duration> {
        let us = self.rtt_us.load(Ordering::Relaxed);
        (us > 0).then(|| Duration::from_micros(us))
    }

    /// Connections kept ready.
    fn min_idle(&self) -> usize {
        self.relay.min_idle(self.rtt())
    }

    /// Whether requests wait for a connection: then nothing else may hold one.
    pub(crate) fn is_wanted(&self) -> bool {
        self.traffic.is_wanted()
    }

    /// Counts a served request and returns the share of all that a hot connection served.
    pub(crate) fn count_request(&self, hot: bool) -> f64 {
        self.served.fetch_add(1, Ordering::Relaxed);
        self.served_hot.fetch_add(u64::from(hot), Ordering::Relaxed);
        self.hot_ratio()
    }

    pub(crate) fn served(&self) -> u64 {
        self.served.load(Ordering::Relaxed)
    }

    #[expect(
        clippy::cast_precision_loss,
        reason = "a ratio of counts, exact below 2^53 requests"
    )]
    pub(crate) fn hot_ratio(&self) -> f64 {
        let served = self.served();
        if served == 0 {
            return 0.0;
        }
        self.served_hot.load(Ordering::Relaxed) as f64 / served as f64
    }

    /// Closes idle connections now and the others as they come back.
    pub(crate) fn stop(&self) {
        self.stopping.store(true, Ordering::Relaxed);
        for connection in std::mem::take(&mut *self.idle()) {
            self.close(connection, "the relay stops");
        }
    }

    /// The idle connection that is `wanted`, or another one.
    fn take_idle(&self, wanted: Wanted) -> Option<(Connection, bool)> {
        if let Wanted::Download(before) = wanted {
            let find =
                |these: &dyn Fn(&Connection) -> bool| self.find_idle(Liveness::Likely, these);
            let before = before.and_then(|id| find(&|one| one.id == id));
            let not_primed = |one: &Connection| one.hot_window.is_none();
            return before
                .or_else(|| find(&|one| not_primed(one) && one.kept_for.strong_count() == 0))
                .or_else(|| find(&not_primed))
                .or_else(|| find(&|_| true));
        }
        self.find_idle(Liveness::Sure, |_| true)
    }

    /// The hottest idle connection of these that is alive, this thread's before others', the youngest first (last in, first
    /// out: what was used last has cooled least), and whether it is hot.
    fn find_idle(
        &self,
        liveness: Liveness,
        these: impl Fn(&Connection) -> bool,
    ) -> Option<(Connection, bool)> {
        let now = Instant::now();
        loop {
            let (mut connection, hot) = {
                let mut idle = self.idle();
                let is_hot = |one: &Connection| one.temperature().is_hot();
                let here = thread::current().id();
                let index = idle
                    .iter()
                    .rposition(|one| these(one) && is_hot(one))
                    .or_else(|| idle.iter().rposition(|one| one.home == here && these(one)))
                    .or_else(|| idle.iter().rposition(&these))?;
                let connection = idle.remove(index);
                let hot = is_hot(&connection);
                (connection, hot)
            };
            match self.unusable(&mut connection, liveness, now) {
                None => match connection.settle() {
                    Ok(connection) => return Some((connection, hot)),
                    // Without its registration it is lost, and was closed.
                    Err(_) => self.tell_lost(),
                },
                Some(why) => self.close(connection, why),
            }
        }
    }

    /// The idle connection that is missed least.
    fn take_coldest(&self) -> Option<Connection> {
        let mut idle = self.idle();
        let cold = idle
            .iter()
            .position(|connection| !connection.temperature().is_hot());
        let index = cold.or_else(|| (!idle.is_empty()).then_some(0))?;
        Some(idle.remove(index))
    }

    /// Why a connection cannot serve another request, if so.
    fn unusable(
        &self,
        connection: &mut Connection,
        liveness: Liveness,
        now: Instant,
    ) -> Option<&'static str> {
        let lost = connection.lost(liveness);
        lost.or_else(|| self.expired(connection, now))
    }

    /// Which limit of the pool a connection has reached, if so.
    fn expired(&self, connection: &Connection, now: Instant) -> Option<&'static str> {
        let limits = &self.relay.pool;
        if now - connection.born >= limits.max_age {
            Some("its maximum age is reached")
        } else if now - connection.used >= limits.idle_timeout {
            Some("it was idle for its limit")
        } else if connection.requests >= limits.max_requests {
            Some("it has served its number of requests")
        } else {
            None
        }
    }

    fn lend(self: &Arc<Self>, connection: Connection, reused: bool, hot: bool) -> Lent {
        self.traffic.arrive();
        if connection.hot_window.is_some() {
            self.long.taken();
        }
        Lent {
            pool: Arc::clone(self),
            connection: Some(connection),
            reused,
            hot,
        }
    }

    fn put_back(&self, mut connection: Connection) {
        let now = Instant::now();
        connection.used = now;
        let why = if self.stopping.load(Ordering::Relaxed) {
            Some("the relay stops")
        } else {
            // Whether it is alive is asked when it is taken.
            self.expired(&connection, now)
        };
        if let Some(why) = why {
            self.close(connection, why);
        } else {
            self.verify_once(&connection);
            let primed = connection.hot_window.is_some();
            let mut idle = self.idle();
            idle.push(connection);
            if idle.len() >= self.min_idle() || (primed && self.long.waiting.any()) {
                self.refills.fetch_add(1, Ordering::Relaxed);
            }
            drop(idle);
            if primed {
                self.long.moved.notify_one();
            }
        }
        self.returned.notify_one();
        self.traffic.stir();
    }

    fn close(&self, mut connection: Connection, why: &str) {
        self.emit(Event::Closed {
            connection: connection.id,
            requests: connection.requests,
            why: why.to_owned(),
        });
        connection.stream.say_goodbye();
        drop(connection);
        self.tell_lost();
    }

    fn tell_lost(&self) {
        // A slot is free: somebody who waits for a connection may make one.
        self.returned.notify_one();
        self.lost.notify_one();
        self.traffic.stir();
    }

    fn emit(&self, event: Event) {
        (self.events)(event);
    }

    /// Looks at the first connection that has carried data.
    fn verify_once(&self, connection: &Connection) {
        let carried = connection.requests > 0 || connection.hot_window.is_some();
        if carried && !self.verified.swap(true, Ordering::Relaxed) {
            let mut profile = self.relay.front.server_profile.clone();
            // The path's rate may have taken its place.
            profile.max_pacing_rate = None;
            let (stream, peer) = (connection.stream.tcp(), connection.peer);
            self.looks.at_server(&self.events, &profile, stream, peer);
        }
    }

    fn idle(&self) -> MutexGuard<'_, Vec<Connection>> {
        // A list of connections is valid whatever its holder was doing when it panicked.
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

// === impl Before ===

impl Before {
    pub(crate) const fn id(&self) -> u64 {
        self.id
    }
}

// === impl Lent ===

impl Lent {
    pub(crate) fn id(&self) -> u64 {
        self.connection
            .as_ref()
            .map_or(0, |connection| connection.id)
    }

    /// The connection. Present until it is brought back, which consumes this.
    pub(crate) fn connection(&mut self) -> &mut Connection {
        self.connection
            .as_mut()
            .expect("only bring_back and drop take it, and both end this value")
    }

    /// Lets the client's next request find the connection.
    pub(crate) fn remember(&mut self, before: &mut Option<Before>) {
        let id = self.id();
        let before = before.get_or_insert_with(|| Before {
            id,
            client: Arc::default(),
        });
        before.id = id;
        self.connection().kept_for = Arc::downgrade(&before.client);
    }

    /// Gives the connection back for the next request.
    pub(crate) fn bring_back(mut self) {
        self.end(Pool::put_back);
    }

    /// Closes the connection, saying why.
    pub(crate) fn close(mut self, why: &str) {
        self.end(|pool, connection| pool.close(connection, why));
    }

    fn end(&mut self, with: impl FnOnce(&Pool, Connection)) {
        let Some(mut connection) = self.connection.take() else {
            return;
        };
        let primed = connection.hot_window.is_some();
        connection.requests += 1;
        self.pool.traffic.leave();
        with(&self.pool, connection);
        // After it may be idle again: who waits for the last one must find it, or hear that there is none.
        if primed && self.pool.long.left() {
            let remains = self.pool.idle().iter().any(|one| one.hot_window.is_some());
            if !remains {
                self.pool.long.moved.notify_waiters();
            }
        }
    }
}

impl Drop for Lent {
    fn drop(&mut self) {
        self.end(|pool, connection| pool.close(connection, "the request was cut off"));
    }
}

#[cfg(test)]
mod tests;
