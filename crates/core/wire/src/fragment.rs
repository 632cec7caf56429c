use core::net::IpAddr;

use units::Time;

use crate::Segment;
use crate::frame::Frame;
use crate::ip::Datagram;

/// Where a fragment belongs in the packet that was cut (RFC 791 §3.2, RFC 8200 §4.5).
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Place {
    pub(crate) id: u32,
    /// Bytes of the whole packet's payload before it.
    pub(crate) offset: u32,
    /// Whether others follow behind it.
    pub(crate) more: bool,
}

/// The first fragment of an IP packet that carries TCP.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct FirstFragment<'a> {
    /// The segment, as far as it is in here: its payload's length is what this fragment holds.
    pub segment: Segment<'a>,
    /// What the fragments of one packet have in common, beside sender and receiver.
    pub id: u32,
    /// Bytes of the TCP header, which the others' offsets count from.
    pub header_len: u32,
}

/// A fragment but the first of an IP packet that carries TCP: bytes of a segment whose header went ahead.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Fragment<'a> {
    /// When the capture saw it.
    pub at: Time,
    /// Its number in the capture.
    pub frame: u64,
    /// The sender.
    pub source: IpAddr,
    /// The receiver.
    pub destination: IpAddr,
    /// What the fragments of one packet have in common, beside sender and receiver.
    pub id: u32,
    /// Bytes of the TCP segment before it, the header's included.
    pub offset: u32,
    /// Bytes in it, whether or not they were captured.
    pub len: u32,
    /// Whether it is the last one.
    pub last: bool,
    /// What was captured of it.
    pub bytes: &'a [u8],
    /// Bytes of its IP header.
    pub header_len: u16,
    /// Time to live or hop limit.
    pub ttl: u8,
    /// The ECN bits of its IP header.
    pub ecn: u8,
}

impl<'a> Fragment<'a> {
    pub(crate) fn read(
        bytes: Frame<'a>,
        datagram: &Datagram,
        place: Place,
        at: Time,
        frame: u64,
    ) -> Self {
        let len = datagram.end.saturating_sub(datagram.transport);
        Self {
            at,
            frame,
            source: datagram.source,
            destination: datagram.destination,
            id: place.id,
            offset: place.offset,
            len: u32::try_from(len).unwrap_or(u32::MAX),
            last: !place.more,
            bytes: bytes.captured(datagram.transport, datagram.end),
            header_len: u16::try_from(datagram.transport - datagram.start).unwrap_or(u16::MAX),
            ttl: datagram.ttl,
            ecn: datagram.ecn,
        }
    }
}
