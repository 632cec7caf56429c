//! The simulated wire as a capture at some place holds it.

use core::time::Duration;
use std::collections::VecDeque;
use std::net::{IpAddr, Ipv4Addr};

use capture::{Interface, Section, Writer};
use link::{Direction, LossSpec};
use sim::{LogEntry, Side, Way};
use tcp::Segment;
use units::{SeqNum, Time};
use wire::{Endpoint, Host, LinkType, TcpFlags};

use crate::case::{Case, Tap, peer};

/// A packet as it passes the tap.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Passing {
    pub(crate) at: Time,
    pub(crate) from: Side,
    pub(crate) segment: Segment,
}

/// A packet on its way.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Journey {
    pub(crate) sent_at: Time,
    /// `None` where it was lost.
    pub(crate) arrived_at: Option<Time>,
    pub(crate) from: Side,
    pub(crate) segment: Segment,
}

/// Every packet with its departure and its arrival, in order of departure.
pub(crate) fn journeys(log: &[LogEntry]) -> Vec<Journey> {
    let mut journeys: Vec<Journey> = Vec::new();
    let mut open: [VecDeque<usize>; 2] = [VecDeque::new(), VecDeque::new()];
    for entry in log {
        let from = match entry.way {
            Way::Sent => entry.side,
            Way::Arrived => peer(entry.side),
        };
        let way = &mut open[usize::from(from == Side::Far)];
        match entry.way {
            Way::Sent => {
                way.push_back(journeys.len());
                journeys.push(Journey {
                    sent_at: entry.at,
                    arrived_at: None,
                    from,
                    segment: entry.segment,
                });
            }
            Way::Arrived => {
                let place = way
                    .iter()
                    .position(|&index| same(&journeys[index].segment, &entry.segment));
                if let Some(place) = place
                    && let Some(index) = way.remove(place)
                {
                    journeys[index].arrived_at = Some(entry.at);
                }
            }
        }
    }
    journeys
}

/// A congestion mark is all that a path changes.
fn same(sent: &Segment, arrived: &Segment) -> bool {
    let unmarked = Segment {
        ecn: sent.ecn,
        ..*arrived
    };
    *sent == unmarked
}

/// From one end of the path to the tap, propagation alone.
pub(crate) fn delay_to_tap(case: &Case, tap: Tap, from: Side) -> Duration {
    let way = match from {
        Side::Near => Direction::Forward,
        Side::Far => Direction::Backward,
    };
    let delay = case.path.direction(way).one_way_delay;
    match (tap, from == case.sender) {
        (Tap::Sender, true) | (Tap::Receiver, false) => Duration::ZERO,
        (Tap::Middle, _) => delay / 2,
        (Tap::Sender, false) | (Tap::Receiver, true) => delay,
    }
}

/// What passes the tap, in order of time.
pub(crate) fn passing(case: &Case, journeys: &[Journey], tap: Tap) -> Vec<Passing> {
    let mut seen = Vec::new();
    // How long the latest packet that arrived took to the tap, for those that are lost behind it.
    let mut latest = [Duration::ZERO; 2];
    for (number, journey) in journeys.iter().enumerate() {
        let way = match journey.from {
            Side::Near => Direction::Forward,
            Side::Far => Direction::Backward,
        };
        let spec = case.path.direction(way);
        let to_tap = delay_to_tap(case, tap, journey.from);
        let at_origin = to_tap.is_zero();
        let behind = spec.one_way_delay.saturating_sub(to_tap);
        let took = &mut latest[usize::from(journey.from == Side::Far)];
        let at = match journey.arrived_at {
            _ if at_origin => journey.sent_at,
            Some(arrived) => {
                let at = arrived.saturating_sub(behind).max(journey.sent_at);
                *took = at.since(journey.sent_at);
                at
            }
            // Random losses happen half on this and half on the other side of the tap; queues and
            // policers stand ahead of it.
            None if tap == Tap::Middle && spec.loss != LossSpec::None && number % 2 == 0 => {
                journey.sent_at + *took
            }
            None => continue,
        };
        seen.push(Passing {
            at,
            from: journey.from,
            segment: journey.segment,
        });
    }
    seen.sort_by_key(|passing| passing.at);
    seen
}

/// Segments joined as a host's capture sees them: handed down as one by the sender (TSO), joined by the
/// receiver's card (GRO).
pub(crate) fn offloaded(seen: &[Passing]) -> Vec<Passing> {
    /// Linux joins no more than 64 KiB, and a card waits no longer than this.
    const MOST: u32 = 65_160;
    const WAIT: Duration = Duration::from_micros(20);
    let mut joined: Vec<Passing> = Vec::new();
    for passing in seen {
        if let Some(last) = joined.last_mut()
            && last.from == passing.from
            && last.segment.payload > 0
            && passing.segment.payload > 0
            && last.segment.payload + passing.segment.payload <= MOST
            && last.segment.seq + last.segment.payload == passing.segment.seq
            && last.segment.ack == passing.segment.ack
            && passing.at.since(last.at) <= WAIT
        {
            last.segment.payload += passing.segment.payload;
            last.segment.flags = last.segment.flags.union(passing.segment.flags);
        } else {
            joined.push(*passing);
        }
    }
    joined
}

/// The packets as pcapng.
pub(crate) fn pcapng(case: &Case, seen: &[Passing]) -> Vec<u8> {
    /// Headers and what a TLS follower needs.
    const SNAPLEN: u32 = 160;
    const EPOCH_NS: u64 = 1_577_836_800_000_000_000;
    let mut out = Vec::new();
    let mut writer = Writer::new(&mut out, &Section::default());
    let interface = Interface {
        name: "sim0".to_owned(),
        link: LinkType::RAW,
        snaplen: SNAPLEN,
    };
    let interface = writer.interface(&mut out, &interface);
    let heads = heads(case, seen);
    let mut numbers = [0_u16; 2];
    let mut packet = Vec::new();
    for (frame, passing) in (1..).zip(seen) {
        let number = &mut numbers[usize::from(passing.from == Side::Far)];
        *number = number.wrapping_add(1).max(1);
        let (source, destination) = (end(passing.from), end(peer(passing.from)));
        let head = heads
            .iter()
            .find(|(from, seq, _)| (*from, *seq) == (passing.from, passing.segment.seq))
            .map_or(&[][..], |(_, _, head)| head);
        let head = if passing.segment.payload > 0 {
            head
        } else {
            &[]
        };
        let observed = wire::Segment {
            ip_id: Some(*number),
            ttl: Some(64),
            ..passing
                .segment
                .observation(passing.at, frame, source, destination, head)
        };
        packet.clear();
        if let Ok(length) = wire::write::segment(&mut packet, &observed) {
            let at = Time::from_nanos(EPOCH_NS.saturating_add(passing.at.as_nanos()));
            writer.packet(&mut out, interface, at, &packet, length);
        }
    }
    out
}

/// Where messages begin whose first bytes mean something, as sequence numbers.
pub(crate) fn heads(case: &Case, seen: &[Passing]) -> Vec<(Side, SeqNum, &'static [u8])> {
    let first_byte = |side: Side| {
        seen.iter()
            .find(|passing| passing.from == side && passing.segment.flags.contains(TcpFlags::SYN))
            .map(|passing| passing.segment.seq + 1)
    };
    let mut next = [first_byte(Side::Near), first_byte(Side::Far)];
    let mut heads = Vec::new();
    for message in &case.script {
        let next = &mut next[usize::from(message.from == Side::Far)];
        if let Some(seq) = *next {
            if !message.head.is_empty() {
                heads.push((message.from, seq, message.head));
            }
            let bytes = u32::try_from(message.bytes()).unwrap_or(u32::MAX);
            *next = Some(seq + bytes);
        }
    }
    heads
}

/// Addresses for documentation (RFC 5737).
fn end(side: Side) -> Endpoint<'static> {
    let (address, port) = match side {
        Side::Near => (Ipv4Addr::new(192, 0, 2, 1), 40_001),
        Side::Far => (Ipv4Addr::new(203, 0, 113, 1), 443),
    };
    Endpoint {
        host: Host::Ip(IpAddr::V4(address)),
        port,
    }
}
