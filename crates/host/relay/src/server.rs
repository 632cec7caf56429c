//! From a configuration to listeners that serve, through reloads, to an orderly end.

mod crew;
mod listener;
mod service;

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::os::fd::{AsFd as _, OwnedFd};
use std::sync::{Arc, PoisonError};

use profile::Side;
use sys::privilege::{PrivilegeError, User};
use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::{AbortHandle, JoinSet};

use crate::admin::{Board, Desk, Posted};
use crate::event::{Audience, Event, Events};
use crate::meter::Meter;
use crate::tcp::users::UsersError;
use crate::tls::handshakes::TlsError;
use crate::traces::{Collector, Tracer, Traces};
use crate::watch::{Reader, Watch};
use crate::{Admin, Config, admin, door, host};
use crew::{Crew, Worker};
use listener::{Entrance, Listener};
use service::Prepared;
pub(crate) use service::Service;

/// What a running relay is told to do.
#[derive(Debug)]
pub enum Order {
    /// Go on with this configuration. Listeners whose address is in it stay open, and connections that are open
    /// go on as they were; where it cannot be put into effect, nothing changes.
    Reload(Box<Config>),
    /// Give out copies of all listening sockets, for a process that takes this one's place. Nothing changes.
    Listeners(oneshot::Sender<Vec<OwnedFd>>),
    /// Accept nobody any more, finish what is under way up to the drain timeout, and end.
    Stop,
}

/// The relay cannot start, or cannot go on with another configuration.
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
    /// The collector of traces cannot be spoken to with TLS as configured.
    #[error("cannot speak TLS with the collector of traces as configured")]
    Traces(#[source] Box<TlsError>),
    /// The file of those who may ask for a target cannot be used.
    #[error("the relay on {address} does not know its users")]
    Users {
        /// The address to listen on.
        address: SocketAddr,
        /// What is wrong.
        #[source]
        source: Box<UsersError>,
    },
    /// A listener cannot have addresses that are not this host's.
    #[error("the listener on {address} cannot be transparent, which takes CAP_NET_ADMIN")]
    Transparent {
        /// The address to listen on.
        address: SocketAddr,
        /// What the kernel said.
        #[source]
        source: io::Error,
    },
    /// There are no threads for byte streams.
    #[error("cannot start the threads that serve byte streams")]
    Threads(#[source] io::Error),
    /// The relay cannot go on as another user.
    #[error("cannot give up the privileges of the start")]
    Privilege(#[source] PrivilegeError),
    /// A running relay cannot become another user's.
    #[error("`user` cannot change while the relay runs: start it again")]
    UserChanged,
}

/// All listeners, and what their tasks are told.
struct Fleet {
    events: Events,
    /// The user that the relay runs as, where it was told.
    user: Option<String>,
    board: Board,
    watch: Arc<Watch>,
    traces: Arc<Traces>,
    admin: Option<Administration>,
    listeners: Vec<Handle>,
    draining: watch::Sender<bool>,
    servers: JoinSet<()>,
    /// Last, so that nothing is served any more when its threads end.
    crew: Crew,
}

/// The task that answers an administrator, which ends with this.
struct Administration {
    admin: Admin,
    socket: Arc<TcpListener>,
    task: AbortHandle,
    /// Nobody is asked about connections where nobody could look at them.
    _reader: Reader,
}

/// A listener that serves, seen from outside its task.
struct Handle {
    /// As configured: the port may be 0.
    address: SocketAddr,
    meter: Arc<Meter>,
    /// Counts what it passes on.
    events: Events,
    entrances: Vec<Entrance>,
    service: watch::Sender<Arc<Service>>,
    retired: watch::Sender<bool>,
}

/// Serves until it is ordered to stop, or nobody is left who could order it. All listeners are open, or none.
///
/// `sockets` are listeners that somebody else has opened, such as systemd or this relay's predecessor: a relay whose address is that of one
/// of them takes it. `events` is called from the tasks and threads that serve, in the order of each connection's own
/// events; it must not block.
pub async fn run(
    config: Config,
    sockets: Vec<TcpListener>,
    events: impl Into<Audience>,
    mut orders: mpsc::Receiver<Order>,
) -> Result<(), RunError> {
    let audience = events.into();
    let watch = Watch::new(audience.hears_of_connections);
    let noticed = Arc::clone(&watch);
    let events: Events = Arc::new(move |event| {
        noticed.notice(&event);
        (audience.tell)(event);
    });
    let mut fleet = Fleet {
        traces: Traces::new(Arc::clone(&events)),
        events,
        user: config.user.clone(),
        board: Board::default(),
        watch,
        admin: None,
        listeners: Vec::new(),
        draining: watch::channel(false).0,
        servers: JoinSet::new(),
        crew: Crew::start().map_err(RunError::Threads)?,
    };
    let user = config.user.as_deref().map(User::find).transpose();
    let user = user.map_err(RunError::Privilege)?;
    fleet.put_into_effect(config, sockets)?;
    if let Some(user) = user {
        user.assume().map_err(RunError::Privilege)?;
    }
    let listeners = fleet.listeners.len();
    (fleet.events)(Event::Ready { listeners });
    while let Some(order) = orders.recv().await {
        match order {
            Order::Reload(config) => fleet.reload(*config),
            // Whoever asked may have given up.
            Order::Listeners(reply) => drop(reply.send(fleet.copies())),
            Order::Stop => break,
        }
    }
    fleet.draining.send_replace(true);
    fleet.listeners.clear();
    while fleet.servers.join_next().await.is_some() {}
    fleet.traces.finish().await;
    Ok(())
}

// === impl Fleet ===

impl Fleet {
    fn reload(&mut self, config: Config) {
        let outcome = match self.put_into_effect(config, Vec::new()) {
            Ok(()) => Event::Reloaded {
                listeners: self.listeners.len(),
            },
            Err(error) => Event::ReloadFailed {
                why: crate::chain(&error),
            },
        };
        (self.events)(outcome);
    }

    /// Copies of all listening sockets. One of which the kernel makes none is left out: its successor listens anew.
    fn copies(&self) -> Vec<OwnedFd> {
        let entrances = self.listeners.iter().flat_map(|open| &open.entrances);
        let relays = entrances.map(|entrance| &entrance.socket);
        let admin = self.admin.iter().map(|open| &open.socket);
        relays
            .chain(admin)
            .filter_map(|socket| socket.as_fd().try_clone_to_owned().ok())
            .collect()
    }

    /// Serves what the configuration says from now on. What can fail comes first, so that a refused one changes
    /// nothing.
    fn put_into_effect(
        &mut self,
        config: Config,
        mut handed: Vec<TcpListener>,
    ) -> Result<(), RunError> {
        while self.servers.try_join_next().is_some() {}
        if config.user != self.user {
            return Err(RunError::UserChanged);
        }
        let forgets_windows = host::forgets_windows();
        let admin = config.admin.clone();
        let collector = config.traces.as_ref().map(Collector::prepare).transpose();
        let collector = collector.map_err(|source| RunError::Traces(Box::new(source)))?;
        let relays = service::prepare(config, forgets_windows)?;
        let mut opened: Vec<Vec<Entrance>> = Vec::new();
        for relay in &relays {
            let open = self.listeners.iter().find(|open| {
                let taken = opened.iter().any(|entrances| open.has(entrances));
                open.address == relay.front().listen && !taken
            });
            let entrances = match open {
                Some(open) => open.entrances.clone(),
                None => self.open(relay, &mut handed)?,
            };
            opened.push(entrances);
        }
        let asks_already = |admin: &Admin| {
            let open = self.admin.as_ref();
            open.is_some_and(|open| open.admin == *admin)
        };
        let new_admin = match admin.as_ref().filter(|admin| !asks_already(admin)) {
            Some(admin) => {
                let (socket, _) = door::take_or_bind(admin.listen, &admin.profile, &mut handed)?;
                Some((admin.clone(), Arc::new(socket)))
            }
            None => None,
        };
        door::tell_unused(handed, &self.events);
        self.watch.keep(admin.is_some());
        self.traces.follow(collector);
        let mut before = std::mem::take(&mut self.listeners);
        for (relay, entrances) in relays.into_iter().zip(opened) {
            let same = |open: &Handle| open.has(&entrances);
            let handle = if let Some(index) = before.iter().position(same) {
                let handle = before.swap_remove(index);
                handle.renew(relay, forgets_windows);
                handle
            } else {
                self.start(relay, entrances, forgets_windows)
            };
            self.listeners.push(handle);
        }
        for handle in before {
            handle.retired.send_replace(true);
            handle.service.borrow().retire();
        }
        let posted = self.listeners.iter().map(Handle::posted);
        *self.board.lock().unwrap_or_else(PoisonError::into_inner) = posted.collect();
        if let Some((admin, socket)) = new_admin {
            self.admin = Some(self.administrate(admin, socket));
        } else if admin.is_none() {
            self.admin = None;
        }
        Ok(())
    }

    /// Opens listening sockets for a relay, one for each of the crew.
    fn open(
        &self,
        relay: &Prepared,
        handed: &mut Vec<TcpListener>,
    ) -> Result<Vec<Entrance>, RunError> {
        let workers: Vec<Worker> = self.crew.workers().cloned().collect();
        listener::open(relay.front(), relay.is_transparent(), handed, &workers)
    }

    fn administrate(&self, admin: Admin, socket: Arc<TcpListener>) -> Administration {
        if let Ok(address) = socket.local_addr() {
            (self.events)(Event::Admin { address });
        }
        let desk = Desk {
            board: Arc::clone(&self.board),
            watch: Arc::clone(&self.watch),
            traces: Arc::clone(&self.traces),
            draining: self.draining.subscribe(),
        };
        let (listener, events) = (Arc::clone(&socket), Arc::clone(&self.events));
        let answering = admin::serve(listener, admin.clone(), desk, events);
        Administration {
            admin,
            socket,
            task: tokio::spawn(answering).abort_handle(),
            _reader: Reader::start(&self.watch),
        }
    }

    fn start(
        &mut self,
        relay: Prepared,
        entrances: Vec<Entrance>,
        forgets_windows: bool,
    ) -> Handle {
        let address = relay.front().listen;
        let first = entrances.first();
        let bound = first.and_then(|entrance| entrance.socket.local_addr().ok());
        let listen = bound.unwrap_or(address);
        let tracer = Tracer::new(Arc::clone(&self.traces), listen);
        tracer.aim(relay.front());
        let meter = Arc::new(Meter::new(listen, Arc::clone(&self.watch), tracer));
        let (counted, told) = (Arc::clone(&meter), Arc::clone(&self.events));
        let events: Events = Arc::new(move |event| {
            counted.count(&event);
            told(event);
        });
        let service = Arc::new(relay.begin(&events, forgets_windows));
        let service = watch::Sender::new(service);
        let retired = watch::Sender::new(false);
        let listener = Listener {
            entrances: entrances.clone(),
            workers: self.crew.workers().cloned().collect(),
            service: service.subscribe(),
            meter: Arc::clone(&meter),
            events: Arc::clone(&events),
            draining: self.draining.subscribe(),
            retired: retired.subscribe(),
        };
        listener.announce();
        self.servers.spawn(listener.serve());
        Handle {
            address,
            meter,
            events,
            entrances,
            service,
            retired,
        }
    }
}

// === impl Administration ===

impl Drop for Administration {
    fn drop(&mut self) {
        self.task.abort();
    }
}

// === impl Handle ===

impl Handle {
    /// Whether these are its listening sockets.
    fn has(&self, entrances: &[Entrance]) -> bool {
        let (ours, theirs) = (self.entrances.first(), entrances.first());
        ours.zip(theirs)
            .is_some_and(|(ours, theirs)| Arc::ptr_eq(&ours.socket, &theirs.socket))
    }

    /// What an administrator is shown of it.
    fn posted(&self) -> Posted {
        let service = self.service.borrow();
        Posted {
            meter: Arc::clone(&self.meter),
            mode: service.mode(),
            target: service.front().destination.to_string(),
        }
    }

    /// New clients get `relay`; those who are there keep what they have. A relay that has not changed stays,
    /// with its hot connections.
    fn renew(&self, relay: Prepared, forgets_windows: bool) {
        let before = Arc::clone(&self.service.borrow());
        if relay.is(&before) {
            return;
        }
        let profile = &relay.front().client_profile;
        for Entrance { socket, .. } in &self.entrances {
            let applied = sys::socket::apply(&**socket, profile, Side::Client, self.address);
            if let Err(error) = applied {
                // It has just worked on another socket of this host.
                (self.events)(Event::Warning {
                    name: "profile-not-in-effect",
                    text: crate::chain(&error),
                });
            }
        }
        self.meter.tracer.aim(relay.front());
        let service = Arc::new(relay.begin(&self.events, forgets_windows));
        self.service.send_replace(service);
        before.retire();
    }
}
