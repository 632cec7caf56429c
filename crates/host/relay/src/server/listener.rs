//! The listening sockets of one address and their clients.
//!
//! Clients come in by several sockets, one for each thread of the [crew](super::crew), among which the kernel
//! divides connections by their addresses (`SO_REUSEPORT`, `reuseport_select_sock` in `net/core/sock_reuseport.c`). Where that
//! leaves one thread with more to do than another, a new connection changes over. [Reactors](crate::reactor) watch all sockets together.

use std::net::TcpListener;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use profile::Side;
use tokio::net::TcpStream;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout_at};

use super::RunError;
use super::crew::Worker;
use super::service::Service;
use crate::door::{self, Door, Gate, Visitor};
use crate::event::{Event, Events, Stage};
use crate::meter::Meter;
use crate::reactor::{Inside, Lease, Post, Reactor, better_off};
use crate::{Front, looks};

/// A listening socket, and where its clients are served.
#[derive(Clone)]
pub(super) struct Entrance {
    pub(super) socket: Arc<TcpListener>,
    worker: Worker,
}

/// The listening sockets of one address and their clients.
pub(super) struct Listener {
    pub(super) entrances: Vec<Entrance>,
    /// Who may serve: those of the entrances, and others where fewer sockets were handed over than there are threads.
    pub(super) workers: Vec<Worker>,
    pub(super) service: watch::Receiver<Arc<Service>>,
    pub(super) meter: Arc<Meter>,
    pub(super) events: Events,
    /// Becomes true when the relay stops.
    pub(super) draining: watch::Receiver<bool>,
    /// Becomes true when the configuration has no such listener any more.
    pub(super) retired: watch::Receiver<bool>,
}

/// One entrance while clients come in by it.
struct Porter {
    worker: Worker,
    /// Whether it has a socket of its own, and not only who comes over.
    stands: bool,
    /// Whether it is the one of its worker that has the reactor let clients in: that watches all sockets.
    lends: bool,
    /// Who comes over from other entrances.
    moved: mpsc::UnboundedReceiver<Moved>,
    /// Whom the reactor has let in and cannot serve.
    sent: mpsc::UnboundedReceiver<Moved>,
    send: mpsc::UnboundedSender<Moved>,
    /// All entrances, this one included.
    others: Arc<[Other]>,
    /// Clients so far, at all entrances: the newest one's number.
    accepted: Arc<AtomicU64>,
    service: watch::Receiver<Arc<Service>>,
    draining: watch::Receiver<bool>,
    meter: Arc<Meter>,
    clients: Clients,
}

/// Who lets clients in by an entrance.
enum Keeper {
    /// The porter, and tasks serve them.
    Door(Door),
    /// A reactor, which serves them as well.
    Reactor(Lease),
    /// Others do, by all sockets.
    Others(Gate),
}

/// Those who came in by one entrance and are still inside.
struct Clients {
    tasks: JoinSet<()>,
    /// Of reactors.
    inside: Arc<Inside>,
    /// Where they may be.
    reactors: Arc<[Reactor]>,
}

/// An entrance as the others see it.
struct Other {
    worker: Worker,
    moved: mpsc::UnboundedSender<Moved>,
}

/// A client on the way to another thread.
type Moved = Visitor<std::net::TcpStream>;

/// The listening sockets for a relay, one per worker. `transparent`: they get connections to addresses that are not this
/// host's. Sockets that were handed over are taken as they are, each by a worker.
pub(super) fn open(
    front: &Front,
    transparent: bool,
    handed: &mut Vec<TcpListener>,
    workers: &[Worker],
) -> Result<Vec<Entrance>, RunError> {
    let address = front.listen;
    let profile = &front.client_profile;
    let failed = |source| RunError::Listen { address, source };
    let mut entrances = Vec::new();
    for (socket, worker) in door::take(address, handed)
        .into_iter()
        .zip(workers.iter().cycle())
    {
        door::prepare(&socket, address, profile, transparent)?;
        sys::socket::keep_urgent_inline(&socket).map_err(failed)?;
        entrances.push(Entrance::new(door::handed_over(socket, address)?, worker));
    }
    if !entrances.is_empty() {
        return Ok(entrances);
    }
    let sockets = door::bind_several(address, profile, transparent, workers.len())?;
    for (socket, worker) in sockets.into_iter().zip(workers) {
        // Accepted sockets inherit it: see the `tcp` module for what it is about.
        sys::socket::keep_urgent_inline(&socket).map_err(failed)?;
        entrances.push(Entrance::new(door::listen(socket, address)?, worker));
    }
    Ok(entrances)
}

// === impl Entrance ===

impl Entrance {
    fn new(socket: TcpListener, worker: &Worker) -> Self {
        Self {
            socket: Arc::new(socket),
            worker: worker.clone(),
        }
    }
}

// === impl Listener ===

impl Listener {
    /// Tells where clients can connect, and what is in effect there, as the kernel reads it back.
    pub(super) fn announce(&self) {
        let Some(Entrance { socket, .. }) = self.entrances.first() else {
            return;
        };
        let service = self.service.borrow();
        let front = service.front();
        let address = socket.local_addr().unwrap_or(front.listen);
        (self.events)(Event::Listening {
            address,
            target: front.destination.to_string(),
        });
        let profile = &front.client_profile;
        if let Ok(applied) = sys::socket::verify(&**socket, profile, Side::Client, address) {
            let stage = Stage::Listening;
            looks::report(&self.events, Side::Client, profile, stage, applied);
        }
    }

    /// Serves until the relay stops, or until all clients have left after the listener was retired.
    pub(super) async fn serve(mut self) {
        let accepted = Arc::new(AtomicU64::new(0));
        let mut porters = self.porters(&accepted);
        let mut clients = Vec::new();
        while let Some(left) = porters.join_next().await {
            clients.extend(left);
        }
        // Those of a listener that is in the configuration no more go on as they are.
        let all_left = async {
            for clients in &mut clients {
                clients.leave().await;
            }
        };
        tokio::select! {
            biased;
            _ = self.draining.wait_for(|draining| *draining) => {}
            () = all_left => {}
        }
        let service = Arc::clone(&self.service.borrow());
        service.retire();
        let accepted = accepted.load(Ordering::Relaxed);
        drain(&service, clients, accepted, &self.events).await;
    }

    /// Lets clients in by all entrances, each at its worker. The tasks end when there is an order to end that, with the
    /// clients that are inside.
    fn porters(&mut self, accepted: &Arc<AtomicU64>) -> JoinSet<Clients> {
        let service = Arc::clone(&self.service.borrow_and_update());
        let front = service.front();
        let places = door::Places::new(front.connections);
        let mut stands: Vec<(Worker, Option<usize>)> = Vec::new();
        for (own, entrance) in self.entrances.iter().enumerate() {
            stands.push((entrance.worker.clone(), Some(own)));
        }
        for worker in &self.workers {
            if !stands.iter().any(|(other, _)| other.is(worker)) {
                stands.push((worker.clone(), None));
            }
        }
        let (others, receivers): (Vec<_>, Vec<_>) = stands
            .iter()
            .map(|(worker, _)| {
                let (moved, receiver) = mpsc::unbounded_channel();
                let worker = worker.clone();
                (Other { worker, moved }, receiver)
            })
            .unzip();
        let reactors = self.workers.iter().map(|worker| worker.reactor.clone());
        let reactors: Arc<[Reactor]> = reactors.collect();
        let others: Arc<[Other]> = others.into();
        let listeners = self.entrances.drain(..).map(|open| open.socket);
        let listeners: Arc<[_]> = listeners.collect();
        let mut porters = JoinSet::new();
        for (index, ((worker, own), moved)) in stands.iter().zip(receivers).enumerate() {
            let runtime = worker.runtime.clone();
            let gate = Gate::new(
                (Arc::clone(&listeners), own.unwrap_or(0)),
                &front.client_profile,
                front.admission(),
                &places,
                Arc::clone(&self.events),
            );
            let (send, sent) = mpsc::unbounded_channel();
            let porter = Porter {
                stands: own.is_some(),
                lends: !stands[..index].iter().any(|(other, _)| other.is(worker)),
                worker: worker.clone(),
                moved,
                sent,
                send,
                others: Arc::clone(&others),
                accepted: Arc::clone(accepted),
                service: self.service.clone(),
                draining: self.draining.clone(),
                meter: Arc::clone(&self.meter),
                clients: Clients {
                    tasks: JoinSet::new(),
                    inside: Arc::default(),
                    reactors: Arc::clone(&reactors),
                },
            };
            let over = over(self.draining.clone(), self.retired.clone());
            porters.spawn_on(porter.receive(gate, over), &runtime);
        }
        porters
    }
}

/// Resolves when nobody is to be let in any more.
async fn over(mut draining: watch::Receiver<bool>, mut retired: watch::Receiver<bool>) {
    tokio::select! {
        _ = draining.wait_for(|draining| *draining) => {}
        _ = retired.wait_for(|retired| *retired) => {}
    }
}

// === impl Keeper ===

impl Keeper {
    /// The next who is to be served by a task.
    async fn next(&mut self) -> Visitor {
        match self {
            Self::Door(door) => door.next().await,
            // Who has been waiting inside since another configuration.
            Self::Others(gate) => gate.admitted().await,
            Self::Reactor(_) => std::future::pending().await,
        }
    }

    /// Lets nobody in any more. `None` where it was lost with the reactor's thread.
    async fn into_gate(self) -> Option<Gate> {
        match self {
            Self::Door(door) => Some(door.into_gate()),
            Self::Others(gate) => Some(gate),
            Self::Reactor(lease) => lease.take_back().await,
        }
    }
}

// === impl Porter ===

impl Porter {
    /// Lets clients in until `over`, and returns those who are inside.
    async fn receive(mut self, gate: Gate, over: impl Future<Output = ()>) -> Clients {
        let mut over = std::pin::pin!(over);
        let mut keeper = self.keep(gate);
        loop {
            tokio::select! {
                biased;
                () = &mut over => break,
                Ok(()) = self.service.changed() => {
                    let Some(mut gate) = keeper.into_gate().await else {
                        return self.clients;
                    };
                    let service = Arc::clone(&self.service.borrow_and_update());
                    let front = service.front();
                    gate.renew(&front.client_profile, front.admission(), front.connections);
                    keeper = self.keep(gate);
                }
                Some(visitor) = self.moved.recv() => self.welcome(visitor),
                Some(visitor) = self.sent.recv() => self.share_out(visitor),
                visitor = keeper.next() => self.place(visitor),
            }
        }
        drop(keeper.into_gate().await);
        // Who is already on the way here is nobody else's client any more.
        self.moved.close();
        self.sent.close();
        while let Ok(visitor) = self.moved.try_recv().or_else(|_none| self.sent.try_recv()) {
            self.welcome(visitor);
        }
        self.clients
    }

    /// Has clients let in where they are to be served.
    fn keep(&self, gate: Gate) -> Keeper {
        let service = self.service.borrow();
        match &**service {
            Service::Tcp(tcp) if tcp.is_plain() && self.lends => {
                let lease = self.worker.reactor.lend(
                    gate,
                    Post {
                        service: self.service.clone(),
                        meter: Arc::clone(&self.meter),
                        accepted: Arc::clone(&self.accepted),
                        inside: Arc::clone(&self.clients.inside),
                        elsewhere: self.send.clone(),
                        reactors: Arc::clone(&self.clients.reactors),
                    },
                );
                Keeper::Reactor(lease)
            }
            Service::Tcp(tcp) if tcp.is_plain() => Keeper::Others(gate),
            Service::Http(_) | Service::Tcp(_) | Service::Tls(_) if self.stands => {
                Keeper::Door(gate.into())
            }
            Service::Http(_) | Service::Tcp(_) | Service::Tls(_) => Keeper::Others(gate),
        }
    }

    /// Serves a client here, or has another thread do it that has much less to do.
    fn place(&mut self, visitor: Visitor) {
        let Some(better) = self.better_off() else {
            return self.serve(visitor);
        };
        let Visitor {
            stream,
            peer,
            place,
        } = visitor;
        // Without its descriptor's registration the connection is lost, and the client sees it closed.
        if let Ok(stream) = stream.into_std() {
            let visitor = Visitor {
                stream,
                peer,
                place,
            };
            self.hand_over(better, visitor);
        }
    }

    /// The same for somebody whom nobody watches yet.
    fn share_out(&mut self, visitor: Moved) {
        match self.better_off() {
            Some(better) => self.hand_over(better, visitor),
            None => self.welcome(visitor),
        }
    }

    fn better_off(&self) -> Option<usize> {
        let loads = self.others.iter().map(|other| other.worker.load());
        better_off(self.worker.load(), loads)
    }

    fn hand_over(&mut self, better: usize, visitor: Moved) {
        if let Err(mpsc::error::SendError(visitor)) = self.others[better].moved.send(visitor) {
            // That entrance has closed, and this one is about to.
            self.welcome(visitor);
        }
    }

    /// Serves a client who came in by another entrance.
    fn welcome(&mut self, visitor: Moved) {
        // As above.
        if let Ok(stream) = TcpStream::from_std(visitor.stream) {
            self.serve(Visitor {
                stream,
                peer: visitor.peer,
                place: visitor.place,
            });
        }
    }

    fn serve(&mut self, visitor: Visitor) {
        let Visitor {
            stream,
            peer,
            place,
        } = visitor;
        self.clients.reap();
        let id = self.accepted.fetch_add(1, Ordering::Relaxed) + 1;
        let service = Arc::clone(&self.service.borrow());
        let presence = Arc::new(self.meter.arrived(id, &stream, peer));
        let kept = Arc::clone(&presence);
        let serving = service.serve(id, stream, peer, presence, &self.service, &self.draining);
        let burden = self.worker.take_on();
        self.clients.tasks.spawn(async move {
            serving.await;
            drop((place, kept, burden));
        });
    }
}

// === impl Clients ===

impl Clients {
    /// Forgets tasks that are over.
    fn reap(&mut self) {
        while self.tasks.try_join_next().is_some() {}
    }

    fn count(&mut self) -> usize {
        self.reap();
        self.tasks.len() + self.inside.count()
    }

    /// Resolves when all have left.
    async fn leave(&mut self) {
        while self.tasks.join_next().await.is_some() {}
        self.inside.empty().await;
    }

    /// Has all leave.
    async fn cut(&mut self) {
        self.tasks.shutdown().await;
        for reactor in &*self.reactors {
            reactor.cut(&self.inside);
        }
        self.inside.empty().await;
    }
}

/// Waits for clients to finish, and cuts off what is left at the deadline.
async fn drain(service: &Service, mut all: Vec<Clients>, accepted: u64, events: &Events) {
    let inside = |all: &mut Vec<Clients>| all.iter_mut().map(Clients::count).sum();
    events(Event::Draining {
        clients: inside(&mut all),
    });
    let deadline = Instant::now() + service.front().drain_timeout;
    for clients in &mut all {
        // Who is still there is counted and cut off below.
        let _ = timeout_at(deadline, clients.leave()).await;
    }
    let aborted = inside(&mut all);
    for clients in &mut all {
        clients.cut().await;
    }
    let pool = service.pool();
    events(Event::Stopped {
        aborted,
        connections: accepted,
        requests: pool.map(|pool| pool.served()),
        hot_ratio: pool.map(|pool| pool.hot_ratio()),
    });
}
