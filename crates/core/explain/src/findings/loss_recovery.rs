//! Transfers that wait for lost segments to be sent again.

use core::time::Duration;

use connections::{Connection, Mark, Packet, Repeat, Role, Side};
use limit::{Detail, LimitName, Span};
use record::explain::{Confidence, Evidence};
use tuning::remedies::Cause;

use super::held::is_worth_a_look;
use super::{CatalogueEntry, Found, Judged, Need, frame, severity_of};
use crate::analysis::{Analysed, Complete};
use crate::text::{count, duration};

pub(super) const ENTRY: CatalogueEntry = CatalogueEntry {
    name: "loss-recovery",
    meaning: "A large part of the transfer went into waiting for lost segments: for duplicate ACKs and a round \
              trip, or for the retransmission timer.",
    source: "RFC 5681 §3.2 (fast retransmit), RFC 6298 (the retransmission timer), RFC 8985 (RACK, tail loss \
             probes)",
};

/// Repairs whose frames are shown: each takes up to three.
const SHOWN: usize = 4;

/// What was repaired in one direction.
#[derive(Clone, Debug, Default)]
pub(crate) struct Repairs {
    /// Segments sent again that had not arrived, or whose ACK was lost behind the tap.
    segments: usize,
    /// The longest ones.
    longest: Box<[Shown]>,
    /// Round trips before the longest one, at their shortest and just before the loss, where a queue had lengthened them.
    queue: Option<(Duration, Duration)>,
}

#[derive(Clone, Copy, Debug)]
struct Shown {
    /// Where its bytes left first, if the capture holds it.
    lost: Option<Mark>,
    again: Mark,
    repeat: Repeat,
    len: u32,
    /// The ACK of what was sent again.
    acked: Option<Mark>,
}

pub(super) fn find(connections: &[Analysed]) -> Vec<Judged> {
    [Side::Client, Side::Server]
        .into_iter()
        .filter_map(|side| judge(connections, side))
        .map(|found| found.into_finding(&ENTRY))
        .collect()
}

fn judge(connections: &[Analysed], side: Side) -> Option<Found> {
    let (mut ids, mut segments) = (Vec::new(), 0);
    let (mut lost, mut busy) = (Duration::ZERO, Duration::ZERO);
    let mut forms = [
        (Detail::Timeout, "for the retransmission timer"),
        (Detail::FastRetransmit, "after duplicate ACKs"),
        (Detail::TailLoss, "for the ends of flights"),
    ]
    .map(|(detail, says)| (detail, says, Duration::ZERO));
    let mut worst: Option<(Duration, &Analysed)> = None;
    for analysed in connections {
        let attribution = &analysed.direction(side).attribution;
        let Some((first, last)) = attribution.busy else {
            continue;
        };
        let held = attribution.held(LimitName::LossRecovery);
        let repairs = &analysed.shown.sent(side).repairs;
        if repairs.segments == 0 || !is_worth_a_look(held, last.since(first)) {
            continue;
        }
        ids.push(analysed.id);
        segments += repairs.segments;
        lost += held;
        busy += last.since(first);
        for (detail, _, time) in &mut forms {
            *time += attribution.held_by(LimitName::LossRecovery, *detail);
        }
        if worst.is_none_or(|(most, _)| held > most) {
            worst = Some((held, analysed));
        }
    }
    let (_, analysed) = worst?;
    let repairs = &analysed.shown.sent(side).repairs;
    let connection = &analysed.connection;
    // A server answers with what it was offered.
    let without_sack = connection
        .to_server
        .syn
        .zip(connection.to_client.syn)
        .is_some_and(|(client, server)| !(client.sack_permitted && server.sack_permitted));
    forms.sort_by_key(|(_, _, time)| core::cmp::Reverse(*time));
    let parts: Vec<String> = forms
        .iter()
        .filter(|(_, _, time)| !time.is_zero())
        .map(|(_, says, time)| format!("{} {says}", duration(*time)))
        .collect();
    let queue = repairs.queue.map_or_else(String::new, |(least, before)| {
        format!(
            "; before the longest repair round trips had grown from {} to {}: a queue on the path ran over",
            duration(least),
            duration(before)
        )
    });
    let main = forms.first().map(|(detail, _, _)| *detail);
    Some(Found {
        severity: severity_of(lost, busy),
        confidence: Confidence::Medium,
        summary: format!(
            "the {side} waited {} for the repair of losses ({}); {} went again{queue}",
            duration(lost),
            parts.join(", "),
            count(segments, "segment"),
        ),
        connections: ids,
        evidence: evidence(&repairs.longest),
        lost: Some(lost),
        remedy: remedy(side, main, repairs.queue.is_some(), without_sack),
        predicted: Vec::new(),
        needs: if main == Some(Detail::FastRetransmit) {
            vec![Need::new(Cause::Loss, side)]
        } else {
            Vec::new()
        },
    })
}

fn remedy(side: Side, main: Option<Detail>, queue: bool, without_sack: bool) -> String {
    let mut text = if queue {
        "More flew than the path and its queue hold: an active queue (fq_codel, CAKE) at the bottleneck ends slow \
         start sooner, and a controller that paces (BBR) overshoots less. "
            .to_owned()
    } else {
        "Find where packets are lost (a duplex mismatch, a bad cable, radio, an overrun queue: compare error \
         counters hop by hop). "
            .to_owned()
    };
    if without_sack {
        text.push_str(
            "SACK was not agreed, so that one lost segment is repaired per round trip: see `no-sack`. ",
        );
    }
    let last = if main == Some(Detail::Timeout) {
        "A timer runs out where too few ACKs come back to show a loss, or where the repair itself is lost: SACK with \
         RACK (Linux: `sysctl net.ipv4.tcp_recovery` shows 1) repairs most of that within a round trip. Through an \
         outage no setting helps."
            .to_owned()
    } else if main == Some(Detail::TailLoss) {
        "No ACK shows that the end of a flight is lost: tail loss probes (Linux: `sysctl \
         net.ipv4.tcp_early_retrans` shows 3; they need SACK) send it again after two round trips."
            .to_owned()
    } else {
        format!(
            "Each repair takes the {side} a round trip and more: a pair of relays with the profile `wan` keeps the \
             rest of the path out of it."
        )
    };
    text.push_str(&last);
    text
}

fn evidence(longest: &[Shown]) -> Vec<Evidence> {
    let mut evidence = Vec::new();
    for shown in longest {
        let because = match shown.repeat {
            Repeat::Fast => "behind duplicate ACKs",
            Repeat::Timeout => "by the timer",
            Repeat::TailProbe => "as a tail loss probe",
            Repeat::Spurious => {
                "by the timer although they had arrived: the ACK was lost behind the capture"
            }
            Repeat::Unknown => "for a reason that does not show",
        };
        match shown.lost {
            Some(lost) => {
                evidence.push(frame(
                    lost,
                    format!("{} B leave for the first time", shown.len),
                ));
                let waited = duration(shown.again.at.since(lost.at));
                evidence.push(frame(
                    shown.again,
                    format!("sent again {waited} later, {because}"),
                ));
            }
            None => evidence.push(frame(
                shown.again,
                format!("{} B are sent again, {because}", shown.len),
            )),
        }
        evidence.extend(shown.acked.map(|acked| {
            let since = duration(acked.at.since(shown.again.at));
            frame(acked, format!("acknowledged {since} after that"))
        }));
    }
    evidence
}

/// What is to be shown of a direction in which repairs took long.
pub(super) fn repairs(connection: &Connection, side: Side, direction: &Complete) -> Repairs {
    let attribution = &direction.attribution;
    let mut spans: Vec<&Span> = attribution
        .spans
        .iter()
        .filter(|span| span.limit == LimitName::LossRecovery)
        .collect();
    let held: Duration = spans.iter().map(|span| span.to.since(span.from)).sum();
    let busy = attribution.busy.map(|(first, last)| last.since(first));
    if busy.is_none_or(|busy| !is_worth_a_look(held, busy)) {
        return Repairs::default();
    }
    // In order of time, as packets are.
    let repeats: Vec<&Packet> = connection
        .flow(side)
        .repeats
        .iter()
        .filter_map(|index| connection.packets.get(*index))
        .filter(|packet| matches!(packet.role, Role::Repeated(_)))
        .collect();
    let is_real = |packet: &&&Packet| packet.role != Role::Repeated(Repeat::Spurious);
    let first_within = |span: &Span| {
        let first = repeats.partition_point(|packet| packet.at < span.from);
        let within = || {
            let from = repeats.iter().skip(first);
            from.take_while(|packet| packet.at <= span.to)
        };
        // Where nothing was missing, the ACK was.
        within().find(is_real).or_else(|| within().next()).copied()
    };
    let unheard = spans
        .iter()
        .filter_map(|span| first_within(span))
        .filter(|packet| !is_real(&packet))
        .count();
    spans.sort_by_key(|span| core::cmp::Reverse(span.to.since(span.from)));
    let mut longest: Vec<Shown> = Vec::new();
    for span in &spans {
        let Some(packet) = first_within(span) else {
            continue;
        };
        if longest
            .iter()
            .all(|known| known.again.frame != packet.frame)
        {
            longest.extend(shown(connection, side, packet));
        }
        if longest.len() == SHOWN {
            break;
        }
    }
    let queue = longest
        .first()
        .and_then(|first| queue(connection, side, first.lost.unwrap_or(first.again)));
    Repairs {
        segments: repeats.iter().filter(is_real).count() + unheard,
        longest: longest.into(),
        queue,
    }
}

fn shown(connection: &Connection, side: Side, packet: &Packet) -> Option<Shown> {
    let Role::Repeated(repeat) = packet.role else {
        return None;
    };
    let packets = connection.packets.iter();
    let holds = |sent: &&Packet| {
        sent.side == side
            && sent.role == Role::New
            && (sent.from..sent.to()).contains(&packet.from)
            && sent.at <= packet.at
    };
    let acks = |ack: &&Packet| {
        ack.side != side && ack.at >= packet.at && ack.ack.is_some_and(|to| to >= packet.to())
    };
    Some(Shown {
        lost: packets.clone().find(holds).map(Packet::mark),
        again: packet.mark(),
        repeat,
        len: packet.len,
        acked: packets.clone().find(acks).map(Packet::mark),
    })
}

/// Whether round trips had grown when `lost` left, as they do before a queue runs over.
fn queue(connection: &Connection, side: Side, lost: Mark) -> Option<(Duration, Duration)> {
    /// A delayed ACK lengthens one sample, a queue all of them.
    const LATEST: usize = 4;
    /// Less is the noise of hosts.
    const LEAST: Duration = Duration::from_millis(2);
    let flow = connection.flow(side);
    let least = flow.least_rtt?;
    // What was measured of packets that left before the lost one.
    let before = flow.rtt.partition_point(|sample| sample.at <= lost.at);
    let latest = flow.rtt.get(before.checked_sub(LATEST)?..before)?;
    let grown = latest.iter().map(|sample| sample.rtt).min()?;
    (grown >= least * 2 && grown.saturating_sub(least) >= LEAST).then_some((least, grown))
}
