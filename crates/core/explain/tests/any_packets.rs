//! Whatever packets come, in whatever order: no panic, seconds that sum, the same answer again.

#[path = "support/model.rs"]
mod model;

use std::net::{IpAddr, Ipv4Addr};
use std::time::Duration;

use connections::{Tracked, Tracker};
use longhaul_explain::{CATALOGUE, Options, explain};
use model::{Model, Request};
use proptest::prelude::*;
use record::explain::Document;
use units::{SeqNum, Time};
use wire::{Endpoint, Host, Observation, SackBlocks, Segment, TcpFlags, TcpOptions, Timestamps};

/// Sequence numbers near each other, near the wrap, and anywhere.
fn sequence() -> impl Strategy<Value = u32> {
    prop_oneof![
        4 => 1000_u32..20_000,
        2 => (u32::MAX - 5_000)..=u32::MAX,
        1 => any::<u32>(),
    ]
}

fn segment() -> impl Strategy<Value = Segment<'static>> {
    let flags = prop_oneof![
        1 => Just(0x02_u16),
        1 => Just(0x12),
        6 => Just(0x10),
        2 => Just(0x18),
        1 => Just(0x11),
        1 => Just(0x04),
        1 => any::<u16>(),
    ];
    let payload = prop_oneof![
        Just(&b""[..]),
        Just(&b"POST /a?b HTTP/1.1\r\nExpect: 100-continue\r\n"[..]),
        Just(&b"HTTP/1.1 100 Continue\r\n"[..]),
        Just(&b"\x16\x03\x01\x02"[..]),
        Just(&b"\x17\x03\x03\x02"[..]),
    ];
    (
        (0_u64..5_000_000_000, any::<bool>(), 0_u16..2, flags),
        (
            sequence(),
            sequence(),
            any::<u16>(),
            prop_oneof![Just(0), 1_u32..70_000, Just(u32::MAX)],
        ),
        (
            payload,
            any::<[Option<u16>; 2]>(),
            proptest::option::of(0_u8..20),
        ),
        proptest::option::of((sequence(), sequence())),
    )
        .prop_map(|(head, numbers, extra, sack)| {
            let ((at, client, port, flags), (seq, ack, window, len)) = (head, numbers);
            let end = |last, port| Endpoint {
                host: Host::Ip(IpAddr::V4(Ipv4Addr::new(10, 0, 0, last))),
                port,
            };
            let (near, far) = (end(1, 40_000 + port), end(2, 80));
            let flags = TcpFlags::from_bits(flags);
            let mut blocks = SackBlocks::default();
            if let Some((left, right)) = sack {
                blocks.push(SeqNum::new(left), SeqNum::new(right));
            }
            Segment {
                at: Time::from_nanos(at),
                frame: 1,
                source: if client { near } else { far },
                destination: if client { far } else { near },
                flags,
                seq: SeqNum::new(seq),
                ack: flags.contains(TcpFlags::ACK).then_some(SeqNum::new(ack)),
                window,
                payload_len: len,
                payload: extra.0,
                options: TcpOptions {
                    mss: extra.1[0],
                    window_scale: extra.2,
                    sack_permitted: client,
                    sack: blocks,
                    timestamps: Some(Timestamps { value: 1, echo: 2 }),
                },
                ip_id: extra.1[1],
                ttl: None,
                ecn: None,
                header_len: 52,
            }
        })
}

fn track(segments: &[Segment<'static>]) -> Tracked {
    let mut tracker = Tracker::new();
    for segment in segments {
        tracker.observe(&Observation::Tcp(*segment));
    }
    tracker.finish()
}

fn check(document: &Document) -> Result<(), TestCaseError> {
    for connection in &document.connections {
        let directions = &connection.directions;
        for direction in [&directions.client_to_server, &directions.server_to_client] {
            let sum: f64 = direction.limits.values().sum();
            prop_assert!(
                (sum - connection.duration_s).abs() < 1e-6,
                "{sum} {}",
                connection.duration_s
            );
            prop_assert!(direction.limits.values().all(|seconds| *seconds >= 0.0));
        }
    }
    for finding in &document.findings {
        prop_assert!(CATALOGUE.iter().any(|entry| entry.name == finding.name));
        let known = 1..=u32::try_from(document.connections.len()).unwrap_or(u32::MAX);
        prop_assert!(finding.connections.iter().all(|id| known.contains(id)));
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn any_segments_sum_to_the_duration_and_give_the_same_document_again(
        mut segments in proptest::collection::vec(segment(), 0..60),
        sorted in any::<bool>(),
    ) {
        if sorted {
            segments.sort_by_key(|segment| segment.at);
        }
        let options = || Options { series: true, ..Options::default() };
        let document = explain(&track(&segments), options());
        check(&document)?;
        prop_assert_eq!(document, explain(&track(&segments), options()));
    }

    #[test]
    fn a_capture_that_lost_packets_never_shows_more_bytes_than_were_sent(
        keep in proptest::collection::vec(any::<bool>(), 200),
        body in 1_000_i64..120_000,
        rtt_ms in 1_u64..300,
    ) {
        let rtt = Duration::from_millis(rtt_ms);
        let server = Duration::from_millis(2);
        let requests = vec![Request { head: 200, body, server, pause: server }];
        let mut shots = Model { rtt, requests, ..Model::default() }.run();
        let mut keep = keep.into_iter().cycle();
        shots.retain(|_| keep.next().unwrap_or(true));
        let document = explain(&model::track(&shots), Options::default());
        check(&document)?;
        for connection in &document.connections {
            let up = &connection.directions.client_to_server;
            // A FIN which only its ACK shows cannot be told from one more byte.
            prop_assert!(up.bytes <= u64::try_from(body + 201).unwrap());
            prop_assert_eq!(up.retransmissions, 0, "the sender repeated nothing");
        }
    }

    #[test]
    fn a_wrap_anywhere_in_a_transfer_changes_nothing(before_wrap in 0_u32..200_000) {
        let plain = explain(&model::track(&Model::default().run()), Options::default());
        let model = Model { client_isn: u32::MAX - before_wrap, ..Model::default() };
        prop_assert_eq!(plain, explain(&model::track(&model.run()), Options::default()));
    }
}
