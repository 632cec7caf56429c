//! One stream over several connections, and several streams on one.

use std::time::Duration;

use trunk::{Config, Width};
use units::{Bytes, Rate, Time};

use crate::world::{FAR, NEAR, Path, World};

/// Held to this by a shaper of its own, as by an in-path device that limits flows.
const SHAPED: Path = Path {
    rate: Rate::mbit_per_s(50),
    delay: Duration::from_millis(35),
};

fn width(connections: u32) -> Config {
    Config {
        width: Width {
            min: connections,
            max: connections,
        },
        ..Config::default()
    }
}

/// Bytes per second that the far application reads of one stream from `from` to `to`.
fn goodput(world: &World, from: Time, to: Time) -> f64 {
    let app = world.apps[FAR].values().next().unwrap();
    let read_at = |at| {
        app.marks
            .iter()
            .take_while(|(_, when)| *when <= at)
            .last()
            .map_or(0, |(read, _)| *read)
    };
    let bytes = u32::try_from(read_at(to) - read_at(from)).unwrap();
    f64::from(bytes) / to.since(from).as_secs_f64()
}

/// One stream for ten seconds; its goodput in the last eight.
fn stripe(connections: u32, disturb: impl Fn(&mut World, u64)) -> f64 {
    let mut world = World::new(width(connections), SHAPED);
    world.open(1 << 30, 0);
    let from = world.now + Duration::from_secs(2);
    for second in 0..10 {
        disturb(&mut world, second);
        assert!(!world.run(Duration::from_secs(1), |_| false));
    }
    let rate = goodput(&world, from, world.now);
    assert!(world.resets.iter().all(Vec::is_empty));
    println!("{connections} connections: {:.1} Mbit/s", rate * 8.0 / 1e6);
    rate
}

#[test]
fn four_shaped_connections_carry_one_stream_at_least_3_4_times_as_fast_as_one() {
    let one = stripe(1, |_, _| ());
    let four = stripe(4, |_, _| ());
    assert!(four >= 3.4 * one, "{four} against {one}");
}

#[test]
fn with_one_of_four_stalled_for_a_second_at_a_time_a_stream_keeps_2_5_times_one() {
    let one = stripe(1, |_, _| ());
    let four = stripe(4, |world, second| {
        let index = usize::try_from(second % 4).unwrap();
        world.stall(index, Duration::from_secs(1));
    });
    assert!(four > 2.5 * one, "{four} against {one}");
}

/// A fast connection, and beside it one of 2 Mbit/s and 600 ms if wanted.
fn uneven(slow: bool) -> World {
    let mut config = width(if slow { 2 } else { 1 });
    // What the fast one carries in 330 ms: it can be used up while the slow one carries a chunk.
    config.memory.receive = Bytes::mib(2);
    let mut world = World::new(config, SHAPED);
    world.pump();
    if slow {
        for pipe in &mut world.links[1].pipes {
            pipe.rate = Rate::mbit_per_s(2);
            pipe.delay = Duration::from_millis(300);
        }
    }
    world
}

#[test]
fn a_slow_long_connection_beside_a_fast_short_one_does_not_hold_a_transfer_back() {
    let rate = |slow: bool| {
        let mut world = uneven(slow);
        let from = world.now + Duration::from_secs(2);
        world.open(1 << 30, 0);
        assert!(!world.run(Duration::from_secs(10), |_| false));
        goodput(&world, from, world.now)
    };
    let (alone, beside) = (rate(false), rate(true));
    assert!(beside >= 0.97 * alone, "{beside} against {alone} alone");
}

#[test]
fn a_slow_long_connection_beside_a_fast_short_one_does_not_hold_the_end_of_a_request_back() {
    let worst = |slow: bool| {
        let mut world = uneven(slow);
        // Both have carried something, so their speed is known.
        world.open(2_000_000, 0);
        world.run(Duration::from_secs(5), |_| false);
        (0..20).map(|_| time(&mut world, 300_000)).max().unwrap()
    };
    let (alone, beside) = (worst(false), worst(true));
    assert!(
        beside <= alone.mul_f64(1.1),
        "{beside:?} against {alone:?} alone"
    );
}

/// How long a request of `len` bytes and an answer of 100 take.
fn time(world: &mut World, len: u64) -> Duration {
    let begin = world.now;
    let stream = world.request(len, 100);
    let done = |world: &World| world.apps[NEAR][&stream].read == 100;
    assert!(world.run(Duration::from_secs(5), done));
    world.now.since(begin)
}

#[test]
fn an_interactive_stream_beside_twenty_bulk_ones_keeps_its_latency() {
    // 100 bytes asked, 100 answered, a hundred times; the worst of them.
    let worst = |bulk: u32| {
        let mut world = World::new(width(1), SHAPED);
        for _ in 0..bulk {
            world.open(1 << 30, 0);
        }
        assert!(!world.run(Duration::from_secs(3), |_| false));
        (0..100).map(|_| time(&mut world, 100)).max().unwrap()
    };
    let (idle, busy) = (worst(0), worst(20));
    println!("idle {idle:?}, busy {busy:?}");
    // Behind what the socket holds unsent and the chunk that is being written, both ways: 10 ms at 50 Mbit/s.
    assert!(
        busy <= idle + Duration::from_millis(20),
        "{busy:?} against {idle:?} alone"
    );
}
