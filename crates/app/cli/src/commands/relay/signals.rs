//! What the signals of a running relay mean.

use std::io;

use relay::trunk::TrunkOrder;
use relay::{Config, ConfigError, Event, Order};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::mpsc::Sender;

use super::{successor, supervisor};
use crate::failure::Failure;

/// SIGINT and SIGTERM drain and end, SIGHUP reloads, SIGUSR2 starts a successor.
pub(super) struct Signals {
    interrupt: Signal,
    terminate: Signal,
    hang_up: Signal,
    upgrade: Signal,
}

/// What a signal asks for.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Asked {
    Stop,
    Reload,
    Upgrade,
}

// === impl Signals ===

impl Signals {
    /// Listens from this call on, not from the first poll: a signal that came between would end the process
    /// without draining.
    pub(super) fn listen() -> io::Result<Self> {
        Ok(Self {
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
            hang_up: signal(SignalKind::hangup())?,
            upgrade: signal(SignalKind::user_defined2())?,
        })
    }

    /// What the next signal asks for.
    async fn next(&mut self) -> Asked {
        tokio::select! {
            _ = self.interrupt.recv() => Asked::Stop,
            _ = self.terminate.recv() => Asked::Stop,
            _ = self.hang_up.recv() => Asked::Reload,
            _ = self.upgrade.recv() => Asked::Upgrade,
        }
    }

    /// Resolves at SIGINT or SIGTERM. SIGHUP and SIGUSR2 change nothing where there is nothing to reload or hand over.
    pub(super) async fn stop(mut self) {
        while self.next().await != Asked::Stop {}
        supervisor::stopping();
    }

    /// Turns signals into orders, until one stops the relay, or a successor serves in its place. `again` is asked for the configuration at each
    /// SIGHUP; where there is none, `tell` says so and nothing changes.
    pub(super) async fn give(
        mut self,
        orders: Sender<Order>,
        again: impl Fn() -> Result<Config, Failure>,
        tell: impl Fn(Event),
    ) {
        loop {
            match self.next().await {
                Asked::Stop => break,
                Asked::Reload => {}
                Asked::Upgrade => {
                    match successor::of_relay(&orders).await {
                        Ok(process) => {
                            supervisor::succeeded_by(process);
                            let _ = orders.send(Order::Stop).await;
                            return;
                        }
                        Err(failure) => tell(upgrade_failed(&failure)),
                    }
                    continue;
                }
            }
            supervisor::reloading();
            let order = match again() {
                Ok(config) => Order::Reload(Box::new(config)),
                Err(failure) => {
                    let why = match failure.error.downcast_ref::<ConfigError>() {
                        Some(error) => error.in_one_line(),
                        None => format!("{:#}", failure.error),
                    };
                    tell(Event::ReloadFailed { why });
                    supervisor::ready();
                    continue;
                }
            };
            if orders.send(order).await.is_err() {
                return;
            }
        }
        supervisor::stopping();
        // A relay that has ended by itself needs no order.
        let _ = orders.send(Order::Stop).await;
    }

    /// The same for ends of trunks, for which SIGHUP and SIGUSR2 are one: a successor has read everything again, and no
    /// stream is lost. After one, this process still obeys SIGINT and SIGTERM.
    pub(super) async fn give_trunk(mut self, orders: Sender<TrunkOrder>, tell: impl Fn(Event)) {
        let mut succeeded = false;
        while self.next().await != Asked::Stop {
            if succeeded {
                continue;
            }
            match successor::of_trunk(&orders).await {
                Ok(process) => {
                    supervisor::succeeded_by(process);
                    succeeded = true;
                    let _ = orders.send(TrunkOrder::Succeeded).await;
                }
                Err(failure) => tell(upgrade_failed(&failure)),
            }
        }
        if !succeeded {
            supervisor::stopping();
        }
        // One that has ended by itself needs no order.
        let _ = orders.send(TrunkOrder::Stop).await;
    }
}

fn upgrade_failed(failure: &anyhow::Error) -> Event {
    Event::Warning {
        name: "upgrade-failed",
        text: format!("{failure:#}; this process goes on"),
    }
}
