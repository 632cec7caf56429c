use core::ops::Range;

use units::{Bytes, Time};

use crate::spec::Direction;

/// What a driver offers: one packet, or a superpacket which stands for several (segmentation offload).
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Item<T> {
    /// The driver's own: a buffer, a description, an id. Cloned when the item leaves in several parts,
    /// so make it cheap to clone.
    pub payload: T,
    /// The IP packets it stands for.
    pub segments: Segments,
}

/// IP packets in a row of which all but the last are equally long, as segmentation makes them, and which
/// share an ECN codepoint.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Segments {
    count: u32,
    each: u32,
    last: u32,
    ecn: Ecn,
}

/// The ECN field of an IP header (RFC 3168, section 5).
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum Ecn {
    /// 00: the transport takes no marks, so a queue that wants to mark has to drop.
    #[default]
    NotEct,
    /// 10: may be marked.
    Ect0,
    /// 01: may be marked.
    Ect1,
    /// 11: a queue before ours has marked it already.
    Ce,
}

/// Packets that arrive at the other end: all of an item, or the part of it that may leave now.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Delivery<T> {
    /// The way they came.
    pub direction: Direction,
    /// The payload of the item they belong to.
    pub payload: T,
    /// Which of the item's segments these are.
    pub segments: Range<u32>,
    /// Index of the first of them among all packets offered to the direction.
    pub first_index: u64,
    /// When they were due; the difference to the driver's clock is the driver's lateness.
    pub due_at: Time,
    /// The queue has marked them: the driver sets their ECN fields to [`Ecn::Ce`].
    pub marked: bool,
    /// Bits of this packet, which is one alone, were damaged on the way. Real packets get a bit flipped,
    /// which one is drawn from this number, and their receiver's checksum finds it; described packets
    /// are dropped by their receiver.
    pub corruption: Option<u64>,
}

// === impl Segments ===

impl Segments {
    /// One packet of `ip_bytes` bytes, IP header included, that takes no marks.
    #[must_use]
    pub const fn single(ip_bytes: u32) -> Self {
        Self {
            count: 1,
            each: ip_bytes,
            last: ip_bytes,
            ecn: Ecn::NotEct,
        }
    }

    /// `count` packets of `each` IP bytes, the last one of `last`, that take no marks. `None` without a
    /// packet.
    #[must_use]
    pub const fn uniform(count: u32, each: u32, last: u32) -> Option<Self> {
        if count == 0 {
            return None;
        }
        Some(Self {
            count,
            each,
            last,
            ecn: Ecn::NotEct,
        })
    }

    /// The same packets with `ecn` in their headers.
    #[must_use]
    pub const fn with_ecn(self, ecn: Ecn) -> Self {
        Self { ecn, ..self }
    }

    /// What their headers say.
    #[must_use]
    pub const fn ecn(self) -> Ecn {
        self.ecn
    }

    /// The number of packets, at least one.
    #[must_use]
    pub const fn count(self) -> u32 {
        self.count
    }

    /// IP bytes of the packet at `position`.
    #[must_use]
    pub const fn size(self, position: u32) -> u32 {
        if position + 1 == self.count {
            self.last
        } else {
            self.each
        }
    }

    /// IP bytes of the packets in `range`.
    #[must_use]
    pub fn bytes(self, range: &Range<u32>) -> Bytes {
        if range.is_empty() {
            return Bytes::ZERO;
        }
        let before_last = u64::from(range.end - range.start - 1) * u64::from(self.each);
        Bytes::new(before_last + u64::from(self.size(range.end - 1)))
    }
}

// === impl Ecn ===

impl Ecn {
    /// From the two low bits of the traffic class (IPv6) or the type of service (IPv4).
    #[must_use]
    pub const fn from_bits(traffic_class: u8) -> Self {
        match traffic_class & 0b11 {
            0b00 => Self::NotEct,
            0b01 => Self::Ect1,
            0b10 => Self::Ect0,
            _ => Self::Ce,
        }
    }

    /// Whether a queue may mark the packet instead of dropping it.
    #[must_use]
    pub const fn is_capable(self) -> bool {
        !matches!(self, Self::NotEct)
    }
}
