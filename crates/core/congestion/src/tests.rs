//! Closed forms: what each algorithm is published to do on a path that loses nothing, or every n-th.

use core::time::Duration;

use proptest::prelude::*;
use std::boxed::Box;
use std::format;
use std::string::ToString;
use std::vec::Vec;
use units::Time;

use crate::algorithm::SlowStart::{HyStart, HyStartPlusPlus, Standard};
use crate::{
    Acknowledgement, Algorithm, Choice, Controller, DeliveryRate, Parameters, Tuning, cubic,
    high_speed,
};

const ALL: [Algorithm; 9] = [
    Algorithm::NewReno,
    Algorithm::Cubic(HyStart),
    Algorithm::Cubic(HyStartPlusPlus),
    Algorithm::Cubic(Standard),
    Algorithm::HighSpeed,
    Algorithm::WestwoodPlus,
    Algorithm::Bbr,
    Algorithm::Bbr3,
    Algorithm::Fixed,
];

fn start(algorithm: Algorithm, cwnd: u32, ssthresh: Option<u32>) -> Box<dyn Controller> {
    algorithm.start(&Parameters {
        initial_cwnd: cwnd,
        initial_ssthresh: ssthresh,
        mss: 1448,
        paced: false,
        seed: 1,
        tuning: Tuning::default(),
    })
}

/// A path that answers one ACK per segment, evenly over the round trip.
struct Rounds {
    now: Time,
    rtt: Duration,
    offset: u64,
    total: u64,
}

impl Rounds {
    fn new(rtt: Duration) -> Self {
        Self {
            now: Time::from_millis(1),
            rtt,
            offset: 0,
            total: 0,
        }
    }

    /// One round trip of the controller's whole window.
    fn run(&mut self, controller: &mut dyn Controller) {
        let cwnd = controller.cwnd();
        let sent_to = self.offset + u64::from(cwnd);
        for _ in 0..cwnd {
            self.now += self.rtt / cwnd;
            self.offset += 1;
            let prior_delivered = self.total.saturating_sub(u64::from(cwnd));
            self.total += 1;
            controller.on_ack(&Acknowledgement {
                now: self.now,
                delivered: 1,
                lost: 0,
                rtt: Some(self.rtt),
                in_flight_before: cwnd,
                in_flight: cwnd - 1,
                may_grow: true,
                cwnd_limited: true,
                acked_to: self.offset,
                sent_to,
                rate: Some(DeliveryRate {
                    delivered: cwnd,
                    interval: self.rtt,
                    prior_delivered,
                    total_delivered: self.total,
                    sent_in_flight: 0,
                    lost: 0,
                    application_limited: false,
                }),
                recovering: false,
            });
        }
    }

    /// A loss, whose repair takes one round trip in which the window stands still.
    fn lose(&mut self, controller: &mut dyn Controller) {
        controller.on_congestion_event(self.now, controller.cwnd());
        self.now += self.rtt;
        controller.on_recovery_end(self.now);
    }
}

#[test]
fn slow_start_doubles_each_round_trip() {
    for algorithm in [
        Algorithm::NewReno,
        Algorithm::Cubic(Standard),
        Algorithm::HighSpeed,
    ] {
        let mut controller = start(algorithm, 10, None);
        let mut path = Rounds::new(Duration::from_millis(100));
        for expected in [20, 40, 80, 160] {
            path.run(&mut *controller);
            assert_eq!(controller.cwnd(), expected, "{algorithm}");
        }
    }
}

#[test]
fn reno_grows_by_one_segment_per_round_trip_and_halves_at_a_loss() {
    let mut controller = start(Algorithm::NewReno, 40, Some(40));
    let mut path = Rounds::new(Duration::from_millis(50));
    for round in 1..=20 {
        path.run(&mut *controller);
        assert_eq!(controller.cwnd(), 40 + round);
    }
    path.lose(&mut *controller);
    assert_eq!((controller.cwnd(), controller.ssthresh()), (30, 30));
    controller.undo();
    assert_eq!(controller.cwnd(), 60, "a spurious reduction is taken back");
}

#[test]
fn reno_between_losses_carries_three_eighths_of_the_square_of_its_peak() {
    // One cycle from W/2 to W delivers 3/8 W^2 segments (Mathis and others, CCR 27(3), 1997).
    let mut controller = start(Algorithm::NewReno, 100, Some(100));
    let mut path = Rounds::new(Duration::from_millis(50));
    path.lose(&mut *controller);
    let before = path.total;
    while controller.cwnd() < 100 {
        path.run(&mut *controller);
    }
    let delivered = path.total - before;
    assert!(
        (3_650..=3_850).contains(&delivered),
        "{delivered} is not 3/8 of 100^2 = 3750"
    );
}

#[test]
fn a_timeout_leaves_one_segment_and_half_the_window_as_threshold() {
    let mut controller = start(Algorithm::NewReno, 40, Some(20));
    controller.on_timeout(Time::from_millis(5), 40);
    assert_eq!((controller.cwnd(), controller.ssthresh()), (1, 20));
}

#[test]
fn a_timeout_among_repairs_leaves_one_segment_and_the_threshold() {
    for algorithm in ALL {
        if algorithm == Algorithm::Fixed {
            continue;
        }
        let mut controller = start(algorithm, 40, Some(20));
        controller.on_congestion_event(Time::from_millis(5), 40);
        let ssthresh = controller.ssthresh();
        controller.on_repeated_timeout(Time::from_millis(900), 10);
        let after = (controller.cwnd(), controller.ssthresh());
        assert_eq!(after, (1, ssthresh), "{algorithm:?}");
    }
}

#[test]
fn cubic_reaches_its_old_maximum_after_k_seconds() {
    // K = cubert(W_max (1 - beta) / C): 1000 segments need cubert(300 / 0.4) = 9.09 s.
    let k = cubic::k_seconds(1000, 700);
    assert!((k - 9.085_6).abs() < 0.01, "K = {k}");

    // A long round trip keeps the Reno-friendly region out.
    let rtt = Duration::from_millis(200);
    let mut controller = start(Algorithm::Cubic(Standard), 1000, Some(1000));
    let mut path = Rounds::new(rtt);
    path.lose(&mut *controller);
    assert_eq!(controller.cwnd(), 700);
    let lost_at = path.now;
    let mut at_half_k = 0;
    while path.now.since(lost_at).as_secs_f64() < k {
        path.run(&mut *controller);
        if path.now.since(lost_at).as_secs_f64() < k / 2.0 {
            at_half_k = controller.cwnd();
        }
    }
    // W(K/2) = W_max - C (K/2)^3 = 1000 - 37.5; the flat part is reached a little early or late.
    assert!(
        (950..=975).contains(&at_half_k),
        "concave: {at_half_k} at K/2"
    );
    assert!(
        (990..=1002).contains(&controller.cwnd()),
        "plateau: {} at K",
        controller.cwnd()
    );
    while path.now.since(lost_at).as_secs_f64() < 2.0 * k {
        path.run(&mut *controller);
    }
    assert!(
        (1270..=1330).contains(&controller.cwnd()),
        "convex: {} at 2K",
        controller.cwnd()
    );
}

#[test]
fn cubic_is_not_slower_than_reno_where_reno_is_fast() {
    // 10 ms and 20 segments: the cubic function would stand still, Reno gains one per round trip with
    // alpha 0.53 (RFC 9438 section 4.3).
    let mut controller = start(Algorithm::Cubic(Standard), 20, Some(20));
    let mut path = Rounds::new(Duration::from_millis(10));
    path.lose(&mut *controller);
    let low = controller.cwnd();
    for _ in 0..40 {
        path.run(&mut *controller);
    }
    let grown = controller.cwnd() - low;
    assert!(
        (17..=25).contains(&grown),
        "{grown} in 40 round trips, 0.53 x 40 = 21 expected"
    );
}

#[test]
fn cubic_gives_way_to_newcomers_by_fast_convergence() {
    let mut controller = start(Algorithm::Cubic(Standard), 1000, Some(1000));
    let mut path = Rounds::new(Duration::from_millis(100));
    path.lose(&mut *controller);
    path.lose(&mut *controller);
    // W_max = 700 x 0.85 = 595 and the window 490: K of 105 segments, not of 210.
    let at = path.now;
    while path.now.since(at).as_secs_f64() < 6.4 {
        path.run(&mut *controller);
    }
    assert!(
        (585..=600).contains(&controller.cwnd()),
        "{}",
        controller.cwnd()
    );
}

#[test]
fn highspeed_follows_the_table_of_the_rfc() {
    // RFC 3649 appendix B prints these rows among others.
    for (window, increase, decrease) in [
        (38, 1, 0.50),
        (118, 2, 0.44),
        (1058, 8, 0.33),
        (84035, 71, 0.10),
    ] {
        let position = high_speed::TABLE
            .iter()
            .position(|row| row.0 == window)
            .unwrap();
        assert_eq!(position + 1, increase);
        let b = f64::from(high_speed::TABLE[position].1) / 256.0;
        assert!((b - decrease).abs() < 0.006, "b({window}) = {b}");
    }
    let mut controller = start(Algorithm::HighSpeed, 1000, Some(1000));
    Rounds::new(Duration::from_millis(100)).run(&mut *controller);
    // The window grows while the round trip lasts, so the eighth segment is not complete at its end.
    assert_eq!(controller.cwnd(), 1007, "a(1000) = 8");
    controller.on_congestion_event(Time::from_millis(1), 1000);
    // b(1058) = 84/256.
    assert_eq!(controller.ssthresh(), 1007 - 1007 * 84 / 256);
}

#[test]
fn highspeed_holds_the_window_that_its_response_function_gives() {
    // w(p) = 0.12 / p^0.835 (RFC 3649 section 5): at p = 1e-4, 263 segments.
    let mut controller = start(Algorithm::HighSpeed, 263, Some(263));
    let mut path = Rounds::new(Duration::from_millis(100));
    let (mut sum, mut rounds, mut next_loss) = (0.0, 0.0, 10_000);
    while path.total < 2_000_000 {
        path.run(&mut *controller);
        if path.total > 200_000 {
            sum += f64::from(controller.cwnd());
            rounds += 1.0;
        }
        if path.total >= next_loss {
            path.lose(&mut *controller);
            next_loss += 10_000;
        }
    }
    let mean: f64 = sum / rounds;
    // Between two rows of the table the upper one counts, as in Linux: up to a fifth more.
    let ratio = mean / 263.0;
    assert!(
        (0.95..1.2).contains(&ratio),
        "mean window {mean}, 263 expected"
    );
}

#[test]
fn highspeed_is_reno_up_to_38_segments() {
    let mut controller = start(Algorithm::HighSpeed, 20, Some(20));
    let mut path = Rounds::new(Duration::from_millis(100));
    path.run(&mut *controller);
    assert_eq!(controller.cwnd(), 21);
    path.lose(&mut *controller);
    assert_eq!(controller.cwnd(), 11, "21 less one half, rounded down");
}

#[test]
fn westwood_falls_to_what_the_path_delivers() {
    // 100 segments per 100 ms, measured long enough for both filters; a window of 150 would be queue.
    let mut controller = start(Algorithm::WestwoodPlus, 100, Some(100));
    let mut path = Rounds::new(Duration::from_millis(100));
    for _ in 0..30 {
        path.run(&mut *controller);
    }
    let cwnd = controller.cwnd();
    assert_eq!(cwnd, 130, "grows as Reno");
    path.lose(&mut *controller);
    // The rate grew with the window, and the filters lag: between 100 and 130, far above one half.
    assert!(
        (105..=130).contains(&controller.cwnd()),
        "{}",
        controller.cwnd()
    );
}

#[test]
fn hystart_leaves_slow_start_when_the_rtt_grows() {
    for algorithm in [Algorithm::Cubic(HyStart), Algorithm::Cubic(HyStartPlusPlus)] {
        let mut controller = start(algorithm, 10, None);
        let mut path = Rounds::new(Duration::from_millis(100));
        // ACKs further apart than 2 ms at first, so no train is seen; then the queue builds.
        path.run(&mut *controller);
        path.run(&mut *controller);
        assert!(controller.in_slow_start(), "{algorithm}");
        path.rtt = Duration::from_millis(130);
        for _ in 0..8 {
            path.run(&mut *controller);
        }
        assert!(
            !controller.in_slow_start(),
            "{algorithm} is still in slow start at {}",
            controller.cwnd()
        );
        assert!(
            controller.cwnd() < 600,
            "{algorithm}: {}",
            controller.cwnd()
        );
    }
}

#[test]
fn hystart_plus_plus_forgives_a_passing_growth() {
    let mut controller = start(Algorithm::Cubic(HyStartPlusPlus), 10, None);
    let mut path = Rounds::new(Duration::from_millis(100));
    path.run(&mut *controller);
    path.rtt = Duration::from_millis(120);
    path.run(&mut *controller);
    path.rtt = Duration::from_millis(100);
    for _ in 0..6 {
        path.run(&mut *controller);
    }
    assert!(
        controller.in_slow_start() && controller.cwnd() > 600,
        "{}",
        controller.cwnd()
    );
}

#[test]
fn bbr_finds_the_rate_and_keeps_it_over_losses() {
    // A path of 100 segments per 100 ms answers what it can, whatever is offered.
    let mut controller = start(Algorithm::Bbr, 10, None);
    let (mut now, mut total) = (Time::from_millis(1), 0_u64);
    let mut rates = Vec::new();
    for round in 0..60 {
        let delivered = controller.cwnd().min(100);
        for _ in 0..delivered {
            now += Duration::from_millis(100) / delivered;
            let prior_delivered = total.saturating_sub(u64::from(delivered));
            total += 1;
            let queue = Duration::from_millis(u64::from(controller.cwnd().saturating_sub(100)));
            controller.on_ack(&Acknowledgement {
                now,
                delivered: 1,
                lost: u32::from(round > 30 && total.is_multiple_of(50)),
                rtt: Some(Duration::from_millis(100) + queue),
                // Pacing keeps what is in flight near the product, whatever the window allows.
                in_flight_before: delivered,
                in_flight: delivered - 1,
                may_grow: true,
                cwnd_limited: true,
                acked_to: total,
                sent_to: total + u64::from(delivered),
                rate: Some(DeliveryRate {
                    delivered,
                    interval: Duration::from_millis(100),
                    prior_delivered,
                    total_delivered: total,
                    sent_in_flight: 0,
                    lost: 0,
                    application_limited: false,
                }),
                recovering: false,
            });
        }
        rates.push(controller.pacing_rate().unwrap().bits_per_s());
    }
    let path = 1_000 * 1448 * 8;
    for (round, &rate) in rates.iter().enumerate().skip(20) {
        assert!(
            rate * 100 > path * 72 && rate * 100 < path * 126,
            "round {round}: {rate} of {path}"
        );
    }
    assert!(
        (150..=260).contains(&controller.cwnd()),
        "twice the product: {}",
        controller.cwnd()
    );
}

#[test]
fn bbr3_forgives_losses_up_to_its_threshold_and_bounds_the_flight_above_it() {
    // A path of 100 segments per 100 ms; from round 40 on, of 100 segments so many are lost.
    let steady = |lost_per_100: u32| {
        let mut controller = start(Algorithm::Bbr3, 10, None);
        let (mut now, mut total) = (Time::from_millis(1), 0_u64);
        let mut windows = Vec::new();
        for round in 0..120 {
            let delivered = controller.cwnd().min(100);
            for _ in 0..delivered {
                now += Duration::from_millis(100) / delivered;
                let prior_delivered = total.saturating_sub(u64::from(delivered));
                total += 1;
                let lossy = round >= 40 && lost_per_100 > 0;
                let lost = u32::from(lossy && total.is_multiple_of(u64::from(100 / lost_per_100)));
                controller.on_ack(&Acknowledgement {
                    now,
                    delivered: 1,
                    lost,
                    rtt: Some(Duration::from_millis(100)),
                    in_flight_before: delivered,
                    in_flight: delivered - 1,
                    may_grow: true,
                    cwnd_limited: true,
                    acked_to: total,
                    sent_to: total + u64::from(delivered),
                    rate: Some(DeliveryRate {
                        delivered,
                        interval: Duration::from_millis(100),
                        prior_delivered,
                        total_delivered: total,
                        sent_in_flight: delivered,
                        lost: if lossy {
                            delivered * lost_per_100 / 100
                        } else {
                            0
                        },
                        application_limited: false,
                    }),
                    recovering: false,
                });
            }
            windows.push(controller.cwnd());
        }
        windows
    };
    let clean = steady(0);
    // Twice the product and what is bundled; but for the looks at the RTT, half of the product.
    assert!((200..=260).contains(&clean[39]), "{clean:?}");
    let some = steady(1);
    let many = steady(10);
    let mean = |windows: &[u32]| windows[60..].iter().sum::<u32>() / 60;
    assert!(
        mean(&some) < mean(&clean) && mean(&many) < mean(&some),
        "{some:?} {many:?}"
    );
    // With losses the flight stays near the product, and never below seven tenths of it for long.
    assert!((60..130).contains(&mean(&many)), "{many:?}");
}

#[test]
fn an_idle_connection_restarts_where_the_host_validates_windows() {
    let rto = Duration::from_millis(300);
    let mut controller = start(Algorithm::NewReno, 10, None);
    let mut path = Rounds::new(Duration::from_millis(100));
    for _ in 0..4 {
        path.run(&mut *controller);
    }
    controller.on_idle(path.now, rto * 10, rto, false);
    assert_eq!(controller.cwnd(), 160, "switched off, nothing happens");
    controller.on_idle(path.now, rto * 3, rto, true);
    assert_eq!(controller.cwnd(), 40, "halved per RTO");
    controller.on_idle(path.now, rto * 10, rto, true);
    assert_eq!(controller.cwnd(), 10, "but not below the initial window");
}

#[test]
fn names_are_read_back() {
    for algorithm in ALL {
        assert_eq!(algorithm.to_string().parse(), Ok(algorithm));
    }
    let error = "vegas".parse::<Algorithm>().unwrap_err().to_string();
    assert!(
        error.contains("`vegas`") && error.contains("`cubic`"),
        "{error}"
    );
}

proptest! {
    #[test]
    fn no_sequence_of_events_breaks_a_window(
        algorithm in prop::sample::select(&ALL[..]),
        ssthresh in prop::option::of(1_u32..100),
        events in prop::collection::vec((0_u8..8, 0_u32..100_000, 0_u64..5_000_000_000), 1..200),
    ) {
        let mut controller = start(algorithm, 10, ssthresh);
        let (mut now, mut total) = (Time::ZERO, 0_u64);
        for (event, count, nanos) in events {
            now += Duration::from_nanos(nanos);
            total += u64::from(count);
            match event {
                0 => controller.on_congestion_event(now, count),
                1 => controller.on_timeout(now, count),
                2 => controller.on_recovery_end(now),
                3 => controller.on_idle(now, Duration::from_nanos(nanos), Duration::from_millis(200), count % 2 == 0),
                4 => controller.on_application_limited(count),
                5 => controller.undo(),
                6 => controller.on_repeated_timeout(now, count),
                _ => controller.on_ack(&Acknowledgement {
                    now,
                    delivered: count,
                    lost: count / 7,
                    rtt: (count % 3 > 0).then_some(Duration::from_nanos(nanos)),
                    in_flight_before: count,
                    in_flight: count / 2,
                    may_grow: true,
                    cwnd_limited: count % 5 > 0,
                    acked_to: total,
                    sent_to: total + u64::from(count),
                    rate: Some(DeliveryRate {
                        delivered: count,
                        interval: Duration::from_nanos(nanos),
                        prior_delivered: total.saturating_sub(u64::from(count)),
                        total_delivered: total,
                        sent_in_flight: 0,
                        lost: 0,
                        application_limited: count % 4 == 0,
                    }),
                    recovering: false,
                }),
            }
            prop_assert!(controller.cwnd() >= 1, "{algorithm}");
            prop_assert!(controller.ssthresh() >= 1, "{algorithm}");
        }
    }
}

#[test]
fn parameters_change_what_they_are_said_to_change() {
    let tuned = |text: &str| {
        let choice: Choice = text.parse().unwrap();
        choice.algorithm.start(&Parameters {
            initial_cwnd: 100,
            initial_ssthresh: Some(100),
            mss: 1448,
            paced: false,
            seed: 1,
            tuning: choice.tuning,
        })
    };
    // The share that is kept after a loss.
    for (text, kept) in [
        ("cubic", 70),
        ("cubic(beta=0.9)", 90),
        ("cubic(beta=0.5)", 50),
    ] {
        let mut cubic = tuned(text);
        cubic.on_congestion_event(Time::from_millis(100), 100);
        assert_eq!(cubic.ssthresh(), kept, "{text}");
    }
    // The initial rate of BBR, and with a larger gain more of it.
    let pace = |text: &str| tuned(text).pacing_rate().unwrap().bits_per_s();
    for version in ["bbr", "bbr3"] {
        let double = pace(&format!("{version}(startup-gain=4)"));
        let once = pace(&format!("{version}(startup-gain=2)"));
        assert_eq!(double, 2 * once, "{version}");
    }
}

#[test]
fn a_steeper_curve_is_back_at_the_old_window_sooner() {
    // After a loss at 400 segments, over 100 ms: K is the cube root of (400 - 280) / C seconds.
    let seconds_to = |text: &str| {
        let choice: Choice = text.parse().unwrap();
        let mut cubic = choice.algorithm.start(&Parameters {
            initial_cwnd: 400,
            initial_ssthresh: Some(400),
            mss: 1448,
            paced: false,
            seed: 1,
            tuning: choice.tuning,
        });
        let mut rounds = Rounds::new(Duration::from_millis(100));
        cubic.on_congestion_event(rounds.now, 400);
        cubic.on_recovery_end(rounds.now);
        let begun = rounds.now;
        while cubic.cwnd() < 395 {
            rounds.run(cubic.as_mut());
        }
        rounds.now.since(begun).as_secs_f64()
    };
    let (usual, steep) = (seconds_to("cubic"), seconds_to("cubic(c=3.2)"));
    // Eight times C halves K.
    assert!(
        (1.6..2.4).contains(&(usual / steep)),
        "{usual} s, {steep} s"
    );
}
