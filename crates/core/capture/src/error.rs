/// A capture cannot be read any further. What was read before stands.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
pub enum ReadError {
    /// The first bytes belong to no format read here.
    #[error(
        "the first bytes {magic:02x?} are neither pcap, nor pcapng, nor the text output of tcpdump"
    )]
    Unrecognised {
        /// The first four bytes.
        magic: [u8; 4],
    },
    /// A length or a version contradicts the format, so that the next record cannot be found.
    #[error("{field} {value} at byte {offset} of the capture is malformed")]
    Malformed {
        /// The field that is wrong.
        field: &'static str,
        /// Its value as read.
        value: u64,
        /// Where its record begins, in bytes from the start of the capture.
        offset: u64,
    },
}
