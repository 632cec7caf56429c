use core::fmt;

use units::Time;
use wire::LinkType;

/// One captured packet as its file holds it.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Packet<'a> {
    /// When it was captured: nanoseconds since the Unix epoch. Records without a time stamp (simple
    /// packet blocks) carry that of the packet before them.
    pub at: Time,
    /// Its number in the capture, counted from 1.
    pub frame: u64,
    /// The interface within its pcapng section; 0 in pcap files.
    pub interface: u32,
    /// What its first bytes are.
    pub link: LinkType,
    /// What was captured of it.
    pub captured: &'a [u8],
    /// Its length on the wire in bytes, link layer included.
    pub original_len: u32,
}

/// The kind of a capture.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Format {
    /// Classic pcap, of either byte order and resolution.
    Pcap,
    /// pcapng.
    Pcapng,
    /// Lines printed by `tcpdump`.
    TcpdumpText,
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Pcap => "pcap",
            Self::Pcapng => "pcapng",
            Self::TcpdumpText => "tcpdump text",
        })
    }
}

/// How a capture ended.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Ending {
    /// After a whole record.
    Complete,
    /// In the middle of a record, as when the capturing program was killed or the disk was full. A
    /// caveat, not a refusal: every packet before is whole.
    CutShort {
        /// Where the incomplete record begins, in bytes from the start of the capture.
        offset: u64,
        /// How many bytes of it are there.
        present: u64,
    },
}
