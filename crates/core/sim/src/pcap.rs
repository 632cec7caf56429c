//! The simulated wire as a file that every analyser opens.

use std::net::SocketAddr;

use capture::{Interface, Section, Writer};
use tcp::EcnCodepoint;
use units::Time;
use wire::{Endpoint, Host, LinkType};

use crate::world::{ConnectionId, LogEntry, Side, Way};

/// A connection as a host sees it.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Ends {
    /// Address of the end that opened it.
    pub near: SocketAddr,
    /// Address of the end that was connected to.
    pub far: SocketAddr,
    /// At which of the two the capture is taken.
    pub at: Side,
}

/// Bytes kept of each packet: its headers. A simulated payload has a length and no content.
const HEADERS: u32 = 128;
/// Time zero of a simulation in captures: 2020-01-01T00:00:00Z, so that no analyser takes the file for one
/// without a clock.
const EPOCH_NS: u64 = 1_577_836_800_000_000_000;

/// What a capture on one host's interface would hold of `log`, as pcapng: `ends` says which connections
/// pass there, and as whose. Times are those at which segments leave or arrive, after the path.
pub fn pcapng(log: &[LogEntry], ends: impl Fn(ConnectionId) -> Option<Ends>) -> Vec<u8> {
    let mut out = Vec::new();
    let section = Section {
        os: "simulated".to_owned(),
        application: "longhaul simulate".to_owned(),
        ..Section::default()
    };
    let mut writer = Writer::new(&mut out, &section);
    let interface = Interface {
        name: "sim0".to_owned(),
        link: LinkType::RAW,
        snaplen: HEADERS,
    };
    let interface = writer.interface(&mut out, &interface);
    let mut packet = Vec::new();
    let mut frame = 0;
    // Each direction counts its packets as hosts do, so that copies and repetitions can be told apart.
    let mut numbers = [0_u16; 2];
    for entry in log {
        let Some(ends) = ends(entry.connection).filter(|ends| ends.at == entry.side) else {
            continue;
        };
        let outgoing = entry.way == Way::Sent;
        let (source, destination) = if outgoing == (ends.at == Side::Near) {
            (ends.near, ends.far)
        } else {
            (ends.far, ends.near)
        };
        let number = &mut numbers[usize::from(outgoing)];
        *number = number.wrapping_add(1);
        frame += 1;
        let segment = &entry.segment;
        let observed = segment.observation(
            entry.at,
            frame,
            endpoint(source),
            endpoint(destination),
            &[],
        );
        let observed = wire::Segment {
            ip_id: Some(*number),
            ttl: Some(64),
            ecn: Some(EcnCodepoint::bits(segment.ecn)),
            ..observed
        };
        packet.clear();
        // Addresses are numbers of one family and options are those of an endpoint: always writable.
        if let Ok(length) = wire::write::segment(&mut packet, &observed) {
            let at = Time::from_nanos(EPOCH_NS.saturating_add(entry.at.as_nanos()));
            writer.packet(&mut out, interface, at, &packet, length);
        }
    }
    out
}

const fn endpoint(address: SocketAddr) -> Endpoint<'static> {
    Endpoint {
        host: Host::Ip(address.ip()),
        port: address.port(),
    }
}
