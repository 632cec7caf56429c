//! What both ends of a trunk do: let clients in, open targets for the other end, and tell.

use std::net::{SocketAddr, TcpListener};
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use profile::{Side, TcpProfile};
use record::LimitSeconds;
use sys::socket::Applied;
use tokio::sync::{Notify, mpsc, watch};
use tokio::time::{Instant, timeout, timeout_at};
use trunk::{Config, Explanation, Memory, OpenError, Reason, Target, Width};

use super::config::{End, TrunkListener};
use super::echo;
use super::engine::{Engine, Handle, Order};
use super::event::{StreamDone, StreamHalf, TrunkEvent};
use super::target;
use super::tunnel::{Application, Patience, Tunnel, first_bytes};
use crate::cidr::Admission;
use crate::door::{self, Door, Visitor};
use crate::event::{Events, Stage};
use crate::{RunError, host, looks};

/// How long connections may take to carry the farewell.
pub(super) const FAREWELL: Duration = Duration::from_secs(1);

/// One end, as all its tasks share it.
pub(super) struct Site {
    pub(super) end: End,
    pub(super) events: Events,
    /// Streams and openings under way.
    busy: watch::Sender<usize>,
    served: AtomicU64,
    cut_off: AtomicUsize,
    /// Told when the other end has connected.
    arrival: Notify,
}

/// Gives the trunk for a new client, or says why there is none.
pub(super) type Choose = Arc<dyn Fn() -> Result<Arc<Engine>, String> + Send + Sync>;

/// A client listener that is open.
pub(super) struct Entrance {
    pub(super) listener: TcpListener,
    pub(super) options: TrunkListener,
    applied: Vec<Applied>,
}

/// Counts a task that [`Site::idle`] waits for, until it is dropped.
struct Busy(Arc<Site>);

// === impl Site ===

impl Site {
    pub(super) fn new(mut end: End, events: Events) -> Arc<Self> {
        let forgets_windows = host::forgets_windows();
        end.wan_profile = end.wan_profile.on_host(forgets_windows);
        end.lan_profile = end.lan_profile.on_host(forgets_windows);
        Arc::new(Self {
            end,
            events,
            busy: watch::Sender::new(0),
            served: AtomicU64::new(0),
            cut_off: AtomicUsize::new(0),
            arrival: Notify::new(),
        })
    }

    /// How the protocol's core is to behave.
    pub(super) fn core(&self) -> Config {
        let limits = &self.end.limits;
        let count = |count: usize| u32::try_from(count).unwrap_or(u32::MAX);
        let defaults = Config::default();
        Config {
            digest: self.end.digest,
            memory: Memory {
                receive: limits.memory,
                send: limits.memory,
                ..defaults.memory
            },
            width: Width {
                min: count(limits.min_wan_connections),
                max: count(limits.wan_connections),
            },
            padding: self.end.padding,
            guard: self.end.guard,
            outage: limits.outage,
            keep_alive: limits.keep_alive,
            dead_after: limits.dead_after,
            max_streams: count(limits.streams),
            ..defaults
        }
    }

    /// Opens all listeners for clients, or none. Sockets that were handed over are taken by address.
    pub(super) fn bind(&self, handed: &mut Vec<TcpListener>) -> Result<Vec<Entrance>, RunError> {
        let mut entrances = Vec::new();
        for options in &self.end.listeners {
            let profile = &self.end.lan_profile;
            let (listener, applied) = door::take_or_bind(options.listen, profile, handed)?;
            // Accepted sockets inherit it: urgent bytes stay at their place in the stream.
            sys::socket::keep_urgent_inline(&listener).map_err(|source| RunError::Listen {
                address: options.listen,
                source,
            })?;
            entrances.push(Entrance {
                listener,
                options: options.clone(),
                applied,
            });
        }
        Ok(entrances)
    }

    /// Lets clients in for ever. Whoever was accepted has a stream, or waits for one, where this is given up.
    pub(super) async fn admit(self: Arc<Self>, entrance: Entrance, choose: Choose) {
        let Entrance {
            listener,
            options,
            applied,
        } = entrance;
        let to = options.to.to_string();
        self.tell_listening(&listener, &options, applied, &to);
        let mut door = Door::new(
            listener,
            &self.end.lan_profile,
            Admission {
                allow: options.allow,
                deny: Vec::new(),
            },
            self.end.limits.clients,
            Arc::clone(&self.events),
        );
        loop {
            let Visitor {
                stream,
                peer,
                place,
            } = door.next().await;
            let busy = self.enter();
            let mut first = first_bytes(&stream);
            let begun = begin(&choose, &to, &mut first);
            let (site, choose, to) = (Arc::clone(&self), Arc::clone(&choose), to.clone());
            tokio::spawn(async move {
                let begun = match begun {
                    Ok(begun) => Ok(begun),
                    Err(_) => site.wait(&choose, &to, &mut first).await,
                };
                site.serve(begun, stream, peer, to, first).await;
                drop((busy, place));
            });
        }
    }

    /// Opens a stream for a client who came while there was no trunk: the other end may be about to connect, after it was
    /// started again or succeeded.
    async fn wait(
        &self,
        choose: &Choose,
        to: &str,
        first: &mut Bytes,
    ) -> Result<(Arc<Engine>, Handle), String> {
        let until = Instant::now() + self.end.limits.connect_timeout;
        loop {
            let mut arrival = pin!(self.arrival.notified());
            arrival.as_mut().enable();
            let begun = begin(choose, to, first);
            if begun.is_ok() || timeout_at(until, arrival).await.is_err() {
                return begun;
            }
        }
    }

    /// The other end has connected.
    pub(super) fn tell_arrival(&self) {
        self.arrival.notify_waiters();
    }

    /// Does what a trunk's core asks for, up to what only the trunk's keeper can do.
    pub(super) async fn obey(
        self: &Arc<Self>,
        engine: &Arc<Engine>,
        orders: &mut mpsc::UnboundedReceiver<Order>,
    ) -> Option<Order> {
        loop {
            match orders.recv().await? {
                Order::Open(stream, target) => {
                    let opening = Arc::clone(self).open(Arc::clone(engine), stream, target);
                    tokio::spawn(opening);
                }
                Order::Alarm {
                    stream,
                    sent,
                    received,
                } => self.tell(TrunkEvent::IntegrityAlarm {
                    trunk: engine.name.clone(),
                    stream: stream.number(),
                    sent: sent.to_string(),
                    received: received.to_string(),
                }),
                Order::Manner(manner, why) => self.tell(TrunkEvent::TrunkManner {
                    trunk: engine.name.clone(),
                    manner: manner.name(),
                    why: why.map(|why| why.to_string()),
                }),
                Order::Hot(connection) => self.tell(TrunkEvent::WanHot {
                    trunk: engine.name.clone(),
                    connection: connection.number(),
                }),
                Order::Warning { name, text } => {
                    (self.events)(crate::Event::Warning { name, text });
                }
                Order::PeerLeaves => {
                    let (session, status, _) = engine.status();
                    self.tell(TrunkEvent::SessionLeft {
                        trunk: engine.name.clone(),
                        session: session.to_string(),
                        streams: status.streams,
                    });
                    return Some(Order::PeerLeaves);
                }
                other @ (Order::WantConnections(_) | Order::ConnectionReady | Order::Ended(_)) => {
                    return Some(other);
                }
            }
        }
    }

    /// Tells that a session is over, unless that is how leaving it was to end.
    pub(super) fn tell_ended(&self, engine: &Engine, why: &Explanation) {
        if engine.is_left() && why.reason == Reason::Shutdown {
            return;
        }
        self.tell(TrunkEvent::SessionEnded {
            trunk: engine.name.clone(),
            session: engine.status().0.to_string(),
            why: why.to_string(),
        });
    }

    pub(super) fn tell(&self, event: TrunkEvent) {
        (self.events)(event.into());
    }

    /// Resolves once no stream is left.
    pub(super) async fn idle(&self) {
        let mut busy = self.busy.subscribe();
        // The sender lives as long as this.
        let _ = busy.wait_for(|count| *count == 0).await;
    }

    /// Streams that are open here, and openings under way.
    pub(super) fn busy(&self) -> usize {
        *self.busy.borrow()
    }

    /// Streams that there have been.
    pub(super) fn served(&self) -> u64 {
        self.served.load(Ordering::Relaxed)
    }

    /// Streams that were reset because this end stopped.
    pub(super) fn cut_off(&self) -> usize {
        self.cut_off.load(Ordering::Relaxed)
    }

    /// Ends what is left of a trunk, and gives its connections the time to say so.
    pub(super) async fn dismiss(&self, engine: &Engine) {
        let left = engine.status().1.streams;
        self.cut_off.fetch_add(left, Ordering::Relaxed);
        engine.shutdown(Reason::Shutdown.into());
        // A WAN that carries nothing any more cannot be told.
        let _ = timeout(FAREWELL, engine.deserted()).await;
    }

    async fn serve(
        &self,
        begun: Result<(Arc<Engine>, Handle), String>,
        socket: tokio::net::TcpStream,
        peer: SocketAddr,
        to: String,
        first: Bytes,
    ) {
        match begun {
            Ok((engine, stream)) => {
                let application = Application::Client(peer);
                self.tunnel(engine, stream, to, socket, application)
                    .carry(first)
                    .await;
            }
            Err(why) => {
                let _ = socket.set_zero_linger();
                (self.events)(crate::Event::Refused { peer, why });
            }
        }
    }

    /// Connects to a target for the other end.
    async fn open(self: Arc<Self>, engine: Arc<Engine>, stream: Handle, name: Target) {
        let _busy = self.enter();
        if name.as_str() == echo::TARGET {
            echo::reflect(&engine, &stream).await;
            return;
        }
        let (rules, profile) = (&self.end.targets, &self.end.lan_profile);
        let patience = self.end.limits.connect_timeout;
        match target::open(name.as_str(), rules, profile, patience).await {
            Ok((socket, peer)) => {
                engine.accept(&stream);
                let application = Application::Server(peer);
                self.tunnel(engine, stream, name.to_string(), socket, application)
                    .carry(Bytes::new())
                    .await;
            }
            Err(why) => self.refuse(&engine, &stream, &name, why),
        }
    }

    /// Resets a stream whose target was not reached.
    fn refuse(&self, engine: &Engine, stream: &Handle, target: &Target, why: Explanation) {
        let nothing = StreamHalf {
            bytes: 0,
            digest: None,
            confirmed: false,
        };
        self.tell(TrunkEvent::StreamDone(Box::new(StreamDone {
            trunk: engine.name.clone(),
            stream: stream.id.number(),
            client: None,
            server: None,
            target: target.to_string(),
            seconds: 0.0,
            limits_s: LimitSeconds::new(),
            sent: nothing.clone(),
            received: nothing,
            ended_by: "this-end",
            reason: Some(why.reason.name()),
            error: Some(why.to_string()),
        })));
        engine.reset(stream, why);
    }

    fn tunnel(
        &self,
        engine: Arc<Engine>,
        stream: Handle,
        target: String,
        socket: tokio::net::TcpStream,
        application: Application,
    ) -> Tunnel {
        let limits = &self.end.limits;
        stream.is_for(application);
        Tunnel {
            engine,
            events: Arc::clone(&self.events),
            stream,
            target,
            socket,
            application,
            patience: Patience {
                idle: limits.idle_timeout,
                half_closed: limits.half_closed_timeout,
            },
        }
    }

    fn tell_listening(
        &self,
        listener: &TcpListener,
        options: &TrunkListener,
        applied: Vec<Applied>,
        to: &str,
    ) {
        self.tell(TrunkEvent::TrunkListening {
            trunk: self.end.name.clone(),
            address: listener.local_addr().unwrap_or(options.listen),
            to: to.to_owned(),
        });
        self.tell_applied(&self.end.lan_profile, applied);
    }

    /// Tells what is in effect on a listener.
    pub(super) fn tell_applied(&self, profile: &TcpProfile, applied: Vec<Applied>) {
        let (side, stage) = (Side::Client, Stage::Listening);
        looks::report(&self.events, side, profile, stage, applied);
    }

    fn enter(self: &Arc<Self>) -> Busy {
        self.busy.send_modify(|count| *count += 1);
        self.served.fetch_add(1, Ordering::Relaxed);
        Busy(Arc::clone(self))
    }
}

/// Opens a stream for a client on the trunk that takes new ones now.
fn begin(choose: &Choose, to: &str, first: &mut Bytes) -> Result<(Arc<Engine>, Handle), String> {
    let target = Target::new(to).map_err(|error| error.to_string())?;
    loop {
        let engine = choose()?;
        match engine.open(&target, first) {
            Ok(stream) => return Ok((engine, stream)),
            // Left since it was chosen: it is not chosen again.
            Err(OpenError::Left) => {}
            Err(error) => return Err(crate::chain(&error)),
        }
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        self.0.busy.send_modify(|count| *count -= 1);
    }
}
