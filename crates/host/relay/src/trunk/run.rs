//! All ends of a configuration, from their listeners to an orderly end.

use std::collections::BTreeSet;
use std::future::Future;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;

use rustls::crypto::aws_lc_rs;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::JoinSet;
use tokio::time::timeout;
use trunk::BadConfig;

use super::account::Account;
use super::answers;
use super::config::{FarEnd, NearEnd, TrunkConfig};
use super::event::TrunkEvent;
use super::far::Exchange;
use super::near::{self, Begun, Line};
use super::passage::Passage;
use super::phase::{self, Phase};
use super::shield::{Answerer, Dialler, SecurityError};
use super::site::{Choose, Entrance, FAREWELL, Site};
use super::status::{Desk, Trunks, Watched};
use super::watch::{self as onlook, Health, Minute};
use crate::event::{Event, Events};
use crate::{RunError, door};

/// The ends cannot start.
#[derive(Debug, thiserror::Error)]
pub enum TrunkError {
    /// A listener cannot be opened.
    #[error("the trunk `{name}` cannot listen")]
    Listen {
        /// The end.
        name: String,
        /// What is wrong.
        #[source]
        source: RunError,
    },
    /// WAN connections cannot be protected as configured.
    #[error("the trunk `{name}` cannot protect its WAN connections")]
    Security {
        /// The end.
        name: String,
        /// What is wrong.
        #[source]
        source: SecurityError,
    },
    /// The core refuses its settings.
    #[error("the trunk `{name}` cannot have these limits")]
    Limits {
        /// The end.
        name: String,
        /// What is wrong.
        #[source]
        source: BadConfig,
    },
    /// The way back to the process before this one cannot be used.
    #[error("cannot pass anything back to the process before this one")]
    Passage(#[source] io::Error),
    /// The system gives no random numbers.
    #[error("this host gives no random numbers")]
    Random,
    /// Nobody can read the status.
    #[error("cannot answer questions for the status at {address}")]
    Status {
        /// The address.
        address: SocketAddr,
        /// What the kernel said.
        #[source]
        source: io::Error,
    },
}

/// What a running process is told to do.
#[derive(Debug)]
pub enum TrunkOrder {
    /// Give out what a process needs that takes this one's place. Nothing changes.
    Succession(oneshot::Sender<io::Result<Succession>>),
    /// Another process serves: let nobody in, take no new streams, and end with the last of those that are open.
    Succeeded,
    /// The same within the drain timeout.
    Stop,
}

/// What a process needs to take another one's place.
#[derive(Debug)]
pub struct Succession {
    /// Copies of all listening sockets.
    pub listeners: Vec<OwnedFd>,
    /// Where it passes WAN connections back that belong to sessions of the process before.
    pub passage: OwnedFd,
}

/// What a process was started with.
#[derive(Debug, Default)]
pub struct Inherited {
    /// Listeners that the process before this one, or a supervisor, has opened: whoever listens at the address of one
    /// takes it.
    pub listeners: Vec<TcpListener>,
    /// The [passage](Succession::passage) of the process before this one.
    pub passage: Option<OwnedFd>,
}

/// Serves until it is ordered to stop, or nobody is left who could order it, then drains: no new clients, streams under
/// way are finished. All listeners are open, or none.
///
/// `events` is called from the tasks that serve; it must not block.
pub async fn run(
    config: TrunkConfig,
    inherited: Inherited,
    events: impl Fn(Event) + Send + Sync + 'static,
    mut orders: mpsc::Receiver<TrunkOrder>,
) -> Result<(), TrunkError> {
    let account = Arc::<Account>::default();
    let noting = Arc::clone(&account);
    let events: Events = Arc::new(move |event| {
        noting.note(&event);
        events(event);
    });
    let phase = watch::Sender::new(Phase::Serving);
    let mut handed = inherited.listeners;
    let predecessor = inherited.passage.map(Passage::new).transpose();
    let mut ends = Ends {
        near: Vec::new(),
        far: Vec::new(),
        sockets: Vec::new(),
        events: Arc::clone(&events),
        phase: phase.subscribe(),
        predecessor: predecessor.map_err(TrunkError::Passage)?.map(Arc::new),
    };
    for near in config.near {
        ends.prepare_near(near, &mut handed)?;
    }
    for far in config.far {
        ends.prepare_far(far, &mut handed)?;
    }
    let health = Arc::<Health>::default();
    let trunks = ends.watched();
    let mut onlookers = JoinSet::new();
    // Those who speak for the process as a whole; where it is succeeded, another does.
    let mut speakers = JoinSet::new();
    let minute = Arc::new(Minute::new(Arc::clone(&trunks)));
    onlookers.spawn(onlook::sample(Arc::clone(&minute), Arc::clone(&account)));
    if let Some(every) = config.probe_every {
        let (trunks, health) = (Arc::clone(&trunks), Arc::clone(&health));
        speakers.spawn(onlook::probe(trunks, health, every, Arc::clone(&events)));
    }
    if let Some(address) = config.status {
        let listener = answers::bind(address, &mut handed)
            .await
            .map_err(|source| TrunkError::Status { address, source })?;
        ends.keep_copy(&listener);
        let desk = Desk {
            trunks,
            account,
            health,
            minute,
        };
        speakers.spawn(answers::serve(listener, desk, phase.subscribe()));
    }
    door::tell_unused(handed, &events);
    let sites = ends.sites();
    let listeners = ends.listeners();
    let sockets = std::mem::take(&mut ends.sockets);
    let predecessor = ends.predecessor.clone();
    let exchanges = ends.exchanges();
    let mut doors = JoinSet::new();
    let mut keepers = ends.start(&mut doors);
    events(Event::Ready { listeners });
    let last = loop {
        match orders.recv().await {
            Some(TrunkOrder::Succession(reply)) => {
                let succession = succession(&sockets, &exchanges, predecessor.as_ref());
                // Whoever asked may have given up.
                let _ = reply.send(succession.map(|(succession, returns)| {
                    onlookers.spawn(returns);
                    succession
                }));
            }
            Some(TrunkOrder::Succeeded) => break Phase::Succeeded,
            Some(TrunkOrder::Stop) | None => break Phase::Stopping,
        }
    };
    drop(sockets);
    doors.shutdown().await;
    if last == Phase::Succeeded {
        speakers.shutdown().await;
    }
    events(Event::Draining {
        clients: sites.iter().map(|site| site.busy()).sum(),
    });
    phase.send_replace(last);
    let stopping = async {
        while let Some(order) = orders.recv().await {
            if matches!(order, TrunkOrder::Stop) {
                break;
            }
        }
        phase.send_replace(Phase::Stopping);
        std::future::pending::<()>().await;
    };
    tokio::select! {
        () = finish(&mut keepers, &sites, predecessor.as_deref(), &phase) => {}
        () = stopping => {}
    }
    events(Event::Stopped {
        aborted: sites.iter().map(|site| site.cut_off()).sum(),
        connections: sites.iter().map(|site| site.served()).sum(),
        requests: None,
        hot_ratio: None,
    });
    Ok(())
}

/// Waits until all ends are done, and all that this process carries for the one before it.
async fn finish(
    keepers: &mut JoinSet<()>,
    sites: &[Arc<Site>],
    predecessor: Option<&Passage>,
    phase: &watch::Sender<Phase>,
) {
    while keepers.join_next().await.is_some() {}
    for site in sites {
        // Streams that are over in the protocol have their last bytes to hand on.
        let _ = timeout(FAREWELL, site.idle()).await;
    }
    let patience = sites
        .iter()
        .map(|site| site.end.limits.drain_timeout)
        .max()
        .unwrap_or_default();
    if let Some(predecessor) = predecessor {
        tokio::select! {
            () = predecessor.closed() => {}
            () = phase::over(phase.subscribe(), patience) => {}
        }
    }
}

/// What a successor needs, and a task that takes its returns.
fn succession(
    sockets: &[OwnedFd],
    exchanges: &[Arc<Exchange>],
    predecessor: Option<&Arc<Passage>>,
) -> io::Result<(Succession, impl Future<Output = ()> + use<>)> {
    let (returns, passage) = Passage::pair()?;
    let listeners: io::Result<Vec<OwnedFd>> = sockets.iter().map(OwnedFd::try_clone).collect();
    let succession = Succession {
        listeners: listeners?,
        passage,
    };
    let (exchanges, predecessor) = (exchanges.to_vec(), predecessor.cloned());
    let task = async move {
        // What could not be read is closed, and its near end dials again.
        while let Ok(Some(passed)) = returns.next().await {
            let instance = passed.note.instance;
            let owner = exchanges.iter().find(|far| far.instance == instance);
            if let (None, Some(predecessor)) = (owner, &predecessor)
                && predecessor.pass_on(&passed).await.is_ok()
            {
                continue;
            }
            // An instance that nobody is any more is refused like any other that is unknown.
            if let Some(far) = owner.or_else(|| exchanges.first()) {
                tokio::spawn(Arc::clone(far).take_back(passed));
            }
        }
    };
    Ok((succession, task))
}

/// Ends whose listeners are open and that do nothing yet.
struct Ends {
    near: Vec<Near>,
    far: Vec<Far>,
    /// Copies of the listening sockets, for a successor.
    sockets: Vec<OwnedFd>,
    events: Events,
    phase: watch::Receiver<Phase>,
    predecessor: Option<Arc<Passage>>,
}

struct Near {
    site: Arc<Site>,
    entrances: Vec<Entrance>,
    lines: Vec<Arc<Line>>,
    begun: Vec<mpsc::UnboundedReceiver<Begun>>,
}

struct Far {
    exchange: Arc<Exchange>,
    entrances: Vec<Entrance>,
    listener: TcpListener,
}

// === impl Ends ===

impl Ends {
    fn prepare_near(
        &mut self,
        near: NearEnd,
        handed: &mut Vec<TcpListener>,
    ) -> Result<(), TrunkError> {
        let NearEnd { end, via } = near;
        let name = end.name.clone();
        let dialler = Dialler::load(&end.security).map_err(|source| TrunkError::Security {
            name: name.clone(),
            source,
        })?;
        let site = Site::new(end, Arc::clone(&self.events));
        let entrances = self.bind(&site, handed)?;
        let (mut lines, mut begun) = (Vec::new(), Vec::new());
        for via in via {
            let phase = self.phase.clone();
            let line = Line::new(&site, via, dialler.clone(), random()?, phase);
            let (line, queue) = line.map_err(|source| TrunkError::Limits {
                name: name.clone(),
                source,
            })?;
            lines.push(line);
            begun.push(queue);
        }
        self.near.push(Near {
            site,
            entrances,
            lines,
            begun,
        });
        Ok(())
    }

    fn prepare_far(
        &mut self,
        far: FarEnd,
        handed: &mut Vec<TcpListener>,
    ) -> Result<(), TrunkError> {
        let FarEnd { end, listen, allow } = far;
        let name = end.name.clone();
        let answerer = Answerer::load(&end.security).map_err(|source| TrunkError::Security {
            name: name.clone(),
            source,
        })?;
        let security = end.security.name();
        let site = Site::new(end, Arc::clone(&self.events));
        site.core().check().map_err(|source| TrunkError::Limits {
            name: name.clone(),
            source,
        })?;
        let bound = door::take_or_bind(listen, &site.end.wan_profile, handed);
        let (listener, applied) = bound.map_err(|source| TrunkError::Listen {
            name: name.clone(),
            source,
        })?;
        self.keep_copy(&listener);
        let entrances = self.bind(&site, handed)?;
        site.tell(TrunkEvent::FarListening {
            trunk: name,
            address: listener.local_addr().unwrap_or(listen),
            security,
        });
        site.tell_applied(&site.end.wan_profile, applied);
        let instance = u64::from_be_bytes(random()?);
        self.far.push(Far {
            exchange: Exchange::new(
                site,
                allow,
                answerer,
                instance,
                self.phase.clone(),
                self.predecessor.clone(),
            ),
            entrances,
            listener,
        });
        Ok(())
    }

    /// Opens a site's entrances.
    fn bind(
        &mut self,
        site: &Site,
        handed: &mut Vec<TcpListener>,
    ) -> Result<Vec<Entrance>, TrunkError> {
        let entrances = site.bind(handed).map_err(|source| TrunkError::Listen {
            name: site.end.name.clone(),
            source,
        })?;
        for entrance in &entrances {
            self.keep_copy(&entrance.listener);
        }
        Ok(entrances)
    }

    /// One of which the kernel makes no copy is opened anew by a successor.
    fn keep_copy(&mut self, listener: &impl AsFd) {
        let copy = listener.as_fd().try_clone_to_owned();
        self.sockets.extend(copy.ok());
    }

    fn exchanges(&self) -> Vec<Arc<Exchange>> {
        let far = self.far.iter();
        far.map(|far| Arc::clone(&far.exchange)).collect()
    }

    fn sites(&self) -> Vec<Arc<Site>> {
        let near = self.near.iter().map(|near| &near.site);
        let far = self.far.iter().map(|far| &far.exchange.site);
        near.chain(far).cloned().collect()
    }

    /// How many are open.
    fn listeners(&self) -> usize {
        let near = self.near.iter().map(|near| near.entrances.len());
        let far = self.far.iter().map(|far| far.entrances.len() + 1);
        near.chain(far).sum()
    }

    /// What the status is about: each line of each near end, and each trunk that a far end has now.
    fn watched(&self) -> Trunks {
        let near = self.near.iter();
        let near: Vec<_> = near
            .map(|near| (near.lines.clone(), targets(&near.site)))
            .collect();
        let far = self.far.iter();
        let far: Vec<_> = far
            .map(|far| (Arc::clone(&far.exchange), targets(&far.exchange.site)))
            .collect();
        Arc::new(move || {
            let mut watched = Vec::new();
            for (lines, targets) in &near {
                let engines = lines.iter().flat_map(|line| line.engines());
                watched.extend(engines.map(|engine| Watched {
                    engine,
                    targets: targets.clone(),
                }));
            }
            for (exchange, targets) in &far {
                let engines = exchange.engines().into_iter();
                watched.extend(engines.map(|engine| Watched {
                    engine,
                    targets: targets.clone(),
                }));
            }
            watched
        })
    }

    /// Lets clients in through `doors`, and keeps trunks until the end of their streams.
    fn start(self, doors: &mut JoinSet<()>) -> JoinSet<()> {
        let mut keepers = JoinSet::new();
        for near in self.near {
            for entrance in near.entrances {
                let lines = near.lines.clone();
                let choose: Choose = Arc::new(move || near::choose(&lines));
                doors.spawn(Arc::clone(&near.site).admit(entrance, choose));
            }
            for (line, begun) in near.lines.into_iter().zip(near.begun) {
                keepers.spawn(line.keep(begun));
            }
        }
        for far in self.far {
            for entrance in far.entrances {
                let exchange = Arc::clone(&far.exchange);
                let site = Arc::clone(&exchange.site);
                let choose: Choose = Arc::new(move || exchange.choose());
                doors.spawn(site.admit(entrance, choose));
            }
            keepers.spawn(far.exchange.serve(far.listener));
        }
        keepers
    }
}

/// What clients at this end reach through the other.
fn targets(site: &Site) -> Vec<String> {
    let listeners = site.end.listeners.iter();
    let all: BTreeSet<_> = listeners.map(|listener| listener.to.to_string()).collect();
    all.into_iter().collect()
}

fn random<const LENGTH: usize>() -> Result<[u8; LENGTH], TrunkError> {
    let mut bytes = [0; LENGTH];
    let source = aws_lc_rs::default_provider().secure_random;
    source.fill(&mut bytes).map_err(|_| TrunkError::Random)?;
    Ok(bytes)
}
