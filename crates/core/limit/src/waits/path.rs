//! Whether the path, or the sender's own socket buffer, was full.

use core::time::Duration;

use units::Time;

use super::Judge;
use crate::replay::Ack;

impl Judge<'_> {
    /// As much flies as the path carries, and round trips are longer for it; or as much arrives per round
    /// trip as the path carries.
    pub(super) fn path_is_full(&self, ack: &Ack) -> bool {
        if self.delivers_all(ack.at) {
            return true;
        }
        match self.path_room {
            Some(room) => {
                let Some(rtt) = ack.rtt.or_else(|| self.replay.rtt_before(ack.at)) else {
                    return false;
                };
                let queue = rtt.saturating_sub(self.rtt);
                let queued = queue > self.rtt / 50 && queue > Duration::from_micros(500);
                queued && ack.flight_before >= room
            }
            // Without a rate, only a queue as long as half the path says so by itself.
            None => self
                .standing_queue(ack)
                .is_some_and(|queue| queue > self.rtt / 2 && queue > Duration::from_millis(5)),
        }
    }

    /// What every round trip of the last one took beyond the path's own; one alone may be a delayed ACK.
    fn standing_queue(&self, ack: &Ack) -> Option<Duration> {
        const SAMPLES: usize = 3;
        let since = ack.at.saturating_sub(self.rtt);
        let first = self.replay.acks.partition_point(|other| other.at < since);
        let recent = self.replay.acks.iter().skip(first);
        let samples: Vec<Duration> = recent
            .take_while(|other| other.at <= ack.at)
            .filter_map(|other| other.rtt)
            .collect();
        let least = samples.iter().min().filter(|_| samples.len() >= SAMPLES)?;
        Some(least.saturating_sub(self.rtt))
    }

    /// As much arrived over the last round trip as the path carries.
    pub(super) fn delivers_all(&self, at: Time) -> bool {
        let acked = |at| self.replay.acked_to(at).unwrap_or(0);
        let arrived = acked(at) - acked(at.saturating_sub(self.rtt));
        // Delayed ACKs leave a segment or two to the next round trip.
        self.path_room
            .is_some_and(|room| room >= 8 * self.mss && (arrived + self.mss) * 20 >= room * 19)
    }

    /// The flight fell to two thirds of what it was while ACKs let nothing go, and then rises to the same
    /// height at one stroke: a full socket buffer wakes its program when a third of it is free (Linux
    /// `sk_stream_is_writeable`).
    pub(super) fn refills_the_buffer(&self, ack: &Ack, index: usize) -> bool {
        let since = ack.at.saturating_sub(self.rtt + self.rtt / 8);
        let first = self.replay.acks.partition_point(|other| other.at < since);
        let before = self.replay.acks.iter().skip(first);
        let recent = before
            .take_while(|other| other.at <= ack.at)
            .map(|other| other.flight_before)
            .max()
            .unwrap_or(0);
        if recent < 8 * self.mss || ack.flight_before * 5 > recent * 4 {
            return false;
        }
        // What this ACK let go, up to the next one.
        let counts = &self.replay.acks_before_send;
        let Some(count) = counts.get(index + 1) else {
            return false;
        };
        let released = counts
            .iter()
            .skip(index + 1)
            .take_while(|other| *other == count)
            .count();
        let sent_to = self
            .replay
            .sends
            .get(index + released)
            .map_or(0, |send| send.to);
        let flight = sent_to - ack.acked;
        (flight - recent).abs() * 10 <= recent
    }
}
