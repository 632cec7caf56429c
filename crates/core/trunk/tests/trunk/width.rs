//! How many connections a trunk comes to use, and what it spends on keeping them hot.

use std::time::Duration;

use trunk::{Config, Observation, Padding, Width};
use units::{Bytes, Rate};

use crate::world::{Path, World};

const PATH: Path = Path {
    rate: Rate::mbit_per_s(40),
    delay: Duration::from_millis(30),
};

fn upload(share: bool, down: bool) -> World {
    let config = Config {
        width: Width { min: 1, max: 8 },
        ..Config::default()
    };
    let mut world = World::new(
        config,
        Path {
            rate: Rate::mbit_per_s(10),
            ..PATH
        },
    );
    world.shared = share;
    if down {
        world.open(0, 1 << 32)
    } else {
        world.open(1 << 32, 0)
    };
    assert!(!world.run(Duration::from_secs(25), |_| false));
    world
}

#[test]
fn connections_that_are_each_held_back_become_as_many_as_help() {
    assert_eq!(upload(false, false).near.status().wanted, 8);
}

#[test]
fn the_far_end_gets_the_connections_that_it_needs() {
    let world = upload(false, true);
    assert_eq!((world.near.status().wanted, world.links.len()), (8, 8));
}

#[test]
fn one_path_that_a_single_connection_fills_goes_back_to_one() {
    let mut world = upload(true, false);
    assert!(
        world.run(Duration::from_secs(5), |world| world.links.len() == 1),
        "{:?}",
        world.near.status()
    );
    assert_eq!(world.near.status().wanted, 1);
    assert!(world.log.contains("Surplus"), "it tried more");
    let made = world.log.matches(" up\n").count();
    // Well before it tries again, after 30 s.
    assert!(!world.run(Duration::from_secs(2), |_| false));
    assert_eq!(
        world.log.matches(" up\n").count(),
        made,
        "what was given up is not made again"
    );
    let repeated: u64 = world
        .near
        .connections()
        .map(|link| link.totals.repeated)
        .sum();
    assert_eq!(repeated, 0);
}

#[test]
fn padding_stops_when_the_windows_hold_the_path_and_never_exceeds_its_budget() {
    let config = Config {
        width: Width { min: 1, max: 1 },
        padding: Padding {
            burst: Bytes::mib(1),
            rate: Rate::kbit_per_s(100),
            ready_for: Some(Rate::mbit_per_s(40)),
        },
        ..Config::default()
    };
    let mut world = World::new(config, PATH);
    // 40 Mbit/s for 60 ms are 300 kB.
    let look = |world: &mut World, window: u64| {
        let id = world.links[0].ids[0].unwrap();
        let seen = Observation {
            round_trip: Some(Duration::from_millis(60)),
            congestion_window: Some(Bytes::new(window)),
            ..Observation::default()
        };
        world.near.observe(id, seen, world.now);
        world.run(Duration::from_secs(1), |_| false);
        world.near.connections().next().unwrap().totals.padding
    };
    world.run(Duration::from_secs(1), |_| false);
    assert_eq!(
        world.near.connections().next().unwrap().totals.padding,
        0,
        "nobody has looked yet"
    );
    let cold = look(&mut world, 14_600);
    assert!((900_000..=1_100_000).contains(&cold), "{cold}");
    let hot = look(&mut world, 700_000);
    assert!(
        look(&mut world, 700_000) <= hot + 20_000,
        "a hot connection is left alone"
    );
    // Ten seconds later 125 kB of allowance have come back, which would only trickle.
    assert!(!world.run(Duration::from_secs(10), |_| false));
    let before = world.near.connections().next().unwrap().totals.padding;
    assert_eq!(look(&mut world, 14_600), before);
    // 1 MiB has come back after 84 s.
    assert!(!world.run(Duration::from_secs(84), |_| false));
    let again = look(&mut world, 14_600);
    assert!(
        (900_000..=1_100_000).contains(&(again - before)),
        "{again} after {before}"
    );
}

#[test]
fn what_holds_a_connection_back_is_told_by_its_socket() {
    let mut world = World::new(Config::default(), PATH);
    let up = |world: &World| world.links.first().and_then(|link| link.ids[0]);
    assert!(world.run(Duration::from_secs(1), |world| up(world).is_some()));
    let id = up(&world).unwrap();
    let before = world
        .near
        .connection_held_by(id, world.now)
        .unwrap()
        .total();
    let began = world.now;
    // Unsent and unacknowledged bytes, and the peer's window, for so many seconds.
    let mut see = |unsent, unacknowledged, window, seconds| {
        let seen = Observation {
            unsent: Bytes::new(unsent),
            unacknowledged: Bytes::new(unacknowledged),
            peer_window: Some(Bytes::new(window)),
            ..Observation::default()
        };
        world.near.observe(id, seen, world.now);
        world.run(Duration::from_secs(seconds), |_| false);
    };
    see(0, 0, 65_536, 2);
    see(50_000, 64_800, 65_536, 3);
    see(0, 64_800, 65_536, 1);
    see(50_000, 20_000, 65_536, 4);
    let held = world.near.connection_held_by(id, world.now).unwrap();
    let whole = |span: Duration| span.as_millis().div_ceil(100) / 10;
    assert_eq!(whole(held.receiver), 3, "{held:?}");
    assert_eq!(whole(held.propagation), 1, "{held:?}");
    assert_eq!(whole(held.warming), 4, "{held:?}");
    assert_eq!(
        held.path,
        Duration::ZERO,
        "its full rate is not known: {held:?}"
    );
    assert_eq!(held.total(), before + world.now.since(began));
}
