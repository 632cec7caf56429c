//! What one IP packet carries for another network: the flows that users care about are inside.

use crate::DecodeError;
use crate::frame::Frame;
use crate::ip::{Datagram, protocol};
use crate::link::{self, Network};

/// Tunnels inside tunnels that are followed; deeper ones are a loop or an attack.
pub(crate) const MAX_DEPTH: usize = 4;

/// Port of VXLAN (RFC 7348 section 5).
const VXLAN: u16 = 4789;
/// Port of GENEVE (RFC 8926 section 3.3).
const GENEVE: u16 = 6081;

/// Protocol types that GRE and GENEVE share with Ethernet, and those of their own.
mod carries {
    pub(super) const TRANSPARENT_ETHERNET: u16 = 0x6558;
    pub(super) const ERSPAN: u16 = 0x88be;
    /// Aruba access points send whole 802.11 frames: 0x8200 to 0x9000 number the radio.
    pub(super) const WIFI: [u16; 2] = [0x8200, 0x8210];
}

/// The network layer inside `datagram`, or `None` where it is no tunnel that can be looked into.
///
/// `frame` ends where the datagram ends.
#[inline]
pub(crate) fn inner(frame: Frame<'_>, datagram: &Datagram) -> Result<Option<Network>, DecodeError> {
    let start = datagram.transport;
    let inner = match datagram.protocol {
        protocol::IPV4 => Some(Network::Ipv4(start)),
        protocol::IPV6 => Some(Network::Ipv6(start)),
        protocol::GRE => gre(frame, start)?,
        protocol::UDP => match frame.u16("UDP destination port", start + 2)? {
            VXLAN => vxlan(frame, start + 8)?,
            GENEVE => geneve(frame, start + 8)?,
            _ => None,
        },
        _ => None,
    };
    // What is not IP inside is better named by its outside.
    Ok(inner.filter(|network| matches!(network, Network::Ipv4(_) | Network::Ipv6(_))))
}

/// RFC 2784 section 2 with the key and sequence number of RFC 2890.
fn gre(frame: Frame<'_>, start: usize) -> Result<Option<Network>, DecodeError> {
    const CHECKSUM: u16 = 0x8000;
    const ROUTING: u16 = 0x4000;
    const KEY: u16 = 0x2000;
    const SEQUENCE: u16 = 0x1000;
    let flags = frame.u16("GRE flags", start)?;
    let carried = frame.u16("GRE protocol type", start + 2)?;
    // Source routing is obsolete, and version 1 is PPTP, whose PPP frames may be split over packets.
    if flags & (ROUTING | 0x0007) != 0 {
        return Ok(None);
    }
    let optional = [CHECKSUM, KEY, SEQUENCE]
        .into_iter()
        .filter(|flag| flags & flag != 0)
        .count();
    let inside = start + 4 + 4 * optional;
    match carried {
        // Type II has a header of its own in front of the mirrored frame, type I has none and no
        // sequence number (draft-foschiano-erspan-03 section 4).
        carries::ERSPAN if flags & SEQUENCE != 0 => link::ethernet(frame, inside + 8).map(Some),
        carries::ERSPAN => link::ethernet(frame, inside).map(Some),
        radio if (carries::WIFI[0]..=carries::WIFI[1]).contains(&radio) => wifi(frame, inside),
        other => carried_by_type(frame, other, inside),
    }
}

/// RFC 7348 section 5: eight bytes of which the first flag says that a network identifier follows.
fn vxlan(frame: Frame<'_>, start: usize) -> Result<Option<Network>, DecodeError> {
    //= https://www.rfc-editor.org/rfc/rfc7348#section-5
    //# where the I flag MUST be set to 1 for a valid
    //# VXLAN Network ID (VNI).
    if frame.byte("VXLAN flags", start)? & 0x08 == 0 {
        return Ok(None);
    }
    link::ethernet(frame, start + 8).map(Some)
}

/// RFC 8926 section 3.4: eight bytes, then options in units of four bytes.
fn geneve(frame: Frame<'_>, start: usize) -> Result<Option<Network>, DecodeError> {
    let head = frame.byte("GENEVE version", start)?;
    if head >> 6 != 0 {
        return Ok(None);
    }
    let carried = frame.u16("GENEVE protocol type", start + 2)?;
    let inside = start + 8 + usize::from(head & 0x3f) * 4;
    carried_by_type(frame, carried, inside)
}

fn carried_by_type(
    frame: Frame<'_>,
    ether_type: u16,
    inside: usize,
) -> Result<Option<Network>, DecodeError> {
    match ether_type {
        carries::TRANSPARENT_ETHERNET => link::ethernet(frame, inside).map(Some),
        // Below is an IEEE 802.3 length, which no tunnel carries.
        0..=1500 => Ok(None),
        other => link::by_ether_type(frame, other, inside).map(Some),
    }
}

/// An IEEE 802.11 data frame: frame control, duration, three or four addresses, quality of service, and
/// then LLC. Everything else, and everything encrypted, carries nothing that can be read.
fn wifi(frame: Frame<'_>, start: usize) -> Result<Option<Network>, DecodeError> {
    const DATA: u8 = 0x08;
    const QUALITY_OF_SERVICE: u8 = 0x80;
    const WITHOUT_DATA: u8 = 0x40;
    const BOTH_WAYS: u8 = 0x03;
    const PROTECTED: u8 = 0x40;
    let [control, flags] = *frame.array("802.11 frame control", start)?;
    if control & 0x0f != DATA || control & WITHOUT_DATA != 0 || flags & PROTECTED != 0 {
        return Ok(None);
    }
    let mut inside = start + 24;
    if flags & BOTH_WAYS == BOTH_WAYS {
        inside += 6;
    }
    if control & QUALITY_OF_SERVICE != 0 {
        inside += 2;
    }
    link::llc(frame, inside).map(Some)
}
