//! What must hold whatever comes.

use core::time::Duration;

use proptest::prelude::*;
use std::boxed::Box;
use std::vec::Vec;
use units::{Bytes, SeqNum, Time};
use wire::{SackBlocks, TcpFlags, TcpOptions, Timestamps};

use super::pair::{Fate, Pair};
use crate::{
    AckPolicy, Config, Connection, Ecn, EcnCodepoint, KeepAlive, LossDetection, Output, Pacing,
    ReceiveBuffer, Segment, State,
};

fn config() -> impl Strategy<Value = Config> {
    let flags = (
        any::<[bool; 16]>(),
        1_u32..30,
        1_000_u64..300_000,
        2_000_u64..300_000,
    );
    let algorithm = prop::sample::select(
        &[
            "reno",
            "cubic",
            "highspeed",
            "westwood",
            "bbr",
            "bbr3",
            "none",
        ][..],
    );
    let acks = prop::sample::select(std::vec![
        AckPolicy::Linux,
        AckPolicy::Immediate,
        AckPolicy::Every2 {
            delay: Duration::from_millis(200)
        }
    ]);
    (flags, algorithm, acks, 200_u16..1460).prop_map(
        |((flags, cwnd, receive, send), algorithm, acks, mss)| {
            let [
                scaling,
                timestamps,
                sack,
                nagle,
                rack,
                probe,
                spread,
                paced,
                marks,
                ..,
            ] = flags;
            let [.., check, doubles, challenges, kept, alive, crumbs, limited] = flags;
            let fixed = ReceiveBuffer::Fixed(Bytes::new(if scaling {
                receive
            } else {
                receive.min(65_535)
            }));
            Config {
                mss,
                window_scaling: scaling,
                timestamps,
                sack,
                nagle,
                receive_buffer: if probe {
                    Config::linux().receive_buffer
                } else {
                    fixed
                },
                send_buffer: Bytes::new(send),
                initial_cwnd: cwnd,
                algorithm: algorithm.parse().unwrap(),
                ack_policy: acks,
                pacing: if paced { Pacing::Window } else { Pacing::Off },
                loss_detection: if rack {
                    LossDetection::Rack
                } else {
                    LossDetection::DuplicateAcks
                },
                tail_loss_probe: probe,
                proportional_rate_reduction: spread,
                ecn: if marks { Ecn::Request } else { Ecn::Accept },
                forward_rto: check,
                duplicate_sack: doubles,
                challenge_acks: challenges,
                keep_unused_window: kept,
                keep_alive: alive.then(KeepAlive::default),
                silly_window_avoidance: crumbs,
                limited_transmit: limited,
                retries: 60,
                syn_retries: 60,
                ..Config::linux()
            }
        },
    )
}

fn segment() -> impl Strategy<Value = Segment> {
    let near = prop_oneof![Just(0_i32), -3_000..70_000_i32, any::<i32>()];
    let block = (any::<bool>(), near.clone(), 0_u32..5_000);
    let options = (
        prop::option::of(any::<(u32, u32)>()),
        prop::option::of(any::<u16>()),
        prop::option::of(any::<u8>()),
        any::<bool>(),
        prop::collection::vec(block, 0..4),
    );
    (
        near.clone(),
        near,
        0_u16..256,
        any::<u16>(),
        prop_oneof![Just(0_u32), 1..3_000_u32],
        options,
    )
        .prop_map(
            |(
                seq,
                ack,
                flags,
                window,
                payload,
                (timestamps, mss, window_scale, sack_permitted, blocks),
            )| {
                let mut sack = SackBlocks::default();
                for (_, left, len) in blocks {
                    let left = SeqNum::new(1_000) + left.cast_unsigned();
                    sack.push(left, left + len);
                }
                let flags = TcpFlags::from_bits(flags);
                Segment {
                    seq: SeqNum::new(5_000) + seq.cast_unsigned(),
                    ack: flags
                        .contains(TcpFlags::ACK)
                        .then(|| SeqNum::new(1_000) + ack.cast_unsigned()),
                    flags,
                    window,
                    payload,
                    options: TcpOptions {
                        mss,
                        window_scale,
                        sack_permitted,
                        sack,
                        timestamps: timestamps.map(|(value, echo)| Timestamps { value, echo }),
                    },
                    ecn: EcnCodepoint::from_bits(window.to_le_bytes()[0]),
                }
            },
        )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn no_byte_is_lost_or_invented_and_no_edge_shrinks(
        client in config(),
        server in config(),
        iss in any::<(u32, u32)>(),
        sizes in (0_u64..200_000, 0_u64..200_000),
        fates in prop::collection::vec(0_u8..40, 1..400),
    ) {
        let (one, other) = (SeqNum::new(iss.0), SeqNum::new(iss.1));
        let mut pair = Pair::with_iss(client, server, Duration::from_millis(30), one, other);
        let mut count = 0;
        // The list is the fate of the first packets; later ones get through, so that all ends.
        pair.fate = Box::new(move |_, _, _| {
            count += 1;
            match fates.get(count - 1).copied().unwrap_or(9) {
                0..4 => Fate::Lose,
                4..6 => Fate::Repeat,
                30..34 => Fate::Mark,
                6..9 => Fate::Delay(Duration::from_millis(u64::try_from(count % 60).unwrap())),
                _ => Fate::Deliver,
            }
        });
        pair.send(0, sizes.0, true);
        pair.send(1, sizes.1, true);
        pair.run(Time::from_millis(40_000_000));
        prop_assert_eq!(pair.ends[1].received(), sizes.0);
        prop_assert_eq!(pair.ends[0].received(), sizes.1);
        prop_assert_eq!((pair.ends[1].read, pair.ends[0].read), sizes);
        prop_assert_eq!([pair.ends[0].state(), pair.ends[1].state()], [State::Closed; 2]);
    }

    #[test]
    fn sequence_numbers_may_wrap_at_any_byte(before in 0_u32..100_000) {
        let iss = SeqNum::new(u32::MAX - before);
        let mut pair = Pair::with_iss(Config::linux(), Config::linux(), Duration::from_millis(10), iss, iss);
        pair.send(0, 150_000, true);
        pair.send(1, 150_000, true);
        pair.run(Time::from_millis(600_000));
        prop_assert_eq!(pair.ends[1].received(), 150_000);
        prop_assert_eq!(pair.ends[0].received(), 150_000);
    }

    #[test]
    fn arbitrary_segments_into_any_state_never_panic(
        config in config(),
        steps in prop::collection::vec((0_u8..8, segment(), 0_u64..3_000_000_000), 1..60),
        passive in any::<bool>(),
        syn in segment(),
    ) {
        let mut now = Time::from_millis(5);
        let iss = SeqNum::new(1_000);
        let accepted = Connection::accept(&config, now, &Segment { flags: TcpFlags::SYN, ack: None, ..syn }, iss);
        let mut connection = match accepted {
            Some(connection) if passive => connection,
            _ => Connection::connect(&config, now, iss),
        };
        let mut sent: Vec<Segment> = Vec::new();
        for (step, mut segment, nanos) in steps {
            now += Duration::from_nanos(nanos);
            match step {
                0 => { connection.write(now, u64::from(segment.payload) * 40); }
                1 => { connection.read(now, u64::from(segment.payload)); }
                2 => connection.close(),
                3 if segment.window > 40_000 => {
                    connection.set_path_mtu(now, segment.window >> 5, 20);
                }
                3 => connection.handle_timeout(now),
                _ => {
                    if step > 5 && let Some(last) = sent.last() {
                        // Something plausible: the next number, and all that was sent acknowledged.
                        segment.seq = last.ack.unwrap_or(segment.seq);
                        segment.ack = Some(last.seq + last.sequence_len());
                        segment.flags = segment.flags.union(TcpFlags::ACK);
                        segment.options.timestamps = last.options.timestamps;
                    }
                    connection.handle_segment(now, &segment);
                }
            }
            let mut outputs = 0;
            loop {
                match connection.poll_output(now) {
                    Output::Transmit { segment, .. } => sent.push(segment),
                    Output::Event(_) => {}
                    // A moment that has passed must be cleared by handling it.
                    Output::Timeout(Some(at)) if at <= now => connection.handle_timeout(now),
                    Output::Timeout(_) => break,
                }
                outputs += 1;
                prop_assert!(outputs < 100_000, "it never comes to rest");
            }
            connection.assert_consistent();
        }
    }
}
