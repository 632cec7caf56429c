//! What the signals of a running relay mean.

use std::io;

use relay::{Config, Event, Order};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::mpsc::Sender;

use super::supervisor;
use crate::failure::Failure;

/// SIGINT and SIGTERM drain and end, SIGHUP reloads.
pub(super) struct Signals {
    interrupt: Signal,
    terminate: Signal,
    hang_up: Signal,
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
        })
    }

    /// Resolves at SIGINT or SIGTERM. SIGHUP changes nothing where there is nothing to reload.
    pub(super) async fn stop(mut self) {
        loop {
            tokio::select! {
                _ = self.interrupt.recv() => break,
                _ = self.terminate.recv() => break,
                _ = self.hang_up.recv() => {}
            }
        }
        supervisor::stopping();
    }

    /// Turns signals into orders, until one stops the relay. `again` is asked for the configuration at each
    /// SIGHUP; where there is none, `tell` says so and nothing changes.
    pub(super) async fn give(
        mut self,
        orders: Sender<Order>,
        again: impl Fn() -> Result<Config, Failure>,
        tell: impl Fn(Event),
    ) {
        loop {
            tokio::select! {
                _ = self.interrupt.recv() => break,
                _ = self.terminate.recv() => break,
                _ = self.hang_up.recv() => {}
            }
            supervisor::reloading();
            let order = match again() {
                Ok(config) => Order::Reload(Box::new(config)),
                Err(failure) => {
                    tell(Event::ReloadFailed {
                        why: format!("{:#}", failure.error),
                    });
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
}
