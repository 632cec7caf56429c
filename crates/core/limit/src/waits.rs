//! Why a sender did not send its next byte at once.

mod paint;
mod path;
mod window;

use core::time::Duration;

use units::{Rate, Time};

use crate::attribution::Span;
use crate::growth::{self, Growth};
use crate::replay::{Ack, Replay, Send};
use crate::{Detail, LimitName, Reason, Timeline};

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
    /// Whether a program's pieces, and not windows, cut what is sent.
    piecewise: bool,
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
        let mss = i64::from(segment.payload.max(1));
        Self {
            timeline,
            replay,
            rtt,
            mss,
            path_room,
            repairs,
            reaction,
            piecewise: is_piecewise(replay, reaction, mss),
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
        if self.waited_for_the_peer(index, next) {
            return Verdict::Held(LimitName::Application, Some(Detail::PeerWindow));
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

    /// Much flew, and not TCP's acknowledgments let the next bytes go, but something that the peer wrote: a
    /// protocol above TCP counts for itself what may be on its way.
    fn waited_for_the_peer(&self, index: usize, next: &Send) -> bool {
        /// Less than this is conversation: a channel's window is 2 MiB, and topped up by 96 KiB and more.
        const MUCH: i64 = 64 * 1024;
        self.timeline.peer_window
            && self.replay.acks_after(index).iter().any(|ack| {
                let told = !ack.bare && next.at.since(ack.at) <= self.reaction;
                told && ack.flight_before >= MUCH
            })
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
    /// flew as ever and the ACK let a full segment out. That is a coincidence where all pieces end short: their
    /// program's timer and the ACKs of what it wrote before share one period.
    fn had_data_in_hand(&self, ack: &Ack, send: &Send, next: &Send) -> bool {
        let recent = self.recent_peak(ack.at);
        let full = (send.to - send.from) % self.mss == 0;
        let cut_by_writes = !self.piecewise
            && ack.flight_before >= recent.max(4 * self.mss)
            && next.to - next.from >= self.mss;
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

/// Whether nearly all pauses follow a short segment: a program had written no more by then. A window, or a
/// full buffer, has no regard for where writes end.
fn is_piecewise(replay: &Replay, reaction: Duration, mss: i64) -> bool {
    const LEAST: usize = 8;
    let pauses = replay.sends.windows(2).filter_map(|pair| {
        let [send, next] = pair else { return None };
        (next.at.since(send.at) > reaction).then_some(send)
    });
    let (mut all, mut short) = (0, 0);
    for send in pauses {
        all += 1;
        short += usize::from((send.to - send.from) % mss != 0);
    }
    all >= LEAST && short * 10 >= all * 9
}
