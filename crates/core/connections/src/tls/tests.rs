//! Handshakes as bytes on the wire, whole and cut by the snapshot length.

use std::vec;
use std::vec::Vec;

use proptest::prelude::*;
use units::Time;
use wire::tls::{Group, Version, extension};

use super::{TlsFollower, TlsHandshake};
use crate::packet::{Mark, Side};

const CLIENT: Side = Side::Client;
const SERVER: Side = Side::Server;
const RETRY: [u8; 32] = [
    0xcf, 0x21, 0xad, 0x74, 0xe5, 0x9a, 0x61, 0x11, 0xbe, 0x1d, 0x8c, 0x02, 0x1e, 0x65, 0xb8, 0x91,
    0xc2, 0xa2, 0x11, 0x16, 0x7a, 0xbb, 0x8c, 0x5e, 0x07, 0x9e, 0x09, 0xe2, 0xc8, 0xa8, 0x33, 0x9c,
];

fn length(data: &[u8]) -> [u8; 2] {
    u16::try_from(data.len()).unwrap().to_be_bytes()
}

fn record(content: u8, body: &[u8]) -> Vec<u8> {
    [&[content, 3, 3][..], &length(body), body].concat()
}

fn handshake(kind: u8, body: &[u8]) -> Vec<u8> {
    [&[kind, 0][..], &length(body), body].concat()
}

fn hello(kind: u8, random: [u8; 32], suites: &[u8], extensions: &[(u16, &[u8])]) -> Vec<u8> {
    let mut list = Vec::new();
    for (number, data) in extensions {
        list.extend(number.to_be_bytes());
        list.extend(length(data));
        list.extend(*data);
    }
    let body = [&[3, 3][..], &random, &[0], suites, &length(&list), &list].concat();
    record(22, &handshake(kind, &body))
}

/// With a key of `key` bytes for the hybrid group.
fn client_hello(key: usize) -> Vec<u8> {
    let share = vec![5; key];
    let shares = [&[0x11, 0xec][..], &length(&share), &share].concat();
    let shares = [&length(&shares)[..], &shares].concat();
    let extensions: [(u16, &[u8]); 3] = [
        (extension::SUPPORTED_GROUPS, &[0, 4, 0x11, 0xec, 0, 0x1d]),
        (extension::SUPPORTED_VERSIONS, &[2, 3, 4]),
        (extension::KEY_SHARE, &shares),
    ];
    hello(1, [7; 32], &[0, 2, 0x13, 1, 1, 0], &extensions)
}

fn server_hello(random: [u8; 32], extensions: &[(u16, &[u8])]) -> Vec<u8> {
    hello(2, random, &[0x13, 1, 0], extensions)
}

fn modern(resumed: bool) -> Vec<u8> {
    let mut extensions: Vec<(u16, &[u8])> = vec![
        (extension::SUPPORTED_VERSIONS, &[3, 4]),
        (extension::KEY_SHARE, &[0x11, 0xec, 0, 1, 9]),
    ];
    if resumed {
        extensions.push((extension::PRE_SHARED_KEY, &[0, 0]));
    }
    server_hello([1; 32], &extensions)
}

/// Flights in turn, each cut into segments of at most `segment` bytes of which `snaplen` are captured; the
/// mark's frame is the flight's number from 1.
fn follow(flights: &[(Side, Vec<u8>)], segment: usize, snaplen: usize) -> TlsHandshake {
    let mut follower = TlsFollower::default();
    let mut at = [1_i64; 2];
    for (number, (side, bytes)) in (1..).zip(flights) {
        let mark = Mark {
            at: Time::from_millis(number * 100),
            frame: number,
        };
        for part in bytes.chunks(segment) {
            let from = &mut at[usize::from(*side == SERVER)];
            let len = u32::try_from(part.len()).unwrap();
            follower.on_data(*side, mark, *from, len, &part[..part.len().min(snaplen)]);
            *from += i64::from(len);
        }
    }
    *follower.finish().unwrap()
}

fn frame(mark: Option<Mark>) -> Option<u64> {
    mark.map(|mark| mark.frame)
}

fn full_1_3(resumed: bool) -> Vec<(Side, Vec<u8>)> {
    let ccs = record(20, &[1]);
    vec![
        (CLIENT, client_hello(1216)),
        (
            SERVER,
            [modern(resumed), ccs.clone(), record(23, &[0; 3000])].concat(),
        ),
        (CLIENT, [ccs, record(23, &[0; 53])].concat()),
        (CLIENT, record(23, &[0; 200])),
        (SERVER, record(23, &[0; 9000])),
    ]
}

#[test]
fn tls_1_3_takes_one_round_trip_and_its_finished_is_no_data() {
    for (segment, snaplen) in [(1460, 1460), (65_000, 65_000), (1460, 256), (100, 100)] {
        let tls = follow(&full_1_3(false), segment, snaplen);
        assert_eq!(tls.version, Some(Version::TLS_1_3));
        assert_eq!(tls.group, Some(Group::X25519_MLKEM768));
        assert_eq!(tls.groups_offered[0], Group::X25519_MLKEM768);
        assert_eq!((tls.round_trips, tls.retry), (1, false));
        assert_eq!(tls.resumed, Some(false));
        assert_eq!((frame(tls.done), frame(tls.first_data)), (Some(3), Some(4)));
    }
}

#[test]
fn a_hybrid_key_share_splits_the_client_hello() {
    let segments =
        |key, segment| follow(&[(CLIENT, client_hello(key))], segment, 128).client_hello_segments;
    assert_eq!(segments(1216, 1460), 1);
    assert_eq!(segments(1500, 1460), 2);
    assert_eq!(segments(32, 1460), 1);
    let tls = follow(&[(CLIENT, client_hello(1500))], 1460, 1460);
    assert!(tls.client_hello_bytes > 1500 && tls.key_shares == [Group::X25519_MLKEM768]);
    assert_eq!(tls.done, None);
}

#[test]
fn a_resumed_session_and_early_data_are_seen() {
    assert_eq!(follow(&full_1_3(true), 1460, 1460).resumed, Some(true));
    let mut flights = full_1_3(true);
    flights.insert(
        1,
        (CLIENT, [record(20, &[1]), record(23, &[0; 90])].concat()),
    );
    let tls = follow(&flights, 1460, 1460);
    assert!(tls.early_data);
    assert_eq!((frame(tls.first_data), frame(tls.done)), (Some(2), Some(4)));
}

#[test]
fn a_retry_costs_a_round_trip_and_is_no_end_of_set_up() {
    let retry = server_hello(RETRY, &[(extension::KEY_SHARE, &[0, 0x1d])]);
    let ccs = record(20, &[1]);
    let mut flights = full_1_3(false);
    flights.insert(1, (SERVER, [retry, ccs.clone()].concat()));
    flights.insert(2, (CLIENT, [ccs, client_hello(32)].concat()));
    for snaplen in [1460, 200] {
        let tls = follow(&flights, 1460, snaplen);
        assert!(tls.retry);
        assert_eq!((tls.round_trips, frame(tls.done)), (2, Some(5)));
    }
}

#[test]
fn tls_1_2_takes_two_round_trips_and_one_when_resumed() {
    let ccs = record(20, &[1]);
    let finished = record(22, &[0; 40]);
    let certificate = record(22, &handshake(11, &[0; 2500]));
    let exchange = record(22, &handshake(12, &[3, 0, 0x17, 65]));
    let full = vec![
        (CLIENT, client_hello(32)),
        (
            SERVER,
            [server_hello([1; 32], &[]), certificate, exchange].concat(),
        ),
        (
            CLIENT,
            [
                record(22, &handshake(16, &[0; 66])),
                ccs.clone(),
                finished.clone(),
            ]
            .concat(),
        ),
        (SERVER, [ccs.clone(), finished.clone()].concat()),
        (CLIENT, record(23, &[0; 300])),
    ];
    let tls = follow(&full, 1460, 1460);
    assert_eq!(tls.version, Some(Version::TLS_1_2));
    assert_eq!((tls.round_trips, tls.resumed), (2, Some(false)));
    assert_eq!(
        tls.group,
        Some(Group(0x17)),
        "from a message over several segments"
    );
    assert_eq!((frame(tls.done), frame(tls.first_data)), (Some(4), Some(5)));
    // Headers only: the certificate's records cannot be followed, the flights can.
    let cut = follow(&full, 1460, 90);
    assert_eq!(
        (cut.round_trips, cut.resumed, cut.group),
        (2, Some(false), None)
    );

    let resumed = vec![
        (CLIENT, client_hello(32)),
        (
            SERVER,
            [server_hello([1; 32], &[]), ccs.clone(), finished.clone()].concat(),
        ),
        (CLIENT, [ccs, finished].concat()),
        (CLIENT, record(23, &[0; 300])),
    ];
    let tls = follow(&resumed, 1460, 1460);
    assert_eq!((tls.round_trips, tls.resumed), (1, Some(true)));
    assert_eq!((frame(tls.done), frame(tls.first_data)), (Some(3), Some(4)));
}

#[test]
fn what_does_not_begin_with_a_client_hello_is_not_tls() {
    let mut follower = TlsFollower::default();
    let mark = Mark {
        at: Time::ZERO,
        frame: 1,
    };
    follower.on_data(CLIENT, mark, 0, 5, b"GET /");
    follower.on_data(CLIENT, mark, 5, 600, &client_hello(32));
    assert_eq!(follower.finish(), None);
}

proptest! {
    #[test]
    fn any_bytes_in_any_order_are_followed_without_a_panic(
        segments in proptest::collection::vec(
            (any::<bool>(), 0_i64..6000, 0_u32..3000, proptest::collection::vec(any::<u8>(), 0..60), 0_usize..5),
            0..30,
        ),
    ) {
        let starts = [client_hello(40), modern(true), record(23, &[0; 30]), record(20, &[1])];
        let mut follower = TlsFollower::default();
        follower.on_data(CLIENT, Mark { at: Time::ZERO, frame: 0 }, 0, 900, &client_hello(600)[..200]);
        for (client, from, more, bytes, start) in segments {
            let side = if client { CLIENT } else { SERVER };
            let bytes = [starts.get(start).map_or(&[][..], Vec::as_slice), &bytes].concat();
            let len = u32::try_from(bytes.len()).unwrap() + more;
            follower.on_data(side, Mark { at: Time::ZERO, frame: 1 }, from, len, &bytes);
        }
        let tls = follower.finish().unwrap();
        prop_assert!(tls.client_hello_segments >= 1);
    }

    #[test]
    // A first segment of less than a record header is nobody's Client Hello.
    fn segments_of_any_size_tell_the_same(segment in 5_usize..3000) {
        let whole = follow(&full_1_3(true), 65_000, 65_000);
        let mut cut = follow(&full_1_3(true), segment, segment);
        prop_assert!(cut.client_hello_segments >= 1);
        cut.client_hello_segments = whole.client_hello_segments;
        prop_assert_eq!(whole, cut);
    }
}
