use std::collections::BTreeMap;

use core::time::Duration;

use units::Time;

use crate::channel::{self, ChannelWindow};
use crate::path_rate::{self, NoRate, PathRate};
use crate::replay::Replay;
use crate::{Detail, LimitName, Reason, Timeline, policer, recovery, waits};

/// A limit over a span of time, half-open.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Span {
    /// From here.
    pub from: Time,
    /// Up to here.
    pub to: Time,
    /// What held.
    pub limit: LimitName,
    /// Which form of it.
    pub detail: Option<Detail>,
    /// Why, where it is `unknown`.
    pub reason: Option<Reason>,
}

/// What held a direction back, over all its time.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Attribution {
    /// Spans in order, without gap or overlap, from the first packet to the last.
    pub spans: Vec<Span>,
    /// The path's rate, as this direction shows it.
    pub path_rate: PathRate,
    /// First and last moment at which the direction carried data, the last one's ACK included.
    pub busy: Option<(Time, Time)>,
    /// The window of the protocol above TCP, where one shows although TCP acknowledges sooner than it.
    pub channel: Option<ChannelWindow>,
}

impl Attribution {
    /// Time per limit; it sums to the duration exactly.
    #[must_use]
    pub fn limits(&self) -> BTreeMap<LimitName, Duration> {
        let mut limits = BTreeMap::new();
        for span in &self.spans {
            *limits.entry(span.limit).or_default() += span.to.since(span.from);
        }
        limits
    }

    /// Time per limit and detail, where there is one.
    #[must_use]
    pub fn details(&self) -> BTreeMap<(LimitName, Detail), Duration> {
        let mut details = BTreeMap::new();
        for span in &self.spans {
            if let Some(detail) = span.detail {
                *details.entry((span.limit, detail)).or_default() += span.to.since(span.from);
            }
        }
        details
    }

    /// The largest limit other than `propagation`, `closing` and idle `application` before the first and
    /// after the last byte; `None` where the direction carried nothing or nothing else held.
    #[must_use]
    pub fn dominant(&self) -> Option<LimitName> {
        let (first, last) = self.busy?;
        let mut limits: BTreeMap<LimitName, Duration> = BTreeMap::new();
        for span in &self.spans {
            let (from, to) = match span.limit {
                LimitName::Propagation | LimitName::Closing => continue,
                LimitName::Application => (span.from.max(first), span.to.min(last)),
                LimitName::Handshake
                | LimitName::TlsHandshake
                | LimitName::LossRecovery
                | LimitName::ReceiveWindow
                | LimitName::Policer
                | LimitName::Bottleneck
                | LimitName::SlowStart
                | LimitName::LossLimited
                | LimitName::CongestionAvoidance
                | LimitName::SendBuffer
                | LimitName::NagleDelayedAck
                | LimitName::Unknown => (span.from, span.to),
            };
            *limits.entry(span.limit).or_default() += to.since(from);
        }
        // The first of equals: names are in order of precedence.
        let most = limits
            .values()
            .max()
            .copied()
            .filter(|most| !most.is_zero())?;
        limits
            .into_iter()
            .find(|(_, time)| *time == most)
            .map(|(limit, _)| limit)
    }

    /// The reasons behind `unknown` time, the longest first.
    #[must_use]
    pub fn reasons(&self) -> Vec<Reason> {
        let mut reasons: BTreeMap<Reason, Duration> = BTreeMap::new();
        for span in &self.spans {
            if let Some(reason) = span.reason {
                *reasons.entry(reason).or_default() += span.to.since(span.from);
            }
        }
        let mut reasons: Vec<_> = reasons
            .into_iter()
            .filter(|(_, time)| !time.is_zero())
            .collect();
        reasons.sort_by_key(|(reason, time)| (core::cmp::Reverse(*time), *reason));
        reasons.into_iter().map(|(reason, _)| reason).collect()
    }
}

/// Attributes every moment of a direction.
#[must_use]
pub fn attribute(timeline: &Timeline) -> Attribution {
    let replay = Replay::new(&timeline.events);
    let path_rate = match (timeline.blind, timeline.base_rtt) {
        (None, Some(rtt)) => {
            path_rate::estimate(&replay, rtt, timeline.feedback_delay, timeline.segment)
        }
        (Some(_), _) | (None, None) => PathRate {
            rate: Err(NoRate::NoAcks),
            trains: Vec::new(),
        },
    };
    let repairs = recovery::spans(&replay, timeline.to);
    let mut spans = waits::spans(timeline, &replay, path_rate.rate.ok(), &repairs);
    let mss = i64::from(timeline.segment.payload.max(1));
    // Without a sight of queues every loss would look like a policer's.
    let policed = timeline
        .base_rtt
        .filter(|_| timeline.queues_show)
        .and_then(|rtt| policer::since(&replay, rtt, mss));
    spans.extend(repairs);
    if let (None, Some(rtt)) = (timeline.blind, timeline.base_rtt) {
        // How exactly an ACK at the tap and the data that it lets go can be laid beside each other.
        let reaction = Duration::from_millis(1) + timeline.feedback_delay / 10;
        spans.extend(recovery::unheard(&replay, rtt, reaction));
    }
    let channel = channel::find(timeline, &replay).map(|(found, pauses)| {
        spans.extend(pauses);
        found
    });
    if let Some(since) = policed {
        for span in &mut spans {
            if span.from >= since
                && matches!(
                    span.limit,
                    LimitName::LossLimited
                        | LimitName::LossRecovery
                        | LimitName::Bottleneck
                        | LimitName::SendBuffer
                        | LimitName::CongestionAvoidance
                )
            {
                span.limit = LimitName::Policer;
                span.detail = None;
            }
        }
    }
    let whole = |(from, to): (Time, Time), limit| Span {
        from,
        to,
        limit,
        detail: None,
        reason: None,
    };
    spans.extend(
        timeline
            .handshake
            .map(|span| whole(span, LimitName::Handshake)),
    );
    spans.extend(
        timeline
            .tls
            .map(|span| whole(span, LimitName::TlsHandshake)),
    );
    spans.extend(closing(timeline, &replay));
    let busy = replay.sends.first().map(|first| {
        let last_sent = replay.sends.last().map_or(first.at, |last| last.at);
        let end = replay.sends.last().map_or(first.to, |last| last.to);
        let acked = replay
            .acks
            .iter()
            .find(|ack| ack.acked >= end)
            .map(|ack| ack.at);
        (
            first.at,
            acked.unwrap_or(last_sent).max(last_sent).min(timeline.to),
        )
    });
    Attribution {
        spans: cover(timeline, &spans),
        path_rate,
        busy,
        channel,
    }
}

/// From the first FIN or RST on, once this direction's data has arrived.
fn closing(timeline: &Timeline, replay: &Replay) -> Option<Span> {
    let ending_at = timeline.ending_at?;
    let data_done = replay.sends.last().map(|last| {
        replay
            .acks
            .iter()
            .find(|ack| ack.acked >= last.to && ack.at >= last.at)
            .map_or(last.at, |ack| ack.at)
    });
    Some(Span {
        from: data_done.map_or(ending_at, |done| done.max(ending_at)),
        to: timeline.to,
        limit: LimitName::Closing,
        detail: None,
        reason: None,
    })
}

/// Lays spans over each other by precedence. What none covers is time in which the sender had nothing
/// to send, or, in a capture that cannot show it, unknown.
fn cover(timeline: &Timeline, spans: &[Span]) -> Vec<Span> {
    // Each start and end is an edge; between two edges the set of spans that hold stays the same.
    let mut edges: Vec<(Time, bool, usize)> = Vec::with_capacity(spans.len() * 2);
    for (index, span) in spans.iter().enumerate() {
        let (from, to) = (span.from.max(timeline.from), span.to.min(timeline.to));
        if from < to {
            edges.push((from, true, index));
            edges.push((to, false, index));
        }
    }
    edges.sort_unstable();
    let rest = match timeline.blind {
        Some(reason @ (Reason::OneDirection | Reason::NoRtt)) => (LimitName::Unknown, Some(reason)),
        Some(Reason::Filtered | Reason::CutOff | Reason::WindowScaleUnknown | Reason::TooShort)
        | None => (LimitName::Application, None),
    };
    let mut cover: Vec<Span> = Vec::new();
    let mut push = |from: Time, to: Time, active: &[(LimitName, usize)]| {
        if from >= to {
            return;
        }
        let holds = active.first().and_then(|(_, index)| spans.get(*index));
        let next = match holds {
            Some(span) => Span { from, to, ..*span },
            None => Span {
                from,
                to,
                limit: rest.0,
                detail: None,
                reason: rest.1,
            },
        };
        match cover.last_mut() {
            Some(last)
                if (last.limit, last.detail, last.reason)
                    == (next.limit, next.detail, next.reason) =>
            {
                last.to = to;
            }
            Some(_) | None => cover.push(next),
        }
    };
    // Few hold at a time.
    let mut active: Vec<(LimitName, usize)> = Vec::new();
    let mut since = timeline.from;
    for (at, starts, index) in edges {
        push(since, at, &active);
        since = since.max(at);
        if let Some(span) = spans.get(index) {
            let place = active.binary_search(&(span.limit, index));
            match (starts, place) {
                (true, Err(place)) => active.insert(place, (span.limit, index)),
                (false, Ok(place)) => drop(active.remove(place)),
                (true, Ok(_)) | (false, Err(_)) => {}
            }
        }
    }
    push(since, timeline.to, &active);
    cover
}
