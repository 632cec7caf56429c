//! One listening socket and its clients.

use std::net::SocketAddr;
use std::sync::Arc;

use profile::{Side, TcpProfile};
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout_at};

use super::RunError;
use super::service::Service;
use crate::door::{self, Door, Visitor};
use crate::event::{Event, Events, Stage};
use crate::meter::Meter;
use crate::{Front, looks};

/// One listening socket and its clients.
pub(super) struct Listener {
    pub(super) socket: Arc<TcpListener>,
    pub(super) service: watch::Receiver<Arc<Service>>,
    pub(super) meter: Arc<Meter>,
    pub(super) events: Events,
    /// Becomes true when the relay stops.
    pub(super) draining: watch::Receiver<bool>,
    /// Becomes true when the configuration has no such listener any more.
    pub(super) retired: watch::Receiver<bool>,
    /// Clients so far: the newest one's number.
    pub(super) accepted: u64,
}

/// A listening socket for a relay. `transparent`: it gets connections to addresses that are not this host's.
pub(super) fn open(
    front: &Front,
    transparent: bool,
    handed: &mut Vec<std::net::TcpListener>,
) -> Result<TcpListener, RunError> {
    let address = front.listen;
    let listener = take_or_bind(address, &front.client_profile, transparent, handed)?;
    // Accepted sockets inherit it: see the `tcp` module for what it is about.
    sys::socket::keep_urgent_inline(&listener)
        .map_err(|source| RunError::Listen { address, source })?;
    Ok(listener)
}

/// The listening socket of this address that was handed over, or a new one.
pub(super) fn take_or_bind(
    address: SocketAddr,
    profile: &TcpProfile,
    transparent: bool,
    handed: &mut Vec<std::net::TcpListener>,
) -> Result<TcpListener, RunError> {
    let failed = |source| RunError::Listen { address, source };
    let is_it =
        |socket: &std::net::TcpListener| socket.local_addr().is_ok_and(|local| local == address);
    let Some(index) = handed.iter().position(is_it) else {
        return Ok(door::bind_for(address, profile, transparent)?.0);
    };
    let socket = handed.swap_remove(index);
    socket.set_nonblocking(true).map_err(failed)?;
    let listener = TcpListener::from_std(socket).map_err(failed)?;
    door::prepare(&listener, address, profile, transparent)?;
    Ok(listener)
}

// === impl Listener ===

impl Listener {
    /// Tells where clients can connect, and what is in effect there, as the kernel reads it back.
    pub(super) fn announce(&self) {
        let service = self.service.borrow();
        let front = service.front();
        let address = self.socket.local_addr().unwrap_or(front.listen);
        (self.events)(Event::Listening {
            address,
            target: front.destination.to_string(),
        });
        let profile = &front.client_profile;
        if let Ok(applied) = sys::socket::verify(&*self.socket, profile, Side::Client, address) {
            let stage = Stage::Listening;
            looks::report(&self.events, Side::Client, profile, stage, applied);
        }
    }

    /// Serves until the relay stops, or until all clients have left after the listener was retired.
    pub(super) async fn serve(mut self) {
        let service = Arc::clone(&self.service.borrow_and_update());
        let front = service.front();
        let mut door = Door::new(
            Arc::clone(&self.socket),
            &front.client_profile,
            front.admission(),
            front.connections,
            Arc::clone(&self.events),
        );
        drop(service);
        let mut clients = JoinSet::new();
        self.receive(&mut door, &mut clients).await;
        drop((door, self.socket));
        // Those of a listener that is in the configuration no more go on as they are.
        let mut draining = self.draining;
        loop {
            tokio::select! {
                biased;
                _ = draining.wait_for(|draining| *draining) => break,
                left = clients.join_next() => if left.is_none() {
                    break;
                },
            }
        }
        let service = Arc::clone(&self.service.borrow());
        service.retire();
        drain(&service, clients, self.accepted, &self.events).await;
    }

    /// Lets clients in until there is an order to end that.
    async fn receive(&mut self, door: &mut Door, clients: &mut JoinSet<()>) {
        let (mut draining, mut retired) = (self.draining.clone(), self.retired.clone());
        loop {
            let Visitor {
                stream,
                peer,
                place,
            } = tokio::select! {
                biased;
                _ = draining.wait_for(|draining| *draining) => return,
                _ = retired.wait_for(|retired| *retired) => return,
                Ok(()) = self.service.changed() => {
                    let service = Arc::clone(&self.service.borrow_and_update());
                    let front = service.front();
                    door.renew(&front.client_profile, front.admission(), front.connections);
                    continue;
                }
                visitor = door.next() => visitor,
            };
            while clients.try_join_next().is_some() {}
            self.accepted += 1;
            let service = Arc::clone(&self.service.borrow());
            let presence = Arc::new(self.meter.arrived(self.accepted, &stream, peer));
            let serving = service.serve(
                self.accepted,
                stream,
                peer,
                Arc::clone(&presence),
                &self.service,
                &self.draining,
            );
            clients.spawn(async move {
                serving.await;
                drop((place, presence));
            });
        }
    }
}

/// Waits for clients to finish, and cuts off what is left at the deadline.
async fn drain(service: &Service, mut clients: JoinSet<()>, accepted: u64, events: &Events) {
    while clients.try_join_next().is_some() {}
    events(Event::Draining {
        clients: clients.len(),
    });
    let deadline = Instant::now() + service.front().drain_timeout;
    while let Ok(Some(_)) = timeout_at(deadline, clients.join_next()).await {}
    let aborted = clients.len();
    clients.shutdown().await;
    let pool = service.pool();
    events(Event::Stopped {
        aborted,
        connections: accepted,
        requests: pool.map(|pool| pool.served()),
        hot_ratio: pool.map(|pool| pool.hot_ratio()),
    });
}
