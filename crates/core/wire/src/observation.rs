//! What a packet means to an analysis, independent of where it was read.

use core::fmt;
use core::net::IpAddr;

use units::{SeqNum, Time};

use crate::{FirstFragment, Fragment, IcmpEcho, IcmpError, Resolution};

/// A host as the source names it. Printed captures may carry names instead of addresses, and names
/// are never resolved: the analysis of a capture must not depend on today's DNS.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub enum Host<'a> {
    /// An IPv4 or IPv6 address.
    Ip(IpAddr),
    /// A name as printed, such as `domain1` or the masked `x.x.x.x1`.
    Name(&'a str),
}

impl fmt::Display for Host<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ip(address) => address.fmt(f),
            Self::Name(name) => f.write_str(name),
        }
    }
}

/// One end of a connection.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct Endpoint<'a> {
    /// The host.
    pub host: Host<'a>,
    /// The TCP port; service names in printed captures are translated back (`http` is 80).
    pub port: u16,
}

impl fmt::Display for Endpoint<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.host {
            Host::Ip(IpAddr::V6(address)) => write!(f, "[{address}]:{}", self.port),
            Host::Ip(IpAddr::V4(_)) | Host::Name(_) => write!(f, "{}:{}", self.host, self.port),
        }
    }
}

/// The flags of a TCP header (RFC 9293 §3.1), as the low twelve bits of the flags field.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, PartialEq)]
pub struct TcpFlags(u16);

impl TcpFlags {
    /// No more data from the sender.
    pub const FIN: Self = Self(0x01);
    /// Synchronise sequence numbers.
    pub const SYN: Self = Self(0x02);
    /// Reset the connection.
    pub const RST: Self = Self(0x04);
    /// Push function.
    pub const PSH: Self = Self(0x08);
    /// The acknowledgment field is significant.
    pub const ACK: Self = Self(0x10);
    /// The urgent pointer is significant.
    pub const URG: Self = Self(0x20);
    /// ECN-Echo (RFC 3168).
    pub const ECE: Self = Self(0x40);
    /// Congestion window reduced (RFC 3168).
    pub const CWR: Self = Self(0x80);

    /// The flags of a raw header field.
    #[must_use]
    pub const fn from_bits(bits: u16) -> Self {
        Self(bits & 0x0fff)
    }

    /// The raw bits.
    #[must_use]
    pub const fn bits(self) -> u16 {
        self.0
    }

    /// Whether every flag of `other` is set.
    #[must_use]
    pub const fn contains(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    /// This set less the flags of `other`.
    #[must_use]
    pub const fn without(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }

    /// Both sets together.
    #[must_use]
    pub const fn union(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

impl fmt::Display for TcpFlags {
    /// As `tcpdump` prints them: `S`, `S.`, `P.`, `F.`, `.`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const LETTERS: [(TcpFlags, &str); 8] = [
            (TcpFlags::FIN, "F"),
            (TcpFlags::SYN, "S"),
            (TcpFlags::RST, "R"),
            (TcpFlags::PSH, "P"),
            (TcpFlags::URG, "U"),
            (TcpFlags::CWR, "W"),
            (TcpFlags::ECE, "E"),
            (TcpFlags::ACK, "."),
        ];
        if self.0 == 0 {
            return f.write_str("none");
        }
        LETTERS
            .iter()
            .filter(|(flag, _)| self.contains(*flag))
            .try_for_each(|(_, l)| f.write_str(l))
    }
}

/// The timestamps option (RFC 7323 §3).
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Timestamps {
    /// `TSval`: the sender's clock.
    pub value: u32,
    /// `TSecr`: the peer's clock, echoed; meaningless without the ACK flag.
    pub echo: u32,
}

/// Up to four SACK blocks (RFC 2018 §3), in the order in which they were sent.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct SackBlocks {
    blocks: [Option<(SeqNum, SeqNum)>; 4],
}

impl SackBlocks {
    /// Adds a block `[left, right)`; a fifth one is ignored, since no header has room for it.
    pub fn push(&mut self, left: SeqNum, right: SeqNum) {
        if let Some(free) = self.blocks.iter_mut().find(|block| block.is_none()) {
            *free = Some((left, right));
        }
    }

    /// The blocks as `(left edge, right edge)`.
    pub fn iter(&self) -> impl Iterator<Item = (SeqNum, SeqNum)> + '_ {
        self.blocks.iter().flatten().copied()
    }

    /// Whether there are none.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.blocks[0].is_none()
    }
}

/// The TCP options an analysis needs.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct TcpOptions {
    /// Maximum segment size in bytes (RFC 9293 §3.7.1), on SYNs.
    pub mss: Option<u16>,
    /// The window-scale shift as sent (RFC 7323 §2), on SYNs; above 14 it counts as 14.
    pub window_scale: Option<u8>,
    /// SACK permitted (RFC 2018 §2), on SYNs.
    pub sack_permitted: bool,
    /// SACK blocks.
    pub sack: SackBlocks,
    /// Timestamps.
    pub timestamps: Option<Timestamps>,
}

/// One TCP segment as a capture shows it. With segmentation offload it may be larger than any packet
/// on the wire.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Segment<'a> {
    /// When the capture saw it, on the capture's clock.
    pub at: Time,
    /// Its number in the capture, counted from 1 as packet tools do; for text the line number.
    pub frame: u64,
    /// The sender.
    pub source: Endpoint<'a>,
    /// The receiver.
    pub destination: Endpoint<'a>,
    /// The flags.
    pub flags: TcpFlags,
    /// The sequence number of the first byte (or of the SYN). From a printed capture with relative
    /// numbers whose SYN was not seen, numbers are offsets from an unknown start; differences hold.
    pub seq: SeqNum,
    /// The acknowledgment number, where the ACK flag is set.
    pub ack: Option<SeqNum>,
    /// The window field as sent, before any scaling.
    pub window: u16,
    /// Payload bytes on the wire, whether or not they were captured.
    pub payload_len: u32,
    /// The captured part of the payload, possibly empty (snapshot length, printed captures). A printed
    /// capture leaves here what it decoded of an HTTP head, such as `POST /upload/files HTTP/1.1`.
    pub payload: &'a [u8],
    /// The options.
    pub options: TcpOptions,
    /// IP identification (IPv4 only, where captured): tells a copy made by the capture (same ID) from
    /// a retransmission (new ID).
    pub ip_id: Option<u16>,
    /// Time to live or hop limit, where captured.
    pub ttl: Option<u8>,
    /// The ECN bits of the IP header (RFC 3168 §5), where captured.
    pub ecn: Option<u8>,
    /// IP header and TCP header bytes, for goodput against rate; zero where unknown.
    pub header_len: u16,
}

impl Segment<'_> {
    /// Sequence space the segment takes: payload plus one each for SYN and FIN (RFC 9293 §3.4).
    #[must_use]
    pub fn sequence_len(&self) -> u32 {
        self.payload_len
            .saturating_add(u32::from(self.flags.contains(TcpFlags::SYN)))
            .saturating_add(u32::from(self.flags.contains(TcpFlags::FIN)))
    }

    /// The sequence number after the segment's last.
    #[must_use]
    pub fn end(&self) -> SeqNum {
        self.seq + self.sequence_len()
    }
}

/// One packet of a capture, as far as it matters here.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Observation<'a> {
    /// A TCP segment.
    Tcp(Segment<'a>),
    /// The first fragment of one.
    FirstFragment(FirstFragment<'a>),
    /// What follows of a segment that was cut.
    Fragment(Fragment<'a>),
    /// An ICMP echo request or reply.
    IcmpEcho(IcmpEcho<'a>),
    /// An ICMP error about a TCP segment.
    IcmpError(IcmpError<'a>),
    /// A question for a link-layer address, or its answer.
    Resolution(Resolution),
    /// A packet that is understood and of no interest, such as DNS; counted by its name.
    Other(&'static str),
}

impl Observation<'_> {
    /// When the capture saw it; `None` for what is merely counted. What neighbours asked one another is no part of
    /// a capture's span.
    #[must_use]
    pub const fn at(&self) -> Option<Time> {
        match self {
            Self::Tcp(segment) | Self::FirstFragment(FirstFragment { segment, .. }) => {
                Some(segment.at)
            }
            Self::Fragment(fragment) => Some(fragment.at),
            Self::IcmpEcho(echo) => Some(echo.at),
            Self::IcmpError(error) => Some(error.at),
            Self::Resolution(_) | Self::Other(_) => None,
        }
    }

    /// By what it is counted where it is no segment and no echo.
    #[must_use]
    pub const fn kind(&self) -> Option<&'static str> {
        match self {
            Self::Tcp(_) | Self::FirstFragment(_) | Self::IcmpEcho(_) => None,
            Self::Fragment(_) => Some("IP fragment"),
            Self::IcmpError(error) => Some(match error.source.host {
                Host::Ip(IpAddr::V6(_)) => "ICMPv6",
                Host::Ip(IpAddr::V4(_)) | Host::Name(_) => "ICMP",
            }),
            Self::Resolution(resolution) => Some(resolution.protocol()),
            Self::Other(name) => Some(name),
        }
    }
}
