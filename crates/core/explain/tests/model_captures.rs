//! Captures of a model sender, whose every moment is known, explained.

#[path = "support/model.rs"]
mod model;

use std::collections::BTreeSet;
use std::time::Duration;

use longhaul_explain::{Options, explain};
use model::{MSS, Model, Request, Shot, Tap, track};
use record::LimitName;
use record::explain::{Connection, Direction, Document, Finding};
use units::Time;
use wire::TcpFlags;

fn explained(shots: &[Shot]) -> Document {
    let document = explain(&track(shots), Options::default());
    for connection in &document.connections {
        for direction in [
            &connection.directions.client_to_server,
            &connection.directions.server_to_client,
        ] {
            let sum: f64 = direction.limits.values().sum();
            assert!((sum - connection.duration_s).abs() < 1e-9);
        }
    }
    document
}

fn upload(document: &Document) -> &Direction {
    &only(document).directions.client_to_server
}

#[track_caller]
fn only(document: &Document) -> &Connection {
    let [connection] = document.connections.as_slice() else {
        panic!("{} connections", document.connections.len())
    };
    connection
}

fn finding<'a>(document: &'a Document, name: &str) -> Option<&'a Finding> {
    document
        .findings
        .iter()
        .find(|finding| finding.name == name)
}

fn seconds(direction: &Direction, limit: LimitName) -> f64 {
    direction.limits.get(&limit).copied().unwrap_or(0.0)
}

fn detail(direction: &Direction, name: &str) -> f64 {
    direction.details.get(name).copied().unwrap_or(0.0)
}

#[track_caller]
fn assert_about(actual: f64, expected: f64, within: f64, direction: &Direction) {
    assert!(
        (actual - expected).abs() <= within,
        "{actual} is not {expected} +- {within}: {:?} {:?} {:?}",
        direction.limits,
        direction.details,
        direction.unknown_because
    );
}

fn requests(count: usize, body: i64, pause: Duration) -> Vec<Request> {
    let request = Request {
        head: 293,
        body,
        server: Duration::from_millis(3),
        pause,
    };
    vec![request; count]
}

fn one(body: i64) -> Vec<Request> {
    requests(1, body, Duration::from_millis(1))
}

#[test]
fn slow_start_takes_three_round_trips_and_propagation_one() {
    for rate in [0, 100_000_000] {
        let document = explained(
            &Model {
                rate,
                ..Model::default()
            }
            .run(),
        );
        let up = upload(&document);
        assert_about(seconds(up, LimitName::Handshake), 0.2, 0.001, up);
        assert_about(detail(up, "slow-start: initial"), 0.6, 0.012, up);
        assert_about(seconds(up, LimitName::Propagation), 0.2, 0.012, up);
        assert_about(seconds(up, LimitName::Application), 0.004, 0.003, up);
        assert_eq!(up.dominant, Some(LimitName::SlowStart));
        assert_eq!(up.initial_window_segments, Some(10));
        assert_eq!(up.bytes, 102_693);
        assert_eq!(only(&document).transfers[0].request, "POST /upload/files");
    }
}

#[test]
fn offload_changes_counts_and_not_the_verdict() {
    let document = explained(
        &Model {
            offload: true,
            ..Model::default()
        }
        .run(),
    );
    let up = upload(&document);
    assert_about(detail(up, "slow-start: initial"), 0.6, 0.012, up);
    assert_about(seconds(up, LimitName::Propagation), 0.2, 0.012, up);
    assert_eq!(up.initial_window_segments, Some(10));
    assert!(finding(&document, "capture-artefact").is_some());
}

#[test]
fn the_paths_rate_shows_in_a_transfer_that_never_fills_it() {
    for (rate, rtt) in [(100_000_000, 200), (50_000_000, 60), (20_000_000, 120)] {
        for offload in [false, true] {
            let model = Model {
                rate,
                rtt: Duration::from_millis(rtt),
                offload,
                ..Model::default()
            };
            let document = explained(&model.run());
            let up = upload(&document);
            let estimate = up.path_rate_bps.expect("a rate");
            let expected = f64::from(u32::try_from(rate).unwrap());
            assert_about(estimate / expected, 1.0, 0.05, up);
        }
    }
}

#[test]
fn acks_joined_by_the_receivers_card_do_not_inflate_the_rate() {
    for segments_per_ack in [4, 8, 16] {
        let model = Model {
            segments_per_ack,
            offload: true,
            requests: one(1 << 20),
            ..Model::default()
        };
        let document = explained(&model.run());
        let up = upload(&document);
        let estimate = up.path_rate_bps.expect("a rate");
        assert_about(estimate / 1e8, 1.0, 0.05, up);
        assert_about(seconds(up, LimitName::Unknown), 0.0, 0.0, up);
        assert_eq!(up.dominant, Some(LimitName::SlowStart), "{:?}", up.limits);
    }
}

#[test]
fn no_rate_is_claimed_for_a_path_that_spreads_nothing_or_too_few_packets() {
    let few = explained(
        &Model {
            requests: one(8_000),
            ..Model::default()
        }
        .run(),
    );
    assert_eq!(upload(&few).path_rate_bps, None);
    let endless = explained(
        &Model {
            rate: 0,
            ..Model::default()
        }
        .run(),
    );
    assert_eq!(upload(&endless).path_rate_bps, None);
}

#[test]
fn a_large_transfer_fills_the_path_and_is_held_by_it() {
    let model = Model {
        rate: 20_000_000,
        rtt: Duration::from_millis(60),
        requests: one(4 << 20),
        ..Model::default()
    };
    let document = explained(&model.run());
    let up = upload(&document);
    // 4 MiB at 20 Mbit/s take 1.74 s, of which slow start covers the first four round trips.
    assert_eq!(up.dominant, Some(LimitName::Bottleneck));
    assert!(seconds(up, LimitName::Bottleneck) > 1.3, "{:?}", up.limits);
    assert_about(seconds(up, LimitName::SlowStart), 0.24, 0.06, up);
    assert_about(seconds(up, LimitName::Unknown), 0.0, 0.0, up);
}

#[test]
fn a_window_of_two_segments_and_a_rest_holds_back_although_it_is_never_full() {
    // Field case B: 4096 B at 190 ms; 21.56 kB/s although only 2.8 kB fly.
    let model = Model {
        rtt: Duration::from_millis(190),
        window: (4096, 4096),
        window_scale: Some(0),
        requests: one(28 * MSS),
        ..Model::default()
    };
    let document = explained(&model.run());
    let up = upload(&document);
    assert_eq!(up.dominant, Some(LimitName::ReceiveWindow));
    // The header's own small segment, and two full ones.
    assert_eq!(up.max_in_flight, Some(293 + 2 * 1448));
    assert!(
        detail(up, "receive-window: static") > 2.3,
        "{:?} {:?}",
        up.limits,
        up.details
    );
    let found = finding(&document, "fixed-window").expect("fixed-window");
    assert!(found.summary.contains("21.55 kB/s"), "{}", found.summary);
    assert!(!found.evidence.is_empty());
}

#[test]
fn a_window_that_grows_too_slowly_is_told_from_one_that_stays() {
    let model = Model {
        window: (14_600, 1 << 20),
        requests: one(400_000),
        ..Model::default()
    };
    let document = explained(&model.run());
    let up = upload(&document);
    assert!(
        detail(up, "receive-window: growing") > 0.1,
        "{:?} {:?}",
        up.limits,
        up.details
    );
    assert!(finding(&document, "fixed-window").is_none());
}

#[test]
fn without_window_scaling_the_window_ends_at_65535() {
    let model = Model {
        window: (65_535, 65_535),
        window_scale: None,
        requests: one(1 << 20),
        ..Model::default()
    };
    let document = explained(&model.run());
    let up = upload(&document);
    assert!(
        detail(up, "receive-window: no-scaling") > 1.5,
        "{:?} {:?}",
        up.limits,
        up.details
    );
    let found = finding(&document, "no-window-scaling").expect("no-window-scaling");
    assert!(found.lost_s.unwrap() > 1.5);
}

#[test]
fn a_lost_segment_is_repaired_fast() {
    let model = Model {
        losses: BTreeSet::from([15]),
        requests: one(400_000),
        ..Model::default()
    };
    let document = explained(&model.run());
    let up = upload(&document);
    assert_eq!(up.retransmissions, 1);
    // From the first duplicate ACK to the ACK of the repair, which the server may delay.
    assert_about(
        detail(up, "loss-recovery: fast-retransmit"),
        0.22,
        0.025,
        up,
    );
    assert!(
        seconds(up, LimitName::LossLimited) > 0.3,
        "{:?} {:?}",
        up.limits,
        up.details
    );
    assert_about(detail(up, "slow-start: initial"), 0.4, 0.01, up);
}

#[test]
fn a_lost_tail_waits_for_the_timer() {
    // The last packet of the upload: nothing comes back that would show the loss.
    let last = 1 + 102_400_u64.div_ceil(1448);
    let losses = BTreeSet::from([last - 1]);
    let document = explained(
        &Model {
            losses,
            ..Model::default()
        }
        .run(),
    );
    let up = upload(&document);
    assert_eq!(up.retransmissions, 1);
    // The last ACK came a round trip after the loss, the timer takes 400 ms from there (RTT + 200 ms),
    // and the repair a round trip.
    assert_about(detail(up, "loss-recovery: tail-loss"), 0.6, 0.01, up);
    let found = finding(&document, "loss-recovery").expect("loss-recovery");
    assert_about(found.lost_s.unwrap(), 0.6, 0.01, up);
    assert!(
        found.summary.contains("1 segment went again"),
        "{}",
        found.summary
    );
    // The segment, its repetition, and the ACK of that.
    assert_eq!(found.evidence.len(), 3, "{:#?}", found.evidence);
    assert!(
        found.remedy.contains("tail loss probes"),
        "{}",
        found.remedy
    );
}

#[test]
fn a_whole_flight_lost_is_a_timeout_and_slow_start_after_it() {
    let losses = (11..31).collect();
    let document = explained(
        &Model {
            losses,
            requests: one(600_000),
            ..Model::default()
        }
        .run(),
    );
    let up = upload(&document);
    assert!(up.retransmissions >= 20);
    assert!(
        detail(up, "loss-recovery: timeout") > 0.3,
        "{:?} {:?}",
        up.limits,
        up.details
    );
    let found = finding(&document, "loss-recovery").expect("loss-recovery");
    assert!(
        found
            .evidence
            .iter()
            .any(|one| one.shows.ends_with("by the timer")),
        "{:#?}",
        found.evidence
    );
    assert!(found.remedy.contains("RACK"), "{}", found.remedy);
}

#[test]
fn a_transfer_without_losses_has_no_repairs_to_speak_of() {
    let document = explained(&Model::default().run());
    assert!(finding(&document, "loss-recovery").is_none());
}

#[test]
fn pauses_between_requests_are_the_applications_and_a_restart_is_named() {
    let model = Model {
        requests: requests(3, 102_400, Duration::from_secs(2)),
        ..Model::default()
    };
    let document = explained(&model.run());
    let up = upload(&document);
    // Two pauses between requests and one before the FIN, each two seconds, and the server's time.
    assert_about(seconds(up, LimitName::Application), 6.0, 0.05, up);
    assert_about(detail(up, "slow-start: initial"), 0.6, 0.02, up);
    assert_about(detail(up, "slow-start: after-idle"), 1.2, 0.05, up);
    assert!(finding(&document, "slow-start-after-idle").is_some());
    assert_eq!(only(&document).transfers.len(), 3);
    assert!(finding(&document, "no-connection-reuse").is_none());
}

#[test]
fn requests_without_pause_keep_what_the_window_has_grown_to() {
    let model = Model {
        requests: requests(3, 102_400, Duration::from_millis(5)),
        ..Model::default()
    };
    let document = explained(&model.run());
    let up = upload(&document);
    assert_about(seconds(up, LimitName::SlowStart), 0.6, 0.03, up);
    assert_about(seconds(up, LimitName::Propagation), 0.6, 0.04, up);
    assert!(finding(&document, "slow-start-after-idle").is_none());
}

#[test]
fn linear_growth_without_loss_is_congestion_avoidance() {
    let model = Model {
        ssthresh: 20 * MSS,
        requests: one(1 << 20),
        ..Model::default()
    };
    let document = explained(&model.run());
    let up = upload(&document);
    assert_eq!(up.dominant, Some(LimitName::CongestionAvoidance));
    assert!(
        detail(up, "congestion-avoidance: low-ssthresh") > 3.0,
        "{:?}",
        up.limits
    );
    assert!(finding(&document, "low-initial-ssthresh").is_some());
}

#[test]
fn a_flat_flight_below_window_and_path_is_the_send_buffer() {
    let model = Model {
        send_buffer: 44 * MSS,
        requests: one(2 << 20),
        ..Model::default()
    };
    let document = explained(&model.run());
    let up = upload(&document);
    assert_eq!(
        up.dominant,
        Some(LimitName::SendBuffer),
        "{:?} {:?}",
        up.limits,
        up.details
    );
    assert!(seconds(up, LimitName::SendBuffer) > 5.0, "{:?}", up.limits);
}

#[test]
fn slow_start_ends_by_a_cause_that_is_named() {
    let of = |model: Model| upload(&explained(&model.run())).slow_start_exit.clone();
    // 100 KiB fit into what slow start has reached.
    assert_eq!(of(Model::default()), None);
    let large = Model {
        requests: one(2 << 20),
        ..Model::default()
    };
    let lost = of(Model {
        losses: BTreeSet::from([15]),
        ..large.clone()
    });
    let lost = lost.unwrap();
    assert_eq!(lost.cause, LimitName::LossRecovery);
    // Set-up, the flight of ten, the flight of twenty that loses its sixth: the sign comes a round trip later.
    assert!((lost.after_s - 0.6).abs() < 0.02, "{lost:?}");
    let window = of(Model {
        window: (65_535, 65_535),
        window_scale: None,
        ..large.clone()
    });
    assert_eq!(window.unwrap().cause, LimitName::ReceiveWindow);
    let buffer = of(Model {
        send_buffer: 44 * MSS,
        ..large.clone()
    });
    assert_eq!(buffer.unwrap().cause, LimitName::SendBuffer);
    let path = of(Model {
        rate: 4_000_000,
        ..large
    });
    assert_eq!(path.unwrap().cause, LimitName::Bottleneck);
}

#[test]
fn the_delivery_rate_is_the_paths_where_the_path_is_full_and_the_windows_where_it_is_not() {
    let of = |model: Model| upload(&explained(&model.run())).delivery_rate_bps.unwrap();
    let full = of(Model {
        rate: 10_000_000,
        requests: one(4 << 20),
        ..Model::default()
    });
    // Headers take 52 of 1500 bytes; delayed ACKs may carry two segments over a round trip's end.
    assert!((9.4e6..10.0e6).contains(&full), "{full}");
    let held = of(Model {
        window: (65_535, 65_535),
        window_scale: None,
        requests: one(1 << 20),
        ..Model::default()
    });
    let bound = 65_535.0 * 8.0 / 0.2;
    assert!(
        (bound * 0.9..bound * 1.05).contains(&held),
        "{held} {bound}"
    );
}

#[test]
fn the_receivers_capture_tells_the_same_story() {
    for requests in [one(102_400), one(1 << 20)] {
        let near = explained(
            &Model {
                requests: requests.clone(),
                ..Model::default()
            }
            .run(),
        );
        let far = explained(
            &Model {
                requests,
                tap: Tap::Server,
                ..Model::default()
            }
            .run(),
        );
        assert_eq!(only(&near).vantage, "client");
        assert_eq!(only(&far).vantage, "server");
        let (near, far) = (upload(&near), upload(&far));
        assert_about(
            detail(far, "slow-start: initial"),
            detail(near, "slow-start: initial"),
            0.1,
            far,
        );
        assert_eq!(far.path_rate_bps, None);
    }
}

#[test]
fn five_connections_one_after_the_other_are_no_reuse_and_the_hot_pool_is_predicted() {
    for (rate, rtt_ms) in [
        (100_000_000_u64, 200_u64),
        (50_000_000, 60),
        (20_000_000, 120),
    ] {
        let mut shots = Vec::new();
        let mut start = Time::ZERO;
        for port in 40_000..40_005 {
            let rtt = Duration::from_millis(rtt_ms);
            let run = Model {
                rtt,
                rate,
                start,
                port,
                ..Model::default()
            }
            .run();
            start = run.last().unwrap().at + Duration::from_millis(5);
            shots.extend(run);
        }
        let document = explained(&shots);
        let reuse = finding(&document, "no-connection-reuse").expect("no-connection-reuse");
        assert_eq!(reuse.connections, [1, 2, 3, 4, 5]);
        let [hot] = reuse.predicted.as_slice() else {
            panic!("{:?}", reuse.predicted)
        };
        // The model's own truth: one round trip, 71 full packets and their headers, 3 ms in the server.
        let bits = f64::from((102_693 + 71 * 52) * 8);
        let truth = f64::from(u32::try_from(rtt_ms).unwrap()) / 1e3
            + bits / f64::from(u32::try_from(rate).unwrap())
            + 0.003;
        assert!(
            (hot.predicted_s / truth - 1.0).abs() < 0.05,
            "{} {truth} {}",
            hot.predicted_s,
            hot.derivation
        );
        let waited: f64 = 5.0 * hot.now_s;
        assert!((reuse.lost_s.unwrap() - (waited - 5.0 * truth)).abs() < 0.05);
    }
}

#[test]
fn a_reset_ends_the_connection_and_names_its_sender() {
    let mut shots = Model::default().run();
    shots.retain(|shot| !shot.flags.contains(TcpFlags::FIN));
    let mut reset = shots.pop().unwrap();
    reset.flags = TcpFlags::RST;
    reset.at += Duration::from_millis(500);
    shots.push(reset);
    let document = explained(&shots);
    let connection = only(&document);
    assert_eq!(connection.close.how, "reset");
    assert_eq!(connection.close.first.as_deref(), Some("client"));
}

#[test]
fn one_direction_alone_is_not_judged() {
    for keep_client in [true, false] {
        let mut shots = Model::default().run();
        shots.retain(|shot| shot.from_client == keep_client);
        let document = explained(&shots);
        let up = upload(&document);
        assert!(seconds(up, LimitName::Unknown) > 0.5, "{:?}", up.limits);
        assert!(
            up.unknown_because
                .as_deref()
                .unwrap()
                .contains("one direction")
        );
        assert!(!up.limits.contains_key(&LimitName::SlowStart));
        assert!(!only(&document).caveats.is_empty());
    }
}

#[test]
fn without_the_handshake_slow_start_is_still_seen_and_windows_are_not_believed() {
    let mut shots = Model::default().run();
    shots.drain(..3);
    let document = explained(&shots);
    let connection = only(&document);
    assert!(
        connection
            .caveats
            .iter()
            .any(|caveat| caveat.contains("guess"))
    );
    assert_eq!(connection.client.port, 40_000);
    let up = upload(&document);
    assert_about(seconds(up, LimitName::SlowStart), 0.6, 0.02, up);
    assert!(!up.limits.contains_key(&LimitName::ReceiveWindow));
    assert_eq!(up.receive_window_max, None);
}

#[test]
fn a_wrap_of_sequence_numbers_in_the_middle_changes_nothing() {
    let plain = explained(&Model::default().run());
    for before_wrap in [1_u32, 10_000, 60_001] {
        let model = Model {
            client_isn: u32::MAX - before_wrap,
            ..Model::default()
        };
        assert_eq!(explained(&model.run()), plain);
    }
}
