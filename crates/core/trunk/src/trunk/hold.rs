//! What holds each stream back, and the guard over the whole trunk.

use alloc::vec::Vec;

use units::Time;

use super::Trunk;
use crate::connection::Connection;
use crate::guard::{Change, Sight};
use crate::holding::Holding;
use crate::stream::Stream;
use crate::{ConnectionId, Event, Observation, StreamId};

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
