//! Segments to packets and back.

use std::net::{IpAddr, SocketAddr};

use sys::tun::VirtioHeader;
use tcp::Segment;
use units::Time;
use wire::write::{Checksum, WriteError};
use wire::{Endpoint, Host, LinkType, Observation};

use super::Key;

const TCP: u8 = 6;
/// Where the checksum field is in a TCP header.
const CHECKSUM: usize = 16;

/// Writes the headers of `segment`, whose payload of full segments of `gso_size` follows elsewhere, and
/// what the device is to do: sum it, and part it where it is more than one segment.
pub(crate) fn headers(
    out: &mut Vec<u8>,
    address: IpAddr,
    key: &Key,
    segment: &Segment,
    gso_size: u32,
) -> Result<VirtioHeader, WriteError> {
    out.clear();
    let source = endpoint(SocketAddr::new(address, key.port));
    let destination = endpoint(key.peer);
    let observed = segment.observation(Time::ZERO, 0, source, destination, &[]);
    wire::write::segment(out, &observed)?;
    let start = if address.is_ipv4() { 20 } else { 40 };
    let transport = u32::try_from(out.len() - start).unwrap_or(u32::MAX);
    let length = transport.saturating_add(segment.payload);
    let partial = pseudo_header(address, key.peer.ip(), length);
    if let Some(field) = out.get_mut(start + CHECKSUM..start + CHECKSUM + 2) {
        field.copy_from_slice(&partial.to_be_bytes());
    }
    let short = |value: usize| u16::try_from(value).unwrap_or(u16::MAX);
    let mut header = VirtioHeader {
        flags: VirtioHeader::NEEDS_CHECKSUM,
        checksum_start: short(start),
        checksum_offset: short(CHECKSUM),
        ..VirtioHeader::PLAIN
    };
    if segment.payload > gso_size {
        header.gso_type = if address.is_ipv4() { 1 } else { 4 };
        header.header_len = short(out.len());
        header.gso_size = u16::try_from(gso_size).unwrap_or(u16::MAX);
    }
    Ok(header)
}

/// The sum of the pseudo-header, folded and not complemented, as partial checksums want it.
fn pseudo_header(source: IpAddr, destination: IpAddr, length: u32) -> u16 {
    let mut sum = Checksum::default();
    for address in [source, destination] {
        match address {
            IpAddr::V4(address) => sum.add(&address.octets()),
            IpAddr::V6(address) => sum.add(&address.octets()),
        }
    }
    sum.add(&length.to_be_bytes());
    sum.add(&[0, TCP]);
    !sum.finish()
}

/// A segment for `address` with the connection it belongs to, and where its payload is; `None` for
/// everything else, and for what was damaged on the way.
pub(crate) fn parse(
    header: VirtioHeader,
    packet: &[u8],
    address: IpAddr,
) -> Option<(Key, Segment, &[u8])> {
    let length = u32::try_from(packet.len()).ok()?;
    let Ok(Observation::Tcp(seen)) = wire::decode(LinkType::RAW, Time::ZERO, 0, packet, length)
    else {
        return None;
    };
    let (Host::Ip(source), Host::Ip(destination)) = (seen.source.host, seen.destination.host)
    else {
        return None;
    };
    if destination != address || seen.payload.len() != usize::try_from(seen.payload_len).ok()? {
        return None;
    }
    // A packet that never left this machine is not summed yet.
    if header.flags & VirtioHeader::NEEDS_CHECKSUM == 0 && !intact(packet, source, destination) {
        return None;
    }
    let key = Key {
        port: seen.destination.port,
        peer: SocketAddr::new(source, seen.source.port),
    };
    Some((key, Segment::observed(&seen), seen.payload))
}

/// Whether the checksum holds. IPv6 extension headers do not occur before TCP here.
fn intact(packet: &[u8], source: IpAddr, destination: IpAddr) -> bool {
    let start = match packet.first() {
        Some(first) if first >> 4 == 4 => usize::from(first & 0x0f) * 4,
        Some(_) => 40,
        None => return false,
    };
    let Some(transport) = packet.get(start..) else {
        return false;
    };
    let length = u32::try_from(transport.len()).unwrap_or(u32::MAX);
    let mut sum = Checksum::default();
    sum.add(&pseudo_header(source, destination, length).to_be_bytes());
    sum.add(transport);
    sum.finish() == 0
}

const fn endpoint(address: SocketAddr) -> Endpoint<'static> {
    Endpoint {
        host: Host::Ip(address.ip()),
        port: address.port(),
    }
}
