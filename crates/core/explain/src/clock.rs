//! Whether a capture's clock tells one moment from the next.

use core::time::Duration;

use connections::{Connection, Mark, Role};

use crate::text::{count, duration};

/// Why times of a connection are rough.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Coarse {
    /// All times are whole ticks apart.
    Ticks(Duration),
    /// So many of so many packets bear the time of the one before them.
    Together(usize, usize),
}

/// Fewer may stand on whole ticks, or together, by chance.
const LEAST: usize = 20;
/// A clock that ticks this slowly hides what hosts and short paths take.
const TICK: Duration = Duration::from_millis(1);

/// How coarse the clock is, and a packet that shows it.
pub(crate) fn coarse(connection: &Connection) -> Option<(Coarse, Mark)> {
    let mut packets = connection
        .packets
        .iter()
        .filter(|packet| packet.role != Role::Copy)
        .map(connections::Packet::mark);
    let mut before = packets.next()?;
    let (mut all, mut together, mut tick) = (1, 0, 0_u128);
    let mut shown: Option<Mark> = None;
    for mark in packets {
        let gap = mark.at.since(before.at).as_nanos();
        all += 1;
        if gap == 0 {
            together += 1;
            shown.get_or_insert(mark);
        }
        tick = divisor(tick, gap);
        before = mark;
    }
    let shown = shown.unwrap_or(before);
    let ticks = Duration::from_nanos(u64::try_from(tick).unwrap_or(u64::MAX));
    if all < LEAST || tick == 0 {
        None
    } else if ticks >= TICK {
        Some((Coarse::Ticks(ticks), shown))
    } else if together * 8 >= all * 7 {
        // Packets of a fast link may share a microsecond, but hardly ever eight of them.
        Some((Coarse::Together(together, all), shown))
    } else {
        None
    }
}

/// The greatest common divisor.
const fn divisor(mut one: u128, mut other: u128) -> u128 {
    while other != 0 {
        (one, other) = (other, one % other);
    }
    one
}

impl Coarse {
    /// As a sentence without its stop.
    pub(crate) fn says(self) -> String {
        match self {
            Self::Ticks(tick) => format!(
                "the capture's clock ticks by {}: what is shorter cannot be told",
                duration(tick)
            ),
            Self::Together(same, of) => format!(
                "{} of {of} bear the time of the one before: the capture's clock is coarse, or packets were \
                 stamped in lumps, and what is short cannot be told",
                count(same, "packet")
            ),
        }
    }
}
