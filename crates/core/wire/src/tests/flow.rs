//! Which connection a packet belongs to, told before it is decoded.

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use proptest::prelude::*;
use std::collections::BTreeSet;
use std::vec::Vec;
use units::Time;

use super::{packet, segment};
use crate::{Endpoint, FlowHash, Host, LinkType, Observation, decode};

fn ends() -> impl Strategy<Value = (IpAddr, IpAddr)> {
    prop_oneof![
        any::<(Ipv4Addr, Ipv4Addr)>().prop_map(|(one, other)| (one.into(), other.into())),
        any::<(Ipv6Addr, Ipv6Addr)>().prop_map(|(one, other)| (one.into(), other.into())),
    ]
}

/// An Ethernet frame with one segment.
fn frame(source: (IpAddr, u16), destination: (IpAddr, u16)) -> Vec<u8> {
    let end = |(address, port)| Endpoint {
        host: Host::Ip(address),
        port,
    };
    let mut plain = segment(b"data");
    plain.source = end(source);
    plain.destination = end(destination);
    let mut bytes = Vec::from([0_u8; 12]);
    bytes.extend(if source.0.is_ipv4() {
        [0x08, 0x00]
    } else {
        [0x86, 0xdd]
    });
    bytes.extend(packet(&plain));
    bytes
}

proptest! {
    #[test]
    fn both_directions_of_a_plain_connection_have_one_hash_which_is_that_of_the_segment(
        (one, other) in ends(),
        (from, to) in any::<(u16, u16)>(),
    ) {
        let there = frame((one, from), (other, to));
        let back = frame((other, to), (one, from));
        let hash = FlowHash::of_plain(LinkType::ETHERNET, &there);
        prop_assert!(hash.is_some());
        prop_assert_eq!(hash, FlowHash::of_plain(LinkType::ETHERNET, &back));
        let len = u32::try_from(there.len()).unwrap();
        let Ok(Observation::Tcp(decoded)) = decode(LinkType::ETHERNET, Time::ZERO, 1, &there, len) else {
            panic!("a segment");
        };
        prop_assert_eq!(hash, Some(FlowHash::of(&decoded)));
    }
}

#[test]
fn connections_spread_over_all_parts() {
    let client = |port| (IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1)), port);
    let server = (IpAddr::V4(Ipv4Addr::new(192, 0, 2, 2)), 443);
    let parts: BTreeSet<u32> = (40_000..40_200)
        .map(|port| {
            let bytes = frame(client(port), server);
            FlowHash::of_plain(LinkType::ETHERNET, &bytes)
                .unwrap()
                .part(16)
        })
        .collect();
    assert_eq!(parts, (0..16).collect());
}

#[test]
fn what_is_cut_or_fragmented_is_not_plain() {
    let whole = frame(
        (Ipv4Addr::LOCALHOST.into(), 1),
        (Ipv4Addr::LOCALHOST.into(), 2),
    );
    assert!(FlowHash::of_plain(LinkType::RAW, &whole).is_none());
    assert!(FlowHash::of_plain(LinkType::ETHERNET, &whole[..50]).is_none());
    let mut fragment = whole;
    fragment[20] |= 0x20;
    assert!(FlowHash::of_plain(LinkType::ETHERNET, &fragment).is_none());
}
