//! What is done for the clients of one listener.

use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;

use profile::Side;
use tokio::net::{TcpSocket, TcpStream};
use tokio::sync::watch;
use tokio::task::AbortHandle;

use super::RunError;
use crate::buffer::Buffers;
use crate::event::Events;
use crate::meter::Presence;
use crate::pool::{self, Pool};
use crate::session::{Arrival, Visit};
use crate::tcp::users::Users;
use crate::tcp::{self, Tcp};
use crate::tls::handshakes::Handshakes;
use crate::tls::settings::Settings;
use crate::tls::{self, Tls};
use crate::{Config, Front, HttpRelay, TcpRelay, TlsRelay, host};

/// A relay that this host can run.
pub(super) enum Prepared {
    Http {
        relay: Arc<HttpRelay>,
        handshakes: Handshakes,
        /// The server side's.
        congestion: Option<String>,
    },
    Tcp {
        relay: Arc<TcpRelay>,
        /// Who may ask for a target.
        users: Option<Users>,
    },
    Tls {
        relay: Arc<TlsRelay>,
        settings: Settings,
    },
}

/// What is done for a client.
pub(crate) enum Service {
    Http(Http),
    Tcp(Arc<Tcp>),
    Tls(Arc<Tls>),
}

/// What HTTP sessions share.
pub(crate) struct Http {
    pool: Arc<Pool>,
    buffers: Arc<Buffers>,
    /// The task that keeps the pool filled.
    keeper: AbortHandle,
}

/// Tries all that a configuration needs of this host: profiles on sockets that go nowhere, and files. What is
/// refused is told before the first client.
pub(super) fn prepare(config: Config, forgets_windows: bool) -> Result<Vec<Prepared>, RunError> {
    let mut all = Vec::new();
    for mut relay in config.http {
        let congestion = try_profiles(&mut relay.front, forgets_windows)?;
        let handshakes = tls::for_http(&relay).map_err(|source| RunError::Tls {
            address: relay.front.listen,
            source: Box::new(source),
        })?;
        all.push(Prepared::Http {
            relay: Arc::new(relay),
            handshakes,
            congestion,
        });
    }
    for mut relay in config.tcp {
        try_profiles(&mut relay.front, forgets_windows)?;
        let users = tcp::load_users(&relay).map_err(|source| RunError::Users {
            address: relay.front.listen,
            source: Box::new(source),
        })?;
        all.push(Prepared::Tcp {
            relay: Arc::new(relay),
            users,
        });
    }
    for mut relay in config.tls {
        try_profiles(&mut relay.front, forgets_windows)?;
        let settings = Settings::load(&relay).map_err(|source| RunError::Tls {
            address: relay.front.listen,
            source: Box::new(source),
        })?;
        all.push(Prepared::Tls {
            relay: Arc::new(relay),
            settings,
        });
    }
    Ok(all)
}

/// Returns the congestion control that is in effect on the server side.
fn try_profiles(front: &mut Front, forgets_windows: bool) -> Result<Option<String>, RunError> {
    front.server_profile = front.server_profile.clone().on_host(forgets_windows);
    let address = front.listen;
    let nowhere = SocketAddr::from(([0, 0, 0, 0], 0));
    let fail = |side| {
        move |source| RunError::Profile {
            side,
            address,
            source: Box::new(source),
        }
    };
    let socket = || TcpSocket::new_v4().map_err(|source| RunError::Socket { address, source });
    let client = socket()?;
    sys::socket::apply(&client, &front.client_profile, Side::Client, nowhere)
        .map_err(fail(Side::Client))?;
    let server = socket()?;
    sys::socket::apply(&server, &front.server_profile, Side::Server, nowhere)
        .map_err(fail(Side::Server))?;
    Ok(sys::socket::congestion_control(&server).ok())
}

// === impl Prepared ===

impl Prepared {
    pub(super) fn front(&self) -> &Front {
        match self {
            Self::Http { relay, .. } => &relay.front,
            Self::Tcp { relay, .. } => &relay.front,
            Self::Tls { relay, .. } => &relay.front,
        }
    }

    /// Whether its listener gets connections to addresses that are not this host's, by a TPROXY rule.
    pub(super) fn is_transparent(&self) -> bool {
        match self {
            Self::Tcp { relay, .. } => relay.transparency.is_some_and(|by| by.tproxy),
            Self::Http { .. } | Self::Tls { .. } => false,
        }
    }

    /// Whether `service` does the same already, with the same certificates.
    pub(super) fn is(&self, service: &Service) -> bool {
        match (self, service) {
            (
                Self::Http {
                    relay, handshakes, ..
                },
                Service::Http(http),
            ) => {
                let pool = &http.pool;
                *relay == pool.relay && handshakes.are_of_the_same_files(&pool.handshakes)
            }
            (Self::Tcp { relay, users }, Service::Tcp(tcp)) => {
                *relay == tcp.relay && *users == tcp.users
            }
            (Self::Tls { relay, settings }, Service::Tls(tls)) => {
                *relay == tls.relay && settings.are_of_the_same_files(&tls.settings)
            }
            _ => false,
        }
    }

    /// Makes ready for clients: from here on, an HTTP relay fills its pool.
    pub(super) fn begin(self, events: &Events, forgets_windows: bool) -> Service {
        match self {
            Self::Http {
                relay,
                handshakes,
                congestion,
            } => {
                host::warn(&relay, forgets_windows, congestion.as_deref(), events);
                let pool = Pool::new(relay, handshakes, Arc::clone(events), forgets_windows);
                Service::Http(Http {
                    keeper: tokio::spawn(pool::keep(Arc::clone(&pool))).abort_handle(),
                    pool,
                    buffers: Arc::default(),
                })
            }
            Self::Tcp { relay, users } => {
                let tcp = Tcp::new(relay, users, Arc::clone(events));
                Service::Tcp(Arc::new(tcp))
            }
            Self::Tls { relay, settings } => {
                let tls = Tls::new(relay, settings, Arc::clone(events));
                Service::Tls(Arc::new(tls))
            }
        }
    }
}

// === impl Service ===

impl Service {
    pub(super) fn front(&self) -> &Front {
        match self {
            Self::Http(http) => &http.pool.relay.front,
            Self::Tcp(tcp) => &tcp.relay.front,
            Self::Tls(tls) => &tls.relay.front,
        }
    }

    /// As the table of the configuration is called.
    pub(super) fn mode(&self) -> &'static str {
        match self {
            Self::Http(_) => "http",
            Self::Tcp(_) => "tcp",
            Self::Tls(_) => "tls",
        }
    }

    /// The pool of an HTTP relay.
    pub(crate) fn pool(&self) -> Option<&Arc<Pool>> {
        match self {
            Self::Http(http) => Some(&http.pool),
            Self::Tcp(_) | Self::Tls(_) => None,
        }
    }

    /// Makes nothing ahead of use any more. Requests and connections under way go on.
    pub(super) fn retire(&self) {
        if let Self::Http(http) = self {
            http.keeper.abort();
            http.pool.stop();
        }
    }

    /// What serves a client to the end. `newest` is what later requests on the same connection are served by.
    pub(super) fn serve(
        &self,
        id: u64,
        stream: TcpStream,
        peer: SocketAddr,
        presence: Arc<Presence>,
        newest: &watch::Receiver<Arc<Self>>,
        draining: &watch::Receiver<bool>,
    ) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        match self {
            Self::Http(http) => {
                let visit = Visit {
                    id,
                    peer,
                    pool: Arc::clone(&http.pool),
                    before: None,
                    newest: newest.clone(),
                    buffers: Arc::clone(&http.buffers),
                    draining: draining.clone(),
                };
                Box::pin(Arrival { visit, stream }.serve())
            }
            Self::Tcp(tcp) => Box::pin(Arc::clone(tcp).serve(id, stream, peer, presence)),
            Self::Tls(tls) => Box::pin(Arc::clone(tls).serve(id, stream, peer, presence)),
        }
    }
}
