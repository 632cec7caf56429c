//! Listeners, their clients, and an orderly end.

use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use profile::Side;
use sys::socket::Applied;
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, watch};
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout_at};

use crate::buffer::Buffers;
use crate::door::{Door, Visitor};
use crate::event::{Event, Events, Stage};
use crate::pool::{self, Pool};
use crate::session::Session;
use crate::tcp::Tcp;
use crate::tls::Tls;
use crate::tls::settings::{Settings, TlsError};
use crate::{Config, Front, HttpRelay, TcpRelay, TlsRelay, door, host, looks};

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
    /// TLS cannot be spoken as configured.
    #[error("the relay on {address} cannot speak TLS as configured")]
    Tls {
        /// The address to listen on.
        address: SocketAddr,
        /// What is wrong.
        #[source]
        source: Box<TlsError>,
    },
}

/// Serves until `shutdown` resolves, then drains: no new clients, requests and connections under way are
/// finished up to the drain timeout. All listeners are open, or none.
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
        let congestion = try_server_profile(&mut relay.front, forgets_windows)?;
        let (listener, applied) = door::bind(relay.front.listen, &relay.front.client_profile)?;
        let relay = Arc::new(relay);
        bound.push((listener, applied, Bound::Http { relay, congestion }));
    }
    for mut relay in config.tcp {
        try_server_profile(&mut relay.front, forgets_windows)?;
        let (listener, applied) = door::bind(relay.front.listen, &relay.front.client_profile)?;
        // Accepted sockets inherit it: see the `tcp` module for what it is about.
        sys::socket::keep_urgent_inline(&listener).map_err(|source| RunError::Listen {
            address: relay.front.listen,
            source,
        })?;
        bound.push((listener, applied, Bound::Tcp(Arc::new(relay))));
    }
    for mut relay in config.tls {
        try_server_profile(&mut relay.front, forgets_windows)?;
        let settings = Settings::load(&relay).map_err(|source| RunError::Tls {
            address: relay.front.listen,
            source: Box::new(source),
        })?;
        let (listener, applied) = door::bind(relay.front.listen, &relay.front.client_profile)?;
        let relay = Arc::new(relay);
        bound.push((listener, applied, Bound::Tls { relay, settings }));
    }
    let (drain, draining) = watch::channel(false);
    let mut servers = JoinSet::new();
    for (listener, applied, bound) in bound {
        let service = match bound {
            Bound::Http { relay, congestion } => {
                host::warn(&relay, forgets_windows, congestion.as_deref(), &events);
                Service::Http(Http {
                    pool: Pool::new(relay, Arc::clone(&events), forgets_windows),
                    buffers: Arc::default(),
                    draining: draining.clone(),
                })
            }
            Bound::Tcp(relay) => Service::Tcp(Arc::new(Tcp::new(relay, Arc::clone(&events)))),
            Bound::Tls { relay, settings } => {
                Service::Tls(Arc::new(Tls::new(relay, settings, Arc::clone(&events))))
            }
        };
        let server = Server {
            service,
            events: Arc::clone(&events),
            draining: draining.clone(),
            accepted: 0,
        };
        servers.spawn(server.serve(listener, applied));
    }
    shutdown.await;
    drain.send_replace(true);
    while servers.join_next().await.is_some() {}
    Ok(())
}

/// A relay whose listener is open.
enum Bound {
    Http {
        relay: Arc<HttpRelay>,
        /// The server side's.
        congestion: Option<String>,
    },
    Tcp(Arc<TcpRelay>),
    Tls {
        relay: Arc<TlsRelay>,
        settings: Settings,
    },
}

/// Puts the server-side profile on a socket that goes nowhere, so that what this host refuses is told
/// before the first client. Returns the congestion control that is in effect.
fn try_server_profile(
    relay: &mut Front,
    forgets_windows: bool,
) -> Result<Option<String>, RunError> {
    relay.server_profile = relay.server_profile.clone().on_host(forgets_windows);
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

/// One listener and its clients.
struct Server {
    service: Service,
    events: Events,
    draining: watch::Receiver<bool>,
    /// Clients so far: the newest one's number.
    accepted: u64,
}

/// What is done for a client.
enum Service {
    Http(Http),
    Tcp(Arc<Tcp>),
    Tls(Arc<Tls>),
}

/// What HTTP sessions share.
struct Http {
    pool: Arc<Pool>,
    buffers: Arc<Buffers>,
    draining: watch::Receiver<bool>,
}

// === impl Service ===

impl Service {
    fn front(&self) -> &Front {
        match self {
            Self::Http(http) => &http.pool.relay.front,
            Self::Tcp(tcp) => &tcp.relay.front,
            Self::Tls(tls) => &tls.relay.front,
        }
    }

    /// Starts to serve a client, who keeps `place` until the end.
    fn start(
        &self,
        clients: &mut JoinSet<()>,
        id: u64,
        stream: TcpStream,
        peer: SocketAddr,
        place: OwnedSemaphorePermit,
    ) {
        match self {
            Self::Http(http) => {
                let session = Session {
                    id,
                    stream,
                    peer,
                    pool: Arc::clone(&http.pool),
                    buffers: Arc::clone(&http.buffers),
                    draining: http.draining.clone(),
                };
                clients.spawn(async move {
                    session.serve().await;
                    drop(place);
                });
            }
            Self::Tcp(tcp) => {
                let serving = Arc::clone(tcp).serve(id, stream, peer);
                clients.spawn(async move {
                    serving.await;
                    drop(place);
                });
            }
            Self::Tls(tls) => {
                let serving = Arc::clone(tls).serve(id, stream, peer);
                clients.spawn(async move {
                    serving.await;
                    drop(place);
                });
            }
        }
    }
}

// === impl Server ===

impl Server {
    async fn serve(mut self, listener: TcpListener, applied: Vec<Applied>) {
        let front = self.service.front();
        let address = listener.local_addr().unwrap_or(front.listen);
        (self.events)(Event::Listening {
            address,
            target: front.target.to_string(),
        });
        let profile = &front.client_profile;
        looks::report(
            &self.events,
            Side::Client,
            profile,
            Stage::Listening,
            applied,
        );
        let keeper = match &self.service {
            Service::Http(http) => Some(tokio::spawn(pool::keep(Arc::clone(&http.pool)))),
            Service::Tcp(_) | Service::Tls(_) => None,
        };
        let mut door = Door::new(
            listener,
            profile,
            front.allow.clone(),
            front.connections,
            Arc::clone(&self.events),
        );
        let mut clients = JoinSet::new();
        let mut draining = self.draining.clone();
        tokio::select! {
            biased;
            _ = draining.wait_for(|draining| *draining) => {}
            () = self.accept(&mut door, &mut clients) => {}
        }
        drop(door);
        if let (Service::Http(http), Some(keeper)) = (&self.service, keeper) {
            keeper.abort();
            http.pool.stop();
        }
        self.drain(clients).await;
    }

    /// Accepts clients for ever.
    async fn accept(&mut self, door: &mut Door, clients: &mut JoinSet<()>) {
        loop {
            let Visitor {
                stream,
                peer,
                place,
            } = door.next().await;
            while clients.try_join_next().is_some() {}
            self.accepted += 1;
            let id = self.accepted;
            self.service.start(clients, id, stream, peer, place);
        }
    }

    /// Waits for clients to finish, and cuts off what is left at the deadline.
    async fn drain(&self, mut clients: JoinSet<()>) {
        while clients.try_join_next().is_some() {}
        (self.events)(Event::Draining {
            clients: clients.len(),
        });
        let deadline = Instant::now() + self.service.front().drain_timeout;
        while let Ok(Some(_)) = timeout_at(deadline, clients.join_next()).await {}
        let aborted = clients.len();
        clients.shutdown().await;
        let pool = match &self.service {
            Service::Http(http) => Some(&http.pool),
            Service::Tcp(_) | Service::Tls(_) => None,
        };
        (self.events)(Event::Stopped {
            aborted,
            connections: self.accepted,
            requests: pool.map(|pool| pool.served()),
            hot_ratio: pool.map(|pool| pool.hot_ratio()),
        });
    }
}
