//! What holds each stream and each connection back, and the guard over the whole trunk.

use alloc::vec::Vec;

use units::Time;

use super::Trunk;
use crate::connection::Connection;
use crate::guard::{Change, Sight};
use crate::holding::Holding;
use crate::stream::Stream;
use crate::{ConnectionId, Event, Holds, Observation, StreamId};

/// What its socket holds unsent waits for the peer's window or for the path; where nothing waits, all is on its way.
fn holding_of(link: &Connection) -> Holding {
    /// No room for a full segment of any common path is none.
    const SEGMENT: u64 = 1_460;
    if link.is_stalled() {
        return Holding::Outage;
    }
    let Some(seen) = link.seen else {
        return Holding::Application;
    };
    if seen.unsent.get() == 0 {
        return if seen.unacknowledged.get() == 0 {
            Holding::Application
        } else {
            Holding::Propagation
        };
    }
    let wanted = seen.unacknowledged.get().saturating_add(SEGMENT);
    if seen.peer_window.is_some_and(|window| window.get() < wanted) {
        return Holding::Receiver;
    }
    match link.warmth.full() {
        Some(_) => Holding::Path,
        None => Holding::Warming,
    }
}

impl Trunk {
    /// Notes what holds a stream back from now on. `turn` is a connection that is being written to, which stands
    /// beside the others meanwhile.
    pub(super) fn judge(&mut self, stream: StreamId, turn: Option<&Connection>, now: Time) {
        let Some(state) = self.streams.get(&stream) else {
            return;
        };
        let holding = self.holding(state, turn);
        if let Some(state) = self.streams.get_mut(&stream) {
            state.ledger.turn(holding, now);
        }
    }

    /// Connections have come, gone or stalled: that may hold every stream, or none any more.
    pub(super) fn judge_all(&mut self, now: Time) {
        let streams = self.streams.keys().copied().collect::<Vec<_>>();
        for stream in streams {
            self.judge(stream, None, now);
        }
        for link in self.connections.values_mut() {
            let holding = holding_of(link);
            link.ledger.turn(holding, now);
        }
    }

    /// Notes what holds a connection back from now on, by what the driver has seen of its socket.
    pub(super) fn judge_connection(&mut self, connection: ConnectionId, now: Time) {
        if let Some(link) = self.connections.get_mut(&connection) {
            let holding = holding_of(link);
            link.ledger.turn(holding, now);
        }
    }

    /// What has held a connection's sending back since it came up; `None` if it is gone.
    pub fn connection_held_by(&self, connection: ConnectionId, now: Time) -> Option<Holds> {
        let link = self.connections.get(&connection)?;
        Some(link.ledger.until(now))
    }

    fn holding(&self, state: &Stream, turn: Option<&Connection>) -> Holding {
        let outgoing = &state.outgoing;
        if outgoing.held() == 0 {
            return Holding::Application;
        }
        let mut working = self
            .connections
            .values()
            .chain(turn)
            .filter(|link| link.takes_frames())
            .peekable();
        if working.peek().is_none() {
            return Holding::Outage;
        }
        if outgoing.queued() == 0 {
            return Holding::Propagation;
        }
        if outgoing.credit().min(self.share(outgoing.unconsumed())) == 0 {
            return Holding::Receiver;
        }
        if working.any(|link| link.seen.is_some() && link.warmth.full().is_none()) {
            return Holding::Warming;
        }
        Holding::Path
    }

    /// Shows the guard what the driver saw of a connection's socket.
    pub(super) fn watch(&mut self, connection: ConnectionId, seen: &Observation, now: Time) {
        let Some(link) = self.connections.get(&connection) else {
            return;
        };
        // A start overshoots, and a try of more connections is judged by itself: neither is how the trunk
        // treats others for long.
        let settled = link.warmth.full().is_some() && !self.breadth.is_trying();
        let sight = Sight::of(seen, settled);
        let Some(change) = self.guard.look(connection, &sight, now) else {
            return;
        };
        let why = match change {
            Change::Less(excess) => Some(excess),
            Change::Eager => None,
        };
        let manner = self.guard.manner();
        self.breadth.hold(manner.makes_room(), now);
        self.agree_on_width(now);
        self.events.push_back(Event::Manner { manner, why });
    }
}
