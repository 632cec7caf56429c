//! Limits that hold a direction for a large part of its time, each with its own remedy.

use core::time::Duration;

use connections::{Connection, Side};
use limit::LimitName;
use record::explain::Confidence;
use tuning::remedies::Cause;

use super::flight::Row;
use super::{CatalogueEntry, Found, Judged, Need, flight, severity_of};
use crate::analysis::{Analysed, Complete, Direction};
use crate::text::{duration, rounded};

pub(super) const POLICER: CatalogueEntry = CatalogueEntry {
    name: "policer",
    meaning: "Something on the path drops what exceeds a rate instead of queueing it: losses come in dense \
              bursts at one rate, while round trips stay as short as ever.",
    source: "Flach et al., An Internet-Wide Analysis of Traffic Policing (SIGCOMM 2016), §3.1",
};

pub(super) const LOSS_LIMITED: CatalogueEntry = CatalogueEntry {
    name: "loss-limited",
    meaning: "Losses come so often that the congestion window stays too small to fill the path in between.",
    source: "RFC 5681 §3.1; Mathis et al., The Macroscopic Behavior of the TCP Congestion Avoidance \
             Algorithm (CCR 1997)",
};

pub(super) const SEND_BUFFER: CatalogueEntry = CatalogueEntry {
    name: "send-buffer",
    meaning: "What flies stays flat below the receiver's window and below what the path carries, without a \
              loss: the sender's socket buffer is full.",
    source: "Linux net.ipv4.tcp_wmem and SO_SNDBUF, sk_stream_is_writeable() in include/net/sock.h",
};

pub(super) const NAGLE: CatalogueEntry = CatalogueEntry {
    name: "nagle-delayed-ack",
    meaning: "A short segment waits for the ACK of the one before it, and the peer delays that ACK: written \
              in two pieces, a message costs a timer of 40 to 200 ms.",
    source: "RFC 9293 §3.7.4 (Nagle), RFC 9293 §3.8.6.3 (delayed ACK)",
};

pub(super) const PATH_FULL: CatalogueEntry = CatalogueEntry {
    name: "path-full",
    meaning: "The path's capacity is reached: as much arrives per round trip as it carries, and more in \
              flight only waits in its queue.",
    source: "Cardwell et al., BBR: Congestion-Based Congestion Control (ACM Queue 2016); RFC 8085 §3.1.1",
};

/// A limit that a finding speaks of.
struct Kind {
    entry: CatalogueEntry,
    limit: LimitName,
    /// Whether its time is lost, or merely where it went.
    costs: bool,
    summary: fn(Side, &Direction, Duration) -> String,
    remedy: fn(Side) -> String,
    /// Where the remedy belongs.
    needs: fn(Side) -> Vec<Need>,
}

const KINDS: [Kind; 5] = [
    Kind {
        entry: POLICER,
        limit: LimitName::Policer,
        costs: true,
        summary: |side, _, held| {
            format!(
                "a policer drops what the {side} sends beyond its rate: {} went into its losses, their \
                 repair and windows that stay small after them, and nothing ever queued",
                duration(held)
            )
        },
        remedy: |side| {
            format!(
                "Ask the network's operator for a shaper (a queue) in place of the policer, or for a larger \
                 burst; until then pace the {side} below the rate: a `bbr` profile, or on Linux \
                 `sysctl -w net.ipv4.tcp_congestion_control=bbr` (undo: the value that `sysctl -n \
                 net.ipv4.tcp_congestion_control` shows now)."
            )
        },
        needs: |side| vec![Need::new(Cause::Loss, side)],
    },
    Kind {
        entry: LOSS_LIMITED,
        limit: LimitName::LossLimited,
        costs: true,
        summary: |side, _, held| {
            format!(
                "between losses the {side}'s congestion window stayed too small to fill the path, for {}",
                duration(held)
            )
        },
        remedy: |side| {
            format!(
                "Find where packets are lost (a duplex mismatch, a bad cable, radio, an overrun queue: compare \
                 error counters hop by hop). Where the loss cannot be removed, let the {side} use a controller \
                 that is not held by single losses (Linux: `sysctl -w \
                 net.ipv4.tcp_congestion_control=bbr`, undo with the value shown now), or a pair of relays with \
                 the profile `wan` across the lossy part."
            )
        },
        needs: |side| vec![Need::new(Cause::Loss, side)],
    },
    Kind {
        entry: SEND_BUFFER,
        limit: LimitName::SendBuffer,
        costs: true,
        summary: |side, _, held| {
            format!(
                "the {side}'s socket buffer was full for {}: what flies stayed flat below the window and \
                 below what the path carries, without a loss",
                duration(held)
            )
        },
        remedy: |side| {
            format!(
                "Give the {side} a send buffer of at least rate x RTT: take a fixed SO_SNDBUF out of the \
                 application, and on Linux raise the third value of net.ipv4.tcp_wmem (`sysctl -w \
                 net.ipv4.tcp_wmem='4096 16384 16777216'`, undo with the values that `sysctl -n \
                 net.ipv4.tcp_wmem` shows now); on AIX `no -o tcp_sendspace=BYTES` (undo: `no -d \
                 tcp_sendspace`); or put a relay next to it."
            )
        },
        needs: |side| vec![Need::new(Cause::SendBuffer, side)],
    },
    Kind {
        entry: NAGLE,
        limit: LimitName::NagleDelayedAck,
        costs: true,
        summary: |side, _, held| {
            format!(
                "short segments from the {side} waited for ACKs that the {} delayed, for {} in all",
                side.peer(),
                duration(held)
            )
        },
        remedy: |side| {
            format!(
                "Let the {side} write each message with one call (`writev`, a buffered stream), or set \
                 TCP_NODELAY on its sockets."
            )
        },
        needs: |side| vec![Need::new(Cause::SmallWrites, side.peer())],
    },
    Kind {
        entry: PATH_FULL,
        limit: LimitName::Bottleneck,
        costs: false,
        summary: |side, direction, held| {
            let rate = direction.attribution.path_rate.rate.ok().map(rounded);
            let rate = rate.map_or_else(String::new, |rate| format!(" of about {rate}"));
            format!(
                "the path{rate} was full with what the {side} sent, for {}: no setting of either host \
                 makes this part faster",
                duration(held)
            )
        },
        remedy: |_| {
            "A path of a higher rate, or fewer bytes (compression, deltas). If round trips of others suffer, \
             an active queue (fq_codel, CAKE) at the bottleneck."
                .into()
        },
        needs: |_| Vec::new(),
    },
];

pub(super) fn find(connections: &[Analysed]) -> Vec<Judged> {
    let judge = |kind: &Kind| {
        [Side::Client, Side::Server]
            .into_iter()
            .filter_map(|side| judge(connections, side, kind))
            .map(|found| found.into_finding(&kind.entry))
            .collect::<Vec<_>>()
    };
    KINDS.iter().flat_map(judge).collect()
}

/// What nobody waits for.
const LOCAL: Duration = Duration::from_millis(100);

/// Below a fifth of the transfer it is not what to look at first.
pub(super) fn is_worth_a_look(held: Duration, busy: Duration) -> bool {
    held >= LOCAL && held * 5 >= busy
}

/// For each limit that a finding may speak of, the flight of `side` in its longest span.
pub(super) fn longest(
    connection: &Connection,
    side: Side,
    direction: &Complete,
) -> Box<[(LimitName, Box<[Row]>)]> {
    let attribution = &direction.attribution;
    let Some((first, last)) = attribution.busy else {
        return Box::default();
    };
    let limits = attribution.limits();
    let worth = KINDS.iter().map(|kind| kind.limit).filter(|limit| {
        let held = limits.get(limit).copied().unwrap_or_default();
        is_worth_a_look(held, last.since(first))
    });
    worth
        .filter_map(|limit| {
            let spans = attribution.spans.iter();
            let same = spans.filter(|span| span.limit == limit);
            let longest = same.max_by_key(|span| span.to.since(span.from))?;
            Some((limit, flight::rows(connection, side, longest.from)))
        })
        .collect()
}

fn judge(connections: &[Analysed], side: Side, kind: &Kind) -> Option<Found> {
    let mut ids = Vec::new();
    let (mut lost, mut busy) = (Duration::ZERO, Duration::ZERO);
    let mut worst: Option<(Duration, &Analysed)> = None;
    for analysed in connections {
        let attribution = &analysed.direction(side).attribution;
        let Some((first, last)) = attribution.busy else {
            continue;
        };
        let held = attribution.held(kind.limit);
        if !is_worth_a_look(held, last.since(first)) {
            continue;
        }
        ids.push(analysed.id);
        lost += held;
        busy += last.since(first);
        if worst.is_none_or(|(most, _)| held > most) {
            worst = Some((held, analysed));
        }
    }
    let (_, analysed) = worst?;
    let direction = analysed.direction(side);
    let held = analysed.shown.sent(side).held.iter();
    let (_, rows) = held.clone().find(|(limit, _)| *limit == kind.limit)?;
    Some(Found {
        severity: if kind.costs {
            severity_of(lost, busy)
        } else {
            record::explain::Severity::Info
        },
        confidence: Confidence::Medium,
        summary: (kind.summary)(side, direction, lost),
        connections: ids,
        evidence: flight::table(rows),
        lost: kind.costs.then_some(lost),
        remedy: (kind.remedy)(side),
        predicted: Vec::new(),
        needs: (kind.needs)(side),
    })
}
