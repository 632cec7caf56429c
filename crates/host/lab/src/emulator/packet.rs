//! A packet as the kernel gives it: possibly a superpacket of TCP or UDP, which this file can part.

use std::io;
use std::ops::Range;

use link::{Delivery, Segments};
use sys::tun::{Segmentation, Tun, VirtioHeader};

use crate::emulator::alteration::{self, Altered};

/// A packet taken from a device, with what is needed to part it.
#[derive(Clone, Debug)]
pub(super) struct Packet {
    header: VirtioHeader,
    bytes: Vec<u8>,
    length: usize,
    superpacket: Option<Superpacket>,
}

/// Where things are in a superpacket.
#[derive(Clone, Copy, Debug)]
struct Superpacket {
    version: Version,
    transport: Transport,
    /// Offset of the transport's header.
    start: usize,
    /// Offset of the payload: the headers that every segment repeats.
    payload: usize,
    /// Payload bytes per segment.
    segment: usize,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Version {
    V4,
    V6,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Transport {
    Tcp,
    Udp,
}

/// Headers longer than this are not repeated by us: 40 of IPv6, 60 of TCP, and room for extensions.
const MAX_HEADERS: usize = 256;

const TCP_SEQUENCE: usize = 4;
const TCP_DATA_OFFSET: usize = 12;
const TCP_FLAGS: usize = 13;
const TCP_CHECKSUM: usize = 16;
const TCP_MIN_HEADER: usize = 20;
const UDP_LENGTH: usize = 4;
const UDP_CHECKSUM: usize = 6;
const UDP_HEADER: usize = 8;
const FIN: u8 = 0x01;
const PSH: u8 = 0x08;
const CWR: u8 = 0x80;

// === impl Packet ===

impl Packet {
    /// `None` where header and bytes contradict each other, which the kernel's own never do.
    pub(super) fn new(header: VirtioHeader, bytes: Vec<u8>, length: usize) -> Option<Self> {
        let data = bytes.get(..length).filter(|data| !data.is_empty())?;
        let superpacket = match header.segmentation() {
            Segmentation::None => None,
            Segmentation::Tcp4 => Some(Superpacket::parse(
                Version::V4,
                Transport::Tcp,
                header,
                data,
            )?),
            Segmentation::Tcp6 => Some(Superpacket::parse(
                Version::V6,
                Transport::Tcp,
                header,
                data,
            )?),
            Segmentation::Udp => {
                let version = Version::of(data)?;
                Some(Superpacket::parse(version, Transport::Udp, header, data)?)
            }
            Segmentation::Other(_) => return None,
        };
        Some(Self {
            header,
            bytes,
            length,
            superpacket,
        })
    }

    /// The IP packets it stands for.
    pub(super) fn segments(&self) -> Option<Segments> {
        let length = u32::try_from(self.length).ok()?;
        let ecn = alteration::ecn(&self.bytes[..self.length]);
        let Some(shape) = self.superpacket else {
            return Some(Segments::single(length).with_ecn(ecn));
        };
        let payload = self.length - shape.payload;
        let count = payload.div_ceil(shape.segment);
        let last = payload - (count - 1) * shape.segment;
        let segments = Segments::uniform(
            u32::try_from(count).ok()?,
            u32::try_from(shape.payload + shape.segment.min(payload)).ok()?,
            u32::try_from(shape.payload + last).ok()?,
        )?;
        Some(segments.with_ecn(ecn))
    }

    /// Lets a delivery of its segments arrive at `tun`: as they are where it is all of them, otherwise
    /// with headers made for the part; marked and damaged as the path says.
    pub(super) fn write<T>(&self, tun: &Tun, delivery: &Delivery<T>) -> io::Result<()> {
        if !delivery.marked && delivery.corruption.is_none() {
            return self.write_intact(tun, &delivery.segments);
        }
        let mut altered = self.copy(&delivery.segments);
        if delivery.marked {
            altered.mark();
        }
        if let Some(number) = delivery.corruption {
            altered.damage(number);
        }
        tun.write(altered.header, &altered.bytes, &[])
    }

    /// A copy of segments `range`, for those few that are altered.
    fn copy(&self, range: &Range<u32>) -> Altered {
        let data = &self.bytes[..self.length];
        let part = self
            .superpacket
            .and_then(|shape| shape.part(self.header, data, range));
        match part {
            Some(part) => Altered {
                header: part.header,
                bytes: [&part.headers[..part.headers_length], &data[part.payload]].concat(),
            },
            None => Altered {
                header: self.header,
                bytes: data.to_vec(),
            },
        }
    }

    fn write_intact(&self, tun: &Tun, range: &Range<u32>) -> io::Result<()> {
        let data = &self.bytes[..self.length];
        let Some(part) = self
            .superpacket
            .and_then(|shape| shape.part(self.header, data, range))
        else {
            return tun.write(self.header, data, &[]);
        };
        tun.write(
            part.header,
            &part.headers[..part.headers_length],
            &data[part.payload],
        )
    }

    /// Its buffer, to be used again.
    pub(super) fn into_buffer(self) -> Vec<u8> {
        self.bytes
    }
}

/// Some segments of a superpacket: a smaller superpacket, or a single packet.
struct Part {
    header: VirtioHeader,
    headers: [u8; MAX_HEADERS],
    headers_length: usize,
    payload: Range<usize>,
}

// === impl Superpacket ===

impl Superpacket {
    fn parse(
        version: Version,
        transport: Transport,
        header: VirtioHeader,
        data: &[u8],
    ) -> Option<Self> {
        let start = usize::from(header.checksum_start);
        let minimum = match version {
            Version::V4 => 20,
            Version::V6 => 40,
        };
        if start < minimum
            || usize::from(header.checksum_offset) != transport.checksum()
            || header.flags & VirtioHeader::NEEDS_CHECKSUM == 0
        {
            return None;
        }
        let payload = start + transport.header_length(data.get(start..)?)?;
        let shape = Self {
            version,
            transport,
            start,
            payload,
            segment: usize::from(header.gso_size),
        };
        let sound = payload <= MAX_HEADERS && payload < data.len() && shape.segment > 0;
        sound.then_some(shape)
    }

    /// Makes headers for segments `range`, as `tcp_gso_segment`, `__udp_gso_segment`
    /// and `inet_gso_segment` do. `None` where
    /// the range is everything, which needs nothing made.
    fn part(self, header: VirtioHeader, data: &[u8], range: &Range<u32>) -> Option<Part> {
        let start = self.offset(range.start, data.len());
        let end = self.offset(range.end, data.len());
        if start == self.payload && end == data.len() {
            return None;
        }
        let mut headers = [0; MAX_HEADERS];
        headers[..self.payload].copy_from_slice(&data[..self.payload]);
        self.rewrite_ip(&mut headers, self.payload + (end - start), range.start);
        if self.transport == Transport::Tcp {
            self.rewrite_tcp(&mut headers, start, end, data.len());
        }
        self.rewrite_length_and_checksum(&mut headers, end - start);
        let header = if end - start > self.segment {
            header
        } else {
            header.without_segmentation()
        };
        Some(Part {
            header,
            headers,
            headers_length: self.payload,
            payload: start..end,
        })
    }

    /// Where in the data the segment at `position` begins.
    fn offset(self, position: u32, length: usize) -> usize {
        // A u32 always fits where Linux runs.
        let position = usize::try_from(position).unwrap_or(usize::MAX);
        (self.payload + position.saturating_mul(self.segment)).min(length)
    }

    fn rewrite_ip(self, headers: &mut [u8], length: usize, position: u32) {
        match self.version {
            Version::V4 => {
                put_u16(headers, 2, length);
                // Each segment has an identification of its own, counted up from the first.
                let first = u16::from_be_bytes([headers[4], headers[5]]);
                let identification = u32::from(first).wrapping_add(position) & 0xffff;
                put_u16(headers, 4, usize::try_from(identification).unwrap_or(0));
                put_u16(headers, 10, 0);
                let header_length = usize::from(headers[0] & 0x0f) * 4;
                let sum = !fold(sum(&headers[..header_length.min(self.start)]));
                put_u16(headers, 10, sum.into());
            }
            Version::V6 => put_u16(headers, 4, length - 40),
        }
    }

    fn rewrite_tcp(self, headers: &mut [u8], start: usize, end: usize, length: usize) {
        let tcp = self.start;
        let at = tcp + TCP_SEQUENCE;
        let sequence = [
            headers[at],
            headers[at + 1],
            headers[at + 2],
            headers[at + 3],
        ];
        // Sequence numbers count modulo 2^32; a superpacket is below 2^17.
        let skipped = u32::try_from(start - self.payload).unwrap_or(0);
        let sequence = u32::from_be_bytes(sequence).wrapping_add(skipped);
        headers[at..at + 4].copy_from_slice(&sequence.to_be_bytes());
        if end < length {
            headers[tcp + TCP_FLAGS] &= !(FIN | PSH);
        }
        if start > self.payload {
            headers[tcp + TCP_FLAGS] &= !CWR;
        }
    }

    /// `VIRTIO_NET_HDR_F_NEEDS_CSUM`: the field holds the sum of the pseudo-header, not complemented, and
    /// whoever needs the true checksum adds the rest.
    fn rewrite_length_and_checksum(self, headers: &mut [u8], payload: usize) {
        let addresses = match self.version {
            Version::V4 => 12..20,
            Version::V6 => 8..40,
        };
        let length = self.payload - self.start + payload;
        if self.transport == Transport::Udp {
            put_u16(headers, self.start + UDP_LENGTH, length);
        }
        let length = u32::try_from(length).unwrap_or(u32::MAX);
        let pseudo = sum(&headers[addresses]) + self.transport.number() + length;
        let checksum = self.start + self.transport.checksum();
        put_u16(headers, checksum, fold(pseudo).into());
    }
}

// === impl Version ===

impl Version {
    fn of(data: &[u8]) -> Option<Self> {
        match data.first()? >> 4 {
            4 => Some(Self::V4),
            6 => Some(Self::V6),
            _ => None,
        }
    }
}

// === impl Transport ===

impl Transport {
    /// The protocol's number (IANA).
    const fn number(self) -> u32 {
        match self {
            Self::Tcp => 6,
            Self::Udp => 17,
        }
    }

    /// Offset of the checksum in its header.
    const fn checksum(self) -> usize {
        match self {
            Self::Tcp => TCP_CHECKSUM,
            Self::Udp => UDP_CHECKSUM,
        }
    }

    /// `None` where there is no sound header.
    fn header_length(self, header: &[u8]) -> Option<usize> {
        let length = match self {
            Self::Tcp => usize::from(header.get(TCP_DATA_OFFSET)? >> 4) * 4,
            Self::Udp => UDP_HEADER,
        };
        let least = match self {
            Self::Tcp => TCP_MIN_HEADER,
            Self::Udp => UDP_HEADER,
        };
        (length >= least && length <= header.len()).then_some(length)
    }
}

/// Sum of 16-bit words (RFC 1071), not yet folded; inputs are headers, so it can't overflow.
fn sum(bytes: &[u8]) -> u32 {
    bytes
        .chunks(2)
        .map(|pair| u32::from(u16::from_be_bytes([pair[0], *pair.get(1).unwrap_or(&0)])))
        .sum()
}

fn fold(sum: u32) -> u16 {
    let once = (sum & 0xffff) + (sum >> 16);
    let twice = (once & 0xffff) + (once >> 16);
    // Two folds bring any u32 below 2^16.
    u16::try_from(twice).unwrap_or(u16::MAX)
}

/// Lengths of packets are below 2^16, or the kernel would not have made the packet.
fn put_u16(bytes: &mut [u8], at: usize, value: usize) {
    let value = u16::try_from(value).unwrap_or(u16::MAX);
    bytes[at..at + 2].copy_from_slice(&value.to_be_bytes());
}

#[cfg(test)]
mod tests;
