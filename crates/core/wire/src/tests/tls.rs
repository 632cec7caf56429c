use std::string::{String, ToString};
use std::vec;
use std::vec::Vec;

use crate::tls::{ContentType, Group, Hello, Message, RecordHeader, Version, extension};

/// `data` behind its length in two bytes.
fn vector16(data: &[u8]) -> Vec<u8> {
    let mut bytes = u16::try_from(data.len()).unwrap().to_be_bytes().to_vec();
    bytes.extend_from_slice(data);
    bytes
}

fn extensions(all: &[(u16, Vec<u8>)]) -> Vec<u8> {
    let mut list = Vec::new();
    for (number, data) in all {
        list.extend(number.to_be_bytes());
        list.extend(vector16(data));
    }
    vector16(&list)
}

/// A Client Hello of TLS 1.3 as browsers send it: GREASE first, a hybrid group preferred.
fn client_hello() -> Vec<u8> {
    let mut body = vec![3, 3];
    body.extend([7; 32]);
    body.extend([2, 9, 9]);
    body.extend(vector16(&[0x13, 0x01]));
    body.extend([1, 0]);
    let name = [&[0][..], &vector16(b"store.example")].concat();
    let shares = [
        &[0x11, 0xec][..],
        &vector16(&[5; 1216]),
        &[0, 0x1d],
        &vector16(&[6; 32]),
    ]
    .concat();
    body.extend(extensions(&[
        (0x0a0a, vec![]),
        (extension::SERVER_NAME, vector16(&name)),
        (
            extension::SUPPORTED_GROUPS,
            vector16(&[0x1a, 0x1a, 0x11, 0xec, 0, 0x1d]),
        ),
        (
            extension::SUPPORTED_VERSIONS,
            vec![6, 0x2a, 0x2a, 3, 4, 3, 3],
        ),
        (extension::KEY_SHARE, vector16(&shares)),
    ]));
    body
}

#[test]
fn a_record_header_is_told_from_other_bytes() {
    let header = RecordHeader::read(&[22, 3, 1, 2, 0, 1]).unwrap();
    assert_eq!((header.content, header.len), (ContentType::Handshake, 512));
    for not in [
        &[22, 3, 1, 2][..],
        b"GET / HTTP",
        &[24, 3, 3, 0, 1],
        &[23, 3, 3, 0xff, 0],
    ] {
        assert_eq!(RecordHeader::read(not), None, "{not:?}");
    }
}

#[test]
fn a_client_hello_tells_what_it_offers_and_grease_is_left_out() {
    let body = client_hello();
    let hello = Hello::client(&body).unwrap();
    let names = |groups: Vec<Group>| groups.iter().map(Group::to_string).collect::<Vec<String>>();
    assert_eq!(
        names(hello.groups().collect()),
        ["X25519MLKEM768", "x25519"]
    );
    assert_eq!(
        names(hello.key_shares().collect()),
        ["X25519MLKEM768", "x25519"]
    );
    assert_eq!(hello.highest_offered(), Version::TLS_1_3);
    assert_eq!(hello.server_name(), Some("store.example"));
    assert_eq!(hello.session_id_len(), 2);
    assert_eq!(hello.extension(extension::PRE_SHARED_KEY), None);
    assert!(
        !std::format!("{hello:?}").contains("7, 7"),
        "the random stays hidden"
    );
}

#[test]
fn a_hello_that_is_cut_anywhere_tells_no_less_than_what_is_left_of_it() {
    let body = client_hello();
    for len in 0..body.len() {
        if let Some(hello) = Hello::client(&body[..len]) {
            assert!(hello.groups().count() <= 2 && hello.key_shares().count() <= 2);
            assert!(
                hello
                    .server_name()
                    .is_none_or(|name| name == "store.example")
            );
        }
    }
}

#[test]
fn a_server_hello_tells_version_group_and_whether_it_is_a_retry() {
    let body = |random: [u8; 32], all: &[(u16, Vec<u8>)]| {
        [&[3, 3][..], &random, &[0, 0x13, 1, 0], &extensions(all)].concat()
    };
    let share = (extension::KEY_SHARE, vec![0x11, 0xec, 0, 2, 1, 1]);
    let modern = body(
        [1; 32],
        &[share.clone(), (extension::SUPPORTED_VERSIONS, vec![3, 4])],
    );
    let hello = Hello::server(&modern).unwrap();
    assert_eq!(hello.chosen_version(), Version::TLS_1_3);
    assert_eq!(hello.chosen_group(), Some(Group::X25519_MLKEM768));
    assert!(!hello.is_retry_request());
    // Only TLS 1.3 has a key share, so a version that was cut off is known all the same.
    let cut = body([1; 32], &[share]);
    assert_eq!(
        Hello::server(&cut).unwrap().chosen_version(),
        Version::TLS_1_3
    );
    let old = body([1; 32], &[]);
    let hello = Hello::server(&old).unwrap();
    assert_eq!(
        (hello.chosen_version(), hello.chosen_group()),
        (Version::TLS_1_2, None)
    );
}

#[test]
fn messages_follow_each_other_and_the_last_may_be_cut() {
    let (first, rest) = Message::read(&[2, 0, 0, 1, 9, 12, 0, 0, 9, 3, 0, 0x17]).unwrap();
    assert_eq!(
        (first.kind, first.body, first.is_whole()),
        (2, &[9][..], true)
    );
    let (second, rest) = Message::read(rest).unwrap();
    assert_eq!(second.named_curve().unwrap().to_string(), "secp256r1");
    assert!(!second.is_whole() && Message::read(rest).is_none());
}
