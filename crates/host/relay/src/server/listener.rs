//! The listening sockets of one address and their clients.
//!
//! Clients come in by several sockets, one for each thread of the [crew](super::crew), among which the kernel
//! divides connections by their addresses (`SO_REUSEPORT`, `reuseport_select_sock` in `net/core/sock_reuseport.c`). Where that
//! leaves one thread with more to do than another, a new connection changes over.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use profile::Side;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout_at};

use super::RunError;
use super::crew::Worker;
use super::service::Service;
use crate::door::{self, Door, Visitor};
use crate::event::{Event, Events, Stage};
use crate::meter::Meter;
use crate::{Front, looks};

/// How many more connections than the least busy thread one may have before a new one changes over, which costs two
/// wake-ups: more than chance brings to short connections, few enough for eight long ones to end up well divided.
const UNEVEN: usize = 3;

/// A listening socket, and where its clients are served.
#[derive(Clone)]
pub(super) struct Entrance {
    pub(super) socket: Arc<TcpListener>,
    worker: Worker,
}

/// The listening sockets of one address and their clients.
pub(super) struct Listener {
    pub(super) entrances: Vec<Entrance>,
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
    door: Door,
    worker: Worker,
    /// Who comes over from other entrances.
    moved: mpsc::UnboundedReceiver<Moved>,
    /// All entrances, this one included.
    others: Arc<[Other]>,
    /// Clients so far, at all entrances: the newest one's number.
    accepted: Arc<AtomicU64>,
    service: watch::Receiver<Arc<Service>>,
    draining: watch::Receiver<bool>,
    meter: Arc<Meter>,
    clients: JoinSet<()>,
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
    handed: &mut Vec<std::net::TcpListener>,
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
        let _inside = worker.runtime.enter();
        entrances.push(Entrance::new(door::watched(socket, address)?, worker));
    }
    if !entrances.is_empty() {
        return Ok(entrances);
    }
    let sockets = door::bind_several(address, profile, transparent, workers.len())?;
    for (socket, worker) in sockets.into_iter().zip(workers) {
        // Accepted sockets inherit it: see the `tcp` module for what it is about.
        sys::socket::keep_urgent_inline(&socket).map_err(failed)?;
        let _inside = worker.runtime.enter();
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
                while clients.join_next().await.is_some() {}
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
    fn porters(&mut self, accepted: &Arc<AtomicU64>) -> JoinSet<JoinSet<()>> {
        let service = Arc::clone(&self.service.borrow_and_update());
        let front = service.front();
        let places = door::Places::new(front.connections);
        let (others, receivers): (Vec<_>, Vec<_>) = self
            .entrances
            .iter()
            .map(|entrance| {
                let (moved, receiver) = mpsc::unbounded_channel();
                let worker = entrance.worker.clone();
                (Other { worker, moved }, receiver)
            })
            .unzip();
        let others: Arc<[Other]> = others.into();
        let mut porters = JoinSet::new();
        for (entrance, moved) in self.entrances.drain(..).zip(receivers) {
            let Entrance { socket, worker } = entrance;
            let runtime = worker.runtime.clone();
            let porter = Porter {
                door: Door::with_places(
                    socket,
                    &front.client_profile,
                    front.admission(),
                    &places,
                    Arc::clone(&self.events),
                ),
                worker,
                moved,
                others: Arc::clone(&others),
                accepted: Arc::clone(accepted),
                service: self.service.clone(),
                draining: self.draining.clone(),
                meter: Arc::clone(&self.meter),
                clients: JoinSet::new(),
            };
            let over = over(self.draining.clone(), self.retired.clone());
            porters.spawn_on(porter.receive(over), &runtime);
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

// === impl Porter ===

impl Porter {
    /// Lets clients in until `over`, and returns those who are inside.
    async fn receive(mut self, over: impl Future<Output = ()>) -> JoinSet<()> {
        let mut over = std::pin::pin!(over);
        loop {
            tokio::select! {
                biased;
                () = &mut over => break,
                Ok(()) = self.service.changed() => {
                    let service = Arc::clone(&self.service.borrow_and_update());
                    let front = service.front();
                    self.door.renew(&front.client_profile, front.admission(), front.connections);
                }
                Some(visitor) = self.moved.recv() => self.welcome(visitor),
                visitor = self.door.next() => self.place(visitor),
            }
        }
        // Who is already on the way here is nobody else's client any more.
        self.moved.close();
        while let Ok(visitor) = self.moved.try_recv() {
            self.welcome(visitor);
        }
        self.clients
    }

    /// Serves a client here, or has another thread do it that has much less to do.
    fn place(&mut self, visitor: Visitor) {
        let loads = self.others.iter().map(|other| other.worker.load());
        let Some(better) = better_off(self.worker.load(), loads) else {
            return self.serve(visitor);
        };
        let Visitor {
            stream,
            peer,
            place,
        } = visitor;
        // Without its descriptor's registration the connection is lost, and the client sees it closed.
        let Ok(stream) = stream.into_std() else {
            return;
        };
        let moving = Visitor {
            stream,
            peer,
            place,
        };
        if let Err(mpsc::error::SendError(visitor)) = self.others[better].moved.send(moving) {
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
        while self.clients.try_join_next().is_some() {}
        let id = self.accepted.fetch_add(1, Ordering::Relaxed) + 1;
        let service = Arc::clone(&self.service.borrow());
        let presence = Arc::new(self.meter.arrived(id, &stream, peer));
        let kept = Arc::clone(&presence);
        let serving = service.serve(id, stream, peer, presence, &self.service, &self.draining);
        let burden = self.worker.take_on();
        self.clients.spawn(async move {
            serving.await;
            drop((place, kept, burden));
        });
    }
}

/// Which thread is to serve a new connection, where that is not the one with a load of `own`.
fn better_off(own: usize, loads: impl Iterator<Item = usize>) -> Option<usize> {
    let (index, least) = loads.enumerate().min_by_key(|&(_, load)| load)?;
    (own >= least + UNEVEN).then_some(index)
}

/// Waits for clients to finish, and cuts off what is left at the deadline.
async fn drain(service: &Service, mut clients: Vec<JoinSet<()>>, accepted: u64, events: &Events) {
    for clients in &mut clients {
        while clients.try_join_next().is_some() {}
    }
    let inside = |clients: &[JoinSet<()>]| clients.iter().map(JoinSet::len).sum();
    events(Event::Draining {
        clients: inside(&clients),
    });
    let deadline = Instant::now() + service.front().drain_timeout;
    for clients in &mut clients {
        while let Ok(Some(_)) = timeout_at(deadline, clients.join_next()).await {}
        while clients.try_join_next().is_some() {}
    }
    let aborted = inside(&clients);
    for clients in &mut clients {
        clients.shutdown().await;
    }
    let pool = service.pool();
    events(Event::Stopped {
        aborted,
        connections: accepted,
        requests: pool.map(|pool| pool.served()),
        hot_ratio: pool.map(|pool| pool.hot_ratio()),
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_new_connection_changes_over_only_where_another_thread_has_much_less_to_do() {
        assert_eq!(better_off(0, [0].into_iter()), None);
        assert_eq!(better_off(2, [2, 0].into_iter()), None);
        assert_eq!(better_off(3, [3, 0].into_iter()), Some(1));
        assert_eq!(better_off(5, [3, 2, 5].into_iter()), Some(1));
        // The busy one gives away until the difference is small, wherever connections come in.
        let mut loads = [0, 0];
        for _ in 0..8 {
            let chosen = better_off(loads[0], loads.into_iter()).unwrap_or(0);
            loads[chosen] += 1;
        }
        assert_eq!(loads, [5, 3]);
    }
}
