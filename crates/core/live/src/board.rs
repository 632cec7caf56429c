use std::collections::{BTreeMap, BTreeSet};

use record::top::{Connection, Pile, Process, Reading, RelaySide, Role, State, Summary};
use units::Time;

use crate::filter::Filter;
use crate::order::Order;
use crate::seen::{Key, Seen};
use crate::watched::Watched;

/// All connections of the namespaces that are read.
#[derive(Clone, Debug, Default)]
pub struct Board {
    namespaces: Vec<String>,
    watched: BTreeMap<Key, Watched>,
    /// Ports that somebody listens on, by namespace.
    listening: BTreeSet<(u16, u16)>,
    processes: BTreeMap<u32, Process>,
    gone: Vec<u64>,
    generation: u64,
    last_id: u64,
    at: Time,
}

// === impl Board ===

impl Board {
    /// An empty board for these namespaces.
    #[must_use]
    pub fn new(namespaces: Vec<String>) -> Self {
        Self {
            namespaces,
            ..Self::default()
        }
    }

    /// Takes a reading in: everything that the kernel lists `at` this moment. Listeners among it tell who
    /// opened which connection; they are connections of the board themselves only with `listeners`.
    pub fn take(&mut self, at: Time, seen: Vec<Seen>, listeners: bool) {
        self.generation += 1;
        self.at = at;
        self.listening = seen
            .iter()
            .filter(|one| one.state == State::Listening)
            .map(|one| (one.key.namespace, one.local.port()))
            .collect();
        for one in seen {
            if one.state != State::Listening || listeners {
                self.take_one(one, at);
            }
        }
        let (generation, gone) = (self.generation, &mut self.gone);
        gone.clear();
        self.watched.retain(|_, watched| {
            let is_there = watched.generation == generation;
            if !is_there {
                gone.push(watched.id);
            }
            is_there
        });
        gone.sort_unstable();
    }

    fn take_one(&mut self, seen: Seen, at: Time) {
        let key = seen.key;
        if let Some(watched) = self.watched.get_mut(&key) {
            watched.take(seen, at);
        } else {
            self.last_id += 1;
            let is_served = match seen.relayed.as_ref() {
                Some(told) => told.of.side == RelaySide::Client,
                None => self.listening.contains(&(key.namespace, seen.local.port())),
            };
            let role = if is_served {
                Role::Server
            } else {
                Role::Client
            };
            let is_first = self.generation == 1;
            let watched = Watched::new(self.last_id, seen, role, at, is_first);
            self.watched.insert(key, watched);
        }
        if let Some(watched) = self.watched.get_mut(&key) {
            watched.generation = self.generation;
        }
    }

    /// Tells which process holds which socket, by the socket's file. What is not told again is forgotten.
    pub fn set_processes(&mut self, processes: BTreeMap<u32, Process>) {
        self.processes = processes;
    }

    /// Sockets that are held by somebody of whom nothing is known.
    pub fn has_unknown_processes(&self) -> bool {
        self.watched
            .values()
            .any(|watched| watched.seen.inode != 0 && self.process(watched).is_none())
    }

    /// Whose socket it is.
    #[must_use]
    pub fn process(&self, watched: &Watched) -> Option<&Process> {
        self.processes.get(&watched.seen.inode)
    }

    /// The connection with this number.
    #[must_use]
    pub fn find(&self, id: u64) -> Option<&Watched> {
        self.watched.values().find(|watched| watched.id == id)
    }

    /// The first `count` connections that pass `filter`, in this order, and how many pass in all.
    #[must_use]
    pub fn top(&self, filter: &Filter, order: Order, count: usize) -> (Vec<&Watched>, usize) {
        let mut passing: Vec<_> = self
            .passing(filter)
            .map(|watched| (order.key(watched, self.process(watched)), watched))
            .collect();
        let all = passing.len();
        if count < all {
            passing.select_nth_unstable_by(count, |(a, _), (b, _)| a.cmp(b));
            passing.truncate(count);
        }
        passing.sort_by(|(a, _), (b, _)| a.cmp(b));
        (
            passing.into_iter().map(|(_, watched)| watched).collect(),
            all,
        )
    }

    /// All connections that pass `filter`, together.
    #[must_use]
    pub fn summary(&self, filter: &Filter) -> Summary {
        let mut summary = Summary::default();
        for watched in self.passing(filter) {
            summary.connections += 1;
            *summary.states.entry(watched.seen.state).or_insert(0) += 1;
            if watched.is_sending() {
                *summary.limits.entry(watched.limit).or_insert(0) += 1;
            }
            summary.out_bps += watched.out_bps;
            summary.in_bps += watched.in_bps;
            summary.retransmissions_per_s += watched.retransmissions_per_s;
        }
        summary
    }

    /// Connections in `CLOSE_WAIT` that pass `filter`, by process, largest pile first.
    #[must_use]
    pub fn close_wait(&self, filter: &Filter) -> Vec<Pile> {
        let mut piles: BTreeMap<Option<&Process>, Pile> = BTreeMap::new();
        for watched in self.passing(filter) {
            if watched.seen.state != State::CloseWait {
                continue;
            }
            let process = self.process(watched);
            let pile = piles.entry(process).or_insert_with(|| Pile {
                process: process.cloned(),
                ..Pile::default()
            });
            pile.connections += 1;
            pile.oldest_s = pile.oldest_s.max(watched.time_in_state().as_secs_f64());
        }
        let mut piles: Vec<_> = piles.into_values().collect();
        piles.sort_by_key(|pile| std::cmp::Reverse(pile.connections));
        piles
    }

    /// The reading as a line of a recording; `whole` lists every connection, else those that have changed.
    /// `cost_s` and `relays` are the caller's to fill.
    #[must_use]
    pub fn reading(&self, filter: &Filter, order: Order, whole: bool) -> Reading {
        // Only what is listed is sorted: on a host with thousands of idle connections that is little.
        let mut listed: Vec<_> = self
            .passing(filter)
            .filter(|watched| whole || watched.changed)
            .map(|watched| (order.key(watched, self.process(watched)), watched))
            .collect();
        listed.sort_by(|(a, _), (b, _)| a.cmp(b));
        Reading {
            at_s: self.at.as_secs_f64(),
            summary: self.summary(filter),
            close_wait: self.close_wait(filter),
            connections: listed
                .into_iter()
                .map(|(_, watched)| self.row(watched))
                .collect(),
            gone: self.gone.clone(),
            ..Reading::default()
        }
    }

    /// A connection as documents have it.
    #[must_use]
    pub fn row(&self, watched: &Watched) -> Connection {
        if let Some(told) = watched
            .seen
            .relayed
            .as_ref()
            .filter(|told| told.of.elsewhere)
        {
            return watched.row(None, Some(&format!("relay {}", told.of.admin)));
        }
        let several = self.namespaces.len() > 1;
        let namespace = self
            .namespaces
            .get(usize::from(watched.seen.key.namespace))
            .filter(|_| several);
        watched.row(self.process(watched), namespace.map(String::as_str))
    }

    /// The namespaces' names.
    #[must_use]
    pub fn namespaces(&self) -> &[String] {
        &self.namespaces
    }

    fn passing<'a>(&'a self, filter: &Filter) -> impl Iterator<Item = &'a Watched> {
        self.watched
            .values()
            .filter(move |watched| filter.matches(watched, self.process(watched)))
    }
}
