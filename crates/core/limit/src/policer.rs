//! Whether losses come from a policer: a token bucket that drops what exceeds its rate, and queues nothing.
//!
//! Random loss strikes at any rate, and one packet at a time; a full queue delays before it drops. A
//! policer drops at one rate, several packets out of a round trip, and round trips stay as they are (Flach
//! et al., "An Internet-Wide Analysis of Traffic Policing", SIGCOMM 2016, §3.1). And what it drops follows what
//! passed before ([`bucket`]).

use core::time::Duration;

use units::Time;

use crate::replay::Replay;
use crate::{Repair, bucket};

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
    let since = dense_then_again(&epochs).or_else(|| sharp_alone(&epochs, base_rtt))?;
    // A sender that keeps one rate whatever it loses (BBR) is struck at that rate by chance, too.
    bucket::is_emptied(replay, base_rtt, mss).then_some(since)
}

/// Where slow start runs into the bucket, a large part of a round trip is lost and the rest passes; the next
/// losses still belong to that. A sender that never settles runs into it again.
fn dense_then_again(epochs: &[Epoch]) -> Option<Time> {
    let first = epochs.iter().position(Epoch::is_dense)?;
    let later = epochs.get(first + 1..)?;
    // What a repair loses while it is under way gives no round trips to judge by, and says little of the rate.
    let quiet = |epoch: &&Epoch| epoch.quiet == Some(true);
    let settled: Vec<Epoch> = later.iter().skip(1).filter(quiet).copied().collect();
    let again = match settled.as_slice() {
        [] => later.iter().any(|epoch| epoch.quiet == Some(true)),
        settled => is_sharp(settled, 3),
    };
    let dense_again = later.iter().filter(quiet).any(Epoch::is_dense);
    let from = epochs.get(first).map(|epoch| epoch.from);
    from.filter(|_| again || dense_again)
}

/// A sender that leaves slow start before the bucket is empty (`HyStart`) never loses much at once. It still
/// loses at one rate, again and again, and far more sharply than chance would have it.
fn sharp_alone(epochs: &[Epoch], base_rtt: Duration) -> Option<Time> {
    const LEAST: usize = 6;
    let mut settled: Vec<Epoch> = Vec::new();
    let mut before: Option<Time> = None;
    for epoch in epochs.iter().skip(1) {
        // Losses within the repair of others follow from those.
        let own = before.is_none_or(|before| epoch.from.since(before) >= base_rtt * 4);
        before = Some(epoch.from);
        if own && epoch.quiet == Some(true) {
            settled.push(*epoch);
        }
    }
    let known = settled.len() >= LEAST && is_sharp(&settled, 8);
    epochs
        .iter()
        .find(|epoch| epoch.quiet == Some(true))
        .filter(|_| known)
        .map(|epoch| epoch.from)
}

impl Epoch {
    /// Random loss takes a few out of many, a full bucket the end of every burst.
    fn is_dense(&self) -> bool {
        let span = self.span.1 - self.span.0;
        self.quiet != Some(false) && self.lost >= 8 && self.lost_bytes * 6 >= span
    }
}

/// Whether four of five were struck at the same rate: within a `part` of the middle one.
fn is_sharp(epochs: &[Epoch], part: i64) -> bool {
    let mut rates: Vec<i64> = epochs.iter().map(|epoch| epoch.sent).collect();
    rates.sort_unstable();
    let Some(&middle) = rates.get(rates.len() / 2) else {
        return false;
    };
    let near = rates
        .iter()
        .filter(|rate| (**rate - middle).abs() * part <= middle)
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
/// acknowledgment tells. What follows a hole is acknowledged late without any queue; SACK reports it in time.
fn is_quiet(replay: &Replay, at: Time, rtt: Duration) -> Option<bool> {
    const LATEST: usize = 4;
    const NOISE: Duration = Duration::from_millis(3);
    let sent_lately = at.saturating_sub(rtt * 3 / 2);
    let first = replay.acks.partition_point(|ack| ack.at < sent_lately);
    let around = replay.acks.iter().skip(first);
    let mut samples: Vec<(Time, Duration)> = around
        .take_while(|ack| ack.at <= at + rtt * 6)
        .filter_map(|ack| {
            ack.rtt
                .or(ack.reported_rtt)
                .map(|rtt| (ack.at.saturating_sub(rtt), rtt))
        })
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

#[cfg(test)]
mod tests {
    use super::*;

    const RTT: Duration = Duration::from_millis(20);

    /// Losses of `lost` segments each, a second apart, at these rates.
    fn epochs(lost: u32, sent: &[i64], quiet: Option<bool>) -> Vec<Epoch> {
        let epoch = |(second, sent): (u64, &i64)| Epoch {
            from: Time::from_nanos(second * 1_000_000_000),
            lost,
            lost_bytes: i64::from(lost) * 1448,
            sent: *sent,
            span: (0, i64::from(lost) * 2000),
            quiet,
        };
        (1..).zip(sent).map(epoch).collect()
    }

    #[test]
    fn single_losses_at_one_rate_are_a_policers_and_at_any_rate_are_not() {
        let same = [70, 58, 60, 57, 58, 59, 58, 58].map(|sent| sent * 1000);
        let from = sharp_alone(&epochs(1, &same, Some(true)), RTT);
        assert_eq!(from, Some(Time::from_nanos(1_000_000_000)));
        let chance = [70, 20, 95, 57, 140, 33, 58, 80].map(|sent| sent * 1000);
        assert_eq!(sharp_alone(&epochs(1, &chance, Some(true)), RTT), None);
        assert_eq!(sharp_alone(&epochs(1, &same, None), RTT), None);
        assert_eq!(sharp_alone(&epochs(1, &same[..6], Some(true)), RTT), None);
    }

    #[test]
    fn what_slow_start_loses_counts_only_with_later_losses_that_nothing_queued_before() {
        let mut all = epochs(20, &[100_000], Some(true));
        assert_eq!(dense_then_again(&all), None);
        all.extend(epochs(1, &[40_000, 41_000, 40_500], None));
        assert_eq!(dense_then_again(&all), None);
        for epoch in all.iter_mut().skip(1) {
            epoch.quiet = Some(true);
        }
        assert!(dense_then_again(&all).is_some());
    }
}
