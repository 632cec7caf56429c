//! pcapng (draft-ietf-opsawg-pcapng): sections of blocks, each framed by its own length.

use alloc::vec::Vec;

use units::Time;
use wire::LinkType;

use crate::binary::{Order, RECORD_MAX};
use crate::cursor::Cursor;
use crate::{Packet, ReadError};

/// The type of a section header block, the same in both byte orders.
pub(crate) const MAGIC: [u8; 4] = [0x0a, 0x0d, 0x0d, 0x0a];

/// Block types (§4).
pub(crate) mod block {
    pub(crate) const SECTION: u32 = 0x0a0d_0d0a;
    pub(crate) const INTERFACE: u32 = 1;
    pub(crate) const OBSOLETE_PACKET: u32 = 2;
    pub(crate) const SIMPLE_PACKET: u32 = 3;
    pub(crate) const STATISTICS: u32 = 5;
    pub(crate) const ENHANCED_PACKET: u32 = 6;
}

/// Option codes (§3.5, §4.2, §4.6).
pub(crate) mod option {
    pub(crate) const END: u16 = 0;
    pub(crate) const SECTION_HARDWARE: u16 = 2;
    pub(crate) const SECTION_OS: u16 = 3;
    pub(crate) const SECTION_APPLICATION: u16 = 4;
    pub(crate) const INTERFACE_NAME: u16 = 2;
    pub(crate) const INTERFACE_RESOLUTION: u16 = 9;
    pub(crate) const INTERFACE_OFFSET: u16 = 14;
    pub(crate) const STATISTICS_RECEIVED: u16 = 4;
    pub(crate) const STATISTICS_DROPPED: u16 = 5;
    pub(crate) const STATISTICS_OS_DROPPED: u16 = 7;
}

/// The byte-order magic of a section header.
pub(crate) const BYTE_ORDER: u32 = 0x1a2b_3c4d;

/// The state of a pcapng stream between two blocks.
#[derive(Clone, Debug, Default)]
pub(crate) struct File {
    order: Order,
    interfaces: Vec<Interface>,
    last_at: Time,
    unreadable: u64,
    untimed: u64,
    /// Of sections that are closed.
    dropped: u64,
}

#[derive(Clone, Copy, Debug)]
struct Interface {
    link: LinkType,
    snaplen: u32,
    clock: Clock,
    dropped: u64,
}

/// How an interface counts time.
#[derive(Clone, Copy, Debug)]
struct Clock {
    unit: Unit,
    offset_s: i64,
}

#[derive(Clone, Copy, Debug)]
enum Unit {
    /// Each count is so many nanoseconds.
    Nanos(u64),
    /// So many counts make one nanosecond.
    PerNano(u128),
    /// 2^n counts make one second.
    Binary(u32),
}

impl File {
    /// Packet blocks whose content contradicts itself; passed over, since their framing was sound.
    pub(crate) const fn unreadable(&self) -> u64 {
        self.unreadable
    }

    /// Packets without a time stamp of their own.
    pub(crate) const fn untimed(&self) -> u64 {
        self.untimed
    }

    /// Packets that the capture itself reports as dropped.
    pub(crate) fn dropped(&self) -> u64 {
        let open = self.interfaces.iter().map(|i| i.dropped);
        open.fold(self.dropped, u64::saturating_add)
    }

    pub(crate) fn next<'a>(
        &mut self,
        data: &'a [u8],
        cursor: &mut Cursor,
    ) -> Result<Option<Packet<'a>>, ReadError> {
        loop {
            let rest = cursor.rest(data);
            // No block is shorter, and a section header shows its byte order here.
            let Some(head) = rest.first_chunk::<12>() else {
                return Ok(None);
            };
            if head[..4] == MAGIC {
                self.order = byte_order(head, cursor.offset())?;
            }
            let (kind, length) = (self.order.u32(head, 0), self.order.u32(head, 4));
            let malformed = |field| ReadError::Malformed {
                field,
                value: u64::from(length),
                offset: cursor.offset(),
            };
            //= https://datatracker.ietf.org/doc/html/draft-ietf-opsawg-pcapng#section-3.1
            //# This value MUST be a multiple of 4.
            if length < 12 || length % 4 != 0 {
                return Err(malformed("block length"));
            }
            if !is_read(kind) {
                cursor.skip(u64::from(length), data);
                continue;
            }
            if length > RECORD_MAX {
                return Err(malformed("block length"));
            }
            let length = usize::try_from(length).unwrap_or(usize::MAX);
            let Some(bytes) = rest.get(..length) else {
                return Ok(None);
            };
            if bytes[4..8] != bytes[length - 4..] {
                return Err(malformed("leading and trailing block length differ:"));
            }
            cursor.consume(length);
            if let Some(packet) = self.block(kind, &bytes[8..length - 4]) {
                return Ok(Some(packet));
            }
        }
    }

    /// Takes one block of a kind that is read; a packet, if it holds one.
    fn block<'a>(&mut self, kind: u32, body: &'a [u8]) -> Option<Packet<'a>> {
        let packet = match kind {
            block::SECTION => {
                self.dropped = self.dropped();
                self.interfaces.clear();
                return None;
            }
            block::INTERFACE => {
                self.interfaces.push(Interface::read(self.order, body));
                return None;
            }
            block::STATISTICS => {
                self.statistics(body);
                return None;
            }
            block::SIMPLE_PACKET => self.simple_packet(body),
            _ => self.packet(kind, body),
        };
        if packet.is_none() {
            self.unreadable += 1;
        }
        packet
    }

    /// An enhanced packet block (§4.3), or its obsolete predecessor (appendix A), which differs in the
    /// first four bytes: a 16-bit interface and a drop count.
    fn packet<'a>(&mut self, kind: u32, body: &'a [u8]) -> Option<Packet<'a>> {
        let order = self.order;
        let (head, data) = body.split_first_chunk::<20>()?;
        let number = if kind == block::ENHANCED_PACKET {
            order.u32(head, 0)
        } else {
            u32::from(order.u16(head, 0))
        };
        let interface = self.interfaces.get(usize::try_from(number).ok()?)?;
        let captured = data.get(..usize::try_from(order.u32(head, 12)).ok()?)?;
        let count = u64::from(order.u32(head, 4)) << 32 | u64::from(order.u32(head, 8));
        self.last_at = interface.clock.time(count);
        Some(Packet {
            at: self.last_at,
            frame: 0,
            interface: number,
            link: interface.link,
            captured,
            original_len: order.u32(head, 16),
        })
    }

    /// A simple packet block (§4.4): no interface but the first, no time, and a captured length that
    /// follows from the snapshot length.
    fn simple_packet<'a>(&mut self, body: &'a [u8]) -> Option<Packet<'a>> {
        let interface = self.interfaces.first()?;
        let (head, data) = body.split_first_chunk::<4>()?;
        let original_len = self.order.u32(head, 0);
        let captured_len = match interface.snaplen {
            0 => original_len,
            snaplen => original_len.min(snaplen),
        };
        let captured = data.get(..usize::try_from(captured_len).ok()?)?;
        self.untimed += 1;
        Some(Packet {
            at: self.last_at,
            frame: 0,
            interface: 0,
            link: interface.link,
            captured,
            original_len,
        })
    }

    /// An interface statistics block (§4.6). Its counters run from the start of the capture, so the
    /// last one holds.
    fn statistics(&mut self, body: &[u8]) {
        let order = self.order;
        let number = usize::try_from(order.u32(body, 0)).unwrap_or(usize::MAX);
        let Some(interface) = self.interfaces.get_mut(number) else {
            self.unreadable += 1;
            return;
        };
        interface.dropped = Options::new(order, body.get(12..).unwrap_or_default())
            .filter(|(code, _)| {
                matches!(
                    *code,
                    option::STATISTICS_DROPPED | option::STATISTICS_OS_DROPPED
                )
            })
            .fold(0, |sum, (_, value)| {
                u64::saturating_add(sum, order.u64(value))
            });
    }
}

const fn is_read(kind: u32) -> bool {
    matches!(
        kind,
        block::SECTION
            | block::INTERFACE
            | block::OBSOLETE_PACKET
            | block::SIMPLE_PACKET
            | block::STATISTICS
            | block::ENHANCED_PACKET
    )
}

fn byte_order(head: &[u8; 12], offset: u64) -> Result<Order, ReadError> {
    [Order::Little, Order::Big]
        .into_iter()
        .find(|order| order.u32(head, 8) == BYTE_ORDER)
        .ok_or_else(|| ReadError::Malformed {
            field: "byte-order magic",
            value: u64::from(Order::Big.u32(head, 8)),
            offset,
        })
}

// === impl Interface ===

impl Interface {
    fn read(order: Order, body: &[u8]) -> Self {
        let mut clock = Clock {
            //= https://datatracker.ietf.org/doc/html/draft-ietf-opsawg-pcapng#section-4.2
            //# If this option is not present, a resolution of 10^-6 is assumed
            unit: Unit::Nanos(1_000),
            offset_s: 0,
        };
        for (code, value) in Options::new(order, body.get(8..).unwrap_or_default()) {
            match (code, value) {
                (option::INTERFACE_RESOLUTION, [resolution, ..]) => {
                    clock.unit = Unit::read(*resolution);
                }
                (option::INTERFACE_OFFSET, value) if value.len() >= 8 => {
                    clock.offset_s = order.u64(value).cast_signed();
                }
                _ => {}
            }
        }
        Self {
            link: LinkType(order.u16(body, 0)),
            snaplen: order.u32(body, 4),
            clock,
            dropped: 0,
        }
    }
}

// === impl Clock ===

impl Clock {
    /// A count as time since the Unix epoch; before it is at it, beyond 2554 is there.
    #[inline]
    fn time(self, count: u64) -> Time {
        let nanos = match self.unit {
            Unit::Nanos(nanos) if self.offset_s == 0 => {
                return Time::from_nanos(count.saturating_mul(nanos));
            }
            Unit::Nanos(nanos) => u128::from(count) * u128::from(nanos),
            Unit::PerNano(counts) => u128::from(count) / counts,
            Unit::Binary(shift) => (u128::from(count) * 1_000_000_000)
                .checked_shr(shift)
                .unwrap_or(0),
        };
        // At most 2^64 x 10^9, which leaves the sign bit free.
        let nanos = i128::try_from(nanos).unwrap_or(i128::MAX);
        let total = nanos.saturating_add(i128::from(self.offset_s) * 1_000_000_000);
        Time::from_nanos(u64::try_from(total.max(0)).unwrap_or(u64::MAX))
    }
}

impl Unit {
    /// `if_tsresol`: with the highest bit set the rest is a negative power of two, otherwise of ten.
    fn read(resolution: u8) -> Self {
        let exponent = u32::from(resolution & 0x7f);
        if resolution & 0x80 != 0 {
            return Self::Binary(exponent);
        }
        match exponent {
            0..=9 => Self::Nanos(10_u64.pow(9 - exponent)),
            // Beyond 10^38 counts per nanosecond every 64-bit count is zero anyway.
            _ => Self::PerNano(10_u128.saturating_pow(exponent - 9)),
        }
    }
}

// === impl Options ===

/// The options of a block, up to their end or to the first that does not fit.
struct Options<'a> {
    order: Order,
    bytes: &'a [u8],
}

impl<'a> Options<'a> {
    const fn new(order: Order, bytes: &'a [u8]) -> Self {
        Self { order, bytes }
    }
}

impl<'a> Iterator for Options<'a> {
    type Item = (u16, &'a [u8]);

    fn next(&mut self) -> Option<Self::Item> {
        let (head, rest) = self.bytes.split_first_chunk::<4>()?;
        let code = self.order.u16(head, 0);
        let length = usize::from(self.order.u16(head, 2));
        let value = rest.get(..length)?;
        self.bytes = rest.get(length.next_multiple_of(4)..).unwrap_or_default();
        (code != option::END).then_some((code, value))
    }
}

impl Order {
    /// A 64-bit option value; zero where it is too short.
    fn u64(self, bytes: &[u8]) -> u64 {
        match (self, bytes.first_chunk()) {
            (_, None) => 0,
            (Self::Little, Some(bytes)) => u64::from_le_bytes(*bytes),
            (Self::Big, Some(bytes)) => u64::from_be_bytes(*bytes),
        }
    }
}
