//! What both ends of a trunk do: let clients in, open targets for the other end, and tell.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use profile::{Side, TcpProfile};
use record::LimitSeconds;
use sys::socket::Applied;
use tokio::net::TcpListener;
use tokio::sync::{mpsc, watch};
use tokio::time::timeout;
use trunk::{Config, Explanation, Memory, Reason, Target, Width};

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
}

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

    /// Opens all listeners for clients, or none.
    pub(super) fn bind(&self) -> Result<Vec<Entrance>, RunError> {
        let mut entrances = Vec::new();
        for options in &self.end.listeners {
            let (listener, applied) = door::bind(options.listen, &self.end.lan_profile)?;
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

    /// Lets clients in for ever. `choose` gives the trunk for a new one, or says why there is none.
    pub(super) async fn admit(
        self: Arc<Self>,
        entrance: Entrance,
        choose: impl Fn() -> Result<Arc<Engine>, String>,
    ) {
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
            match choose() {
                Ok(engine) => {
                    let serving = Arc::clone(&self).serve(engine, stream, peer, to.clone());
                    tokio::spawn(async move {
                        serving.await;
                        drop(place);
                    });
                }
                Err(why) => {
                    let _ = stream.set_zero_linger();
                    (self.events)(crate::Event::Refused { peer, why });
                }
            }
        }
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
                other @ (Order::WantConnections(_) | Order::ConnectionReady | Order::Ended(_)) => {
                    return Some(other);
                }
            }
        }
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
        self: Arc<Self>,
        engine: Arc<Engine>,
        socket: tokio::net::TcpStream,
        peer: SocketAddr,
        to: String,
    ) {
        let _busy = self.enter();
        let mut first = first_bytes(&socket);
        let opened = Target::new(&to)
            .map_err(|error| error.to_string())
            .and_then(|target| {
                let opened = engine.open(&target, &mut first);
                opened.map_err(|error| crate::chain(&error))
            });
        match opened {
            Ok(stream) => {
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
                    .carry(bytes::Bytes::new())
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

impl Drop for Busy {
    fn drop(&mut self) {
        self.0.busy.send_modify(|count| *count -= 1);
    }
}
