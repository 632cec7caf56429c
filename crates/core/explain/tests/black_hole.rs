//! A path that drops full packets in silence.

#![allow(clippy::unwrap_used, reason = "in a test, a panic is the report")]

use std::net::{IpAddr, Ipv4Addr};

use connections::Tracker;
use longhaul_explain::{Options, explain};
use record::explain::{Confidence, Document};
use units::{SeqNum, Time};
use wire::{Endpoint, Host, IcmpError, IcmpReason, Observation, Segment, TcpFlags, TcpOptions};

/// Milliseconds, whether the client sends it, flags, first byte, payload, ACK.
type Line = (u64, bool, TcpFlags, u32, u32, u32);

const ACK: TcpFlags = TcpFlags::ACK;

fn explained(lines: &[Line]) -> Document {
    explained_with(lines, None)
}

const fn end(last: u8, port: u16) -> Endpoint<'static> {
    Endpoint {
        host: Host::Ip(IpAddr::V4(Ipv4Addr::new(10, 0, 0, last))),
        port,
    }
}

/// With what a router says in the end.
fn explained_with(lines: &[Line], said: Option<IcmpError<'_>>) -> Document {
    let mut tracker = Tracker::new();
    for (frame, &(at, from_client, flags, from, len, ack)) in (1..).zip(lines) {
        let (client, server) = (end(1, 40_000), end(2, 443));
        let syn = flags.contains(TcpFlags::SYN);
        tracker.observe(&Observation::Tcp(Segment {
            at: Time::from_millis(at),
            frame,
            source: if from_client { client } else { server },
            destination: if from_client { server } else { client },
            flags,
            seq: SeqNum::new(from),
            ack: flags.contains(ACK).then(|| SeqNum::new(ack)),
            window: 60_000,
            payload_len: len,
            payload: &[],
            options: TcpOptions {
                mss: syn.then_some(1460),
                ..TcpOptions::default()
            },
            ip_id: None,
            ttl: None,
            ecn: None,
            header_len: 40,
        }));
    }
    if let Some(said) = said {
        tracker.observe(&Observation::IcmpError(said));
    }
    explain(&tracker.finish(), Options::default())
}

/// Set-up, a small request that arrives, and a full segment with its repetitions.
fn stuck() -> Vec<Line> {
    let mut lines = vec![
        (0, true, TcpFlags::SYN, 0, 0, 0),
        (50, false, TcpFlags::SYN.union(ACK), 0, 0, 1),
        (51, true, ACK, 1, 0, 1),
        (52, true, ACK, 1, 200, 1),
        (102, false, ACK, 1, 0, 201),
    ];
    lines.extend([103, 403, 1_003, 2_203].map(|at| (at, true, ACK, 201, 1460, 1)));
    // The end that answers is alive.
    lines.push((2_250, false, ACK, 1, 10, 201));
    lines
}

#[test]
fn full_segments_that_vanish_until_smaller_ones_are_tried_are_a_black_hole() {
    let mut lines = stuck();
    lines.push((4_603, true, ACK, 201, 512, 11));
    lines.push((4_653, false, ACK, 11, 0, 713));
    let document = explained(&lines);
    let finding = document
        .findings
        .iter()
        .find(|finding| finding.name == "pmtud-blackhole")
        .unwrap();
    assert_eq!(finding.confidence, Confidence::High);
    let frames: Vec<u64> = finding
        .evidence
        .iter()
        .map(|evidence| evidence.frame)
        .collect();
    assert_eq!(frames, [6, 9, 11]);
    assert!((finding.lost_s.unwrap() - 4.55).abs() < 1e-9);
}

#[test]
fn a_router_that_was_heard_by_the_capture_alone_proves_it() {
    let said = IcmpError {
        at: Time::from_millis(2_260),
        frame: 11,
        from: Host::Ip(IpAddr::V4(Ipv4Addr::new(10, 0, 0, 254))),
        reason: IcmpReason::TooBig { mtu: Some(1400) },
        source: end(1, 40_000),
        destination: end(2, 443),
    };
    let black_hole = |said| {
        let document = explained_with(&stuck(), said);
        let finding = document
            .findings
            .iter()
            .find(|finding| finding.name == "pmtud-blackhole")
            .unwrap();
        (finding.confidence, format!("{finding:?}"))
    };
    let (guessed, _) = black_hole(None);
    assert_eq!(guessed, Confidence::Medium);
    let (proven, words) = black_hole(Some(said));
    assert_eq!(proven, Confidence::High);
    assert!(words.contains("at most 1400 B go on"), "{words}");
    assert!(words.contains("not the client's TCP"), "{words}");
}

#[test]
fn a_full_segment_that_arrives_in_the_end_was_lost_like_any_other() {
    let mut lines = stuck();
    lines.push((2_303, false, ACK, 11, 0, 1_661));
    let document = explained(&lines);
    assert!(
        document
            .findings
            .iter()
            .all(|finding| finding.name != "pmtud-blackhole")
    );
}
