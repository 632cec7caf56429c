//! Whatever a path is asked to do, these hold.

use super::*;
use crate::{
    Change, CoDel, Discipline, Distribution, Ecn, GilbertElliott, Jitter, Order, Outage, Policer,
    QueueLimit, Red, Reorder, Shift, Trace,
};

fn any_share() -> impl Strategy<Value = LossRate> {
    prop_oneof![
        2 => Just(LossRate::ZERO),
        3 => (0_u32..1_000_000_000).prop_map(|rate| LossRate::per_billion(rate).unwrap()),
    ]
}

fn any_span(most_ms: u64) -> impl Strategy<Value = Duration> {
    (0..most_ms * 1_000_000).prop_map(Duration::from_nanos)
}

fn any_rate() -> impl Strategy<Value = Rate> {
    (100_000_u64..10_000_000_000).prop_map(Rate::bit_per_s)
}

fn any_lost() -> impl Strategy<Value = LossSpec> {
    prop_oneof![
        any_loss(),
        (1_u64..40).prop_map(LossSpec::Every),
        (1_u32..1_000_000_000, any_share(), any_share(), any_share()).prop_map(
            |(to_bad, to_good, loss_in_bad, loss_in_good)| {
                LossSpec::GilbertElliott(GilbertElliott {
                    to_bad: LossRate::per_billion(to_bad).unwrap(),
                    to_good,
                    loss_in_bad,
                    loss_in_good,
                })
            }
        ),
    ]
}

fn any_limit() -> impl Strategy<Value = QueueLimit> {
    prop_oneof![
        (1500_u64..300_000).prop_map(|bytes| QueueLimit::Bytes(Bytes::new(bytes))),
        (1_u64..200).prop_map(QueueLimit::Packets),
    ]
}

fn any_discipline() -> impl Strategy<Value = Discipline> {
    let codel = (1_u64..10, 1_u64..50, any::<bool>()).prop_map(|(target, more, ecn)| {
        Discipline::CoDel(CoDel {
            target: Duration::from_millis(target),
            interval: Duration::from_millis(target + more),
            ecn,
        })
    });
    let red = (
        1_u64..30,
        1_u64..50,
        1_u32..=1_000_000_000,
        1_u32..=1_000_000_000,
        any::<[bool; 3]>(),
    )
        .prop_map(|(min, more, probability, weight, [packets, gentle, ecn])| {
            let size = |count| {
                if packets {
                    QueueLimit::Packets(count)
                } else {
                    QueueLimit::Bytes(Bytes::new(count * 1500))
                }
            };
            Discipline::Red(Red {
                min: size(min),
                max: size(min + more),
                probability: LossRate::per_billion(probability).unwrap(),
                weight: LossRate::per_billion(weight).unwrap(),
                gentle,
                ecn,
            })
        });
    prop_oneof![Just(Discipline::DropTail), codel, red]
}

fn any_jitter() -> impl Strategy<Value = Jitter> {
    let distribution = prop_oneof![
        any_span(50).prop_map(|most| Distribution::Uniform { most }),
        (any_span(50), any_span(50))
            .prop_map(|(mean, deviation)| Distribution::Normal { mean, deviation }),
        any_span(50).prop_map(|mean| Distribution::Pareto { mean }),
    ];
    (distribution, any_share()).prop_map(|(distribution, correlation)| Jitter {
        distribution,
        correlation,
    })
}

fn any_change() -> impl Strategy<Value = Change> {
    let outage = prop_oneof![Just(Outage::Drop), Just(Outage::Hold)];
    (
        any_span(200),
        prop::option::of((1_u64..50, prop::option::of(1_u64..50))),
        prop::option::of(any_rate()),
        any_span(100),
        prop::option::of(any_lost()),
        prop::option::of(outage),
    )
        .prop_map(|(at, span, rate, delay, loss, outage)| Change {
            at,
            // An outage without an end is tested by hand: here everything has to come out.
            lasts: span.map(|(lasts, _)| Duration::from_millis(lasts)),
            every: span.and_then(|(lasts, gap)| Some(Duration::from_millis(lasts + gap?))),
            rate,
            one_way_delay: Some(delay),
            loss,
            outage: outage.filter(|_| span.is_some()),
        })
}

/// Stages that draw, and nothing that depends on the time.
fn any_luck() -> impl Strategy<Value = DirectionSpec> {
    let shift = prop_oneof![
        any_span(20).prop_map(Shift::Late),
        any_span(20).prop_map(Shift::Early),
    ];
    (
        any_span(100),
        prop::option::of(any_jitter()),
        any::<bool>(),
        prop::option::of((any_share(), shift)),
        any_share(),
        any_share(),
        any_lost(),
    )
        .prop_map(
            |(one_way_delay, jitter, free, reorder, duplicate, corrupt, loss)| DirectionSpec {
                one_way_delay,
                jitter,
                order: if free { Order::Free } else { Order::Kept },
                reorder: reorder.map(|(share, shift)| Reorder { share, shift }),
                duplicate,
                corrupt,
                loss,
                ..DirectionSpec::default()
            },
        )
}

fn any_direction() -> impl Strategy<Value = DirectionSpec> {
    let policer = (any_rate(), 1500_u64..200_000).prop_map(|(rate, burst)| Policer {
        rate,
        burst: Bytes::new(burst),
    });
    let trace = prop::collection::vec(0_u64..5, 1..20).prop_map(|gaps| {
        let mut stamp = 1;
        let mut lines = Vec::new();
        for gap in gaps {
            stamp += gap;
            lines.push(std::format!("{stamp}"));
        }
        Trace::parse(&lines.join("\n")).unwrap()
    });
    let shaping = prop_oneof![
        Just((None, None)),
        any_rate().prop_map(|rate| (Some(rate), None)),
        trace.prop_map(|trace| (None, Some(trace))),
    ];
    (
        any_luck(),
        prop::option::of(policer),
        any_limit(),
        any_discipline(),
        shaping,
        prop::collection::vec(any_change(), 0..4),
    )
        .prop_map(
            |(luck, policer, queue, discipline, (rate, trace), mut schedule)| {
                // A trace's slots may all fall into outages that come again and again, and so may the gaps between others'.
                let mut may_stand_still = trace.is_some();
                for change in &mut schedule {
                    change.rate = change.rate.filter(|_| trace.is_none());
                    if change.outage == Some(Outage::Hold) && change.every.is_some() {
                        change.every = change.every.filter(|_| !may_stand_still);
                        may_stand_still = true;
                    }
                }
                DirectionSpec {
                    policer,
                    queue,
                    discipline,
                    rate,
                    trace,
                    schedule,
                    ..luck
                }
            },
        )
}

fn path_of(forward: DirectionSpec, seed: u64) -> PathSpec {
    PathSpec {
        forward,
        backward: DirectionSpec::default(),
        seed,
    }
}

fn marked_offers() -> impl Strategy<Value = Offers> {
    (any_offers(), any::<u8>()).prop_map(|(offers, bits)| {
        let ecn = Ecn::from_bits(bits);
        offers
            .into_iter()
            .map(|(at, segments)| (at, segments.with_ecn(ecn)))
            .collect()
    })
}

/// What chance made of each packet that arrived, in an order that does not depend on time.
fn fates(arrivals: &[Arrival]) -> Vec<(u64, bool)> {
    let mut fates: Vec<_> = arrivals
        .iter()
        .map(|arrival| (arrival.index, arrival.corrupted))
        .collect();
    fates.sort_unstable();
    fates
}

proptest! {
    /// `run` checks at every step that packets are conserved, that nothing is delivered before it is due
    /// and that due times never go back.
    #[test]
    fn packets_are_conserved_and_time_moves_on(
        direction in any_direction(), offers in marked_offers(), seed in any::<u64>(),
        resolution in any_resolution(),
    ) {
        let (arrivals, path) = run(&path_of(direction, seed), resolution, &offers);
        let counters = path.counters().forward;
        prop_assert_eq!(counters.queued.packets + counters.in_flight.packets, 0);
        prop_assert_eq!(counters.delivered.packets, u64::try_from(arrivals.len()).unwrap());
        let corrupted = arrivals.iter().filter(|arrival| arrival.corrupted).count();
        prop_assert_eq!(counters.corrupted.packets, u64::try_from(corrupted).unwrap());
    }

    #[test]
    fn the_same_run_has_the_same_end(
        direction in any_direction(), offers in marked_offers(), seed in any::<u64>(),
        resolution in any_resolution(),
    ) {
        let spec = path_of(direction, seed);
        let (first, _) = run(&spec, resolution, &offers);
        let (second, _) = run(&spec, resolution, &offers);
        prop_assert_eq!(first, second);
    }

    #[test]
    fn chance_knows_neither_time_nor_bundling(
        direction in any_luck(), offers in any_offers(), seed in any::<u64>(),
        rate in any_rate(), resolution in any_resolution(),
    ) {
        let alone: Offers = offers
            .iter()
            .flat_map(|&(_, s)| (0..s.count()).map(move |n| (Time::ZERO, Segments::single(s.size(n)))))
            .collect();
        let (alone, _) = run(&path_of(direction.clone(), seed), Duration::ZERO, &alone);
        let behind_a_bottleneck = DirectionSpec {
            rate: Some(rate),
            queue: QueueLimit::Bytes(Bytes::mib(100)),
            ..direction
        };
        let (bundled, _) = run(&path_of(behind_a_bottleneck, seed), resolution, &offers);
        prop_assert_eq!(fates(&alone), fates(&bundled));
    }

    #[test]
    fn without_a_bottleneck_bundling_changes_no_arrival(
        direction in any_luck(), offers in any_offers(), seed in any::<u64>(),
    ) {
        let spec = path_of(direction, seed);
        let singles = offers
            .iter()
            .flat_map(|&(at, s)| (0..s.count()).map(move |n| (at, Segments::single(s.size(n)))))
            .collect();
        let sorted = |offers| {
            let (mut arrivals, _) = run(&spec, Duration::ZERO, offers);
            arrivals.sort_by_key(|arrival| (arrival.due_at, arrival.index, arrival.corrupted));
            arrivals
        };
        prop_assert_eq!(sorted(&offers), sorted(&singles));
    }
}
