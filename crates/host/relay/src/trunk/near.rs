//! The end that dials: keeps WAN connections to far relays, and gives clients the first that is reachable.

use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;
use tokio::time::{sleep_until, timeout};
use trunk::{BadConfig, Session, Trunk};

use super::engine::{Engine, Order};
use super::event::{TrunkEvent, WanConnection, WanLost};
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

/// One far relay, and the trunk to it.
pub(super) struct Line {
    site: Arc<Site>,
    via: Target,
    dialler: Dialler,
    pub(super) engine: Arc<Engine>,
    looks: Arc<Looks>,
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
    /// `trunk`: bits that nobody can guess, other ones for each line.
    pub(super) fn new(
        site: &Arc<Site>,
        via: Target,
        dialler: Dialler,
        trunk: [u8; 16],
    ) -> Result<(Arc<Self>, mpsc::UnboundedReceiver<Order>), BadConfig> {
        let session = Session {
            trunk,
            epoch: nanos_of_the_wall_clock(),
        };
        let core = Trunk::initiate(site.core(), session)?;
        let name = format!("{} via {via}", site.end.name);
        let (engine, orders) = Engine::new(name, Instant::now(), core);
        let line = Self {
            site: Arc::clone(site),
            via,
            dialler,
            engine,
            looks: Arc::default(),
        };
        Ok((Arc::new(line), orders))
    }

    /// Keeps as many WAN connections as the core wants, until `draining`.
    pub(super) async fn keep(
        self: Arc<Self>,
        mut orders: mpsc::UnboundedReceiver<Order>,
        mut draining: watch::Receiver<bool>,
    ) {
        let mut links: JoinSet<Outcome> = JoinSet::new();
        let mut wanted = 0;
        let mut failures: u64 = 0;
        let mut pause = FIRST_PAUSE;
        let mut not_before = tokio::time::Instant::now();
        let ticking = self.engine.tick();
        tokio::pin!(ticking);
        loop {
            let missing = links.len() < wanted;
            tokio::select! {
                _ = draining.wait_for(|draining| *draining) => break,
                () = &mut ticking => break,
                order = self.site.obey(&self.engine, &mut orders) => match order {
                    Some(Order::WantConnections(count)) => {
                        wanted = usize::try_from(count).unwrap_or(usize::MAX);
                    }
                    Some(Order::ConnectionReady) => {
                        (failures, pause) = (0, FIRST_PAUSE);
                    }
                    Some(Order::Ended(why)) => {
                        self.tell_ended(&why.to_string());
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
                            self.tell_unreachable(why, failures + 1);
                        }
                        failures += 1;
                    }
                }
                () = sleep_until(not_before), if missing => {
                    // One at a time while none has joined: they would all fail alike.
                    let count = if failures > 0 { 1 } else { wanted - links.len() };
                    for _ in 0..count {
                        links.spawn(Arc::clone(&self).link());
                    }
                    if failures > 0 {
                        not_before = tokio::time::Instant::now() + pause;
                    }
                }
            }
        }
        self.finish(links, ticking).await;
    }

    /// Lets streams end until the site's deadline, then tells the far relay that this is over.
    async fn finish(&self, mut links: JoinSet<Outcome>, ticking: impl Future<Output = ()>) {
        let farewell = async {
            let patience = self.site.end.limits.drain_timeout;
            // What is left is cut off.
            let _ = timeout(patience, self.site.idle()).await;
            self.site.dismiss(&self.engine).await;
        };
        tokio::select! {
            () = farewell => {}
            () = ticking => {}
        }
        links.shutdown().await;
    }

    /// Makes one WAN connection and carries it to its end.
    async fn link(self: Arc<Self>) -> Outcome {
        let (link, peer) = match self.dial().await {
            Ok(dialled) => dialled,
            Err(error) => return Outcome::Undialled(error),
        };
        let tls = link.agreed();
        let id = self.engine.connection_up();
        let joined_at = Instant::now();
        let mut wan = Wan::new(
            Arc::clone(&self.engine),
            id,
            peer,
            link,
            &self.site.end.wan_profile,
        );
        self.site.tell(TrunkEvent::WanConnected(WanConnection {
            trunk: self.engine.name.clone(),
            session: self.engine.status().0.to_string(),
            connection: id.number(),
            peer,
            tls,
            rtt_s: wan.tcp_info().map(|info| info.rtt.as_secs_f64()),
        }));
        let lost = wan.carry().await;
        let told = WanLost::of(&self.engine.name, &wan, joined_at, &lost);
        // Whoever hears of it and asks for the state gets the one that it speaks of.
        self.engine.connection_down(id);
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

    fn tell_unreachable(&self, why: String, attempts: u64) {
        self.site.tell(TrunkEvent::WanUnreachable {
            trunk: self.engine.name.clone(),
            via: self.via.to_string(),
            why,
            attempts,
        });
    }

    fn tell_ended(&self, why: &str) {
        self.site.tell(TrunkEvent::SessionEnded {
            trunk: self.engine.name.clone(),
            session: self.engine.status().0.to_string(),
            why: why.to_owned(),
        });
    }
}

/// The trunk for a new client: the first whose far relay is reachable. Where none is, the first, which may
/// come back within the outage that streams sit out.
pub(super) fn choose(lines: &[Arc<Line>]) -> Result<Arc<Engine>, String> {
    let up = lines.iter().find(|line| line.engine.is_up());
    up.or_else(|| lines.first())
        .map(|line| Arc::clone(&line.engine))
        .ok_or_else(|| "there is no far relay".to_owned())
}

/// Higher in every later life of this process, which is all that an epoch has to be.
fn nanos_of_the_wall_clock() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(1, |since| {
        u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
    })
}
