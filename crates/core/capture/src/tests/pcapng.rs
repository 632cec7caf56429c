use std::vec::Vec;

use super::{Row, number, rows};
use crate::{Capture, Ending, Packets, ReadError, Reader};
use wire::LinkType;

/// Builds blocks in either byte order, independently of the writer.
struct Blocks {
    big: bool,
    bytes: Vec<u8>,
}

impl Blocks {
    fn section(big: bool) -> Self {
        let mut blocks = Self {
            big,
            bytes: Vec::new(),
        };
        blocks.section_header(big);
        blocks
    }

    fn section_header(&mut self, big: bool) {
        self.big = big;
        let version = if big { [0, 1, 0, 0] } else { [1, 0, 0, 0] };
        let body = [&number(big, 0x1a2b_3c4d)[..], &version, &[0xff; 8]].concat();
        self.block(0x0a0d_0d0a, &body);
    }

    fn block(&mut self, kind: u32, body: &[u8]) {
        let padded = body.len().next_multiple_of(4);
        let length = number(self.big, u32::try_from(padded + 12).unwrap());
        self.bytes.extend(number(self.big, kind));
        self.bytes.extend(length);
        self.bytes.extend(body);
        self.bytes
            .extend(std::iter::repeat_n(0, padded - body.len()));
        self.bytes.extend(length);
    }

    fn half(&self, value: u16) -> [u8; 2] {
        if self.big {
            value.to_be_bytes()
        } else {
            value.to_le_bytes()
        }
    }

    fn interface(&mut self, link: u16, snaplen: u32, options: &[(u16, &[u8])]) {
        let mut body = [self.half(link), [0, 0]].concat();
        body.extend(number(self.big, snaplen));
        for (code, value) in options {
            body.extend(self.half(*code));
            body.extend(self.half(u16::try_from(value.len()).unwrap()));
            body.extend(*value);
            body.resize(body.len().next_multiple_of(4), 0);
        }
        self.block(1, &body);
    }

    fn enhanced(&mut self, interface: u32, count: u64, data: &[u8], original_len: u32) {
        let [high, low] = [count >> 32, count & 0xffff_ffff].map(|n| u32::try_from(n).unwrap());
        let length = u32::try_from(data.len()).unwrap();
        let mut body = Vec::new();
        for value in [interface, high, low, length, original_len] {
            body.extend(number(self.big, value));
        }
        body.extend(data);
        self.block(6, &body);
    }
}

fn times(file: &[u8]) -> Vec<u64> {
    rows(file).0.iter().map(|row| row.0).collect()
}

#[test]
fn sections_of_either_byte_order_follow_each_other() {
    let mut file = Blocks::section(true);
    file.interface(1, 0, &[]);
    file.interface(101, 0, &[(9, &[9])]);
    file.enhanced(1, 5_000_000_001, b"abcde", 60);
    file.section_header(false);
    file.interface(113, 0, &[]);
    file.enhanced(0, 7, b"fg", 2);
    // The second interface belonged to the first section: this block is passed over.
    file.enhanced(1, 8, b"hi", 2);
    file.enhanced(0, 9, b"jk", 2);
    let expected: [Row<'_>; 3] = [
        (5_000_000_001, 1, LinkType::RAW, b"abcde", 60),
        (7_000, 0, LinkType::LINUX_SLL, b"fg", 2),
        (9_000, 0, LinkType::LINUX_SLL, b"jk", 2),
    ];
    assert_eq!(rows(&file.bytes), (expected.to_vec(), None));
    let mut capture = Capture::new();
    capture.feed(&file.bytes);
    while capture.next_observation().unwrap().is_some() {}
    assert_eq!(capture.summary().unreadable_blocks, 1);
}

#[test]
fn every_resolution_and_offset_gives_nanoseconds() {
    let offset = (-2_i64).to_be_bytes();
    for (resolution, count, nanos) in [
        (0, 7, 7_000_000_000),
        (3, 7, 7_000_000),
        (6, 7, 7_000),
        (9, 7, 7),
        (12, 7_999, 7),
        (127, u64::MAX, 0),
        // 2^-10: 1536 counts are one and a half seconds.
        (0x8a, 1_536, 1_500_000_000),
        (0xa0, 1 << 31, 500_000_000),
        (0xff, u64::MAX, 0),
        (0, u64::MAX, u64::MAX),
    ] {
        let mut file = Blocks::section(true);
        file.interface(1, 0, &[(2, b"eth0"), (9, &[resolution]), (0, b"")]);
        file.enhanced(0, count, b"", 0);
        assert_eq!(times(&file.bytes), [nanos], "resolution {resolution:#x}");
    }
    let mut file = Blocks::section(true);
    file.interface(1, 0, &[(14, &offset)]);
    file.enhanced(0, 5_000_001, b"", 0);
    // Before the epoch there is only the epoch.
    file.enhanced(0, 1, b"", 0);
    assert_eq!(times(&file.bytes), [3_000_001_000, 0]);
}

#[test]
fn simple_and_obsolete_packet_blocks_are_read() {
    let mut file = Blocks::section(false);
    file.interface(1, 4, &[]);
    file.enhanced(0, 9, b"abcd", 4);
    file.block(3, &[&number(false, 6)[..], b"efgh"].concat());
    let obsolete = [
        &[0, 0, 0xff, 0xff][..],
        &[0; 4],
        &number(false, 11),
        &number(false, 3),
        &number(false, 60),
        b"ijk",
    ];
    file.block(2, &obsolete.concat());
    let expected: [Row<'_>; 3] = [
        (9_000, 0, LinkType::ETHERNET, b"abcd", 4),
        // Without a time of its own, and cut to the interface's snapshot length.
        (9_000, 0, LinkType::ETHERNET, b"efgh", 6),
        (11_000, 0, LinkType::ETHERNET, b"ijk", 60),
    ];
    assert_eq!(rows(&file.bytes), (expected.to_vec(), None));
}

#[test]
fn unknown_blocks_are_passed_over_without_being_held() {
    let mut file = Blocks::section(false);
    file.interface(1, 0, &[]);
    file.block(0x0bad_cafe, &[7; 1000]);
    file.enhanced(0, 9, b"abcd", 4);
    let mut reader = Reader::new();
    let mut count = 0;
    for piece in file.bytes.chunks(7) {
        reader.feed(piece);
        while reader.next_packet().unwrap().is_some() {
            count += 1;
        }
    }
    assert_eq!((count, reader.finish()), (1, Ending::Complete));

    // Four gigabytes that never come: read as a block cut short.
    let start = file.bytes.len();
    file.bytes.extend(number(false, 0x0bad_cafe));
    file.bytes.extend(number(false, 0xffff_fffc));
    file.bytes.extend([0; 8]);
    let mut packets = Packets::new(&file.bytes);
    while packets.next_packet().unwrap().is_some() {}
    let offset = u64::try_from(start).unwrap();
    assert_eq!(
        packets.finish(),
        Ending::CutShort {
            offset,
            present: 16
        }
    );
}

#[test]
fn lengths_that_lose_the_next_block_end_the_reading() {
    let mut whole = Blocks::section(false);
    whole.interface(1, 0, &[]);
    let start = whole.bytes.len();
    whole.enhanced(0, 9, b"abcd", 4);
    let with_length = |length: u32| {
        let mut bytes = whole.bytes.clone();
        bytes[start + 4..start + 8].copy_from_slice(&length.to_le_bytes());
        rows(&bytes).1
    };
    let malformed = |field, value| {
        Some(ReadError::Malformed {
            field,
            value,
            offset: u64::try_from(start).unwrap(),
        })
    };
    assert_eq!(with_length(8), malformed("block length", 8));
    assert_eq!(with_length(37), malformed("block length", 37));
    assert_eq!(
        with_length(0xffff_fffc),
        malformed("block length", 0xffff_fffc)
    );
    assert_eq!(
        with_length(32),
        malformed("leading and trailing block length differ:", 32)
    );
    let mut broken = whole.bytes.clone();
    broken[8] = 0;
    assert!(matches!(
        rows(&broken).1,
        Some(ReadError::Malformed {
            field: "byte-order magic",
            offset: 0,
            ..
        })
    ));
}
