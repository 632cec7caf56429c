use std::string::String;
use std::vec::Vec;

use bytes::{Bytes, BytesMut};
use proptest::prelude::*;
use units::Time;

use crate::decoder::Decoder;
use crate::digest::{Digest, Hasher, crc32c};
use crate::frame::{Frame, Message, Summary};
use crate::fuzz::{check_round_trip, fuzz_decode, fuzz_peer};
use crate::incoming::{Incoming, Read};
use crate::ranges::Seen;
use crate::*;

#[test]
fn the_checksum_is_castagnolis() {
    // RFC 3720, appendix B.4: 32 bytes of zeroes, and of ones.
    assert_eq!(crc32c([[0_u8; 32].as_slice()]), 0x8a91_36aa);
    assert_eq!(
        crc32c([[0xff_u8; 16].as_slice(), &[0xff_u8; 16]]),
        0x62a8_ab43
    );
}

#[test]
fn an_idle_stream_costs_less_than_the_kibibyte_that_is_stated() {
    assert!(
        size_of::<stream::Stream>() <= 768,
        "{}",
        size_of::<stream::Stream>()
    );
}

#[test]
fn digests_are_the_published_ones() {
    let hex = |kind, bytes: &[u8]| {
        let mut hasher = Hasher::new(kind);
        for byte in bytes {
            hasher.update(&[*byte]);
        }
        std::format!("{}", hasher.digest())
    };
    assert_eq!(
        hex(DigestKind::Blake3, b""),
        "blake3:af1349b9f5f9a1a6a0404dea36dcc9499bcb25c9adc112b7cc9a93cae41f3262"
    );
    assert_eq!(
        hex(DigestKind::Xxh3, b""),
        "xxh3-128:99aa06d3014798d86001c324468d497f"
    );
}

fn text() -> impl Strategy<Value = String> {
    "[a-z0-9.:-]{1,60}"
}

fn summary() -> impl Strategy<Value = Summary> {
    (any::<u64>(), any::<[u8; 32]>()).prop_map(|(bytes, digest)| Summary {
        bytes,
        digest: Digest::new(DigestKind::Blake3, digest),
    })
}

fn message() -> impl Strategy<Value = Message> {
    let stream = || any::<u64>().prop_map(StreamId);
    let why = || {
        (any::<u16>(), text())
            .prop_map(|(code, text)| Explanation::new(Reason::from_code(code), &text))
    };
    prop_oneof![
        (stream(), text()).prop_map(|(stream, name)| Message::Open {
            stream,
            target: Target::new(&name).unwrap()
        }),
        stream().prop_map(|stream| Message::Accept { stream }),
        (stream(), any::<u64>()).prop_map(|(stream, offset)| Message::Data { stream, offset }),
        (stream(), summary()).prop_map(|(stream, end)| Message::Finish { stream, end }),
        (stream(), summary()).prop_map(|(stream, end)| Message::Receipt { stream, end }),
        (stream(), why()).prop_map(|(stream, why)| Message::Reset { stream, why }),
        (stream(), any::<u64>(), any::<u64>()).prop_map(|(stream, a, b)| Message::StreamCredit {
            stream,
            consumed: a.min(b),
            limit: a.max(b)
        }),
        (any::<u64>(), any::<u64>())
            .prop_map(|(limit, stream)| Message::TrunkCredit { limit, stream }),
        any::<u32>().prop_map(|connections| Message::Width { connections }),
        any::<u64>().prop_map(|opened| Message::Leave { opened }),
    ]
}

fn frame() -> impl Strategy<Value = Frame> {
    prop_oneof![
        6 => (any::<u64>(), message()).prop_map(|(sequence, message)| Frame::Reliable { sequence, message }),
        1 => proptest::collection::vec((any::<u32>().prop_map(ConnectionId), any::<u64>()), 0..64)
            .prop_map(|counts| Frame::Ack { counts }),
        1 => any::<u64>().prop_map(|nonce| Frame::Ping { nonce }),
        1 => any::<u64>().prop_map(|nonce| Frame::Pong { nonce }),
        1 => Just(Frame::Retire),
        1 => text().prop_map(|text| Frame::Goodbye { why: Explanation::new(Reason::Shutdown, &text) }),
    ]
}

fn carries_chunk(frame: &Frame) -> bool {
    matches!(
        frame,
        Frame::Reliable {
            message: Message::Open { .. } | Message::Data { .. },
            ..
        }
    )
}

/// The files of a folder of the corpus.
fn corpus(folder: &str) -> Vec<(String, Vec<u8>)> {
    let folder = std::format!("{}/corpus/{folder}", env!("CARGO_MANIFEST_DIR"));
    let files = std::fs::read_dir(folder).unwrap();
    files
        .map(|file| {
            let file = file.unwrap();
            let name = file.file_name().into_string().unwrap();
            (name, std::fs::read(file.path()).unwrap())
        })
        .collect()
}

#[test]
fn no_file_of_the_corpus_breaks_a_decoder_or_a_trunk() {
    let (decode, peer) = (corpus("decode"), corpus("peer"));
    assert!(decode.len() >= 12, "{} files", decode.len());
    assert!(peer.len() >= 10, "{} files", peer.len());
    for (_, bytes) in decode.iter().chain(&peer) {
        fuzz_decode(bytes);
        fuzz_peer(bytes);
    }
    // They reach what they are named for.
    let named = |name: &str| {
        let mut files = decode.iter();
        &files.find(|(file, _)| file == name).unwrap().1
    };
    for name in ["hello", "welcome", "refusal"] {
        assert!(
            matches!(Preface::decode(named(name)), Ok(Some(_))),
            "{name}"
        );
    }
    let mut decoder = Decoder::default();
    decoder.push(Bytes::copy_from_slice(&named("every-frame")[1..]));
    let mut read = 0;
    while decoder.frame(DigestKind::Blake3).unwrap().is_some() {
        read += 1;
    }
    assert_eq!(read, 16, "a frame of each kind");
}

proptest! {
    #[test]
    fn every_frame_reads_as_it_was_written(frame in frame(), payload in proptest::collection::vec(any::<u8>(), 0..3000), at in 0_usize..3000) {
        let payload = if carries_chunk(&frame) { payload } else { Vec::new() };
        let payload = Bytes::from(payload);
        let at = at.min(payload.len());
        check_round_trip(&frame, &[payload.slice(..at), payload.slice(at..)]);
    }

    #[test]
    fn frames_are_the_same_however_their_bytes_are_cut(frames in proptest::collection::vec(frame(), 1..6), cuts in proptest::collection::vec(1_usize..40, 1..20)) {
        let mut written = BytesMut::new();
        for frame in &frames {
            frame.encode(&mut written, &[]);
        }
        let mut rest = written.freeze();
        let mut decoder = Decoder::default();
        let mut found = Vec::new();
        for cut in cuts.iter().cycle() {
            decoder.push(rest.split_to(rest.len().min(*cut)));
            while let Some((frame, _)) = decoder.frame(DigestKind::Blake3).unwrap() {
                found.push(frame);
            }
            if rest.is_empty() {
                break;
            }
        }
        prop_assert_eq!(found, frames);
    }

    #[test]
    fn a_flipped_bit_is_never_taken_for_the_frame(frame in frame(), bit in any::<prop::sample::Index>()) {
        let mut written = BytesMut::new();
        frame.encode(&mut written, &[]);
        let bit = bit.index(written.len() * 8);
        written[bit / 8] ^= 1 << (bit % 8);
        let mut decoder = Decoder::default();
        decoder.push(written.freeze());
        // A changed length can leave the frame incomplete; what can be read must not be wrong.
        prop_assert!(!matches!(decoder.frame(DigestKind::Blake3), Ok(Some(_))));
    }

    #[test]
    fn any_bytes_are_read_or_refused(bytes in proptest::collection::vec(any::<u8>(), 0..600)) {
        fuzz_decode(&bytes);
    }

    #[test]
    fn a_peer_that_sends_anything_is_borne_or_refused(bytes in proptest::collection::vec(any::<u8>(), 0..2400)) {
        fuzz_peer(&bytes);
    }

    #[test]
    fn numbers_seen_in_any_order_are_remembered(order in Just((0_u64..200).collect::<Vec<_>>()).prop_shuffle(), count in 0_usize..200) {
        let mut seen = Seen::default();
        for number in &order[..count] {
            prop_assert!(seen.insert(*number));
            prop_assert!(!seen.insert(*number));
        }
        for number in 0..200 {
            prop_assert_eq!(seen.contains(number), order[..count].contains(&number));
        }
        let floor = (0..=200).find(|number| !order[..count].contains(number)).unwrap();
        prop_assert_eq!(seen.floor(), floor);
    }

    #[test]
    fn chunks_in_any_order_are_read_in_order(lens in proptest::collection::vec(1_usize..5000, 1..40), seed in any::<u64>()) {
        let total: usize = lens.iter().sum();
        let content: Vec<u8> = (0..total).map(|at| u8::try_from(at % 251).unwrap()).collect();
        let mut start = 0;
        let mut chunks: Vec<(usize, usize)> = lens.iter().map(|len| { let chunk = (start, start + len); start += len; chunk }).collect();
        let count = chunks.len();
        for at in 0..count {
            let other = usize::try_from(seed.rotate_left(u32::try_from(at % 64).unwrap()) % count as u64).unwrap();
            chunks.swap(at, other);
        }
        let mut incoming = Incoming::new(DigestKind::Xxh3, 1 << 20, Time::ZERO);
        let mut read = Vec::new();
        for (from, to) in chunks {
            incoming.insert(from as u64, std::vec![Bytes::copy_from_slice(&content[from..to])]).unwrap();
            prop_assert!(incoming.insert(from as u64, std::vec![Bytes::from_static(b"x")]).is_err(), "nothing lies twice");
            while let Read::Data(bytes) = incoming.read() {
                read.extend_from_slice(&bytes);
            }
        }
        prop_assert_eq!(read, content);
    }
}

#[test]
fn versions_without_a_common_one_are_refused_with_both_ranges() {
    let mut written = BytesMut::from(&*hello().encode());
    // A near relay of the future: versions 7 to 9.
    written[9] = 7;
    written[10] = 9;
    let end = written.len() - 4;
    let crc = crc32c([&written[..end]]);
    written[end..].copy_from_slice(&crc.to_be_bytes());
    let Some((Preface::Hello(theirs), _)) = Preface::decode(&written).unwrap() else {
        panic!("the envelope is the same in every version");
    };
    let Err(AcceptError::Refused(refusal)) = Trunk::accept(Config::default(), &theirs, 1) else {
        panic!("it was accepted");
    };
    let (Preface::Refusal(read), _) = Preface::decode(&refusal.encode()).unwrap().unwrap() else {
        panic!("a refusal reads as one");
    };
    assert_eq!(read.reason, RefusalReason::Version);
    assert_eq!(
        std::format!("{read}"),
        "the far relay (versions 1 to 1) refused the connection: it speaks no version of ours: \
         the near relay speaks versions 7 to 9"
    );
}

#[test]
fn another_protocol_is_told_from_a_trunk_by_its_first_byte() {
    assert_eq!(Preface::decode(b"G"), Err(Violation::NotATrunk));
    assert_eq!(Preface::decode(&[0x16, 3, 1]), Err(Violation::NotATrunk));
    assert_eq!(Preface::decode(b""), Ok(None));
}

fn hello() -> Preface {
    Preface::Hello(Hello {
        versions: VERSIONS,
        session: Session {
            trunk: [1; 16],
            epoch: 3,
        },
        known_to: None,
        connection: ConnectionId(1),
        capabilities: Capabilities::default(),
        digest: DigestKind::Blake3,
        limits: Limits::MINIMUM,
    })
}

/// Both ends with one connection, and what the near end has written on it so far.
fn pair(content: &'static [u8]) -> (Trunk, StreamId, Trunk, ConnectionId, Vec<u8>) {
    let now = Time::from_millis(1);
    let session = Session {
        trunk: [2; 16],
        epoch: 1,
    };
    let mut near = Trunk::initiate(Config::default(), session).unwrap();
    let connection = near.connection_up(now);
    let stream = near.open(&Target::new("db:1521").unwrap(), now).unwrap();
    near.write(stream, &mut Bytes::from_static(content), now)
        .unwrap();
    near.finish(stream).unwrap();
    let mut out = Vec::new();
    near.transmit(connection, 1 << 20, &mut out, now);
    let bytes: Vec<u8> = out.iter().flatten().copied().collect();
    let (Preface::Hello(hello), len) = Preface::decode(&bytes).unwrap().unwrap() else {
        panic!("a near end begins with its hello");
    };
    let mut far = Trunk::accept(Config::default(), &hello, 1).unwrap();
    far.connection_accepted(&hello, now).unwrap();
    (near, stream, far, connection, bytes[len..].to_vec())
}

#[test]
fn a_peer_that_does_not_know_leaving_is_not_told_and_the_session_ends_without_streams() {
    let now = Time::from_millis(50);
    let Preface::Hello(old) = hello() else {
        panic!("it is a hello");
    };
    let mut far = Trunk::accept(Config::default(), &old, 1).unwrap();
    let connection = far.connection_accepted(&old, now).unwrap();
    let stream = far.open(&Target::new("db:1521").unwrap(), now).unwrap();
    far.leave(now);
    assert_eq!(far.ended(), None, "a stream is open");
    let mut out = Vec::new();
    far.transmit(connection, 1 << 20, &mut out, now);
    far.reset(stream, Reason::Reset.into(), now).unwrap();
    far.transmit(connection, 1 << 20, &mut out, now);
    assert_eq!(far.ended(), None, "the peer does not know of the reset");
    // Two frames have come, the open and the reset; a third would be the news that it left.
    let mut ack = BytesMut::new();
    let counts = std::vec![(connection, 2)];
    Frame::Ack { counts }.encode(&mut ack, &[]);
    far.receive(connection, ack.freeze(), now).unwrap();
    assert!(far.ended().is_some());
}

#[test]
fn nobody_leaves_twice_or_with_fewer_streams_than_were_opened() {
    let leave = |sequence, opened| {
        let mut out = BytesMut::new();
        let message = Message::Leave { opened };
        Frame::Reliable { sequence, message }.encode(&mut out, &[]);
        out.freeze()
    };
    let now = Time::from_millis(50);
    let (_, _, mut far, connection, bytes) = pair(b"select 1");
    far.receive(connection, bytes.into(), now).unwrap();
    assert_eq!(
        far.receive(connection, leave(2, 0), now),
        Err(Violation::Leave),
        "one stream is here"
    );
    let (_, _, mut far, connection, bytes) = pair(b"select 1");
    far.receive(connection, bytes.into(), now).unwrap();
    assert_eq!(far.receive(connection, leave(2, 1), now), Ok(()));
    assert!(far.is_left());
    assert_eq!(
        far.receive(connection, leave(3, 1), now),
        Err(Violation::Leave)
    );
}

#[test]
fn the_first_bytes_travel_with_the_open_and_its_end() {
    let (_, stream, mut far, connection, bytes) = pair(b"select 1");
    let now = Time::from_millis(50);
    far.receive(connection, bytes.into(), now).unwrap();
    let events: Vec<Event> = core::iter::from_fn(|| far.poll_event()).collect();
    assert!(events.contains(&Event::Opened {
        stream,
        target: Target::new("db:1521").unwrap()
    }));
    assert_eq!(
        far.read(stream, now),
        Ok(Read::Data(Bytes::from_static(b"select 1")))
    );
    assert_eq!(far.read(stream, now), Ok(Read::End));
}

#[test]
fn bytes_that_change_where_no_checksum_sees_it_are_an_alarm_and_never_an_end() {
    let (_, stream, mut far, connection, mut bytes) = pair(b"select 1");
    // A relay with bad memory changes a byte before it computes the frame's checksum.
    let mut at = 0;
    loop {
        let len = usize::from(bytes[at + 2]) << 8 | usize::from(bytes[at + 3]);
        let end = at + 8 + len;
        if bytes[at] == 0x01 {
            bytes[end - 1] ^= 1;
            let crc = crc32c([&bytes[at..at + 4], &bytes[at + 8..end]]);
            bytes[at + 4..at + 8].copy_from_slice(&crc.to_be_bytes());
            break;
        }
        at = end;
    }
    let now = Time::from_millis(50);
    far.receive(connection, bytes.into(), now).unwrap();
    assert_eq!(
        far.read(stream, now),
        Ok(Read::Data(Bytes::from_static(b"select 0")))
    );
    assert_eq!(far.read(stream, now), Err(StreamGone(stream)));
    let events: Vec<Event> = core::iter::from_fn(|| far.poll_event()).collect();
    assert!(
        events
            .iter()
            .any(|event| matches!(event, Event::Alarm { sent, received, .. } if sent != received))
    );
    assert!(events.iter().any(
        |event| matches!(event, Event::Reset { why, by: By::Trunk, .. } if why.reason == Reason::IntegrityMismatch)
    ));
}

#[test]
fn a_byte_that_changes_on_the_wan_costs_the_connection_and_not_the_stream() {
    let (mut near, stream, mut far, connection, mut bytes) = pair(b"select 1");
    let last = bytes.len() - 1;
    bytes[last] ^= 1;
    let now = Time::from_millis(50);
    let violation = far.receive(connection, bytes.into(), now);
    assert_eq!(violation, Err(Violation::Checksum { kind: "finish" }));
    near.connection_down(connection, now);
    let connection = near.connection_up(now);
    let mut out = Vec::new();
    near.transmit(connection, 1 << 20, &mut out, now);
    let bytes: Vec<u8> = out.iter().flatten().copied().collect();
    let (Preface::Hello(hello), len) = Preface::decode(&bytes).unwrap().unwrap() else {
        panic!("a near end begins with its hello");
    };
    let connection = far.connection_accepted(&hello, now).unwrap();
    far.receive(connection, bytes[len..].to_vec().into(), now)
        .unwrap();
    assert_eq!(
        far.read(stream, now),
        Ok(Read::Data(Bytes::from_static(b"select 1")))
    );
    assert_eq!(far.read(stream, now), Ok(Read::End));
}
