use core::time::Duration;

use connections::{Connection, Role, Side};
use units::Time;

/// How late an ACK at the tap takes effect in the data that passes the tap: the way to the sender and
/// back. At the sender's own tap that is nothing.
///
/// Between tap and sender lies, seen from the receiver, often the bottleneck, whose queue delays the data
/// by many times the path's own round trip. Echoed timestamps show it: data that echoes an ACK's
/// timestamp was sent after that ACK had come (RFC 7323 §4.1).
#[derive(Clone, Debug)]
pub(crate) struct Feedback {
    /// Without queues.
    pub(crate) delay: Duration,
    /// What queued, by the time at which the ACK passed; ascending.
    queued: Vec<(Time, Duration)>,
    reach: Duration,
}

impl Feedback {
    pub(crate) fn of(connection: &Connection, side: Side) -> Self {
        let delay = connection.half_rtt(side).unwrap_or_default();
        match connection.base_rtt() {
            Some(rtt) if delay * 10 > rtt => Self {
                delay,
                queued: queued(connection, side, delay, rtt),
                reach: rtt / REACH,
            },
            Some(_) | None => Self {
                delay: Duration::ZERO,
                queued: Vec::new(),
                reach: Duration::ZERO,
            },
        }
    }

    /// Whether queues between tap and sender can be seen, or there is no such way.
    pub(crate) const fn shows_queues(&self) -> bool {
        self.delay.is_zero() || !self.queued.is_empty()
    }

    /// For an ACK that passed the tap at `at`.
    pub(crate) fn at(&self, at: Time) -> Duration {
        let from = self
            .queued
            .partition_point(|(passed_at, _)| *passed_at < at.saturating_sub(self.reach));
        let near = self.queued.iter().skip(from);
        let least = near
            .take_while(|(passed_at, _)| *passed_at <= at + self.reach)
            .map(|(_, queued)| *queued)
            .min();
        self.delay + least.unwrap_or_default()
    }
}

/// Neighbours within this part of a round trip speak for each other: of them the least is the queue, since
/// a sender may take its time with an answer, but no answer comes too soon.
const REACH: u32 = 16;

fn queued(
    connection: &Connection,
    side: Side,
    delay: Duration,
    rtt: Duration,
) -> Vec<(Time, Duration)> {
    /// Timestamps tick by the millisecond; less than this is no queue.
    const TICKS: Duration = Duration::from_millis(3);
    let full = connection.segment_payload(side);
    let mut queued: Vec<(Time, Duration)> = Vec::new();
    let (mut passed_at, mut busy_since) = (None, connection.first_at);
    for packet in &connection.packets {
        if packet.side != side || packet.role != Role::New {
            continue;
        }
        let before = passed_at.replace(packet.at);
        // What comes after a gap has not waited behind anything; but on a slow link a full segment alone takes
        // a good part of a round trip.
        let gap = if packet.len >= full {
            rtt / 4
        } else {
            rtt / 10
        };
        if before.is_none_or(|before: Time| packet.at.since(before) > gap) {
            busy_since = packet.at;
        }
        let Some(looped) = packet.loop_time() else {
            continue;
        };
        let echoed_at = packet.at.saturating_sub(looped);
        // The first answer to each timestamp; those behind it were sent later.
        if queued.last().is_some_and(|(last, _)| echoed_at <= *last) {
            continue;
        }
        let waited = looped
            .saturating_sub(delay)
            .min(packet.at.since(busy_since));
        let waited = if waited < TICKS.max(rtt / 10) {
            Duration::ZERO
        } else {
            waited
        };
        queued.push((echoed_at, waited));
    }
    queued
}
