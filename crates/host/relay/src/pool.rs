//! Connections to an origin that are there, and fast, before the request comes.
//!
//! The pool keeps a minimum of idle connections, each primed ([`prime`]) until its windows hold what an
//! upload needs. Requests take the hottest and youngest one and bring it back; a download takes the one that
//! served the same client before, since priming does not open the origin's window, and other downloads do. In
//! the background, one task replaces what was lost and re-primes what has cooled, one connection at a time,
//! because two primings at the path's rate would take the path from each other and from requests.

mod connection;
mod dial;
mod keeper;
pub(crate) mod prime;
mod traffic;

use std::pin::pin;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::{Notify, Semaphore};
use tokio::time::Instant;

use crate::HttpRelay;
use crate::event::{Event, Events};
use crate::looks::Looks;
use crate::throttle::Throttles;
use crate::tls::handshakes::Handshakes;
pub(crate) use connection::{Connection, Temperature};
pub(crate) use dial::DialError;
pub(crate) use keeper::keep;
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
    idle: Mutex<Vec<Connection>>,
    /// One permit per connection that may exist.
    slots: Arc<Semaphore>,
    traffic: Traffic,
    /// Told when a connection was closed, for the keeper: not when one is taken or brought back, or it
    /// would look at all of them once per request.
    lost: Notify,
    /// Told when a connection was brought back, for requests that wait for one.
    returned: Notify,
    /// How often a connection that came back made the idle ones enough again. The keeper looks too seldom to
    /// see that between two requests nothing was missing.
    refills: AtomicU64,
    stopping: AtomicBool,
    next_id: AtomicU64,
    served: AtomicU64,
    served_hot: AtomicU64,
    pub(crate) looks: Looks,
    verified: AtomicBool,
    started: Instant,
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
            idle: Mutex::default(),
            traffic: Traffic::new(),
            lost: Notify::new(),
            returned: Notify::new(),
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

    /// The idle connection that is `wanted`, or else the best one, or a new one, or the next that comes back where
    /// there may be no more.
    pub(crate) async fn take(self: &Arc<Self>, wanted: Option<u64>) -> Result<Lent, DialError> {
        let find = |pool: &Self| pool.take_idle(wanted);
        if let Some((connection, hot)) = find(self) {
            return Ok(self.lend(connection, true, hot));
        }
        self.wait_for(find).await
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
            let wait = tokio::time::timeout_at(deadline, returned);
            wait.await.map_err(|_elapsed| DialError::Exhausted {
                connections: self.relay.pool.max_connections,
                waited: self.relay.limits.connect_timeout,
            })?;
        }
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

    /// The idle connection that is `wanted`, or the hottest one that is alive, the youngest first (last in, first
    /// out: what was used last has cooled least), and whether it is hot.
    fn take_idle(&self, wanted: Option<u64>) -> Option<(Connection, bool)> {
        loop {
            let (mut connection, hot) = {
                let mut idle = self.idle();
                let wanted = wanted.and_then(|id| idle.iter().rposition(|one| one.id == id));
                let is_hot = |connection: &Connection| connection.temperature().is_hot();
                let index = wanted
                    .or_else(|| idle.iter().rposition(is_hot))
                    .or_else(|| idle.len().checked_sub(1))?;
                let connection = idle.remove(index);
                let hot = is_hot(&connection);
                (connection, hot)
            };
            match self.unusable(&mut connection) {
                None => return Some((connection, hot)),
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
    fn unusable(&self, connection: &mut Connection) -> Option<&'static str> {
        connection.lost().or_else(|| self.expired(connection))
    }

    /// Which limit of the pool a connection has reached, if so.
    fn expired(&self, connection: &Connection) -> Option<&'static str> {
        let limits = &self.relay.pool;
        if connection.born.elapsed() >= limits.max_age {
            Some("its maximum age is reached")
        } else if connection.used.elapsed() >= limits.idle_timeout {
            Some("it was idle for its limit")
        } else if connection.requests >= limits.max_requests {
            Some("it has served its number of requests")
        } else {
            None
        }
    }

    fn lend(self: &Arc<Self>, connection: Connection, reused: bool, hot: bool) -> Lent {
        self.traffic.arrive();
        Lent {
            pool: Arc::clone(self),
            connection: Some(connection),
            reused,
            hot,
        }
    }

    fn put_back(&self, mut connection: Connection) {
        connection.used = Instant::now();
        let why = if self.stopping.load(Ordering::Relaxed) {
            Some("the relay stops")
        } else {
            // Whether it is alive is asked when it is taken.
            self.expired(&connection)
        };
        if let Some(why) = why {
            self.close(connection, why);
        } else {
            self.verify_once(&connection);
            let mut idle = self.idle();
            idle.push(connection);
            if idle.len() >= self.relay.pool.min_idle {
                self.refills.fetch_add(1, Ordering::Relaxed);
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

    /// Gives the connection back for the next request.
    pub(crate) fn bring_back(mut self) {
        if let Some(mut connection) = self.connection.take() {
            connection.requests += 1;
            self.pool.traffic.leave();
            self.pool.put_back(connection);
        }
    }

    /// Closes the connection, saying why.
    pub(crate) fn close(mut self, why: &str) {
        if let Some(mut connection) = self.connection.take() {
            connection.requests += 1;
            self.pool.traffic.leave();
            self.pool.close(connection, why);
        }
    }
}

impl Drop for Lent {
    fn drop(&mut self) {
        if let Some(connection) = self.connection.take() {
            self.pool.traffic.leave();
            self.pool.close(connection, "the request was cut off");
        }
    }
}
