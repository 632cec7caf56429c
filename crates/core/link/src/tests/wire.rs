use super::*;
use crate::{Distribution, Jitter, Order, Reorder, Shift};

const BASE: Duration = Duration::from_millis(10);

fn share(billionths: u32) -> LossRate {
    LossRate::per_billion(billionths).unwrap()
}

fn jittery(distribution: Distribution, correlation: u32) -> PathSpec {
    let mut path = spec(None, Bytes::ZERO, BASE, LossSpec::None);
    path.forward.jitter = Some(Jitter {
        distribution,
        correlation: share(correlation),
    });
    path.forward.order = Order::Free;
    path
}

/// What jitter added to each of so many packets, in milliseconds, in the order of their numbers.
fn added_ms(path: &PathSpec, count: u32) -> Vec<f64> {
    // Not by `run`, which counts everything anew at every arrival.
    let segments = Segments::uniform(count, 100, 100).unwrap();
    let item = Item {
        payload: segments,
        segments,
    };
    let mut running = Path::new(path, Duration::ZERO).unwrap();
    running.offer(Time::ZERO, Direction::Forward, item);
    let mut arrivals = Vec::new();
    collect(&mut running, Time::MAX, &mut arrivals);
    let mut added = std::vec![f64::NAN; count as usize];
    for arrival in arrivals {
        let beyond = arrival.due_at.since(Time::ZERO + BASE);
        added[usize::try_from(arrival.index).unwrap()] = beyond.as_secs_f64() * 1e3;
    }
    added
}

fn moments(values: &[f64]) -> (f64, f64) {
    let count = f64::from(u32::try_from(values.len()).unwrap());
    let mean = values.iter().sum::<f64>() / count;
    let variance = values
        .iter()
        .map(|value| (value - mean).powi(2))
        .sum::<f64>()
        / count;
    (mean, variance.sqrt())
}

fn correlation_of_neighbours(values: &[f64]) -> f64 {
    let (mean, deviation) = moments(values);
    let products = values
        .windows(2)
        .map(|pair| (pair[0] - mean) * (pair[1] - mean));
    let pairs = f64::from(u32::try_from(values.len() - 1).unwrap());
    products.sum::<f64>() / pairs / deviation.powi(2)
}

const COUNT: u32 = 100_000;

#[track_caller]
fn assert_near(value: f64, expected: f64, tolerance: f64) {
    assert!(
        (value - expected).abs() <= tolerance,
        "{value} is not {expected} within {tolerance}"
    );
}

#[test]
fn uniform_jitter_has_its_moments() {
    let most = Duration::from_millis(4);
    let added = added_ms(&jittery(Distribution::Uniform { most }, 0), COUNT);
    let (mean, deviation) = moments(&added);
    // Standard error of the mean: 1.155 / sqrt(100,000) = 0.004.
    assert_near(mean, 2.0, 0.02);
    assert_near(deviation, 4.0 / 12.0_f64.sqrt(), 0.02);
    assert!(added.iter().all(|&ms| (0.0..=4.0).contains(&ms)));
    assert_near(correlation_of_neighbours(&added), 0.0, 0.02);
}

#[test]
fn normal_jitter_has_its_moments() {
    let (mean, deviation) = (Duration::from_millis(5), Duration::from_millis(1));
    let added = added_ms(&jittery(Distribution::Normal { mean, deviation }, 0), COUNT);
    let (mean, deviation) = moments(&added);
    assert_near(mean, 5.0, 0.02);
    assert_near(deviation, 1.0, 0.02);
    let within = added
        .iter()
        .filter(|&&ms| (4.0..=6.0).contains(&ms))
        .count();
    assert!((67_000..=69_500).contains(&within), "{within}");
}

#[test]
fn pareto_jitter_has_its_mean_and_its_tail() {
    let mean = Duration::from_millis(2);
    let added = added_ms(&jittery(Distribution::Pareto { mean }, 0), COUNT);
    // Standard deviation 2 * sqrt(3), standard error 0.011.
    assert_near(moments(&added).0, 2.0, 0.06);
    // P(X > x) = (1 + x / 4)^-3: 12.5 % above 4 ms, 0.463 % above 20 ms.
    let above = |limit: f64| added.iter().filter(|&&ms| ms > limit).count();
    assert!((12_000..=13_000).contains(&above(4.0)), "{}", above(4.0));
    assert!((350..=580).contains(&above(20.0)), "{}", above(20.0));
    assert!(added.iter().all(|&ms| ms <= 200.0));
}

#[test]
fn correlation_changes_neighbours_and_not_the_distribution() {
    let most = Duration::from_millis(4);
    let added = added_ms(&jittery(Distribution::Uniform { most }, 800_000_000), COUNT);
    let (mean, deviation) = moments(&added);
    assert_near(mean, 2.0, 0.06);
    assert_near(deviation, 4.0 / 12.0_f64.sqrt(), 0.03);
    // Uniform numbers bent from normal ones of correlation r have 6 / pi asin(r / 2).
    let expected = 6.0 / std::f64::consts::PI * 0.4_f64.asin();
    assert_near(correlation_of_neighbours(&added), expected, 0.02);
    let (mean, deviation) = (Duration::from_millis(50), Duration::from_millis(1));
    let normal = Distribution::Normal { mean, deviation };
    let added = added_ms(&jittery(normal, 800_000_000), COUNT);
    assert_near(correlation_of_neighbours(&added), 0.8, 0.02);
}

#[test]
fn order_is_kept_or_not_as_asked() {
    let most = Duration::from_millis(4);
    let mut path = jittery(Distribution::Uniform { most }, 0);
    let offers = (0..200)
        .map(|n| (Time::from_micros(n * 100), Segments::single(100)))
        .collect();
    let sorted = |path: &PathSpec| {
        let (arrivals, _) = run(path, Duration::ZERO, &offers);
        assert_eq!(arrivals.len(), 200);
        arrivals.is_sorted_by_key(|arrival| arrival.index)
    };
    assert!(!sorted(&path));
    path.forward.order = Order::Kept;
    assert!(sorted(&path));
}

#[test]
fn reordered_packets_are_late_or_early_and_the_others_keep_their_order() {
    let mut path = spec(None, Bytes::ZERO, BASE, LossSpec::None);
    let offers = (0..5_000)
        .map(|n| (Time::from_micros(n * 100), Segments::single(100)))
        .collect();
    for (shift, expected_us) in [
        (Shift::Late(Duration::from_millis(3)), 13_000),
        (Shift::Early(Duration::from_millis(3)), 7_000),
        (Shift::Early(Duration::from_secs(3)), 0),
    ] {
        path.forward.reorder = Some(Reorder {
            share: share(50_000_000),
            shift,
        });
        let (arrivals, after) = run(&path, Duration::ZERO, &offers);
        let (normal, moved): (Vec<_>, Vec<_>) = arrivals
            .iter()
            .partition(|arrival| arrival.due_at == Time::from_micros(arrival.index * 100) + BASE);
        assert!(normal.is_sorted_by_key(|arrival: &&Arrival| arrival.index));
        // 5 % of 5,000, standard deviation 15.4.
        assert!((170..=330).contains(&moved.len()), "{}", moved.len());
        assert!(moved.iter().all(|arrival| {
            arrival.due_at == Time::from_micros(arrival.index * 100 + expected_us)
        }));
        assert_eq!(
            after.counters().forward.reordered.packets,
            moved.len() as u64
        );
    }
}

#[test]
fn copies_arrive_behind_their_originals_and_are_counted() {
    let mut path = spec(None, Bytes::ZERO, BASE, LossSpec::None);
    path.forward.duplicate = share(100_000_000);
    let (arrivals, after) = run(&path, Duration::ZERO, &packets(5_000, 100));
    let twice: Vec<_> = arrivals
        .windows(2)
        .filter(|pair| pair[0] == pair[1])
        .collect();
    assert_eq!(arrivals.len(), 5_000 + twice.len());
    // 10 % of 5,000, standard deviation 21.
    assert!((375..=625).contains(&twice.len()), "{}", twice.len());
    assert_eq!(
        after.counters().forward.duplicated.packets,
        twice.len() as u64
    );
}

#[test]
fn damaged_packets_arrive_one_by_one_and_are_counted() {
    let mut path = spec(None, Bytes::ZERO, BASE, LossSpec::None);
    path.forward.corrupt = share(50_000_000);
    let superpacket = Segments::uniform(5_000, 100, 100).unwrap();
    let (arrivals, after) = run(&path, Duration::ZERO, &[(Time::ZERO, superpacket)].into());
    let damaged = arrivals.iter().filter(|arrival| arrival.corrupted).count();
    assert!((170..=330).contains(&damaged), "{damaged}");
    let counters = after.counters().forward;
    assert_eq!(counters.corrupted.packets, damaged as u64);
    assert_eq!(counters.delivered.packets, 5_000);
}
