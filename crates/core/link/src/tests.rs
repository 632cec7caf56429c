mod any_spec;
mod loss;
mod policer;
mod queue;
mod schedule;
mod shaper;
mod wire;

use std::collections::BTreeMap;
use std::vec::Vec;

use core::time::Duration;

use proptest::prelude::*;
use units::{Bytes, LossRate, Rate, Time};

use crate::{
    Delivery, Direction, DirectionSpec, Fate, Item, LossSpec, Path, PathSpec, Segments, SpecError,
};

/// One packet as it came out.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
struct Arrival {
    index: u64,
    bytes: u64,
    due_at: Time,
    marked: bool,
    corrupted: bool,
}

/// What a driver does: offers at given moments, forward only.
type Offers = Vec<(Time, Segments)>;

/// Runs a path until it is empty, checking conservation at every step. The payload is the item's shape.
fn run(spec: &PathSpec, resolution: Duration, offers: &Offers) -> (Vec<Arrival>, Path<Segments>) {
    let mut path = Path::new(spec, resolution).unwrap();
    let mut arrivals = Vec::new();
    for &(at, segments) in offers {
        collect(&mut path, at, &mut arrivals);
        let item = Item {
            payload: segments,
            segments,
        };
        path.offer(at, Direction::Forward, item);
        path.assert_conserved();
    }
    while let Some(at) = path.next_at() {
        collect(&mut path, at, &mut arrivals);
        path.assert_conserved();
    }
    (arrivals, path)
}

fn collect(path: &mut Path<Segments>, now: Time, arrivals: &mut Vec<Arrival>) {
    while let Some(delivery) = path.poll(now) {
        let Delivery {
            payload,
            segments,
            first_index,
            due_at,
            direction,
            marked,
            corruption,
        } = delivery;
        assert_eq!(direction, Direction::Forward);
        assert!(due_at <= now);
        assert!(arrivals.last().is_none_or(|last| last.due_at <= due_at));
        assert!(corruption.is_none() || segments.len() == 1);
        for (position, index) in segments.zip(first_index..) {
            arrivals.push(Arrival {
                index,
                bytes: payload.size(position).into(),
                due_at,
                marked,
                corrupted: corruption.is_some(),
            });
        }
    }
}

fn spec(rate: Option<Rate>, queue: Bytes, delay: Duration, loss: LossSpec) -> PathSpec {
    PathSpec::symmetric(delay * 2, rate, queue, loss, 7)
}

fn packets(count: u32, bytes: u32) -> Offers {
    (0..count)
        .map(|_| (Time::ZERO, Segments::single(bytes)))
        .collect()
}

#[test]
fn a_packet_takes_serialisation_plus_delay_exactly() {
    let spec = spec(
        Some(Rate::mbit_per_s(100)),
        Bytes::kib(64),
        Duration::from_micros(100_200),
        LossSpec::None,
    );
    let (arrivals, _) = run(&spec, Duration::ZERO, &packets(3, 1500));
    let due: Vec<_> = arrivals.iter().map(|a| a.due_at.as_nanos()).collect();
    assert_eq!(due, [100_320_000, 100_440_000, 100_560_000]);
}

#[test]
fn packets_on_the_wire_never_fill_the_queue() {
    // 100 ms of 100 Mbit/s are on the wire, 833 packets, while the queue holds only one.
    let spec = spec(
        Some(Rate::mbit_per_s(100)),
        Bytes::new(1500),
        Duration::from_millis(100),
        LossSpec::None,
    );
    let offers = (0..800)
        .map(|n| (Time::from_micros(n * 120), Segments::single(1500)))
        .collect();
    let (arrivals, path) = run(&spec, Duration::ZERO, &offers);
    assert_eq!(arrivals.len(), 800);
    assert_eq!(path.counters().forward.queue_peak, Bytes::ZERO);
}

#[test]
fn a_burst_keeps_what_the_queue_holds_and_loses_its_tail() {
    let spec = spec(
        Some(Rate::mbit_per_s(10)),
        Bytes::new(4500),
        Duration::ZERO,
        LossSpec::None,
    );
    // One is serialised, three wait, six are dropped; as single packets and as one superpacket.
    let superpacket = Segments::uniform(10, 1500, 1500).unwrap();
    for offers in [packets(10, 1500), [(Time::ZERO, superpacket)].into()] {
        let (arrivals, path) = run(&spec, Duration::ZERO, &offers);
        let survivors: Vec<_> = arrivals.iter().map(|a| a.index).collect();
        assert_eq!(survivors, [0, 1, 2, 3]);
        let counters = path.counters().forward;
        assert_eq!(counters.dropped.packets, 6);
        assert_eq!(counters.queue_peak, Bytes::new(4500));
    }
}

#[test]
fn a_short_last_segment_fits_where_a_full_one_did_not() {
    let spec = spec(
        Some(Rate::mbit_per_s(10)),
        Bytes::new(2000),
        Duration::ZERO,
        LossSpec::None,
    );
    let superpacket = Segments::uniform(4, 1500, 200).unwrap();
    let (arrivals, _) = run(&spec, Duration::ZERO, &[(Time::ZERO, superpacket)].into());
    let survivors: Vec<_> = arrivals.iter().map(|a| (a.index, a.bytes)).collect();
    assert_eq!(survivors, [(0, 1500), (1, 1500), (3, 200)]);
}

#[test]
fn a_superpacket_leaves_in_bursts_within_the_resolution() {
    // 1500 bytes take 12 us at 1 Gbit/s: four fit into 50 us.
    let spec = spec(
        Some(Rate::mbit_per_s(1000)),
        Bytes::mib(1),
        Duration::ZERO,
        LossSpec::None,
    );
    let offers = [(Time::ZERO, Segments::uniform(10, 1500, 1500).unwrap())].into();
    let (arrivals, _) = run(&spec, Duration::from_micros(50), &offers);
    let due: Vec<_> = arrivals
        .iter()
        .map(|a| a.due_at.as_nanos() / 1000)
        .collect();
    assert_eq!(due, [48, 48, 48, 48, 96, 96, 96, 96, 120, 120]);
}

#[test]
fn a_listed_packet_is_lost_out_of_the_middle_of_a_superpacket() {
    let spec = spec(
        None,
        Bytes::ZERO,
        Duration::from_millis(1),
        LossSpec::Listed([0, 5, 6].into()),
    );
    let offers = [(Time::ZERO, Segments::uniform(8, 1500, 300).unwrap())].into();
    let (arrivals, path) = run(&spec, Duration::ZERO, &offers);
    let survivors: Vec<_> = arrivals.iter().map(|a| a.index).collect();
    assert_eq!(survivors, [1, 2, 3, 4, 7]);
    assert_eq!(path.counters().forward.lost.packets, 3);
}

#[test]
fn what_the_queue_drops_does_not_shift_the_fate_of_what_follows() {
    let loss = LossSpec::Listed([12].into());
    let tight = spec(
        Some(Rate::mbit_per_s(10)),
        Bytes::new(1500),
        Duration::ZERO,
        loss,
    );
    let mut offers = packets(12, 1500);
    let later = Time::from_millis(100);
    offers.extend([
        (later, Segments::single(100)),
        (later, Segments::single(101)),
    ]);
    let (arrivals, path) = run(&tight, Duration::ZERO, &offers);
    assert_eq!(path.counters().forward.dropped.packets, 10);
    assert_eq!(arrivals.last().map(|a| (a.index, a.bytes)), Some((13, 101)));
    assert_eq!(path.counters().forward.lost.packets, 1);
}

#[test]
fn a_driver_that_comes_late_changes_no_due_time() {
    let spec = spec(
        Some(Rate::mbit_per_s(100)),
        Bytes::mib(1),
        Duration::from_millis(5),
        LossSpec::None,
    );
    let (punctual, _) = run(&spec, Duration::ZERO, &packets(50, 1500));
    let mut path = Path::new(&spec, Duration::ZERO).unwrap();
    for (at, segments) in packets(50, 1500) {
        let item = Item {
            payload: segments,
            segments,
        };
        path.offer(at, Direction::Forward, item);
    }
    let mut late = Vec::new();
    collect(&mut path, Time::from_millis(500), &mut late);
    assert_eq!(late, punctual);
}

#[test]
fn the_rate_has_no_rounding_drift() {
    // 1500 bytes at 7 Gbit/s take 1714.29 ns; 7 million of them take 12 s to the nanosecond.
    let spec = spec(
        Some(Rate::mbit_per_s(7000)),
        Bytes::new(u64::MAX),
        Duration::ZERO,
        LossSpec::None,
    );
    let segments = Segments::uniform(7_000_000, 1500, 1500).unwrap();
    let (arrivals, _) = run(
        &spec,
        Duration::from_micros(50),
        &[(Time::ZERO, segments)].into(),
    );
    assert_eq!(
        arrivals.last().map(|a| a.due_at),
        Some(Time::from_millis(12_000))
    );
}

#[test]
fn the_directions_draw_their_losses_independently() {
    let loss = LossSpec::Bernoulli(LossRate::per_billion(500_000_000).unwrap());
    let fates = |seed, direction| -> Vec<bool> {
        (0..1000)
            .map(|n| loss.fate(seed, direction, n) == Fate::Lost)
            .collect()
    };
    let equal = |a: &[bool], b: &[bool]| a.iter().zip(b).filter(|(a, b)| a == b).count();
    let reference = fates(1, Direction::Forward);
    // Independent coins agree on 500 of 1000, standard deviation 16: five of them either way.
    for other in [fates(1, Direction::Backward), fates(2, Direction::Forward)] {
        assert!((420..=580).contains(&equal(&reference, &other)));
    }
}

#[test]
fn the_seed_s_losses_are_fixed_for_ever() {
    // Results are published with their seed: changing the generator would make them unrepeatable.
    let loss = LossSpec::Bernoulli(LossRate::per_billion(5_000_000).unwrap());
    let lost: Vec<u64> = (0..1000)
        .filter(|&n| loss.fate(42, Direction::Forward, n) == Fate::Lost)
        .collect();
    assert_eq!(lost, KNOWN_LOSSES);
}

const KNOWN_LOSSES: [u64; 6] = [72, 132, 136, 423, 455, 612];

#[test]
fn validation_names_every_error_of_both_directions() {
    let broken = PathSpec {
        forward: DirectionSpec {
            rate: Some(Rate::bit_per_s(0)),
            queue: Bytes::new(100).into(),
            ..DirectionSpec::default()
        },
        backward: DirectionSpec {
            one_way_delay: Duration::from_secs(4000),
            loss: LossSpec::Listed([1, 3, 3].into()),
            ..DirectionSpec::default()
        },
        seed: 0,
    };
    let errors = broken.validate().unwrap_err().errors;
    let expected = [
        (Direction::Forward, SpecError::ZeroRate),
        (
            Direction::Forward,
            SpecError::QueueBelowOnePacket {
                queue: Bytes::new(100).into(),
            },
        ),
        (Direction::Backward, SpecError::DelayTooLong),
        (
            Direction::Backward,
            SpecError::LossListNotAscending { position: 2 },
        ),
    ];
    assert_eq!(errors, expected);
}

#[test]
fn a_symmetric_path_sums_to_the_rtt_asked_for() {
    let rtt = Duration::from_nanos(200_400_001);
    let path = PathSpec::symmetric(rtt, None, Bytes::ZERO, LossSpec::None, 0);
    assert_eq!(path.rtt(), rtt);
}

fn any_segments() -> impl Strategy<Value = Segments> {
    (1_u32..50, 100_u32..=1500, 40_u32..=1500)
        .prop_map(|(count, each, last)| Segments::uniform(count, each.max(last), last).unwrap())
}

fn any_offers() -> impl Strategy<Value = Offers> {
    prop::collection::vec((0_u64..3_000_000, any_segments()), 1..60).prop_map(|gaps| {
        let mut at = Time::ZERO;
        gaps.into_iter()
            .map(|(gap, segments)| {
                at += Duration::from_nanos(gap);
                (at, segments)
            })
            .collect()
    })
}

fn any_loss() -> impl Strategy<Value = LossSpec> {
    prop_oneof![
        Just(LossSpec::None),
        (0_u32..=1_000_000_000)
            .prop_map(|rate| LossSpec::Bernoulli(LossRate::per_billion(rate).unwrap())),
        prop::collection::btree_set(0_u64..500, 0..50)
            .prop_map(|set| LossSpec::Listed(set.into_iter().collect())),
    ]
}

fn any_spec() -> impl Strategy<Value = PathSpec> {
    (
        prop::option::of(100_000_u64..10_000_000_000),
        1500_u64..500_000,
        0_u64..300_000_000,
        any_loss(),
        any::<u64>(),
    )
        .prop_map(|(rate, queue, rtt, loss, seed)| {
            PathSpec::symmetric(
                Duration::from_nanos(rtt),
                rate.map(Rate::bit_per_s),
                Bytes::new(queue),
                loss,
                seed,
            )
        })
}

fn any_resolution() -> impl Strategy<Value = Duration> {
    (0_u64..200_000).prop_map(Duration::from_nanos)
}

proptest! {
    /// Conservation itself is asserted at every step of `run`.
    #[test]
    fn everything_that_was_offered_is_delivered_dropped_or_lost_in_the_end(
        spec in any_spec(), resolution in any_resolution(), offers in any_offers(),
    ) {
        let (arrivals, path) = run(&spec, resolution, &offers);
        let counters = path.counters().forward;
        let offered: u64 = offers.iter().map(|(_, s)| u64::from(s.count())).sum();
        prop_assert_eq!(counters.offered.packets, offered);
        prop_assert_eq!(counters.queued.packets + counters.in_flight.packets, 0);
        let count = u64::try_from(arrivals.len()).unwrap();
        prop_assert_eq!(counters.delivered.packets, count);
        prop_assert_eq!(count + counters.dropped.packets + counters.lost.packets, offered);
        prop_assert_eq!(
            counters.delivered.bytes,
            arrivals.iter().map(|a| Bytes::new(a.bytes)).sum::<Bytes>()
        );
    }

    #[test]
    fn nothing_is_reordered_or_duplicated(
        spec in any_spec(), resolution in any_resolution(), offers in any_offers(),
    ) {
        let (arrivals, _) = run(&spec, resolution, &offers);
        for pair in arrivals.windows(2) {
            prop_assert!(pair[0].index < pair[1].index);
            prop_assert!(pair[0].due_at <= pair[1].due_at);
        }
    }

    #[test]
    fn the_rate_is_never_exceeded_over_any_window(
        rate in 100_000_u64..10_000_000_000, offers in any_offers(), resolution in any_resolution(),
    ) {
        let rate = Rate::bit_per_s(rate);
        let spec = spec(Some(rate), Bytes::mib(100), Duration::from_millis(3), LossSpec::None);
        let (arrivals, _) = run(&spec, resolution, &offers);
        let mut by_time: BTreeMap<Time, u64> = BTreeMap::new();
        for arrival in &arrivals {
            *by_time.entry(arrival.due_at).or_default() += arrival.bytes;
        }
        let steps: Vec<_> = by_time.into_iter().collect();
        for (first, &(start, _)) in steps.iter().enumerate() {
            // Everything that came after the instant `start` was serialised after it.
            let mut bytes = 0;
            for &(end, more) in &steps[first + 1..] {
                bytes += more;
                // Moments are whole nanoseconds, rounded up.
                let needed = Bytes::new(bytes).checked_div(rate).unwrap();
                prop_assert!(end.since(start) + Duration::from_nanos(1) >= needed);
            }
        }
    }

    #[test]
    fn without_a_rate_the_delay_is_exact(
        offers in any_offers(), delay in 0_u64..1_000_000_000, loss in any_loss(),
    ) {
        let delay = Duration::from_nanos(delay);
        let spec = spec(None, Bytes::ZERO, delay, loss);
        let (arrivals, _) = run(&spec, Duration::ZERO, &offers);
        let sent: Vec<Time> = offers
            .iter()
            .flat_map(|&(at, s)| (0..s.count()).map(move |_| at))
            .collect();
        for arrival in arrivals {
            let index = usize::try_from(arrival.index).unwrap();
            prop_assert_eq!(arrival.due_at, sent[index] + delay);
        }
    }

    #[test]
    fn the_same_seed_gives_the_same_fate_whatever_the_timing_and_the_bundling(
        offers in any_offers(), loss in any_loss(), seed in any::<u64>(), resolution in any_resolution(),
    ) {
        let path = |rate| PathSpec::symmetric(
            Duration::from_millis(1), rate, Bytes::mib(100), loss.clone(), seed,
        );
        let indices = |arrivals: Vec<Arrival>| -> Vec<u64> {
            arrivals.into_iter().map(|a| a.index).collect()
        };
        let (bundled, _) = run(&path(Some(Rate::mbit_per_s(50))), resolution, &offers);
        let singles = offers
            .iter()
            .flat_map(|&(_, s)| (0..s.count()).map(move |n| (Time::ZERO, Segments::single(s.size(n)))))
            .collect();
        let (alone, _) = run(&path(None), Duration::ZERO, &singles);
        let bundled = indices(bundled);
        prop_assert_eq!(&bundled, &indices(alone));
        let count: u64 = offers.iter().map(|(_, s)| u64::from(s.count())).sum();
        let predicted: Vec<u64> = (0..count)
            .filter(|&n| loss.fate(seed, Direction::Forward, n) == Fate::Delivered)
            .collect();
        prop_assert_eq!(bundled, predicted);
    }

    /// Chernoff: 100,000 draws stay within six standard deviations of the mean, for any seed.
    #[test]
    fn bernoulli_losses_come_at_their_rate(seed in any::<u64>(), per_mille in 1_u32..1000) {
        let loss = LossSpec::Bernoulli(LossRate::per_billion(per_mille * 1_000_000).unwrap());
        let draws = 100_000_u32;
        let lost = (0..u64::from(draws))
            .filter(|&n| loss.fate(seed, Direction::Forward, n) == Fate::Lost)
            .count();
        let p = f64::from(per_mille) / 1000.0;
        let mean = f64::from(draws) * p;
        let deviation = (mean * (1.0 - p)).sqrt();
        let lost = f64::from(u32::try_from(lost).unwrap());
        prop_assert!((lost - mean).abs() <= 6.0 * deviation, "{lost} of {mean} expected");
    }
}
