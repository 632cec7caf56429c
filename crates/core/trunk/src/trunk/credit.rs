//! What each end may send, and what is free of what it may hold.

use alloc::vec::Vec;
use core::time::Duration;

use units::Time;

use super::Trunk;
use crate::frame::Message;
use crate::preface::Limits;

impl Trunk {
    /// Tells the peer what a stream's reader has consumed, when it is worth a frame.
    pub(super) fn grant_stream(&mut self, stream: crate::StreamId, now: Time) {
        let round_trip = self.round_trip();
        let most = self.config.memory.receive.get();
        let free = self.receiving.granted - self.receiving.received;
        let Some(state) = self.streams.get_mut(&stream) else {
            return;
        };
        let Some((consumed, limit)) = state.incoming.credit(free, most, round_trip, now) else {
            return;
        };
        // What one stream needed the next will need too, within a quarter of the memory.
        let window = state.incoming.window().min(most / 4);
        if window > self.receiving.first_window {
            self.raise_first_window(window);
        }
        self.sending.control.push_back(Message::StreamCredit {
            stream,
            consumed,
            limit,
        });
    }

    /// From now on a stream may begin with `window` bytes. That holds for those that exist, too: one that
    /// this end has opened may reach the peer behind the frame that says so.
    fn raise_first_window(&mut self, window: u64) {
        self.receiving.first_window = window;
        for state in self.streams.values_mut() {
            state.incoming.raise_limit(window);
        }
    }

    /// The same, told at once: streams that come after a silence have nothing else to hear it from.
    pub(super) fn open_first_window(&mut self, window: u64) {
        self.raise_first_window(window);
        let limit = self.receiving.granted;
        self.sending.control.push_back(Message::TrunkCredit {
            limit,
            stream: window,
        });
    }

    /// Tells the peer what all readers together have consumed, when it is worth a frame: the more often,
    /// the less is free, else many stuck streams would hold the last credit for ever.
    pub(super) fn grant_trunk(&mut self) {
        let memory = self.config.memory.receive.get();
        let receiving = &mut self.receiving;
        let limit = receiving.consumed + memory;
        let gain = limit.saturating_sub(receiving.granted);
        let free = receiving.granted.saturating_sub(receiving.received);
        if gain > 0 && gain >= (memory / 8).min(free / 2) {
            receiving.granted = limit;
            let stream = receiving.first_window;
            self.sending
                .control
                .push_back(Message::TrunkCredit { limit, stream });
        }
    }

    /// What a stream may send now as far as the trunk's credit goes: it may fill as much of the peer's
    /// memory as it leaves free. Many readers that are stuck then make the share of each smaller, and
    /// never zero.
    pub(super) fn share(&self, unconsumed: u64) -> u64 {
        self.sending
            .limits
            .trunk
            .saturating_sub(self.sending.sent)
            .saturating_sub(unconsumed)
    }

    /// The peer allows more. What a new stream may begin with holds for all that exist, too.
    pub(super) fn raise_limits(&mut self, theirs: Limits) {
        let ours = &mut self.sending.limits;
        ours.trunk = ours.trunk.max(theirs.trunk);
        ours.streams = ours.streams.max(theirs.streams);
        if theirs.stream > ours.stream {
            ours.stream = theirs.stream;
            for state in self.streams.values_mut() {
                state.outgoing.raise_credit(0, theirs.stream);
            }
            let streams = self.streams.keys().copied().collect::<Vec<_>>();
            for stream in streams {
                self.schedule(stream);
            }
        }
        self.wake_waiting();
    }

    /// There is credit again: everything that waited for it gets a turn.
    pub(super) fn wake_waiting(&mut self) {
        for stream in core::mem::take(&mut self.sending.waiting) {
            self.schedule(stream);
        }
    }

    /// The least time between a frame and its acknowledgement on the quickest connection.
    pub(super) fn round_trip(&self) -> Option<Duration> {
        self.connections
            .values()
            .filter_map(|link| link.pace.round_trip())
            .min()
    }

    /// Bytes that keep all connections busy for a round trip.
    pub(super) fn bdp(&self) -> Option<u64> {
        self.connections
            .values()
            .filter_map(|link| link.pace.bdp())
            .reduce(u64::saturating_add)
    }
}
