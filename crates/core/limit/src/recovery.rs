//! Spans in which lost segments are repaired.

use core::time::Duration;

use units::Time;

use crate::attribution::Span;
use crate::replay::{Repeat, Replay};
use crate::{Detail, LimitName, Repair};

/// Every repair, from the first sign of the loss to the ACK of everything sent until then.
pub(crate) fn spans(replay: &Replay, end: Time) -> Vec<Span> {
    let mut spans: Vec<Span> = Vec::new();
    let mut until: Option<i64> = None;
    for repeat in &replay.repeats {
        if repeat.cause == Repair::Spurious {
            // Nothing was missing, so nothing was repaired: the bytes had arrived, and what delayed the
            // news (a slow reader, a delayed ACK, a queue) is what held the sender. Where the news itself was lost,
            // see `unheard`.
            continue;
        }
        let within = until.is_some_and(|point| repeat.from < point);
        // A timer that runs out within a repair begins another kind of wait.
        if within && repeat.cause != Repair::Timeout {
            continue;
        }
        until = Some(repeat.sent_to);
        let to = replay
            .acks
            .iter()
            .skip(replay.acks.partition_point(|ack| ack.at < repeat.at))
            .find(|ack| ack.acked >= repeat.sent_to)
            .map_or(end, |ack| ack.at);
        let span = Span {
            from: first_sign(replay, repeat).min(repeat.at),
            to,
            limit: LimitName::LossRecovery,
            detail: detail(repeat.cause),
            reason: None,
        };
        if let Some(previous) = spans.last_mut() {
            previous.to = previous.to.min(span.from).max(previous.from);
        }
        spans.push(span);
    }
    spans
}

/// Waits for a timer because an acknowledgment was lost behind the tap: the capture shows the ACK, and after a silence the
/// same bytes again, whose ACK lets new data go. Had the sender heard of the first one, it would never have repeated
/// them; had that only been late, new data would not have waited for the second one. A sender with nothing more to
/// send loses nothing by it.
pub(crate) fn unheard(replay: &Replay, rtt: Duration, reaction: Duration) -> Vec<Span> {
    /// Linux never waits less (`TCP_RTO_MIN`).
    const LEAST: Duration = Duration::from_millis(200);
    let patience = LEAST.max(rtt + rtt / 4);
    let mut spans: Vec<Span> = Vec::new();
    for (index, repeat) in replay.repeats.iter().enumerate() {
        if repeat.cause != Repair::Spurious || spans.last().is_some_and(|span| span.to > repeat.at)
        {
            continue;
        }
        let sent = replay.sends.partition_point(|send| send.at <= repeat.at);
        let last_sent = sent.checked_sub(1).and_then(|last| replay.sends.get(last));
        let repeated = index
            .checked_sub(1)
            .and_then(|last| replay.repeats.get(last));
        let last_at = last_sent
            .map(|send| send.at)
            .max(repeated.map(|repeat| repeat.at));
        let told = replay.acks.partition_point(|ack| ack.acked <= repeat.from);
        let (Some(last_at), Some(told), Some(next)) =
            (last_at, replay.acks.get(told), replay.sends.get(sent))
        else {
            continue;
        };
        if repeat.at.since(last_at) < patience || told.at >= repeat.at {
            continue;
        }
        // An ACK of the repetition: it passed the tap after that.
        let later = replay.acks.partition_point(|ack| ack.at < repeat.at);
        let released = replay
            .acks
            .iter()
            .skip(later)
            .take_while(|ack| ack.passed_at <= next.at)
            .filter(|ack| ack.passed_at >= repeat.at)
            .any(|ack| next.at <= ack.at + reaction && ack.at <= next.at + reaction);
        if released {
            spans.push(Span {
                from: told.at,
                to: next.at,
                limit: LimitName::LossRecovery,
                detail: Some(Detail::Timeout),
                reason: None,
            });
        }
    }
    spans
}

const fn detail(cause: Repair) -> Option<Detail> {
    match cause {
        Repair::Fast => Some(Detail::FastRetransmit),
        Repair::Timeout => Some(Detail::Timeout),
        Repair::TailProbe => Some(Detail::TailLoss),
        Repair::Spurious | Repair::Unknown => None,
    }
}

/// When the loss began to cost time: with the first duplicate ACK, or when the ACK was due that never
/// came.
fn first_sign(replay: &Replay, repeat: &Repeat) -> Time {
    let before = replay.acks.partition_point(|ack| ack.at <= repeat.at);
    let ahead = replay.acks.get(..before).unwrap_or_default();
    match repeat.cause {
        Repair::Fast | Repair::Spurious | Repair::Unknown => ahead
            .iter()
            .rev()
            .take_while(|ack| ack.acked == ack.acked_before && ack.acked <= repeat.from)
            .last()
            .map_or(repeat.at, |ack| ack.at),
        Repair::Timeout | Repair::TailProbe => {
            let due = repeat
                .first_sent_at
                .zip(replay.rtt_before(repeat.at))
                .map(|(sent, rtt)| sent + rtt);
            let last_ack = ahead.last().map(|ack| ack.at);
            due.or(last_ack).unwrap_or(repeat.at)
        }
    }
}
