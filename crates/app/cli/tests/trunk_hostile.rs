//! A far relay whose port somebody else has found: whatever comes is closed and told, and takes nothing from others.

#![allow(missing_docs, reason = "a test has its name")]
#![allow(clippy::unwrap_used, reason = "tests fail by panicking")]

mod common;

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use common::longhaul;
use common::trunk::{End, echo, free_port, ping};

/// The CRC of Castagnoli, bit by bit, as docs/trunk-protocol.md asks for it.
fn crc32c(bytes: &[u8]) -> u32 {
    let mut crc = u32::MAX;
    for byte in bytes {
        crc ^= u32::from(*byte);
        for _ in 0..8 {
            crc = (crc >> 1) ^ (0x82f6_3b78 * (crc & 1));
        }
    }
    !crc
}

fn numbers(numbers: &[u64]) -> Vec<u8> {
    let bytes = numbers.iter().copied().flat_map(u64::to_be_bytes);
    bytes.collect()
}

/// A hello of another near relay, which nobody knows.
fn hello(session: u8) -> Vec<u8> {
    // Trunk and epoch, no instance, connection 1, no capabilities, BLAKE3, limits.
    let mut body = vec![session; 16];
    body.extend(numbers(&[1, 0]));
    body.extend(1_u32.to_be_bytes());
    body.extend(numbers(&[0]));
    body.push(1);
    body.extend(numbers(&[1 << 20, 1 << 24]));
    body.extend(1_000_u32.to_be_bytes());
    let mut hello = b"\x8bLTrnk\r\n\x01\x01\x01\x00".to_vec();
    hello.extend(u16::try_from(body.len()).unwrap().to_be_bytes());
    hello.extend(body);
    hello.extend(crc32c(&hello).to_be_bytes());
    hello
}

fn frame(kind: u8, body: &[u8]) -> Vec<u8> {
    let length = u32::try_from(body.len()).unwrap().to_be_bytes();
    let mut frame = vec![kind];
    frame.extend(&length[1..]);
    let crc = crc32c(&[&frame, body].concat());
    frame.extend(crc.to_be_bytes());
    frame.extend(body);
    frame
}

/// Sends `bytes` and waits until the other end has closed; what this end was called.
fn say(far: SocketAddr, bytes: &[u8]) -> SocketAddr {
    let mut stream = TcpStream::connect(far).unwrap();
    // Only where the far end fails to close.
    stream
        .set_read_timeout(Some(Duration::from_mins(1)))
        .unwrap();
    let name = stream.local_addr().unwrap();
    // It may close before it has read everything.
    let _ = stream.write_all(bytes);
    let mut rest = Vec::new();
    if let Err(error) = stream.read_to_end(&mut rest) {
        let kind = error.kind();
        assert_eq!(
            kind,
            std::io::ErrorKind::ConnectionReset,
            "it was not closed"
        );
    }
    name
}

/// Resident memory of a process in KiB (`proc_pid_status(5)`).
fn resident_kib(id: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{id}/status")).unwrap();
    let line = status.lines().find(|line| line.starts_with("VmRSS:"));
    let number = line.unwrap().split_whitespace().nth(1);
    number.unwrap().parse().unwrap()
}

#[test]
fn hostile_bytes_are_closed_and_told_while_others_are_served() {
    let directory = tempfile::tempdir().unwrap();
    let (target, place) = (echo(), free_port());
    let config = format!(
        "[[far]]\nlisten = \"{place}\"\nallow-targets = [\"{target}\"]\nsecurity.plain = true\n\
         limits.connect-timeout = \"1 s\"\n"
    );
    let file = directory.path().join("far.toml");
    std::fs::write(&file, config).unwrap();
    let mut far = End::start(longhaul().args(["trunk", "run", "--config"]).arg(&file));
    far.address("far-listening");
    let mut near = End::start(
        longhaul()
            .args(["trunk", "near", "127.0.0.1:0", "--plain"])
            .args(["--via", &place.to_string(), "--to", &target.to_string()]),
    );
    let mut honest = TcpStream::connect(near.address("trunk-listening")).unwrap();
    ping(&mut honest);
    let before = resident_kib(far.child.id());

    // Before anybody is let in: who is told to go, and what of.
    let noise: Vec<u8> = (0..1 << 20_u32)
        .flat_map(|number: u32| number.wrapping_mul(0x9e37_79b9).to_be_bytes())
        .collect();
    for (said, told) in [
        (b"GET / HTTP/1.1\r\n\r\n".to_vec(), "protocol"),
        (noise, "protocol"),
        // A hello that does not come to its end: the patience of `connect-timeout`.
        (hello(9)[..30].to_vec(), "within 1 s"),
    ] {
        let name = say(place, &said).to_string();
        let refused = far.event_where("refused", |event| event["peer"] == name);
        let why = refused["why"].as_str().unwrap();
        assert!(why.contains(told), "{why}");
    }

    // Behind a hello that is right.
    let [longest, zeroes] = [[0xff; 3], [0; 3]];
    let cut = |kind: u8, length: [u8; 3]| [&[kind], &length[..], &[0; 60]].concat();
    let target = target.to_string();
    let name = [
        &u16::try_from(target.len()).unwrap().to_be_bytes(),
        target.as_bytes(),
    ]
    .concat();
    let open = frame(1, &[numbers(&[0, 0]), name].concat());
    for (session, frames) in (10..).zip([
        // A length that no frame has, and a checksum that does not hold.
        cut(3, longest),
        cut(0x41, zeroes),
        // No such kind; a body that is too short for its kind.
        frame(0x3f, &numbers(&[0])),
        frame(4, &numbers(&[0, 0])),
        // More than was allowed: a chunk far behind the credit, and a number far ahead of all others.
        [
            open.clone(),
            frame(3, &[numbers(&[1, 0, 1 << 40]), vec![1]].concat()),
        ]
        .concat(),
        frame(2, &numbers(&[1 << 50, 0])),
        // An acknowledgement of what was never sent.
        frame(0x40, &[&1_u32.to_be_bytes()[..], &numbers(&[77])].concat()),
    ]) {
        let said = [hello(session), frames].concat();
        let name = say(place, &said).to_string();
        let joined = far.event_where("wan-connected", |event| event["peer"] == name);
        let lost = far.event_where("wan-lost", |event| event["peer"] == name);
        let why = lost["why"].as_str().unwrap();
        assert!(why.contains("protocol"), "{session}: {why}; {joined}");
    }
    ping(&mut honest);
    let grown = resident_kib(far.child.id()).saturating_sub(before);
    assert!(grown < 32 << 10, "{grown} KiB more than before");
}
