//! An SSH upload captured between the client and a relay beside it: TCP says nothing of what it waits for.

#![allow(clippy::unwrap_used, reason = "a test fails by a panic")]

use std::collections::VecDeque;
use std::net::{IpAddr, Ipv4Addr};

use connections::Tracker;
use longhaul_explain::{Options, explain};
use record::LimitName;
use record::explain::{Confidence, Document, Finding};
use units::{SeqNum, Time};
use wire::{Endpoint, Host, Observation, Segment, TcpFlags, TcpOptions};

/// To the other SSH and back, and to the relay and back, in microseconds.
const ROUND_TRIP: u64 = 65_000;
const TCP_RTT: u64 = 20;

const CHUNK: u32 = 32 << 10;

/// What passes the tap.
struct Passing {
    at_us: u64,
    from_client: bool,
    flags: TcpFlags,
    from: u32,
    ack: u32,
    head: &'static [u8],
    len: u32,
}

/// The client, the relay that acknowledges what it sends, and what comes from beyond the relay.
#[derive(Default)]
struct Link {
    passing: Vec<Passing>,
    /// Bytes of the client and of the server so far.
    sent: [u32; 2],
}

impl Link {
    fn pass(
        &mut self,
        at_us: u64,
        from_client: bool,
        flags: TcpFlags,
        head: &'static [u8],
        len: u32,
    ) {
        let (own, peer) = (usize::from(!from_client), usize::from(from_client));
        self.passing.push(Passing {
            at_us,
            from_client,
            flags,
            from: self.sent[own],
            ack: self.sent[peer],
            head,
            len,
        });
        self.sent[own] += len;
    }

    fn data(&mut self, at_us: u64, from_client: bool, head: &'static [u8], len: u32) {
        self.pass(at_us, from_client, TcpFlags::ACK, head, len);
        let answer_us = at_us + if from_client { TCP_RTT } else { 2 };
        self.pass(answer_us, !from_client, TcpFlags::ACK, b"", 0);
    }

    fn explained(mut self) -> Document {
        // Each acknowledgment says what had been sent when it was made.
        self.passing.sort_by_key(|passing| passing.at_us);
        let mut tracker = Tracker::default();
        for (frame, passing) in (1..).zip(&self.passing) {
            let end = |last: u8, port| Endpoint {
                host: Host::Ip(IpAddr::V4(Ipv4Addr::new(10, 0, 0, last))),
                port,
            };
            let (client, server) = (end(1, 40_000), end(2, 6000));
            let syn = passing.flags.contains(TcpFlags::SYN);
            let (isn, peer_isn) = if passing.from_client {
                (100, 900)
            } else {
                (900, 100)
            };
            let ack = SeqNum::new(peer_isn + 1 + passing.ack);
            tracker.observe(&Observation::Tcp(Segment {
                at: Time::from_micros(passing.at_us),
                frame,
                source: if passing.from_client { client } else { server },
                destination: if passing.from_client { server } else { client },
                flags: passing.flags,
                seq: SeqNum::new(isn + u32::from(!syn) + passing.from),
                ack: passing.flags.contains(TcpFlags::ACK).then_some(ack),
                window: 32_000,
                payload_len: passing.len,
                payload: passing.head,
                options: TcpOptions {
                    mss: syn.then_some(1460),
                    window_scale: syn.then_some(11),
                    ..TcpOptions::default()
                },
                ip_id: None,
                ttl: None,
                ecn: None,
                header_len: 40,
            }));
        }
        explain(&tracker.finish(), Options::default())
    }
}

/// An upload of 64 MiB, of which `window` bytes may be on their way; the other end takes 500 Mbit/s and tops the window
/// up by 96 KiB.
fn upload(banners: [&'static [u8]; 2], window: u32) -> Document {
    let mut link = Link::default();
    link.pass(0, true, TcpFlags::SYN, b"", 0);
    link.pass(TCP_RTT, false, TcpFlags::SYN.union(TcpFlags::ACK), b"", 0);
    link.pass(TCP_RTT + 2, true, TcpFlags::ACK, b"", 0);
    let [client, server] = banners;
    let len = |banner: &[u8]| u32::try_from(banner.len()).unwrap();
    link.data(100, true, client, len(client));
    link.data(ROUND_TRIP, false, server, len(server));
    let (mut now, mut sent, mut granted) = (2 * ROUND_TRIP, 0, window);
    let (mut taken_at, mut topped_up) = (0, 0);
    let mut messages = VecDeque::new();
    while sent < 64 << 20 {
        if sent + CHUNK <= granted {
            link.data(now, true, b"", CHUNK);
            (now, sent) = (now + 25, sent + CHUNK);
            taken_at = (taken_at + 525).max(now + ROUND_TRIP / 2);
            if sent - topped_up >= 96 << 10 {
                topped_up = sent;
                messages.push_back((taken_at + ROUND_TRIP / 2, sent + window));
            }
        } else {
            let (told_at, to) = messages.pop_front().unwrap();
            now = now.max(told_at);
            link.data(now, false, b"", 36);
            granted = to;
            now += 150;
        }
    }
    link.explained()
}

const SSH: [&[u8]; 2] = [b"SSH-2.0-OpenSSH_9.2\r\n", b"SSH-2.0-OpenSSH_9.6\r\n"];

fn peer_window(document: &Document) -> Option<&Finding> {
    let mut findings = document.findings.iter();
    findings.find(|finding| finding.name == "peer-window")
}

#[test]
fn the_window_of_an_ssh_channel_is_named_beside_a_relay() {
    let document = upload(SSH, 2 << 20);
    let found = peer_window(&document).unwrap();
    assert_eq!(found.confidence, Confidence::High, "{found:#?}");
    let limits = &document.connections[0].directions.client_to_server;
    assert_eq!(limits.dominant, Some(LimitName::Application));
    let held = limits.details["application: peer-window"];
    let whole = document.connections[0].duration_s;
    assert!(held >= 0.8 * whole, "{held} of {whole} s");
    // What waits for it counts as held back, and is explained.
    let explained = document.explained.as_ref().unwrap();
    assert!(
        explained.held_s >= held && explained.share >= 0.99,
        "{explained:?}"
    );
    // The window, the round trip above TCP, and their quotient, each as measured.
    let said = |after: &str| -> f64 {
        let (_, rest) = found.summary.split_once(after).unwrap();
        let number = rest.split_whitespace().next().unwrap();
        number.parse().unwrap()
    };
    let window = said("at once: ");
    let round_trip_ms = said("per round trip of ");
    let rate = said("which is ");
    assert!((1.9e6..2.2e6).contains(&window), "{}", found.summary);
    assert!((65.0..69.0).contains(&round_trip_ms), "{}", found.summary);
    let quotient = window * 8.0 / round_trip_ms / 1e3;
    assert!(
        (rate - quotient).abs() <= 0.2,
        "{} and {quotient}",
        found.summary
    );
    // From the first byte of the stroke to the messages that let it go on.
    assert!(found.evidence.len() >= 4, "{:#?}", found.evidence);
    assert!(
        found.evidence[0].shows.contains("2097152 B"),
        "{:#?}",
        found.evidence
    );
}

#[test]
fn another_window_than_the_usual_is_named_with_less_confidence() {
    let document = upload(SSH, 1 << 20);
    let found = peer_window(&document).unwrap();
    assert_eq!(found.confidence, Confidence::Medium, "{found:#?}");
}

#[test]
fn what_is_not_ssh_has_no_such_window() {
    let http: [&[u8]; 2] = [b"PUT /a HTTP/1.1\r\n\r\n", b"HTTP/1.1 100 Continue\r\n\r\n"];
    let document = upload(http, 2 << 20);
    assert!(peer_window(&document).is_none());
    let limits = &document.connections[0].directions.client_to_server;
    assert!(!limits.details.contains_key("application: peer-window"));
}
