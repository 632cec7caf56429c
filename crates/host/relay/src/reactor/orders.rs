//! What others tell a reactor.

use std::io;
use std::net::TcpStream;
use std::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Wake;

use sys::readiness::Bell;
use tokio::sync::{mpsc, oneshot, watch};

use super::inside::{Guest, Inside};
use crate::door::{Gate, Visitor};
use crate::meter::Meter;
use crate::server::Service;

/// A reactor as others see it; clones are the same.
#[derive(Clone)]
pub(crate) struct Reactor {
    inbox: Arc<Inbox>,
}

/// What a reactor shares with others.
pub(super) struct Inbox {
    /// `None` once nobody hears them any more.
    orders: Mutex<Option<Vec<Order>>>,
    pub(super) bell: Bell,
    /// Streams that are served.
    pub(super) load: AtomicUsize,
    /// Entrances that were lent so far.
    lent: AtomicU32,
}

pub(super) enum Order {
    /// Let clients in by this.
    Lend(u32, Box<Gate>, Arc<Post>),
    /// And no more.
    Return(u32, oneshot::Sender<Gate>),
    /// Serve somebody whom another reactor has let in, and who is inside already.
    Serve(Visitor<TcpStream>, Arc<Post>, Guest),
    /// End all of one listener.
    Cut(Arc<Inside>),
    Stop,
}

/// What is done for those who come in by an entrance.
pub(crate) struct Post {
    /// The newest.
    pub(crate) service: watch::Receiver<Arc<Service>>,
    pub(crate) meter: Arc<Meter>,
    /// Clients so far, at all entrances: the newest one's number.
    pub(crate) accepted: Arc<AtomicU64>,
    pub(crate) inside: Arc<Inside>,
    /// Who needs more than a reactor can do.
    pub(crate) elsewhere: mpsc::UnboundedSender<Visitor<TcpStream>>,
    /// All, this one included.
    pub(crate) reactors: Arc<[Reactor]>,
}

/// An entrance that a reactor has until this is [taken back](Self::take_back) or dropped.
pub(crate) struct Lease {
    reactor: Reactor,
    number: u32,
}

// === impl Reactor ===

impl Reactor {
    pub(super) fn new(inbox: Arc<Inbox>) -> Self {
        Self { inbox }
    }

    /// Streams that are served here.
    pub(crate) fn load(&self) -> usize {
        self.inbox.load.load(Ordering::Relaxed)
    }

    /// Has it let clients in, and serve them.
    pub(crate) fn lend(&self, gate: Gate, post: Post) -> Lease {
        let number = self.inbox.lent.fetch_add(1, Ordering::Relaxed);
        self.order(Order::Lend(number, Box::new(gate), Arc::new(post)));
        Lease {
            reactor: self.clone(),
            number,
        }
    }

    /// Ends all who are inside, as far as it serves them.
    pub(crate) fn cut(&self, inside: &Arc<Inside>) {
        self.order(Order::Cut(Arc::clone(inside)));
    }

    pub(super) fn order(&self, order: Order) {
        if let Some(orders) = &mut *self.inbox.orders() {
            orders.push(order);
        }
        self.inbox.bell.ring();
    }
}

// === impl Lease ===

impl Lease {
    /// From then on nobody is let in by the reactor. `None` where its thread has ended.
    pub(crate) async fn take_back(self) -> Option<Gate> {
        let (reply, gate) = oneshot::channel();
        self.reactor.order(Order::Return(self.number, reply));
        gate.await.ok()
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        // Nobody waits for it; where it was taken back, the reactor does not know it any more.
        let (reply, _) = oneshot::channel();
        self.reactor.order(Order::Return(self.number, reply));
    }
}

// === impl Inbox ===

impl Inbox {
    pub(super) fn new() -> io::Result<Self> {
        Ok(Self {
            orders: Mutex::new(Some(Vec::new())),
            bell: Bell::new()?,
            load: AtomicUsize::new(0),
            lent: AtomicU32::new(0),
        })
    }

    /// All orders since the last time, the first first.
    pub(super) fn take(&self) -> Vec<Order> {
        self.orders()
            .as_mut()
            .map(std::mem::take)
            .unwrap_or_default()
    }

    /// Nobody hears orders any more, and nobody is to be sent here.
    pub(super) fn close(&self) {
        self.load.store(usize::MAX, Ordering::Relaxed);
        // Outside of the lock: whoever waits for a reply hears that there is none.
        let unheard = self.orders().take();
        drop(unheard);
    }

    fn orders(&self) -> MutexGuard<'_, Option<Vec<Order>>> {
        // A list is valid whatever its holder was doing when it panicked.
        self.orders.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Wake for Inbox {
    fn wake(self: Arc<Self>) {
        self.bell.ring();
    }
}
