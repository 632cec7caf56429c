//! Frames written by hand, one for each thing that a decoder can get wrong.

use core::net::IpAddr;

use std::vec::Vec;

use units::{SeqNum, Time};

use super::{packet, segment, whole};
use crate::{
    DecodeError, Host, IcmpEcho, LinkType, Observation, TcpOptions, Timestamps, decode, tcp, write,
};

#[test]
fn every_link_layer_leads_to_the_same_segment() {
    let segment = segment(b"payload");
    let ip = packet(&segment);
    let ethernet = |vlans: &[u16]| {
        let mut header = Vec::new();
        write::ethernet(&mut header, [2; 6], [4; 6], vlans, 0x0800);
        header
    };
    let mut cooked = Vec::from([0; 14]);
    cooked.extend([0x08, 0x00]);
    let mut cooked_v2 = Vec::from([0x08, 0x00]);
    cooked_v2.extend([0; 18]);
    let snap = [&[0; 12][..], &[0, 60, 0xaa, 0xaa, 3, 0, 0, 0, 8, 0]].concat();
    let pppoe = [&[0; 12][..], &[0x88, 0x64, 0x11, 0, 0, 1, 0, 61, 0, 0x21]].concat();
    let headers: [(LinkType, &[u8]); 15] = [
        (LinkType::ETHERNET, &ethernet(&[])),
        (LinkType::ETHERNET, &ethernet(&[7])),
        (LinkType::ETHERNET, &ethernet(&[100, 7])),
        (LinkType::ETHERNET, &snap),
        (LinkType::ETHERNET, &pppoe),
        (LinkType::LINUX_SLL, &cooked),
        (LinkType::LINUX_SLL2, &cooked_v2),
        (LinkType::RAW, &[]),
        (LinkType::IPV4, &[]),
        (LinkType::NULL, &[2, 0, 0, 0]),
        (LinkType::NULL, &[0, 0, 0, 2]),
        (LinkType::LOOP, &[0, 0, 0, 2]),
        (LinkType::PPP, &[0xff, 0x03, 0x00, 0x21]),
        (LinkType::PPP, &[0x21]),
        (LinkType::PPP_HDLC, &[0x00, 0x21]),
    ];
    for (link, header) in headers {
        let frame = [header, &ip].concat();
        assert_eq!(
            whole(link, &frame),
            Observation::Tcp(segment),
            "{link} {header:02x?}"
        );
    }
}

#[test]
fn what_is_not_tcp_is_named() {
    let mut dns = Vec::new();
    let name_server = "10.0.0.3:53".parse().unwrap();
    write::udp(&mut dns, name_server, "10.0.0.1:9".parse().unwrap(), b"?").unwrap();
    assert_eq!(whole(LinkType::RAW, &dns), Observation::Other("DNS"));
    let mut gre = dns.clone();
    gre[9] = 47;
    gre[20..24].copy_from_slice(&[0, 0, 0xff, 0xff]);
    assert_eq!(whole(LinkType::RAW, &gre), Observation::Other("GRE"));
    let mut arp = Vec::new();
    write::ethernet(&mut arp, [2; 6], [0xff; 6], &[], 0x0806);
    assert_eq!(whole(LinkType::ETHERNET, &arp), Observation::Other("ARP"));
    assert_eq!(whole(LinkType::FDDI, &arp), Observation::Other("FDDI"));
    let spanning_tree = [&[0; 12][..], &[0, 38, 0x42, 0x42, 3]].concat();
    assert_eq!(
        whole(LinkType::ETHERNET, &spanning_tree),
        Observation::Other("LLC")
    );
}

#[test]
fn ethernet_padding_is_no_payload() {
    let mut frame = Vec::new();
    write::ethernet(&mut frame, [2; 6], [4; 6], &[], 0x0800);
    let empty = segment(b"");
    frame.extend(packet(&empty));
    frame.extend([0xff; 6]);
    assert_eq!(whole(LinkType::ETHERNET, &frame), Observation::Tcp(empty));
}

#[test]
fn a_total_length_of_zero_means_the_frame_s_own() {
    let payload = [7; 2896];
    let offloaded = segment(&payload);
    let mut bytes = packet(&offloaded);
    bytes[2..4].fill(0);
    assert_eq!(whole(LinkType::RAW, &bytes), Observation::Tcp(offloaded));
}

#[test]
fn ip_options_and_extension_headers_are_stepped_over() {
    let segment = segment(b"payload");
    let v4 = packet(&segment);
    let mut with_options = v4.clone();
    with_options.splice(20..20, [1, 1, 1, 0]);
    with_options[0] = 0x46;
    with_options[3] += 4;
    let Observation::Tcp(read) = whole(LinkType::RAW, &with_options) else {
        panic!("not TCP");
    };
    assert_eq!((read.payload, read.header_len), (segment.payload, 56));

    let tcp = &v4[20..];
    // Hop-by-hop, destination options of 16 bytes, authentication of 12: each names the next.
    let extensions = [
        &[60, 0, 1, 4, 0, 0, 0, 0][..],
        &[51, 1, 1, 12, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0],
        &[6, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0],
    ]
    .concat();
    let length = u16::try_from(extensions.len() + tcp.len()).unwrap();
    let mut v6 = Vec::from([0x60, 0x30, 0, 0]);
    v6.extend(length.to_be_bytes());
    v6.extend([0, 61]);
    v6.extend([0x20; 16]);
    v6.extend([0x30; 16]);
    v6.extend(extensions);
    v6.extend(tcp);
    let Observation::Tcp(read) = whole(LinkType::RAW, &v6) else {
        panic!("not TCP");
    };
    assert_eq!(
        (read.payload, read.header_len),
        (segment.payload, 40 + 36 + 32)
    );
    assert_eq!((read.ttl, read.ecn, read.ip_id), (Some(61), Some(3), None));
}

#[test]
fn echoes_carry_what_pairs_them() {
    for (near, far) in [("10.0.0.1", "10.0.0.2"), ("fe80::1", "2001:db8::2")] {
        let (near, far): (IpAddr, IpAddr) = (near.parse().unwrap(), far.parse().unwrap());
        for reply in [false, true] {
            let mut bytes = Vec::new();
            write::icmp_echo(&mut bytes, near, far, reply, (32_590, 4), &[0; 56]).unwrap();
            let echo = IcmpEcho {
                at: Time::ZERO,
                frame: 1,
                source: Host::Ip(near),
                destination: Host::Ip(far),
                reply,
                id: 32_590,
                seq: 4,
            };
            assert_eq!(whole(LinkType::RAW, &bytes), Observation::IcmpEcho(echo));
        }
    }
}

#[test]
fn a_snapshot_length_that_cuts_is_not_malformed() {
    let bytes = packet(&segment(b"payload"));
    let original_len = u32::try_from(bytes.len()).unwrap();
    for kept in 0..bytes.len() {
        let cut = decode(LinkType::IPV4, Time::ZERO, 1, &bytes[..kept], original_len);
        match cut {
            Ok(Observation::Tcp(read)) => {
                assert!(kept >= 40, "{kept} bytes hold no header");
                assert_eq!(read.payload_len, 7);
                assert_eq!(read.payload, &b"payload"[..kept.saturating_sub(52)]);
            }
            Err(DecodeError::Cut { captured, .. }) => assert!(captured == kept && kept < 40),
            other => panic!("{kept}: {other:?}"),
        }
    }
    let error = decode(LinkType::IPV4, Time::ZERO, 1, &bytes[..30], original_len).unwrap_err();
    assert_eq!(
        std::string::ToString::to_string(&error),
        "TCP header at byte 20 needs 20 bytes, but the capture kept only 30 bytes of the frame"
    );
}

#[test]
fn a_contradiction_is_malformed_and_says_where() {
    let good = packet(&segment(b"payload"));
    let broken = |change: fn(&mut Vec<u8>)| {
        let mut bytes = good.clone();
        change(&mut bytes);
        let len = u32::try_from(bytes.len()).unwrap();
        decode(LinkType::IPV4, Time::ZERO, 1, &bytes, len).unwrap_err()
    };
    let malformed = |field, offset, length| DecodeError::Malformed {
        field,
        offset,
        length,
    };
    assert_eq!(
        broken(|bytes| bytes[0] = 0x65),
        malformed("IP version", 0, 1)
    );
    assert_eq!(
        broken(|bytes| bytes[0] = 0x44),
        malformed("IPv4 header length", 0, 16)
    );
    assert_eq!(
        broken(|bytes| bytes[32] = 0x40),
        malformed("TCP data offset", 32, 16)
    );
    assert_eq!(
        broken(|bytes| bytes[3] = 45),
        malformed("TCP data offset", 32, 32)
    );
    // The frame itself ends in the middle of the header: nothing was cut off.
    assert_eq!(
        broken(|bytes| bytes.truncate(30)),
        malformed("TCP header", 20, 20)
    );
}

#[test]
fn options_are_read_up_to_the_first_fault() {
    let timestamps = [8, 10, 0, 0, 0, 1, 0, 0, 0, 2];
    let expected = TcpOptions {
        mss: Some(1460),
        ..TcpOptions::default()
    };
    let faults: [&[u8]; 5] = [&[8], &[8, 0], &[8, 1], &[8, 11, 0], &[0, 8]];
    for fault in faults {
        let list = [&[2, 4, 0x05, 0xb4], fault, &timestamps].concat();
        assert_eq!(tcp::options(&list), expected, "{fault:?}");
    }
    let unknown_first = [&[30, 4, 1, 2][..], &timestamps].concat();
    assert_eq!(
        tcp::options(&unknown_first).timestamps,
        Some(Timestamps { value: 1, echo: 2 })
    );
    let blocks = [1, 1, 5, 18, 0, 0, 0, 1, 0, 0, 0, 2, 0, 0, 0, 3, 0, 0, 0, 4];
    let seq = SeqNum::new;
    assert_eq!(
        tcp::options(&blocks).sack.iter().collect::<Vec<_>>(),
        [(seq(1), seq(2)), (seq(3), seq(4))]
    );
}
