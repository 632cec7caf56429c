//! The payload: a stream of bytes that both ends can make, cheap enough for tens of gigabits per second.

/// Bytes of a block; half of a small second-level cache, so that making a block never waits for memory.
pub(crate) const BLOCK: usize = 128 * 1024;
/// Bytes of a line, of which one word differs from block to block.
const LINE: usize = 64;
/// An odd number, so that counting in its steps visits every 64-bit value (Knuth's golden ratio).
const STEP: u64 = 0x9e37_79b9_7f4a_7c15;

/// The stream of one seed, at a place in it.
///
/// A block is random; the next one differs from it in one word per line. So a byte that is lost,
/// invented or moved shows within 64 bytes, even one that moved by whole blocks, and a block costs two
/// thousand additions.
#[derive(Clone, Debug)]
pub(crate) struct Pattern {
    block: Vec<u8>,
    position: usize,
}

/// Compares what came with what should have come.
#[derive(Debug)]
pub(crate) struct Verifier {
    pattern: Pattern,
    offset: u64,
    first_difference: Option<u64>,
}

// === impl Pattern ===

impl Pattern {
    pub(crate) fn new(seed: u64) -> Self {
        let mut state = seed;
        let mut block = vec![0; BLOCK];
        for word in block.chunks_exact_mut(8) {
            word.copy_from_slice(&split_mix(&mut state).to_le_bytes());
        }
        Self { block, position: 0 }
    }

    /// The next bytes, at least one, at most `most`; fewer where the block ends.
    pub(crate) fn peek(&self, most: u64) -> &[u8] {
        let left = &self.block[self.position..];
        let length = usize::try_from(most).map_or(left.len(), |most| most.min(left.len()));
        &left[..length]
    }

    /// Moves on by `count` bytes, which [`peek`](Self::peek) has shown.
    pub(crate) fn advance(&mut self, count: usize) {
        self.position += count;
        if self.position >= self.block.len() {
            self.position = 0;
            for line in self.block.chunks_exact_mut(LINE) {
                if let Some(word) = line.first_chunk_mut::<8>() {
                    *word = u64::from_le_bytes(*word).wrapping_add(STEP).to_le_bytes();
                }
            }
        }
    }
}

/// `SplitMix64` (Steele, Lea and Flood, OOPSLA 2014): one word of output per step.
fn split_mix(state: &mut u64) -> u64 {
    *state = state.wrapping_add(STEP);
    let mut word = *state;
    word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    word ^ (word >> 31)
}

// === impl Verifier ===

impl Verifier {
    pub(crate) fn new(seed: u64) -> Self {
        Self {
            pattern: Pattern::new(seed),
            offset: 0,
            first_difference: None,
        }
    }

    /// Takes the next bytes of the stream.
    pub(crate) fn take(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            let most = u64::try_from(bytes.len()).unwrap_or(u64::MAX);
            let expected = self.pattern.peek(most);
            let (now, later) = bytes.split_at(expected.len());
            if self.first_difference.is_none() && now != expected {
                let same = now.iter().zip(expected).take_while(|(a, b)| a == b).count();
                self.first_difference = Some(self.offset.saturating_add(to_u64(same)));
            }
            self.offset = self.offset.saturating_add(to_u64(now.len()));
            self.pattern.advance(now.len());
            bytes = later;
        }
    }

    /// Offset of the first byte that was not the one sent.
    pub(crate) const fn first_difference(&self) -> Option<u64> {
        self.first_difference
    }
}

/// A length as the documents and the protocol count it.
pub(crate) fn to_u64(length: usize) -> u64 {
    u64::try_from(length).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn stream(seed: u64, length: usize) -> Vec<u8> {
        let mut pattern = Pattern::new(seed);
        let mut bytes = Vec::new();
        while bytes.len() < length {
            let piece = pattern.peek(to_u64(length - bytes.len())).to_vec();
            bytes.extend_from_slice(&piece);
            pattern.advance(piece.len());
        }
        bytes
    }

    #[test]
    fn a_stream_is_a_function_of_its_seed() {
        assert_eq!(stream(7, 3 * BLOCK), stream(7, 3 * BLOCK));
        assert_ne!(stream(7, LINE), stream(8, LINE));
    }

    #[test]
    fn a_block_differs_from_the_next_in_every_line() {
        let bytes = stream(7, 2 * BLOCK);
        let (first, second) = bytes.split_at(BLOCK);
        for (one, other) in first.chunks(LINE).zip(second.chunks(LINE)) {
            assert_ne!(one, other);
        }
    }

    proptest! {
        #[test]
        fn what_was_sent_is_accepted_in_any_pieces(pieces in prop::collection::vec(1_usize..200_000, 1..6)) {
            let bytes = stream(3, pieces.iter().sum());
            let mut verifier = Verifier::new(3);
            let mut rest = bytes.as_slice();
            for piece in pieces {
                let (now, later) = rest.split_at(piece);
                verifier.take(now);
                rest = later;
            }
            prop_assert_eq!(verifier.first_difference(), None);
        }

        #[test]
        fn one_wrong_byte_is_named(at in 0_usize..300_000, flip in 1_u8..=255) {
            let mut bytes = stream(5, 300_000);
            bytes[at] ^= flip;
            let mut verifier = Verifier::new(5);
            verifier.take(&bytes);
            prop_assert_eq!(verifier.first_difference(), Some(to_u64(at)));
        }

        #[test]
        fn a_lost_or_repeated_piece_is_noticed(at in 0_usize..200_000, length in 1_usize..300_000, lost: bool) {
            let sent = stream(9, 600_000);
            let mut came = sent[..at].to_vec();
            if lost {
                came.extend_from_slice(&sent[at + length..]);
            } else {
                came.extend_from_slice(&sent[at..at + length]);
                came.extend_from_slice(&sent[at..]);
            }
            let mut verifier = Verifier::new(9);
            verifier.take(&came);
            prop_assert!(verifier.first_difference().is_some());
        }
    }
}
