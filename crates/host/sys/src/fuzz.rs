//! Bodies of fuzz targets: plain functions, so that `cargo test` runs them too.

use crate::sock_diag::{SockDiagError, take_in};

/// Reads one datagram of a list of sockets; the first four bytes are the sequence number that was asked with.
///
/// A list that ends well may hold no more sockets than it has room for.
pub fn fuzz_sock_diag(bytes: &[u8]) {
    /// A netlink header and a `struct inet_diag_msg`.
    const SMALLEST: usize = 16 + 72;
    let Some((sequence, datagram)) = bytes.split_first_chunk() else {
        return;
    };
    let mut sockets = 0_usize;
    let more = take_in(datagram, u32::from_ne_bytes(*sequence), &mut |_| {
        sockets += 1;
    });
    assert!(sockets * SMALLEST <= datagram.len());
    assert!(!matches!(more, Err(SockDiagError::Open(_))));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_file_of_the_corpus_makes_the_reader_panic() {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/corpus/sock-diag");
        let mut files = 0;
        for entry in std::fs::read_dir(folder).unwrap() {
            let bytes = std::fs::read(entry.unwrap().path()).unwrap();
            for cut in 0..=bytes.len().min(600) {
                fuzz_sock_diag(&bytes[..bytes.len() - cut]);
            }
            for place in 0..bytes.len().min(400) {
                let mut changed = bytes.clone();
                for value in [0, 1, 3, 0x7f, 0xff] {
                    changed[place] = value;
                    fuzz_sock_diag(&changed);
                }
            }
            files += 1;
        }
        assert!(files >= 3, "the corpus lies in {folder}");
    }
}
