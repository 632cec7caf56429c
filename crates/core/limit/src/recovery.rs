//! Spans in which lost segments are repaired.

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
            // news (a slow reader, a delayed ACK, a queue) is what held the sender.
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
