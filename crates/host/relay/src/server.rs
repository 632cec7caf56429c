//! Listeners, their clients, and an orderly end.

use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Once};
use std::time::Duration;

use profile::Side;
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::sync::{Semaphore, watch};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout_at};

use crate::buffer::Buffers;
use crate::event::{AppliedOption, Event};
use crate::pool::{self, Events, Pool};
use crate::session::Session;
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
    /// The client-side profile cannot be put into effect.
    #[error("the client-side profile is not in effect on {address}")]
    Profile {
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
    let mut bound = Vec::new();
    for relay in config.http {
        bound.push((bind(&relay)?, Arc::new(relay)));
    }
    let forgets_windows = host::forgets_windows();
    let (drain, draining) = watch::channel(false);
    let mut servers = JoinSet::new();
    for (listener, relay) in bound {
        host::warn(&relay, forgets_windows, &events);
        let pool = Pool::new(Arc::clone(&relay), Arc::clone(&events), forgets_windows);
        servers
            .spawn(Server::new(relay, pool, Arc::clone(&events), draining.clone()).serve(listener));
    }
    shutdown.await;
    drain.send_replace(true);
    while servers.join_next().await.is_some() {}
    Ok(())
}

/// A listener with the client-side profile on it, which accepted sockets inherit.
fn bind(relay: &HttpRelay) -> Result<TcpListener, RunError> {
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
    sys::socket::apply(&socket, &relay.client_profile, Side::Client, address).map_err(
        |source| RunError::Profile {
            address,
            source: Box::new(source),
        },
    )?;
    socket.bind(address).map_err(listen)?;
    socket.listen(BACKLOG).map_err(listen)
}

/// One listener and its clients.
struct Server {
    relay: Arc<HttpRelay>,
    pool: Arc<Pool>,
    events: Events,
    draining: watch::Receiver<bool>,
    buffers: Arc<Buffers>,
    next_client: AtomicU64,
    warned_distance: Arc<Once>,
    reported_options: AtomicBool,
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
            warned_distance: Arc::new(Once::new()),
            reported_options: AtomicBool::new(false),
        }
    }

    async fn serve(mut self, listener: TcpListener) {
        let address = listener.local_addr().unwrap_or(self.relay.listen);
        (self.events)(Event::Listening {
            address,
            target: self.relay.target.to_string(),
        });
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
        let allow = &self.relay.allow;
        if !allow.is_empty() && !allow.iter().any(|block| block.contains(peer.ip())) {
            (self.events)(Event::Refused {
                peer,
                why: "its address is in no allowed block".into(),
            });
            return None;
        }
        // Inherited from the listener; set again because that is what reading back is compared with.
        match sys::socket::apply(&stream, &self.relay.client_profile, Side::Client, peer) {
            Ok(applied) => {
                if !self.reported_options.swap(true, Ordering::Relaxed) {
                    (self.events)(Event::Applied {
                        side: Side::Client,
                        profile: self.relay.client_profile.name.clone(),
                        options: applied.into_iter().map(AppliedOption::from).collect(),
                    });
                }
            }
            Err(error) => {
                (self.events)(Event::Refused {
                    peer,
                    why: crate::chain(&error),
                });
                return None;
            }
        }
        Some(Session {
            id: self.next_client.fetch_add(1, Ordering::Relaxed),
            stream,
            peer,
            pool: Arc::clone(&self.pool),
            buffers: Arc::clone(&self.buffers),
            draining: self.draining.clone(),
            warned_distance: Arc::clone(&self.warned_distance),
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
