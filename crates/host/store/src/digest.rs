//! SHA-256, as hexadecimal text.

use std::fmt::Write as _;

use sha2::{Digest as _, Sha256};

/// The SHA-256 of `bytes` in lower-case hexadecimal, 64 characters.
pub fn sha256_hex(bytes: &[u8]) -> String {
    let mut running = Running::default();
    running.update(bytes);
    running.finish()
}

/// A SHA-256 over pieces, so that a large object is hashed while it arrives.
#[derive(Clone, Debug, Default)]
pub struct Running(Sha256);

impl Running {
    /// Adds the next piece.
    pub fn update(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    /// The digest in lower-case hexadecimal.
    pub fn finish(self) -> String {
        self.0
            .finalize()
            .iter()
            .fold(String::with_capacity(64), |mut text, byte| {
                // Writing into a `String` cannot fail.
                let _ = write!(text, "{byte:02x}");
                text
            })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_digest_is_that_of_fips_180() {
        // FIPS 180-4, example for the one-block message "abc".
        assert_eq!(
            sha256_hex(b"abc"),
            "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
        );
    }

    #[test]
    fn pieces_and_the_whole_have_one_digest() {
        let mut running = Running::default();
        running.update(b"a");
        running.update(b"");
        running.update(b"bc");
        assert_eq!(running.finish(), sha256_hex(b"abc"));
    }
}
