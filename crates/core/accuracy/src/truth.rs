//! What held the sender back, from the simulator's books and from how the case was built.
//!
//! Nothing here comes from crate `limit`: the endpoint says which of its windows is full, the path's
//! specification says what fills it, and the log says which packets never arrived.

use core::time::Duration;

use congestion::Algorithm;
use link::Direction;
use record::LimitName;
use sim::{Held, Side};
use tcp::Hold;
use units::Time;
use wire::TcpFlags;

use crate::case::{Case, Tap, peer};
use crate::drive::Played;
use crate::tap::{Journey, Passing, delay_to_tap, heads};

/// A limit over a half-open span of the tap's time.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Label {
    pub(crate) from: Time,
    pub(crate) to: Time,
    pub(crate) limit: LimitName,
}

/// Labels without gap from the first to the last packet of `seen`.
pub(crate) fn labels(
    case: &Case,
    played: &Played,
    journeys: &[Journey],
    seen: &[Passing],
    tap: Tap,
) -> Vec<Label> {
    let (Some(first), Some(last)) = (seen.first(), seen.last()) else {
        return Vec::new();
    };
    let mut labels = Sender::new(case, played, journeys).labels();
    // What the sender does passes the tap later.
    let delay = delay_to_tap(case, tap, case.sender);
    for label in &mut labels {
        label.from += delay;
        label.to += delay;
    }
    if let Some(label) = labels.last_mut() {
        label.to = label.to.max(last.at);
    }
    // Set-up and end are spans between packets at the tap, by the vocabulary's own definition.
    let shown = |wanted: &dyn Fn(&Passing) -> bool| seen.iter().find(|p| wanted(p)).map(|p| p.at);
    let set_up = shown(&|p| {
        p.from == Side::Near && p.segment.ack.is_some() && !p.segment.flags.contains(TcpFlags::SYN)
    });
    if let Some((hello, done)) = tls(case, seen) {
        paint(&mut labels, hello, done, LimitName::TlsHandshake);
    }
    if let Some(set_up) = set_up {
        // A server's handshake ends when the last step reaches it, and that is over at the tap by then.
        for label in &mut labels {
            if label.limit == LimitName::Handshake {
                label.limit = LimitName::Application;
            }
        }
        paint(&mut labels, first.at, set_up, LimitName::Handshake);
    }
    if let Some(fin) = shown(&|p| p.segment.flags.contains(TcpFlags::FIN)) {
        let delivered = all_acknowledged(case, journeys).map_or(fin, |at| at + delay);
        paint(&mut labels, fin.max(delivered), last.at, LimitName::Closing);
    }
    labels.retain_mut(|label| {
        label.from = label.from.max(first.at);
        label.to = label.to.min(last.at);
        label.from < label.to
    });
    labels
}

/// From the Client Hello to the first change of cipher spec: the client's own in TLS 1.3, the server's in
/// a full TLS 1.2 handshake.
fn tls(case: &Case, seen: &[Passing]) -> Option<(Time, Time)> {
    let at = |kind: u8| {
        heads(case, seen).into_iter().find_map(|(from, seq, head)| {
            let first = seen
                .iter()
                .find(|p| p.from == from && p.segment.payload > 0 && p.segment.seq == seq);
            first.filter(|_| head.first() == Some(&kind)).map(|p| p.at)
        })
    };
    at(22).zip(at(20))
}

/// When the sender learned that all its data had arrived.
fn all_acknowledged(case: &Case, journeys: &[Journey]) -> Option<Time> {
    let data = journeys
        .iter()
        .filter(|j| j.from == case.sender && j.segment.payload > 0);
    let last = data.max_by_key(|j| j.sent_at)?;
    let end = last.segment.seq + last.segment.payload;
    journeys
        .iter()
        .filter(|j| j.from == peer(case.sender))
        .filter(|j| j.segment.ack.is_some_and(|ack| ack.distance_from(end) >= 0))
        .filter_map(|j| j.arrived_at)
        .min()
}

/// Lays `limit` over `[from, to)`.
fn paint(labels: &mut Vec<Label>, from: Time, to: Time, limit: LimitName) {
    if from >= to {
        return;
    }
    let mut painted = Vec::with_capacity(labels.len() + 2);
    let mut done = false;
    for label in labels.iter() {
        if label.from < from {
            painted.push(Label {
                to: label.to.min(from),
                ..*label
            });
        }
        if !done && label.to > from {
            painted.push(Label { from, to, limit });
            done = true;
        }
        if label.to > to {
            painted.push(Label {
                from: label.from.max(to),
                ..*label
            });
        }
    }
    if !done {
        painted.push(Label { from, to, limit });
    }
    *labels = painted;
}

/// The sender's own time.
struct Sender<'a> {
    case: &'a Case,
    history: &'a [Held],
    journeys: &'a [Journey],
    /// Payload that fills the path.
    product: u64,
    rtt: Duration,
    /// Spans in which something that never arrived was missed and brought again.
    losses: Vec<(Time, Time)>,
}

impl<'a> Sender<'a> {
    fn new(case: &'a Case, played: &'a Played, journeys: &'a [Journey]) -> Self {
        let way = match case.sender {
            Side::Near => Direction::Forward,
            Side::Far => Direction::Backward,
        };
        let rtt = case.path.rtt();
        let room = case.path.direction(way).line_rate();
        let room = room.and_then(|rate| rate.checked_mul(rtt));
        let mss = played.history.last().map_or(1448, |held| held.sender.mss);
        let product = room.map_or(u64::MAX, |bytes| {
            bytes.get() * u64::from(mss) / (u64::from(mss) + 52)
        });
        let mut sender = Self {
            case,
            history: &played.history,
            journeys,
            product,
            rtt,
            losses: Vec::new(),
        };
        sender.losses = sender.losses();
        sender
    }

    fn labels(&self) -> Vec<Label> {
        let mut labels: Vec<Label> = Vec::new();
        let (mut filled, mut window_met) = (false, false);
        for (index, held) in self.history.iter().enumerate() {
            let next = self.history.get(index + 1);
            let to = next.map_or(held.since, |next| next.since);
            filled |= self.is_full(held);
            window_met |= held.hold == Hold::ReceiveWindow;
            if held.hold == Hold::Propagation {
                self.in_flight(index, held.since, to, &mut labels);
            } else {
                labels.push(Label {
                    from: held.since,
                    to,
                    limit: self.limit(held, filled, window_met),
                });
            }
        }
        let lost = self.repairing();
        for &(from, to) in &self.losses {
            paint(&mut labels, from, to, lost);
        }
        labels
    }

    fn is_full(&self, held: &Held) -> bool {
        held.sender.outstanding >= self.product
    }

    const fn repairing(&self) -> LimitName {
        if self.case.path.forward.policer.is_some() {
            LimitName::Policer
        } else {
            LimitName::LossRecovery
        }
    }

    fn limit(&self, held: &Held, filled: bool, window_met: bool) -> LimitName {
        let full = self.is_full(held);
        match held.hold {
            Hold::Handshake => LimitName::Handshake,
            Hold::Closing => LimitName::Closing,
            Hold::Recovery if self.something_is_lost(held.since) => self.repairing(),
            Hold::ReceiveWindow if held.sender.outstanding == 0 => LimitName::ReceiveWindow,
            Hold::ReceiveWindow | Hold::SendBuffer | Hold::SlowStart if full => {
                LimitName::Bottleneck
            }
            Hold::ReceiveWindow => LimitName::ReceiveWindow,
            Hold::SendBuffer => LimitName::SendBuffer,
            Hold::Nagle => LimitName::NagleDelayedAck,
            Hold::Application | Hold::Propagation => LimitName::Application,
            // BBR has no threshold: it starts up until the path is full, and keeps it full.
            Hold::Pacing | Hold::SlowStart | Hold::CongestionAvoidance | Hold::Recovery
                if self.measures_the_path() =>
            {
                if self.case.path.forward.policer.is_some() && held.sender.retransmissions > 0 {
                    LimitName::Policer
                } else if filled {
                    LimitName::Bottleneck
                } else if window_met {
                    // It spreads over the round trip what the receiver's window allows.
                    LimitName::ReceiveWindow
                } else {
                    LimitName::SlowStart
                }
            }
            Hold::SlowStart => LimitName::SlowStart,
            Hold::CongestionAvoidance | Hold::Pacing | Hold::Recovery if full => {
                LimitName::Bottleneck
            }
            Hold::CongestionAvoidance | Hold::Pacing | Hold::Recovery => {
                if self.case.path.forward.policer.is_some() && held.sender.retransmissions > 0 {
                    LimitName::Policer
                } else if held.sender.retransmissions > held.sender.spurious {
                    LimitName::LossLimited
                } else {
                    LimitName::CongestionAvoidance
                }
            }
        }
    }

    const fn sending(&self) -> &tcp::Config {
        match self.case.sender {
            Side::Near => &self.case.client,
            Side::Far => &self.case.server,
        }
    }

    const fn measures_the_path(&self) -> bool {
        matches!(self.sending().algorithm, Algorithm::Bbr | Algorithm::Bbr3)
    }

    /// Everything written flies. If nothing more is written before it has arrived, that is the round trip
    /// which no design avoids, behind the queue's share; otherwise the program had nothing to send.
    fn in_flight(&self, index: usize, from: Time, to: Time, labels: &mut Vec<Label>) {
        let sent = |held: &Held| held.sender.acknowledged + held.sender.outstanding;
        let rest = self.history.get(index..).unwrap_or_default();
        let Some(now) = rest.first() else { return };
        let change = rest
            .iter()
            .find(|held| held.hold != Hold::Propagation || sent(held) > sent(now));
        let drained = change.is_none_or(|held| {
            matches!(held.hold, Hold::Application | Hold::Closing) && sent(held) <= sent(now)
        });
        if !drained {
            labels.push(Label {
                from,
                to,
                limit: LimitName::Application,
            });
            return;
        }
        let acked_at = change.map_or(to, |held| held.since);
        let end = self.arrival_known(acked_at);
        let queued_until = if self.is_full(now) {
            end.saturating_sub(self.rtt).clamp(from, to)
        } else {
            from
        };
        let end = end.clamp(queued_until, to);
        for (from, to, limit) in [
            (from, queued_until, LimitName::Bottleneck),
            (queued_until, end, LimitName::Propagation),
            (end, to, LimitName::Application),
        ] {
            if from < to {
                labels.push(Label { from, to, limit });
            }
        }
    }

    /// When a bare acknowledgment of the last data came, or would have come had it not waited for the
    /// answer on which it rides.
    fn arrival_known(&self, acked_at: Time) -> Time {
        let bare = self.journeys.iter().any(|j| {
            j.from == peer(self.case.sender)
                && j.arrived_at == Some(acked_at)
                && j.segment.payload == 0
        });
        if bare {
            return acked_at;
        }
        let arrived = self
            .journeys
            .iter()
            .filter(|j| j.from == self.case.sender && j.segment.payload > 0)
            .filter_map(|j| j.arrived_at)
            .filter(|&at| at <= acked_at)
            .max();
        let back = match self.case.sender {
            Side::Near => self.case.path.backward.one_way_delay,
            Side::Far => self.case.path.forward.one_way_delay,
        };
        arrived.map_or(acked_at, |at| (at + back).min(acked_at))
    }

    fn something_is_lost(&self, at: Time) -> bool {
        // The endpoint stays in recovery until all is acknowledged that was sent before it began.
        let reach = self.rtt * 3;
        self.losses
            .iter()
            .any(|&(from, to)| from <= at && at <= to + reach)
    }

    /// For every data packet that never arrived: from the moment at which its acknowledgment was due, or
    /// its repetition left if that was sooner, to the acknowledgment of its bytes.
    fn losses(&self) -> Vec<(Time, Time)> {
        let data: Vec<&Journey> = self
            .journeys
            .iter()
            .filter(|j| j.from == self.case.sender && j.segment.payload > 0)
            .collect();
        let mut acks: Vec<&Journey> = self
            .journeys
            .iter()
            .filter(|j| j.from == peer(self.case.sender) && j.arrived_at.is_some())
            .collect();
        acks.sort_by_key(|j| j.arrived_at);
        let mut losses: Vec<(Time, Time)> = Vec::new();
        let mut around_trip = self.rtt;
        let one_way = delay_to_tap(self.case, Tap::Receiver, self.case.sender);
        for (index, journey) in data.iter().enumerate() {
            if let Some(arrived) = journey.arrived_at {
                let queued = arrived.since(journey.sent_at).saturating_sub(one_way);
                around_trip = self.rtt + queued;
                continue;
            }
            let seq = journey.segment.seq;
            let again = data.iter().skip(index + 1).find(|j| {
                seq.distance_from(j.segment.seq) >= 0
                    && (j.segment.seq + j.segment.payload).distance_from(seq) > 0
            });
            let acked = acks
                .iter()
                .skip(acks.partition_point(|j| j.arrived_at <= Some(journey.sent_at)))
                .find(|j| j.segment.ack.is_some_and(|ack| ack.distance_from(seq) > 0))
                .and_then(|j| j.arrived_at);
            let due = journey.sent_at + around_trip;
            let from = again.map_or(due, |j| due.min(j.sent_at));
            let Some(to) = acked.filter(|to| *to > from) else {
                continue;
            };
            match losses.last_mut() {
                Some(last) if from <= last.1 => {
                    last.0 = last.0.min(from);
                    last.1 = last.1.max(to);
                }
                Some(_) | None => losses.push((from, to)),
            }
        }
        losses
    }
}
