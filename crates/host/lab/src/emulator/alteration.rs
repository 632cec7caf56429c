//! What the path does to a packet's bytes: a congestion mark, a damaged bit.

use link::Ecn;
use sys::tun::VirtioHeader;

/// A packet, or a superpacket with the headers of its first segment, about to be written.
#[derive(Debug)]
pub(super) struct Altered {
    pub(super) header: VirtioHeader,
    pub(super) bytes: Vec<u8>,
}

/// The transport's first bytes, which hold the checksum of UDP and ICMP: a flipped bit there could say
/// that there is no checksum.
const BEYOND_CHECKSUM: usize = 8;

/// The ECN field of a packet.
pub(super) fn ecn(data: &[u8]) -> Ecn {
    match data {
        [first, second, ..] if first >> 4 == 4 => Ecn::from_bits(*second),
        [first, second, ..] if first >> 4 == 6 => Ecn::from_bits(second >> 4),
        _ => Ecn::NotEct,
    }
}

// === impl Altered ===

impl Altered {
    /// Sets the ECN field to "congestion experienced".
    pub(super) fn mark(&mut self) {
        let Some(&first) = self.bytes.first() else {
            return;
        };
        if first >> 4 == 4 && self.bytes.len() >= 20 {
            let old = u16::from_be_bytes([first, self.bytes[1]]);
            self.bytes[1] |= 0b11;
            let new = u16::from_be_bytes([first, self.bytes[1]]);
            let checksum = u16::from_be_bytes([self.bytes[10], self.bytes[11]]);
            let checksum = updated(checksum, old, new);
            self.bytes[10..12].copy_from_slice(&checksum.to_be_bytes());
        } else if first >> 4 == 6 && self.bytes.len() >= 40 {
            // The traffic class lies across the first two bytes; no checksum covers it.
            self.bytes[1] |= 0b0011_0000;
        }
    }

    /// Flips a bit behind the IP header, one of those that `number` chooses from. It must be one packet.
    ///
    /// Its checksum is made complete before, because a receiver believes a partial one: it means that the
    /// packet has never left the machine.
    pub(super) fn damage(&mut self, number: u64) {
        self.complete_checksum();
        self.header = VirtioHeader::PLAIN;
        let headers = match self.bytes.first().map(|first| (first >> 4, first & 0x0f)) {
            Some((4, words)) => usize::from(words) * 4,
            Some((6, _)) => 40,
            _ => 0,
        };
        let beyond = headers + BEYOND_CHECKSUM;
        let start = if beyond < self.bytes.len() {
            beyond
        } else {
            headers
        };
        let Some(damageable) = self.bytes.get_mut(start..) else {
            return;
        };
        let bits = u64::try_from(damageable.len())
            .unwrap_or(u64::MAX)
            .saturating_mul(8);
        let Some(bit) = number.checked_rem(bits) else {
            return;
        };
        let byte = usize::try_from(bit / 8).unwrap_or(usize::MAX);
        if let Some(byte) = damageable.get_mut(byte) {
            *byte ^= 1 << (bit % 8);
        }
    }

    fn complete_checksum(&mut self) {
        if self.header.flags & VirtioHeader::NEEDS_CHECKSUM == 0 {
            return;
        }
        let start = usize::from(self.header.checksum_start);
        let field = start + usize::from(self.header.checksum_offset);
        let Some(covered) = self.bytes.get(start..) else {
            return;
        };
        // The field holds the pseudo-header's sum. A packet is below 2^16 bytes: the sum can't overflow.
        let sum: u32 = covered
            .chunks(2)
            .map(|pair| u32::from(u16::from_be_bytes([pair[0], *pair.get(1).unwrap_or(&0)])))
            .sum();
        // Zero would say that there is none (RFC 768); both mean the same number.
        let checksum = match !folded(sum) {
            0 => u16::MAX,
            checksum => checksum,
        };
        if let Some(field) = self.bytes.get_mut(field..field + 2) {
            field.copy_from_slice(&checksum.to_be_bytes());
        }
    }
}

/// The checksum after one word has changed (RFC 1624, equation 3): HC' = ~(~HC + ~m + m').
fn updated(checksum: u16, old: u16, new: u16) -> u16 {
    !folded(u32::from(!checksum) + u32::from(!old) + u32::from(new))
}

fn folded(sum: u32) -> u16 {
    let once = (sum & 0xffff) + (sum >> 16);
    let twice = (once & 0xffff) + (once >> 16);
    // Two folds bring any u32 below 2^16.
    u16::try_from(twice).unwrap_or(u16::MAX)
}
