//! The end that dials: keeps WAN connections to far relays, and gives clients the first that is reachable.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;
use tokio::time::{sleep_until, timeout};
use trunk::{BadConfig, Session, Trunk};

use super::engine::{Engine, Order};
use super::event::{TrunkEvent, WanConnection, WanLost};
use super::phase::{self, Phase};
use super::shield::{Dialler, Shielded};
use super::site::Site;
use super::target;
use super::wan::{Lost, Wan};
use crate::Target;
use crate::looks::Looks;
use crate::upstream::ConnectError;

/// After the first failure; doubles up to the maximum, so that a far relay that comes back is found within
/// a second, and one that stays away costs one SYN a second.
const FIRST_PAUSE: Duration = Duration::from_millis(50);
const MAX_PAUSE: Duration = Duration::from_secs(1);

/// Failures between two events about the same one: once in about five minutes.
const TOLD_EVERY: u64 = 300;

/// One far relay, and the sessions with it.
pub(super) struct Line {
    site: Arc<Site>,
    via: Target,
    dialler: Dialler,
    looks: Arc<Looks>,
    phase: watch::Receiver<Phase>,
    sessions: Mutex<Sessions>,
    begun: mpsc::UnboundedSender<Begun>,
}

/// Several only where the far relay has left one, whose streams go on to their end.
struct Sessions {
    /// The bits of the current one.
    trunk: [u8; 16],
    /// The one for new streams.
    current: Arc<Engine>,
    left: Vec<Arc<Engine>>,
}

/// A session that nobody keeps yet.
pub(super) struct Begun {
    engine: Arc<Engine>,
    orders: mpsc::UnboundedReceiver<Order>,
}

/// No WAN connection was made.
#[derive(Debug, thiserror::Error)]
enum DialError {
    #[error("no connection within {}", units::format_span(*.0))]
    Timeout(Duration),
    #[error("cannot connect")]
    Connect(#[source] ConnectError),
    #[error("`{0}` has no address")]
    NoAddress(String),
    #[error("no TLS handshake within {}", units::format_span(*.0))]
    HandshakeTimeout(Duration),
    #[error("the TLS handshake failed")]
    Handshake(#[source] std::io::Error),
}

/// How a WAN connection that was made, or was not, came to its end.
enum Outcome {
    Undialled(DialError),
    Lost(Lost),
}

// === impl Line ===

impl Line {
    /// `trunk`: bits that nobody can guess, other ones for each line. [`Self::keep`] wants what is returned beside it.
    pub(super) fn new(
        site: &Arc<Site>,
        via: Target,
        dialler: Dialler,
        trunk: [u8; 16],
        phase: watch::Receiver<Phase>,
    ) -> Result<(Arc<Self>, mpsc::UnboundedReceiver<Begun>), BadConfig> {
        let (begun, queue) = mpsc::unbounded_channel();
        let (current, orders) = begin(site, &via, trunk)?;
        let engine = Arc::clone(&current);
        // The queue is just below.
        let _ = begun.send(Begun { engine, orders });
        let line = Self {
            site: Arc::clone(site),
            via,
            dialler,
            looks: Arc::default(),
            phase,
            sessions: Mutex::new(Sessions {
                trunk,
                current,
                left: Vec::new(),
            }),
            begun,
        };
        Ok((Arc::new(line), queue))
    }

    /// The session for new streams: where the far relay has left one, another, which the process finds that has taken
    /// the far relay's place.
    fn engine(&self) -> Arc<Engine> {
        let mut sessions = self.sessions();
        let serving = *self.phase.borrow() == Phase::Serving;
        if serving && sessions.current.is_left() {
            // By other bits, so that it takes nothing from the one that still has streams.
            let trunk = u128::from_be_bytes(sessions.trunk).wrapping_add(1);
            let trunk = trunk.to_be_bytes();
            // What was good for the first session is good for this.
            if let Ok((engine, orders)) = begin(&self.site, &self.via, trunk) {
                sessions.trunk = trunk;
                let before = std::mem::replace(&mut sessions.current, Arc::clone(&engine));
                sessions.left.push(before);
                let _ = self.begun.send(Begun { engine, orders });
            }
        }
        Arc::clone(&sessions.current)
    }

    /// Every session, the one for new streams first.
    pub(super) fn engines(&self) -> Vec<Arc<Engine>> {
        let sessions = self.sessions();
        let current = std::iter::once(&sessions.current);
        current.chain(&sessions.left).cloned().collect()
    }

    /// Keeps sessions until this process does not serve any more and the last of them is over.
    pub(super) async fn keep(self: Arc<Self>, mut begun: mpsc::UnboundedReceiver<Begun>) {
        let mut phase = self.phase.clone();
        let mut lives = JoinSet::new();
        loop {
            tokio::select! {
                biased;
                Some(begun) = begun.recv() => {
                    lives.spawn(Arc::clone(&self).live(begun));
                }
                Some(_) = lives.join_next() => {}
                _ = phase.wait_for(|phase| *phase != Phase::Serving), if lives.is_empty() => break,
            }
        }
    }

    /// Keeps as many WAN connections as a session's core wants, until it is over.
    async fn live(self: Arc<Self>, begun: Begun) {
        let Begun { engine, mut orders } = begun;
        let mut links: JoinSet<Outcome> = JoinSet::new();
        let mut wanted = 0;
        let mut failures: u64 = 0;
        let mut pause = FIRST_PAUSE;
        let mut not_before = tokio::time::Instant::now();
        let mut leaving = false;
        let mut phase = self.phase.clone();
        let ticking = engine.tick();
        let over = phase::over(phase.clone(), self.site.end.limits.drain_timeout);
        tokio::pin!(ticking, over);
        loop {
            // Until the session is known, two processes that take turns at the far relay's listener could each
            // take a connection for the beginning of one.
            let missing = links.len() < wanted && (links.is_empty() || engine.is_known());
            tokio::select! {
                _ = phase.wait_for(|phase| *phase != Phase::Serving), if !leaving => {
                    leaving = true;
                    engine.leave();
                }
                () = &mut over => break,
                () = &mut ticking => break,
                order = self.site.obey(&engine, &mut orders) => match order {
                    Some(Order::WantConnections(count)) => {
                        wanted = usize::try_from(count).unwrap_or(usize::MAX);
                    }
                    Some(Order::ConnectionReady) => {
                        (failures, pause) = (0, FIRST_PAUSE);
                    }
                    // The next session begins at once, not with the next client.
                    Some(Order::PeerLeaves) => drop(self.engine()),
                    Some(Order::Ended(why)) => {
                        self.site.tell_ended(&engine, &why);
                        break;
                    }
                    // `obey` does the others itself.
                    Some(
                        Order::Open(..)
                        | Order::Hot(_)
                        | Order::Alarm { .. }
                        | Order::Manner(..)
                        | Order::Warning { .. },
                    ) => {}
                    None => break,
                },
                Some(outcome) = links.join_next() => {
                    // A connection that was closed because its session is over is replaced at once.
                    let why = match outcome {
                        Ok(Outcome::Lost(Lost::Closed(_) | Lost::Ended) ) => None,
                        Ok(Outcome::Lost(lost)) => Some(crate::chain(&lost)),
                        Ok(Outcome::Undialled(error)) => Some(crate::chain(&error)),
                        Err(error) => Some(error.to_string()),
                    };
                    not_before = tokio::time::Instant::now() + pause;
                    pause = (pause * 2).min(MAX_PAUSE);
                    if let Some(why) = why {
                        if failures.is_multiple_of(TOLD_EVERY) {
                            self.tell_unreachable(&engine, why, failures + 1);
                        }
                        failures += 1;
                    }
                }
                () = sleep_until(not_before), if missing => {
                    // One at a time while none has joined: they would all fail alike.
                    let one = failures > 0 || !engine.is_known();
                    let count = if one { 1 } else { wanted - links.len() };
                    for _ in 0..count {
                        links.spawn(Arc::clone(&self).link(Arc::clone(&engine)));
                    }
                    if failures > 0 {
                        not_before = tokio::time::Instant::now() + pause;
                    }
                }
            }
        }
        // What is left is cut off, and told so.
        tokio::select! {
            () = self.site.dismiss(&engine) => {}
            () = ticking => {}
        }
        links.shutdown().await;
        let mut sessions = self.sessions();
        sessions.left.retain(|left| !Arc::ptr_eq(left, &engine));
    }

    /// Makes one WAN connection and carries it to its end.
    async fn link(self: Arc<Self>, engine: Arc<Engine>) -> Outcome {
        let (link, peer) = match self.dial().await {
            Ok(dialled) => dialled,
            Err(error) => return Outcome::Undialled(error),
        };
        let tls = link.agreed();
        let id = engine.connection_up();
        let joined_at = Instant::now();
        let profile = &self.site.end.wan_profile;
        let mut wan = Wan::new(Arc::clone(&engine), id, peer, link, profile);
        self.site.tell(TrunkEvent::WanConnected(WanConnection {
            trunk: engine.name.clone(),
            session: engine.status().0.to_string(),
            connection: id.number(),
            peer,
            tls,
            rtt_s: wan.tcp_info().map(|info| info.rtt.as_secs_f64()),
        }));
        let lost = wan.carry().await;
        let told = WanLost::of(&engine.name, &wan, joined_at, &lost);
        // Whoever hears of it and asks for the state gets the one that it speaks of.
        engine.connection_down(id);
        self.site.tell(TrunkEvent::WanLost(told));
        Outcome::Lost(lost)
    }

    async fn dial(&self) -> Result<(Shielded, std::net::SocketAddr), DialError> {
        let patience = self.site.end.limits.connect_timeout;
        let profile = &self.site.end.wan_profile;
        let connecting = target::reach(&self.via, profile, |_| true);
        let (stream, peer, applied) = timeout(patience, connecting)
            .await
            .map_err(|_elapsed| DialError::Timeout(patience))?
            .map_err(DialError::Connect)?
            .ok_or_else(|| DialError::NoAddress(self.via.host.clone()))?;
        self.looks.at_connected(&self.site.events, profile, applied);
        let link = timeout(patience, self.dialler.shake(stream, &self.via.host)).await;
        let link = link
            .map_err(|_elapsed| DialError::HandshakeTimeout(patience))?
            .map_err(DialError::Handshake)?;
        Ok((link, peer))
    }

    fn tell_unreachable(&self, engine: &Engine, why: String, attempts: u64) {
        self.site.tell(TrunkEvent::WanUnreachable {
            trunk: engine.name.clone(),
            via: self.via.to_string(),
            why,
            attempts,
        });
    }

    fn sessions(&self) -> MutexGuard<'_, Sessions> {
        // Whoever panicked has left whole sessions behind.
        self.sessions.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn begin(
    site: &Site,
    via: &Target,
    trunk: [u8; 16],
) -> Result<(Arc<Engine>, mpsc::UnboundedReceiver<Order>), BadConfig> {
    let session = Session {
        trunk,
        epoch: nanos_of_the_wall_clock(),
    };
    let core = Trunk::initiate(site.core(), session)?;
    let name = format!("{} via {via}", site.end.name);
    Ok(Engine::new(name, Instant::now(), core))
}

/// The trunk for a new client: the first whose far relay is reachable. Where none is, the first, which may
/// come back within the outage that streams sit out.
pub(super) fn choose(lines: &[Arc<Line>]) -> Result<Arc<Engine>, String> {
    let mut engines = lines.iter().map(|line| line.engine());
    let mut first = None;
    let up = engines.find(|engine| {
        let takes = engine.takes_streams();
        if takes && first.is_none() {
            first = Some(Arc::clone(engine));
        }
        takes && engine.is_up()
    });
    up.or(first).ok_or_else(|| {
        "no trunk takes new streams: this relay is to stop, or another has its identity".to_owned()
    })
}

/// Higher in every later life of this process, which is all that an epoch has to be.
fn nanos_of_the_wall_clock() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(1, |since| {
        u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
    })
}
