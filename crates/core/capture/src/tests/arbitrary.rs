//! No bytes make a reader panic, and no chunking changes what it reads.

use std::vec::Vec;

use proptest::collection::vec;
use proptest::prelude::*;

use crate::fuzz::fuzz_capture;
use crate::{Interface, Section, Writer};
use units::Time;
use wire::LinkType;

/// Pieces of captures, so that arbitrary sequences get past the first check.
fn fragment() -> impl Strategy<Value = Vec<u8>> {
    let number = any::<u32>().prop_map(|n| n.to_le_bytes().to_vec());
    let small = (0_u32..80).prop_map(|n| n.to_le_bytes().to_vec());
    let fixed = prop::sample::select(Vec::from([
        &b"\xd4\xc3\xb2\xa1"[..],
        b"\xa1\xb2\x3c\x4d",
        b"\x0a\x0d\x0d\x0a",
        b"\x4d\x3c\x2b\x1a",
        b"\x1c\0\0\0\x4d\x3c\x2b\x1a\x01\0\0\0\xff\xff\xff\xff\xff\xff\xff\xff\x1c\0\0\0",
        b"\x01\0\0\0\x14\0\0\0\x65\0\0\0\0\0\0\0\x14\0\0\0",
        b"\x45\0\0\x28\0\0\0\0\x40\x06",
    ]));
    let text = prop::sample::select(Vec::from([
        "16:54:06.286416 ",
        " 00:00:00.000000 ",
        "1678886400.123456 ",
        "2023-03-15 16:54:06.1 ",
        "IP ",
        "IP6 ",
        "a.1 > b.http: ",
        "::1.1 > ::2.2: ",
        "Flags [S], ",
        "Flags [P.], ",
        "seq 7, ",
        "seq 1:4294967295, ",
        "ack 4294967295, ",
        "win 5, ",
        "options [",
        "mss 1,",
        "sack 1 {1:2}",
        "TS val 1 ecr 2",
        "], ",
        "length 0",
        "length 12: HTTP: GET / ",
        "\n",
        "(tos 0x2,ECT(0), ttl 64, id 7)\n    ",
        "ICMP echo request, id 1, seq 2, length 64",
        "ethertype IPv4 (0x0800), ",
        "\u{2022} prose ",
        "\r\n",
        "[",
        "]",
        ": ",
        ", ",
    ]))
    .prop_map(|text| text.as_bytes().to_vec());
    prop_oneof![
        1 => number,
        1 => small,
        1 => fixed.prop_map(<[u8]>::to_vec),
        4 => text,
        1 => vec(any::<u8>(), 0..12),
    ]
}

/// A written capture of two packets, the second damaged in places.
fn damaged() -> impl Strategy<Value = Vec<u8>> {
    vec((0_usize..200, any::<u8>()), 0..4).prop_map(|damage| {
        let mut out = Vec::new();
        let mut writer = Writer::new(&mut out, &Section::default());
        let interface = Interface {
            name: "eth0".into(),
            link: LinkType::RAW,
            snaplen: 0,
        };
        let id = writer.interface(&mut out, &interface);
        for nanos in 0..3 {
            writer.packet(&mut out, id, Time::from_nanos(nanos), &[0x45; 20], 20);
        }
        for (at, byte) in damage {
            if let Some(place) = out.get_mut(at) {
                *place = byte;
            }
        }
        out
    })
}

proptest! {
    #[test]
    fn sequences_of_fragments_read_the_same_in_any_pieces(
        size in 1_u8..,
        fragments in vec(fragment(), 0..30),
    ) {
        let mut input = Vec::from([size]);
        input.extend(fragments.concat());
        fuzz_capture(&input);
    }

    #[test]
    fn damaged_captures_read_the_same_in_any_pieces(size in 1_u8.., bytes in damaged()) {
        let mut input = Vec::from([size]);
        input.extend(bytes);
        fuzz_capture(&input);
    }
}

#[test]
fn a_line_beyond_every_measure_is_passed_over_whatever_the_pieces() {
    for length in [65_534, 65_535, 65_536, 65_537, 200_000] {
        let mut input = Vec::from([251]);
        input.extend(std::iter::repeat_n(b'x', length));
        input.extend(b"\n16:54:06.286416 IP a.1 > b.2: Flags [S], seq 7, win 5, length 0");
        fuzz_capture(&input);
    }
}

#[test]
fn every_file_of_the_corpus_reads_the_same_in_any_pieces() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/corpus");
    let files = std::fs::read_dir(folder).unwrap();
    let replayed = files
        .map(|file| fuzz_capture(&std::fs::read(file.unwrap().path()).unwrap()))
        .count();
    assert!(replayed >= 13, "{replayed} files in {folder}");
}
