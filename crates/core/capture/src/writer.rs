use alloc::string::String;
use alloc::vec::Vec;

use units::Time;
use wire::LinkType;

use crate::pcapng::{BYTE_ORDER, block, option};

/// Who captured; each part is left out where it is empty.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Section {
    /// The hardware, such as the CPU's model.
    pub hardware: String,
    /// The operating system and its release.
    pub os: String,
    /// The capturing program and its version.
    pub application: String,
}

/// An interface that is captured.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Interface {
    /// Its name, such as `eth0`; left out where empty.
    pub name: String,
    /// What its packets begin with.
    pub link: LinkType,
    /// The most that is kept of each packet in bytes; 0 for everything.
    pub snaplen: u32,
}

/// An interface of a [`Writer`].
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct InterfaceId(u32);

/// Writes pcapng, little-endian and in nanoseconds, by appending to a buffer of the caller's, which
/// the caller empties when it likes.
#[derive(Clone, Debug)]
pub struct Writer {
    snaplens: Vec<u32>,
}

impl Writer {
    /// Begins a section.
    #[must_use]
    pub fn new(out: &mut Vec<u8>, section: &Section) -> Self {
        Block::begin(out, block::SECTION)
            .u32(BYTE_ORDER)
            .u16(1)
            .u16(0)
            // The section's length is unknown while it is written (§4.1).
            .bytes(&u64::MAX.to_le_bytes())
            .text(option::SECTION_HARDWARE, &section.hardware)
            .text(option::SECTION_OS, &section.os)
            .text(option::SECTION_APPLICATION, &section.application)
            .end();
        Self {
            snaplens: Vec::new(),
        }
    }

    /// Adds an interface.
    pub fn interface(&mut self, out: &mut Vec<u8>, interface: &Interface) -> InterfaceId {
        const NANOSECONDS: u8 = 9;
        Block::begin(out, block::INTERFACE)
            .u16(interface.link.0)
            .u16(0)
            .u32(interface.snaplen)
            .text(option::INTERFACE_NAME, &interface.name)
            .option(option::INTERFACE_RESOLUTION, &[NANOSECONDS])
            .end();
        let id = InterfaceId(u32::try_from(self.snaplens.len()).unwrap_or(u32::MAX));
        self.snaplens.push(interface.snaplen);
        id
    }

    /// Adds a packet of an interface of this writer, cut to its snapshot length. `at` is nanoseconds
    /// since the Unix epoch, `original_len` the length on the wire in bytes.
    pub fn packet(
        &mut self,
        out: &mut Vec<u8>,
        interface: InterfaceId,
        at: Time,
        packet: &[u8],
        original_len: u32,
    ) {
        let snaplen = usize::try_from(interface.0)
            .ok()
            .and_then(|index| self.snaplens.get(index).copied())
            .filter(|&snaplen| snaplen != 0)
            .unwrap_or(u32::MAX);
        let length = u32::try_from(packet.len()).map_or(snaplen, |len| len.min(snaplen));
        let captured =
            &packet[..usize::try_from(length).map_or(packet.len(), |len| len.min(packet.len()))];
        Block::begin(out, block::ENHANCED_PACKET)
            .u32(interface.0)
            .time(at)
            .u32(length)
            .u32(original_len)
            .bytes(captured)
            .end();
    }

    /// Adds the counters of an interface since the capture began: packets received and packets dropped
    /// for want of buffer space, as `PACKET_STATISTICS` reports them.
    pub fn statistics(
        &mut self,
        out: &mut Vec<u8>,
        interface: InterfaceId,
        at: Time,
        received: u64,
        dropped: u64,
    ) {
        Block::begin(out, block::STATISTICS)
            .u32(interface.0)
            .time(at)
            .option(option::STATISTICS_RECEIVED, &received.to_le_bytes())
            .option(option::STATISTICS_DROPPED, &dropped.to_le_bytes())
            .end();
    }
}

/// One block under construction: its length is filled in at its end.
struct Block<'a> {
    out: &'a mut Vec<u8>,
    start: usize,
    options: bool,
}

impl<'a> Block<'a> {
    fn begin(out: &'a mut Vec<u8>, kind: u32) -> Self {
        let start = out.len();
        let block = Self {
            out,
            start,
            options: false,
        };
        block.u32(kind).u32(0)
    }

    fn u16(self, value: u16) -> Self {
        self.out.extend_from_slice(&value.to_le_bytes());
        self
    }

    fn u32(self, value: u32) -> Self {
        self.out.extend_from_slice(&value.to_le_bytes());
        self
    }

    /// A time stamp as two halves, the upper first (§4.3).
    fn time(self, at: Time) -> Self {
        let [a, b, c, d, halves @ ..] = at.as_nanos().to_le_bytes();
        self.u32(u32::from_le_bytes(halves))
            .u32(u32::from_le_bytes([a, b, c, d]))
    }

    /// Bytes, padded to a multiple of four.
    fn bytes(self, bytes: &[u8]) -> Self {
        self.out.extend_from_slice(bytes);
        let padding = bytes.len().next_multiple_of(4) - bytes.len();
        self.out.extend_from_slice(&[0; 3][..padding]);
        self
    }

    fn option(mut self, code: u16, value: &[u8]) -> Self {
        let value = &value[..value.len().min(usize::from(u16::MAX))];
        self.options = true;
        self.u16(code)
            .u16(u16::try_from(value.len()).unwrap_or(u16::MAX))
            .bytes(value)
    }

    fn text(self, code: u16, text: &str) -> Self {
        if text.is_empty() {
            return self;
        }
        self.option(code, text.as_bytes())
    }

    fn end(self) {
        let block = if self.options {
            self.u16(option::END).u16(0)
        } else {
            self
        };
        let length = u32::try_from(block.out.len() - block.start + 4).unwrap_or(u32::MAX);
        block.out.extend_from_slice(&length.to_le_bytes());
        block.out[block.start + 4..block.start + 8].copy_from_slice(&length.to_le_bytes());
    }
}
