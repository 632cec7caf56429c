//! Readings of the host, one after the other.

use std::time::Duration;

use live::{Board, Filter, Order, Seen};
use record::top::{Reading, Relay, State};
use sys::sock_diag::States;
use watch::{NamespaceChoice, Pace, ProcessTable, Watcher};

use super::arguments::Top;
use crate::failure::{Failure, Kind};

/// The host under watch.
pub(super) struct Session {
    pub(super) board: Board,
    pub(super) filter: Filter,
    pub(super) order: Order,
    /// Listeners of relays that were asked; or why one was not to be asked.
    pub(super) relays: Vec<Relay>,
    pub(super) trouble: Option<String>,
    /// What the last reading cost, and how long until the next.
    pub(super) cost: Duration,
    wait: Duration,
    watcher: Watcher,
    processes: ProcessTable,
    pace: Pace,
    admins: Vec<std::net::SocketAddr>,
}

impl Session {
    pub(super) fn open(arguments: &Top, filter: Filter) -> Result<Self, Failure> {
        let choice = if arguments.all_netns {
            NamespaceChoice::All
        } else if arguments.netns.is_empty() {
            NamespaceChoice::Here
        } else {
            NamespaceChoice::These(arguments.netns.clone())
        };
        let watcher = Watcher::open(&choice).map_err(|error| {
            Failure::new(Kind::Environment, error)
                .hint("other namespaces need root; `ip netns list` has their names")
        })?;
        Ok(Self {
            board: Board::new(watcher.namespaces()),
            filter,
            order: arguments.sort,
            relays: Vec::new(),
            trouble: None,
            cost: Duration::ZERO,
            wait: arguments.interval.get(),
            watcher,
            processes: ProcessTable::default(),
            pace: Pace::new(arguments.interval.get(), arguments.max_cpu / 100.0),
            admins: arguments.relay.clone(),
        })
    }

    /// Reads the host once.
    pub(super) fn read(&mut self) -> Result<(), Failure> {
        let listeners = self.filter.names(State::Listening);
        let states = if self.filter.names(State::TimeWait) || listeners {
            States::ALL
        } else {
            States::WITH_LISTENERS
        };
        let (at, mut seen) = self
            .watcher
            .read(states)
            .map_err(|error| Failure::new(Kind::Environment, error))?;
        live::join(&mut seen, self.ask_relays());
        self.board.take(at, seen, listeners);
        if self.board.has_unknown_processes()
            && let Some(processes) = self.processes.look()
        {
            self.board.set_processes(processes);
        }
        (self.cost, self.wait) = self.pace.after_reading();
        Ok(())
    }

    /// From this reading to the next.
    pub(super) const fn wait(&self) -> Duration {
        self.wait
    }

    /// The last reading as a line; `whole` lists all connections, not only what has changed.
    pub(super) fn reading(&self, whole: bool) -> Reading {
        Reading {
            cost_s: self.cost.as_secs_f64(),
            relays: self.relays.clone(),
            ..self.board.reading(&self.filter, self.order, whole)
        }
    }

    /// Takes in what relays say of themselves, and returns their sockets.
    fn ask_relays(&mut self) -> Vec<Seen> {
        self.relays.clear();
        self.trouble = None;
        let mut sockets = Vec::new();
        for (number, &admin) in (0_u16..).zip(&self.admins) {
            let asked = watch::relays(admin).and_then(|relays| {
                self.relays.extend(relays);
                watch::sockets(admin, number)
            });
            match asked {
                Ok(told) => sockets.extend(told),
                Err(error) => {
                    let cause = std::error::Error::source(&error)
                        .map_or_else(String::new, |cause| format!(": {cause}"));
                    self.trouble = Some(format!("{error}{cause}"));
                }
            }
        }
        sockets
    }
}
