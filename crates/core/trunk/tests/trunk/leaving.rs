//! Ends that leave a session: no stream is lost, none is new, and with the last it is over.

use std::time::Duration;

use trunk::{Config, OpenError, Target, Width};
use units::Rate;

use crate::basics::WAN;
use crate::chaos::Random;
use crate::world::{FAR, NEAR, Path, World};

#[test]
fn streams_that_are_open_end_well_and_then_the_session_does() {
    for end in [NEAR, FAR] {
        let mut world = World::new(Config::default(), WAN);
        world.open(5_000_000, 3_000_000);
        world.run(Duration::from_millis(500), |_| false);
        world.leave(end);
        assert!(world.near.ended().is_none(), "a stream is open");
        world.run(Duration::from_millis(300), |_| false);
        let target = Target::new("1:1").unwrap();
        let now = world.now;
        assert_eq!(world.near.open(&target, now), Err(OpenError::Left));
        let far = world.far.as_mut().unwrap();
        assert_eq!(far.open(&target, now), Err(OpenError::Left));
        assert!(
            world.run(Duration::from_mins(1), |world| {
                world.near.ended().is_some() && world.far.is_none()
            }),
            "{}",
            world.log
        );
        assert!(world.all_closed(1), "{:?}", world.resets);
    }
}

#[test]
fn a_session_without_streams_is_over_within_two_round_trips() {
    for end in [NEAR, FAR] {
        let mut world = World::new(Config::default(), WAN);
        world.run(Duration::from_secs(1), |_| false);
        world.leave(end);
        let begin = world.now;
        assert!(world.run(Duration::from_mins(1), |world| {
            world.near.ended().is_some() && world.far.is_none()
        }));
        assert!(
            world.now.since(begin) <= 4 * WAN.delay + Duration::from_millis(50),
            "{:?}",
            world.now.since(begin)
        );
    }
}

#[test]
fn an_end_that_was_never_answered_leaves_at_once() {
    let mut world = World::new(Config::default(), WAN);
    world.leave(NEAR);
    assert!(world.near.ended().is_some());
}

/// Streams in both directions, opened up to the moment at which one end leaves, and connections that die, hang and
/// overtake each other.
fn run(seed: u64) -> String {
    let mut random = Random(seed);
    let config = Config {
        width: Width { min: 3, max: 3 },
        ..Config::default()
    };
    let path = Path {
        rate: Rate::mbit_per_s(20),
        delay: Duration::from_millis(20),
    };
    let mut world = World::new(config, path);
    world.run(random.millis(200, 1_000), |_| false);
    let mut streams = 0;
    for _ in 0..random.below(4) {
        world.open(random.size(), random.size());
        world.open_from_far(random.size(), random.size());
        streams += 2;
        world.run(random.millis(1, 100), |_| false);
    }
    for link in &mut world.links {
        for pipe in &mut link.pipes {
            pipe.rate = Rate::kbit_per_s(500 + random.below(40_000));
        }
    }
    world.open(random.size(), random.size());
    world.open_from_far(random.size(), random.size());
    streams += 2;
    match random.below(3) {
        0 => world.leave(NEAR),
        1 => world.leave(FAR),
        _ => {
            world.leave(NEAR);
            world.leave(FAR);
        }
    }
    for _ in 0..20 {
        let links = world.links.len() as u64;
        if links > 0 {
            let index = usize::try_from(random.below(links)).unwrap();
            match random.below(6) {
                0 => world.kill(index),
                1 => world.desert(index, random.millis(1, 5_000)),
                2 | 3 => world.stall(index, random.millis(10, 2_000)),
                _ => {}
            }
        }
        world.run(random.millis(1, 300), |_| false);
    }
    assert!(
        world.run(Duration::from_mins(3), |world| world.near.ended().is_some()
            && world.far.is_none()),
        "seed {seed}: {:?}, resets {:?}, open {:?}",
        world.near.status(),
        world.resets,
        world.open_streams(),
    );
    assert!(
        world.all_closed(streams) && world.resets.iter().all(Vec::is_empty),
        "seed {seed}: {} and {} of {streams} closed, resets {:?}",
        world.closed[NEAR].len(),
        world.closed[FAR].len(),
        world.resets
    );
    world.log
}

#[test]
fn whatever_happens_to_connections_no_stream_is_lost_by_leaving() {
    for seed in 0..100 {
        let log = run(seed);
        if seed < 10 {
            assert!(log == run(seed), "seed {seed} runs twice alike");
        }
    }
}
