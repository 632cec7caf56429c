use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::DecodeError;
use crate::fragment::Place;
use crate::frame::Frame;

/// Protocol numbers (IANA "Assigned Internet Protocol Numbers").
pub(crate) mod protocol {
    pub(crate) const HOP_BY_HOP: u8 = 0;
    pub(crate) const ICMP: u8 = 1;
    pub(crate) const IPV4: u8 = 4;
    pub(crate) const TCP: u8 = 6;
    pub(crate) const UDP: u8 = 17;
    pub(crate) const IPV6: u8 = 41;
    pub(crate) const ROUTING: u8 = 43;
    pub(crate) const FRAGMENT: u8 = 44;
    pub(crate) const GRE: u8 = 47;
    pub(crate) const AUTHENTICATION: u8 = 51;
    pub(crate) const ICMPV6: u8 = 58;
    pub(crate) const DESTINATION_OPTIONS: u8 = 60;
    pub(crate) const MOBILITY: u8 = 135;
}

/// An IP packet whose transport header stands at the beginning of its payload.
pub(crate) struct Datagram {
    pub(crate) source: IpAddr,
    pub(crate) destination: IpAddr,
    pub(crate) protocol: u8,
    /// Where the IP header begins in the frame.
    pub(crate) start: usize,
    /// Where the transport header begins.
    pub(crate) transport: usize,
    /// Where the IP packet ends, whether or not that was captured.
    pub(crate) end: usize,
    pub(crate) id: Option<u16>,
    pub(crate) ttl: u8,
    pub(crate) ecn: u8,
    /// Where the packet is but a fragment: then the middle of something may stand at `transport`.
    pub(crate) place: Option<Place>,
}

#[inline]
pub(crate) fn decode_v4(frame: Frame<'_>, start: usize) -> Result<Datagram, DecodeError> {
    const MORE: u16 = 0x2000;
    const OFFSET: u16 = 0x1fff;
    let header = frame.array::<20>("IPv4 header", start)?;
    if header[0] >> 4 != 4 {
        return Err(malformed("IP version", start, 1));
    }
    let header_len = usize::from(header[0] & 0x0f) * 4;
    let total_len = usize::from(u16::from_be_bytes([header[2], header[3]]));
    if header_len < 20 || (total_len != 0 && total_len < header_len) {
        return Err(malformed("IPv4 header length", start, header_len));
    }
    let fragment = u16::from_be_bytes([header[6], header[7]]);
    let id = u16::from_be_bytes([header[4], header[5]]);
    Ok(Datagram {
        source: IpAddr::V4(Ipv4Addr::new(
            header[12], header[13], header[14], header[15],
        )),
        destination: IpAddr::V4(Ipv4Addr::new(
            header[16], header[17], header[18], header[19],
        )),
        protocol: header[9],
        start,
        transport: start + header_len,
        end: end(frame, start, total_len),
        id: Some(id),
        ttl: header[8],
        ecn: header[1] & 0x03,
        place: (fragment & (MORE | OFFSET) != 0).then(|| Place {
            id: u32::from(id),
            offset: u32::from(fragment & OFFSET) * 8,
            more: fragment & MORE != 0,
        }),
    })
}

pub(crate) fn decode_v6(frame: Frame<'_>, start: usize) -> Result<Datagram, DecodeError> {
    let header = frame.array::<40>("IPv6 header", start)?;
    if header[0] >> 4 != 6 {
        return Err(malformed("IP version", start, 1));
    }
    let payload_len = usize::from(u16::from_be_bytes([header[4], header[5]]));
    let total_len = if payload_len == 0 {
        0
    } else {
        payload_len + 40
    };
    let mut datagram = Datagram {
        source: IpAddr::V6(v6(header, 8)),
        destination: IpAddr::V6(v6(header, 24)),
        protocol: header[6],
        start,
        transport: start + 40,
        end: end(frame, start, total_len),
        id: None,
        ttl: header[7],
        ecn: (header[1] >> 4) & 0x03,
        place: None,
    };
    skip_extensions(frame.until(datagram.end), &mut datagram)?;
    Ok(datagram)
}

/// Moves `transport` behind the extension headers (RFC 8200 §4). Each takes eight bytes or more, so the
/// packet's end bounds the loop.
fn skip_extensions(frame: Frame<'_>, datagram: &mut Datagram) -> Result<(), DecodeError> {
    loop {
        let at = datagram.transport;
        let length = match datagram.protocol {
            protocol::HOP_BY_HOP
            | protocol::ROUTING
            | protocol::DESTINATION_OPTIONS
            | protocol::MOBILITY => {
                (usize::from(frame.byte("IPv6 extension length", at + 1)?) + 1) * 8
            }
            // RFC 4302 §2.2: in four-byte units, minus two.
            protocol::AUTHENTICATION => {
                (usize::from(frame.byte("IPv6 extension length", at + 1)?) + 2) * 4
            }
            protocol::FRAGMENT => {
                let field = frame.u16("IPv6 fragment offset", at + 2)?;
                let id = frame.array("IPv6 fragment identification", at + 4)?;
                // A packet that is its only fragment is whole (RFC 6946 §1).
                datagram.place = (field & 0xfff9 != 0).then_some(Place {
                    id: u32::from_be_bytes(*id),
                    offset: u32::from(field & 0xfff8),
                    more: field & 1 != 0,
                });
                8
            }
            _ => return Ok(()),
        };
        datagram.protocol = frame.byte("IPv6 next header", at)?;
        datagram.transport = at + length;
        if datagram.place.is_some_and(|place| place.offset != 0) {
            return Ok(());
        }
    }
}

/// The end of an IP packet in its frame. A length of zero is what segmentation offload leaves in
/// packets above 64 KiB (and in Linux's "BIG TCP" for IPv6), so the frame's length takes its place.
fn end(frame: Frame<'_>, start: usize, total_len: usize) -> usize {
    if total_len == 0 {
        frame.len()
    } else {
        start + total_len
    }
}

fn v6(header: &[u8; 40], offset: usize) -> Ipv6Addr {
    let mut octets = [0; 16];
    octets.copy_from_slice(&header[offset..offset + 16]);
    Ipv6Addr::from(octets)
}

const fn malformed(field: &'static str, offset: usize, length: usize) -> DecodeError {
    DecodeError::Malformed {
        field,
        offset,
        length,
    }
}
