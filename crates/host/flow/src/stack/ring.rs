//! Payload by its offset in a stream.

/// The newest bytes of a stream, as many as a power of two holds. Who uses it knows which of them are
/// there: the endpoint counts.
#[derive(Debug)]
pub(super) struct Ring {
    bytes: Vec<u8>,
}

// === impl Ring ===

impl Ring {
    /// Holds at least `least` bytes.
    pub(super) fn new(least: u64) -> Self {
        let size = usize::try_from(least.clamp(1 << 12, 1 << 30)).unwrap_or(1 << 30);
        Self {
            bytes: vec![0; size.next_power_of_two()],
        }
    }

    fn place(&self, offset: u64) -> usize {
        let mask = self.bytes.len() - 1;
        // The low bits are all that count.
        usize::try_from(offset & u64::try_from(mask).unwrap_or(0)).unwrap_or(0)
    }

    /// Puts `bytes` at `offset`.
    pub(super) fn put(&mut self, offset: u64, bytes: &[u8]) {
        let at = self.place(offset);
        let (first, rest) = bytes.split_at(bytes.len().min(self.bytes.len() - at));
        self.bytes[at..at + first.len()].copy_from_slice(first);
        self.bytes[..rest.len()].copy_from_slice(rest);
    }

    /// The bytes from `offset` on, in two pieces where the ring's end lies between.
    pub(super) fn at(&self, offset: u64, length: usize) -> (&[u8], &[u8]) {
        let at = self.place(offset);
        let first = length.min(self.bytes.len() - at);
        (&self.bytes[at..at + first], &self.bytes[..length - first])
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn what_was_put_is_there_wherever_the_ring_ends(
            offset: u64,
            bytes in prop::collection::vec(any::<u8>(), 0..4096),
        ) {
            let offset = offset >> 1;
            let mut ring = Ring::new(4096);
            ring.put(offset, &bytes);
            let (first, rest) = ring.at(offset, bytes.len());
            prop_assert_eq!([first, rest].concat(), bytes);
        }
    }
}
