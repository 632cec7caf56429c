//! Keeping idle connections hot.

use core::time::Duration;

use bytes::Bytes;
use units::{Bytes as Size, Rate};

use super::Trunk;
use super::transmit::Turn;
use crate::connection::Connection;
use crate::frame::Frame;
use crate::padding::PIECE;
use crate::{ConnectionId, Event, Heat};

/// What a stream has on its way while nothing is lost, twice over: a lost segment holds what came after it for one
/// round trip, one that is lost again for another.
const ROUND_TRIPS_HELD: u64 = 4;
/// So many readers that take nothing fill the memory with their first windows.
const FIRST_WINDOWS_HELD: u64 = 8;

static ZEROES: [u8; PIECE] = [0; PIECE];

impl Trunk {
    /// Fills a connection that has nothing else to carry with padding, while its windows do not hold the
    /// path and the allowance lasts.
    pub(super) fn write_padding(&mut self, turn: &mut Turn<'_>, room: usize) {
        if self.ended.is_some()
            || !self.sending.turns.is_empty()
            || !self.is_cold(turn.link, self.connections.len() + 1)
        {
            return;
        }
        let mut left = self.allowance.left(turn.now);
        while turn.len() < room && left >= PIECE as u64 {
            let payload = [Bytes::from_static(&ZEROES)];
            let header = self.encode(&Frame::Padding, &payload);
            let before = turn.len();
            turn.push(header);
            turn.push_all(&payload);
            let spent = (turn.len() - before) as u64;
            turn.link.totals.padding += spent;
            self.allowance.spend(spent);
            left = left.saturating_sub(spent);
        }
    }

    pub(super) fn heat(&self, link: &Connection) -> Heat {
        if link.seen.is_none() {
            Heat::Unknown
        } else if self.is_cold(link, self.connections.len()) {
            Heat::Cold
        } else {
            Heat::Hot
        }
    }

    /// Tells of a connection that has become hot, once.
    pub(super) fn tell_hot(&mut self, connection: ConnectionId) {
        let Some(link) = self.connections.get(&connection) else {
            return;
        };
        if link.hot_told || self.is_cold(link, self.connections.len()) {
            return;
        }
        if let Some(link) = self.connections.get_mut(&connection) {
            link.hot_told = true;
            self.events.push_back(Event::ConnectionHot { connection });
        }
    }

    /// Whether the connection's windows, as the driver saw them, hold less than what the path carries in a
    /// round trip, of which each of `share` connections carries its part. Without a sight of them it is left alone.
    pub(super) fn is_cold(&self, link: &Connection, share: usize) -> bool {
        let Some(seen) = link.seen.filter(|_| link.takes_frames()) else {
            return false;
        };
        let (Some(round_trip), Some(window)) = (seen.round_trip, seen.congestion_window) else {
            return false;
        };
        match self.carried(link, share, round_trip) {
            Some(bdp) => {
                // A window that holds the path does not fill it where the controller paces below: BBR's holds twice what
                // it has seen.
                let pace = seen
                    .pacing_rate
                    .and_then(|rate| rate.checked_mul(round_trip));
                window < bdp
                    || seen.peer_window.is_some_and(|window| window < bdp)
                    || (!link.hot_told && pace.is_some_and(|pace| pace.get() < bdp.get() / 10 * 9))
            }
            // How fast it can get is to be found out.
            None => true,
        }
    }

    /// What the path is known to carry in a round trip on a connection that has one of `share` parts of it.
    fn carried(&self, link: &Connection, share: usize, round_trip: Duration) -> Option<Size> {
        let share = share.max(1) as u64;
        let known = self
            .config
            .padding
            .ready_for
            .map(|rate| Rate::bit_per_s(rate.bits_per_s() / share))
            .or_else(|| {
                link.warmth
                    .full()
                    .map(|rate| Rate::bit_per_s(rate.saturating_mul(8)))
            });
        known?.checked_mul(round_trip)
    }

    /// Lets new streams begin with what the path carries. A path is taken to carry as much towards this end as
    /// away from it; where that is too little, credit grows as always.
    pub(super) fn fit_first_window(&mut self) {
        let share = self.connections.len();
        let carried: u64 = self
            .connections
            .values()
            .filter_map(|link| {
                let round_trip = link.seen?.least_round_trip?;
                self.carried(link, share, round_trip).map(Size::get)
            })
            .fold(0, u64::saturating_add);
        let most = self.config.memory.receive.get() / FIRST_WINDOWS_HELD;
        let window = carried.saturating_mul(ROUND_TRIPS_HELD).min(most);
        if window / 2 >= self.receiving.first_window {
            self.open_first_window(window);
        }
    }
}
