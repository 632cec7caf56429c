use core::fmt;

use crate::DecodeError;
use crate::frame::Frame;

/// What stands before the network layer, numbered as in the headers of pcap and pcapng files
/// (<https://www.tcpdump.org/linktypes.html>).
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct LinkType(pub u16);

impl LinkType {
    /// BSD loopback: the address family in the byte order of the capturing machine.
    pub const NULL: Self = Self(0);
    /// Ethernet, with or without VLAN tags.
    pub const ETHERNET: Self = Self(1);
    /// PPP, as in HDLC framing or without address and control.
    pub const PPP: Self = Self(9);
    /// FDDI.
    pub const FDDI: Self = Self(10);
    /// PPP in HDLC framing.
    pub const PPP_HDLC: Self = Self(50);
    /// `PPPoE`: the session header comes first.
    pub const PPP_ETHER: Self = Self(51);
    /// IPv4 or IPv6 without any link layer, as a TUN device carries.
    pub const RAW: Self = Self(101);
    /// `OpenBSD` loopback: the address family in network byte order.
    pub const LOOP: Self = Self(108);
    /// Linux cooked capture v1, what `tcpdump -i any` wrote until 2020.
    pub const LINUX_SLL: Self = Self(113);
    /// IPv4 without any link layer.
    pub const IPV4: Self = Self(228);
    /// IPv6 without any link layer.
    pub const IPV6: Self = Self(229);
    /// Linux cooked capture v2.
    pub const LINUX_SLL2: Self = Self(276);

    /// Values that `DLT_RAW` had in memory on `OpenBSD` and elsewhere and that some tools wrote to files.
    const RAW_BSD: Self = Self(12);
    const RAW_OPENBSD: Self = Self(14);
}

impl fmt::Display for LinkType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::NULL | Self::LOOP => f.write_str("BSD loopback"),
            Self::ETHERNET => f.write_str("Ethernet"),
            Self::PPP | Self::PPP_HDLC => f.write_str("PPP"),
            Self::PPP_ETHER => f.write_str("PPPoE"),
            Self::FDDI => f.write_str("FDDI"),
            Self::RAW | Self::RAW_BSD | Self::RAW_OPENBSD => f.write_str("raw IP"),
            Self::IPV4 => f.write_str("raw IPv4"),
            Self::IPV6 => f.write_str("raw IPv6"),
            Self::LINUX_SLL => f.write_str("Linux cooked v1"),
            Self::LINUX_SLL2 => f.write_str("Linux cooked v2"),
            Self(number) => write!(f, "link type {number}"),
        }
    }
}

/// What a link-layer header announces.
pub(crate) enum Network {
    /// An IPv4 packet from this offset on.
    Ipv4(usize),
    /// An IPv6 packet from this offset on.
    Ipv6(usize),
    /// An ARP packet from this offset on.
    Arp(usize),
    /// Something else, by name.
    Other(&'static str),
}

/// Finds the network layer of `frame`.
#[inline]
pub(crate) fn network(link: LinkType, frame: Frame<'_>) -> Result<Network, DecodeError> {
    match link {
        LinkType::ETHERNET => match frame.array::<14>("ethertype", 0) {
            // Nearly every frame.
            Ok([.., 0x08, 0x00]) => Ok(Network::Ipv4(14)),
            Ok([.., 0x86, 0xdd]) => Ok(Network::Ipv6(14)),
            Ok(_) | Err(_) => ethernet(frame, 0),
        },
        LinkType::LINUX_SLL => ether_type(frame, 14),
        // The protocol is the first field of the 20-byte header; VLAN tags follow the header.
        LinkType::LINUX_SLL2 => by_ether_type(frame, frame.u16("ethertype", 0)?, 20),
        LinkType::RAW | LinkType::RAW_BSD | LinkType::RAW_OPENBSD => by_version(frame),
        LinkType::IPV4 => Ok(Network::Ipv4(0)),
        LinkType::IPV6 => Ok(Network::Ipv6(0)),
        LinkType::NULL | LinkType::LOOP => loopback(frame),
        LinkType::PPP | LinkType::PPP_HDLC => ppp(frame, 0),
        LinkType::PPP_ETHER => pppoe(frame, 0),
        LinkType::FDDI => fddi(frame),
        LinkType(_) => Ok(Network::Other("unknown link layer")),
    }
}

/// An Ethernet frame from `offset` on.
#[inline]
pub(crate) fn ethernet(frame: Frame<'_>, offset: usize) -> Result<Network, DecodeError> {
    ether_type(frame, offset + 12)
}

/// The ethertype at `offset`, whose payload follows at once.
fn ether_type(frame: Frame<'_>, offset: usize) -> Result<Network, DecodeError> {
    by_ether_type(frame, frame.u16("ethertype", offset)?, offset + 2)
}

pub(crate) fn by_ether_type(
    frame: Frame<'_>,
    mut value: u16,
    mut next: usize,
) -> Result<Network, DecodeError> {
    // IEEE 802.1Q and 802.1ad tags, and their two common predecessors: control information, then the
    // ethertype of what follows. Each takes four bytes, so the frame's end bounds the loop.
    while matches!(value, 0x8100 | 0x88a8 | 0x9100 | 0x9200) {
        value = frame.u16("ethertype behind a VLAN tag", next + 2)?;
        next += 4;
    }
    match value {
        0x0800 => Ok(Network::Ipv4(next)),
        0x86dd => Ok(Network::Ipv6(next)),
        0x0806 => Ok(Network::Arp(next)),
        0x8847 | 0x8848 => Ok(Network::Other("MPLS")),
        0x8863 => Ok(Network::Other("PPPoE discovery")),
        0x8864 => pppoe(frame, next),
        0x888e => Ok(Network::Other("EAPOL")),
        0x88cc => Ok(Network::Other("LLDP")),
        // Up to 1500 it is an IEEE 802.3 length, and an LLC header follows.
        0..=1500 => llc(frame, next),
        _ => Ok(Network::Other("other ethertype")),
    }
}

pub(crate) fn llc(frame: Frame<'_>, offset: usize) -> Result<Network, DecodeError> {
    // SNAP with the organisation code of Ethernet (RFC 1042).
    const SNAP: [u8; 6] = [0xaa, 0xaa, 0x03, 0, 0, 0];
    match frame.array::<8>("LLC header", offset) {
        Ok([head @ .., high, low]) if *head == SNAP => {
            match u16::from_be_bytes([*high, *low]) {
                // A length here would lead back to LLC; only real ethertypes are followed.
                value if value > 1500 => by_ether_type(frame, value, offset + 8),
                _ => Ok(Network::Other("LLC")),
            }
        }
        // Spanning tree and its kind may be shorter than SNAP.
        _ => Ok(Network::Other("LLC")),
    }
}

/// Frame control, two addresses, and an LLC header in asynchronous LLC frames (ISO 9314-2); the others
/// hold tokens and station management.
fn fddi(frame: Frame<'_>) -> Result<Network, DecodeError> {
    const ASYNCHRONOUS_LLC: u8 = 0x50;
    match frame.byte("FDDI frame control", 0)? & 0xf0 {
        ASYNCHRONOUS_LLC => llc(frame, 13),
        _ => Ok(Network::Other("FDDI")),
    }
}

fn by_version(frame: Frame<'_>) -> Result<Network, DecodeError> {
    match frame.byte("IP version", 0)? >> 4 {
        4 => Ok(Network::Ipv4(0)),
        6 => Ok(Network::Ipv6(0)),
        _ => Err(DecodeError::Malformed {
            field: "IP version",
            offset: 0,
            length: 1,
        }),
    }
}

fn loopback(frame: Frame<'_>) -> Result<Network, DecodeError> {
    let family = u32::from_le_bytes(*frame.array("address family", 0)?);
    // Families are small numbers, so a large one was written in the other byte order.
    let family = if family > 0xffff {
        family.swap_bytes()
    } else {
        family
    };
    match family {
        2 => Ok(Network::Ipv4(4)),
        // AF_INET6 on Linux, NetBSD/OpenBSD, FreeBSD and macOS.
        10 | 24 | 28 | 30 => Ok(Network::Ipv6(4)),
        _ => Ok(Network::Other("other address family")),
    }
}

fn pppoe(frame: Frame<'_>, offset: usize) -> Result<Network, DecodeError> {
    //= https://www.rfc-editor.org/rfc/rfc2516#section-6
    //# The PPPoE CODE MUST be set to 0x00.
    match frame.byte("PPPoE code", offset + 1)? {
        0 => ppp(frame, offset + 6),
        _ => Ok(Network::Other("PPPoE discovery")),
    }
}

fn ppp(frame: Frame<'_>, mut offset: usize) -> Result<Network, DecodeError> {
    // Address and control (RFC 1662 §3.1) may be compressed away.
    if frame.byte("PPP address", offset)? == 0xff {
        offset += 2;
    }
    let first = frame.byte("PPP protocol", offset)?;
    // An odd first byte is a protocol number compressed to that byte (RFC 1661 §6.5).
    let (protocol, next) = if first & 1 == 1 {
        (u16::from(first), offset + 1)
    } else {
        (frame.u16("PPP protocol", offset)?, offset + 2)
    };
    match protocol {
        0x0021 => Ok(Network::Ipv4(next)),
        0x0057 => Ok(Network::Ipv6(next)),
        _ => Ok(Network::Other("PPP control")),
    }
}
