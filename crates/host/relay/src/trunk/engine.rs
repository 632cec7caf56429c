//! One trunk's protocol core, shared by the tasks that carry its connections and its streams.
//!
//! Every task locks the core for one short exchange at a time, in which it also leaves its waker; nothing
//! waits while it holds the lock. What the core then wants is handed out: wakers to streams and connections,
//! orders to whoever keeps the trunk.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Waker};
use std::time::{Duration, Instant};

use bytes::Bytes;
use tokio::sync::{Notify, mpsc};
use trunk::{
    By, ConnectionId, ConnectionStatus, Digest, Event, Excess, Explanation, Manner, OpenError,
    Read, Receipt, Refusal, Session, Status, StreamId, StreamStatus, Target, Trunk,
};
use units::Time;

use super::tunnel::Application;
use super::watch::Reading;

/// A trunk at work.
pub(super) struct Engine {
    /// What it is called in events.
    pub(super) name: String,
    started_at: Instant,
    state: Mutex<State>,
    /// Told when the core's deadline has changed.
    deadline_moved: Notify,
    /// Told when a WAN connection is gone.
    connection_gone: Notify,
    orders: mpsc::UnboundedSender<Order>,
}

/// What the core wants of whoever keeps the trunk.
#[derive(Debug)]
pub(super) enum Order {
    /// So many WAN connections in all.
    WantConnections(u32),
    /// A WAN connection has joined.
    ConnectionReady,
    /// Tell somebody that a WAN connection is hot.
    Hot(ConnectionId),
    /// Connect to a target for the other end.
    Open(Handle, Target),
    /// Tell somebody that bytes changed on the way.
    Alarm {
        stream: StreamId,
        sent: Digest,
        received: Digest,
    },
    /// Tell somebody that connections send in another manner from now on.
    Manner(Manner, Option<Excess>),
    /// Tell somebody that a connection does not do what it should.
    Warning { name: &'static str, text: String },
    /// The other end takes no new streams in this session.
    PeerLeaves,
    /// The trunk is over.
    Ended(Explanation),
}

/// A stream, as its task holds it. The core may give its number to another one once this has ended.
#[derive(Clone, Debug)]
pub(super) struct Handle {
    pub(super) id: StreamId,
    slot: Arc<Mutex<Slot>>,
}

/// How a stream came to its end.
#[derive(Clone, Debug)]
pub(super) struct StreamEnd {
    pub(super) receipt: Receipt,
    /// Why and by whom, where it was not completed.
    pub(super) broken: Option<(Explanation, By)>,
}

/// What a stream's task offers and takes in one exchange.
pub(super) struct Exchange<'a> {
    /// Bytes for the other end; what was accepted is gone from the front.
    pub(super) offer: &'a mut Bytes,
    /// Whether nothing comes after the offer.
    pub(super) finishing: bool,
    /// Bytes of the other end that the socket has taken since the last exchange.
    pub(super) consumed: usize,
    /// How many bytes of the other end can be taken; a piece more may come.
    pub(super) hunger: usize,
}

/// What came of an exchange.
#[derive(Debug, Default)]
pub(super) struct Exchanged {
    /// From the other end, in order.
    pub(super) pieces: VecDeque<Bytes>,
    /// Whether the other end has nothing more to say.
    pub(super) at_end: bool,
    /// Whether the end of this side was taken in.
    pub(super) finished: bool,
    /// Whether the other end has reached the stream's target.
    pub(super) accepted: bool,
    pub(super) end: Option<StreamEnd>,
}

struct State {
    trunk: Trunk,
    streams: BTreeMap<StreamId, Arc<Mutex<Slot>>>,
    connections: BTreeMap<ConnectionId, Connection>,
    /// The deadline that the ticker knows of.
    deadline: Option<Time>,
}

/// Who a stream is for.
#[derive(Clone, Debug, Default)]
pub(super) struct About {
    /// What was asked for.
    pub(super) target: String,
    /// The application at this end, once it is there.
    pub(super) application: Option<Application>,
}

#[derive(Debug, Default)]
struct Slot {
    about: About,
    waker: Option<Waker>,
    finished: bool,
    accepted: bool,
    end: Option<StreamEnd>,
}

#[derive(Default)]
struct Connection {
    /// Left where there was nothing to send.
    waker: Option<Waker>,
    /// Why the core has no more use for it.
    closing: Option<String>,
}

// === impl Engine ===

impl Engine {
    /// `started_at` is the core's time zero.
    pub(super) fn new(
        name: String,
        started_at: Instant,
        trunk: Trunk,
    ) -> (Arc<Self>, mpsc::UnboundedReceiver<Order>) {
        let (orders, queue) = mpsc::unbounded_channel();
        let engine = Self {
            name,
            started_at,
            state: Mutex::new(State {
                trunk,
                streams: BTreeMap::new(),
                connections: BTreeMap::new(),
                deadline: None,
            }),
            deadline_moved: Notify::new(),
            connection_gone: Notify::new(),
            orders,
        };
        // What the core wants from the start.
        engine.with(|_, _| ());
        (Arc::new(engine), queue)
    }

    /// Does something with the core, and all that follows from it.
    pub(super) fn with<R>(&self, act: impl FnOnce(&mut Trunk, Time) -> R) -> R {
        let mut state = self.lock();
        let result = act(&mut state.trunk, self.now());
        self.settle(state);
        result
    }

    /// Keeps the core's deadlines, for ever.
    pub(super) async fn tick(&self) {
        loop {
            let deadline = self.lock().deadline;
            let due = async {
                match deadline {
                    Some(deadline) => {
                        let due = self.started_at + Duration::from_nanos(deadline.as_nanos());
                        tokio::time::sleep_until(due.into()).await;
                    }
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                () = self.deadline_moved.notified() => {}
                () = due => self.with(Trunk::tick),
            }
        }
    }

    /// Opens a stream whose first bytes travel with the opening.
    pub(super) fn open(&self, target: &Target, first: &mut Bytes) -> Result<Handle, OpenError> {
        let mut state = self.lock();
        let now = self.now();
        let id = state.trunk.open(target, now)?;
        let slot = Slot::to(target);
        state.streams.insert(id, Arc::clone(&slot));
        // A stream that has just been opened is there.
        let _ = state.trunk.write(id, first, now);
        self.settle(state);
        Ok(Handle { id, slot })
    }

    /// The target of the other end's stream is reached.
    pub(super) fn accept(&self, stream: &Handle) {
        self.unless_ended(stream, |trunk, id, _| {
            // One that has ended meanwhile has told its task.
            let _ = trunk.accept_stream(id);
        });
    }

    pub(super) fn reset(&self, stream: &Handle, why: Explanation) {
        self.unless_ended(stream, |trunk, id, now| {
            // One that has ended meanwhile has told its task.
            let _ = trunk.reset(id, why, now);
        });
    }

    /// Offers and takes what a stream's task can, and wakes it when more can be done.
    pub(super) fn exchange(
        &self,
        context: &Context<'_>,
        stream: &Handle,
        exchange: Exchange<'_>,
    ) -> Exchanged {
        let mut state = self.lock();
        let now = self.now();
        let mut exchanged = Exchanged::default();
        let mut slot = stream.lock();
        if slot.end.is_none() {
            let trunk = &mut state.trunk;
            let changes = exchange.apply(trunk, stream.id, now, &mut slot, &mut exchanged);
            // A stream that is gone says why in its event, which is taken just below.
            let _ = changes;
            let kept = slot.waker.as_ref();
            if kept.is_none_or(|waker| !waker.will_wake(context.waker())) {
                slot.waker = Some(context.waker().clone());
            }
            drop(slot);
            self.settle(state);
            slot = stream.lock();
        }
        exchanged.end.clone_from(&slot.end);
        exchanged.finished = slot.finished;
        exchanged.accepted = slot.accepted;
        exchanged
    }

    /// Ends the trunk and all its streams; its connections carry the farewell and end.
    pub(super) fn shutdown(&self, why: Explanation) {
        self.with(|trunk, now| trunk.shutdown(&why, now));
        // The core tells only of ends that others have brought about.
        self.order(Order::Ended(why));
    }

    /// Takes no new streams, and is over with the last of those that are open.
    pub(super) fn leave(&self) {
        self.with(Trunk::leave);
    }

    /// Whether one of the ends has left the session: new streams belong into another.
    pub(super) fn is_left(&self) -> bool {
        self.lock().trunk.is_left()
    }

    /// Whether new streams can be opened.
    pub(super) fn takes_streams(&self) -> bool {
        let trunk = &self.lock().trunk;
        trunk.ended().is_none() && !trunk.is_left()
    }

    /// Whether a connection has joined: both ends know the session.
    pub(super) fn is_known(&self) -> bool {
        self.lock().trunk.connections().any(|link| link.ready)
    }

    /// A new WAN connection is up, at the end that dials.
    pub(super) fn connection_up(&self) -> ConnectionId {
        let mut state = self.lock();
        let id = state.trunk.connection_up(self.now());
        state.connections.insert(id, Connection::default());
        self.settle(state);
        id
    }

    /// A new WAN connection is up, at the end that is dialled.
    pub(super) fn connection_accepted(
        &self,
        hello: &trunk::Hello,
    ) -> Result<ConnectionId, Refusal> {
        let mut state = self.lock();
        let id = state.trunk.connection_accepted(hello, self.now())?;
        state.connections.insert(id, Connection::default());
        self.settle(state);
        Ok(id)
    }

    /// A WAN connection is gone.
    pub(super) fn connection_down(&self, id: ConnectionId) {
        let mut state = self.lock();
        state.connections.remove(&id);
        state.trunk.connection_down(id, self.now());
        self.settle(state);
        self.connection_gone.notify_waiters();
    }

    /// Why a connection is to be closed, if it is.
    pub(super) fn closing(&self, id: ConnectionId) -> Option<String> {
        self.lock().connections.get(&id)?.closing.clone()
    }

    /// Whether the other end can be reached: a connection has joined and is not stalled.
    pub(super) fn is_up(&self) -> bool {
        is_up(&self.lock().trunk)
    }

    /// Resolves once no WAN connection is left.
    pub(super) async fn deserted(&self) {
        loop {
            let gone = self.connection_gone.notified();
            if self.lock().connections.is_empty() {
                return;
            }
            gone.await;
        }
    }

    /// Appends to `out` what a connection is to carry next. Where that is nothing, its task is woken when
    /// there is something. The error says why the connection is to be closed, once all is written.
    pub(super) fn transmit(
        &self,
        context: &Context<'_>,
        id: ConnectionId,
        room: usize,
        out: &mut Vec<Bytes>,
    ) -> Result<(), String> {
        let mut state = self.lock();
        let now = self.now();
        let State {
            trunk, connections, ..
        } = &mut *state;
        let length = trunk.transmit(id, room, out, now);
        let mut closing = None;
        if let Some(connection) = connections.get_mut(&id)
            && length == 0
        {
            let over = trunk.ended().map(ToString::to_string);
            closing = connection.closing.clone().or(over);
            connection.waker = Some(context.waker().clone());
        }
        // Others need not be woken: what one connection has taken is nothing to them.
        self.deliver(&mut state);
        self.remind(&mut state);
        closing.map_or(Ok(()), Err)
    }

    /// What the history and the metrics need.
    pub(super) fn reading(&self) -> Reading {
        let state = self.lock();
        let status = state.trunk.status();
        Reading {
            up: is_up(&state.trunk),
            streams: status.streams,
            connections: usize::try_from(status.connections).unwrap_or(usize::MAX),
            delivered: status.delivered.get(),
            received: status.received.get(),
            round_trip: state
                .trunk
                .connections()
                .filter_map(|link| link.smoothed)
                .max(),
            modest: status.manner.makes_room(),
            totals: status.totals,
            held_by: state.trunk.held_by(self.now()),
        }
    }

    /// Every stream that is open, with who it is for.
    pub(super) fn streams(&self) -> Vec<(StreamId, StreamStatus, About)> {
        let state = self.lock();
        let now = self.now();
        let streams = state.streams.iter();
        streams
            .filter_map(|(id, slot)| {
                let status = state.trunk.stream(*id, now)?;
                Some((*id, status, lock(slot).about.clone()))
            })
            .collect()
    }

    /// The core's present, in its own time.
    pub(super) fn age_of(&self, status: &StreamStatus) -> Duration {
        self.now().since(status.opened_at)
    }

    /// The whole trunk, and every connection.
    pub(super) fn status(&self) -> (Session, Status, Vec<ConnectionStatus>) {
        let state = self.lock();
        let trunk = &state.trunk;
        (
            trunk.session(),
            trunk.status(),
            trunk.connections().collect(),
        )
    }

    fn unless_ended(&self, stream: &Handle, act: impl FnOnce(&mut Trunk, StreamId, Time)) {
        let mut state = self.lock();
        if stream.lock().end.is_none() {
            act(&mut state.trunk, stream.id, self.now());
        }
        self.settle(state);
    }

    fn now(&self) -> Time {
        let nanos = self.started_at.elapsed().as_nanos();
        Time::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // A task that panicked inside the core has left it in a state that others cannot make worse.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Hands out what the core wants, and wakes connections that had nothing to send.
    fn settle(&self, mut state: MutexGuard<'_, State>) {
        self.deliver(&mut state);
        self.remind(&mut state);
        let connections = state.connections.values_mut();
        let wakers: Vec<_> = connections.filter_map(|link| link.waker.take()).collect();
        drop(state);
        wakers.into_iter().for_each(Waker::wake);
    }

    fn deliver(&self, state: &mut State) {
        while let Some(event) = state.trunk.poll_event() {
            match event {
                Event::Readable { stream } | Event::Writable { stream } => {
                    state.wake(stream, |_| ());
                }
                Event::Accepted { stream } => state.wake(stream, |slot| slot.accepted = true),
                Event::Closed { stream, receipt } => state.end(
                    stream,
                    StreamEnd {
                        receipt,
                        broken: None,
                    },
                ),
                Event::Reset {
                    stream,
                    why,
                    by,
                    receipt,
                } => state.end(
                    stream,
                    StreamEnd {
                        receipt,
                        broken: Some((why, by)),
                    },
                ),
                Event::CloseConnection { connection, why } => state.close(connection, &why),
                Event::ConnectionReady { .. } => self.order(Order::ConnectionReady),
                Event::ConnectionHot { connection } => self.order(Order::Hot(connection)),
                Event::WantConnections { count } => self.order(Order::WantConnections(count)),
                Event::Opened { stream, target } => {
                    let slot = Slot::to(&target);
                    state.streams.insert(stream, Arc::clone(&slot));
                    self.order(Order::Open(Handle { id: stream, slot }, target));
                }
                Event::Alarm {
                    stream,
                    sent,
                    received,
                } => self.order(Order::Alarm {
                    stream,
                    sent,
                    received,
                }),
                Event::Manner { manner, why } => self.order(Order::Manner(manner, why)),
                Event::PeerLeaves => self.order(Order::PeerLeaves),
                Event::Ended { why } => self.order(Order::Ended(why)),
            }
        }
    }

    /// Tells the ticker where the core's deadline has changed.
    fn remind(&self, state: &mut State) {
        let deadline = state.trunk.deadline();
        if deadline != state.deadline {
            state.deadline = deadline;
            self.deadline_moved.notify_one();
        }
    }

    pub(super) fn order(&self, order: Order) {
        // Nobody keeps the trunk any more where the process ends.
        let _ = self.orders.send(order);
    }
}

// === impl Exchange ===

impl Exchange<'_> {
    fn apply(
        self,
        trunk: &mut Trunk,
        stream: StreamId,
        now: Time,
        slot: &mut Slot,
        exchanged: &mut Exchanged,
    ) -> Result<(), trunk::StreamGone> {
        if self.consumed > 0 {
            trunk.consumed(stream, self.consumed, now);
        }
        if !self.offer.is_empty() {
            trunk.write(stream, self.offer, now)?;
        }
        if self.finishing && self.offer.is_empty() && !slot.finished {
            trunk.finish(stream)?;
            slot.finished = true;
        }
        let mut taken = 0;
        while taken < self.hunger {
            match trunk.read(stream, now)? {
                Read::Data(bytes) => {
                    taken += bytes.len();
                    exchanged.pieces.push_back(bytes);
                }
                Read::End => {
                    exchanged.at_end = true;
                    break;
                }
                Read::Pending => break,
            }
        }
        Ok(())
    }
}

// === impl Slot ===

impl Slot {
    fn to(target: &Target) -> Arc<Mutex<Self>> {
        let about = About {
            target: target.to_string(),
            application: None,
        };
        Arc::new(Mutex::new(Self {
            about,
            ..Self::default()
        }))
    }
}

// === impl State ===

impl State {
    fn wake(&mut self, stream: StreamId, change: impl FnOnce(&mut Slot)) {
        if let Some(slot) = self.streams.get(&stream) {
            let mut slot = lock(slot);
            change(&mut slot);
            if let Some(waker) = slot.waker.take() {
                waker.wake();
            }
        }
    }

    fn end(&mut self, stream: StreamId, end: StreamEnd) {
        self.wake(stream, |slot| slot.end = Some(end));
        self.streams.remove(&stream);
    }

    fn close(&mut self, connection: ConnectionId, why: &trunk::Closing) {
        if let Some(connection) = self.connections.get_mut(&connection) {
            connection.closing = Some(describe(why));
        }
    }
}

fn is_up(trunk: &Trunk) -> bool {
    trunk.connections().any(|link| link.ready && !link.stalled)
}

fn describe(why: &trunk::Closing) -> String {
    match why {
        trunk::Closing::Surplus => "fewer connections do as well".into(),
        trunk::Closing::Silent => "it was silent while something was owed".into(),
        trunk::Closing::Refused(refusal) => refusal.to_string(),
        trunk::Closing::SessionOver => "its session is over".into(),
    }
}

// === impl Handle ===

impl Handle {
    /// Notes who this end's application is.
    pub(super) fn is_for(&self, application: Application) {
        self.lock().about.application = Some(application);
    }

    fn lock(&self) -> MutexGuard<'_, Slot> {
        lock(&self.slot)
    }
}

fn lock(slot: &Mutex<Slot>) -> MutexGuard<'_, Slot> {
    slot.lock().unwrap_or_else(PoisonError::into_inner)
}
