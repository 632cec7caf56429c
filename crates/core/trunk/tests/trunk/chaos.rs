//! Everything that can go wrong on a WAN, from a seed.

use std::time::Duration;

use trunk::{Config, Memory, Width};
use units::{Bytes, Rate};

use crate::world::{Path, World};

/// Steps of virtual time of one run, and how many seeds: a million steps in all.
const STEPS: u64 = 100_000;
const SEEDS: u64 = 10;

pub(crate) struct Random(pub(crate) u64);

impl Random {
    fn next(&mut self) -> u64 {
        // SplitMix64.
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub(crate) fn below(&mut self, end: u64) -> u64 {
        self.next() % end
    }

    /// Below 4 MiB, every magnitude as often.
    pub(crate) fn size(&mut self) -> u64 {
        let magnitude = self.below(22);
        self.below(1 << magnitude)
    }

    pub(crate) fn millis(&mut self, from: u64, to: u64) -> Duration {
        Duration::from_millis(from + self.below(to - from))
    }
}

/// What a run did, so that a test can see that it did something.
#[derive(Debug, Default, Eq, PartialEq)]
struct Tally {
    streams: usize,
    kills: u64,
    desertions: u64,
    stalls: u64,
    cuts: u64,
}

/// One run of about `steps` steps; every stream is then given the time to end.
fn run(seed: u64, steps: u64) -> (String, Tally) {
    let mut random = Random(seed);
    let config = Config {
        width: Width { min: 3, max: 3 },
        // Small enough to be full often.
        memory: Memory {
            receive: Bytes::mib(2),
            send: Bytes::mib(2),
            first_stream_credit: Bytes::kib(64),
        },
        ..Config::default()
    };
    let path = Path {
        rate: Rate::mbit_per_s(20),
        delay: Duration::from_millis(20),
    };
    let mut world = World::new(config, path);
    let mut tally = Tally::default();
    world.pump();
    while world.steps < steps {
        let ended = world.closed[0].len().min(world.closed[1].len());
        if tally.streams - ended < 8 {
            let (up, down) = (random.size(), random.size());
            world.piece = 1 + random.below(100_000);
            match random.below(2) {
                0 => world.open(up, down),
                _ => world.request(up, down),
            };
            tally.streams += 1;
        }
        for link in &mut world.links {
            // Connections overtake each other.
            for pipe in &mut link.pipes {
                pipe.rate = Rate::kbit_per_s(500 + random.below(40_000));
            }
        }
        let links = world.links.len() as u64;
        match random.below(20) {
            0..4 if links > 0 => {
                world.kill(usize::try_from(random.below(links)).unwrap());
                tally.kills += 1;
            }
            4 | 5 if links > 0 => {
                let later = random.millis(1, 30_000);
                world.desert(usize::try_from(random.below(links)).unwrap(), later);
                tally.desertions += 1;
            }
            6..10 if links > 0 => {
                let span = random.millis(10, 3_000);
                world.stall(usize::try_from(random.below(links)).unwrap(), span);
                tally.stalls += 1;
            }
            // One cut at a time: their sum must stay below the outage that a trunk survives.
            10 if world.now >= world.cut_until => {
                world.cut_until = world.now + random.millis(1_000, 30_000);
                while !world.links.is_empty() {
                    world.kill(0);
                }
                tally.cuts += 1;
            }
            _ => {}
        }
        world.run(random.millis(1, 200), |_| false);
    }
    let streams = tally.streams;
    assert!(
        world.run(Duration::from_mins(10), |world| world.all_closed(streams)),
        "seed {seed}: {} and {} of {streams} streams closed, resets {:?}, {:?}, open {:?}",
        world.closed[0].len(),
        world.closed[1].len(),
        world.resets,
        world.near.status(),
        world.open_streams(),
    );
    assert!(
        world.resets.iter().all(Vec::is_empty),
        "seed {seed}: {:?}",
        world.resets
    );
    for (stream, near) in &world.closed[0] {
        let far = &world.closed[1][stream];
        assert_eq!(
            (near.sent, near.received),
            (far.received, far.sent),
            "seed {seed}: {stream}"
        );
    }
    (world.log, tally)
}

fn twice(seed: u64) {
    let (log, tally) = run(seed, STEPS);
    let Tally {
        streams,
        kills,
        desertions,
        stalls,
        cuts,
    } = tally;
    println!(
        "seed {seed}: {streams} streams, {kills} kills, {desertions} desertions, {stalls} stalls, {cuts} cuts"
    );
    assert!(
        streams > 20 && kills > 20 && desertions > 20 && stalls > 20 && cuts > 4,
        "{tally:?}"
    );
    assert_eq!(
        run(seed, STEPS),
        (log, tally),
        "seed {seed} gave another run"
    );
}

#[test]
fn no_stream_is_lost_whatever_happens_to_connections_and_a_seed_gives_one_run() {
    (0..SEEDS).for_each(twice);
}

#[test]
fn streams_that_are_reset_at_any_moment_leave_nothing_behind() {
    for seed in 0..5 {
        let mut random = Random(seed);
        let config = Config {
            width: Width { min: 2, max: 2 },
            ..Config::default()
        };
        let path = Path {
            rate: Rate::mbit_per_s(20),
            delay: Duration::from_millis(20),
        };
        let mut world = World::new(config, path);
        let mut streams = Vec::new();
        for _ in 0..300 {
            let (up, down) = (random.size(), random.size());
            streams.push(world.open(up, down));
            // At once, while its frames are under way, or long after its end.
            let stream = streams[usize::try_from(random.below(streams.len() as u64)).unwrap()];
            if random.below(2) == 0 {
                world.reset(usize::try_from(random.below(2)).unwrap(), stream);
            }
            match random.below(8) {
                0 if !world.links.is_empty() => world.kill(0),
                1 => world.stall(0, random.millis(1, 1_000)),
                _ => {}
            }
            world.run(random.millis(1, 100), |_| false);
        }
        let quiet = |world: &World| {
            [Some(&world.near), world.far.as_ref()]
                .into_iter()
                .flatten()
                .all(|end| {
                    let status = end.status();
                    (status.streams, status.send_held, status.receive_held)
                        == (0, Bytes::ZERO, Bytes::ZERO)
                })
        };
        assert!(
            world.run(Duration::from_mins(5), quiet),
            "seed {seed}: {:?} {:?}",
            world.near.status(),
            world.far.as_ref().map(trunk::Trunk::status),
        );
        assert!(
            !world.resets[0].is_empty() && !world.resets[1].is_empty(),
            "some were reset"
        );
    }
}

/// `LONGHAUL_SOAK_SEEDS=1000 cargo test -p longhaul-trunk --test trunk soak -- --ignored --nocapture`; with
/// `LONGHAUL_SOAK_FIRST=370` from that seed on.
#[test]
#[ignore = "minutes: more seeds for the test above"]
fn soak_of_chaos_in_virtual_time() {
    let number = |name, otherwise| {
        std::env::var(name).map_or(otherwise, |number| number.parse::<u64>().unwrap())
    };
    let first = number("LONGHAUL_SOAK_FIRST", SEEDS);
    (first..first + number("LONGHAUL_SOAK_SEEDS", 100)).for_each(twice);
}
