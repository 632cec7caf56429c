//! Writers: the bytes of packets whose meaning is known, with right lengths and checksums.
//!
//! What simulators and tests need to speak of packets; `decode(write(x)) == x`. Every writer appends
//! to a buffer of the caller's.

use alloc::vec::Vec;
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use crate::ip::protocol;
use crate::tcp::kind;
use crate::{Host, Segment, TcpOptions};

/// A packet that cannot be written.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
pub enum WriteError {
    /// A host is known by its name only; a packet carries addresses.
    #[error("a host without an address cannot stand in a packet")]
    NoAddress,
    /// One end has an IPv4 address, the other IPv6.
    #[error("source and destination are of different IP versions")]
    MixedVersions,
    /// The options take more than 40 bytes (RFC 9293 §3.1).
    #[error("{length} bytes of TCP options do not fit into 40")]
    OptionsTooLong {
        /// Their length in bytes.
        length: usize,
    },
    /// More than an IP packet can carry.
    #[error("{length} bytes do not fit into one IP packet")]
    TooLong {
        /// The length asked for, in bytes.
        length: usize,
    },
}

/// An Ethernet address.
pub type MacAddress = [u8; 6];

/// Appends an Ethernet header for an IPv4 or IPv6 payload, with VLAN tags from the outside in.
///
/// Two tags are written as 802.1ad: the outer with ethertype 0x88a8, the inner with 0x8100.
pub fn ethernet(
    out: &mut Vec<u8>,
    source: MacAddress,
    destination: MacAddress,
    vlans: &[u16],
    ether_type: u16,
) {
    out.extend_from_slice(&destination);
    out.extend_from_slice(&source);
    for (depth, vlan) in vlans.iter().enumerate() {
        let inner = depth + 1 == vlans.len();
        let tag: u16 = if inner { 0x8100 } else { 0x88a8 };
        out.extend_from_slice(&tag.to_be_bytes());
        out.extend_from_slice(&(vlan & 0x0fff).to_be_bytes());
    }
    out.extend_from_slice(&ether_type.to_be_bytes());
}

/// Appends `segment` as an IP packet and returns its length on the wire in bytes.
///
/// Identification, time to live and ECN default to 0, 64 and 0 where the segment does not say. Payload
/// bytes that the segment does not hold (`payload` shorter than `payload_len`) are not written and
/// count as zeros in the checksum, as in a capture cut by its snapshot length.
pub fn segment(out: &mut Vec<u8>, segment: &Segment<'_>) -> Result<u32, WriteError> {
    let options = options(&segment.options)?;
    let length = usize::try_from(segment.payload_len)
        .unwrap_or(usize::MAX)
        .saturating_add(20 + options.len());
    let (source, destination) = (
        address(segment.source.host)?,
        address(segment.destination.host)?,
    );
    let ip = Ip {
        source,
        destination,
        protocol: protocol::TCP,
        id: segment.ip_id.unwrap_or(0),
        ttl: segment.ttl.unwrap_or(64),
        ecn: segment.ecn.unwrap_or(0),
    };
    let (total, mut sum) = ip.write(out, length)?;
    let start = out.len();
    // At most 15 words of four bytes, so the data offset fits into four bits.
    let data_offset = u16::try_from(5 + options.len() / 4).unwrap_or(15) << 12;
    out.extend_from_slice(&segment.source.port.to_be_bytes());
    out.extend_from_slice(&segment.destination.port.to_be_bytes());
    out.extend_from_slice(&segment.seq.get().to_be_bytes());
    let ack = segment.ack.map_or(0, units::SeqNum::get);
    out.extend_from_slice(&ack.to_be_bytes());
    out.extend_from_slice(&(data_offset | segment.flags.bits()).to_be_bytes());
    out.extend_from_slice(&segment.window.to_be_bytes());
    out.extend_from_slice(&[0; 4]);
    out.extend_from_slice(&options);
    let payload = &segment.payload[..segment.payload.len().min(length - 20 - options.len())];
    out.extend_from_slice(payload);
    sum.add(&out[start..]);
    out[start + 16..start + 18].copy_from_slice(&sum.finish().to_be_bytes());
    Ok(total)
}

/// Appends a UDP datagram as an IP packet and returns its length on the wire in bytes.
pub fn udp(
    out: &mut Vec<u8>,
    source: SocketAddr,
    destination: SocketAddr,
    payload: &[u8],
) -> Result<u32, WriteError> {
    let ip = Ip::plain(source.ip(), destination.ip(), protocol::UDP);
    let length = payload.len().saturating_add(8);
    let (total, mut sum) = ip.write(out, length)?;
    let start = out.len();
    out.extend_from_slice(&source.port().to_be_bytes());
    out.extend_from_slice(&destination.port().to_be_bytes());
    out.extend_from_slice(&u16::try_from(length).unwrap_or(0).to_be_bytes());
    out.extend_from_slice(&[0; 2]);
    out.extend_from_slice(payload);
    sum.add(&out[start..]);
    //= https://www.rfc-editor.org/rfc/rfc768
    //# If the computed  checksum  is zero,  it is transmitted  as all ones
    let checksum = match sum.finish() {
        0 => u16::MAX,
        other => other,
    };
    out[start + 6..start + 8].copy_from_slice(&checksum.to_be_bytes());
    Ok(total)
}

/// Appends an ICMP or `ICMPv6` echo request or reply as an IP packet and returns its length in bytes.
pub fn icmp_echo(
    out: &mut Vec<u8>,
    source: IpAddr,
    destination: IpAddr,
    reply: bool,
    (id, seq): (u16, u16),
    payload: &[u8],
) -> Result<u32, WriteError> {
    let (number, kind) = match (source, reply) {
        (IpAddr::V4(_), false) => (protocol::ICMP, 8),
        (IpAddr::V4(_), true) => (protocol::ICMP, 0),
        (IpAddr::V6(_), false) => (protocol::ICMPV6, 128),
        (IpAddr::V6(_), true) => (protocol::ICMPV6, 129),
    };
    let ip = Ip::plain(source, destination, number);
    let (total, pseudo) = ip.write(out, payload.len().saturating_add(8))?;
    let start = out.len();
    out.extend_from_slice(&[kind, 0, 0, 0]);
    out.extend_from_slice(&id.to_be_bytes());
    out.extend_from_slice(&seq.to_be_bytes());
    out.extend_from_slice(payload);
    // Only ICMPv6 covers the addresses (RFC 4443 §2.3).
    let mut sum = if source.is_ipv6() {
        pseudo
    } else {
        Checksum::default()
    };
    sum.add(&out[start..]);
    out[start + 2..start + 4].copy_from_slice(&sum.finish().to_be_bytes());
    Ok(total)
}

/// The Internet checksum (RFC 1071): the one's complement sum of 16-bit words.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Checksum(u64);

impl Checksum {
    /// Adds `bytes`; an odd last byte counts as the high half of a word, so only the last call may have
    /// one.
    pub fn add(&mut self, bytes: &[u8]) {
        let words = bytes.chunks_exact(2);
        let last = words.remainder().first().map_or(0, |&b| u64::from(b) << 8);
        self.0 += words
            .map(|w| u64::from(w[0]) << 8 | u64::from(w[1]))
            .sum::<u64>()
            + last;
    }

    /// The checksum to put into a header whose checksum field counted as zero; over a packet that
    /// carries its checksum, zero means intact.
    #[must_use]
    pub fn finish(self) -> u16 {
        let mut sum = self.0;
        while sum > 0xffff {
            sum = (sum & 0xffff) + (sum >> 16);
        }
        !u16::try_from(sum).unwrap_or(u16::MAX)
    }
}

/// What an IP header of either version needs to know.
struct Ip {
    source: IpAddr,
    destination: IpAddr,
    protocol: u8,
    id: u16,
    ttl: u8,
    ecn: u8,
}

impl Ip {
    const fn plain(source: IpAddr, destination: IpAddr, protocol: u8) -> Self {
        Self {
            source,
            destination,
            protocol,
            id: 0,
            ttl: 64,
            ecn: 0,
        }
    }

    /// Appends the header for `length` bytes of payload; returns the packet's length and the sum of the
    /// pseudo-header.
    fn write(&self, out: &mut Vec<u8>, length: usize) -> Result<(u32, Checksum), WriteError> {
        let too_long = WriteError::TooLong { length };
        match (self.source, self.destination) {
            (IpAddr::V4(source), IpAddr::V4(destination)) => {
                let total = length
                    .checked_add(20)
                    .and_then(|total| u16::try_from(total).ok())
                    .ok_or(too_long)?;
                self.write_v4(out, source, destination, total);
                Ok((
                    u32::from(total),
                    self.pseudo_header(&source.octets(), &destination.octets(), total - 20),
                ))
            }
            (IpAddr::V6(source), IpAddr::V6(destination)) => {
                let payload = u16::try_from(length).map_err(|_| too_long)?;
                self.write_v6(out, source, destination, payload);
                Ok((
                    u32::from(payload) + 40,
                    self.pseudo_header(&source.octets(), &destination.octets(), payload),
                ))
            }
            _ => Err(WriteError::MixedVersions),
        }
    }

    fn write_v4(&self, out: &mut Vec<u8>, source: Ipv4Addr, destination: Ipv4Addr, total: u16) {
        let start = out.len();
        out.extend_from_slice(&[0x45, self.ecn & 3]);
        out.extend_from_slice(&total.to_be_bytes());
        out.extend_from_slice(&self.id.to_be_bytes());
        // Don't fragment, as every TCP with path MTU discovery sends.
        out.extend_from_slice(&[0x40, 0, self.ttl, self.protocol, 0, 0]);
        out.extend_from_slice(&source.octets());
        out.extend_from_slice(&destination.octets());
        let mut sum = Checksum::default();
        sum.add(&out[start..]);
        out[start + 10..start + 12].copy_from_slice(&sum.finish().to_be_bytes());
    }

    fn write_v6(&self, out: &mut Vec<u8>, source: Ipv6Addr, destination: Ipv6Addr, payload: u16) {
        out.extend_from_slice(&[0x60, (self.ecn & 3) << 4, 0, 0]);
        out.extend_from_slice(&payload.to_be_bytes());
        out.extend_from_slice(&[self.protocol, self.ttl]);
        out.extend_from_slice(&source.octets());
        out.extend_from_slice(&destination.octets());
    }

    /// RFC 9293 §3.1 and RFC 8200 §8.1; both versions add up to the same words.
    fn pseudo_header(&self, source: &[u8], destination: &[u8], length: u16) -> Checksum {
        let mut sum = Checksum::default();
        sum.add(source);
        sum.add(destination);
        sum.add(&[0, self.protocol]);
        sum.add(&length.to_be_bytes());
        sum
    }
}

const fn address(host: Host<'_>) -> Result<IpAddr, WriteError> {
    match host {
        Host::Ip(address) => Ok(address),
        Host::Name(_) => Err(WriteError::NoAddress),
    }
}

/// Options in the order and with the padding of Linux (`tcp_options_write`), a multiple of four bytes.
fn options(options: &TcpOptions) -> Result<Vec<u8>, WriteError> {
    let mut out = Vec::new();
    if let Some(mss) = options.mss {
        out.extend_from_slice(&[kind::MSS, 4]);
        out.extend_from_slice(&mss.to_be_bytes());
    }
    if options.sack_permitted {
        out.extend_from_slice(&[kind::NOP, kind::NOP, kind::SACK_PERMITTED, 2]);
    }
    if let Some(timestamps) = options.timestamps {
        out.extend_from_slice(&[kind::NOP, kind::NOP, kind::TIMESTAMPS, 10]);
        out.extend_from_slice(&timestamps.value.to_be_bytes());
        out.extend_from_slice(&timestamps.echo.to_be_bytes());
    }
    if let Some(shift) = options.window_scale {
        out.extend_from_slice(&[kind::NOP, kind::WINDOW_SCALE, 3, shift]);
    }
    let blocks = u8::try_from(options.sack.iter().count()).unwrap_or(0);
    if blocks > 0 {
        out.extend_from_slice(&[kind::NOP, kind::NOP, kind::SACK, 2 + 8 * blocks]);
        for (left, right) in options.sack.iter() {
            out.extend_from_slice(&left.get().to_be_bytes());
            out.extend_from_slice(&right.get().to_be_bytes());
        }
    }
    if out.len() > 40 {
        return Err(WriteError::OptionsTooLong { length: out.len() });
    }
    Ok(out)
}
