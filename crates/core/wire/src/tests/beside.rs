//! What travels beside whole segments: fragments, ICMP errors, questions for link-layer addresses.

use core::net::IpAddr;

use std::vec::Vec;

use units::Time;

use super::{packet, segment, whole};
use crate::{Host, IcmpError, IcmpReason, LinkType, Observation, Resolution, decode, write};

/// The IPv4 packet of a segment in pieces of `size` bytes behind the IP header.
fn in_pieces(bytes: &[u8], size: usize) -> Vec<Vec<u8>> {
    let (header, rest) = bytes.split_at(20);
    let pieces: Vec<&[u8]> = rest.chunks(size).collect();
    let last = pieces.len() - 1;
    let cut = |(number, piece): (usize, &&[u8])| {
        let mut header = Vec::from(header);
        let total = u16::try_from(20 + piece.len()).unwrap();
        header[2..4].copy_from_slice(&total.to_be_bytes());
        let more = if number < last { 0x2000 } else { 0 };
        let place = u16::try_from(number * size / 8).unwrap() | more;
        header[6..8].copy_from_slice(&place.to_be_bytes());
        [&header, *piece].concat()
    };
    pieces.iter().enumerate().map(cut).collect()
}

#[test]
fn fragments_say_where_they_belong() {
    let payload: Vec<u8> = (0..100).collect();
    let segment = segment(&payload);
    let pieces = in_pieces(&packet(&segment), 56);
    let [first, middle, last] = pieces.as_slice() else {
        panic!("{} pieces", pieces.len())
    };
    let Observation::FirstFragment(first) = whole(LinkType::RAW, first) else {
        panic!("no first fragment");
    };
    assert_eq!((first.id, first.header_len), (54_321, 32));
    assert_eq!(
        (first.segment.payload, first.segment.seq),
        (&payload[..24], segment.seq)
    );
    for (piece, range, is_last) in [(middle, 24..80, false), (last, 80..100, true)] {
        let Observation::Fragment(fragment) = whole(LinkType::RAW, piece) else {
            panic!("no fragment");
        };
        assert_eq!(Host::Ip(fragment.source), segment.source.host);
        assert_eq!((fragment.id, fragment.last), (54_321, is_last));
        assert_eq!(fragment.offset, 32 + u32::try_from(range.start).unwrap());
        assert_eq!(fragment.bytes, &payload[range]);
    }
}

#[test]
fn a_fragment_of_something_else_is_named() {
    let mut dns = Vec::new();
    let ends = ["10.0.0.3:53", "10.0.0.1:9"].map(|end| end.parse().unwrap());
    write::udp(&mut dns, ends[0], ends[1], &[0; 100]).unwrap();
    let pieces = in_pieces(&dns, 56);
    assert_eq!(whole(LinkType::RAW, &pieces[0]), Observation::Other("DNS"));
    assert_eq!(
        whole(LinkType::RAW, &pieces[1]),
        Observation::Other("IP fragment")
    );
}

#[test]
fn fragments_of_ipv6_stand_behind_a_header_of_their_own() {
    let bytes = packet(&segment(&[7; 100]));
    let fragment = |field: u16, piece: &[u8]| {
        let length = u16::try_from(8 + piece.len()).unwrap().to_be_bytes();
        let field = field.to_be_bytes();
        let mut v6 = Vec::from([0x60, 0, 0, 0, length[0], length[1], 44, 61]);
        v6.extend([0x20; 16]);
        v6.extend([0x30; 16]);
        v6.extend([6, 0, field[0], field[1], 0, 1, 2, 3]);
        v6.extend(piece);
        v6
    };
    let tcp = &bytes[20..];
    let first = fragment(1, &tcp[..64]);
    let Observation::FirstFragment(first) = whole(LinkType::RAW, &first) else {
        panic!("no first fragment");
    };
    assert_eq!((first.id, first.header_len), (0x0001_0203, 32));
    assert_eq!(first.segment.payload_len, 32);
    let last = fragment(64, &tcp[64..]);
    let Observation::Fragment(last) = whole(LinkType::RAW, &last) else {
        panic!("no fragment");
    };
    assert_eq!((last.offset, last.len, last.last), (64, 68, true));
    // The only fragment of a packet is the packet.
    let only = fragment(0, tcp);
    assert!(matches!(whole(LinkType::RAW, &only), Observation::Tcp(_)));
}

/// An ICMP message of `kind` from `from` about `quoted`.
fn error(from: &str, kind: [u8; 8], quoted: &[u8]) -> Vec<u8> {
    let v6 = from.contains(':');
    let to = if v6 { "2001:db8::9" } else { "10.0.0.1" };
    let mut bytes = Vec::new();
    let [from, to] = [from, to].map(|address| address.parse::<IpAddr>().unwrap());
    write::icmp_echo(&mut bytes, from, to, false, (0, 0), quoted).unwrap();
    let start = if v6 { 40 } else { 20 };
    bytes[start..start + 8].copy_from_slice(&kind);
    bytes
}

fn said(bytes: &[u8]) -> Option<IcmpError<'_>> {
    let Observation::IcmpError(error) = whole(LinkType::RAW, bytes) else {
        return None;
    };
    Some(error)
}

#[test]
fn errors_name_the_segment_that_they_are_about() {
    let sent = segment(b"payload");
    let v4 = packet(&sent);
    let too_big = |mtu| IcmpReason::TooBig { mtu };
    for (kind, code, mtu, reason) in [
        (3, 4, 1400_u16, too_big(Some(1400))),
        (3, 4, 0, too_big(None)),
        (3, 1, 0, IcmpReason::HostUnreachable),
        (3, 3, 0, IcmpReason::PortUnreachable),
        (3, 13, 0, IcmpReason::Prohibited),
        (11, 0, 0, IcmpReason::TimeExceeded),
    ] {
        let [high, low] = mtu.to_be_bytes();
        // No more of the segment than every host quotes.
        let bytes = error("192.0.2.1", [kind, code, 0, 0, 0, 0, high, low], &v4[..28]);
        let expected = IcmpError {
            at: Time::ZERO,
            frame: 1,
            from: Host::Ip("192.0.2.1".parse().unwrap()),
            reason,
            source: sent.source,
            destination: sent.destination,
        };
        assert_eq!(said(&bytes), Some(expected));
    }
    let mut v6 = Vec::from([0x60, 0, 0, 0, 0, 39, 6, 61]);
    v6.extend([0x20; 16]);
    v6.extend([0x30; 16]);
    v6.extend(&v4[20..]);
    let bytes = error("2001:db8::1", [2, 0, 0, 0, 0, 0, 5, 0], &v6);
    let told = said(&bytes).unwrap();
    assert_eq!(
        (told.reason, told.source.port),
        (too_big(Some(1280)), 33_666)
    );
    let bytes = error("2001:db8::1", [1, 4, 0, 0, 0, 0, 0, 0], &v6);
    let closed = said(&bytes).unwrap();
    assert_eq!(closed.reason, IcmpReason::PortUnreachable);
    // About a datagram, or cut short: counted, no more.
    let mut udp = v4.clone();
    udp[9] = 17;
    for quoted in [&udp[..], &v4[..22], &[]] {
        let bytes = error("192.0.2.1", [3, 3, 0, 0, 0, 0, 0, 0], quoted);
        assert_eq!(whole(LinkType::RAW, &bytes), Observation::Other("ICMP"));
    }
}

#[test]
fn questions_for_addresses_name_who_asks_for_whom() {
    let arp = |operation: u8, sender: [u8; 4], target: [u8; 4]| {
        let mut bytes = Vec::new();
        write::ethernet(&mut bytes, [2; 6], [0xff; 6], &[], 0x0806);
        bytes.extend([0, 1, 8, 0, 6, 4, 0, operation]);
        bytes.extend([2; 6]);
        bytes.extend(sender);
        bytes.extend([0; 6]);
        bytes.extend(target);
        bytes
    };
    let (near, far) = ([10, 0, 0, 1], [10, 0, 0, 2]);
    let resolution = |answer| {
        Observation::Resolution(Resolution {
            at: Time::ZERO,
            frame: 1,
            asker: Some(IpAddr::from(near)),
            asked: IpAddr::from(far),
            answer,
        })
    };
    assert_eq!(
        whole(LinkType::ETHERNET, &arp(1, near, far)),
        resolution(false)
    );
    assert_eq!(
        whole(LinkType::ETHERNET, &arp(2, far, near)),
        resolution(true)
    );
    let announced = arp(1, near, near);
    let probed = arp(1, [0; 4], far);
    for nobody_waits in [&announced, &probed] {
        assert_eq!(
            whole(LinkType::ETHERNET, nobody_waits),
            Observation::Other("ARP")
        );
    }
    let cut = decode(LinkType::ETHERNET, Time::ZERO, 1, &announced[..30], 42);
    assert_eq!(cut, Ok(Observation::Other("ARP")));
}

#[test]
fn neighbours_of_ipv6_ask_by_icmp() {
    let [asker, asked] = ["fe80::1", "fe80::2"].map(|address| address.parse::<IpAddr>().unwrap());
    let message = |kind: u8, source: IpAddr, destination: IpAddr| {
        let IpAddr::V6(target) = asked else {
            panic!("{asked}")
        };
        let mut bytes = Vec::new();
        write::icmp_echo(
            &mut bytes,
            source,
            destination,
            false,
            (0, 0),
            &target.octets(),
        )
        .unwrap();
        bytes[40] = kind;
        bytes
    };
    let group = "ff02::1:ff00:2".parse().unwrap();
    let resolution = |answer| {
        Observation::Resolution(Resolution {
            at: Time::ZERO,
            frame: 1,
            asker: Some(asker),
            asked,
            answer,
        })
    };
    assert_eq!(
        whole(LinkType::RAW, &message(135, asker, group)),
        resolution(false)
    );
    assert_eq!(
        whole(LinkType::RAW, &message(136, asked, asker)),
        resolution(true)
    );
    let nobody = "::".parse().unwrap();
    assert_eq!(
        whole(LinkType::RAW, &message(135, nobody, group)),
        Observation::Other("ICMPv6")
    );
}
