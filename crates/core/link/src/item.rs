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

/// IP packets in a row of which all but the last are equally long, as segmentation makes them.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Segments {
    count: u32,
    each: u32,
    last: u32,
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
}

// === impl Segments ===

impl Segments {
    /// One packet of `ip_bytes` bytes, IP header included.
    #[must_use]
    pub const fn single(ip_bytes: u32) -> Self {
        Self {
            count: 1,
            each: ip_bytes,
            last: ip_bytes,
        }
    }

    /// `count` packets of `each` IP bytes, the last one of `last`. `None` without a packet.
    #[must_use]
    pub const fn uniform(count: u32, each: u32, last: u32) -> Option<Self> {
        if count == 0 {
            return None;
        }
        Some(Self { count, each, last })
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
