//! Why a sender did not send its next byte at once.

use core::time::Duration;

use units::{Rate, Time};

use crate::attribution::Span;
use crate::growth::{self, Growth};
use crate::replay::{Ack, Replay, Send};
use crate::{Detail, LimitName, Reason, Timeline, WindowField};

/// A span for every wait between sends of new data. What is left out is time in which the sender had
/// nothing to send.
pub(crate) fn spans(
    timeline: &Timeline,
    replay: &Replay,
    path_rate: Option<Rate>,
    repairs: &[Span],
) -> Vec<Span> {
    match (timeline.blind, timeline.base_rtt) {
        (Some(Reason::Filtered), Some(rtt)) => filtered(timeline, replay, rtt),
        (Some(_), _) => Vec::new(),
        (None, Some(rtt)) => Judge::new(timeline, replay, rtt, path_rate, repairs).spans(),
        (None, None) if replay.sends.is_empty() => Vec::new(),
        (None, None) => vec![Span {
            from: timeline.from,
            to: timeline.to,
            limit: LimitName::Unknown,
            detail: None,
            reason: Some(Reason::NoRtt),
        }],
    }
}

/// Without bare ACKs: between the captured segments of one turn nothing is known; after its last one
/// comes a round trip, and then the answer's time, since answers passed the filter.
fn filtered(timeline: &Timeline, replay: &Replay, rtt: Duration) -> Vec<Span> {
    let mut spans = Vec::new();
    for (index, send) in replay.sends.iter().enumerate() {
        let next = replay.sends.get(index + 1);
        let end = next.map_or(timeline.to, |next| next.at);
        let answered = replay
            .acks_after(index)
            .iter()
            .any(|ack| ack.acked >= send.to);
        let (limit, to, reason) = if answered || next.is_none() {
            (LimitName::Propagation, (send.at + rtt).min(end), None)
        } else {
            (LimitName::Unknown, end, Some(Reason::Filtered))
        };
        spans.push(Span {
            from: send.at,
            to,
            limit,
            detail: None,
            reason,
        });
    }
    spans
}

/// Judges waits one after the other.
struct Judge<'a> {
    timeline: &'a Timeline,
    replay: &'a Replay,
    rtt: Duration,
    mss: i64,
    /// Payload bytes that fill the path at its base RTT, where its rate is known.
    path_room: Option<i64>,
    repairs: &'a [Span],
    /// How soon after an ACK a send still counts as released by it.
    reaction: Duration,
    /// Bytes in flight ahead of each ACK that released something.
    peaks: Vec<(Time, i64)>,
}

/// What a wait was, before slow and flat growth are told apart.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Verdict {
    /// A gap within a burst: the limit around it holds here too.
    Burst,
    /// Nothing to send. The round trip after the last byte is in it.
    Nothing,
    /// Held by something that is known.
    Held(LimitName, Option<Detail>),
    /// Held by the congestion window, or the send buffer.
    OwnWindow(Growth),
}

impl<'a> Judge<'a> {
    fn new(
        timeline: &'a Timeline,
        replay: &'a Replay,
        rtt: Duration,
        path_rate: Option<Rate>,
        repairs: &'a [Span],
    ) -> Self {
        /// A sender answers an ACK within this; schedulers of virtual machines take that long.
        const REACTION: Duration = Duration::from_millis(1);
        let segment = timeline.segment;
        let path_room = path_rate
            .and_then(|rate| rate.checked_mul(rtt))
            .and_then(|room| {
                let payload = u64::from(segment.payload);
                let packet = payload + u64::from(segment.headers);
                i64::try_from(
                    u128::from(room.get()) * u128::from(payload) / u128::from(packet.max(1)),
                )
                .ok()
            });
        // Away from the sender, ACK and data pass the tap with the path's jitter and queue between them.
        let reaction = if timeline.feedback_delay > REACTION {
            REACTION + timeline.feedback_delay / 10
        } else {
            slow_reaction(replay, rtt)
                .unwrap_or(REACTION)
                .max(REACTION)
                .min(rtt / 2)
        };
        Self {
            timeline,
            replay,
            rtt,
            mss: i64::from(segment.payload.max(1)),
            path_room,
            repairs,
            reaction,
            peaks: Vec::new(),
        }
    }

    fn spans(mut self) -> Vec<Span> {
        let ends = self.data_ends();
        let verdicts: Vec<Verdict> = (0..self.replay.sends.len())
            .map(|index| self.verdict(index, &ends))
            .collect();
        self.paint(&verdicts)
    }

    /// The sends after which the sender had nothing more, for a while or for good.
    fn data_ends(&self) -> Vec<Time> {
        let sends = &self.replay.sends;
        sends
            .iter()
            .enumerate()
            .filter(|(index, send)| {
                let pause = sends.get(index + 1).map(|next| next.at.since(send.at));
                let paused = pause.is_none_or(|pause| pause > self.reaction);
                let over = paused && !self.is_paced(*index);
                self.released(*index).is_none() && (over || self.drained(*index).is_some())
            })
            .map(|(_, send)| send.at)
            .collect()
    }

    /// The ACK after send `index` which covers everything sent.
    fn drained(&self, index: usize) -> Option<&'a Ack> {
        let send = self.replay.sends.get(index)?;
        self.replay
            .acks_after(index)
            .iter()
            .find(|ack| ack.acked >= send.to)
    }

    /// The bare ACK that released the send after `index`. Of several that came together (hosts take
    /// packets in batches), the first: what flew before it is what the sender was allowed.
    fn released(&self, index: usize) -> Option<&'a Ack> {
        let next = self.replay.sends.get(index + 1)?;
        let acks = self.replay.acks_after(index);
        let answered = acks.iter().any(|ack| !ack.bare);
        let released = acks
            .iter()
            .find(|ack| next.at.since(ack.at) <= self.reaction);
        released.filter(|_| !answered)
    }

    fn verdict(&mut self, index: usize, ends: &[Time]) -> Verdict {
        let Some(send) = self.replay.sends.get(index) else {
            return Verdict::Nothing;
        };
        let Some(next) = self.replay.sends.get(index + 1) else {
            return Verdict::Nothing;
        };
        if self.timer_ran_out(index, send, next) {
            return Verdict::Held(LimitName::LossRecovery, Some(Detail::Timeout));
        }
        if let Some(ack) = self.made_room(index, send, next)
            && let Some(held) = self.window_had_no_room(ack, next, send)
        {
            self.note_peak(ack);
            return held;
        }
        if self.filled_the_rest(index, next) {
            return Verdict::Held(LimitName::ReceiveWindow, Some(Detail::ZeroWindow));
        }
        let Some(ack) = self.released(index) else {
            let gap = next.at.since(send.at);
            return if gap <= self.reaction && self.drained(index).is_none() {
                Verdict::Burst
            } else if self.is_paced(index) {
                self.paced(send, ends)
            } else {
                Verdict::Nothing
            };
        };
        if let Some(held) = self.window_had_no_room(ack, next, send) {
            self.note_peak(ack);
            return held;
        }
        if self.refills_the_buffer(ack, index) {
            self.note_peak(ack);
            return if self.path_is_full(ack) {
                Verdict::Held(LimitName::Bottleneck, None)
            } else {
                Verdict::Held(LimitName::SendBuffer, None)
            };
        }
        if ack.flight_before < self.mss {
            return self.small_flight(ack, send, next);
        }
        if !self.had_data_in_hand(ack, send, next) {
            let burst = next.at.since(send.at) <= self.reaction;
            return if burst {
                Verdict::Burst
            } else {
                Verdict::Nothing
            };
        }
        self.note_peak(ack);
        if self.path_is_full(ack) {
            return Verdict::Held(LimitName::Bottleneck, None);
        }
        Verdict::OwnWindow(self.growth_after(ack.at, next.at, ends))
    }

    /// Growth over the round trip after `at`, or until the data behind `sent_at` ends.
    fn growth_after(&self, at: Time, sent_at: Time, ends: &[Time]) -> Growth {
        let data_ends = ends
            .get(ends.partition_point(|end| *end < sent_at))
            .copied()
            .unwrap_or(Time::MAX);
        growth::after(self.replay, at, self.rtt, data_ends, self.mss)
    }

    /// Full segments follow each other within a fraction of the round trip while data flies, and no ACK
    /// lets them out: a timer does, the sender's (pacing: BBR, fq, `SO_MAX_PACING_RATE`) or the
    /// application's.
    fn is_paced(&self, index: usize) -> bool {
        let sends = &self.replay.sends;
        let (Some(send), Some(next)) = (sends.get(index), sends.get(index + 1)) else {
            return false;
        };
        let full = |send: &Send| (send.to - send.from) % self.mss == 0;
        let soon = next.at.since(send.at) <= self.rtt / 4;
        soon && full(send) && full(next) && self.drained(index).is_none()
    }

    /// A pacing rate follows the congestion window, and an application's does not: it doubles per round
    /// trip in slow start. A steady rate says nothing of whose timer it is.
    fn paced(&self, send: &Send, ends: &[Time]) -> Verdict {
        match self.growth_after(send.at, send.at, ends) {
            _ if self.delivers_all(send.at) => Verdict::Held(LimitName::Bottleneck, None),
            // A pacer spreads over the round trip what the window allows.
            Growth::Slow | Growth::Unseen if self.pressed_the_window(send.at) => {
                Verdict::Held(LimitName::ReceiveWindow, Some(Detail::Static))
            }
            Growth::Exponential => Verdict::OwnWindow(Growth::Exponential),
            Growth::Slow | Growth::Unseen => Verdict::Nothing,
        }
    }

    /// A sender with data in hand keeps as much in flight as it may, and sends full segments. Half of the
    /// flight is left to segmentation offload, which waits for a larger piece (`tcp_tso_should_defer`);
    /// a short segment is let pass where writes without Nagle's algorithm cut the stream, if as much
    /// flew as ever and the ACK let a full segment out.
    fn had_data_in_hand(&self, ack: &Ack, send: &Send, next: &Send) -> bool {
        let recent = self.recent_peak(ack.at);
        let full = (send.to - send.from) % self.mss == 0;
        let cut_by_writes =
            ack.flight_before >= recent.max(4 * self.mss) && next.to - next.from >= self.mss;
        (full || cut_by_writes) && (ack.flight_before * 2 >= recent || self.repaired_lately(ack.at))
    }

    /// A repair was under way within the last round trip: what SACK had reported still counted as flying,
    /// so that peaks of the flight say nothing.
    fn repaired_lately(&self, at: Time) -> bool {
        let since = at.saturating_sub(self.rtt);
        self.repairs
            .iter()
            .rev()
            .find(|span| span.from <= at)
            .is_some_and(|span| span.to >= since)
    }

    /// After a long silence one full segment comes alone, and the next ones as soon as it is acknowledged:
    /// a retransmission timer ran out, although the capture shows no repetition. What was lost never came
    /// to the tap. Or what comes jumps over bytes which are repeated later. A program that pauses leaves its sender a restart window of more than one segment.
    fn timer_ran_out(&self, index: usize, send: &Send, next: &Send) -> bool {
        //= https://www.rfc-editor.org/rfc/rfc5681#section-3.1
        //# Furthermore, upon a timeout (as specified in [RFC2988]) cwnd MUST be
        //# set to no more than the loss window, LW, which equals 1 full-sized
        //# segment (regardless of the value of IW).
        /// Linux never waits less (`TCP_RTO_MIN`).
        const LEAST: Duration = Duration::from_millis(200);
        let Some(after) = self.replay.sends.get(index + 2) else {
            return false;
        };
        let silent = next.at.since(send.at) >= LEAST.max(self.rtt + self.rtt / 4);
        let full = next.to - next.from == self.mss;
        let alone = after.at.since(next.at) * 4 >= self.rtt * 3;
        let jumped = || {
            let hole = send.to..next.from;
            let repeats = &self.replay.repeats;
            repeats.iter().any(|repeat| hole.contains(&repeat.from))
        };
        if silent && jumped() {
            return true;
        }
        silent
            && full
            && alone
            && self.released(index + 1).is_some()
            && self
                .peaks
                .last()
                .is_some_and(|(_, flight)| *flight >= 4 * self.mss)
    }

    /// A short segment that ends exactly at the window's edge, long after the ACK that put it there: the
    /// sender waited for room for a full one, until its patience was over.
    fn filled_the_rest(&self, index: usize, next: &Send) -> bool {
        //= https://www.rfc-editor.org/rfc/rfc9293#section-3.8.6.2.1
        //# (3) or if at least a fraction Fs of the maximum window can be sent,
        let before = self.replay.acks_after(index).last();
        let Some(ack) = before.filter(|ack| next.at.since(ack.at) > self.reaction) else {
            return false;
        };
        let edge = ack
            .window
            .map(|window| ack.acked.saturating_add_unsigned(window));
        next.to - next.from < self.mss && edge == Some(next.to)
    }

    /// The flight fell to two thirds of what it was while ACKs let nothing go, and then rises to the same
    /// height at one stroke: a full socket buffer wakes its program when a third of it is free (Linux
    /// `sk_stream_is_writeable`).
    fn refills_the_buffer(&self, ack: &Ack, index: usize) -> bool {
        let since = ack.at.saturating_sub(self.rtt + self.rtt / 8);
        let first = self.replay.acks.partition_point(|other| other.at < since);
        let before = self.replay.acks.iter().skip(first);
        let recent = before
            .take_while(|other| other.at <= ack.at)
            .map(|other| other.flight_before)
            .max()
            .unwrap_or(0);
        if recent < 8 * self.mss || ack.flight_before * 5 > recent * 4 {
            return false;
        }
        // What this ACK let go, up to the next one.
        let counts = &self.replay.acks_before_send;
        let Some(count) = counts.get(index + 1) else {
            return false;
        };
        let released = counts
            .iter()
            .skip(index + 1)
            .take_while(|other| *other == count)
            .count();
        let sent_to = self
            .replay
            .sends
            .get(index + released)
            .map_or(0, |send| send.to);
        let flight = sent_to - ack.acked;
        (flight - recent).abs() * 10 <= recent
    }

    /// The ACK that made room for `next`, if there was none behind `send`, and `next` followed soon
    /// compared with the stall: on a short path a tenth of a stall is many round trips.
    fn made_room(&self, index: usize, send: &Send, next: &Send) -> Option<&'a Ack> {
        let wanted = (next.to - next.from).min(self.mss);
        let opened = self.replay.acks_after(index).iter().find(|ack| {
            let had_room = ack
                .edge_before
                .is_none_or(|edge| edge.saturating_sub(send.to) >= wanted);
            let has_room = ack
                .window
                .map(|window| ack.acked.saturating_add_unsigned(window))
                .is_some_and(|edge| edge.saturating_sub(send.to) >= wanted);
            !had_room && has_room
        })?;
        let patience = self.reaction.max(opened.at.since(send.at) / 10);
        (next.at.since(opened.at) <= patience).then_some(opened)
    }

    fn window_had_no_room(&self, ack: &Ack, next: &Send, send: &Send) -> Option<Verdict> {
        let room = ack.edge_before?.saturating_sub(send.to);
        // Case B of the field: a window of 4096 bytes holds two segments of 1448; the third has no room,
        // although the window is never "full".
        let wanted = (next.to - next.from).min(self.mss);
        if room >= wanted {
            return None;
        }
        // No queue closes a window: its reader does.
        if ack.window_before != Some(0) && self.path_is_full(ack) {
            // The window is full only because the queue holds it: without the queue it would carry more
            // than the path.
            return Some(Verdict::Held(LimitName::Bottleneck, None));
        }
        let window = ack.window_before?;
        let detail = if window == 0 {
            Detail::ZeroWindow
        } else if self.timeline.window == WindowField::Unscaled && window > 50_000 {
            Detail::NoScaling
        } else if self.window_grew(ack) {
            Detail::Growing
        } else {
            Detail::Static
        };
        Some(Verdict::Held(LimitName::ReceiveWindow, Some(detail)))
    }

    /// Whether the window is more than a twentieth larger a round trip later.
    fn window_grew(&self, ack: &Ack) -> bool {
        let (Some(before), Some(mut after)) = (ack.window_before, ack.window) else {
            return false;
        };
        let until = ack.at + self.rtt;
        let from = self.replay.acks.partition_point(|other| other.at < ack.at);
        for later in self
            .replay
            .acks
            .iter()
            .skip(from)
            .take_while(|later| later.at <= until)
        {
            after = after.max(later.window.unwrap_or(0));
        }
        after > before.saturating_add(before / 20)
    }

    /// Less than a segment flew, and the sender waited for its ACK all the same: Nagle's algorithm
    /// (RFC 9293 §3.7.4), if both pieces are small.
    fn small_flight(&self, ack: &Ack, send: &Send, next: &Send) -> Verdict {
        /// What a peer must add to the RTT before its ACK counts as delayed; Linux delays by 40 ms and
        /// more, Windows by 40 to 200 ms.
        const DELAYED: Duration = Duration::from_millis(20);
        let small = next.to - next.from < self.mss && send.to - send.from < self.mss;
        let waited = ack.at.since(send.at);
        if small && waited >= self.rtt + DELAYED {
            return Verdict::Held(LimitName::NagleDelayedAck, None);
        }
        Verdict::Nothing
    }

    fn recent_peak(&self, at: Time) -> i64 {
        let since = at.saturating_sub(self.rtt);
        let repaired = self
            .repairs
            .iter()
            .rev()
            .map(|span| span.to)
            .find(|end| *end <= at)
            .unwrap_or_default();
        self.peaks
            .iter()
            .rev()
            .take_while(|(peak_at, _)| *peak_at >= since && *peak_at >= repaired)
            .map(|(_, flight)| *flight)
            .max()
            .unwrap_or(0)
    }

    fn note_peak(&mut self, ack: &Ack) {
        self.peaks.push((ack.at, ack.flight_before));
    }

    /// As much flies as the path carries, and round trips are longer for it; or as much arrives per round
    /// trip as the path carries.
    fn path_is_full(&self, ack: &Ack) -> bool {
        if self.delivers_all(ack.at) {
            return true;
        }
        match self.path_room {
            Some(room) => {
                let Some(rtt) = ack.rtt.or_else(|| self.replay.rtt_before(ack.at)) else {
                    return false;
                };
                let queue = rtt.saturating_sub(self.rtt);
                let queued = queue > self.rtt / 50 && queue > Duration::from_micros(500);
                queued && ack.flight_before >= room
            }
            // Without a rate, only a queue as long as half the path says so by itself.
            None => self
                .standing_queue(ack)
                .is_some_and(|queue| queue > self.rtt / 2 && queue > Duration::from_millis(5)),
        }
    }

    /// What every round trip of the last one took beyond the path's own; one alone may be a delayed ACK.
    fn standing_queue(&self, ack: &Ack) -> Option<Duration> {
        const SAMPLES: usize = 3;
        let since = ack.at.saturating_sub(self.rtt);
        let first = self.replay.acks.partition_point(|other| other.at < since);
        let recent = self.replay.acks.iter().skip(first);
        let samples: Vec<Duration> = recent
            .take_while(|other| other.at <= ack.at)
            .filter_map(|other| other.rtt)
            .collect();
        let least = samples.iter().min().filter(|_| samples.len() >= SAMPLES)?;
        Some(least.saturating_sub(self.rtt))
    }

    /// At some moment of the last round trip the receiver's window had no room for two more segments.
    fn pressed_the_window(&self, at: Time) -> bool {
        let from = at.saturating_sub(self.rtt);
        growth::meets_the_edge(self.replay, from, at, self.mss * 2)
    }

    /// As much arrived over the last round trip as the path carries.
    fn delivers_all(&self, at: Time) -> bool {
        let acked = |at| self.replay.acked_to(at).unwrap_or(0);
        let arrived = acked(at) - acked(at.saturating_sub(self.rtt));
        // Delayed ACKs leave a segment or two to the next round trip.
        self.path_room
            .is_some_and(|room| room >= 8 * self.mss && (arrived + self.mss) * 20 >= room * 19)
    }

    fn paint(&self, verdicts: &[Verdict]) -> Vec<Span> {
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

/// How long this sender takes to answer an ACK, if it is slow but steady (old hosts, loaded ones): three
/// quarters of its answers come sooner, and well before the next ACK, so that it is no coincidence.
fn slow_reaction(replay: &Replay, rtt: Duration) -> Option<Duration> {
    let mut answers = Vec::new();
    let mut spacings = Vec::new();
    for (send, &count) in replay.sends.iter().zip(&replay.acks_before_send) {
        let ahead = replay.acks.get(..count)?;
        let [.., before, last] = ahead else { continue };
        // Only the first send behind an ACK answers it.
        if answers
            .last()
            .is_some_and(|(answered, _): &(usize, Duration)| *answered == count)
        {
            continue;
        }
        answers.push((count, send.at.since(last.at)));
        spacings.push(last.at.since(before.at));
    }
    let mut answers: Vec<Duration> = answers.into_iter().map(|(_, answer)| answer).collect();
    answers.sort_unstable();
    spacings.sort_unstable();
    let usual = *answers.get(answers.len() * 3 / 4)?;
    let spacing = *spacings.get(spacings.len() / 2)?;
    (usual <= rtt / 50 && usual * 3 <= spacing).then(|| usual * 2)
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
