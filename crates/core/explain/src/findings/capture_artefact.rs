//! What the capture made up, or left out.

use std::borrow::Cow;

use connections::{Connection, Mark, Role, Side};
use record::explain::{Confidence, Severity};

use super::{CatalogueEntry, Found, Judged, frame};
use crate::analysis::Analysed;
use crate::clock;
use crate::text::count;

pub(super) const ENTRY: CatalogueEntry = CatalogueEntry {
    name: "capture-artefact",
    meaning: "The capture shows something that was not on the wire, or lacks something that was: it must \
              not be read as a fault of network or hosts.",
    source: "Paxson, Automated Packet Trace Analysis of TCP Implementations (SIGCOMM 1997), §3",
};

/// Frames per kind: one would do.
const SHOWN: usize = 4;

/// A kind of artefact: whether a connection has it, what to say, what to do, and a packet that shows it.
struct Kind {
    holds: fn(&Connection) -> bool,
    says: &'static str,
    remedy: &'static str,
    shown_by: fn(&Connection) -> Option<Sight>,
}

/// A packet, and what it shows.
type Sight = (Mark, Cow<'static, str>);

/// Of each kind that a connection has, a packet that shows it; the kind holds also where there is none.
pub(crate) type Artefacts = [Option<Option<Box<Sight>>>; KINDS.len()];

const KINDS: [Kind; 7] = [
    Kind {
        holds: |connection| connection.quality.filtered,
        says: "without any bare ACK: the capture was filtered, so what released each segment, and how windows \
               grew, cannot be known",
        remedy: "Capture without a filter on flags (`tcpdump -s 128 host SERVER`).",
        shown_by: |connection| {
            let data = connection.packets.iter().find(|packet| packet.len > 0)?;
            Some((data.mark(), "data, without the ACKs around it".into()))
        },
    },
    Kind {
        holds: |connection| connection.quality.one_direction.is_some(),
        says: "seen in one direction only",
        remedy: "Capture where both directions pass, such as on the host itself.",
        shown_by: |connection| {
            let side = connection.quality.one_direction?;
            let first = connection.packets.first()?;
            Some((
                first.mark(),
                format!("only the {side}'s packets are here").into(),
            ))
        },
    },
    Kind {
        holds: |connection| {
            let handshake = &connection.handshake;
            connection.part == 0 && handshake.syn.is_none() && handshake.syn_ack.is_none()
        },
        says: "that began before the capture: options and window scale are not known",
        remedy: "Start the capture before the connection opens.",
        shown_by: |connection| {
            Some((
                connection.packets.first()?.mark(),
                "first packet, no SYN".into(),
            ))
        },
    },
    Kind {
        holds: |connection| offloaded(connection).is_some(),
        says: "with segments larger than any packet on the wire: segmentation offload on the capturing \
               host, no fault of MTU",
        remedy: "None needed: bytes and times hold, counts of packets do not.",
        shown_by: offloaded,
    },
    Kind {
        holds: |connection| connection.to_server.copies + connection.to_client.copies > 0,
        says: "with packets that the capture holds twice, seen on two interfaces or ports; they are no \
               retransmissions",
        remedy: "Capture on one interface (not `-i any` on a bridge, not both ends of a mirror).",
        shown_by: |connection| {
            let copy = connection
                .packets
                .iter()
                .find(|packet| packet.role == Role::Copy)?;
            Some((
                copy.mark(),
                "the same packet again, same IP identification".into(),
            ))
        },
    },
    Kind {
        holds: is_lossy,
        says: "of which the capture lacks data that the peer acknowledged: the capture lost it, not the network",
        remedy: "Capture less of each packet (`-s 256`), fewer of them (a filter by host), to a faster disk or with a \
                 larger buffer (`tcpdump -B 16384`), or at a mirror port that is not overrun.",
        shown_by: lacking,
    },
    Kind {
        holds: |connection| {
            connection.quality.clock_steps > 0 || clock::coarse(connection).is_some()
        },
        says: "whose clock is coarse or steps: what is shorter than its ticks, and round trips across a step, cannot be \
               told",
        remedy: "Let the capturing host stamp packets by its finest clock (`tcpdump -j adapter_unsynced` or \
                 `--time-stamp-precision=nano`), in one place, and not while its clock is set.",
        shown_by: |connection| {
            let (coarse, mark) = clock::coarse(connection)?;
            Some((mark, coarse.says().into()))
        },
    },
];

/// Whether data is missing that arrived all the same; filters and one-sided captures have kinds of their own.
fn is_lossy(connection: &Connection) -> bool {
    let quality = &connection.quality;
    let unseen = connection.to_server.unseen_bytes() + connection.to_client.unseen_bytes();
    unseen > 0 && !quality.filtered && quality.one_direction.is_none()
}

/// The first ACK of something that the capture does not hold.
fn lacking(connection: &Connection) -> Option<Sight> {
    let mut sent = [Side::Client, Side::Server].map(|side| connection.flow(side).start);
    for packet in &connection.packets {
        let [from_client, from_server] = &mut sent;
        let (own, peer) = match packet.side {
            Side::Client => (from_client, from_server),
            Side::Server => (from_server, from_client),
        };
        if packet.len > 0 && packet.role != Role::Stray {
            *own = packet.to().max(*own);
        }
        // A FIN takes one position.
        if let Some(beyond) = packet
            .ack
            .map(|ack| ack.saturating_sub(*peer))
            .filter(|beyond| *beyond > 1)
        {
            return Some((
                packet.mark(),
                format!("acknowledges {beyond} B that are not here").into(),
            ));
        }
    }
    None
}

pub(super) fn find(connections: &[Analysed]) -> Vec<Judged> {
    KINDS
        .iter()
        .enumerate()
        .filter_map(|(number, kind)| judge(connections, number, kind))
        .collect()
}

/// What the capture of one connection made up or left out.
pub(super) fn of(connection: &Connection) -> Artefacts {
    KINDS
        .each_ref()
        .map(|kind| (kind.holds)(connection).then(|| (kind.shown_by)(connection).map(Box::new)))
}

fn judge(connections: &[Analysed], number: usize, kind: &Kind) -> Option<Judged> {
    let concerned: Vec<&Analysed> = connections
        .iter()
        .filter(|analysed| analysed.shown.artefacts[number].is_some())
        .collect();
    if concerned.is_empty() {
        return None;
    }
    let found = Found {
        severity: Severity::Info,
        confidence: Confidence::High,
        summary: format!("{} {}", count(concerned.len(), "connection"), kind.says),
        connections: concerned.iter().map(|analysed| analysed.id).collect(),
        evidence: concerned
            .iter()
            .filter_map(|analysed| analysed.shown.artefacts[number].as_ref()?.as_deref())
            .map(|(mark, shows)| frame(*mark, shows.clone()))
            .take(SHOWN)
            .collect(),
        lost: None,
        remedy: kind.remedy.into(),
        predicted: Vec::new(),
        needs: Vec::new(),
    };
    Some(found.into_finding(&ENTRY))
}

fn offloaded(connection: &Connection) -> Option<Sight> {
    let fits = [Side::Client, Side::Server].map(|side| connection.segment_payload(side));
    let [to_server, to_client] = fits;
    let packet = connection.packets.iter().find(|packet| {
        let most = match packet.side {
            Side::Client => to_server,
            Side::Server => to_client,
        };
        packet.role != Role::Stray && packet.len > most
    })?;
    Some((
        packet.mark(),
        format!(
            "{} B of payload, {} fit into a packet",
            packet.len,
            connection.segment_payload(packet.side)
        )
        .into(),
    ))
}
