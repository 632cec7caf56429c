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
    watched: Vec<Watched>,
    /// Where in it a socket stands.
    places: BTreeMap<Key, usize>,
    /// Ports that somebody listens on, by namespace.
    listening: BTreeSet<(u16, u16)>,
    /// By the socket's file: for sockets that come later.
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
        // A kernel lists what is there in the same order again, so the next one is nearly always where the last
        // one was followed before.
        let mut cursor = 0;
        for one in seen {
            if one.state != State::Listening || listeners {
                cursor = self.take_one(one, at, cursor);
            }
        }
        self.forget_gone();
    }

    /// Takes one socket in, which is probably at `cursor`; where the next one probably is.
    fn take_one(&mut self, seen: Seen, at: Time, cursor: usize) -> usize {
        let key = seen.key;
        let place = match self.watched.get(cursor) {
            Some(watched) if watched.seen.key == key => Some(cursor),
            _ => self.places.get(&key).copied(),
        };
        if let Some(place) = place
            && let Some(watched) = self.watched.get_mut(place)
        {
            if watched.seen.inode != seen.inode {
                watched.process = self.processes.get(&seen.inode).cloned();
            }
            watched.take(seen, at);
            watched.generation = self.generation;
            return place + 1;
        }
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
        let process = self.processes.get(&seen.inode).cloned();
        let mut watched = Watched::new(self.last_id, seen, role, at, is_first);
        watched.process = process;
        watched.generation = self.generation;
        self.places.insert(key, self.watched.len());
        self.watched.push(watched);
        cursor
    }

    /// Drops what the newest reading has not listed.
    fn forget_gone(&mut self) {
        let (generation, gone) = (self.generation, &mut self.gone);
        gone.clear();
        self.watched.retain(|watched| {
            let is_there = watched.generation == generation;
            if !is_there {
                gone.push(watched.id);
            }
            is_there
        });
        gone.sort_unstable();
        if !self.gone.is_empty() {
            let keys = self.watched.iter().map(|watched| watched.seen.key);
            self.places = keys.zip(0..).collect();
        }
    }

    /// Tells which process holds which socket, by the socket's file. What is not told again is forgotten.
    pub fn set_processes(&mut self, processes: BTreeMap<u32, Process>) {
        for watched in &mut self.watched {
            watched.process = processes.get(&watched.seen.inode).cloned();
        }
        self.processes = processes;
    }

    /// Sockets that are held by somebody of whom nothing is known.
    pub fn has_unknown_processes(&self) -> bool {
        self.watched
            .iter()
            .any(|watched| watched.seen.inode != 0 && watched.process.is_none())
    }

    /// The connection with this number.
    #[must_use]
    pub fn find(&self, id: u64) -> Option<&Watched> {
        self.watched.iter().find(|watched| watched.id == id)
    }

    /// The first `count` connections that pass `filter`, in this order, and how many pass in all.
    #[must_use]
    pub fn top(&self, filter: &Filter, order: Order, count: usize) -> (Vec<&Watched>, usize) {
        let mut passing: Vec<_> = self
            .passing(filter)
            .map(|watched| (order.key(watched), watched))
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
            add(&mut summary, watched);
        }
        summary
    }

    /// Connections in `CLOSE_WAIT` that pass `filter`, by process, largest pile first.
    #[must_use]
    pub fn close_wait(&self, filter: &Filter) -> Vec<Pile> {
        let mut piles = Piles::default();
        for watched in self.passing(filter) {
            piles.add(watched);
        }
        piles.by_size()
    }

    /// The reading as a line of a recording; `whole` lists every connection, else those that have changed.
    /// `cost_s` and `relays` are the caller's to fill.
    #[must_use]
    pub fn reading(&self, filter: &Filter, order: Order, whole: bool) -> Reading {
        let (mut summary, mut piles) = (Summary::default(), Piles::default());
        // Only what is listed is sorted: on a host with thousands of idle connections that is little.
        let mut listed = Vec::new();
        for watched in self.passing(filter) {
            add(&mut summary, watched);
            piles.add(watched);
            if whole || watched.changed {
                listed.push((order.key(watched), watched));
            }
        }
        listed.sort_by(|(a, _), (b, _)| a.cmp(b));
        Reading {
            at_s: self.at.as_secs_f64(),
            summary,
            close_wait: piles.by_size(),
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
            return watched.row(Some(&format!("relay {}", told.of.admin)));
        }
        let several = self.namespaces.len() > 1;
        let namespace = self
            .namespaces
            .get(usize::from(watched.seen.key.namespace))
            .filter(|_| several);
        watched.row(namespace.map(String::as_str))
    }

    /// The namespaces' names.
    #[must_use]
    pub fn namespaces(&self) -> &[String] {
        &self.namespaces
    }

    fn passing<'a>(&'a self, filter: &Filter) -> impl Iterator<Item = &'a Watched> {
        self.watched
            .iter()
            .filter(move |watched| filter.matches(watched))
    }
}

fn add(summary: &mut Summary, watched: &Watched) {
    summary.connections += 1;
    *summary.states.entry(watched.seen.state).or_insert(0) += 1;
    if watched.is_sending() {
        *summary.limits.entry(watched.limit).or_insert(0) += 1;
    }
    summary.out_bps += watched.out_bps;
    summary.in_bps += watched.in_bps;
    summary.retransmissions_per_s += watched.retransmissions_per_s;
}

/// Connections in `CLOSE_WAIT`, by process.
#[derive(Debug, Default)]
struct Piles<'a>(BTreeMap<Option<&'a Process>, Pile>);

// === impl Piles ===

impl<'a> Piles<'a> {
    fn add(&mut self, watched: &'a Watched) {
        if watched.seen.state != State::CloseWait {
            return;
        }
        let process = watched.process.as_ref();
        let pile = self.0.entry(process).or_insert_with(|| Pile {
            process: process.cloned(),
            ..Pile::default()
        });
        pile.connections += 1;
        pile.oldest_s = pile.oldest_s.max(watched.time_in_state().as_secs_f64());
    }

    /// Largest first.
    fn by_size(self) -> Vec<Pile> {
        let mut piles: Vec<_> = self.0.into_values().collect();
        piles.sort_by_key(|pile| std::cmp::Reverse(pile.connections));
        piles
    }
}
