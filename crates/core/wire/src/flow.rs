//! Which connection a packet belongs to, before anything else of it is read.

use core::net::IpAddr;

use crate::ip::protocol;
use crate::{Endpoint, Host, LinkType, Segment};

/// A number that both directions of a connection share, to divide work by. It is no name: other connections may have
/// the same.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct FlowHash(u32);

impl FlowHash {
    /// Of `parts`, the one that the connection belongs to.
    #[must_use]
    pub fn part(self, parts: u32) -> u32 {
        // The upper half of a product is spread as evenly as the number itself (Lemire 2019).
        let upper = (u64::from(self.0) * u64::from(parts)) >> 32;
        u32::try_from(upper).unwrap_or(0)
    }

    /// Of a segment that was decoded.
    #[must_use]
    pub fn of(segment: &Segment<'_>) -> Self {
        Self::between(segment.source, segment.destination)
    }

    /// Of the connection between two ends.
    #[must_use]
    pub fn between(one: Endpoint<'_>, other: Endpoint<'_>) -> Self {
        let sum = |end: Endpoint<'_>| match end.host {
            Host::Ip(IpAddr::V4(address)) => sum_v4(address.octets(), end.port),
            Host::Ip(IpAddr::V6(address)) => sum_v6(address.octets(), end.port),
            Host::Name(name) => name.bytes().fold(u64::from(end.port), |sum, byte| {
                sum.wrapping_mul(31).wrapping_add(u64::from(byte))
            }),
        };
        Self::of_sums(sum(one), sum(other))
    }

    /// Of a frame that is nothing but a whole TCP segment over Ethernet and IP, so that [`crate::decode()`] will
    /// read it; `None` for everything else, which may be a segment all the same.
    #[must_use]
    #[inline]
    pub fn of_plain(link: LinkType, captured: &[u8]) -> Option<Self> {
        if link != LinkType::ETHERNET {
            return None;
        }
        let ip = captured.get(14..)?;
        match [captured[12], captured[13]] {
            [0x08, 0x00] => plain_v4(ip),
            [0x86, 0xdd] => plain_v6(ip),
            _ => None,
        }
    }

    fn of_sums(one: u64, other: u64) -> Self {
        // Fibonacci hashing of what does not depend on the direction.
        let both = one.wrapping_add(other) ^ one.wrapping_mul(other).rotate_left(32);
        let mixed = both.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        Self(u32::try_from(mixed >> 32).unwrap_or(0))
    }
}

fn plain_v4(ip: &[u8]) -> Option<FlowHash> {
    const MORE_OR_LATER: u16 = 0x3fff;
    let header = ip.first_chunk::<20>()?;
    let fragment = u16::from_be_bytes([header[6], header[7]]);
    if header[0] != 0x45 || header[9] != protocol::TCP || fragment & MORE_OR_LATER != 0 {
        return None;
    }
    let total = usize::from(u16::from_be_bytes([header[2], header[3]]));
    let ports = ports(&ip[20..], total.checked_sub(20)?)?;
    let address = |at: usize| [header[at], header[at + 1], header[at + 2], header[at + 3]];
    Some(FlowHash::of_sums(
        sum_v4(address(12), ports[0]),
        sum_v4(address(16), ports[1]),
    ))
}

fn plain_v6(ip: &[u8]) -> Option<FlowHash> {
    let header = ip.first_chunk::<40>()?;
    if header[0] >> 4 != 6 || header[6] != protocol::TCP {
        return None;
    }
    let length = usize::from(u16::from_be_bytes([header[4], header[5]]));
    let ports = ports(&ip[40..], length)?;
    let source = header[8..].first_chunk::<16>()?;
    let destination = header[24..].first_chunk::<16>()?;
    Some(FlowHash::of_sums(
        sum_v6(*source, ports[0]),
        sum_v6(*destination, ports[1]),
    ))
}

/// Ports of a segment of `length` bytes whose header was captured whole.
fn ports(tcp: &[u8], length: usize) -> Option<[u16; 2]> {
    let header = tcp.first_chunk::<20>()?;
    let header_len = usize::from(header[12] >> 4) * 4;
    let whole = header_len >= 20 && header_len <= length;
    whole.then(|| {
        [
            u16::from_be_bytes([header[0], header[1]]),
            u16::from_be_bytes([header[2], header[3]]),
        ]
    })
}

fn sum_v4(address: [u8; 4], port: u16) -> u64 {
    mix((u64::from(u32::from_be_bytes(address)) << 16) | u64::from(port))
}

fn sum_v6(address: [u8; 16], port: u16) -> u64 {
    let (halves, _) = address.as_chunks::<8>();
    let both = halves
        .iter()
        .fold(0, |sum, half| sum ^ u64::from_be_bytes(*half));
    mix(mix(both).wrapping_add(u64::from(port)))
}

const fn mix(sum: u64) -> u64 {
    let mixed = sum.wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed ^ (mixed >> 29)
}
