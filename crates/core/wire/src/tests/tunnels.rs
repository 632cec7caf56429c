//! Flows inside tunnels come out as if they had been captured without.

use std::vec::Vec;

use super::{packet, segment, whole};
use crate::{LinkType, Observation, write};

/// An outer IPv4 packet of `protocol` around `payload`.
fn outer(protocol: u8, payload: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    let (from, to) = (
        "203.0.113.1:1".parse().unwrap(),
        "203.0.113.2:2".parse().unwrap(),
    );
    write::udp(&mut bytes, from, to, &[]).unwrap();
    bytes.truncate(20);
    bytes[9] = protocol;
    bytes.extend_from_slice(payload);
    let total = u16::try_from(bytes.len()).unwrap();
    bytes[2..4].copy_from_slice(&total.to_be_bytes());
    bytes
}

fn udp(port: u16, payload: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    let to = std::format!("203.0.113.2:{port}").parse().unwrap();
    write::udp(
        &mut bytes,
        "203.0.113.1:55555".parse().unwrap(),
        to,
        payload,
    )
    .unwrap();
    bytes
}

fn ethernet(payload: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    write::ethernet(&mut bytes, [2; 6], [4; 6], &[], 0x0800);
    bytes.extend_from_slice(payload);
    bytes
}

#[test]
fn the_innermost_packet_is_what_is_seen() {
    let segment = segment(b"hello");
    let ip = packet(&segment);
    let frame = ethernet(&ip);
    let with = |head: &[u8], rest: &[u8]| [head, rest].concat();
    // 802.11: quality-of-service data towards the access point, then LLC.
    let mut radio = [0; 26];
    radio[..2].copy_from_slice(&[0x88, 0x01]);
    let radio = [&radio[..], &[0xaa, 0xaa, 3, 0, 0, 0, 8, 0], &ip].concat();
    let cases = [
        ("IP in IP", outer(4, &ip)),
        ("IP in IP in IP", outer(4, &outer(4, &ip))),
        ("GRE", outer(47, &with(&[0, 0, 0x08, 0], &ip))),
        (
            "GRE with checksum, key and sequence number",
            outer(
                47,
                &with(&[0xb0, 0, 8, 0, 1, 2, 0, 0, 0, 0, 0, 9, 0, 0, 0, 1], &ip),
            ),
        ),
        (
            "GRE with Ethernet inside",
            outer(47, &with(&[0, 0, 0x65, 0x58], &frame)),
        ),
        (
            "ERSPAN II",
            outer(
                47,
                &with(
                    &[0x10, 0, 0x88, 0xbe, 0, 0, 0, 1, 1, 2, 3, 4, 5, 6, 7, 8],
                    &frame,
                ),
            ),
        ),
        ("802.11 in GRE", outer(47, &with(&[0, 0, 0x82, 0], &radio))),
        (
            "VXLAN",
            udp(4789, &with(&[0x08, 0, 0, 0, 0, 0, 7, 0], &frame)),
        ),
        (
            "GENEVE with an option",
            udp(
                6081,
                &with(&[1, 0, 0x65, 0x58, 0, 0, 7, 0, 1, 1, 1, 1], &frame),
            ),
        ),
    ];
    for (name, bytes) in cases {
        assert_eq!(
            whole(LinkType::RAW, &bytes),
            Observation::Tcp(segment),
            "{name}"
        );
    }
}

#[test]
fn what_cannot_be_looked_into_is_named_by_its_outside() {
    let ip = packet(&segment(b"x"));
    let named = [
        // PPTP.
        (
            outer(47, &[&[0x30, 1, 0x88, 0x0b][..], &ip].concat()),
            "GRE",
        ),
        // Source routing.
        (outer(47, &[&[0x40, 0, 8, 0][..], &ip].concat()), "GRE"),
        // An encrypted radio frame.
        (
            outer(47, &[&[0, 0, 0x82, 0, 0x88, 0x41][..], &[0; 60]].concat()),
            "GRE",
        ),
        // Without an identifier it is not VXLAN.
        (udp(4789, &[0; 60]), "UDP"),
        (udp(443, &[0xc0; 60]), "QUIC"),
        (udp(8443, &[0xc3, 0, 0, 0, 1, 8]), "QUIC"),
        (udp(8443, &[0xc3, 0, 0, 0, 9, 8]), "UDP"),
    ];
    for (bytes, name) in named {
        assert_eq!(whole(LinkType::RAW, &bytes), Observation::Other(name));
    }
}

#[test]
fn a_loop_of_tunnels_ends() {
    let mut bytes = packet(&segment(b"x"));
    for _ in 0..40 {
        bytes = outer(4, &bytes);
    }
    assert_eq!(
        whole(LinkType::RAW, &bytes),
        Observation::Other("tunnels in tunnels")
    );
}
