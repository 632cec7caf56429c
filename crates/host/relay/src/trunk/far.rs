//! The end that is dialled: lets near ends' connections join their trunks.

use std::collections::BTreeMap;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use bytes::{Bytes, BytesMut};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::sync::{Notify, mpsc, watch};
use tokio::time::timeout;
use trunk::{
    AcceptError, Admission, BadConfig, ConnectionId, Hello, Preface, Reason, Refusal,
    RefusalReason, Trunk, Violation,
};

use super::engine::{Engine, Order};
use super::event::{TrunkEvent, WanConnection, WanLost};
use super::passage::{self, Note, Passage, Passed};
use super::phase::{self, Phase};
use super::shield::{Answerer, Shielded};
use super::site::{FAREWELL, Site};
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
    pub(super) instance: u64,
    trunks: Mutex<BTreeMap<[u8; 16], Arc<Engine>>>,
    /// Told when a trunk is gone.
    trunk_gone: Notify,
    phase: watch::Receiver<Phase>,
    /// To the process before this one, where it may still have sessions.
    predecessor: Option<Arc<Passage>>,
}

/// A connection that has said what it wants.
struct Caller {
    link: Shielded,
    peer: SocketAddr,
    hello: Hello,
    /// All that it has said so far; the hello is so long.
    said: Bytes,
    length: usize,
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
    #[error("it cannot be taken back from the process after this one")]
    Take(#[source] io::Error),
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
        phase: watch::Receiver<Phase>,
        predecessor: Option<Arc<Passage>>,
    ) -> Arc<Self> {
        Arc::new(Self {
            site,
            allow,
            answerer,
            instance,
            trunks: Mutex::default(),
            trunk_gone: Notify::new(),
            phase,
            predecessor,
        })
    }

    /// Lets near ends in while the process serves, then lets streams end.
    pub(super) async fn serve(self: Arc<Self>, listener: TcpListener) {
        let mut phase = self.phase.clone();
        let over = phase::over(phase.clone(), self.site.end.limits.drain_timeout);
        tokio::pin!(over);
        let mut door = Some(Door::new(
            listener,
            &self.site.end.wan_profile,
            Callers {
                allow: self.allow.clone(),
                deny: Vec::new(),
            },
            CONNECTIONS,
            Arc::clone(&self.site.events),
        ));
        loop {
            let visitor = tokio::select! {
                _ = phase.wait_for(|phase| *phase != Phase::Serving) => break,
                visitor = knock(&mut door) => visitor,
            };
            tokio::spawn(Arc::clone(&self).welcome(visitor));
        }
        for engine in self.engines() {
            engine.leave();
        }
        if *phase.borrow() == Phase::Succeeded {
            // Who comes now comes to the other process, which passes back what belongs here.
            door = None;
        }
        loop {
            tokio::select! {
                () = self.deserted() => break,
                () = &mut over => break,
                // For sessions that are here; others are refused.
                visitor = knock(&mut door) => {
                    tokio::spawn(Arc::clone(&self).welcome(visitor));
                }
            }
        }
        drop(door);
        // What is left is cut off.
        for engine in self.engines() {
            self.site.dismiss(&engine).await;
        }
    }

    /// A trunk whose near end can be reached, for a client that came in at this end.
    pub(super) fn choose(&self) -> Result<Arc<Engine>, String> {
        let trunks = self.trunks();
        let up = trunks
            .values()
            .find(|engine| engine.takes_streams() && engine.is_up());
        up.cloned()
            .ok_or_else(|| "no near relay is connected".to_owned())
    }

    /// The trunks that there are.
    pub(super) fn engines(&self) -> Vec<Arc<Engine>> {
        self.trunks().values().cloned().collect()
    }

    /// Resolves once there is no trunk.
    async fn deserted(&self) {
        loop {
            let gone = self.trunk_gone.notified();
            if self.trunks().is_empty() {
                return;
            }
            gone.await;
        }
    }

    async fn welcome(self: Arc<Self>, visitor: Visitor) {
        let Visitor {
            stream,
            peer,
            place,
        } = visitor;
        let outcome = match self.greet(stream, peer).await {
            Ok(caller) => self.place(caller).await,
            Err(error) => Err(error),
        };
        self.tell_refused(peer, outcome);
        drop(place);
    }

    /// Carries a connection that the process after this one has accepted and whose session may be here.
    pub(super) async fn take_back(self: Arc<Self>, passed: Passed) {
        let carried = match passed.open() {
            Ok(carried) => carried,
            Err(error) => {
                let nobody = SocketAddr::from(([0, 0, 0, 0], 0));
                return self.tell_refused(nobody, Err(JoinError::Take(error)));
            }
        };
        // One that has gone meanwhile has no address any more.
        let peer = carried.tcp.peer_addr();
        let peer = peer.unwrap_or_else(|_| SocketAddr::from(([0, 0, 0, 0], 0)));
        let outcome = match self.listen_to(Shielded::Carried(carried), peer).await {
            Ok(caller) => self.join(caller).await,
            Err(error) => Err(error),
        };
        self.tell_refused(peer, outcome);
    }

    fn tell_refused(&self, peer: SocketAddr, outcome: Result<(), JoinError>) {
        if let Err(error) = outcome {
            let why = crate::chain(&error);
            (self.site.events)(crate::Event::Refused { peer, why });
        }
    }

    async fn greet(
        &self,
        stream: tokio::net::TcpStream,
        peer: SocketAddr,
    ) -> Result<Caller, JoinError> {
        let patience = self.site.end.limits.connect_timeout;
        let link = timeout(patience, self.answerer.shake(stream))
            .await
            .map_err(|_elapsed| JoinError::HandshakeTimeout(patience))?
            .map_err(JoinError::Handshake)?;
        self.listen_to(link, peer).await
    }

    async fn listen_to(&self, mut link: Shielded, peer: SocketAddr) -> Result<Caller, JoinError> {
        let patience = self.site.end.limits.connect_timeout;
        let (hello, said, length) = timeout(patience, read_hello(&mut link))
            .await
            .map_err(|_elapsed| JoinError::HelloTimeout(patience))??;
        Ok(Caller {
            link,
            peer,
            hello,
            said,
            length,
        })
    }

    /// Carries a connection to the end, here or for the process before this one.
    async fn place(self: &Arc<Self>, caller: Caller) -> Result<(), JoinError> {
        let elsewhere = caller
            .hello
            .known_to
            .filter(|instance| *instance != self.instance);
        if let (Some(instance), Some(predecessor)) = (elsewhere, &self.predecessor) {
            let tls = caller.link.agreed();
            let note = Note { instance, tls };
            // One that is gone has no sessions any more, which the near end is told below.
            if let Ok(carrier) = predecessor.offer(&note, caller.link.tcp()).await {
                // Whichever end breaks off, the other one sees it.
                let _ = passage::carry(caller.link, &caller.said, carrier).await;
                return Ok(());
            }
        }
        self.join(caller).await
    }

    /// Finds or makes the trunk, and carries the connection to its end.
    async fn join(self: &Arc<Self>, caller: Caller) -> Result<(), JoinError> {
        let Caller {
            mut link,
            peer,
            hello,
            said,
            length,
        } = caller;
        let (engine, id) = match self.admit(&hello) {
            Ok(joined) => joined,
            Err(error) => {
                if let JoinError::Refused(refusal) = &error {
                    // Somebody who does not want to hear it has lost nothing.
                    let farewell = async {
                        link.write_all(&refusal.encode()).await?;
                        link.shutdown().await
                    };
                    let patience = self.site.end.limits.connect_timeout;
                    let said: io::Result<()> = timeout(patience, farewell).await.unwrap_or(Ok(()));
                    if said.is_ok() {
                        // A socket that is closed with bytes unread resets the connection, and the refusal
                        // may be lost with it (RFC 2525 section 2.17).
                        let mut nobody = tokio::io::sink();
                        let rest = tokio::io::copy(&mut link, &mut nobody);
                        let _ = timeout(FAREWELL, rest).await;
                    }
                }
                return Err(error);
            }
        };
        let tls = link.agreed();
        let joined_at = Instant::now();
        let profile = &self.site.end.wan_profile;
        let mut wan = Wan::new(Arc::clone(&engine), id, peer, link, profile);
        self.site.tell(TrunkEvent::WanConnected(WanConnection {
            trunk: engine.name.clone(),
            session: hello.session.to_string(),
            connection: id.number(),
            peer,
            tls,
            rtt_s: wan.tcp_info().map(|info| info.rtt.as_secs_f64()),
        }));
        self.site.tell_arrival();
        let lost = match wan.receive(said.slice(length..)) {
            Ok(()) => wan.carry().await,
            Err(lost) => lost,
        };
        let told = WanLost::of(&engine.name, &wan, joined_at, &lost);
        // Whoever hears of it and asks for the state gets the one that it speaks of.
        engine.connection_down(id);
        self.site.tell(TrunkEvent::WanLost(told));
        Ok(())
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
        if *self.phase.borrow() != Phase::Serving && hello.known_to.is_none() {
            let refusal = Refusal::new(RefusalReason::Shutdown, "");
            return Err(JoinError::Refused(refusal));
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
            self.site.tell_ended(&engine, &why);
        }
        // Meanwhile its connections carry the farewell.
        let _ = timeout(FAREWELL, engine.deserted()).await;
        let mut trunks = self.trunks();
        if trunks
            .get(&name)
            .is_some_and(|kept| Arc::ptr_eq(kept, &engine))
        {
            trunks.remove(&name);
        }
        drop(trunks);
        self.trunk_gone.notify_waiters();
    }

    fn trunks(&self) -> MutexGuard<'_, BTreeMap<[u8; 16], Arc<Engine>>> {
        self.trunks.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The next who comes in, where there is a door.
async fn knock(door: &mut Option<Door>) -> Visitor {
    match door {
        Some(door) => door.next().await,
        None => std::future::pending().await,
    }
}

/// The first thing that a near end says, all that it has said so far, and how much of that it is.
async fn read_hello(link: &mut Shielded) -> Result<(Hello, Bytes, usize), JoinError> {
    let mut bytes = BytesMut::with_capacity(2 * Preface::MAX_LEN);
    loop {
        let count = link.read_buf(&mut bytes).await.map_err(JoinError::Read)?;
        if count == 0 {
            return Err(JoinError::Ended);
        }
        match Preface::decode(&bytes).map_err(JoinError::Violation)? {
            Some((Preface::Hello(hello), length)) => return Ok((hello, bytes.freeze(), length)),
            Some(_) => return Err(JoinError::Violation(Violation::NotATrunk)),
            // A preface is never longer, so this grows to twice that at most.
            None => bytes.reserve(Preface::MAX_LEN),
        }
    }
}
