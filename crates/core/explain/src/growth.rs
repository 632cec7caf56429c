//! How far a direction grew: the rate at which it delivered, and what ended slow start.

use core::time::Duration;

use connections::Connection;
use limit::{Attribution, Detail, EventKind, LimitName, Span, Timeline};
use record::explain::SlowStartExit;
use units::{Bytes, Rate, Time};

/// The highest rate at which payload arrived over a round trip of the path: what BBR takes for the path's.
pub(crate) fn delivery_rate(timeline: &Timeline) -> Option<Rate> {
    let rtt = timeline.base_rtt.filter(|rtt| !rtt.is_zero())?;
    let acks = || {
        timeline.events.iter().filter_map(|event| match event.kind {
            EventKind::Ack { to, .. } => Some((event.at, to)),
            EventKind::Sent { .. } => None,
        })
    };
    // One walk over the ACKs, and one a round trip behind it.
    let mut behind = acks().peekable();
    let (mut before, mut acked, mut most) = (None, i64::MIN, 0);
    for (at, to) in acks() {
        acked = acked.max(to);
        while let Some((_, old)) = behind.next_if(|(passed, _)| is_past(*passed, rtt, at)) {
            before = before.max(Some(old));
        }
        if let Some(before) = before {
            most = most.max(acked.saturating_sub(before));
        }
    }
    let most = Bytes::new(u64::try_from(most).ok().filter(|most| *most > 0)?);
    most.checked_per(rtt)
}

fn is_past(passed: Time, rtt: Duration, now: Time) -> bool {
    passed + rtt <= now
}

/// When the first slow start was over, and what held the direction next; `None` where its data ended first.
pub(crate) fn slow_start_exit(
    connection: &Connection,
    attribution: &Attribution,
) -> Option<SlowStartExit> {
    let spans = &attribution.spans;
    let initial =
        |span: &Span| (span.limit, span.detail) == (LimitName::SlowStart, Some(Detail::Initial));
    let first = spans.iter().position(initial)?;
    // A loss ends it, although what was sent before the repair may still look like growth.
    let loss = |span: &Span| matches!(span.limit, LimitName::LossRecovery | LimitName::Policer);
    let lost = spans.iter().skip(first).position(loss);
    let until = lost.map_or(spans.len(), |lost| first + lost);
    let last = spans.get(..until)?.iter().rposition(initial)?;
    let mut behind = spans.get(last + 1..)?.iter();
    let (from, cause) = behind.find_map(|span| Some((span.from, cause(span)?)))?;
    Some(SlowStartExit {
        after_s: from.since(connection.first_at).as_secs_f64(),
        cause,
    })
}

/// What a span behind slow start says of its end; `None` where there was nothing to send, or nothing is known.
fn cause(span: &Span) -> Option<LimitName> {
    match span.limit {
        // The window was lost in a pause.
        LimitName::SlowStart if span.detail == Some(Detail::AfterIdle) => {
            Some(LimitName::Application)
        }
        // What follows a loss, where its repair is seen later or not at all.
        LimitName::SlowStart | LimitName::LossRecovery | LimitName::LossLimited => {
            Some(LimitName::LossRecovery)
        }
        LimitName::Policer
        | LimitName::ReceiveWindow
        | LimitName::Bottleneck
        | LimitName::CongestionAvoidance
        | LimitName::SendBuffer => Some(span.limit),
        LimitName::Handshake
        | LimitName::Closing
        | LimitName::TlsHandshake
        | LimitName::NagleDelayedAck
        | LimitName::Propagation
        | LimitName::Application
        | LimitName::Unknown => None,
    }
}
