//! What a survey says does not depend on threads, pieces, or room.
#![allow(clippy::unwrap_used, reason = "tests")]

use std::io::{self, Read};
use std::net::{IpAddr, Ipv4Addr};
use std::time::Duration;

use capture::{Interface, Section, Writer};
use connections::Tracker;
use explain::Options;
use longhaul_survey::{Stopped, Survey};
use record::explain::{Capture, Document};
use units::{SeqNum, Time};
use wire::{Endpoint, Host, LinkType, Segment, TcpFlags, TcpOptions};

/// When, which bytes, and whether an Ethernet header with this type stands before them.
type Captured = (Duration, Vec<u8>, Option<u16>);

const IPV4: u16 = 0x0800;
const ARP: u16 = 0x0806;

/// Downloads over Ethernet and over no link layer at all, one connection beginning every 10 ms.
fn downloads(connections: u8, segments: u32) -> Vec<Captured> {
    let mut packets = Vec::new();
    for number in 0..connections {
        let start = Duration::from_millis(u64::from(number) * 10);
        for (after, bytes) in download(number, segments) {
            packets.push((start + after, bytes, (number % 2 == 0).then_some(IPV4)));
        }
    }
    packets
}

fn file(connections: u8, segments: u32) -> Vec<u8> {
    written(downloads(connections, segments))
}

fn written(mut packets: Vec<Captured>) -> Vec<u8> {
    packets.sort_by_key(|(at, _, _)| *at);
    let mut out = Vec::new();
    let mut writer = Writer::new(&mut out, &Section::default());
    let interface = |writer: &mut Writer, out: &mut Vec<u8>, link| {
        let interface = Interface {
            name: "test0".into(),
            link,
            snaplen: 0,
        };
        writer.interface(out, &interface)
    };
    let ethernet = interface(&mut writer, &mut out, LinkType::ETHERNET);
    let raw = interface(&mut writer, &mut out, LinkType::RAW);
    for (at, bytes, ether_type) in packets {
        let at = Time::ZERO + at;
        let (id, bytes) = match ether_type {
            Some(kind) => (
                ethernet,
                [&[0; 12][..], &kind.to_be_bytes(), &bytes].concat(),
            ),
            None => (raw, bytes),
        };
        let len = u32::try_from(bytes.len()).unwrap();
        writer.packet(&mut out, id, at, &bytes, len);
    }
    out
}

/// An IPv4 packet of which two fragments are left.
fn in_two(packet: &[u8]) -> [Vec<u8>; 2] {
    const FIRST: usize = 800;
    let (header, rest) = packet.split_at(20);
    let (one, other) = rest.split_at(FIRST);
    let piece = |place: u16, piece: &[u8]| {
        let mut header = header.to_vec();
        let total = u16::try_from(20 + piece.len()).unwrap();
        header[2..4].copy_from_slice(&total.to_be_bytes());
        header[6..8].copy_from_slice(&place.to_be_bytes());
        [&header, piece].concat()
    };
    [piece(0x2000, one), piece(100, other)]
}

/// Downloads whose large packets of every third are cut in two, whose servers ask for their router before they answer,
/// and whose first packet a router calls too big.
fn beset(connections: u8, segments: u32) -> Vec<u8> {
    let mut packets = Vec::new();
    for (at, bytes, link) in downloads(connections, segments) {
        let number = bytes[14];
        if bytes.len() > 1000 && number % 3 == 0 {
            packets.extend(in_two(&bytes).map(|piece| (at, piece, link)));
        } else {
            packets.push((at, bytes, link));
        }
    }
    for number in 0..connections {
        let start = Duration::from_millis(u64::from(number) * 10);
        let host = |last| [10, 0, number, last];
        let arp = |operation: u8, sender: [u8; 4], target: [u8; 4]| {
            let head = [0, 1, 8, 0, 6, 4, 0, operation];
            [&head[..], &[2; 6], &sender, &[0; 6], &target].concat()
        };
        let asked = start + Duration::from_millis(10);
        packets.push((asked, arp(1, host(2), host(254)), Some(ARP)));
        let told = asked + Duration::from_millis(7);
        packets.push((told, arp(2, host(254), host(2)), Some(ARP)));
        let (_, syn) = &download(number, 1)[0];
        let [from, to] = [254, 1].map(|last| IpAddr::from(host(last)));
        let mut error = Vec::new();
        wire::write::icmp_echo(&mut error, from, to, false, (0, 0), &syn[..28]).unwrap();
        error[20..28].copy_from_slice(&[3, 4, 0, 0, 0, 0, 5, 120]);
        packets.push((start + Duration::from_millis(50), error, None));
    }
    written(packets)
}

/// Segments of one download with their times, 40 ms away.
fn download(number: u8, segments: u32) -> Vec<(Duration, Vec<u8>)> {
    let rtt = Duration::from_millis(40);
    let mut packets = Vec::new();
    let mut put = |after, from_client: bool, flags, seq, ack, payload: u32| {
        let end = |last, port| Endpoint {
            host: Host::Ip(IpAddr::V4(Ipv4Addr::new(10, 0, number, last))),
            port,
        };
        let ends = [end(1, 40_000 + u16::from(number)), end(2, 443)];
        let bytes = vec![7; usize::try_from(payload).unwrap()];
        let syn = flags & 2 != 0;
        let segment = Segment {
            at: Time::ZERO,
            frame: 0,
            source: ends[usize::from(!from_client)],
            destination: ends[usize::from(from_client)],
            flags: TcpFlags::from_bits(flags),
            seq: SeqNum::new(seq),
            ack: (flags & 0x10 != 0).then_some(SeqNum::new(ack)),
            window: 65_000,
            payload_len: payload,
            payload: &bytes,
            options: TcpOptions {
                mss: syn.then_some(1460),
                ..TcpOptions::default()
            },
            ip_id: None,
            ttl: None,
            ecn: None,
            header_len: 40,
        };
        let mut ip = Vec::new();
        wire::write::segment(&mut ip, &segment).unwrap();
        packets.push((after, ip));
    };
    put(Duration::ZERO, true, 2, 100, 0, 0);
    put(rtt, false, 0x12, 900, 101, 0);
    put(rtt, true, 0x10, 101, 901, 0);
    put(rtt, true, 0x18, 101, 901, 200);
    let mut at = rtt * 2;
    for segment in 0..segments {
        let seq = 901 + segment * 1460;
        put(at, false, 0x10, seq, 301, 1460);
        put(at, true, 0x10, 301, seq + 1460, 0);
        at += if segment % 10 == 9 {
            rtt
        } else {
            Duration::from_micros(100)
        };
    }
    let end = 901 + segments * 1460;
    put(at, true, 0x11, 301, end, 0);
    put(at + rtt, false, 0x11, end, 302, 0);
    put(at + rtt, true, 0x10, 302, end + 1, 0);
    packets
}

fn options() -> Options {
    Options {
        captures: vec![Capture::default()],
        ..Options::default()
    }
}

fn surveyed(threads: usize, mut files: Vec<Box<dyn Read>>) -> Document {
    let mut survey = Survey::on(threads, false);
    for file in &mut files {
        let reading = survey.read(file.as_mut(), |_| ());
        assert!(reading.stopped.is_none(), "{:?}", reading.stopped);
    }
    let surveyed = survey.finish();
    explain::conclude(surveyed.judged, &surveyed.tracked, options())
}

/// Everything in one tracker, without room.
fn at_once(file: &[u8]) -> Document {
    let mut observations = capture::Observations::new(file);
    let mut tracker = Tracker::new();
    while let Some(observation) = observations.next_observation().unwrap() {
        tracker.observe(&observation);
    }
    explain::explain(&tracker.finish(), options())
}

/// Gives few bytes at a time, as pipes do.
struct Slowly(io::Cursor<Vec<u8>>);

impl Read for Slowly {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let most = buffer.len().min(777);
        self.0.read(&mut buffer[..most])
    }
}

/// Breaks off at its end.
struct Broken(usize);

impl Read for Broken {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let bytes = file(2, 2);
        let count = bytes.len().saturating_sub(self.0).min(buffer.len());
        buffer[..count].copy_from_slice(&bytes[self.0..self.0 + count]);
        self.0 += count;
        if count == 0 {
            return Err(io::Error::other("the disk is gone"));
        }
        Ok(count)
    }
}

#[test]
fn any_number_of_threads_says_what_one_tracker_says() {
    let file = file(60, 60);
    let expected = at_once(&file);
    assert_eq!(expected.connections.len(), 60);
    for threads in [1, 2, 5, 40] {
        let document = surveyed(threads, vec![Box::new(io::Cursor::new(file.clone()))]);
        assert_eq!(document, expected, "{threads} threads");
    }
}

#[test]
fn what_travels_beside_segments_reaches_their_tracker() {
    let file = beset(20, 20);
    let expected = at_once(&file);
    assert_eq!(expected.connections.len(), 20);
    for connection in &expected.connections {
        let down = &connection.directions.server_to_client;
        assert_eq!(down.bytes, 20 * 1460, "{:?}", connection.caveats);
        assert_eq!(connection.icmp[0].mtu, Some(1400));
        let ms = connection.rtt.handshake_s.unwrap() * 1e3;
        assert!((ms - 33.0).abs() < 1e-6, "{ms} ms of 40, less 7 for ARP");
    }
    for threads in [1, 3] {
        let document = surveyed(threads, vec![Box::new(io::Cursor::new(file.clone()))]);
        assert_eq!(
            document.connections, expected.connections,
            "{threads} threads"
        );
    }
}

#[test]
fn a_file_of_several_pieces_that_comes_slowly_is_the_same_file() {
    let file = file(60, 60);
    assert!(file.len() > 4 << 20, "{} bytes", file.len());
    let document = surveyed(2, vec![Box::new(Slowly(io::Cursor::new(file.clone())))]);
    assert_eq!(document, at_once(&file));
}

#[test]
fn several_files_are_one_timeline_whose_frames_name_their_file() {
    let whole = file(20, 40);
    let mut survey = Survey::on(2, false);
    let reading = [
        survey.read(&mut io::Cursor::new(whole.clone()), |_| ()),
        survey.read(&mut io::Cursor::new(file(1, 1)), |_| ()),
    ];
    let surveyed = survey.finish();
    let frames = reading[0].summary.frames;
    assert_eq!(surveyed.tracked.boundaries, [frames]);
    assert_eq!(surveyed.tracked.locate(frames), (0, frames));
    assert_eq!(surveyed.tracked.locate(frames + 3), (1, 3));
    assert_eq!(
        surveyed.judged.len(),
        20,
        "the second file goes on with the first connection"
    );
}

#[test]
fn what_ends_early_is_explained_up_to_there() {
    let mut cut = file(5, 20);
    cut.truncate(cut.len() - 10);
    let mut survey = Survey::on(2, false);
    let reading = survey.read(&mut io::Cursor::new(cut.clone()), |_| ());
    assert!(reading.stopped.is_none());
    assert!(matches!(
        reading.summary.ending,
        capture::Ending::CutShort { .. }
    ));
    assert_eq!(reading.summary.segments, reading.summary.frames);
    let surveyed = survey.finish();
    let document = explain::conclude(surveyed.judged, &surveyed.tracked, options());
    assert_eq!(document.connections, at_once(&cut).connections);
}

#[test]
fn what_is_no_capture_is_refused_and_what_breaks_off_says_why() {
    let mut survey = Survey::on(1, false);
    let reading = survey.read(&mut &b"no capture at all"[..], |_| ());
    assert!(matches!(reading.stopped, Some(Stopped::Frame(_))));
    assert_eq!(reading.summary.frames, 0);

    let reading = survey.read(&mut Broken(0), |_| ());
    assert!(matches!(reading.stopped, Some(Stopped::Read(_))));
    assert!(reading.summary.frames > 10);
}
