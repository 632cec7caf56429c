//! The receive window's tuning, number by number.

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
    tuning.sample_rtt(Time::from_millis(100), Time::ZERO, false);
    tuning
}

#[test]
fn a_full_segment_shows_how_much_of_the_buffer_is_payload() {
    // 1448 bytes take 2304: 160 of 256 parts of 131,072 bytes, where one half was assumed.
    let mut tuning = tuned();
    tuning.measure_segment(1448);
    assert_eq!(tuning.limit(), 81_920);
    // Growth goes on in windows, up to the same share of the largest buffer.
    tuning.on_ahead(1 << 30);
    assert_eq!(tuning.limit(), (2 << 20) * 160 / 256);
    let mut fixed = Autotune::new(ReceiveBuffer::Fixed(Bytes::new(65_535)), 1448, 10, true);
    fixed.measure_segment(1448);
    assert_eq!(fixed.limit(), 65_535);
}

#[test]
fn the_round_trip_is_known_in_whole_milliseconds_and_falls_at_once() {
    let grown_at = |at: Time, samples: &[(u64, u64, bool)]| {
        let mut tuning = tuned();
        for &(now, echoed, unread) in samples {
            tuning.sample_rtt(Time::from_micros(now), Time::from_millis(echoed), unread);
        }
        tuning.on_read(at, 30_001, 0, 0);
        tuning.limit() > 65_536
    };
    // 100 ms are known; 90.9 ms after an echo are 90.
    let sooner = [(190_900, 100, false)];
    assert!(grown_at(Time::from_millis(90), &sooner));
    assert!(!grown_at(Time::from_micros(89_999), &sooner));
    // A larger one is averaged, unless the reader had fallen behind, or its echo was seen before.
    let later = Time::from_micros(101_999);
    assert!(!grown_at(later, &[(216_000, 100, false)]));
    assert!(grown_at(later, &[(216_000, 100, true)]));
    assert!(grown_at(
        Time::from_millis(102),
        &[(216_000, 100, false), (300_000, 100, false)]
    ));
    // Less than the clock can tell says nothing.
    assert!(!grown_at(Time::from_millis(50), &[(100_900, 100, false)]));
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
    tuning.on_read(Time::from_millis(100), 30_001, 0, 0);
    let expected = 60_000 + 2 * (60_000 * (30_000 - 14_480) / 14_480);
    assert_eq!(tuning.limit(), expected);
    // Within the same round trip nothing is measured.
    tuning.on_read(Time::from_millis(150), 200_000, 0, 0);
    assert_eq!(tuning.limit(), expected);
}

#[test]
fn what_waits_to_be_read_does_not_raise_the_limit() {
    let mut tuning = tuned();
    tuning.on_read(Time::from_millis(100), 30_001, 16_000, 0);
    assert_eq!(tuning.limit(), 65_536);
}
