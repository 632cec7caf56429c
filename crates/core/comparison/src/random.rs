/// `SplitMix64` (Steele, Lea and Flood, OOPSLA 2014): small, fast, and the same everywhere. For shuffles
/// and resamples, not for secrets.
#[derive(Clone, Debug)]
pub struct SplitMix64(u64);

impl SplitMix64 {
    /// A generator that `seed` determines.
    #[must_use]
    pub const fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// The next 64 bits.
    pub const fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// An index below `count`, which must not be zero; biased by less than `count` / 2^64.
    pub fn below(&mut self, count: usize) -> usize {
        let scaled = (u128::from(self.bits()) * count as u128) >> 64;
        // Below `count` after the shift, so it always fits.
        usize::try_from(scaled).unwrap_or(0)
    }

    /// Fills `bytes`, for content that nothing compresses.
    pub fn fill(&mut self, bytes: &mut [u8]) {
        for chunk in bytes.chunks_mut(8) {
            let bits = self.bits().to_le_bytes();
            chunk.copy_from_slice(&bits[..chunk.len()]);
        }
    }

    /// Every order of `items` is as likely (Fisher and Yates).
    pub fn shuffle<T>(&mut self, items: &mut [T]) {
        for last in (1..items.len()).rev() {
            let other = self.below(last + 1);
            items.swap(last, other);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_the_published_generator() {
        // First outputs for seed 1234567, as the reference implementation prints them.
        let mut random = SplitMix64::new(1_234_567);
        let first = [random.bits(), random.bits(), random.bits()];
        assert_eq!(
            first,
            [
                6_457_827_717_110_365_317,
                3_203_168_211_198_807_973,
                9_817_491_932_198_370_423
            ]
        );
    }

    #[test]
    fn every_place_is_as_likely() {
        let mut counts = [[0_u32; 4]; 4];
        let mut random = SplitMix64::new(7);
        for _ in 0..4_000 {
            let mut items = [0, 1, 2, 3];
            random.shuffle(&mut items);
            for (place, item) in items.into_iter().enumerate() {
                counts[place][item] += 1;
            }
        }
        // 1000 expected; 5 standard deviations are 137.
        assert!(
            counts
                .iter()
                .flatten()
                .all(|count| (863..=1137).contains(count)),
            "{counts:?}"
        );
    }
}
