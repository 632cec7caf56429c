//! Whether losses come from a policer: a token bucket that drops what exceeds its rate, and queues nothing.
//!
//! Random loss strikes at any rate, and one packet at a time; a full queue delays before it drops. A
//! policer drops at one rate, several packets out of a round trip, and round trips stay as they are (Flach
//! et al., "An Internet-Wide Analysis of Traffic Policing", SIGCOMM 2016, §3.1).

use core::time::Duration;

use units::Time;

use crate::Repair;
use crate::replay::Replay;

/// Losses within a round trip and a half of the first.
#[derive(Clone, Copy, Debug)]
struct Epoch {
    from: Time,
    /// Segments lost.
    lost: u32,
    /// Payload bytes lost.
    lost_bytes: i64,
    /// Payload bytes sent over the round trip before the first of them.
    sent: i64,
    /// First and last position lost.
    span: (i64, i64),
    /// Whether round trips were as short as ever; `None` where none was measured.
    quiet: Option<bool>,
}

/// When the policer's bucket was empty first; `None` where losses have another pattern.
pub(crate) fn since(replay: &Replay, base_rtt: Duration, mss: i64) -> Option<Time> {
    let epochs = epochs(replay, base_rtt, mss);
    // Senders that never settle lose again what they repeat, and few samples are left to judge by; but what
    // slow start runs into first shows for certain whether anything queued.
    let loud = epochs.iter().filter(|epoch| epoch.quiet == Some(false));
    let known = epochs.iter().any(|epoch| epoch.quiet == Some(true));
    if epochs.first()?.quiet == Some(false) || !known || loud.count() * 2 > epochs.len() {
        return None;
    }
    // Where slow start runs into the bucket, a large part of a round trip is lost and the rest passes;
    // the next losses still belong to that. A sender that never settles runs into it again.
    let dense = epochs.iter().position(Epoch::is_dense)?;
    let later = epochs.get(dense + 1..)?;
    let settled = later.get(1..).filter(|settled| !settled.is_empty());
    let again = match settled {
        Some(settled) => is_sharp(settled) || later.iter().any(Epoch::is_dense),
        None => !later.is_empty(),
    };
    again.then(|| epochs.get(dense).map(|epoch| epoch.from))?
}

impl Epoch {
    fn is_dense(&self) -> bool {
        let span = self.span.1 - self.span.0;
        // Nothing at all passes where a link is down; random loss takes a few out of many.
        let passed = span - self.lost_bytes;
        self.quiet != Some(false) && self.lost >= 8 && passed > 0 && self.lost_bytes * 6 >= span
    }
}

/// Whether all were struck at about the same rate: within a third of the middle one.
fn is_sharp(epochs: &[Epoch]) -> bool {
    let mut rates: Vec<i64> = epochs.iter().map(|epoch| epoch.sent).collect();
    rates.sort_unstable();
    let Some(&middle) = rates.get(rates.len() / 2) else {
        return false;
    };
    let near = rates
        .iter()
        .filter(|rate| (**rate - middle).abs() * 3 <= middle)
        .count();
    near * 5 >= rates.len() * 4
}

fn epochs(replay: &Replay, rtt: Duration, mss: i64) -> Vec<Epoch> {
    let mut losses: Vec<(Time, i64)> = replay
        .repeats
        .iter()
        .filter(|repeat| repeat.cause != Repair::Spurious)
        .map(|repeat| {
            let at = repeat
                .first_sent_at
                .or_else(|| replay.passed_at(repeat.from))
                .unwrap_or(repeat.at);
            (at, repeat.from)
        })
        .collect();
    losses.sort_unstable();
    losses.dedup_by_key(|(_, from)| *from);
    let mut epochs: Vec<Epoch> = Vec::new();
    for (at, position) in losses {
        let sent_to = |at| replay.sent_to(at).unwrap_or(0);
        match epochs.last_mut() {
            Some(epoch) if at.since(epoch.from) <= rtt * 3 / 2 => {
                epoch.lost += 1;
                epoch.lost_bytes += mss;
                epoch.span.0 = epoch.span.0.min(position);
                epoch.span.1 = epoch.span.1.max(position + mss);
            }
            Some(_) | None => epochs.push(Epoch {
                from: at,
                lost: 1,
                lost_bytes: mss,
                sent: sent_to(at) - sent_to(at.saturating_sub(rtt)),
                span: (position, position + mss),
                quiet: is_quiet(replay, at, rtt),
            }),
        }
    }
    epochs
}

/// Whether what was sent last before `at` came through without waiting in a queue; `None` where no
/// acknowledgment tells. What follows a hole is acknowledged late without any queue.
fn is_quiet(replay: &Replay, at: Time, rtt: Duration) -> Option<bool> {
    const LATEST: usize = 4;
    const NOISE: Duration = Duration::from_millis(3);
    let sent_lately = at.saturating_sub(rtt * 3 / 2);
    let first = replay.acks.partition_point(|ack| ack.at < sent_lately);
    let around = replay.acks.iter().skip(first);
    let mut samples: Vec<(Time, Duration)> = around
        .take_while(|ack| ack.at <= at + rtt * 6)
        .filter_map(|ack| ack.rtt.map(|rtt| (ack.at.saturating_sub(rtt), rtt)))
        .filter(|(sent_at, _)| *sent_at >= sent_lately && *sent_at <= at)
        .collect();
    samples.sort_unstable();
    // A delayed ACK is slow without a queue; a full queue lets none of them be quick.
    let latest = samples.iter().rev().take(LATEST);
    if samples.len() < 2 {
        return None;
    }
    let least = latest.map(|(_, rtt)| *rtt).min()?;
    Some(least.saturating_sub(rtt) <= (rtt / 8).max(NOISE))
}
