//! From verdicts on single waits to spans of time, and the regime of the sender's own window.

use core::time::Duration;

use units::Time;

use super::{Judge, Verdict};
use crate::attribution::Span;
use crate::growth::{self, Growth};
use crate::replay::Send;
use crate::{Detail, LimitName, Reason};

impl Judge<'_> {
    pub(super) fn paint(&self, verdicts: &[Verdict]) -> Vec<Span> {
        let mut spans = Vec::new();
        let mut around = None;
        // Where a burst began whose limit is told by the first real wait behind it.
        let mut burst_from: Option<Time> = None;
        let mut regime = Regime::default();
        for (index, verdict) in verdicts.iter().enumerate() {
            let Some(send) = self.replay.sends.get(index) else {
                break;
            };
            let next = self.replay.sends.get(index + 1);
            let end = next.map_or(self.timeline.to, |next| next.at);
            let held = match *verdict {
                Verdict::Burst => {
                    match around {
                        Some(limit) => spans.push(span(send.at, end, limit)),
                        None => {
                            burst_from.get_or_insert(send.at);
                        }
                    }
                    continue;
                }
                Verdict::Nothing => {
                    let bottleneck =
                        around.is_some_and(|(limit, _)| limit == LimitName::Bottleneck);
                    self.paint_end_of_data(send, index, end, bottleneck, &mut spans);
                    around = None;
                    burst_from = None;
                    regime.on_pause(end.since(send.at), self.rtt);
                    continue;
                }
                Verdict::Held(LimitName::LossRecovery, detail) => {
                    let until = next.map_or(end, |next| next.at + self.rtt);
                    let due = (send.at + self.rtt).min(end);
                    spans.push(span(due, until, (LimitName::LossRecovery, detail)));
                    around = None;
                    burst_from = None;
                    continue;
                }
                Verdict::Held(limit, detail) => (limit, detail),
                Verdict::OwnWindow(growth) => {
                    let flight = self
                        .replay
                        .acks_after(index)
                        .last()
                        .map_or(0, |ack| ack.flight_before);
                    self.own_window(growth, end, flight, &mut regime)
                }
            };
            spans.push(span(burst_from.take().unwrap_or(send.at), end, held));
            around = Some(held);
        }
        spans
    }

    /// All data is in flight: a round trip, preceded by the queue's share of it where there is one.
    fn paint_end_of_data(
        &self,
        send: &Send,
        index: usize,
        end: Time,
        bottleneck: bool,
        spans: &mut Vec<Span>,
    ) {
        let Some(ack) = self.drained(index) else {
            // More followed while this was still in flight: not the last round trip of anything.
            if self.replay.sends.get(index + 1).is_some() {
                return;
            }
            let due = (send.at + self.rtt + self.rtt / 4).min(end);
            spans.push(span(send.at, due, (LimitName::Propagation, None)));
            spans.push(Span {
                from: due,
                to: end,
                limit: LimitName::Unknown,
                detail: None,
                reason: Some(Reason::CutOff),
            });
            return;
        };
        let due = if ack.bare {
            ack.at
        } else {
            ack.at.min(self.arrival_told_by(index, send))
        };
        let due = due.min(end);
        let excess = due.since(send.at).saturating_sub(self.rtt);
        let queued = bottleneck
            || self
                .path_room
                .is_some_and(|room| send.to - ack.acked_before > room);
        let propagation_from = if queued { send.at + excess } else { send.at };
        spans.push(span(
            send.at,
            propagation_from,
            (LimitName::Bottleneck, None),
        ));
        spans.push(span(propagation_from, due, (LimitName::Propagation, None)));
    }

    /// When a bare ACK of `send` would have come, had the peer not waited to let it ride on data: a round
    /// trip later, or as long after the bare ACK of the bytes before as the path needs for the rest.
    fn arrival_told_by(&self, index: usize, send: &Send) -> Time {
        let unqueued = send.at + self.rtt;
        let before = self
            .replay
            .acks_after(index)
            .iter()
            .take_while(|ack| ack.acked < send.to);
        let Some(last) = before
            .filter(|ack| ack.bare && ack.acked > ack.acked_before)
            .last()
        else {
            return unqueued;
        };
        let rest = u64::try_from(send.to - last.acked).unwrap_or(0);
        let serialisation = self.path_room.and_then(|room| {
            let nanos = self.rtt.as_nanos().checked_mul(u128::from(rest))?;
            u64::try_from(nanos.checked_div(u128::try_from(room).ok()?)?).ok()
        });
        unqueued.max(last.at + Duration::from_nanos(serialisation.unwrap_or(0)))
    }

    fn own_window(
        &self,
        growth: Growth,
        at: Time,
        flight: i64,
        regime: &mut Regime,
    ) -> (LimitName, Option<Detail>) {
        let last_repair = self.repairs.iter().rev().find(|repair| repair.from <= at);
        if let Some(repair) = last_repair
            && regime.repaired != Some(repair.from)
        {
            regime.repaired = Some(repair.from);
            regime.exponential = repair.detail == Some(Detail::Timeout);
        }
        match growth {
            Growth::Exponential if last_repair.is_none() => regime.exponential = true,
            Growth::Exponential | Growth::Unseen => {}
            Growth::Slow => regime.exponential = false,
        }
        if core::mem::take(&mut regime.paused) && flight * 4 <= regime.highest * 3 {
            //= https://www.rfc-editor.org/rfc/rfc5681#section-4.1
            //# Therefore, a TCP SHOULD set cwnd to no more than RW before beginning
            //# transmission if the TCP has not sent data in an interval exceeding
            //# the retransmission timeout.
            regime.restarted = true;
            regime.exponential = growth != Growth::Slow;
            regime.highest = 0;
        }
        regime.highest = regime.highest.max(flight);
        match (regime.exponential, last_repair) {
            (true, Some(_)) => (LimitName::SlowStart, Some(Detail::AfterTimeout)),
            (true, None) if regime.restarted => (LimitName::SlowStart, Some(Detail::AfterIdle)),
            (true, None) => (LimitName::SlowStart, Some(Detail::Initial)),
            (false, Some(_)) => (LimitName::LossLimited, None),
            (false, None) if growth::is_flat(&self.peaks, at, self.rtt, self.mss) => {
                (LimitName::SendBuffer, None)
            }
            (false, None) => (LimitName::CongestionAvoidance, Some(Detail::LowSsthresh)),
        }
    }
}

fn span(from: Time, to: Time, (limit, detail): (LimitName, Option<Detail>)) -> Span {
    Span {
        from,
        to,
        limit,
        detail,
        reason: None,
    }
}

/// What is known of the sender's congestion window so far.
#[derive(Clone, Copy, Debug)]
struct Regime {
    /// It doubles per round trip, or nothing has shown yet that it does not.
    exponential: bool,
    /// Nothing was sent for a retransmission timeout or longer.
    paused: bool,
    /// It started again after such a pause.
    restarted: bool,
    /// Largest flight of this regime.
    highest: i64,
    /// Start of the latest repair that is accounted for.
    repaired: Option<Time>,
}

impl Default for Regime {
    fn default() -> Self {
        Self {
            exponential: true,
            paused: false,
            restarted: false,
            highest: 0,
            repaired: None,
        }
    }
}

impl Regime {
    fn on_pause(&mut self, pause: Duration, rtt: Duration) {
        /// Linux: RTO = srtt + max(4 x rttvar, 200 ms) (`tcp_rtt_estimator` in `net/ipv4/tcp_input.c`).
        const RTO_MARGIN: Duration = Duration::from_millis(200);
        self.paused |= pause >= rtt + RTO_MARGIN;
    }
}
