//! How far a sender steps back when it loses something: the trace that its congestion control leaves in packets.

use core::time::Duration;

use limit::{Attribution, EventKind, LimitName, Repair, Timeline};
use record::explain::LossResponse;
use units::Time;

/// Fewer losses may have met anything.
const LEAST_LOSSES: usize = 3;
/// Round trips between repairs over which growth is taken: fewer are as rough as the lumps of ACKs.
const LEAST_ROUNDS: f64 = 20.0;
/// Where so few segments fly, a segment more or less is as much as what is looked for.
const LEAST_SEGMENTS: i64 = 8;

/// What flew when an ACK came that moved the window on.
#[derive(Clone, Copy, Debug)]
struct Sample {
    at: Time,
    /// Bytes, before that ACK.
    flight: i64,
    /// Whether the receiver's window left no room for another segment.
    full: bool,
}

/// From the first repetition to the ACK of everything sent until then.
#[derive(Clone, Copy, Debug)]
struct Repaired {
    from: Time,
    sent_to: i64,
    to: Option<Time>,
    by_timer: bool,
}

/// What of its flight a sender kept, over the losses that show it; `None` where they are too few, where something else
/// than the congestion window bounds the flight, and in captures made elsewhere.
pub(crate) fn of(timeline: &Timeline, attribution: &Attribution) -> Option<LossResponse> {
    let rtt = timeline.base_rtt.filter(|rtt| !rtt.is_zero())?;
    // Away from the sender nobody knows what flew there.
    let at_sender = timeline.feedback_delay.is_zero();
    if timeline.blind.is_some() || !at_sender || is_bound_otherwise(attribution) {
        return None;
    }
    let mss = i64::from(timeline.segment.payload.max(1));
    let (samples, repairs) = replay(timeline, mss);
    let last_sent = timeline
        .events
        .iter()
        .rev()
        .find_map(|event| match event.kind {
            EventKind::Sent { repair: None, .. } => Some(event.at),
            EventKind::Sent { .. } | EventKind::Ack { .. } => None,
        })?;
    let mut kept: Vec<f64> = Vec::new();
    let (mut grown, mut rounds) = (0, 0.0);
    // What slow start runs into says nothing of what follows it.
    for (index, repair) in repairs.iter().enumerate().skip(1) {
        let Some(end) = repair.to.filter(|_| !repair.by_timer) else {
            continue;
        };
        // A round trip after the repair the flight is what the sender now holds right.
        let from = end + rtt / 2;
        let next = repairs.get(index + 1).map_or(last_sent, |next| next.from);
        if let Some((by, over)) = growth(&samples, from, next.min(last_sent), rtt) {
            grown += by;
            rounds += over;
        }
        let to = next.min(last_sent).min(end + rtt * 2);
        if to < end + rtt {
            continue;
        }
        let until = samples.partition_point(|sample| sample.at < repair.from);
        let Some(last) = until.checked_sub(1).and_then(|last| samples.get(last)) else {
            continue;
        };
        let before = middle(&samples, last.at.saturating_sub(rtt), last.at);
        let after = middle(&samples, from, to);
        if let (Some(before), Some(after)) = (before, after)
            && !last.full
            && before >= LEAST_SEGMENTS * mss
        {
            kept.push(share(after, before));
        }
    }
    if kept.len() < LEAST_LOSSES {
        return None;
    }
    kept.sort_by(f64::total_cmp);
    Some(LossResponse {
        losses: u64::try_from(kept.len()).unwrap_or(u64::MAX),
        kept: *kept.get(kept.len() / 2)?,
        growth_segments: (rounds >= LEAST_ROUNDS).then(|| share(grown, mss) / rounds),
    })
}

/// By how many bytes the flight grew between two moments, and over how many round trips.
fn growth(samples: &[Sample], from: Time, to: Time, rtt: Duration) -> Option<(i64, f64)> {
    let (early_to, late_from) = (from + rtt, to.saturating_sub(rtt));
    if late_from < early_to + rtt {
        return None;
    }
    let early = middle(samples, from, early_to)?;
    let late = middle(samples, late_from, to)?;
    let rounds = late_from.since(from).as_secs_f64() / rtt.as_secs_f64();
    Some((late - early, rounds))
}

/// Whether windows, buffers or the application hold the flight for a fifth of the time and more: it then stays as it is
/// whatever the congestion window does.
fn is_bound_otherwise(attribution: &Attribution) -> bool {
    let Some((first, last)) = attribution.busy else {
        return true;
    };
    let bound: Duration = attribution
        .spans
        .iter()
        .filter(|span| {
            matches!(
                span.limit,
                LimitName::ReceiveWindow | LimitName::SendBuffer | LimitName::Application
            )
        })
        .map(|span| span.to.min(last).since(span.from.max(first)))
        .sum();
    bound * 5 >= last.since(first)
}

fn replay(timeline: &Timeline, mss: i64) -> (Vec<Sample>, Vec<Repaired>) {
    let (mut samples, mut repairs) = (Vec::new(), Vec::<Repaired>::new());
    let (mut sent_to, mut acked) = (i64::MIN, None::<i64>);
    let mut edge: Option<i64> = None;
    for event in &timeline.events {
        match event.kind {
            EventKind::Sent { from, to, repair } => {
                acked.get_or_insert(from);
                sent_to = sent_to.max(to);
                let Some(cause) = repair.filter(|cause| *cause != Repair::Spurious) else {
                    continue;
                };
                let by_timer = cause != Repair::Fast;
                match repairs.last_mut() {
                    Some(last) if last.to.is_none() => last.by_timer |= by_timer,
                    Some(_) | None => repairs.push(Repaired {
                        from: event.at,
                        sent_to,
                        to: None,
                        by_timer,
                    }),
                }
            }
            EventKind::Ack { to, window, .. } => {
                let before = acked.unwrap_or(to);
                if to > before {
                    samples.push(Sample {
                        at: event.at,
                        flight: sent_to.saturating_sub(before),
                        full: edge.is_some_and(|edge| edge.saturating_sub(sent_to) < mss),
                    });
                    acked = Some(to);
                    if let Some(last) = repairs.last_mut()
                        && last.to.is_none()
                        && to >= last.sent_to
                    {
                        last.to = Some(event.at);
                    }
                }
                if let Some(window) = window.filter(|_| to >= before) {
                    edge = Some(to.saturating_add_unsigned(window));
                }
            }
        }
    }
    (samples, repairs)
}

/// The middle one of the flights from `from` to `to`, if there are at least three.
fn middle(samples: &[Sample], from: Time, to: Time) -> Option<i64> {
    let first = samples.partition_point(|sample| sample.at < from);
    let within = samples.iter().skip(first);
    let mut flights: Vec<i64> = within
        .take_while(|sample| sample.at <= to)
        .map(|sample| sample.flight)
        .collect();
    if flights.len() < 3 {
        return None;
    }
    flights.sort_unstable();
    flights.get(flights.len() / 2).copied()
}

#[expect(
    clippy::cast_precision_loss,
    reason = "bytes in flight, far below 2^52"
)]
fn share(after: i64, before: i64) -> f64 {
    after as f64 / before as f64
}
