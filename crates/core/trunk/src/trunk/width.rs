//! How many connections there are.

use alloc::vec::Vec;

use units::{Rate, Time};

use super::Trunk;
use crate::breadth::Reading;
use crate::config::MAX_WIDTH;
use crate::connection::{Health, Stage};
use crate::frame::Message;
use crate::{Closing, ConnectionId, Event, Role, Width};

impl Trunk {
    fn reading(&self) -> Reading {
        let in_use = self
            .connections
            .values()
            .filter(|link| link.stage.takes_frames())
            .count();
        Reading {
            delivered: self.sending.acknowledged,
            connections: u32::try_from(in_use).unwrap_or(u32::MAX),
            round_trip: self.round_trip(),
            most: self.config.padding.ready_for.map(Rate::bytes_per_s),
            settled: self
                .connections
                .values()
                .all(|link| link.seen.is_none() || link.warmth.full().is_some()),
        }
    }

    /// A connection took less than there was.
    pub(super) fn note_more(&mut self, now: Time) {
        let reading = self.reading();
        self.breadth.on_more(&reading, now);
    }

    /// There was nothing more to send.
    pub(super) fn note_idle(&mut self, now: Time) {
        self.breadth.on_idle();
        self.agree_on_width(now);
    }

    pub(super) fn tick_width(&mut self, now: Time) {
        let reading = self.reading();
        self.breadth.tick(&reading, now);
        self.agree_on_width(now);
    }

    /// The acceptor would like this many connections.
    pub(super) fn handle_width(&mut self, connections: u32, now: Time) {
        if self.role == Role::Initiator {
            self.peer_wish = connections;
            self.agree_on_width(now);
        }
    }

    /// The initiator has as many connections as the end that wants more; the acceptor tells its wish.
    pub(super) fn agree_on_width(&mut self, now: Time) {
        let Width { min, max } = self.config.width;
        let wanted = self.breadth.wish().max(self.peer_wish).clamp(min, max);
        let before = core::mem::replace(&mut self.wanted, wanted);
        match self.role {
            Role::Acceptor if wanted != before => {
                self.sending.control.push_back(Message::Width {
                    connections: wanted,
                });
            }
            Role::Initiator if wanted > before => self.ask_for_connections(),
            Role::Initiator if wanted < before => self.retire(now),
            Role::Initiator | Role::Acceptor => {}
        }
    }

    /// Asks for the connections that are wanted, in addition to those that do not carry anything.
    pub(super) fn ask_for_connections(&mut self) {
        if self.role == Role::Initiator && self.ended.is_none() {
            let idle = self
                .connections
                .values()
                .filter(|link| link.health == Health::Replaced || !link.stage.takes_frames());
            let idle = u32::try_from(idle.count()).unwrap_or(u32::MAX);
            let count = self.wanted.saturating_add(idle).min(MAX_WIDTH);
            self.events.push_back(Event::WantConnections { count });
        }
    }

    /// Gives up what is more than wanted, the youngest first (initiator only). Of those that do not carry
    /// anything now none is counted, and none given up that the peer has not let in yet.
    pub(super) fn retire(&mut self, now: Time) {
        if self.role == Role::Acceptor {
            return;
        }
        let well = self
            .connections
            .iter()
            .filter(|(_, link)| link.takes_frames());
        let ready = well.filter(|(_, link)| link.stage == Stage::Ready);
        let surplus: Vec<ConnectionId> = ready
            .map(|(id, _)| *id)
            .skip(self.wanted as usize)
            .collect();
        for connection in surplus {
            if let Some(link) = self.connections.get_mut(&connection) {
                link.stage = Stage::Retiring;
                link.retire_due = true;
            }
            self.close_if_retired(connection, now);
        }
    }

    /// The peer sends no more reliable frames on a connection, and expects the same.
    pub(super) fn handle_retire(&mut self, connection: ConnectionId, now: Time) {
        if let Some(link) = self.connections.get_mut(&connection) {
            link.peer_retired = true;
            if link.stage.takes_frames() {
                link.stage = Stage::Retiring;
                link.retire_due = true;
            }
        }
        self.close_if_retired(connection, now);
    }

    /// Closes a connection on which both ends have said their last, once all of it is acknowledged (the
    /// initiator's to do: it alone opens and closes without a reason).
    pub(super) fn close_if_retired(&mut self, connection: ConnectionId, now: Time) {
        let done = self.connections.get(&connection).is_some_and(|link| {
            link.stage == Stage::Retiring
                && link.peer_retired
                && !link.retire_due
                && link.fifo.is_empty()
                && link.acks.pending == 0
        });
        if done && self.role == Role::Initiator {
            self.close_connection(connection, Closing::Surplus, now);
        }
    }
}
