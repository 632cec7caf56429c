//! All ends of a configuration, from their listeners to an orderly end.

use std::collections::BTreeSet;
use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use rustls::crypto::aws_lc_rs;
use tokio::net::TcpListener;
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use trunk::BadConfig;

use super::account::Account;
use super::answers;
use super::config::{FarEnd, NearEnd, TrunkConfig};
use super::engine::Order;
use super::event::TrunkEvent;
use super::far::Exchange;
use super::near::{self, Line};
use super::shield::{Answerer, Dialler, SecurityError};
use super::site::{Entrance, Site};
use super::status::{Desk, Trunks, Watched};
use super::watch::{self, Health};
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

/// Serves until `shutdown` resolves, then drains: no new clients, streams under way are finished up to the
/// drain timeout. All listeners are open, or none.
///
/// `events` is called from the tasks that serve; it must not block.
pub async fn run(
    config: TrunkConfig,
    events: impl Fn(Event) + Send + Sync + 'static,
    shutdown: impl Future<Output = ()>,
) -> Result<(), TrunkError> {
    let account = Arc::<Account>::default();
    let noting = Arc::clone(&account);
    let events: Events = Arc::new(move |event| {
        noting.note(&event);
        events(event);
    });
    let mut ends = Ends::default();
    for near in config.near {
        ends.prepare_near(near, &events)?;
    }
    for far in config.far {
        ends.prepare_far(far, &events)?;
    }
    let (drain, draining) = tokio::sync::watch::channel(false);
    let mut doors = JoinSet::new();
    let health = Arc::<Health>::default();
    let trunks = ends.watched();
    let mut onlookers = JoinSet::new();
    onlookers.spawn(watch::sample(Arc::clone(&trunks), Arc::clone(&account)));
    if let Some(every) = config.probe_every {
        let (trunks, health) = (Arc::clone(&trunks), Arc::clone(&health));
        onlookers.spawn(watch::probe(trunks, health, every, Arc::clone(&events)));
    }
    if let Some(address) = config.status {
        let listener = answers::bind(address)
            .await
            .map_err(|source| TrunkError::Status { address, source })?;
        let desk = Desk {
            trunks,
            account,
            health,
        };
        onlookers.spawn(answers::serve(listener, desk, draining.clone()));
    }
    let sites = ends.sites();
    let listeners = ends.listeners();
    let mut keepers = ends.start(&mut doors, &draining);
    events(Event::Ready { listeners });
    shutdown.await;
    doors.shutdown().await;
    events(Event::Draining {
        clients: sites.iter().map(|site| site.busy()).sum(),
    });
    drain.send_replace(true);
    while keepers.join_next().await.is_some() {}
    events(Event::Stopped {
        aborted: sites.iter().map(|site| site.cut_off()).sum(),
        connections: sites.iter().map(|site| site.served()).sum(),
        requests: None,
        hot_ratio: None,
    });
    Ok(())
}

/// Ends whose listeners are open and that do nothing yet.
#[derive(Default)]
struct Ends {
    near: Vec<Near>,
    far: Vec<Far>,
}

struct Near {
    site: Arc<Site>,
    entrances: Vec<Entrance>,
    lines: Vec<Arc<Line>>,
    orders: Vec<mpsc::UnboundedReceiver<Order>>,
}

struct Far {
    exchange: Arc<Exchange>,
    entrances: Vec<Entrance>,
    listener: TcpListener,
}

// === impl Ends ===

impl Ends {
    fn prepare_near(&mut self, near: NearEnd, events: &Events) -> Result<(), TrunkError> {
        let NearEnd { end, via } = near;
        let name = end.name.clone();
        let dialler = Dialler::load(&end.security).map_err(|source| TrunkError::Security {
            name: name.clone(),
            source,
        })?;
        let site = Site::new(end, Arc::clone(events));
        let entrances = bind(&site)?;
        let (mut lines, mut orders) = (Vec::new(), Vec::new());
        for via in via {
            let line = Line::new(&site, via, dialler.clone(), random()?);
            let (line, queue) = line.map_err(|source| TrunkError::Limits {
                name: name.clone(),
                source,
            })?;
            lines.push(line);
            orders.push(queue);
        }
        self.near.push(Near {
            site,
            entrances,
            lines,
            orders,
        });
        Ok(())
    }

    fn prepare_far(&mut self, far: FarEnd, events: &Events) -> Result<(), TrunkError> {
        let FarEnd { end, listen, allow } = far;
        let name = end.name.clone();
        let answerer = Answerer::load(&end.security).map_err(|source| TrunkError::Security {
            name: name.clone(),
            source,
        })?;
        let security = end.security.name();
        let site = Site::new(end, Arc::clone(events));
        site.core().check().map_err(|source| TrunkError::Limits {
            name: name.clone(),
            source,
        })?;
        let bound = door::bind(listen, &site.end.wan_profile);
        let (listener, applied) = bound.map_err(|source| TrunkError::Listen {
            name: name.clone(),
            source,
        })?;
        let entrances = bind(&site)?;
        site.tell(TrunkEvent::FarListening {
            trunk: name,
            address: listener.local_addr().unwrap_or(listen),
            security,
        });
        site.tell_applied(&site.end.wan_profile, applied);
        let instance = u64::from_be_bytes(random()?);
        self.far.push(Far {
            exchange: Exchange::new(site, allow, answerer, instance),
            entrances,
            listener,
        });
        Ok(())
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
                watched.extend(lines.iter().map(|line| Watched {
                    engine: Arc::clone(&line.engine),
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

    /// Lets clients in through `doors`, and keeps trunks until `draining` and the end of their streams.
    fn start(
        self,
        doors: &mut JoinSet<()>,
        draining: &tokio::sync::watch::Receiver<bool>,
    ) -> JoinSet<()> {
        let mut keepers = JoinSet::new();
        for near in self.near {
            for entrance in near.entrances {
                let lines = near.lines.clone();
                let site = Arc::clone(&near.site);
                doors.spawn(site.admit(entrance, move || near::choose(&lines)));
            }
            for (line, orders) in near.lines.into_iter().zip(near.orders) {
                keepers.spawn(line.keep(orders, draining.clone()));
            }
        }
        for far in self.far {
            for entrance in far.entrances {
                let exchange = Arc::clone(&far.exchange);
                let site = Arc::clone(&exchange.site);
                doors.spawn(site.admit(entrance, move || exchange.choose()));
            }
            keepers.spawn(far.exchange.serve(far.listener, draining.clone()));
        }
        keepers
    }
}

fn bind(site: &Site) -> Result<Vec<Entrance>, TrunkError> {
    site.bind().map_err(|source| TrunkError::Listen {
        name: site.end.name.clone(),
        source,
    })
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
