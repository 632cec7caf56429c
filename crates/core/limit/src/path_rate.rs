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
    /// The capture was not made at the sender: when it sent is not known well enough.
    NotAtSender,
    /// No train is long enough; the longest had this many full packets.
    TooShort(u64),
}

impl fmt::Display for NoRate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoAcks => f.write_str("no bare ACKs of this direction's data are in the capture"),
            Self::NotAtSender => f.write_str("the capture was not made at this direction's sender"),
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
    if feedback_delay * 10 > base_rtt {
        return none(NoRate::NotAtSender);
    }
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
    let mut trains = Vec::new();
    let mut longest = 0;
    let mut run: Vec<&Ack> = Vec::new();
    for ack in &replay.acks {
        if ack.acked == ack.acked_before && ack.bare && !ack.holds_more {
            continue; // A window update says nothing about arrivals.
        }
        let clean = ack.bare && ack.rtt.is_some();
        let busy = run.last().is_some_and(|previous| {
            first_sent(replay, previous.acked).is_some_and(|sent| sent + base <= previous.at)
        });
        if !(clean && busy) {
            finish(&mut run, segment, &mut trains, &mut longest);
        }
        if clean {
            run.push(ack);
        }
    }
    finish(&mut run, segment, &mut trains, &mut longest);
    PathRate {
        rate: combine(&trains).ok_or(NoRate::TooShort(longest)),
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
    // The last ACK may have waited for a second segment that never came (RFC 1122 §4.2.3.2): its gap
    // then belongs to a timer.
    if let [first, .., before, last] = run.as_slice() {
        let (ahead, gap) = (before.at.since(first.at), last.at.since(before.at));
        let bytes = u128::from(first.acked.abs_diff(before.acked)).max(1);
        let own = u128::from(before.acked.abs_diff(last.acked));
        if gap.as_nanos() * bytes > ahead.as_nanos() * own * 3 {
            run.pop();
        }
    }
    if let [first, .., last] = run.as_slice() {
        let payload = Bytes::new(first.acked.abs_diff(last.acked));
        let packets = payload.get() / u64::from(segment.payload.max(1));
        *longest = packets.max(*longest);
        let ip_bytes = segment.ip_bytes(payload);
        let enough =
            packets >= MIN_PACKETS && u64::try_from(run.len()).is_ok_and(|acks| acks > MIN_ACKS);
        if enough && let Some(rate) = ip_bytes.checked_per(last.at.since(first.at)) {
            trains.push(Train {
                from: first.at,
                to: last.at,
                ip_bytes,
                packets,
                rate,
            });
        }
    }
    run.clear();
}
