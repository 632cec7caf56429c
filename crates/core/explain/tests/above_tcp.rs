//! What runs above TCP, told from payload: phases of a request, SSH banners, TLS sessions, and the census of hosts.

#![allow(clippy::unwrap_used, reason = "a test fails by a panic")]

use std::net::{IpAddr, Ipv4Addr};
use std::time::Duration;

use connections::Tracker;
use longhaul_explain::{Options, explain};
use record::Tally;
use record::explain::{Document, Finding};
use units::{SeqNum, Time};
use wire::{Endpoint, Host, Observation, Segment, TcpFlags, TcpOptions};

const RTT_MS: u64 = 20;

/// What one side says at a moment, in milliseconds after the SYN.
struct Says {
    at_ms: u64,
    client: bool,
    bytes: Vec<u8>,
}

fn client(at_ms: u64, bytes: impl Into<Vec<u8>>) -> Says {
    Says {
        at_ms,
        client: true,
        bytes: bytes.into(),
    }
}

fn server(at_ms: u64, bytes: impl Into<Vec<u8>>) -> Says {
    Says {
        at_ms,
        client: false,
        bytes: bytes.into(),
    }
}

/// A capture made at a client, one connection after the other.
#[derive(Default)]
struct Capture {
    tracker: Tracker,
    frame: u64,
}

impl Capture {
    /// A connection from its SYN to both FINs. Everything from the client is acknowledged a round trip later, everything
    /// from the server at once.
    fn connection(&mut self, port: u16, starts_ms: u64, mss: Option<u16>, said: &[Says]) {
        const SYN_ACK: TcpFlags = TcpFlags::SYN.union(TcpFlags::ACK);
        const FIN: TcpFlags = TcpFlags::FIN.union(TcpFlags::ACK);
        // Position of each side's next byte, and what the other has acknowledged of it.
        let (mut sent, mut acked) = ([0_u32; 2], [0_u32; 2]);
        let mut packets = vec![
            (0, true, TcpFlags::SYN, 0, 0, &b""[..]),
            (RTT_MS, false, SYN_ACK, 0, 0, b""),
            (RTT_MS, true, TcpFlags::ACK, 0, 0, b""),
        ];
        for say in said {
            let (own, peer) = (usize::from(!say.client), usize::from(say.client));
            if !say.client {
                acked[peer] = sent[peer];
            }
            let from = sent[own];
            packets.push((
                say.at_ms,
                say.client,
                TcpFlags::ACK,
                from,
                acked[peer],
                &say.bytes,
            ));
            sent[own] += u32::try_from(say.bytes.len()).unwrap();
            let told = if say.client { RTT_MS } else { 0 };
            packets.push((
                say.at_ms + told,
                !say.client,
                TcpFlags::ACK,
                sent[peer],
                sent[own],
                b"",
            ));
            acked[own] = sent[own];
        }
        let end = said.last().map_or(RTT_MS, |say| say.at_ms) + RTT_MS * 2;
        packets.push((end, true, FIN, sent[0], sent[1], b""));
        packets.push((end + RTT_MS, false, FIN, sent[1], sent[0] + 1, b""));
        packets.sort_by_key(|packet| packet.0);
        for (at_ms, from_client, flags, from, ack, payload) in packets {
            self.frame += 1;
            let end = |last: u8, port| Endpoint {
                host: Host::Ip(IpAddr::V4(Ipv4Addr::new(10, 0, 0, last))),
                port,
            };
            let (near, far) = (end(1, port), end(2, 443));
            let syn = flags.contains(TcpFlags::SYN);
            let own =
                |side: u32, position: u32| SeqNum::new(side * 5_000 + u32::from(!syn) + position);
            let (isn, peer_isn) = if from_client { (1, 2) } else { (2, 1) };
            let acks = flags.contains(TcpFlags::ACK);
            self.tracker.observe(&Observation::Tcp(Segment {
                at: Time::ZERO + Duration::from_millis(starts_ms + at_ms),
                frame: self.frame,
                source: if from_client { near } else { far },
                destination: if from_client { far } else { near },
                flags,
                seq: own(isn, from),
                ack: acks.then(|| SeqNum::new(peer_isn * 5_000 + 1 + ack)),
                window: 60_000,
                payload_len: u32::try_from(payload.len()).unwrap(),
                payload,
                options: TcpOptions {
                    mss: mss.filter(|_| syn),
                    ..TcpOptions::default()
                },
                ip_id: None,
                ttl: None,
                ecn: None,
                header_len: 40,
            }));
        }
    }

    fn explained(self) -> Document {
        explain(&self.tracker.finish(), Options::default())
    }
}

#[track_caller]
fn assert_about(seconds: Option<f64>, milliseconds: f64) {
    let found = seconds.unwrap() * 1e3;
    assert!((found - milliseconds).abs() < 0.01, "{found} ms");
}

fn finding<'a>(document: &'a Document, name: &str) -> Option<&'a Finding> {
    document
        .findings
        .iter()
        .find(|finding| finding.name == name)
}

fn counted(tally: &Tally) -> Vec<(&str, u64)> {
    tally.iter().collect()
}

#[test]
fn the_phases_of_a_request_are_told_apart() {
    let mut capture = Capture::default();
    let head =
        "PUT /bucket/key HTTP/1.1\r\nHost: store\r\nx-amz-date: 1\r\nExpect: 100-continue\r\n\r\n";
    capture.connection(
        40_000,
        0,
        Some(1460),
        &[
            client(30, head),
            server(55, "HTTP/1.1 100 Continue\r\n\r\n"),
            client(56, vec![b' '; 1000]),
            server(176, "HTTP/1.1 200 OK\r\nContent-Length: 300\r\n\r\n"),
            server(226, vec![b' '; 300]),
            client(
                300,
                "GET /bucket/key HTTP/1.1\r\nHost: store\r\nx-amz-date: 2\r\n\r\n",
            ),
            server(340, "HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n"),
        ],
    );
    let document = capture.explained();
    let [put, get] = document.connections[0].transfers.as_slice() else {
        panic!("{:?}", document.connections[0].transfers)
    };
    assert_eq!(
        (put.request.as_str(), put.status),
        ("PUT /bucket/key", Some(200))
    );
    assert_eq!(put.operation.as_deref(), Some("PutObject"));
    assert_about(put.continue_wait_s, 25.0);
    assert_about(Some(put.sent_s), 26.0);
    assert_about(put.server_s, 100.0);
    assert_about(put.first_byte_s, 146.0);
    assert_about(put.response_s, 50.0);
    assert_about(put.complete_s, 196.0);
    assert_about(put.with_handshake_s, 226.0);
    assert_eq!(put.request_bytes, u64::try_from(head.len()).unwrap() + 1000);
    assert_eq!(
        (get.operation.as_deref(), get.status),
        (Some("GetObject"), Some(404))
    );
    assert_about(get.server_s, 20.0);
    assert_eq!((get.continue_wait_s, get.with_handshake_s), (None, None));
}

#[test]
fn only_a_relay_that_answers_spares_the_wait_for_leave_to_send() {
    let mut capture = Capture::default();
    // The answer tells that it was asked for, where the capture kept only the beginning of the question.
    let head = "PUT /bucket/key HTTP/1.1\r\nHost: store\r\nUser-Agent: a long na";
    for (number, port) in (0..).zip(40_000..40_003) {
        let says = [
            client(20, head),
            server(40, "HTTP/1.1 100 Continue\r\n\r\n"),
            client(40, vec![b' '; 1000]),
            server(70, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"),
        ];
        capture.connection(port, 1000 * number, Some(1460), &says);
    }
    let document = capture.explained();
    let found = finding(&document, "no-connection-reuse").unwrap();
    let predicted = |remedy| {
        let found = found.predicted.iter().find(|one| one.remedy == remedy);
        found.map(|one| one.predicted_s)
    };
    // A round trip for the body and ten milliseconds in the server; the expectation takes another round trip.
    assert_about(predicted("hot-pool-answering"), 30.0);
    assert_about(predicted("hot-pool"), 50.0);
    assert_about(predicted("connection-reuse"), 50.0);
}

#[test]
fn ssh_is_known_by_what_both_ends_call_themselves() {
    let mut capture = Capture::default();
    capture.connection(
        40_000,
        0,
        Some(1460),
        &[
            server(25, "SSH-2.0-OpenSSH_9.6 Debian-3\r\n"),
            client(26, "SSH-2.0-PuTTY_0.81\r\n"),
            server(60, vec![0, 0, 4, 28, 10, 20]),
        ],
    );
    let document = capture.explained();
    let ssh = document.connections[0].ssh.as_ref().unwrap();
    assert_eq!(ssh.server.as_deref(), Some("SSH-2.0-OpenSSH_9.6"));
    assert_eq!(ssh.client.as_deref(), Some("SSH-2.0-PuTTY_0.81"));
    let census = &document.census;
    assert_eq!(
        counted(&census.servers[0].ssh),
        [("SSH-2.0-OpenSSH_9.6", 1)]
    );
    assert_eq!(counted(&census.clients[0].ssh), [("SSH-2.0-PuTTY_0.81", 1)]);
    assert!(document.connections[0].transfers.is_empty());
}

#[test]
fn the_census_counts_what_each_host_offers() {
    let mut capture = Capture::default();
    for (number, mss) in [Some(1460), Some(1200), None, Some(1460)]
        .into_iter()
        .enumerate()
    {
        let number = u16::try_from(number).unwrap();
        capture.connection(
            40_000 + number,
            u64::from(number) * 1000,
            mss,
            &[client(30, "?")],
        );
    }
    let document = capture.explained();
    let [clients] = document.census.clients.as_slice() else {
        panic!("{:?}", document.census)
    };
    assert_eq!(
        (clients.host.as_str(), clients.connections),
        ("10.0.0.1", 4)
    );
    assert_eq!(
        counted(&clients.mss),
        [("1200", 1), ("1460", 2), ("none", 1)]
    );
    assert_eq!(counted(&clients.window_scale), [("none", 4)]);
    assert_eq!(counted(&clients.sack), [("no", 4)]);
    assert_eq!(document.census.servers[0].host, "10.0.0.2");
}

/// Type, length and body, as handshake messages and records have them.
fn framed(head: &[u8], body: &[u8]) -> Vec<u8> {
    [
        head,
        &u16::try_from(body.len()).unwrap().to_be_bytes(),
        body,
    ]
    .concat()
}

fn record(content: u8, body: &[u8]) -> Vec<u8> {
    framed(&[content, 3, 3], body)
}

/// A Client Hello (1) or Server Hello (2) of TLS 1.3.
fn hello(kind: u8, suites: &[u8], extensions: &[(u16, &[u8])]) -> Vec<u8> {
    let list: Vec<u8> = extensions
        .iter()
        .flat_map(|(number, data)| framed(&number.to_be_bytes(), data))
        .collect();
    let body = [&[3, 3][..], &[7; 32], &[0], suites, &framed(&[], &list)].concat();
    record(22, &framed(&[kind, 0], &body))
}

/// A connection that asks for `store` and gets 200 B of data, its session resumed or not.
fn over_tls(resumed: bool) -> Vec<Says> {
    const SERVER_NAME: &[u8] = b"\x00\x08\x00\x00\x05store";
    const PRE_SHARED_KEY: u16 = 41;
    const SUPPORTED_VERSIONS: u16 = 43;
    let client_hello = hello(
        1,
        &[0, 2, 0x13, 1, 1, 0],
        &[(0, SERVER_NAME), (SUPPORTED_VERSIONS, &[2, 3, 4])],
    );
    let mut chosen: Vec<(u16, &[u8])> = vec![(SUPPORTED_VERSIONS, &[3, 4])];
    if resumed {
        chosen.push((PRE_SHARED_KEY, &[0, 0]));
    }
    let server_hello = hello(2, &[0x13, 1, 0], &chosen);
    vec![
        client(21, client_hello),
        server(45, [server_hello, record(23, &[0; 600])].concat()),
        client(46, [record(20, &[1]), record(23, &[0; 53])].concat()),
        client(47, record(23, &[0; 100])),
        server(70, record(23, &[0; 200])),
    ]
}

#[test]
fn full_handshakes_are_found_where_a_session_was_known() {
    let sessions = |resumed: [bool; 3]| {
        let mut capture = Capture::default();
        for (number, resumed) in (0..).zip(resumed) {
            let says = over_tls(resumed);
            capture.connection(40_000 + number, u64::from(number) * 1000, Some(1460), &says);
        }
        capture.explained()
    };
    let full = sessions([false; 3]);
    let found = finding(&full, "tls-no-resumption").unwrap();
    assert_eq!(found.connections, [2, 3]);
    assert_eq!(
        counted(&full.census.servers[0].tls_versions),
        [("TLS 1.3", 3)]
    );
    let tls = full.connections[1].tls.as_ref().unwrap();
    assert_eq!(
        (tls.resumed, tls.server_name.as_deref()),
        (Some(false), Some("store"))
    );

    let resumed = sessions([false, true, true]);
    assert!(finding(&resumed, "tls-no-resumption").is_none());
    let mixed = sessions([false, true, false]);
    assert_eq!(
        finding(&mixed, "tls-no-resumption").unwrap().connections,
        [3]
    );
}
