//! The path's rate, from the spread of acknowledgments.
//!
//! Packets that leave back to back arrive spread at the rate of the slowest hop, and so do their ACKs
//! (Jacobson, SIGCOMM 1988; packet trains: Dovrolis et al., INFOCOM 2001). A *train* is a run of ACKs
//! between which the path was never idle: each next byte had been sent before the previous ACK's data
//! left the bottleneck, which is the case when it was sent at least one unqueued round trip ahead of that
//! ACK. A transfer that never fills the link still shows it this way, since each flight of slow start is
//! sent at twice the rate at which the one before came through.

use core::time::Duration;
use std::fmt;

use units::{Bytes, PacketOverhead, Rate, Time};

use crate::replay::{Ack, Replay};

/// A run of ACKs for data that kept the path busy.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Train {
    /// Its first ACK.
    pub from: Time,
    /// Its last.
    pub to: Time,
    /// IP bytes acknowledged after the first ACK, headers of full packets included.
    pub ip_bytes: Bytes,
    /// Full packets among them.
    pub packets: u64,
    /// The rate.
    pub rate: Rate,
}

/// Why there is no rate.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum NoRate {
    /// No ACKs of this direction's data, or none alone.
    NoAcks,
    /// The capture was not made at the sender, and no echoed timestamp shows a queue.
    NotAtSender,
    /// No train is long enough; the longest had this many full packets.
    TooShort(u64),
}

impl fmt::Display for NoRate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoAcks => f.write_str("no bare ACKs of this direction's data are in the capture"),
            Self::NotAtSender => f.write_str(
                "the capture was not made at this direction's sender, and no echoed timestamp shows a queue",
            ),
            Self::TooShort(packets) => write!(
                f,
                "the longest train of ACKs covers {packets} full packets; a judgement needs {MIN_PACKETS}"
            ),
        }
    }
}

/// A path's rate in one direction, or why it is not known.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct PathRate {
    /// The estimate.
    pub rate: Result<Rate, NoRate>,
    /// The trains it rests on.
    pub trains: Vec<Train>,
}

/// Fewer packets than this say little: delayed ACKs alone shift both ends by a packet.
const MIN_PACKETS: u64 = 10;
/// How far apart sender and tap see the same moment, at least: timestamps tick by the millisecond.
const SLACK: Duration = Duration::from_millis(3);
/// A train of a few stretched ACKs (GRO) is as rough as its lumps.
const MIN_ACKS: u64 = 4;

/// The estimate over trains, possibly of several connections on one path: their median, weighted by
/// bytes, so that long trains, in which lumps of ACKs even out, outvote short ones. A higher quantile
/// would follow ACK compression, a mean would follow one cross-traffic burst.
#[must_use]
pub fn combine(trains: &[Train]) -> Option<Rate> {
    let mut sorted: Vec<&Train> = trains.iter().collect();
    sorted.sort_by_key(|train| (train.rate.bits_per_s(), train.from));
    let total: u128 = sorted
        .iter()
        .map(|train| u128::from(train.ip_bytes.get()))
        .sum();
    let mut below = 0_u128;
    for train in sorted {
        below += u128::from(train.ip_bytes.get());
        if below * 2 >= total {
            return Some(train.rate);
        }
    }
    None
}

pub(crate) fn estimate(
    replay: &Replay,
    base_rtt: Duration,
    feedback_delay: Duration,
    segment: PacketOverhead,
) -> PathRate {
    let none = |why| PathRate {
        rate: Err(why),
        trains: Vec::new(),
    };
    if replay.sends.is_empty() || !replay.acks.iter().any(|ack| ack.bare && ack.rtt.is_some()) {
        return none(NoRate::NoAcks);
    }
    // A delay of the receiver that data meets and SYNs do not is no queue.
    let base = replay
        .acks
        .iter()
        .filter_map(|ack| ack.rtt)
        .min()
        .map_or(base_rtt, |least| least.max(base_rtt));
    // Away from the sender, when it sent is known to a tick of the timestamps and the path's jitter.
    let slack = if feedback_delay.is_zero() {
        Duration::ZERO
    } else {
        (base / 16).max(SLACK)
    };
    let mut trains = Vec::new();
    let mut longest = 0;
    let mut run: Vec<&Ack> = Vec::new();
    for ack in &replay.acks {
        if ack.acked == ack.acked_before && ack.bare && !ack.holds_more {
            continue; // A window update says nothing about arrivals.
        }
        let clean = ack.bare && ack.rtt.is_some();
        let busy = run.last().is_some_and(|previous| {
            first_sent(replay, previous.acked)
                .is_some_and(|sent| sent + base + slack <= previous.at)
        });
        if !(clean && busy) {
            finish(&mut run, segment, &mut trains, &mut longest);
        }
        if clean {
            run.push(ack);
        }
    }
    finish(&mut run, segment, &mut trains, &mut longest);
    let why = if feedback_delay.is_zero() || longest > 0 {
        NoRate::TooShort(longest)
    } else {
        NoRate::NotAtSender
    };
    PathRate {
        rate: combine(&trains).ok_or(why),
        trains,
    }
}

/// When the byte at `position` was sent first.
fn first_sent(replay: &Replay, position: i64) -> Option<Time> {
    let index = replay.sends.partition_point(|send| send.to <= position);
    replay.sends.get(index).map(|send| send.at)
}

fn finish(
    run: &mut Vec<&Ack>,
    segment: PacketOverhead,
    trains: &mut Vec<Train>,
    longest: &mut u64,
) {
    for train in without_waits(run) {
        let [first, .., last] = train else { continue };
        let payload = Bytes::new(first.acked.abs_diff(last.acked));
        let packets = payload.get() / u64::from(segment.payload.max(1));
        *longest = packets.max(*longest);
        let ip_bytes = segment.ip_bytes(payload);
        let enough =
            packets >= MIN_PACKETS && u64::try_from(train.len()).is_ok_and(|acks| acks > MIN_ACKS);
        let rate = ip_bytes.checked_per(last.passed_at.since(first.passed_at));
        if enough && let Some(rate) = rate {
            trains.push(Train {
                from: first.passed_at,
                to: last.passed_at,
                ip_bytes,
                packets,
                rate,
            });
        }
    }
    run.clear();
}

/// The parts of a run between ACKs which waited for a second segment (RFC 1122 §4.2.3.2): the gap ahead of
/// them belongs to a timer of the receiver, or to the sender's next flight, and not to the path. ACKs that
/// come in lumps are late in proportion to what they acknowledge.
fn without_waits<'a, 'b>(run: &'b [&'a Ack]) -> Vec<&'b [&'a Ack]> {
    const FACTOR: u128 = 4;
    let [first, .., last] = run else {
        return Vec::new();
    };
    let took = last.passed_at.since(first.passed_at).as_nanos();
    let bytes = u128::from(first.acked.abs_diff(last.acked)).max(1);
    let mut parts = Vec::new();
    let mut from = 0;
    for (index, pair) in run.windows(2).enumerate() {
        let [before, after] = pair else { continue };
        let gap = after.passed_at.since(before.passed_at).as_nanos();
        let own = u128::from(before.acked.abs_diff(after.acked));
        if gap * bytes > own * took * FACTOR || own == 0 {
            parts.extend(run.get(from..=index));
            from = index + 1;
        }
    }
    if from == 0 {
        return vec![run];
    }
    parts.extend(run.get(from..));
    // What is left may have a pace of its own.
    parts.into_iter().flat_map(without_waits).collect()
}
