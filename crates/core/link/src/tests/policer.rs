use super::*;
use crate::Policer;

/// 8 Mbit/s is a byte per microsecond.
fn policed(burst: u64) -> PathSpec {
    let mut path = spec(None, Bytes::ZERO, Duration::ZERO, LossSpec::None);
    path.forward.policer = Some(Policer {
        rate: Rate::mbit_per_s(8),
        burst: Bytes::new(burst),
    });
    path
}

fn indices(arrivals: &[Arrival]) -> Vec<u64> {
    arrivals.iter().map(|arrival| arrival.index).collect()
}

#[test]
fn a_bucket_starts_full_and_fills_to_the_nanosecond() {
    let offers = [
        0,
        0,
        0,
        1_499_999,
        1_500_000,
        2_999_999,
        3_000_000,
        1_000_000_000,
    ]
    .map(|nanos| (Time::from_nanos(nanos), Segments::single(1500)));
    let (arrivals, path) = run(&policed(3000), Duration::ZERO, &offers.into());
    // Two of the first three; then one each time that 1500 tokens have come.
    assert_eq!(indices(&arrivals), [0, 1, 4, 6, 7]);
    assert_eq!(path.counters().forward.policed.packets, 3);
}

#[test]
fn what_passes_in_the_long_run_is_burst_plus_rate_times_time() {
    // 1500 bytes every 100 us are 15 times the rate.
    let offers = (0..10_000)
        .map(|n| (Time::from_micros(n * 100), Segments::single(1500)))
        .collect();
    let (arrivals, _) = run(&policed(30_000), Duration::ZERO, &offers);
    let passed: u64 = arrivals.iter().map(|arrival| arrival.bytes).sum();
    let allowed = 30_000 + 999_900;
    assert!((allowed - 1500..=allowed).contains(&passed), "{passed}");
}

#[test]
fn a_short_last_segment_finds_tokens_that_a_full_one_did_not() {
    let superpacket = Segments::uniform(4, 1500, 200).unwrap();
    let (arrivals, path) = run(
        &policed(2000),
        Duration::ZERO,
        &[(Time::ZERO, superpacket)].into(),
    );
    assert_eq!(indices(&arrivals), [0, 3]);
    assert_eq!(path.counters().forward.policed.bytes, Bytes::new(3000));
}

proptest! {
    #[test]
    fn a_superpacket_is_policed_like_its_packets(
        offers in any_offers(), burst in 1500_u64..200_000,
    ) {
        let singles = offers
            .iter()
            .flat_map(|&(at, s)| (0..s.count()).map(move |n| (at, Segments::single(s.size(n)))))
            .collect();
        let (bundled, _) = run(&policed(burst), Duration::ZERO, &offers);
        let (alone, _) = run(&policed(burst), Duration::ZERO, &singles);
        prop_assert_eq!(bundled, alone);
    }
}
