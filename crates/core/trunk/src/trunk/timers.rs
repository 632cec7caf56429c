//! What time brings.

use alloc::vec::Vec;
use core::time::Duration;

use units::Time;

use super::Trunk;
use crate::connection::{Connection, Health};
use crate::{Closing, Config, ConnectionId};

/// How long an acknowledgement may wait for company. It holds back only what the sender keeps, not the
/// stream, so a few milliseconds cost nothing but its memory.
pub(super) const ACK_DELAY: Duration = Duration::from_millis(5);

/// A stall of this length is none of congestion's.
const REPLACE_AFTER: Duration = Duration::from_secs(1);

impl Trunk {
    /// When [`Self::tick`] is to be called, if nothing else happens before; it may be past.
    pub fn deadline(&self) -> Option<Time> {
        if self.ended.is_some() {
            return None;
        }
        let outage = self.outage_at.map(|since| since + self.config.outage);
        let streams = !self.streams.is_empty() || self.instance.is_some();
        self.connections
            .values()
            .flat_map(|link| deadlines(link, &self.config))
            .chain([outage.filter(|_| streams), self.breadth.deadline()])
            .flatten()
            .min()
    }

    /// Does what is due by now. Offer the connections to [`Self::transmit`] afterwards.
    pub fn tick(&mut self, now: Time) {
        if self.ended.is_some() {
            return;
        }
        let connections: Vec<ConnectionId> = self.connections.keys().copied().collect();
        for connection in connections {
            self.tick_connection(connection, now);
        }
        self.tick_width(now);
        if self
            .outage_at
            .is_some_and(|since| now >= since + self.config.outage)
        {
            if self.streams.is_empty() && self.instance.is_none() {
                self.outage_at = Some(now);
            } else {
                self.give_up_outage(now);
            }
        }
    }

    fn tick_connection(&mut self, connection: ConnectionId, now: Time) {
        let Some(link) = self.connections.get_mut(&connection) else {
            return;
        };
        if link.acks.due_at.is_some_and(|at| at <= now) {
            link.acks.due = true;
            link.acks.due_at = None;
        }
        if ping_at(link, &self.config).is_some_and(|at| at <= now) {
            link.pings.asked_at = Some(now);
            link.pings.due = true;
        }
        if dead_at(link, &self.config).is_some_and(|at| at <= now) {
            self.close_connection(connection, Closing::Silent, now);
            return;
        }
        if replace_at(link).is_some_and(|at| at <= now) {
            link.health = Health::Replaced;
            self.ask_for_connections();
            return;
        }
        if stall_at(link, &self.config).is_some_and(|at| at <= now) {
            link.health = Health::Stalled { since: now };
            link.pings.asked_at.get_or_insert(now);
            link.pings.due = true;
            if let Some(link) = self.connections.remove(&connection) {
                self.send_again(connection, &link);
                self.connections.insert(connection, link);
            }
            self.judge_all(now);
        }
    }
}

fn deadlines(link: &Connection, config: &Config) -> [Option<Time>; 5] {
    [
        replace_at(link),
        link.acks.due_at,
        ping_at(link, config),
        dead_at(link, config),
        stall_at(link, config),
    ]
}

/// When another connection is asked for in place of one that is stalled: the path may be well, and only
/// this connection forgotten by something on it.
fn replace_at(link: &Connection) -> Option<Time> {
    match link.health {
        Health::Stalled { since } => Some(since + REPLACE_AFTER),
        Health::Well | Health::Replaced => None,
    }
}

/// When a silent connection is asked whether it lives.
fn ping_at(link: &Connection, config: &Config) -> Option<Time> {
    link.pings
        .asked_at
        .is_none()
        .then(|| link.heard_at + config.keep_alive)
}

/// When a connection that was asked is given up.
fn dead_at(link: &Connection, config: &Config) -> Option<Time> {
    link.pings
        .asked_at
        .map(|asked_at| asked_at + config.dead_after)
}

/// When frames without an acknowledgement go elsewhere.
fn stall_at(link: &Connection, config: &Config) -> Option<Time> {
    (!link.is_stalled() && !link.fifo.is_empty())
        .then(|| link.progress_at + link.pace.stall_after(config.least_stall))
}
