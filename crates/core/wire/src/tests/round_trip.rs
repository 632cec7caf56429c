//! What is written is read back, and nothing that is read makes the decoder panic.

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use proptest::collection::vec;
use proptest::prelude::*;
use units::SeqNum;

use super::{packet, segment, whole};
use crate::write::{self, Checksum, WriteError};
use crate::{Host, LinkType, Observation, SackBlocks, TcpFlags, TcpOptions, Timestamps, fuzz};

fn addresses() -> impl Strategy<Value = (IpAddr, IpAddr)> {
    prop_oneof![
        any::<(Ipv4Addr, Ipv4Addr)>().prop_map(|(a, b)| (a.into(), b.into())),
        any::<(Ipv6Addr, Ipv6Addr)>().prop_map(|(a, b)| (a.into(), b.into())),
    ]
}

/// Options that fit into a header together: those of a SYN, or those of any other segment.
fn options() -> impl Strategy<Value = TcpOptions> {
    let stamps = || {
        proptest::option::of(any::<(u32, u32)>())
            .prop_map(|pair| pair.map(|(value, echo)| Timestamps { value, echo }))
    };
    let syn = (
        any::<Option<u16>>(),
        any::<Option<u8>>(),
        any::<bool>(),
        stamps(),
    )
        .prop_map(
            |(mss, window_scale, sack_permitted, timestamps)| TcpOptions {
                mss,
                window_scale,
                sack_permitted,
                timestamps,
                ..TcpOptions::default()
            },
        );
    let later = (vec(any::<(u32, u32)>(), 0..=3), stamps()).prop_map(|(blocks, timestamps)| {
        let mut sack = SackBlocks::default();
        for (left, right) in blocks {
            sack.push(SeqNum::new(left), SeqNum::new(right));
        }
        TcpOptions {
            sack,
            timestamps,
            ..TcpOptions::default()
        }
    });
    prop_oneof![syn, later]
}

proptest! {
    #[test]
    fn a_written_segment_is_read_back(
        (source, destination) in addresses(),
        (ports, seq, ack, window) in any::<((u16, u16), u32, u32, u16)>(),
        bits in 0_u16..0x1000,
        options in options(),
        payload in vec(any::<u8>(), 0..100),
        (id, ttl, ecn) in (any::<u16>(), any::<u8>(), 0_u8..4),
    ) {
        let mut segment = segment(&payload);
        segment.source.host = Host::Ip(source);
        segment.destination.host = Host::Ip(destination);
        (segment.source.port, segment.destination.port) = ports;
        segment.flags = TcpFlags::from_bits(bits);
        segment.seq = SeqNum::new(seq);
        segment.ack = segment.flags.contains(TcpFlags::ACK).then_some(SeqNum::new(ack));
        segment.window = window;
        segment.options = options;
        segment.ip_id = source.is_ipv4().then_some(id);
        (segment.ttl, segment.ecn) = (Some(ttl), Some(ecn));
        let bytes = packet(&segment);
        segment.header_len = u16::try_from(bytes.len() - payload.len()).unwrap();
        prop_assert_eq!(whole(LinkType::RAW, &bytes), Observation::Tcp(segment));
        prop_assert!(is_intact(&bytes));
    }

    #[test]
    fn nothing_captured_makes_the_decoder_panic(bytes in vec(any::<u8>(), 0..120)) {
        fuzz::fuzz_decode(&bytes);
        fuzz::fuzz_http(&bytes);
        fuzz::fuzz_tls(&bytes);
    }

    #[test]
    fn no_damage_to_a_real_packet_makes_the_decoder_panic(
        damage in vec((0_usize..59, any::<u8>()), 1..4),
    ) {
        let mut bytes = packet(&segment(b"payload"));
        for (at, byte) in damage {
            bytes[at] = byte;
        }
        // Link type, and an original length of the frame's own.
        let mut input = std::vec::Vec::from([7, 0, 0]);
        input.extend(bytes);
        fuzz::fuzz_decode(&input);
    }
}

/// Whether the checksums of a TCP/IP packet come out as zero, the way a receiver adds them up.
fn is_intact(bytes: &[u8]) -> bool {
    let (addresses, transport) = if bytes[0] >> 4 == 4 {
        let mut header = Checksum::default();
        header.add(&bytes[..20]);
        assert_eq!(header.finish(), 0, "IPv4 header");
        (&bytes[12..20], &bytes[20..])
    } else {
        (&bytes[8..40], &bytes[40..])
    };
    let mut sum = Checksum::default();
    sum.add(addresses);
    sum.add(&[0, 6]);
    sum.add(&u16::try_from(transport.len()).unwrap().to_be_bytes());
    sum.add(transport);
    sum.finish() == 0
}

#[test]
fn the_checksum_of_a_published_header() {
    // The example of RFC 1071 §3: the sum of these words is 0xddf2.
    let mut sum = Checksum::default();
    sum.add(&[0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7]);
    assert_eq!(sum.finish(), !0xddf2);
}

#[test]
fn what_no_packet_can_say_is_refused() {
    let mut out = std::vec::Vec::new();
    let mut named = segment(b"");
    named.source.host = Host::Name("domain1");
    assert_eq!(write::segment(&mut out, &named), Err(WriteError::NoAddress));
    let mut mixed = segment(b"");
    mixed.source.host = Host::Ip(Ipv6Addr::LOCALHOST.into());
    assert_eq!(
        write::segment(&mut out, &mixed),
        Err(WriteError::MixedVersions)
    );
    let mut long = segment(b"");
    long.payload_len = 65_536;
    assert_eq!(
        write::segment(&mut out, &long),
        Err(WriteError::TooLong { length: 65_568 })
    );
    let mut crowded = segment(b"");
    crowded.options.mss = Some(1460);
    for edge in 0..4 {
        let (left, right) = (SeqNum::new(edge), SeqNum::new(edge));
        crowded.options.sack.push(left, right);
    }
    assert_eq!(
        write::segment(&mut out, &crowded),
        Err(WriteError::OptionsTooLong { length: 52 })
    );
    assert_eq!(out, [], "nothing of a refused packet is written");
}

#[test]
fn no_file_of_the_corpus_makes_the_decoders_panic() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/corpus");
    let files = std::fs::read_dir(folder).unwrap();
    let replayed = files
        .map(|file| {
            let bytes = std::fs::read(file.unwrap().path()).unwrap();
            fuzz::fuzz_decode(&bytes);
            fuzz::fuzz_http(&bytes);
            fuzz::fuzz_tls(&bytes);
        })
        .count();
    assert!(replayed >= 17, "{replayed} files in {folder}");
}
