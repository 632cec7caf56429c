use core::ops::Range;
use core::time::Duration;

use units::{Bytes, Rate};

/// A stream of numbers that a seed decides (`SplitMix64`, Steele et al. 2014): the corpus is the same on
/// every machine.
#[derive(Clone, Debug)]
pub(crate) struct Draw(u64);

impl Draw {
    pub(crate) const fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub(crate) const fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number of `range`, which is not empty.
    pub(crate) fn number(&mut self, range: Range<u64>) -> u64 {
        let width = range.end.saturating_sub(range.start).max(1);
        range.start + self.next() % width
    }

    pub(crate) fn millis(&mut self, range: Range<u64>) -> Duration {
        Duration::from_millis(self.number(range))
    }

    pub(crate) fn kib(&mut self, range: Range<u64>) -> Bytes {
        Bytes::kib(self.number(range))
    }

    pub(crate) fn mbit(&mut self, range: Range<u64>) -> Rate {
        Rate::mbit_per_s(self.number(range))
    }

    pub(crate) fn one_of<T: Copy, const N: usize>(&mut self, values: [T; N]) -> T {
        let count = u64::try_from(N).unwrap_or(1);
        let index = usize::try_from(self.number(0..count)).unwrap_or(0);
        values[index.min(N - 1)]
    }
}
