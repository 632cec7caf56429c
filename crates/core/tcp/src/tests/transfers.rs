//! Whole transfers whose length is known beforehand.

use core::time::Duration;

use std::boxed::Box;
use std::vec::Vec;

use congestion::{Algorithm, SlowStart};
use units::{Bytes, Rate, Time};
use wire::TcpFlags;

use crate::fuzz::pair::{Fate, Fates, Pair};
use crate::{Config, Event, LossDetection, Pacing, ReceiveBuffer, State};

const RTT: Duration = Duration::from_millis(100);

fn run(client: Config, server: Config, bytes: u64) -> (Pair, Duration) {
    let mut pair = Pair::new(client, server, RTT);
    pair.send(0, bytes, true);
    pair.send(1, 0, true);
    pair.run(Time::from_millis(600_000));
    let last = pair.ends[0]
        .sent_segments
        .iter()
        .filter(|(_, s)| s.payload > 0)
        .map(|(at, _)| *at)
        .max();
    let took = last.unwrap().since(Time::from_millis(1));
    (pair, took)
}

#[test]
fn a_short_exchange_opens_transfers_and_closes_in_order() {
    let (pair, _) = run(Config::linux(), Config::linux(), 100);
    assert_eq!(pair.ends[1].received(), 100);
    assert_eq!(pair.ends[1].read, 100);
    assert_eq!(
        pair.ends[0].events,
        [Event::Established, Event::PeerClosed, Event::Closed]
    );
    assert!(
        pair.ends[1].events.contains(&Event::Closed),
        "{:?}",
        pair.ends[1].events
    );
    assert_eq!(
        [pair.ends[0].state(), pair.ends[1].state()],
        [State::Closed; 2]
    );
}

#[test]
fn slow_start_takes_the_round_trips_that_arithmetic_gives() {
    // 10, 20, 40, 80, 160 segments: 310 are through when the fifth flight has left.
    for (segments, flights) in [
        (10, 1),
        (11, 2),
        (30, 2),
        (31, 3),
        (70, 3),
        (71, 4),
        (150, 4),
        (310, 5),
    ] {
        let mut config = Config::linux();
        config.algorithm = Algorithm::NewReno;
        let (pair, took) = run(config, Config::linux(), segments * 1448);
        assert_eq!(pair.ends[1].received(), segments * 1448);
        // One round trip for the handshake, then the last segment leaves with the last flight.
        assert_eq!(took, RTT * flights, "{segments} segments");
    }
}

#[test]
fn a_fixed_window_without_scaling_carries_window_per_round_trip() {
    let mut server = Config::linux();
    server.window_scaling = false;
    server.receive_buffer = ReceiveBuffer::Fixed(Bytes::new(65_535));
    let mut client = Config::linux();
    client.initial_cwnd = 1000;
    let (pair, took) = run(client, server, 10 * 45 * 1448);
    assert_eq!(pair.ends[1].received(), 10 * 45 * 1448);
    // 45 segments of 1448 fit into 65,535 bytes: ten windows, the first after the handshake.
    let rounds = took.as_secs_f64() / RTT.as_secs_f64();
    assert!(
        (9.9..=11.1).contains(&rounds),
        "{rounds} round trips, 10 expected"
    );
}

#[test]
fn a_send_buffer_holds_back_what_windows_would_allow() {
    let mut client = Config::linux();
    client.initial_cwnd = 1000;
    client.send_buffer = Bytes::new(20 * 1448);
    let mut server = Config::linux();
    server.receive_buffer = ReceiveBuffer::Fixed(Bytes::mib(1));
    let mut pair = Pair::new(client, server, RTT);
    pair.send(0, 200 * 1448, false);
    pair.run(Time::from_millis(650));
    let client = pair.ends[0].connection.as_ref().unwrap();
    assert_eq!(client.hold().0, crate::Hold::SendBuffer);
    let acknowledged = client.sender().acknowledged;
    assert!(
        (80 * 1448..=120 * 1448).contains(&acknowledged),
        "{} segments in 5.5 round trips",
        acknowledged / 1448
    );
}

#[test]
fn one_lost_segment_costs_one_round_trip_and_no_timeout() {
    for (name, config) in loss_detectors() {
        let mut pair = Pair::new(config, Config::linux(), RTT);
        // The 30th data segment, in the third flight.
        pair.fate = lose_data(&[29]);
        pair.send(0, 200 * 1448, true);
        pair.send(1, 0, true);
        pair.run(Time::from_millis(100_000));
        let view = pair.ends[0].connection.as_ref().unwrap().sender();
        assert_eq!(pair.ends[1].received(), 200 * 1448, "{name}");
        assert_eq!((view.retransmissions, view.timeouts), (1, 0), "{name}");
    }
}

#[test]
fn a_lost_tail_is_probed_before_the_timeout() {
    let mut pair = Pair::new(Config::linux(), Config::linux(), RTT);
    pair.fate = lose_data(&[9]);
    pair.send(0, 10 * 1448, false);
    pair.run(Time::from_millis(5_000));
    let view = pair.ends[0].connection.as_ref().unwrap().sender();
    assert_eq!(pair.ends[1].received(), 10 * 1448);
    assert_eq!((view.retransmissions, view.timeouts), (1, 0));

    let mut old = Config::linux();
    old.tail_loss_probe = false;
    let mut pair = Pair::new(old, Config::linux(), RTT);
    pair.fate = lose_data(&[9]);
    pair.send(0, 10 * 1448, false);
    pair.run(Time::from_millis(5_000));
    let view = pair.ends[0].connection.as_ref().unwrap().sender();
    assert_eq!(
        (view.retransmissions, view.timeouts),
        (1, 1),
        "without the probe it takes a timeout"
    );
}

#[test]
fn every_way_to_find_losses_survives_heavy_ones() {
    for (name, config) in loss_detectors() {
        let mut pair = Pair::new(config, Config::linux(), RTT);
        // One packet in twelve, acknowledgements too.
        let mut state = 7_u64;
        pair.fate = Box::new(move |_, _, _| {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            if (state >> 40).is_multiple_of(12) {
                Fate::Lose
            } else {
                Fate::Deliver
            }
        });
        pair.send(0, 1_000_000, true);
        pair.send(1, 50_000, true);
        pair.run(Time::from_millis(3_600_000));
        assert_eq!(pair.ends[1].received(), 1_000_000, "{name}");
        assert_eq!(pair.ends[0].received(), 50_000, "{name}");
        assert_eq!(
            [pair.ends[0].state(), pair.ends[1].state()],
            [State::Closed; 2],
            "{name}"
        );
    }
}

#[test]
fn reordering_is_learnt_and_does_not_reduce_the_window_for_long() {
    let mut pair = Pair::new(Config::linux(), Config::linux(), RTT);
    pair.fate = Box::new(|side, index, _| {
        if side == 0 && index % 50 == 20 {
            Fate::Delay(Duration::from_millis(5))
        } else {
            Fate::Deliver
        }
    });
    pair.send(0, 3_000_000, false);
    pair.run(Time::from_millis(60_000));
    let view = pair.ends[0].connection.as_ref().unwrap().sender();
    assert_eq!(pair.ends[1].received(), 3_000_000);
    assert!(
        view.retransmissions < 10,
        "{} of 2073 segments were repeated",
        view.retransmissions
    );
}

#[test]
fn a_delay_longer_than_the_timeout_is_taken_back() {
    let mut pair = Pair::new(Config::linux(), Config::linux(), RTT);
    // Everything stands still until 2 s, as a radio link does, from the 60th packet on.
    pair.fate = Box::new(|side, index, _| {
        if side == 0 && index >= 60 {
            Fate::Hold(Time::from_millis(2_000))
        } else {
            Fate::Deliver
        }
    });
    pair.send(0, 69 * 1448, false);
    pair.run(Time::from_millis(30_000));
    let view = pair.ends[0].connection.as_ref().unwrap().sender();
    assert_eq!(pair.ends[1].received(), 69 * 1448);
    assert!(view.timeouts > 0, "{view:?}");
    assert_eq!(view.spurious, 1, "Eifel: {view:?}");
    assert!(view.cwnd > 40, "the window is back: {view:?}");
}

#[test]
fn a_closed_window_is_probed_until_it_opens() {
    let mut pair = Pair::new(Config::linux(), Config::linux(), RTT);
    pair.ends[1].reads = false;
    pair.send(0, 400_000, false);
    pair.run(Time::from_millis(20_000));
    let stalled = pair.ends[1].received();
    // The first window and, because a window is rounded up to its unit with every acknowledgement as in
    // Linux, a little more; never more than the buffer's memory.
    assert!(
        (81_920..=131_072).contains(&stalled),
        "{stalled} bytes though nobody reads"
    );
    let client = pair.ends[0].connection.as_ref().unwrap();
    assert_eq!(client.hold().0, crate::Hold::ReceiveWindow);
    let probes = pair.ends[0]
        .sent_segments
        .iter()
        .filter(|(at, s)| *at > Time::from_millis(2_000) && s.payload == 0);
    assert!(probes.count() >= 3, "the window must be asked about");
    pair.ends[1].reads = true;
    pair.run(Time::from_millis(40_000));
    assert_eq!(pair.ends[1].received(), 400_000);
}

#[test]
fn small_writes_wait_for_acknowledgements_only_with_nagle() {
    for (nagle, segments) in [(true, 2), (false, 4)] {
        let config = Config {
            nagle,
            ..Config::linux()
        };
        let mut pair = Pair::new(config, Config::linux(), RTT);
        pair.run(Time::from_millis(300));
        for _ in 0..4 {
            pair.send(0, 100, false);
        }
        pair.run(Time::from_millis(3_000));
        assert_eq!(pair.ends[1].received(), 400);
        let data = pair.ends[0]
            .sent_segments
            .iter()
            .filter(|(_, s)| s.payload > 0)
            .count();
        assert_eq!(data, segments, "nagle {nagle}");
    }
}

#[test]
fn a_lost_syn_and_a_lost_syn_ack_are_repeated_after_a_second() {
    for lost in [(0, 0), (1, 0)] {
        let mut pair = Pair::new(Config::linux(), Config::linux(), RTT);
        pair.fate = Box::new(move |side, index, _| {
            if (side, index) == lost {
                Fate::Lose
            } else {
                Fate::Deliver
            }
        });
        pair.send(0, 100, true);
        pair.send(1, 0, true);
        pair.run(Time::from_millis(30_000));
        assert_eq!(pair.ends[1].received(), 100, "{lost:?}");
        let first_data = pair.ends[0]
            .sent_segments
            .iter()
            .find(|(_, s)| s.payload > 0)
            .unwrap()
            .0;
        let waited = first_data.since(Time::from_millis(1));
        assert!(
            waited >= Duration::from_secs(1) && waited < Duration::from_millis(1_200),
            "{waited:?}"
        );
    }
}

#[test]
fn nobody_there_ends_in_a_timeout() {
    let mut pair = Pair::new(Config::linux(), Config::linux(), RTT);
    pair.fate = Box::new(|_, _, _| Fate::Lose);
    pair.run(Time::from_millis(1_000_000));
    assert_eq!(pair.ends[0].events, [Event::TimedOut]);
    assert_eq!(
        pair.ends[0].sent_segments.len(),
        7,
        "a SYN and six repetitions"
    );
}

#[test]
fn the_receive_window_grows_with_what_is_read() {
    let mut client = Config::linux();
    client.algorithm = Algorithm::Cubic(SlowStart::Standard);
    let (pair, _) = run(client, Config::linux(), 8_000_000);
    let windows = |end: &crate::fuzz::pair::End| {
        let shift = end.sent_segments[0].1.options.window_scale.unwrap();
        end.sent_segments
            .iter()
            .skip(1)
            .map(|(_, s)| u64::from(s.window) << shift)
            .max()
            .unwrap()
    };
    assert!(
        windows(&pair.ends[1]) > 1_000_000,
        "{}",
        windows(&pair.ends[1])
    );
    let syn_ack = pair.ends[1].sent_segments[0].1;
    assert_eq!(
        syn_ack.window, 65_160,
        "45 segments of 1448, as Linux offers at first"
    );
}

#[test]
fn an_idle_connection_starts_again_from_the_initial_window() {
    for (restart, flights) in [(true, 3), (false, 1)] {
        let config = Config {
            restart_after_idle: restart,
            ..Config::linux()
        };
        let mut pair = Pair::new(config, Config::linux(), RTT);
        pair.send(0, 150 * 1448, false);
        pair.run(Time::from_millis(2_000));
        pair.now = Time::from_millis(60_000);
        pair.send(0, 60 * 1448, false);
        pair.run(Time::from_millis(70_000));
        let last = pair.ends[0]
            .sent_segments
            .iter()
            .rfind(|(_, s)| s.payload > 0)
            .unwrap()
            .0;
        let took = last.since(Time::from_millis(60_000));
        assert_eq!(took, RTT * (flights - 1), "restart {restart}");
    }
}

#[test]
fn without_sack_and_timestamps_neither_is_on_the_wire() {
    let (pair, _) = run(Config::old(Bytes::kib(64)), Config::linux(), 100_000);
    for (_, segment) in pair.ends.iter().flat_map(|end| &end.sent_segments).skip(1) {
        let options = &segment.options;
        assert!(options.timestamps.is_none() && options.sack.is_empty() && !options.sack_permitted);
        if segment.flags.contains(TcpFlags::SYN) && segment.ack.is_some() {
            assert_eq!(options.window_scale, None, "the peer did not offer it");
        }
    }
    assert!(
        pair.ends[0]
            .sent_segments
            .iter()
            .all(|(_, s)| s.payload <= 1460)
    );
    assert!(
        pair.ends[0]
            .sent_segments
            .iter()
            .any(|(_, s)| s.payload == 1460)
    );
}

fn loss_detectors() -> [(&'static str, Config); 4] {
    let counting = Config {
        loss_detection: LossDetection::DuplicateAcks,
        ..Config::linux()
    };
    let no_sack = Config {
        sack: false,
        tail_loss_probe: false,
        ..Config::linux()
    };
    [
        ("RACK", Config::linux()),
        ("RFC 6675", counting),
        ("NewReno", no_sack),
        ("old", Config::old(Bytes::kib(256))),
    ]
}

/// Loses the n-th data segments of the client, counted from 0, on their first transmission.
fn lose_data(numbers: &'static [u64]) -> Fates {
    let mut count = 0;
    Box::new(move |side, _, segment| {
        if side == 0 && segment.payload > 0 {
            count += 1;
            if numbers.contains(&(count - 1)) {
                return Fate::Lose;
            }
        }
        Fate::Deliver
    })
}

#[test]
fn a_paced_flight_leaves_in_quanta_and_at_its_rate() {
    // At 10 Mbit/s a segment of 1448 bytes takes 1.158 ms; five of them, and a little, are 5 ms.
    let departures = |pacing_quantum| {
        let client = Config {
            pacing: Pacing::AtMost(Rate::mbit_per_s(10)),
            pacing_quantum,
            segmentation_offload: false,
            initial_cwnd: 2_000,
            send_buffer: Bytes::mib(4),
            send_buffer_grows: false,
            ..Config::linux()
        };
        let server = Config {
            receive_buffer: ReceiveBuffer::Fixed(Bytes::mib(4)),
            ..Config::linux()
        };
        let (pair, _) = run(client, server, 1_000 * 1_448);
        let sent = pair.ends[0].sent_segments.iter();
        sent.filter(|(_, segment)| segment.payload > 0)
            .map(|(at, _)| *at)
            .collect::<Vec<Time>>()
    };
    let together = |times: &[Time]| {
        // Before the first ACK nothing but the pacer lets a segment go.
        let first = times.iter().filter(|at| at.since(times[0]) < RTT);
        let mut first: Vec<Time> = first.copied().collect();
        let segments = first.len();
        first.dedup();
        segments / first.len()
    };
    let quantum = Duration::from_millis(5);
    let (exact, bundled) = (departures(Duration::ZERO), departures(quantum));
    assert_eq!([exact.len(), bundled.len()], [1_000; 2]);
    assert_eq!([together(&exact), together(&bundled)], [1, 5]);
    let took = |times: &[Time]| times[999].since(times[0]);
    assert!(took(&exact) >= Duration::from_millis(1_157));
    assert!(took(&exact).abs_diff(took(&bundled)) <= quantum);
}

#[test]
fn a_paced_flight_leaves_in_packets_for_the_device_to_cut() {
    // A millisecond's worth, two segments to 44, and one where the rate is below 1.2 Mbit/s.
    for (mbit_per_s, expected) in [(1, 1), (10, 2), (100, 8), (400, 33), (1_000, 44)] {
        let rate = Rate::mbit_per_s(mbit_per_s);
        let client = Config {
            pacing: Pacing::AtMost(rate),
            initial_cwnd: 2_000,
            send_buffer: Bytes::mib(4),
            ..Config::linux()
        };
        let server = Config {
            receive_buffer: ReceiveBuffer::Fixed(Bytes::mib(4)),
            ..Config::linux()
        };
        let (pair, _) = run(client, server, 400 * 1_448);
        let sent = pair.ends[0].sent_segments.iter();
        let times: Vec<Time> = sent
            .filter(|(_, segment)| segment.payload > 0)
            .map(|(at, _)| *at)
            .collect();
        let together = times.iter().filter(|at| **at == times[0]).count();
        assert_eq!(together, expected, "{rate}");
        // The pause between two packets is what the first of them takes.
        let pause = times[expected].since(times[0]).as_nanos();
        let bits = 8 * 1_448 * expected as u128;
        let takes = bits * 1_000_000_000 / u128::from(rate.bits_per_s());
        assert!(pause.abs_diff(takes) <= 44, "{rate}: {pause} ns");
    }
}

#[test]
fn reports_of_a_hole_are_merged_after_the_third() {
    // Two hundred segments follow the lost one, 116 us apart: 8 or 9 in a millisecond.
    let reports = |merged_reports| {
        let client = Config {
            pacing: Pacing::AtMost(Rate::mbit_per_s(100)),
            segmentation_offload: false,
            initial_cwnd: 2_000,
            ..Config::linux()
        };
        let server = Config {
            merged_reports,
            receive_buffer: ReceiveBuffer::Fixed(Bytes::mib(4)),
            ..Config::linux()
        };
        let mut pair = Pair::new(client, server, RTT);
        pair.fate = lose_data(&[200]);
        pair.send(0, 400 * 1_448, true);
        pair.send(1, 0, true);
        pair.run(Time::from_millis(600_000));
        assert_eq!(pair.ends[1].received(), 400 * 1_448);
        let sent = pair.ends[1].sent_segments.iter();
        let reports = sent.filter(|(_, segment)| !segment.options.sack.is_empty());
        reports.map(|(at, _)| *at).collect::<Vec<Time>>()
    };
    assert!(reports(false).len() >= 199);
    let merged = reports(true);
    assert!((20..=30).contains(&merged.len()), "{}", merged.len());
    let gaps: Vec<u128> = merged
        .windows(2)
        .map(|pair| pair[1].since(pair[0]).as_micros())
        .collect();
    assert!(gaps[..2].iter().all(|gap| *gap < 200), "{gaps:?}");
    assert!(
        gaps[3..10].iter().all(|gap| (1_000..1_200).contains(gap)),
        "{gaps:?}"
    );
}

#[test]
fn no_range_beyond_a_hole_is_left_out_of_merged_reports() {
    // Every second segment of a flight is lost: each that arrives begins a range of its own.
    const LOST: [u64; 30] = [
        101, 103, 105, 107, 109, 111, 113, 115, 117, 119, 121, 123, 125, 127, 129, 131, 133, 135,
        137, 139, 141, 143, 145, 147, 149, 151, 153, 155, 157, 159,
    ];
    let server = Config {
        receive_buffer: ReceiveBuffer::Fixed(Bytes::mib(4)),
        ..Config::linux()
    };
    let client = Config {
        initial_cwnd: 200,
        ..Config::linux()
    };
    let mut pair = Pair::new(client, server, RTT);
    pair.fate = lose_data(&LOST);
    pair.send(0, 600 * 1_448, true);
    pair.send(1, 0, true);
    pair.run(Time::from_millis(600_000));
    let view = pair.ends[0].connection.as_ref().unwrap().sender();
    assert_eq!(pair.ends[1].received(), 600 * 1_448);
    assert_eq!((view.retransmissions, view.timeouts), (30, 0));
}
