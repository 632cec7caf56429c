//! The serving end: any number of clients at a time, each connection a session of its own.

mod session;

use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;

use crate::engine::{Engine, EngineError, Listener, Opened, SocketOptions, Stream};
use crate::failure::FlowError;
use crate::live::locked;

pub use session::Served;

/// Connections at a time; one more is closed at once.
const MOST_SESSIONS: usize = 4096;

/// Waits for clients and does what they ask.
#[derive(Debug)]
pub struct Server {
    listener: Box<dyn Listener>,
    open: Mutex<Vec<Arc<dyn Stream>>>,
    sessions: AtomicUsize,
}

/// What happened at a server.
#[derive(Debug)]
#[non_exhaustive]
pub enum Event {
    /// A connection has ended.
    Closed {
        /// The client.
        peer: Option<SocketAddr>,
        /// What was carried.
        served: Served,
        /// Why it ended early, where it did.
        error: Option<FlowError>,
    },
    /// A connection could not be accepted.
    NotAccepted {
        /// Why.
        error: EngineError,
    },
    /// There were too many connections.
    Crowded {
        /// The client that was turned away.
        peer: Option<SocketAddr>,
    },
}

// === impl Server ===

impl Server {
    /// Listens; connections wait until [`run`](Self::run).
    pub fn listen(
        engine: &dyn Engine,
        address: SocketAddr,
        options: &SocketOptions,
    ) -> Result<Self, EngineError> {
        Ok(Self {
            listener: engine.listen(address, options)?,
            open: Mutex::default(),
            sessions: AtomicUsize::new(0),
        })
    }

    /// Where it listens, with the real port.
    #[must_use]
    pub fn local(&self) -> SocketAddr {
        self.listener.local()
    }

    /// Serves until [`stop`](Self::stop). `watch` is called from the sessions' threads.
    pub fn run(&self, watch: &(dyn Fn(Event) + Sync)) {
        thread::scope(|scope| {
            while let Some(accepted) = self.listener.accept() {
                let opened = match accepted {
                    Ok(opened) => opened,
                    Err(error) => {
                        watch(Event::NotAccepted { error });
                        continue;
                    }
                };
                if self.sessions.fetch_add(1, Ordering::Relaxed) >= MOST_SESSIONS {
                    self.sessions.fetch_sub(1, Ordering::Relaxed);
                    opened.stream.shut_down();
                    let peer = opened.stream.peer();
                    watch(Event::Crowded { peer });
                    continue;
                }
                locked(&self.open).push(Arc::clone(&opened.stream));
                scope.spawn(|| self.serve(opened, watch));
            }
            for stream in locked(&self.open).iter() {
                stream.shut_down();
            }
        });
    }

    /// Makes [`run`](Self::run) come back; connections that are open end.
    pub fn stop(&self) {
        self.listener.stop();
    }

    fn serve(&self, opened: Opened, watch: &(dyn Fn(Event) + Sync)) {
        let stream = opened.stream;
        let peer = stream.peer();
        let (served, error) = session::serve(&stream);
        stream.shut_down();
        locked(&self.open).retain(|other| !Arc::ptr_eq(other, &stream));
        self.sessions.fetch_sub(1, Ordering::Relaxed);
        watch(Event::Closed {
            peer,
            served,
            error,
        });
    }
}
