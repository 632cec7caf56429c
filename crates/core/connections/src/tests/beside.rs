//! Fragments, ICMP errors and questions for link-layer addresses, beside whole segments.

use core::net::IpAddr;
use core::time::Duration;

use std::vec::Vec;

use units::{SeqNum, Time};
use wire::{
    Endpoint, FirstFragment, Fragment, Host, IcmpEcho, IcmpError, IcmpReason, Observation,
    Resolution, Segment, TcpFlags, TcpOptions,
};

use crate::{Connection, Fragments, Role, Side, Tracked, Tracker};

const SYN: TcpFlags = TcpFlags::SYN;
const ACK: TcpFlags = TcpFlags::ACK;

fn host(last: u8) -> IpAddr {
    IpAddr::from([10, 0, 0, last])
}

fn end(last: u8) -> Endpoint<'static> {
    Endpoint {
        host: Host::Ip(host(last)),
        port: if last == 1 { 40_000 } else { 443 },
    }
}

fn segment(
    millis: u64,
    from: u8,
    flags: TcpFlags,
    (seq, ack): (u32, u32),
    payload: &[u8],
) -> Segment<'_> {
    Segment {
        at: Time::from_millis(millis),
        frame: 1,
        source: end(from),
        destination: end(3 - from),
        flags,
        seq: SeqNum::new(seq),
        ack: flags.contains(ACK).then_some(SeqNum::new(ack)),
        window: 60_000,
        payload_len: u32::try_from(payload.len()).unwrap(),
        payload,
        options: TcpOptions::default(),
        ip_id: Some(7),
        ttl: Some(64),
        ecn: Some(0),
        header_len: 40,
    }
}

/// Set-up over 50 ms, seen at the server.
fn set_up() -> [Observation<'static>; 3] {
    [
        segment(10, 1, SYN, (0, 0), &[]),
        segment(14, 2, SYN.union(ACK), (0, 1), &[]),
        segment(64, 1, ACK, (1, 1), &[]),
    ]
    .map(Observation::Tcp)
}

fn tracked<'a>(observations: impl IntoIterator<Item = Observation<'a>>) -> Tracked {
    let mut tracker = Tracker::new();
    for observation in observations {
        tracker.observe(&observation);
    }
    tracker.finish()
}

fn only(tracked: &Tracked) -> &Connection {
    let [connection] = tracked.connections.as_slice() else {
        panic!("{} connections", tracked.connections.len())
    };
    connection
}

/// The first fragment of `whole`, which holds `kept` bytes of payload.
fn first<'a>(whole: &Segment<'a>, kept: usize) -> Observation<'a> {
    Observation::FirstFragment(FirstFragment {
        segment: Segment {
            payload: &whole.payload[..kept],
            payload_len: u32::try_from(kept).unwrap(),
            ..*whole
        },
        id: 7,
        header_len: 20,
    })
}

/// Another one, from this byte of the payload on.
fn later(from: u32, bytes: &[u8], last: bool) -> Fragment<'_> {
    Fragment {
        at: Time::from_millis(66),
        frame: 2,
        source: host(1),
        destination: host(2),
        id: 7,
        offset: 20 + from,
        len: u32::try_from(bytes.len()).unwrap(),
        last,
        bytes,
        header_len: 20,
        ttl: 64,
        ecn: 0,
    }
}

#[test]
fn a_segment_in_pieces_is_whole_again() {
    let payload: Vec<u8> = (0..100).collect();
    let whole = segment(65, 1, ACK.union(TcpFlags::FIN), (1, 1), &payload);
    let answer = segment(70, 2, ACK, (1, 102), &[]);
    let pieces = [
        first(&whole, 20),
        Observation::Fragment(later(20, &payload[20..60], false)),
        Observation::Fragment(later(60, &payload[60..], true)),
        Observation::Tcp(answer),
    ];
    let tracked = tracked(set_up().into_iter().chain(pieces));
    let connection = only(&tracked);
    let sent = connection.flow(Side::Client);
    assert_eq!(
        (sent.bytes(), sent.unseen_bytes(), sent.segments),
        (100, 0, 3)
    );
    assert!(
        connection
            .packets
            .iter()
            .all(|packet| packet.role != Role::OutOfOrder)
    );
    // The end of the stream stands behind the last piece, not behind the first.
    assert_eq!(sent.fin.map(|mark| mark.frame), Some(2));
    assert!(tracked.other.is_empty());
}

#[test]
fn a_fragment_of_nobody_is_counted_and_no_more() {
    let strange = Fragment {
        id: 8,
        ..later(20, &[1; 40], true)
    };
    let before_its_header = Fragment {
        offset: 8,
        ..later(0, &[1; 40], true)
    };
    let whole = segment(65, 1, ACK, (1, 1), &[1; 60]);
    let pieces = [
        Observation::Fragment(later(20, &[1; 40], true)),
        first(&whole, 20),
        Observation::Fragment(strange),
        Observation::Fragment(before_its_header),
    ];
    let tracked = tracked(set_up().into_iter().chain(pieces));
    assert_eq!(tracked.other.get("IP fragment"), Some(&3));
    assert_eq!(only(&tracked).flow(Side::Client).bytes(), 20);
}

#[test]
fn packets_that_never_end_are_forgotten_at_last() {
    let mut fragments = Fragments::default();
    let whole = segment(65, 1, ACK, (1, 1), &[1; 60]);
    for id in 0..10_000 {
        let Observation::FirstFragment(one) = first(&whole, 20) else {
            panic!("no first fragment");
        };
        let begun = Observation::FirstFragment(FirstFragment { id, ..one });
        assert!(fragments.join(&begun).is_some());
    }
    let rest = |id| {
        Observation::Fragment(Fragment {
            id,
            ..later(20, &[1; 40], true)
        })
    };
    assert!(fragments.join(&rest(9_999)).is_some());
    assert!(fragments.join(&rest(0)).is_none());
}

#[test]
fn what_routers_say_belongs_to_a_connection() {
    let said = |millis, reason, about: [Endpoint<'static>; 2]| {
        Observation::IcmpError(IcmpError {
            at: Time::from_millis(millis),
            frame: 9,
            from: Host::Ip(host(254)),
            reason,
            source: about[0],
            destination: about[1],
        })
    };
    let too_big = |mtu| IcmpReason::TooBig { mtu };
    let up = [end(1), end(2)];
    let other = Endpoint {
        port: 50_000,
        ..end(1)
    };
    let tracked = tracked(set_up().into_iter().chain([
        said(70, too_big(Some(1400)), up),
        said(80, too_big(Some(1280)), up),
        said(80, too_big(None), up),
        said(81, IcmpReason::HostUnreachable, [end(2), end(1)]),
        said(82, too_big(Some(600)), [other, end(2)]),
    ]));
    let connection = only(&tracked);
    assert_eq!(connection.path_mtu(Side::Client), Some(1280));
    assert_eq!(connection.path_mtu(Side::Server), None);
    let about: Vec<Side> = connection
        .notices
        .iter()
        .map(|notice| notice.side)
        .collect();
    assert_eq!(
        about,
        [Side::Client, Side::Client, Side::Client, Side::Server]
    );
    assert_eq!(connection.notices[0].from, "10.0.0.254");
    assert_eq!(tracked.other.get("ICMP"), Some(&5));
}

#[test]
fn notices_without_end_are_bounded() {
    let storm = (0..1000).map(|frame| {
        Observation::IcmpError(IcmpError {
            at: Time::from_millis(70),
            frame,
            from: Host::Ip(host(254)),
            reason: IcmpReason::TimeExceeded,
            source: end(1),
            destination: end(2),
        })
    });
    let tracked = tracked(set_up().into_iter().chain(storm));
    assert_eq!(only(&tracked).notices.len(), Connection::MOST_NOTICES);
}

fn question(millis: u64, asker: u8, asked: u8, answer: bool) -> Observation<'static> {
    Observation::Resolution(Resolution {
        at: Time::from_millis(millis),
        frame: 3,
        asker: Some(host(asker)),
        asked: host(asked),
        answer,
    })
}

#[test]
fn what_an_address_took_is_no_round_trip() {
    let [syn, syn_ack, ack] = set_up();
    let half = |questions: &[Observation<'static>]| {
        let observations = [syn].into_iter().chain(questions.iter().copied());
        let tracked = tracked(observations.chain([syn_ack, ack]));
        let connection = only(&tracked);
        (
            connection.server_half().unwrap(),
            connection.handshake.resolving,
        )
    };
    let ms = Duration::from_millis;
    assert_eq!(half(&[]), (ms(4), ms(0)));
    // The server asks for its router, once more before it hears.
    let asks = [
        question(10, 2, 254, false),
        question(12, 2, 254, false),
        question(13, 2, 254, true),
    ];
    assert_eq!(half(&asks), (ms(1), ms(3)));
    // A router asks for the server.
    let for_it = [question(11, 254, 2, false), question(12, 254, 2, true)];
    assert_eq!(half(&for_it), (ms(3), ms(1)));
    // Strangers do, or nobody answers.
    let strangers = [question(11, 8, 9, false), question(13, 8, 9, true)];
    assert_eq!(half(&strangers), (ms(4), ms(0)));
    assert_eq!(half(&asks[..2]), (ms(4), ms(0)));
}

#[test]
fn an_echo_is_as_long_as_the_path() {
    let echo = |millis, reply| {
        Observation::IcmpEcho(IcmpEcho {
            at: Time::from_millis(millis),
            frame: 1,
            source: Host::Ip(host(if reply { 2 } else { 1 })),
            destination: Host::Ip(host(if reply { 1 } else { 2 })),
            reply,
            id: 5,
            seq: u16::try_from(millis / 100).unwrap(),
        })
    };
    let tracked = tracked([
        echo(100, false),
        question(110, 2, 254, false),
        question(115, 2, 254, true),
        echo(120, true),
        echo(200, false),
        echo(214, true),
    ]);
    let [echo] = tracked.echoes.as_slice() else {
        panic!("{:?}", tracked.echoes)
    };
    assert_eq!(echo.resolved, 1);
    assert_eq!(echo.rtt, [15, 14].map(Duration::from_millis));
}
