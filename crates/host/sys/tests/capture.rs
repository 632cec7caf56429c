//! Capture at an interface of a namespace. Needs root; without it, these tests fail.

#![allow(
    clippy::unwrap_used,
    reason = "a helper that panics fails its test, as it should"
)]

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::sync::mpsc::channel;
use std::time::{Duration, SystemTime};

use longhaul_sys::namespace::NetworkNamespace;
use longhaul_sys::packet_socket::{CaptureError, FrameCapture, LinkType};

/// Two namespaces joined by Ethernet, 10.9.8.1 and 10.9.8.2.
fn pair() -> (NetworkNamespace, NetworkNamespace) {
    let near = NetworkNamespace::create("near").unwrap();
    let far = NetworkNamespace::create("far").unwrap();
    near.veth("v0", &far, "v0").unwrap();
    for (namespace, host) in [(&near, 1), (&far, 2)] {
        let lines = format!("link set v0 up addrgenmode none\naddr add 10.9.8.{host}/30 dev v0");
        namespace.ip(&lines).unwrap();
    }
    (near, far)
}

/// Length, bytes kept, sent by the host, and timestamp of each frame.
type Frame = (u32, usize, bool, u64);

#[test]
fn every_frame_is_seen_once_with_its_length_and_time() {
    let (near, far) = pair();
    let (sender, frames) = channel::<Frame>();
    let capture = FrameCapture::start(&near, "v0", 96, move |frame| {
        // IPv4 and UDP only: the kernel also resolves addresses.
        if frame.data.get(12..14) == Some(&[8, 0]) && frame.data.get(23) == Some(&17) {
            let seen = (
                frame.original_length,
                frame.data.len(),
                frame.outgoing,
                frame.timestamp_ns,
            );
            sender.send(seen).unwrap();
        }
    })
    .unwrap();
    assert_eq!(capture.link_type(), LinkType::Ethernet);

    let before = epoch_ns();
    let there = far
        .enter(|| UdpSocket::bind("10.9.8.2:7000"))
        .unwrap()
        .unwrap();
    let here = near
        .enter(|| UdpSocket::bind("10.9.8.1:0"))
        .unwrap()
        .unwrap();
    there
        .set_read_timeout(Some(Duration::from_secs(5)))
        .unwrap();
    here.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
    let mut buffer = [0; 2000];
    for length in 1..=300 {
        here.send_to(&buffer[..length], "10.9.8.2:7000").unwrap();
        let (_, from) = there.recv_from(&mut buffer).unwrap();
        there.send_to(&buffer[..length], from).unwrap();
        here.recv(&mut buffer).unwrap();
    }
    let after = epoch_ns();
    let summary = capture.stop().unwrap();

    let seen: Vec<Frame> = frames.iter().collect();
    assert_eq!(summary.dropped, 0);
    assert!(summary.frames >= 600);
    assert_eq!(seen.len(), 600);
    for (position, pair) in seen.chunks(2).enumerate() {
        // 14 of Ethernet, 20 of IP, 8 of UDP.
        let length = 42 + 1 + u32::try_from(position).unwrap();
        assert_eq!((pair[0].0, pair[0].2), (length, true));
        assert_eq!((pair[1].0, pair[1].2), (length, false));
        assert_eq!(pair[0].1, usize::try_from(length.min(96)).unwrap());
    }
    assert!(seen.windows(2).all(|two| two[0].3 <= two[1].3));
    assert!(seen[0].3 >= before && seen[599].3 <= after);
}

#[test]
fn gigabytes_of_offload_sized_frames_are_captured_without_a_drop() {
    let (near, far) = pair();
    let (sender, lengths) = channel::<u32>();
    let capture = FrameCapture::start(&near, "v0", 128, move |frame| {
        if frame.outgoing {
            sender.send(frame.original_length).unwrap();
        }
    })
    .unwrap();
    let listener = far
        .enter(|| TcpListener::bind("10.9.8.2:0"))
        .unwrap()
        .unwrap();
    let address = listener.local_addr().unwrap();
    let mut client = near.enter(|| TcpStream::connect(address)).unwrap().unwrap();
    let (mut server, _) = listener.accept().unwrap();
    let bytes = 1_000_000_000_u64;
    let writer = std::thread::spawn(move || {
        let block = vec![7; 1 << 20];
        let mut left = bytes;
        while left > 0 {
            let part = usize::try_from(left.min(1 << 20)).unwrap();
            client.write_all(&block[..part]).unwrap();
            left -= u64::try_from(part).unwrap();
        }
    });
    let mut buffer = vec![0; 1 << 20];
    let mut received = 0;
    loop {
        let length = server.read(&mut buffer).unwrap();
        if length == 0 {
            break;
        }
        received += u64::try_from(length).unwrap();
    }
    writer.join().unwrap();
    let summary = capture.stop().unwrap();
    let lengths: Vec<u64> = lengths.iter().map(u64::from).collect();
    assert_eq!(received, bytes);
    assert_eq!(summary.dropped, 0);
    assert!(
        lengths.iter().any(|&length| length > 10_000),
        "no frame was larger than the MTU"
    );
    // Every byte was in some frame; headers come on top.
    assert!(lengths.iter().sum::<u64>() > bytes);
}

#[test]
fn an_interface_that_is_not_there_is_an_error_that_names_it() {
    let namespace = NetworkNamespace::create("empty").unwrap();
    let error = FrameCapture::start(&namespace, "nope0", 96, |_| {}).unwrap_err();
    assert!(matches!(error, CaptureError::Setup { .. }));
    assert!(error.to_string().contains("nope0"));
}

fn epoch_ns() -> u64 {
    let now = SystemTime::now()
        .duration_since(SystemTime::UNIX_EPOCH)
        .unwrap();
    u64::try_from(now.as_nanos()).unwrap()
}
