//! One stream over several connections, and several streams on one.

use std::time::Duration;

use trunk::{Config, Width};
use units::{Rate, Time};

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

#[test]
fn a_slow_long_connection_beside_a_fast_short_one_does_not_hold_it_back() {
    let mixed = |slow: bool| {
        let mut world = World::new(width(if slow { 2 } else { 1 }), SHAPED);
        world.pump();
        if slow {
            for pipe in &mut world.links[1].pipes {
                pipe.rate = Rate::mbit_per_s(2);
                pipe.delay = Duration::from_millis(300);
            }
        }
        let from = world.now + Duration::from_secs(2);
        world.open(1 << 30, 0);
        assert!(!world.run(Duration::from_secs(10), |_| false));
        goodput(&world, from, world.now)
    };
    let (alone, beside) = (mixed(false), mixed(true));
    assert!(beside >= 0.97 * alone, "{beside} against {alone} alone");
}

#[test]
fn an_interactive_stream_beside_a_bulk_one_keeps_its_latency() {
    // 100 bytes asked, 100 answered, a hundred times; the worst of them.
    let worst = |bulk: bool| {
        let mut world = World::new(width(1), SHAPED);
        if bulk {
            world.open(1 << 30, 0);
            assert!(!world.run(Duration::from_secs(3), |_| false));
        }
        (0..100)
            .map(|_| {
                let begin = world.now;
                let stream = world.request(100, 100);
                let done = |world: &World| world.apps[NEAR][&stream].read == 100;
                assert!(world.run(Duration::from_secs(5), done));
                world.now.since(begin)
            })
            .max()
            .unwrap()
    };
    let (idle, busy) = (worst(false), worst(true));
    // Behind what the socket holds unsent (two times 16 KiB of low water and a chunk): 10 ms at 50 Mbit/s.
    assert!(
        busy <= idle + Duration::from_millis(20),
        "{busy:?} against {idle:?} alone"
    );
}
