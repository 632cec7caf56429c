//! The end that is dialled: lets near ends' connections join their trunks.

use std::collections::BTreeMap;
use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use bytes::{Bytes, BytesMut};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;
use tokio::sync::{mpsc, watch};
use tokio::time::timeout;
use trunk::{
    AcceptError, Admission, BadConfig, ConnectionId, Hello, Preface, Reason, Refusal,
    RefusalReason, Trunk, Violation,
};

use super::engine::{Engine, Order};
use super::event::{TrunkEvent, WanConnection, WanLost};
use super::shield::{Answerer, Shielded};
use super::site::Site;
use super::wan::Wan;
use crate::Cidr;
use crate::cidr::Admission as Callers;
use crate::door::{Door, Visitor};

/// WAN connections at the same time, those that have not said who they are included.
const CONNECTIONS: usize = 1_024;

/// Trunks at the same time. Each may hold the memory that the core's configuration states.
const TRUNKS: usize = 64;

/// Where near ends connect, and the trunks that they have begun.
pub(super) struct Exchange {
    pub(super) site: Arc<Site>,
    pub(super) allow: Vec<Cidr>,
    answerer: Answerer,
    /// This process, as near ends know it: after a restart it is another.
    instance: u64,
    trunks: Mutex<BTreeMap<[u8; 16], Arc<Engine>>>,
}

/// A connection did not join a trunk.
#[derive(Debug, thiserror::Error)]
enum JoinError {
    #[error("no TLS handshake within {}", units::format_span(*.0))]
    HandshakeTimeout(std::time::Duration),
    #[error("the TLS handshake failed")]
    Handshake(#[source] io::Error),
    #[error("it did not say what it wants within {}", units::format_span(*.0))]
    HelloTimeout(std::time::Duration),
    #[error("cannot read from it")]
    Read(#[source] io::Error),
    #[error("it closed the connection before it said what it wants")]
    Ended,
    #[error("it does not speak the trunk's protocol")]
    Violation(#[source] Violation),
    #[error("it was refused")]
    Refused(#[source] Refusal),
    #[error("the trunk's configuration cannot be used")]
    Config(#[source] BadConfig),
}

// === impl Exchange ===

impl Exchange {
    pub(super) fn new(
        site: Arc<Site>,
        allow: Vec<Cidr>,
        answerer: Answerer,
        instance: u64,
    ) -> Arc<Self> {
        Arc::new(Self {
            site,
            allow,
            answerer,
            instance,
            trunks: Mutex::default(),
        })
    }

    /// Lets near ends in until `draining`, then lets streams end.
    pub(super) async fn serve(
        self: Arc<Self>,
        listener: TcpListener,
        mut draining: watch::Receiver<bool>,
    ) {
        let mut door = Door::new(
            listener,
            &self.site.end.wan_profile,
            Callers {
                allow: self.allow.clone(),
                deny: Vec::new(),
            },
            CONNECTIONS,
            Arc::clone(&self.site.events),
        );
        loop {
            let visitor = tokio::select! {
                _ = draining.wait_for(|draining| *draining) => break,
                visitor = door.next() => visitor,
            };
            tokio::spawn(Arc::clone(&self).welcome(visitor));
        }
        drop(door);
        let patience = self.site.end.limits.drain_timeout;
        // What is left is cut off.
        let _ = timeout(patience, self.site.idle()).await;
        let left: Vec<_> = self.trunks().values().cloned().collect();
        for engine in left {
            self.site.dismiss(&engine).await;
        }
    }

    /// A trunk whose near end can be reached, for a client that came in at this end.
    pub(super) fn choose(&self) -> Result<Arc<Engine>, String> {
        let trunks = self.trunks();
        let up = trunks.values().find(|engine| engine.is_up());
        up.cloned()
            .ok_or_else(|| "no near relay is connected".to_owned())
    }

    /// The trunks that there are.
    pub(super) fn engines(&self) -> Vec<Arc<Engine>> {
        self.trunks().values().cloned().collect()
    }

    async fn welcome(self: Arc<Self>, visitor: Visitor) {
        let Visitor {
            stream,
            peer,
            place,
        } = visitor;
        let joined = self.join(stream, peer).await;
        let (mut wan, first) = match joined {
            Ok(joined) => joined,
            Err(error) => {
                let why = crate::chain(&error);
                (self.site.events)(crate::Event::Refused { peer, why });
                return;
            }
        };
        let joined_at = Instant::now();
        let lost = match wan.receive(first) {
            Ok(()) => wan.carry().await,
            Err(lost) => lost,
        };
        let engine = wan.engine();
        let told = WanLost::of(&engine.name, &wan, joined_at, &lost);
        // Whoever hears of it and asks for the state gets the one that it speaks of.
        engine.connection_down(wan.id);
        self.site.tell(TrunkEvent::WanLost(told));
        drop(place);
    }

    /// Shakes hands, reads the hello, and finds or makes the trunk. Bytes after the hello are returned.
    async fn join(
        self: &Arc<Self>,
        stream: tokio::net::TcpStream,
        peer: SocketAddr,
    ) -> Result<(Wan, Bytes), JoinError> {
        let patience = self.site.end.limits.connect_timeout;
        let mut link = timeout(patience, self.answerer.shake(stream))
            .await
            .map_err(|_elapsed| JoinError::HandshakeTimeout(patience))?
            .map_err(JoinError::Handshake)?;
        let (hello, rest) = timeout(patience, read_hello(&mut link))
            .await
            .map_err(|_elapsed| JoinError::HelloTimeout(patience))??;
        match self.admit(&hello) {
            Ok((engine, id)) => {
                let tls = link.agreed();
                let wan = Wan::new(
                    Arc::clone(&engine),
                    id,
                    peer,
                    link,
                    &self.site.end.wan_profile,
                );
                self.site.tell(TrunkEvent::WanConnected(WanConnection {
                    trunk: engine.name.clone(),
                    session: hello.session.to_string(),
                    connection: id.number(),
                    peer,
                    tls,
                    rtt_s: wan.tcp_info().map(|info| info.rtt.as_secs_f64()),
                }));
                Ok((wan, rest))
            }
            Err(error) => {
                if let JoinError::Refused(refusal) = &error {
                    // Somebody who does not want to hear it has lost nothing.
                    let farewell = async {
                        link.write_all(&refusal.encode()).await?;
                        link.shutdown().await
                    };
                    let _ = timeout(patience, farewell).await;
                }
                Err(error)
            }
        }
    }

    fn admit(self: &Arc<Self>, hello: &Hello) -> Result<(Arc<Engine>, ConnectionId), JoinError> {
        let mut trunks = self.trunks();
        let name = hello.session.trunk;
        if let Some(engine) = trunks.get(&name) {
            match engine.with(|trunk, _| trunk.admits(hello)) {
                Admission::Join => return Self::connect(engine, hello),
                Admission::Refuse(refusal) => return Err(JoinError::Refused(refusal)),
                Admission::Supersede => {
                    engine.shutdown(Reason::PeerRestarted.into());
                    trunks.remove(&name);
                }
            }
        }
        if trunks.len() >= TRUNKS {
            let detail = format!("{TRUNKS} trunks are here already");
            let refusal = Refusal::new(RefusalReason::TooManyConnections, &detail);
            return Err(JoinError::Refused(refusal));
        }
        let core =
            Trunk::accept(self.site.core(), hello, self.instance).map_err(|error| match error {
                AcceptError::Refused(refusal) => JoinError::Refused(refusal),
                AcceptError::Config(error) => JoinError::Config(error),
            })?;
        let (engine, orders) = Engine::new(self.site.end.name.clone(), Instant::now(), core);
        trunks.insert(name, Arc::clone(&engine));
        tokio::spawn(Arc::clone(self).keep(name, Arc::clone(&engine), orders));
        Self::connect(&engine, hello)
    }

    fn connect(
        engine: &Arc<Engine>,
        hello: &Hello,
    ) -> Result<(Arc<Engine>, ConnectionId), JoinError> {
        let id = engine
            .connection_accepted(hello)
            .map_err(JoinError::Refused)?;
        Ok((Arc::clone(engine), id))
    }

    /// Does what a trunk asks for until it is over.
    async fn keep(
        self: Arc<Self>,
        name: [u8; 16],
        engine: Arc<Engine>,
        mut orders: mpsc::UnboundedReceiver<Order>,
    ) {
        let ended = async {
            loop {
                match self.site.obey(&engine, &mut orders).await {
                    Some(Order::Ended(why)) => return Some(why),
                    None => return None,
                    // `obey` does the others itself, or they are for the end that dials.
                    Some(_) => {}
                }
            }
        };
        let why = tokio::select! {
            why = ended => why,
            () = engine.tick() => None,
        };
        if let Some(why) = why {
            self.site.tell(TrunkEvent::SessionEnded {
                trunk: engine.name.clone(),
                session: engine.status().0.to_string(),
                why: why.to_string(),
            });
        }
        let mut trunks = self.trunks();
        if trunks
            .get(&name)
            .is_some_and(|kept| Arc::ptr_eq(kept, &engine))
        {
            trunks.remove(&name);
        }
    }

    fn trunks(&self) -> MutexGuard<'_, BTreeMap<[u8; 16], Arc<Engine>>> {
        self.trunks.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The first thing that a near end says, and what it has said after it.
async fn read_hello(link: &mut Shielded) -> Result<(Hello, Bytes), JoinError> {
    let mut bytes = BytesMut::with_capacity(2 * Preface::MAX_LEN);
    loop {
        let count = link.read_buf(&mut bytes).await.map_err(JoinError::Read)?;
        if count == 0 {
            return Err(JoinError::Ended);
        }
        match Preface::decode(&bytes).map_err(JoinError::Violation)? {
            Some((Preface::Hello(hello), length)) => {
                return Ok((hello, bytes.split_off(length).freeze()));
            }
            Some(_) => return Err(JoinError::Violation(Violation::NotATrunk)),
            // A preface is never longer, so this grows to twice that at most.
            None => bytes.reserve(Preface::MAX_LEN),
        }
    }
}
