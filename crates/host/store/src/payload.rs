//! Content of objects: incompressible, different for every upload, the same for every run of a seed.

use bytes::Bytes;

/// `len` bytes for upload number `index` of a series with this seed.
///
/// `SplitMix64` (Steele, Lea, Flood: *Fast splittable pseudorandom number generators*, OOPSLA 2014)
/// over a start value mixed from seed and index: incompressible for any middlebox, and fast enough
/// that generating never shows in a measurement.
pub fn content(seed: u64, index: u64, len: usize) -> Bytes {
    let mut state = mixed(seed).wrapping_add(mixed(index.wrapping_add(GOLDEN)));
    let mut bytes = Vec::with_capacity(len.next_multiple_of(8));
    while bytes.len() < len {
        state = state.wrapping_add(GOLDEN);
        bytes.extend_from_slice(&mixed(state).to_le_bytes());
    }
    bytes.truncate(len);
    Bytes::from(bytes)
}

/// The content of an object of `len` bytes that an origin with this seed has from the start.
pub fn made(seed: u64, len: usize) -> Bytes {
    content(seed, u64::try_from(len).unwrap_or(u64::MAX), len)
}

/// The key of such an object.
#[must_use]
pub fn made_key(bytes: u64) -> String {
    format!("made/{bytes}")
}

/// 2^64 divided by the golden ratio, `SplitMix64`'s increment.
const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;

/// `SplitMix64`'s output function: a bijection that spreads every input bit.
const fn mixed(value: u64) -> u64 {
    let value = (value ^ (value >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let value = (value ^ (value >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    value ^ (value >> 31)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn a_seed_and_an_index_always_give_the_same_bytes() {
        assert_eq!(content(7, 3, 1000), content(7, 3, 1000));
        assert_eq!(content(7, 3, 1000)[..10], content(7, 3, 10)[..]);
    }

    #[test]
    fn every_upload_of_neighbouring_seeds_differs() {
        let all: BTreeSet<Bytes> = (0..20)
            .flat_map(|seed| (0..20).map(move |index| content(seed, index, 64)))
            .collect();
        assert_eq!(all.len(), 400);
    }

    #[test]
    fn every_length_is_exact() {
        for len in [0, 1, 7, 8, 9, 102_400] {
            assert_eq!(content(1, 1, len).len(), len);
        }
    }

    #[test]
    fn all_byte_values_occur_about_equally_often() {
        let mut counts = [0_u32; 256];
        for byte in &content(1, 0, 256 * 1024) {
            counts[usize::from(*byte)] += 1;
        }
        // 1024 expected per value, standard deviation 32: six of them on both sides.
        assert!(counts.iter().all(|count| (832..=1216).contains(count)));
    }
}
