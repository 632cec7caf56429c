//! Bodies of fuzz targets: plain functions, so that `cargo test` runs them too.

use alloc::vec::Vec;

use bytes::Bytes;
use units::Time;

use crate::decoder::Decoder;
use crate::frame::Frame;
use crate::preface::{Limits, VERSIONS};
use crate::{Capabilities, Config, ConnectionId, DigestKind, Hello, Preface, Read, Session, Trunk};

/// Reads any bytes as a preface and, cut in pieces by their first byte, as frames; then once more with checksums that
/// hold, which no chance brings about. Whatever can be read can be written again, and reads the same.
pub fn fuzz_decode(bytes: &[u8]) {
    read(bytes);
    read(&with_checksums(bytes));
    read(&preface_around(bytes));
}

fn read(bytes: &[u8]) {
    if let Ok(Some((preface, len))) = Preface::decode(bytes) {
        assert!(len <= bytes.len());
        assert_eq!(
            Preface::decode(&preface.encode())
                .ok()
                .flatten()
                .map(|(again, _)| again),
            Some(preface)
        );
    }
    let Some((&cut, rest)) = bytes.split_first() else {
        return;
    };
    let mut decoder = Decoder::default();
    for piece in rest.chunks(usize::from(cut).max(1)) {
        decoder.push(Bytes::copy_from_slice(piece));
        while let Ok(Some((frame, payload))) = decoder.frame(DigestKind::Blake3) {
            check_round_trip(&frame, &payload);
        }
    }
}

/// The same bytes as frames, each of which says of itself how long it is; the first byte stays as it is.
fn with_checksums(bytes: &[u8]) -> Vec<u8> {
    let Some((&cut, mut rest)) = bytes.split_first() else {
        return Vec::new();
    };
    let mut frames = Vec::from([cut]);
    while let Some((head, behind)) = rest.split_first_chunk::<8>() {
        let [kind, a, b, c, ..] = *head;
        let said = usize::try_from(u32::from_be_bytes([0, a, b, c])).unwrap_or(0);
        let (body, after) = behind.split_at(said % (behind.len() + 1));
        frames.extend_from_slice(&sealed(kind, body));
        rest = after;
    }
    frames
}

/// A frame as [`Decoder`] takes it.
fn sealed(kind: u8, body: &[u8]) -> Vec<u8> {
    let [_, a, b, c] = u32::try_from(body.len()).unwrap_or(0).to_be_bytes();
    let mut frame = Vec::from([kind, a, b, c]);
    let crc = crate::digest::crc32c([frame.as_slice(), body]);
    frame.extend_from_slice(&crc.to_be_bytes());
    frame.extend_from_slice(body);
    frame
}

/// A preface that has these bytes for its kind, its versions and its body.
fn preface_around(bytes: &[u8]) -> Vec<u8> {
    let Some(([kind, oldest, newest], body)) = bytes.split_first_chunk::<3>() else {
        return Vec::new();
    };
    let length = u16::try_from(body.len()).unwrap_or(u16::MAX).to_be_bytes();
    let mut preface = Vec::from(*b"\x8bLTrnk\r\n");
    preface.extend_from_slice(&[kind % 4, *oldest, *newest, 0]);
    preface.extend_from_slice(&length);
    preface.extend_from_slice(body);
    let crc = crate::digest::crc32c([preface.as_slice()]);
    preface.extend_from_slice(&crc.to_be_bytes());
    preface
}

pub(crate) fn check_round_trip(frame: &Frame, payload: &[Bytes]) {
    let mut written = bytes::BytesMut::new();
    frame.encode(&mut written, payload);
    for piece in payload {
        written.extend_from_slice(piece);
    }
    let mut decoder = Decoder::default();
    decoder.push(written.freeze());
    let again = decoder.frame(DigestKind::Blake3);
    let joined = |pieces: &[Bytes]| pieces.iter().flatten().copied().collect::<Vec<u8>>();
    assert!(
        matches!(&again, Ok(Some((same, pieces))) if same == frame && joined(pieces) == joined(payload)),
        "{frame:?} became {again:?}"
    );
}

/// Plays a peer that sends any frames: bytes are not frames themselves but choose them, so that checksums
/// hold and the trunk behind is reached. It must not panic, nor hold more than it may.
pub fn fuzz_peer(bytes: &[u8]) {
    let hello = Hello {
        versions: VERSIONS,
        session: Session {
            trunk: [7; 16],
            epoch: 1,
        },
        known_to: None,
        connection: ConnectionId(1),
        capabilities: Capabilities::OURS,
        digest: DigestKind::Xxh3,
        limits: Limits::MINIMUM,
    };
    let mut config = Config::default();
    config.memory.receive = units::Bytes::mib(1);
    config.max_streams = 256;
    let Ok(mut trunk) = Trunk::accept(config, &hello, 1) else {
        return;
    };
    let mut now = Time::from_millis(1);
    let Ok(connection) = trunk.connection_accepted(&hello, now) else {
        return;
    };
    let mut out = Vec::new();
    for words in bytes.chunks(24) {
        let frame = chosen(words);
        if trunk.receive(connection, frame, now).is_err() {
            assert_eq!(
                trunk.connections().count(),
                0,
                "a violation closes the connection"
            );
            return;
        }
        drive(&mut trunk, now);
        trunk.transmit(connection, 64 << 10, &mut out, now);
        out.clear();
        now += core::time::Duration::from_millis(3);
        if trunk.deadline().is_some_and(|at| at <= now) {
            trunk.tick(now);
        }
        let held = trunk.status().receive_held.get();
        assert!(held <= 1 << 20, "{held} bytes are held");
    }
}

/// What a driver with quick applications does.
fn drive(trunk: &mut Trunk, now: Time) {
    while let Some(event) = trunk.poll_event() {
        match event {
            crate::Event::Opened { stream, .. } => {
                let _ = trunk.accept_stream(stream);
                let _ = trunk.write(stream, &mut Bytes::from_static(b"banner"), now);
            }
            crate::Event::Readable { stream } => loop {
                match trunk.read(stream, now) {
                    Ok(Read::Data(bytes)) => trunk.consumed(stream, bytes.len(), now),
                    Ok(Read::End) => {
                        let _ = trunk.finish(stream);
                        break;
                    }
                    Ok(Read::Pending) | Err(_) => break,
                }
            },
            crate::Event::ConnectionReady { .. }
            | crate::Event::ConnectionHot { .. }
            | crate::Event::CloseConnection { .. }
            | crate::Event::WantConnections { .. }
            | crate::Event::Accepted { .. }
            | crate::Event::Writable { .. }
            | crate::Event::Closed { .. }
            | crate::Event::Reset { .. }
            | crate::Event::Alarm { .. }
            | crate::Event::Manner { .. }
            | crate::Event::PeerLeaves
            | crate::Event::Ended { .. } => {}
        }
    }
}

/// A frame with a right checksum: kind and body from these bytes, small numbers more often than large ones.
fn chosen(words: &[u8]) -> Bytes {
    let (&kind, body) = words.split_first().unwrap_or((&0, &[]));
    let kind = match kind % 17 {
        kind @ 0..11 => kind,
        kind => 0x40 + kind - 11,
    };
    let mut written = Vec::new();
    // Sequence and stream, then a third number, except where a target stands.
    let numbers = if kind == 1 { 2 } else { 3 };
    for (index, byte) in body.iter().enumerate() {
        if index < numbers {
            written.extend_from_slice(&u64::from(*byte % 24).to_be_bytes());
        } else {
            if kind == 1 && index == numbers {
                written.extend_from_slice(&[0, 1, b't']);
            }
            written.push(*byte);
        }
    }
    if kind == 4 || kind == 5 {
        // A summary ends with a digest.
        written.resize(24 + 32, 0);
    }
    sealed(kind, &written).into()
}
