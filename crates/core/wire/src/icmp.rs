//! ICMP (RFC 792) and `ICMPv6` (RFC 4443): echoes, errors about TCP, and neighbour discovery.

use core::net::IpAddr;

use units::Time;

use crate::frame::Frame;
use crate::ip::{self, Datagram, protocol};
use crate::neighbour::Resolution;
use crate::{DecodeError, Endpoint, Host, Observation};

/// An ICMP or `ICMPv6` echo, which gives an RTT without TCP.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct IcmpEcho<'a> {
    /// When the capture saw it.
    pub at: Time,
    /// Its number in the capture.
    pub frame: u64,
    /// The sender.
    pub source: Host<'a>,
    /// The receiver.
    pub destination: Host<'a>,
    /// Whether this is the reply.
    pub reply: bool,
    /// The identifier.
    pub id: u16,
    /// The sequence number.
    pub seq: u16,
}

/// What a router or a host says about a TCP segment that it did not pass on.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct IcmpError<'a> {
    /// When the capture saw it.
    pub at: Time,
    /// Its number in the capture.
    pub frame: u64,
    /// Who says it.
    pub from: Host<'a>,
    /// What became of the segment.
    pub reason: IcmpReason,
    /// Who had sent the segment.
    pub source: Endpoint<'a>,
    /// To whom.
    pub destination: Endpoint<'a>,
}

/// Why a segment was not passed on.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub enum IcmpReason {
    /// It was longer than the next link carries.
    TooBig {
        /// IP bytes that it carries; routers older than RFC 1191 do not say.
        mtu: Option<u32>,
    },
    /// There is no way to the receiver.
    NoRoute,
    /// The receiver does not answer on its link.
    HostUnreachable,
    /// Nobody listens there, and a firewall says so.
    PortUnreachable,
    /// A firewall forbids it.
    Prohibited,
    /// Unreachable for another reason.
    Unreachable,
    /// It passed too many routers.
    TimeExceeded,
}

impl IcmpReason {
    /// As users of other tools know it.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::TooBig { .. } => "packet too big",
            Self::NoRoute => "no route",
            Self::HostUnreachable => "host unreachable",
            Self::PortUnreachable => "port unreachable",
            Self::Prohibited => "administratively prohibited",
            Self::Unreachable => "unreachable",
            Self::TimeExceeded => "time exceeded",
        }
    }
}

pub(crate) fn read<'a>(
    bytes: Frame<'a>,
    datagram: &Datagram,
    at: Time,
    frame: u64,
) -> Result<Observation<'a>, DecodeError> {
    let kind = bytes.byte("ICMP type", datagram.transport)?;
    // RFC 792 and RFC 4443 §4.1 and §4.2.
    let reply = match (datagram.protocol, kind) {
        (protocol::ICMP, 8) | (protocol::ICMPV6, 128) => false,
        (protocol::ICMP, 0) | (protocol::ICMPV6, 129) => true,
        (protocol::ICMP, _) => {
            let error = error_v4(bytes, datagram, kind, at, frame);
            return Ok(error.map_or(Observation::Other("ICMP"), Observation::IcmpError));
        }
        (_, 135 | 136) => {
            let resolution = Resolution::discovered(bytes, datagram, kind == 136, at, frame);
            return Ok(resolution.map_or(Observation::Other("ICMPv6"), Observation::Resolution));
        }
        _ => {
            let error = error_v6(bytes, datagram, kind, at, frame);
            return Ok(error.map_or(Observation::Other("ICMPv6"), Observation::IcmpError));
        }
    };
    Ok(Observation::IcmpEcho(IcmpEcho {
        at,
        frame,
        source: Host::Ip(datagram.source),
        destination: Host::Ip(datagram.destination),
        reply,
        id: bytes.u16("ICMP echo identifier", datagram.transport + 4)?,
        seq: bytes.u16("ICMP echo sequence number", datagram.transport + 6)?,
    }))
}

fn error_v4<'a>(
    bytes: Frame<'a>,
    datagram: &Datagram,
    kind: u8,
    at: Time,
    frame: u64,
) -> Option<IcmpError<'a>> {
    let code = bytes.byte("ICMP code", datagram.transport + 1).ok()?;
    let reason = match (kind, code) {
        // The next hop's MTU stands in the lower half of what RFC 792 left unused (RFC 1191 §4).
        (3, 4) => {
            let mtu = bytes.u16("next-hop MTU", datagram.transport + 6).ok()?;
            IcmpReason::TooBig {
                mtu: (mtu != 0).then_some(u32::from(mtu)),
            }
        }
        (3, 0 | 5 | 6 | 8 | 11) => IcmpReason::NoRoute,
        (3, 1 | 7 | 12) => IcmpReason::HostUnreachable,
        (3, 3) => IcmpReason::PortUnreachable,
        (3, 9 | 10 | 13) => IcmpReason::Prohibited,
        (3, _) => IcmpReason::Unreachable,
        (11, 0) => IcmpReason::TimeExceeded,
        _ => return None,
    };
    let quoted = ip::decode_v4(bytes, datagram.transport + 8).ok()?;
    about(bytes, datagram, &quoted, reason, at, frame)
}

fn error_v6<'a>(
    bytes: Frame<'a>,
    datagram: &Datagram,
    kind: u8,
    at: Time,
    frame: u64,
) -> Option<IcmpError<'a>> {
    let code = bytes.byte("ICMPv6 code", datagram.transport + 1).ok()?;
    let reason = match (kind, code) {
        // RFC 4443 §3.2: "MTU: The Maximum Transmission Unit of the next-hop link."
        (2, _) => {
            let mtu = bytes.array("next-hop MTU", datagram.transport + 4).ok()?;
            IcmpReason::TooBig {
                mtu: Some(u32::from_be_bytes(*mtu)),
            }
        }
        (1, 0) => IcmpReason::NoRoute,
        (1, 3) => IcmpReason::HostUnreachable,
        (1, 4) => IcmpReason::PortUnreachable,
        (1, 1 | 5 | 6) => IcmpReason::Prohibited,
        (1, _) => IcmpReason::Unreachable,
        (3, 0) => IcmpReason::TimeExceeded,
        _ => return None,
    };
    let quoted = ip::decode_v6(bytes, datagram.transport + 8).ok()?;
    about(bytes, datagram, &quoted, reason, at, frame)
}

/// Errors quote the IP header and at least eight bytes behind it, which hold the ports.
fn about<'a>(
    bytes: Frame<'a>,
    datagram: &Datagram,
    quoted: &Datagram,
    reason: IcmpReason,
    at: Time,
    frame: u64,
) -> Option<IcmpError<'a>> {
    let later = quoted.place.is_some_and(|place| place.offset != 0);
    if quoted.protocol != protocol::TCP || later {
        return None;
    }
    let ports = bytes.array::<4>("quoted ports", quoted.transport).ok()?;
    let end = |address: IpAddr, port: [u8; 2]| Endpoint {
        host: Host::Ip(address),
        port: u16::from_be_bytes(port),
    };
    Some(IcmpError {
        at,
        frame,
        from: Host::Ip(datagram.source),
        reason,
        source: end(quoted.source, [ports[0], ports[1]]),
        destination: end(quoted.destination, [ports[2], ports[3]]),
    })
}
