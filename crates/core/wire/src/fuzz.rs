//! Bodies of fuzz targets: plain functions, so that `cargo test` runs them too.

use units::Time;

use crate::http::{Head, s3};
use crate::tls::{Hello, Message, RecordHeader};
use crate::{FlowHash, LinkType, Observation, decode};

/// Decodes a frame: its first byte chooses the link type, the next two what it had on the wire beyond
/// what was captured. Whatever comes out must be consistent with the frame.
pub fn fuzz_decode(bytes: &[u8]) {
    const LINKS: [LinkType; 11] = [
        LinkType::NULL,
        LinkType::ETHERNET,
        LinkType::PPP,
        LinkType::PPP_ETHER,
        LinkType::LINUX_SLL,
        LinkType::LINUX_SLL2,
        LinkType::LOOP,
        LinkType::RAW,
        LinkType::IPV4,
        LinkType::IPV6,
        LinkType::FDDI,
    ];
    let Some((&[link, high, low], frame)) = bytes.split_first_chunk() else {
        return;
    };
    let beyond = u32::from(u16::from_be_bytes([high, low]));
    let original_len = u32::try_from(frame.len())
        .unwrap_or(u32::MAX)
        .saturating_add(beyond);
    let link = LINKS[usize::from(link) % LINKS.len()];
    let decoded = decode(link, Time::ZERO, 1, frame, original_len);
    if let Some(hash) = FlowHash::of_plain(link, frame) {
        let Ok(Observation::Tcp(segment)) = &decoded else {
            panic!("a plain segment is {decoded:?}");
        };
        assert_eq!(FlowHash::of(segment), hash, "as the segment has it");
    }
    if let Ok(Observation::Tcp(segment)) = decoded {
        let captured = u32::try_from(segment.payload.len()).unwrap_or(u32::MAX);
        assert!(captured <= segment.payload_len);
        assert!(segment.header_len >= 40);
    }
}

/// Reads an HTTP head; its length must lie within the bytes.
pub fn fuzz_http(bytes: &[u8]) {
    if let Some(head) = Head::read(bytes) {
        assert!(head.fields().head_len.is_none_or(|len| len <= bytes.len()));
        assert!(!alloc::format!("{head} {head:?}").contains('\x1b'));
        if let Head::Request {
            method,
            target,
            fields,
        } = &head
        {
            let _named = s3::operation(method, target, &fields.s3);
        }
    }
}

/// Reads bytes as records, messages and hellos of TLS; names must be plain, lists must end.
pub fn fuzz_tls(bytes: &[u8]) {
    if let Some(header) = RecordHeader::read(bytes) {
        assert!(header.len > 0);
    }
    let mut rest = bytes;
    while let Some((message, next)) = Message::read(rest) {
        assert!(message.body.len() <= message.len);
        let _curve = message.named_curve();
        for hello in [Hello::client(message.body), Hello::server(message.body)]
            .into_iter()
            .flatten()
        {
            assert!(hello.groups().count() <= message.body.len());
            assert!(hello.key_shares().count() <= message.body.len());
            let plain = |name: &str| name.bytes().all(|byte| byte.is_ascii_graphic());
            assert!(hello.server_name().is_none_or(plain));
            let _chosen = (
                hello.chosen_version(),
                hello.chosen_group(),
                hello.highest_offered(),
            );
        }
        rest = next;
    }
}
