//! How inputs are made, and made shorter.

/// `SplitMix64` (Steele, Lea, Flood 2014): every seed is as good as any other.
pub(super) struct Random(u64);

// === impl Random ===

impl Random {
    pub(super) const fn new(seed: u64) -> Self {
        Self(seed)
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        mix(self.0)
    }

    fn byte(&mut self) -> u8 {
        let [first, ..] = self.next().to_be_bytes();
        first
    }

    /// Below `end`; 0 where that is 0.
    fn below(&mut self, end: usize) -> usize {
        let wide = self.next() >> 16;
        usize::try_from(wide).unwrap_or(0) % end.max(1)
    }
}

const fn mix(mut z: u64) -> u64 {
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// A number that stands for the bytes in a file's name.
pub(super) fn hash(bytes: &[u8]) -> u64 {
    bytes
        .iter()
        .fold(0, |hash, &byte| mix(hash ^ u64::from(byte)).wrapping_add(1))
}

/// An input from scratch, or a changed file of the corpus.
pub(super) fn make(random: &mut Random, corpus: &[Vec<u8>], longest: usize) -> Vec<u8> {
    let known = random.below(corpus.len());
    if let Some(file) = corpus.get(known).filter(|_| random.byte() < 128) {
        return changed(random, file, corpus);
    }
    let length = random.below(longest + 1);
    (0..length).map(|_| random.byte()).collect()
}

fn changed(random: &mut Random, file: &[u8], corpus: &[Vec<u8>]) -> Vec<u8> {
    let mut bytes = file.to_vec();
    for _ in 0..=random.below(8) {
        let at = random.below(bytes.len());
        match random.byte() % 5 {
            0 => bytes.truncate(at),
            1 => bytes.insert(at.min(bytes.len()), random.byte()),
            2 => {
                let other = random.below(corpus.len());
                let other = corpus.get(other).map_or(&[][..], Vec::as_slice);
                let from = random.below(other.len());
                bytes.truncate(at);
                bytes.extend_from_slice(other.get(from..).unwrap_or_default());
            }
            _ => {
                if let Some(byte) = bytes.get_mut(at) {
                    *byte = random.byte();
                }
            }
        }
    }
    bytes
}

/// A shorter input for which `fails` still holds, by leaving out ever smaller pieces.
pub(super) fn shorten(mut input: Vec<u8>, fails: impl Fn(&[u8]) -> bool) -> Vec<u8> {
    let mut piece = input.len() / 2;
    while piece > 0 {
        let mut at = 0;
        while at < input.len() {
            let end = (at + piece).min(input.len());
            let without = [&input[..at], &input[end..]].concat();
            if fails(&without) {
                input = without;
            } else {
                at = end;
            }
        }
        piece /= 2;
    }
    input
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn inputs_follow_from_the_seed_and_stay_within_their_length() {
        let corpus = [vec![1, 2, 3], vec![]];
        let all = |seed| {
            let mut random = Random::new(seed);
            let make = |_| make(&mut random, &corpus, 40);
            (0..200).map(make).collect::<Vec<_>>()
        };
        assert_eq!(all(7), all(7));
        assert_ne!(all(7), all(8));
        assert!(all(7).iter().all(|input| input.len() <= 40));
        assert!(all(7).iter().any(|input| input.len() > 20));
    }

    #[test]
    fn what_fails_is_cut_down_to_what_matters() {
        let input: Vec<u8> = (0..=255).collect();
        let fails = |bytes: &[u8]| bytes.contains(&9) && bytes.contains(&200);
        assert_eq!(shorten(input, fails), [9, 200]);
    }
}
