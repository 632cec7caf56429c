//! Classic pcap (draft-ietf-opsawg-pcap): a 24-byte file header, then records.

use units::Time;
use wire::LinkType;

use crate::binary::{Order, RECORD_MAX};
use crate::cursor::Cursor;
use crate::{Packet, ReadError};

const FILE_HEADER: usize = 24;

/// What the file header fixed for all records.
#[derive(Clone, Copy, Debug)]
pub(crate) struct File {
    order: Order,
    /// Nanoseconds per unit of a record's sub-second field.
    fraction_nanos: u64,
    record_header: usize,
    link: LinkType,
}

impl File {
    /// Reads the file header; `None` where it is not all there yet.
    pub(crate) fn read(
        magic: [u8; 4],
        data: &[u8],
        cursor: &mut Cursor,
    ) -> Result<Option<Self>, ReadError> {
        let little = u32::from_le_bytes(magic);
        let (order, number) = if is_magic(little) {
            (Order::Little, little)
        } else {
            (Order::Big, u32::from_be_bytes(magic))
        };
        if !is_magic(number) {
            return Err(ReadError::Unrecognised { magic });
        }
        let Some(header) = cursor.rest(data).get(..FILE_HEADER) else {
            return Ok(None);
        };
        let [low, high, ..] = order.u32(header, 20).to_le_bytes();
        cursor.consume(FILE_HEADER);
        Ok(Some(Self {
            order,
            fraction_nanos: if number == NANOSECONDS { 1 } else { 1_000 },
            // Kuznetzov's patch appended interface, protocol and packet type to each record.
            record_header: if number == KUZNETZOV { 24 } else { 16 },
            // The upper half of the field holds the length of the frame check sequence.
            link: LinkType(u16::from_le_bytes([low, high])),
        }))
    }

    #[inline]
    pub(crate) fn next<'a>(
        &self,
        data: &'a [u8],
        cursor: &mut Cursor,
    ) -> Result<Option<Packet<'a>>, ReadError> {
        let rest = cursor.rest(data);
        let Some(header) = rest.first_chunk::<16>() else {
            return Ok(None);
        };
        let captured_len = self.order.u32(header, 8);
        if captured_len > RECORD_MAX {
            return Err(ReadError::Malformed {
                field: "record length",
                value: u64::from(captured_len),
                offset: cursor.offset(),
            });
        }
        let length = usize::try_from(captured_len).unwrap_or(usize::MAX);
        let end = self.record_header.saturating_add(length);
        let Some(captured) = rest.get(self.record_header..end) else {
            return Ok(None);
        };
        cursor.consume(end);
        let seconds = u64::from(self.order.u32(header, 0));
        let fraction = u64::from(self.order.u32(header, 4));
        Ok(Some(Packet {
            at: Time::from_nanos(seconds * 1_000_000_000 + fraction * self.fraction_nanos),
            frame: 0,
            interface: 0,
            link: self.link,
            captured,
            original_len: self.order.u32(header, 12),
        }))
    }
}

const MICROSECONDS: u32 = 0xa1b2_c3d4;
const NANOSECONDS: u32 = 0xa1b2_3c4d;
const KUZNETZOV: u32 = 0xa1b2_cd34;

const fn is_magic(number: u32) -> bool {
    matches!(number, MICROSECONDS | NANOSECONDS | KUZNETZOV)
}

/// Whether a capture that begins with these bytes is classic pcap.
pub(crate) const fn begins(magic: [u8; 4]) -> bool {
    is_magic(u32::from_le_bytes(magic)) || is_magic(u32::from_be_bytes(magic))
}
