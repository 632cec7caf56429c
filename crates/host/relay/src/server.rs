//! Listeners, their clients, and an orderly end.

use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use profile::Side;
use sys::socket::Applied;
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::sync::{Semaphore, watch};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout_at};

use crate::buffer::Buffers;
use crate::event::{Event, Stage};
use crate::pool::{self, Events, Pool};
use crate::session::{Looked, Session};
use crate::{Config, HttpRelay, host};

/// Waiting connections in the kernel, beyond which it drops SYNs; `net.core.somaxconn` bounds it.
const BACKLOG: u32 = 4096;
/// After the kernel ran out of something that an accepted connection needs; doubles up to the maximum.
/// Without a pause a full descriptor table would turn the listener into a busy loop.
const FIRST_PAUSE: Duration = Duration::from_millis(20);
const MAX_PAUSE: Duration = Duration::from_secs(1);

/// The relay cannot start.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// No socket could be made for an address.
    #[error("cannot make a listening socket for {address}")]
    Socket {
        /// The address to listen on.
        address: SocketAddr,
        /// What the kernel said.
        #[source]
        source: io::Error,
    },
    /// The address is not this host's, or is in use.
    #[error("cannot listen on {address}")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// What the kernel said.
        #[source]
        source: io::Error,
    },
    /// A profile cannot be put into effect.
    #[error("the {side} profile of the relay on {address} does not work on this host")]
    Profile {
        /// Which side.
        side: Side,
        /// The address to listen on.
        address: SocketAddr,
        /// The option that was refused.
        #[source]
        source: Box<sys::socket::ApplyError>,
    },
}

/// Serves until `shutdown` resolves, then drains: no new clients, requests under way are finished up to
/// the drain timeout. All listeners are open, or none.
///
/// `events` is called from the tasks that serve, in the order of each connection's own events; it must
/// not block.
pub async fn run(
    config: Config,
    events: impl Fn(Event) + Send + Sync + 'static,
    shutdown: impl Future<Output = ()>,
) -> Result<(), RunError> {
    let events: Events = Arc::new(events);
    let forgets_windows = host::forgets_windows();
    let mut bound = Vec::new();
    for mut relay in config.http {
        relay.server_profile = relay.server_profile.on_host(forgets_windows);
        let congestion = try_server_profile(&relay)?;
        let (listener, applied) = bind(&relay)?;
        bound.push((listener, applied, congestion, Arc::new(relay)));
    }
    let (drain, draining) = watch::channel(false);
    let mut servers = JoinSet::new();
    for (listener, applied, congestion, relay) in bound {
        host::warn(&relay, forgets_windows, congestion.as_deref(), &events);
        let pool = Pool::new(Arc::clone(&relay), Arc::clone(&events), forgets_windows);
        let server = Server::new(relay, pool, Arc::clone(&events), draining.clone());
        servers.spawn(server.serve(listener, applied));
    }
    shutdown.await;
    drain.send_replace(true);
    while servers.join_next().await.is_some() {}
    Ok(())
}

/// Puts the server-side profile on a socket that goes nowhere, so that what this host refuses is told
/// before the first client. Returns the congestion control that is in effect.
fn try_server_profile(relay: &HttpRelay) -> Result<Option<String>, RunError> {
    let address = relay.listen;
    let socket = TcpSocket::new_v4().map_err(|source| RunError::Socket { address, source })?;
    let nowhere = SocketAddr::from(([0, 0, 0, 0], 0));
    sys::socket::apply(&socket, &relay.server_profile, Side::Server, nowhere).map_err(
        |source| RunError::Profile {
            side: Side::Server,
            address,
            source: Box::new(source),
        },
    )?;
    Ok(sys::socket::congestion_control(&socket).ok())
}

/// A listener with the client-side profile on it, which accepted sockets inherit.
fn bind(relay: &HttpRelay) -> Result<(TcpListener, Vec<Applied>), RunError> {
    let address = relay.listen;
    let socket = if address.is_ipv4() {
        TcpSocket::new_v4()
    } else {
        TcpSocket::new_v6()
    };
    let socket = socket.map_err(|source| RunError::Socket { address, source })?;
    let listen = |source| RunError::Listen { address, source };
    // A restart must not wait for the last run's connections to leave TIME_WAIT.
    socket.set_reuseaddr(true).map_err(listen)?;
    let applied = sys::socket::apply(&socket, &relay.client_profile, Side::Client, address)
        .map_err(|source| RunError::Profile {
            side: Side::Client,
            address,
            source: Box::new(source),
        })?;
    socket.bind(address).map_err(listen)?;
    let listener = socket.listen(BACKLOG).map_err(listen)?;
    Ok((listener, applied))
}

/// One listener and its clients.
struct Server {
    relay: Arc<HttpRelay>,
    pool: Arc<Pool>,
    events: Events,
    draining: watch::Receiver<bool>,
    buffers: Arc<Buffers>,
    next_client: AtomicU64,
    looked: Arc<Looked>,
}

impl Server {
    fn new(
        relay: Arc<HttpRelay>,
        pool: Arc<Pool>,
        events: Events,
        draining: watch::Receiver<bool>,
    ) -> Self {
        Self {
            relay,
            pool,
            events,
            draining,
            buffers: Arc::default(),
            next_client: AtomicU64::new(1),
            looked: Arc::default(),
        }
    }

    async fn serve(mut self, listener: TcpListener, applied: Vec<Applied>) {
        let address = listener.local_addr().unwrap_or(self.relay.listen);
        (self.events)(Event::Listening {
            address,
            target: self.relay.target.to_string(),
        });
        let profile = &self.relay.client_profile;
        self.pool
            .report(Side::Client, profile, Stage::Listening, applied);
        let keeper = tokio::spawn(pool::keep(Arc::clone(&self.pool)));
        let mut sessions = JoinSet::new();
        let mut draining = self.draining.clone();
        tokio::select! {
            biased;
            _ = draining.wait_for(|draining| *draining) => {}
            () = self.accept(&listener, &mut sessions) => {}
        }
        drop(listener);
        keeper.abort();
        self.pool.stop();
        self.drain(sessions).await;
    }

    /// Accepts clients for ever.
    async fn accept(&mut self, listener: &TcpListener, sessions: &mut JoinSet<()>) {
        let places = Arc::new(Semaphore::new(self.relay.limits.connections));
        let mut pause = FIRST_PAUSE;
        loop {
            // At the limit, clients wait in the kernel's queue instead of being turned away.
            let Ok(place) = Arc::clone(&places).acquire_owned().await else {
                return;
            };
            while sessions.try_join_next().is_some() {}
            match listener.accept().await {
                Ok((stream, peer)) => {
                    pause = FIRST_PAUSE;
                    if let Some(session) = self.admit(stream, peer) {
                        sessions.spawn(async move {
                            session.serve().await;
                            drop(place);
                        });
                    }
                }
                Err(error) if is_shortage(&error) => {
                    (self.events)(Event::Warning {
                        name: "accept-shortage",
                        text: format!(
                            "cannot accept clients: {error}; next attempt in {}. \
                             `ulimit -n` bounds the descriptors of a process",
                            units::format_span(pause)
                        ),
                    });
                    sleep(pause).await;
                    pause = (pause * 2).min(MAX_PAUSE);
                }
                // The client left before it was accepted (accept(2) passes its network errors on).
                Err(_) => {}
            }
        }
    }

    /// A session for an accepted client, unless it may not connect.
    fn admit(&self, stream: TcpStream, peer: SocketAddr) -> Option<Session> {
        if !self
            .relay
            .allow
            .iter()
            .any(|block| block.contains(peer.ip()))
        {
            (self.events)(Event::Refused {
                peer,
                why: "its address is in no allowed block".into(),
            });
            return None;
        }
        Some(Session {
            id: self.next_client.fetch_add(1, Ordering::Relaxed),
            stream,
            peer,
            pool: Arc::clone(&self.pool),
            buffers: Arc::clone(&self.buffers),
            draining: self.draining.clone(),
            looked: Arc::clone(&self.looked),
        })
    }

    /// Waits for sessions to finish, and cuts off what is left at the deadline.
    async fn drain(&self, mut sessions: JoinSet<()>) {
        while sessions.try_join_next().is_some() {}
        (self.events)(Event::Draining {
            clients: sessions.len(),
        });
        let deadline = Instant::now() + self.relay.limits.drain_timeout;
        while let Ok(Some(_)) = timeout_at(deadline, sessions.join_next()).await {}
        let aborted = sessions.len();
        sessions.shutdown().await;
        (self.events)(Event::Stopped {
            aborted,
            requests: self.pool.served(),
            hot_ratio: self.pool.hot_ratio(),
        });
    }
}

/// Whether accepting failed for want of something that may be there again later.
fn is_shortage(error: &io::Error) -> bool {
    // EMFILE, ENFILE, ENOBUFS, ENOMEM of Linux, which io::ErrorKind does not tell apart.
    matches!(error.raw_os_error(), Some(24 | 23 | 105 | 12))
}
