//! Packets of full size that never arrive, while smaller ones do.

use core::time::Duration;

use connections::{Connection, Mark, Packet, Repeat, Role, Side};
use record::explain::Confidence;
use tuning::remedies::Cause;
use wire::IcmpReason;

use super::{CatalogueEntry, Found, Judged, Need, frame, severity_of};
use crate::analysis::Analysed;
use crate::text::{count, duration};

pub(super) const ENTRY: CatalogueEntry = CatalogueEntry {
    name: "pmtud-blackhole",
    meaning: "Packets of full size vanish again and again while smaller ones arrive: a link on the path \
              carries less, and the ICMP message that would say so is filtered.",
    source: "RFC 2923 §2.1 (black-hole detection), RFC 4821 (packetization-layer path MTU discovery)",
};

/// Sent once and repeated so often, without a byte of it acknowledged.
const LEAST_REPEATS: usize = 2;

/// A segment that never arrives whole.
#[derive(Clone, Debug)]
pub(crate) struct Hole {
    first: Mark,
    last: Mark,
    len: u32,
    repeats: usize,
    /// A shorter segment from the same position, which was acknowledged.
    smaller: Option<(Mark, u32)>,
    /// A router's word that the segment was too big, which the capture saw pass: with what it carries.
    told: Option<(Mark, Option<u32>)>,
    until: Duration,
}

pub(super) fn find(connections: &[Analysed]) -> Vec<Judged> {
    [Side::Client, Side::Server]
        .into_iter()
        .filter_map(|side| judge(connections, side))
        .map(|found| found.into_finding(&ENTRY))
        .collect()
}

fn judge(connections: &[Analysed], side: Side) -> Option<Found> {
    let (mut ids, mut evidence) = (Vec::new(), Vec::new());
    let (mut lost, mut total) = (Duration::ZERO, Duration::ZERO);
    let (mut proven, mut size, mut told) = (false, 0, false);
    for analysed in connections {
        let Some(hole) = &analysed.shown.sent(side).hole else {
            continue;
        };
        ids.push(analysed.id);
        lost += hole.until;
        total += analysed.connection.duration();
        proven |= hole.smaller.is_some() || hole.told.is_some();
        told |= hole.told.is_some();
        size = hole.len.max(size);
        evidence.push(frame(
            hole.first,
            format!("{} B of payload leave for the first time", hole.len),
        ));
        evidence.extend(hole.told.map(|(mark, mtu)| {
            let most = mtu.map_or_else(String::new, |mtu| format!(", at most {mtu} B go on"));
            frame(mark, format!("a router says by ICMP: packet too big{most}"))
        }));
        evidence.push(frame(
            hole.last,
            format!(
                "the same bytes again, after {}",
                count(hole.repeats, "repetition")
            ),
        ));
        evidence.extend(hole.smaller.map(|(mark, len)| {
            frame(
                mark,
                format!("from the same position only {len} B: these arrive"),
            )
        }));
    }
    if ids.is_empty() {
        return None;
    }
    Some(Found {
        severity: severity_of(lost, total),
        confidence: if proven {
            Confidence::High
        } else {
            Confidence::Medium
        },
        summary: format!(
            "segments of {size} B from the {side} never arrive while small ones do, on {}, for {}",
            count(ids.len(), "connection"),
            duration(lost)
        ),
        connections: ids,
        evidence,
        lost: Some(lost),
        remedy: if told {
            format!(
                "The routers' word reached this capture and not the {side}'s TCP: let ICMP type 3 code 4 (IPv6: \
                 Packet Too Big) pass its firewall and whatever translates addresses before it, or lower what it \
                 sends: Linux `sysctl -w net.ipv4.tcp_mtu_probing=1` (undo: `=0`)."
            )
        } else {
            format!(
                "Let ICMP type 3 code 4 (IPv6: Packet Too Big) pass towards the {side}, or lower what it sends: \
             Linux `sysctl -w net.ipv4.tcp_mtu_probing=1` (undo: `=0`), or clamp the MSS at the tunnel's \
             router (`nft add rule ... tcp flags syn tcp option maxseg size set rt mtu`)."
            )
        },
        predicted: Vec::new(),
        needs: vec![Need::new(Cause::BlackHole, side)],
    })
}

/// The first full segment that is repeated by the timer alone until something smaller passes, or nothing
/// more does. Something else of this side must have arrived, or the link is simply down.
pub(super) fn hole(connection: &Connection, side: Side) -> Option<Hole> {
    let flow = connection.flow(side);
    let full = connection.segment_payload(side);
    let of_side = |packet: &&Packet| packet.side == side && packet.len > 0;
    let repeats = flow.repeats.iter();
    let repeated = repeats.filter_map(|index| connection.packets.get(*index));
    let timed_out = |packet: &&Packet| {
        matches!(
            packet.role,
            Role::Repeated(Repeat::Timeout | Repeat::TailProbe | Repeat::Unknown)
        ) && packet.len >= full
    };
    let candidate = repeated.clone().find(timed_out)?;
    let same = |packet: &&Packet| packet.from == candidate.from && packet.len >= full;
    let again: Vec<&Packet> = repeated.filter(same).collect();
    let last = again.last().filter(|_| again.len() >= LEAST_REPEATS)?;
    let first = connection
        .packets
        .iter()
        .filter(of_side)
        .find(|packet| packet.from <= candidate.from && packet.to() > candidate.from)?;
    let acked_behind = |packet: &&Packet, position: i64| {
        packet.side != side && packet.ack.is_some_and(|ack| ack > position)
    };
    let smaller =
        connection.packets.iter().filter(of_side).find(|packet| {
            packet.from == candidate.from && packet.len < full && packet.at > last.at
        });
    let packets = connection.packets.iter();
    let arrived = packets
        .clone()
        .find(|packet| packet.at > first.at && acked_behind(packet, candidate.from));
    // A full segment that got through after all was lost like any other.
    if arrived.is_some() && smaller.is_none() {
        return None;
    }
    // The end that answers is alive, and no full segment ever arrived.
    let alive = packets
        .clone()
        .any(|packet| packet.side != side && packet.at > first.at);
    let full_before = packets
        .filter(of_side)
        .any(|packet| packet.len >= full && packet.to() <= candidate.from);
    if !alive && smaller.is_none() || full_before {
        return None;
    }
    let until = arrived.map_or(connection.last_at, |packet| packet.at);
    Some(Hole {
        first: first.mark(),
        last: last.mark(),
        len: candidate.len,
        repeats: again.len(),
        smaller: smaller.map(|packet| (packet.mark(), packet.len)),
        told: connection
            .notices
            .iter()
            .find(|notice| {
                notice.side == side && matches!(notice.reason, IcmpReason::TooBig { .. })
            })
            .map(|notice| (notice.mark, notice.mtu())),
        until: until.since(first.at),
    })
}
