//! How a sender's window grows, seen from outside.

use core::time::Duration;

use units::Time;

use crate::replay::Replay;

/// What the sender did with the ACKs of one round trip.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Growth {
    /// It sent at least 1.4 times what was acknowledged. Slow start doubles (RFC 5681 §3.1 with byte
    /// counting, RFC 3465), or grows by half where ACKs are delayed and counted, not bytes; congestion
    /// avoidance adds a segment, CUBIC seldom more than a tenth.
    Exponential,
    /// It sent about as much as was acknowledged.
    Slow,
    /// Its data ended before that could be seen.
    Unseen,
}

/// Growth over the round trip after `at`, which ends early with the turn's last send at `data_ends`.
pub(crate) fn after(replay: &Replay, at: Time, rtt: Duration, data_ends: Time, mss: i64) -> Growth {
    /// Until this much was acknowledged and used, one stretched ACK decides.
    const ENOUGH_SEGMENTS: i64 = 4;
    let before = at.saturating_sub(Duration::from_nanos(1));
    let until = (at + rtt).min(data_ends);
    let complete = at + rtt <= data_ends;
    let (Some(sent_before), Some(sent)) = (replay.sent_to(before), replay.sent_to(until)) else {
        return Growth::Unseen;
    };
    let (acked_before, acked) = (
        replay.acked_to(before).unwrap_or(0),
        replay.acked_to(until).unwrap_or(0),
    );
    let (sent, acked) = (
        sent.saturating_sub(sent_before),
        acked.saturating_sub(acked_before),
    );
    if acked <= 0 || (!complete && acked < ENOUGH_SEGMENTS * mss) {
        return Growth::Unseen;
    }
    if sent.saturating_mul(10) >= acked.saturating_mul(14) {
        Growth::Exponential
    } else if complete && meets_the_edge(replay, at, until, mss) {
        Growth::Unseen
    } else if complete {
        Growth::Slow
    } else {
        Growth::Unseen
    }
}

/// Whether the receiver's window left no room for another segment at some moment: then what was sent says
/// nothing of the congestion window.
pub(crate) fn meets_the_edge(replay: &Replay, from: Time, to: Time, mss: i64) -> bool {
    let first = replay.acks.partition_point(|ack| ack.at <= from);
    let within = replay.acks.iter().skip(first);
    within.take_while(|ack| ack.at <= to).any(|ack| {
        let sent = replay.sent_to(ack.at).unwrap_or(0);
        ack.edge_before.is_some_and(|edge| edge - sent < mss)
    })
}

/// Whether what was in flight stayed the same, within a segment per two round trips, over at least
/// `ROUNDS` round trips around a moment: a socket buffer is full, since a congestion window would grow.
pub(crate) fn is_flat(peaks: &[(Time, i64)], at: Time, rtt: Duration, mss: i64) -> bool {
    const ROUNDS: u32 = 6;
    // A plateau begins and ends somewhere: look around, ahead and back.
    [(ROUNDS, ROUNDS), (0, ROUNDS + 2), (ROUNDS + 2, 0)]
        .into_iter()
        .any(|(back, ahead)| {
            flat_between(
                peaks,
                at.saturating_sub(rtt * back),
                at + rtt * ahead,
                rtt,
                mss,
            )
        })
}

fn flat_between(peaks: &[(Time, i64)], from: Time, to: Time, rtt: Duration, mss: i64) -> bool {
    const LEAST_ROUNDS: u32 = 6;
    let from = peaks.partition_point(|(peak_at, _)| *peak_at < from);
    let to = peaks.partition_point(|(peak_at, _)| *peak_at <= to);
    let Some(window) = peaks.get(from..to) else {
        return false;
    };
    let (Some((first_at, _)), Some((last_at, _))) = (window.first(), window.last()) else {
        return false;
    };
    if last_at.since(*first_at) < rtt * LEAST_ROUNDS {
        return false;
    }
    // Compare the highest peak of the first and of the last round trip of the window: within one, ACKs
    // come in lumps.
    let highest = |from: Time, to: Time| {
        window
            .iter()
            .filter(|(peak_at, _)| *peak_at >= from && *peak_at <= to)
            .map(|(_, flight)| *flight)
            .max()
            .unwrap_or(0)
    };
    let early = highest(*first_at, *first_at + rtt);
    let late = highest(last_at.saturating_sub(rtt), *last_at);
    let rounds = i64::try_from(last_at.since(*first_at).as_nanos() / rtt.as_nanos().max(1))
        .unwrap_or(i64::MAX);
    (late - early).abs() * 2 < mss.saturating_mul(rounds)
}
