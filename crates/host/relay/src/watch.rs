//! What the page shows of a running relay: connections and what has held them back, alerts, traffic.
//!
//! Listeners enter their connections here with the addresses of both sockets; [`reading`] asks the kernel
//! about all of them once a second (`sock_diag`), which needs no hold on the sockets themselves. What is
//! kept of each is bounded ([`past`]), and so is the number of connections that are over.

mod alerts;
mod connection;
mod past;
mod reading;
mod show;

use std::collections::{BTreeMap, VecDeque};
use std::net::SocketAddr;
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use profile::Side;
use record::page::End;
use tokio::time::Instant;

use crate::event::{ConnectionDone, Event};
use alerts::Alerts;
use connection::Connection;
use past::Past;
pub(crate) use reading::Reader;

/// Connections that are over and still known.
const ENDED: usize = 200;

/// What is known of all connections.
pub(crate) struct Watch {
    started: Instant,
    started_unix_s: f64,
    /// Whether somebody can ask. What nobody can ask for is not kept: it would be a third of what a connection
    /// costs.
    asked: AtomicBool,
    /// Whether the relay's audience hears how connections end.
    is_told: bool,
    state: Mutex<State>,
}

/// A connection that is entered for as long as this lives; `None` where it came while nobody could ask.
pub(crate) struct Entry(Option<(Arc<Watch>, u64)>);

/// Both ends of a socket, this host's first.
pub(crate) type Ends = (SocketAddr, SocketAddr);

#[derive(Default)]
struct State {
    entered: u64,
    open: BTreeMap<u64, Connection>,
    by_ends: BTreeMap<Ends, (u64, Side)>,
    ended: VecDeque<(u64, Connection)>,
    traffic: Past,
    alerts: Alerts,
    /// Between the last two readings of the kernel; `None` where it cannot be asked.
    interval: Option<Duration>,
}

// === impl Watch ===

impl Watch {
    pub(crate) fn new(is_told: bool) -> Arc<Self> {
        let unix = SystemTime::now().duration_since(UNIX_EPOCH);
        Arc::new(Self {
            started: Instant::now(),
            started_unix_s: unix.map_or(0.0, |unix| unix.as_secs_f64()),
            asked: AtomicBool::new(false),
            is_told,
            state: Mutex::default(),
        })
    }

    /// Connections are entered from now on, or no more.
    pub(crate) fn keep(&self, asked: bool) {
        self.asked.store(asked, Ordering::Relaxed);
    }

    /// Whether connections are entered.
    pub(crate) fn is_asked(&self) -> bool {
        self.asked.load(Ordering::Relaxed)
    }

    /// Whether anybody hears, or can ask, how a connection ended.
    pub(crate) fn is_heard(&self) -> bool {
        self.is_told || self.is_asked()
    }

    /// Both ends of a connection that is to be entered; `None` where none is.
    pub(crate) fn ends_of(&self, stream: &impl AsFd, peer: SocketAddr) -> Option<Ends> {
        let local = self.is_asked().then(|| sys::socket::local_address(stream));
        Some((local?.ok()?, peer))
    }

    /// Enters a client's connection.
    pub(crate) fn client(self: &Arc<Self>, listener: SocketAddr, ends: Option<Ends>) -> Entry {
        self.enter(listener, Side::Client, ends)
    }

    /// Enters a pool's connection to a target.
    pub(crate) fn pooled(self: &Arc<Self>, listener: SocketAddr, ends: Option<Ends>) -> Entry {
        self.enter(listener, Side::Server, ends)
    }

    /// Takes note of what somebody should look at.
    pub(crate) fn notice(&self, event: &Event) {
        if let Event::RequestDone { .. } | Event::ConnectionDone(_) = event {
            // Nothing to look at, and there are many of them: they need not wait for each other here.
            return;
        }
        let now = self.now();
        self.state().alerts.notice(event, now);
    }

    /// Since the start.
    fn now(&self) -> Duration {
        self.started.elapsed()
    }

    fn enter(self: &Arc<Self>, listener: SocketAddr, side: Side, ends: Option<Ends>) -> Entry {
        if !self.is_asked() {
            return Entry(None);
        }
        let now = self.now();
        let mut state = self.state();
        state.entered += 1;
        let id = state.entered;
        state.open.insert(id, Connection::new(listener, now));
        drop(state);
        let entry = Entry(Some((Arc::clone(self), id)));
        if let Some(ends) = ends {
            entry.joined(side, ends);
        }
        entry
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // Every change is complete before anything could panic.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

// === impl Entry ===

impl Entry {
    /// The socket of a side, by its ends. The kernel writes an IPv4 client of an IPv6 listener as IPv4.
    pub(crate) fn joined(&self, side: Side, (local, peer): Ends) {
        let Some((watch, id)) = &self.0 else {
            return;
        };
        let ends = (canonical(local), canonical(peer));
        let now = watch.now();
        let mut state = watch.state();
        let Some(connection) = state.open.get_mut(id) else {
            return;
        };
        connection.join(side, ends, now);
        // A socket may take the ends of one that was closed a moment ago: the newer one has them.
        state.by_ends.insert(ends, (*id, side));
    }

    /// How it ended, and what the kernel knew then.
    pub(crate) fn done(&self, done: &ConnectionDone) {
        let Some((watch, id)) = &self.0 else {
            return;
        };
        let now = watch.now();
        let mut state = watch.state();
        if let Some(connection) = state.open.get_mut(id) {
            connection.done(done, now);
        }
    }

    /// How far the newest request came; the connection may go on.
    pub(crate) fn request_done(&self, by: &str, phase: &str, error: Option<&str>) {
        let Some((watch, id)) = &self.0 else {
            return;
        };
        let mut state = watch.state();
        if let Some(connection) = state.open.get_mut(id) {
            connection.outcome = Some(End {
                at_s: 0.0,
                by: by.to_owned(),
                phase: phase.to_owned(),
                error: error.map(str::to_owned),
            });
        }
    }
}

impl Drop for Entry {
    fn drop(&mut self) {
        if let Some((watch, id)) = &self.0 {
            let now = watch.now();
            watch.state().close(*id, now);
        }
    }
}

// === impl State ===

impl State {
    fn close(&mut self, id: u64, now: Duration) {
        let Some(mut connection) = self.open.remove(&id) else {
            return;
        };
        for (side, ends) in connection.sockets() {
            if self.by_ends.get(&ends) == Some(&(id, side)) {
                self.by_ends.remove(&ends);
            }
        }
        connection.end(now);
        if self.ended.len() == ENDED {
            self.ended.pop_front();
        }
        self.ended.push_back((id, connection));
    }
}

fn canonical(address: SocketAddr) -> SocketAddr {
    SocketAddr::new(address.ip().to_canonical(), address.port())
}

#[cfg(test)]
mod tests;
