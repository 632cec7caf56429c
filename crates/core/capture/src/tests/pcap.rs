use std::string::ToString;
use std::vec::Vec;

use super::{number, rows};
use crate::{Ending, Packets, ReadError, Reader};
use wire::LinkType;

/// A file with one packet of four bytes, sixty on the wire, captured 3 s and 5 units after the epoch.
fn file(big: bool, magic: u32, link: u32, extra: usize) -> Vec<u8> {
    let n = |value| number(big, value);
    let mut file = Vec::new();
    let version = if big { [0, 2, 0, 4] } else { [2, 0, 4, 0] };
    file.extend(n(magic));
    file.extend(version);
    for value in [0, 0, 65_535, link, 3, 5, 4, 60] {
        file.extend(n(value));
    }
    file.extend(std::iter::repeat_n(0xee, extra));
    file.extend(b"abcd");
    file
}

#[test]
fn both_byte_orders_and_all_magics_give_the_same_packet() {
    for big in [false, true] {
        for (magic, extra, unit) in [
            (0xa1b2_c3d4, 0, 1_000),
            (0xa1b2_3c4d, 0, 1),
            (0xa1b2_cd34, 8, 1_000),
        ] {
            let file = file(big, magic, 1, extra);
            let row = (
                3_000_000_000 + 5 * unit,
                0,
                LinkType::ETHERNET,
                &b"abcd"[..],
                60,
            );
            assert_eq!(rows(&file), (Vec::from([row]), None), "{magic:x} {big}");
        }
    }
}

#[test]
fn the_length_of_a_frame_check_sequence_is_no_part_of_the_link_type() {
    let file = file(false, 0xa1b2_c3d4, 0x2400_0001, 0);
    assert_eq!(rows(&file).0[0].2, LinkType::ETHERNET);
}

#[test]
fn a_record_cut_short_is_a_caveat_not_a_refusal() {
    let mut file = file(false, 0xa1b2_c3d4, 1, 0);
    let whole = file.len();
    file.extend([0; 17]);
    file[whole + 8] = 200;
    let mut packets = Packets::new(&file);
    assert!(packets.next_packet().unwrap().is_some());
    assert_eq!(
        packets.finish(),
        Ending::CutShort {
            offset: 44,
            present: 17
        }
    );
    assert_eq!(packets.next_packet(), Ok(None));
    assert_eq!(
        packets.finish(),
        Ending::CutShort {
            offset: 44,
            present: 17
        }
    );
}

#[test]
fn a_hostile_record_length_ends_the_reading_for_good() {
    let mut file = file(false, 0xa1b2_c3d4, 1, 0);
    file.extend([0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0]);
    let mut reader = Reader::new();
    reader.feed(&file);
    assert!(reader.next_packet().unwrap().is_some());
    let error = ReadError::Malformed {
        field: "record length",
        value: 0xffff_ffff,
        offset: 44,
    };
    assert_eq!(reader.next_packet(), Err(error));
    reader.feed(&[0; 100]);
    assert_eq!(reader.next_packet(), Err(error));
    assert_eq!(
        error.to_string(),
        "record length 4294967295 at byte 44 of the capture is malformed"
    );
}

#[test]
fn other_files_are_refused_by_their_first_bytes() {
    let error = rows(&[0x1f, 0x8b, 8, 0, 0, 0]).1.unwrap();
    assert_eq!(
        error.to_string(),
        "the first bytes [1f, 8b, 08, 00] are neither pcap, nor pcapng, nor the text output of tcpdump"
    );
}
