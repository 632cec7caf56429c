//! One direction of a WAN connection in virtual time: a socket's buffer, a link's rate and delay.

use std::collections::VecDeque;
use std::time::Duration;

use bytes::Bytes;
use units::{Bytes as Size, Rate, Time};

/// As a socket with a low `TCP_NOTSENT_LOWAT`: more is asked for only below this.
pub(crate) const LOW_WATER: usize = 32 << 10;
/// What leaves the socket at once: about ten packets.
const SEGMENT: usize = 16 << 10;

pub(crate) struct Pipe {
    pub(crate) rate: Rate,
    pub(crate) delay: Duration,
    queue: VecDeque<Bytes>,
    unsent: usize,
    /// What was sent, with when it arrives.
    wire: VecDeque<(Time, Bytes)>,
    busy_until: Time,
    /// Nothing leaves and nothing arrives before.
    pub(crate) stalled_until: Time,
    /// Bytes that arrived.
    pub(crate) carried: u64,
}

impl Pipe {
    pub(crate) fn new(rate: Rate, delay: Duration) -> Self {
        Self {
            rate,
            delay,
            queue: VecDeque::new(),
            unsent: 0,
            wire: VecDeque::new(),
            busy_until: Time::ZERO,
            stalled_until: Time::ZERO,
            carried: 0,
        }
    }

    pub(crate) fn room(&self) -> usize {
        LOW_WATER.saturating_sub(self.unsent)
    }

    pub(crate) fn write(&mut self, pieces: Vec<Bytes>) {
        self.unsent += pieces.iter().map(Bytes::len).sum::<usize>();
        self.queue.extend(pieces);
    }

    /// Moves what can move by now, and gives what has arrived.
    pub(crate) fn advance(&mut self, now: Time) -> Vec<Bytes> {
        let mut arrived = Vec::new();
        if now < self.stalled_until {
            return arrived;
        }
        while now >= self.busy_until
            && let Some(front) = self.queue.front_mut()
        {
            let piece = front.split_to(front.len().min(SEGMENT));
            if front.is_empty() {
                self.queue.pop_front();
            }
            self.unsent -= piece.len();
            let took = Size::new(piece.len() as u64)
                .checked_div(self.rate)
                .unwrap();
            self.busy_until = self.busy_until.max(now) + took;
            self.wire.push_back((self.busy_until + self.delay, piece));
        }
        while self.wire.front().is_some_and(|(at, _)| *at <= now) {
            let (_, piece) = self.wire.pop_front().unwrap();
            self.carried += piece.len() as u64;
            arrived.push(piece);
        }
        arrived
    }

    /// When something moves next.
    pub(crate) fn next_at(&self) -> Option<Time> {
        let leaves = (!self.queue.is_empty()).then_some(self.busy_until);
        let arrives = self.wire.front().map(|(at, _)| *at);
        Some(
            leaves
                .into_iter()
                .chain(arrives)
                .min()?
                .max(self.stalled_until),
        )
    }
}
