//! The receive window's tuning, number by number.

use core::time::Duration;

use units::{Bytes, Time};

use crate::ReceiveBuffer;
use crate::autotune::Autotune;

fn tuned() -> Autotune {
    let buffer = ReceiveBuffer::Autotuned {
        initial: Bytes::kib(64),
        max: Bytes::mib(1),
    };
    let mut tuning = Autotune::new(buffer, 1448, 10, true);
    tuning.start(Time::ZERO);
    tuning.sample_rtt(Duration::from_millis(100));
    tuning
}

#[test]
fn what_waits_beyond_a_hole_does_not_take_the_place_of_what_is_to_come() {
    // Ten segments of 1448 bytes are what a round trip is known to bring: twice that, and the extent.
    let mut tuning = tuned();
    tuning.on_ahead(200_000);
    assert_eq!(tuning.limit(), 2 * 14_480 + 200_000);
    // It neither shrinks nor exceeds the maximum.
    tuning.on_ahead(10);
    assert_eq!(tuning.limit(), 228_960);
    tuning.on_ahead(1 << 30);
    assert_eq!(tuning.limit(), 1 << 20);
    let mut fixed = Autotune::new(ReceiveBuffer::Fixed(Bytes::new(65_535)), 1448, 10, true);
    fixed.on_ahead(200_000);
    assert_eq!(fixed.limit(), 65_535);
}

#[test]
fn the_offer_follows_the_limit_by_two_segments_per_segment() {
    let mut tuning = tuned();
    tuning.on_ahead(200_000);
    let offered = tuning.offered();
    assert!(tuning.on_data(1448, 1448, 0));
    assert_eq!(tuning.offered(), offered + 2 * 1448);
    // What waits counts against it.
    assert!(!tuning.on_data(1448, 1448, 228_960));
}

#[test]
fn a_round_trip_that_brings_more_raises_the_limit() {
    let mut tuning = tuned();
    // Twice 30,000, and twice the growth over what was known.
    tuning.on_read(Time::from_millis(100), 30_001, 0);
    let expected = 60_000 + 2 * (60_000 * (30_000 - 14_480) / 14_480);
    assert_eq!(tuning.limit(), expected);
    // Within the same round trip nothing is measured.
    tuning.on_read(Time::from_millis(150), 200_000, 0);
    assert_eq!(tuning.limit(), expected);
}
