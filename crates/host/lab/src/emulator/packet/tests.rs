use proptest::prelude::*;

use super::*;

const SEGMENT: usize = 1448;

/// A TCP superpacket as Linux hands it out: 12 bytes of TCP options, partial checksum.
fn superpacket(version: Version, sequence: u32, identification: u16, payload: &[u8]) -> Packet {
    let tcp = match version {
        Version::V4 => 20,
        Version::V6 => 40,
    };
    let mut bytes = vec![0; tcp + 32];
    let length = bytes.len() + payload.len();
    match version {
        Version::V4 => {
            bytes[0] = 0x45;
            put_u16(&mut bytes, 2, length);
            bytes[4..6].copy_from_slice(&identification.to_be_bytes());
            bytes[8..10].copy_from_slice(&[64, 6]);
            bytes[12..20].copy_from_slice(&[10, 0, 0, 1, 10, 0, 0, 2]);
        }
        Version::V6 => {
            bytes[0] = 0x60;
            put_u16(&mut bytes, 4, length - 40);
            bytes[6..8].copy_from_slice(&[6, 64]);
            bytes[8..24].fill(0xfd);
            bytes[24..40].fill(0xfe);
        }
    }
    bytes[tcp + 4..tcp + 8].copy_from_slice(&sequence.to_be_bytes());
    bytes[tcp + 12] = 8 << 4;
    bytes[tcp + 13] = FIN | PSH | CWR | 0x10;
    bytes.extend_from_slice(payload);
    let header = VirtioHeader {
        flags: VirtioHeader::NEEDS_CHECKSUM,
        gso_type: if version == Version::V4 { 0x81 } else { 0x84 },
        header_len: u16::try_from(tcp + 32).unwrap(),
        gso_size: u16::try_from(SEGMENT).unwrap(),
        checksum_start: u16::try_from(tcp).unwrap(),
        checksum_offset: 16,
    };
    Packet::new(header, bytes, length).unwrap()
}

/// A UDP superpacket as Linux hands it out.
fn udp_superpacket(version: Version, payload: &[u8]) -> Packet {
    let start = match version {
        Version::V4 => 20,
        Version::V6 => 40,
    };
    let of_tcp = superpacket(version, 0, 7, &[0]);
    let mut bytes = of_tcp.bytes[..start].to_vec();
    let length = start + UDP_HEADER + payload.len();
    let protocol = if version == Version::V4 { 9 } else { 6 };
    bytes[protocol] = 17;
    bytes.extend_from_slice(&[0x12, 0x34, 0x56, 0x78, 0, 0, 0, 0]);
    put_u16(&mut bytes, start + UDP_LENGTH, length - start);
    bytes.extend_from_slice(payload);
    let header = VirtioHeader {
        flags: VirtioHeader::NEEDS_CHECKSUM,
        gso_type: 5,
        header_len: u16::try_from(start + UDP_HEADER).unwrap(),
        gso_size: u16::try_from(SEGMENT).unwrap(),
        checksum_start: u16::try_from(start).unwrap(),
        checksum_offset: 6,
    };
    Packet::new(header, bytes, length).unwrap()
}

/// The bytes of a part, as a receiver gets them.
fn cut(packet: &Packet, range: &Range<u32>) -> (VirtioHeader, Vec<u8>) {
    let shape = packet.superpacket.unwrap();
    let data = &packet.bytes[..packet.length];
    match shape.part(packet.header, data, range) {
        Some(part) => {
            let headers = &part.headers[..part.headers_length];
            (part.header, [headers, &data[part.payload]].concat())
        }
        None => (packet.header, data.to_vec()),
    }
}

/// What the receiver's kernel, or a network card, makes of a partial checksum.
fn finish_checksum(header: VirtioHeader, bytes: &mut [u8]) {
    let start = usize::from(header.checksum_start);
    let checksum = !fold(sum(&bytes[start..]));
    put_u16(bytes, start + 16, checksum.into());
}

/// Sums to all ones over pseudo-header and segment where the checksum is right (RFC 9293, section 3.1).
fn tcp_checksum_is_right(version: Version, bytes: &[u8]) -> bool {
    let (addresses, tcp) = match version {
        Version::V4 => (12..20, 20),
        Version::V6 => (8..40, 40),
    };
    let length = u32::try_from(bytes.len() - tcp).unwrap();
    fold(sum(&bytes[addresses]) + 6 + length + sum(&bytes[tcp..])) == 0xffff
}

fn any_version() -> impl Strategy<Value = Version> {
    prop_oneof![Just(Version::V4), Just(Version::V6)]
}

proptest! {
    #[test]
    fn parts_put_together_are_the_superpacket(
        version in any_version(),
        sequence in any::<u32>(),
        identification in any::<u16>(),
        payload in prop::collection::vec(any::<u8>(), SEGMENT + 1..20 * SEGMENT),
        cuts in prop::collection::btree_set(0_u32..20, 0..8),
    ) {
        let packet = superpacket(version, sequence, identification, &payload);
        let segments = packet.segments().unwrap();
        let inner = cuts.into_iter().filter(|&at| at > 0 && at < segments.count());
        let bounds: Vec<u32> = [0].into_iter().chain(inner).chain([segments.count()]).collect();
        let tcp = packet.superpacket.unwrap().start;
        let mut together = Vec::new();
        for pair in bounds.windows(2) {
            let range = pair[0]..pair[1];
            let (header, mut bytes) = cut(&packet, &range);
            let whole = bounds.len() == 2;

            let expected = segments.bytes(&range).get();
            let single = range.len() == 1;
            prop_assert_eq!(header.segmentation() == Segmentation::None, single);
            // A superpacket repeats its headers when it is parted further.
            let repeated = (range.len() - 1) * (tcp + 32);
            prop_assert_eq!(u64::try_from(bytes.len() + repeated).unwrap(), expected);

            let at = u32::try_from(together.len()).unwrap();
            let found = u32::from_be_bytes(bytes[tcp + 4..tcp + 8].try_into().unwrap());
            prop_assert_eq!(found, sequence.wrapping_add(at));
            let flags = bytes[tcp + 13];
            prop_assert_eq!(flags & (FIN | PSH) != 0, range.end == segments.count());
            prop_assert_eq!(flags & CWR != 0, range.start == 0);
            prop_assert!(flags & 0x10 != 0);

            if version == Version::V4 && !whole {
                prop_assert_eq!(fold(sum(&bytes[..20])), 0xffff);
                let id = u16::from_be_bytes([bytes[4], bytes[5]]);
                let start = u16::try_from(range.start).unwrap();
                prop_assert_eq!(id, identification.wrapping_add(start));
                let length = u16::from_be_bytes([bytes[2], bytes[3]]);
                prop_assert_eq!(usize::from(length), bytes.len());
            }
            if !whole {
                finish_checksum(header, &mut bytes);
                prop_assert!(tcp_checksum_is_right(version, &bytes));
            }
            together.extend_from_slice(&bytes[tcp + 32..]);
        }
        prop_assert_eq!(together, payload);
    }

    #[test]
    fn parts_of_udp_have_their_own_lengths_and_checksums(
        version in any_version(),
        payload in prop::collection::vec(any::<u8>(), SEGMENT + 1..20 * SEGMENT),
        range in (0_u32..19, 1_u32..20),
    ) {
        let packet = udp_superpacket(version, &payload);
        let segments = packet.segments().unwrap();
        let start = range.0.min(segments.count() - 1);
        let end = (start + range.1).min(segments.count());
        prop_assume!(end - start < segments.count());
        let (header, mut bytes) = cut(&packet, &(start..end));

        let udp = packet.superpacket.unwrap().start;
        let from = usize::try_from(start).unwrap() * SEGMENT;
        let to = (usize::try_from(end).unwrap() * SEGMENT).min(payload.len());
        prop_assert_eq!(&bytes[udp + UDP_HEADER..], &payload[from..to]);
        let length = u16::from_be_bytes([bytes[udp + 4], bytes[udp + 5]]);
        prop_assert_eq!(usize::from(length), UDP_HEADER + to - from);
        prop_assert_eq!(header.segmentation() == Segmentation::None, end - start == 1);
        // The rest of the sum is the receiver's, over what its network card would see.
        let checksum = !fold(sum(&bytes[udp..]));
        put_u16(&mut bytes, udp + UDP_CHECKSUM, checksum.into());
        let addresses = if version == Version::V4 { 12..20 } else { 8..40 };
        let pseudo = sum(&bytes[addresses]) + 17 + u32::from(length);
        prop_assert_eq!(fold(pseudo + sum(&bytes[udp..])), 0xffff);
    }

    /// The kernel is trusted to be sane, but a driver that can be crashed by a packet is none.
    #[test]
    fn no_bytes_and_no_header_make_it_panic(
        bytes in prop::collection::vec(any::<u8>(), 0..200),
        gso_type in prop_oneof![Just(0_u8), Just(1), Just(4), Just(5), any::<u8>()],
        gso_size in any::<u16>(),
        checksum_start in 0_u16..80,
        range in (0_u32..50, 1_u32..50),
    ) {
        let header = VirtioHeader {
            flags: VirtioHeader::NEEDS_CHECKSUM,
            gso_type,
            header_len: 0,
            gso_size,
            checksum_start,
            checksum_offset: if gso_type == 5 { 6 } else { 16 },
        };
        let length = bytes.len();
        if let Some(packet) = Packet::new(header, bytes, length) {
            let segments = packet.segments().unwrap();
            if packet.superpacket.is_some() {
                let start = range.0.min(segments.count() - 1);
                let end = (start + range.1).min(segments.count());
                let (_, part) = cut(&packet, &(start..end));
                prop_assert!(part.len() <= length);
            }
        }
    }
}

#[test]
fn a_plain_packet_is_one_segment() {
    let packet = Packet::new(VirtioHeader::PLAIN, vec![0x45; 1500], 1500).unwrap();
    // 0x45 ends in 01: ECT(1).
    let expected = Segments::single(1500).with_ecn(link::Ecn::Ect1);
    assert_eq!(packet.segments(), Some(expected));
}

fn ip_checksum_is_right(version: Version, bytes: &[u8]) -> bool {
    version == Version::V6 || fold(sum(&bytes[..20])) == 0xffff
}

/// Sets the ECN field of a superpacket to ECT(0), with a checksum that is right.
fn capable(mut packet: Packet, version: Version) -> Packet {
    match version {
        Version::V4 => {
            packet.bytes[1] |= 0b10;
            put_u16(&mut packet.bytes, 10, 0);
            let checksum = !fold(sum(&packet.bytes[..20]));
            put_u16(&mut packet.bytes, 10, checksum.into());
        }
        Version::V6 => packet.bytes[1] |= 0b10_0000,
    }
    packet
}

proptest! {
    #[test]
    fn a_mark_changes_the_ecn_field_and_its_checksum_alone(
        version in any_version(), length in 1_usize..5 * SEGMENT, part in 0_u32..5,
        identification in any::<u16>(),
    ) {
        let payload = vec![7; length];
        let packet = capable(superpacket(version, 1, identification, &payload), version);
        let segments = packet.segments().unwrap();
        prop_assert_eq!(segments.ecn(), link::Ecn::Ect0);
        let first = part.min(segments.count() - 1);
        for range in [first..first + 1, 0..segments.count()] {
            let plain = packet.copy(&range);
            let mut marked = packet.copy(&range);
            marked.mark();
            prop_assert_eq!(alteration::ecn(&marked.bytes), link::Ecn::Ce);
            prop_assert!(ip_checksum_is_right(version, &marked.bytes));
            let changed = |at: &usize| plain.bytes[*at] != marked.bytes[*at];
            let changed: Vec<usize> = (0..plain.bytes.len()).filter(changed).collect();
            prop_assert!(changed.iter().all(|at| [1, 10, 11].contains(at)), "{changed:?}");
        }
    }

    #[test]
    fn damage_is_one_bit_that_the_receiver_s_checksum_finds(
        version in any_version(), length in 1_usize..3 * SEGMENT, part in 0_u32..3,
        number in any::<u64>(),
    ) {
        let payload = vec![0xa5; length];
        let packet = superpacket(version, 99, 1, &payload);
        let segments = packet.segments().unwrap();
        let first = part.min(segments.count() - 1);
        let mut whole = packet.copy(&(first..first + 1));
        finish_checksum(whole.header, &mut whole.bytes);
        let mut damaged = packet.copy(&(first..first + 1));
        damaged.damage(number);
        prop_assert_eq!(damaged.header, VirtioHeader::PLAIN);
        let pairs = whole.bytes.iter().zip(&damaged.bytes);
        let flipped: u32 = pairs.map(|(one, other)| (one ^ other).count_ones()).sum();
        prop_assert_eq!(flipped, 1);
        prop_assert!(!tcp_checksum_is_right(version, &damaged.bytes));
        prop_assert!(ip_checksum_is_right(version, &whole.bytes) == ip_checksum_is_right(version, &damaged.bytes));
    }

    #[test]
    fn no_bytes_make_an_alteration_panic(
        bytes in prop::collection::vec(any::<u8>(), 0..100), checksum_start in 0_u16..120,
        checksum_offset in 0_u16..40, number in any::<u64>(),
    ) {
        let header = VirtioHeader {
            flags: VirtioHeader::NEEDS_CHECKSUM,
            checksum_start,
            checksum_offset,
            ..VirtioHeader::PLAIN
        };
        let mut altered = Altered { header, bytes };
        altered.mark();
        altered.damage(number);
        let _ = alteration::ecn(&altered.bytes);
    }
}
