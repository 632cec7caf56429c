//! How streams and sessions end when something goes wrong, and what memory that may cost.

use std::time::Duration;

use trunk::{Config, Explanation, Memory, Reason, Width};
use units::{Bytes, Rate};

use crate::basics::WAN;
use crate::world::{FAR, NEAR, Path, World};

#[test]
fn a_refused_target_comes_back_as_a_reset_with_the_targets_words() {
    let mut world = World::new(Config::default(), WAN);
    world.refuse = Some(Explanation::new(
        Reason::TargetRefused,
        "connection refused (os error 111)",
    ));
    let stream = world.open(100, 100);
    assert!(world.run(Duration::from_secs(2), |world| {
        !world.resets[NEAR].is_empty()
    }));
    let words = "the target refused the connection: connection refused (os error 111)".to_owned();
    assert_eq!(world.resets[NEAR], [(stream, words)]);
}

#[test]
fn a_far_relay_that_restarts_ends_streams_with_that_reason_and_the_trunk_goes_on() {
    let mut world = World::new(Config::default(), WAN);
    world.open(50_000_000, 0);
    world.run(Duration::from_secs(1), |_| false);
    let epoch = world.near.session().epoch;
    world.restart_far();
    let begin = world.now;
    assert!(world.run(Duration::from_secs(2), |world| {
        !world.resets[NEAR].is_empty()
    }));
    assert!(
        world.resets[NEAR][0]
            .1
            .contains("the other relay restarted"),
        "{:?}",
        world.resets
    );
    assert!(
        world.now.since(begin) <= Duration::from_millis(300),
        "one round trip and a bit"
    );
    assert!(world.near.session().epoch > epoch);
    let stream = world.open(1000, 1000);
    assert!(
        world.run(Duration::from_secs(3), |world| world.closed[NEAR]
            .contains_key(&stream)),
        "{}",
        world.log
    );
}

#[test]
fn an_outage_longer_than_the_trunk_survives_ends_streams_at_both_ends_and_new_ones_work() {
    let mut world = World::new(Config::default(), WAN);
    world.open(50_000_000, 50_000_000);
    world.run(Duration::from_secs(1), |_| false);
    world.cut_until = world.now + Duration::from_secs(70);
    world.kill(0);
    assert!(world.run(Duration::from_secs(80), |world| {
        world.resets.iter().all(|resets| resets.len() == 1)
    }));
    assert!(
        world
            .resets
            .iter()
            .all(|resets| resets[0].1.contains("no connection for 60 s")),
        "{:?}",
        world.resets
    );
    let stream = world.open(1000, 1000);
    assert!(
        world.run(Duration::from_secs(20), |world| world.closed[NEAR]
            .contains_key(&stream)),
        "{}",
        world.log
    );
}

#[test]
fn a_shutdown_ends_streams_at_the_other_end_with_that_reason() {
    let mut world = World::new(Config::default(), WAN);
    world.open(50_000_000, 0);
    world.run(Duration::from_secs(1), |_| false);
    let now = world.now;
    world
        .far
        .as_mut()
        .unwrap()
        .shutdown(&Reason::Shutdown.into(), now);
    assert!(world.run(Duration::from_secs(2), |world| {
        !world.resets[NEAR].is_empty()
    }));
    assert_eq!(world.resets[NEAR][0].1, "the relay is shutting down");
}

#[test]
fn readers_that_are_stuck_hold_no_more_than_the_bound_and_do_not_stop_others() {
    let config = Config {
        memory: Memory {
            receive: Bytes::mib(4),
            send: Bytes::mib(4),
            first_stream_credit: Bytes::mib(1),
        },
        width: Width { min: 2, max: 2 },
        ..Config::default()
    };
    // Both bounds are asserted after every step.
    let mut world = World::new(
        config,
        Path {
            rate: Rate::mbit_per_s(200),
            delay: Duration::from_millis(10),
        },
    );
    world.far_stuck = true;
    for _ in 0..50 {
        world.open(10_000_000, 0);
    }
    world.run(Duration::from_secs(5), |_| false);
    let [_, (_, held)] = world.held;
    assert!(
        held > 3 << 20,
        "the stuck ones hold {held} bytes only: they prove nothing"
    );
    world.far_stuck = false;
    let begin = world.now;
    let stream = world.open(2_000_000, 0);
    assert!(
        world.run(Duration::from_mins(1), |world| world.closed[FAR]
            .contains_key(&stream)),
        "{:?}",
        world.near.status()
    );
    println!(
        "2 MB beside 50 stuck streams in {:?}",
        world.now.since(begin)
    );
}

#[test]
fn ten_thousand_idle_streams_cost_little_and_leave_the_trunk_quick() {
    let mut world = World::new(
        Config::default(),
        Path {
            rate: Rate::mbit_per_s(1000),
            delay: Duration::from_millis(5),
        },
    );
    world.run(Duration::from_millis(100), |_| false);
    for _ in 0..10_000 {
        world.open_idle();
    }
    world.run(Duration::from_secs(3), |_| false);
    assert_eq!(world.near.status().streams, 10_000);
    assert_eq!(world.far.as_ref().unwrap().status().streams, 10_000);
    let stream = world.request(100, 100);
    let begin = world.now;
    assert!(world.run(
        Duration::from_secs(1),
        |world| world.apps[NEAR][&stream].read == 100
    ));
    assert!(world.now.since(begin) < Duration::from_millis(25));
}
