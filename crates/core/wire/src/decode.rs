use core::net::IpAddr;

use units::{SeqNum, Time};

use crate::fragment::Place;
use crate::frame::Frame;
use crate::ip::{self, Datagram, protocol};
use crate::link::{self, LinkType, Network};
use crate::{
    DecodeError, Endpoint, FirstFragment, Fragment, Host, Observation, Resolution, Segment,
    TcpFlags, icmp, tcp, tunnel,
};

/// Reads one captured frame.
///
/// `frame` is its number in the capture, `captured` what the capture kept of it, `original_len` its
/// length on the wire in bytes, link layer included. Payload lengths follow the IP header, not the
/// captured bytes: snapshot length, Ethernet padding and frame check sequences do not change them.
/// Checksums are not judged, since offload leaves them unfinished on the sending host.
///
/// GRE (with Ethernet, ERSPAN or 802.11 inside too), VXLAN, GENEVE and IP in IP are looked into: what is
/// returned is the innermost packet, and its TTL and identification are its own.
///
/// # Errors
/// [`DecodeError::Cut`] where the snapshot length left out what is needed, [`DecodeError::Malformed`]
/// where the bytes contradict themselves. A protocol that is merely of no interest is no error but
/// [`Observation::Other`].
#[inline]
pub fn decode(
    link: LinkType,
    at: Time,
    frame: u64,
    captured: &[u8],
    original_len: u32,
) -> Result<Observation<'_>, DecodeError> {
    let mut bytes = Frame::new(captured, original_len);
    let mut network = link::network(link, bytes)?;
    for _ in 0..=tunnel::MAX_DEPTH {
        let datagram = match network {
            Network::Ipv4(start) => ip::decode_v4(bytes, start)?,
            Network::Ipv6(start) => ip::decode_v6(bytes, start)?,
            Network::Arp(start) => {
                let resolution = Resolution::arp(bytes, start, at, frame);
                return Ok(resolution.map_or(Observation::Other("ARP"), Observation::Resolution));
            }
            Network::Other(name) => return Ok(Observation::Other(name)),
        };
        bytes = bytes.until(datagram.end);
        if let Some(place) = datagram.place
            && (place.offset != 0 || datagram.protocol == protocol::TCP)
        {
            return fragment(bytes, &datagram, place, at, frame);
        }
        match tunnel::inner(bytes, &datagram)? {
            Some(inner) => network = inner,
            None => return transport(bytes, &datagram, at, frame),
        }
    }
    Ok(Observation::Other("tunnels in tunnels"))
}

#[inline]
fn transport<'a>(
    bytes: Frame<'a>,
    datagram: &Datagram,
    at: Time,
    frame: u64,
) -> Result<Observation<'a>, DecodeError> {
    match datagram.protocol {
        protocol::TCP => segment(bytes, datagram, at, frame).map(Observation::Tcp),
        protocol::UDP => udp(bytes, datagram),
        protocol::ICMP | protocol::ICMPV6 => icmp::read(bytes, datagram, at, frame),
        other => Ok(Observation::Other(protocol_name(other))),
    }
}

/// One of several pieces of a packet. Of what is no TCP the first one says what the packet was.
#[cold]
fn fragment<'a>(
    bytes: Frame<'a>,
    datagram: &Datagram,
    place: Place,
    at: Time,
    frame: u64,
) -> Result<Observation<'a>, DecodeError> {
    if datagram.protocol != protocol::TCP {
        return Ok(Observation::Other("IP fragment"));
    }
    if place.offset == 0 {
        let segment = segment(bytes, datagram, at, frame)?;
        let ip_header = datagram.transport - datagram.start;
        return Ok(Observation::FirstFragment(FirstFragment {
            segment,
            id: place.id,
            header_len: u32::from(segment.header_len)
                .saturating_sub(u32::try_from(ip_header).unwrap_or(u32::MAX)),
        }));
    }
    let fragment = Fragment::read(bytes, datagram, place, at, frame);
    Ok(Observation::Fragment(fragment))
}

#[inline]
fn segment<'a>(
    bytes: Frame<'a>,
    datagram: &Datagram,
    at: Time,
    frame: u64,
) -> Result<Segment<'a>, DecodeError> {
    let start = datagram.transport;
    let header = bytes.array::<20>("TCP header", start)?;
    let header_len = usize::from(header[12] >> 4) * 4;
    let payload = start + header_len;
    if header_len < 20 || payload > datagram.end {
        return Err(DecodeError::Malformed {
            field: "TCP data offset",
            offset: start + 12,
            length: header_len,
        });
    }
    let flags = TcpFlags::from_bits(u16::from_be_bytes([header[12], header[13]]));
    let ack = u32::from_be_bytes([header[8], header[9], header[10], header[11]]);
    Ok(Segment {
        at,
        frame,
        source: endpoint(datagram.source, [header[0], header[1]]),
        destination: endpoint(datagram.destination, [header[2], header[3]]),
        flags,
        seq: SeqNum::new(u32::from_be_bytes([
            header[4], header[5], header[6], header[7],
        ])),
        ack: flags.contains(TcpFlags::ACK).then_some(SeqNum::new(ack)),
        window: u16::from_be_bytes([header[14], header[15]]),
        payload_len: u32::try_from(datagram.end - payload).unwrap_or(u32::MAX),
        payload: bytes.captured(payload, datagram.end),
        options: tcp::options(bytes.captured(start + 20, payload)),
        ip_id: datagram.id,
        ttl: Some(datagram.ttl),
        ecn: Some(datagram.ecn),
        header_len: u16::try_from(payload - datagram.start).unwrap_or(u16::MAX),
    })
}

const fn endpoint<'a>(address: IpAddr, port: [u8; 2]) -> Endpoint<'a> {
    Endpoint {
        host: Host::Ip(address),
        port: u16::from_be_bytes(port),
    }
}

fn udp<'a>(bytes: Frame<'a>, datagram: &Datagram) -> Result<Observation<'a>, DecodeError> {
    const DNS: u16 = 53;
    const HTTPS: u16 = 443;
    let source = bytes.u16("UDP source port", datagram.transport)?;
    let destination = bytes.u16("UDP destination port", datagram.transport + 2)?;
    let uses = |port| source == port || destination == port;
    let payload = bytes.captured(datagram.transport + 8, datagram.end);
    Ok(Observation::Other(if uses(DNS) {
        "DNS"
    } else if uses(HTTPS) || begins_quic(payload) {
        // Nothing else speaks UDP to that port; what it says is encrypted.
        "QUIC"
    } else {
        "UDP"
    }))
}

/// A packet with QUIC's long header, which every connection begins with, of version 1 or 2 or a draft.
fn begins_quic(payload: &[u8]) -> bool {
    //= https://www.rfc-editor.org/rfc/rfc9000#section-17.2
    //# The most significant bit (0x80) of byte 0 (the first byte)
    //# is set to 1 for long headers.
    const LONG_AND_FIXED: u8 = 0xc0;
    const VERSION_2: [u8; 4] = [0x6b, 0x33, 0x43, 0xcf];
    match payload {
        [first, version @ ..] if first & LONG_AND_FIXED == LONG_AND_FIXED => {
            version.starts_with(&[0, 0, 0, 1])
                || version.starts_with(&VERSION_2)
                || version.starts_with(&[0xff, 0, 0])
        }
        _ => false,
    }
}

const fn protocol_name(protocol: u8) -> &'static str {
    match protocol {
        2 => "IGMP",
        protocol::GRE => "GRE",
        50 => "ESP",
        51 => "AH",
        59 => "IPv6 without payload",
        89 => "OSPF",
        112 => "VRRP",
        132 => "SCTP",
        _ => "other IP protocol",
    }
}
