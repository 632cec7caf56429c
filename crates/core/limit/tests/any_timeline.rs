//! Whatever events a timeline holds, every moment belongs to exactly one limit.

use std::time::Duration;

use limit::{Event, EventKind, LimitName, Reason, Repair, Timeline, WindowField, attribute};
use longhaul_limit as limit;
use proptest::prelude::*;
use units::{PacketOverhead, Time};

fn kind() -> impl Strategy<Value = EventKind> {
    let repair = prop_oneof![
        5 => Just(None),
        1 => Just(Some(Repair::Fast)),
        1 => Just(Some(Repair::Timeout)),
        1 => Just(Some(Repair::TailProbe)),
        1 => Just(Some(Repair::Spurious)),
    ];
    let position = prop_oneof![8 => 0_i64..100_000, 1 => any::<i32>().prop_map(i64::from)];
    let sent =
        (position.clone(), 1_i64..70_000, repair).prop_map(|(from, len, repair)| EventKind::Sent {
            from,
            to: from + len,
            repair,
        });
    let window = proptest::option::of(prop_oneof![Just(0_u64), 1_u64..1_000_000, Just(u64::MAX)]);
    let passed_at = (0_u64..5_000_000).prop_map(Time::from_micros);
    let newest = proptest::option::of(position.clone());
    let says = (any::<bool>(), any::<bool>());
    let ack = (position, window, says, newest, passed_at).prop_map(
        |(to, window, (bare, holds_more), newest, passed_at)| EventKind::Ack {
            to,
            window,
            bare,
            holds_more,
            newest,
            passed_at,
        },
    );
    prop_oneof![sent, ack]
}

fn span() -> impl Strategy<Value = Option<(Time, Time)>> {
    proptest::option::of((0_u64..6_000, 0_u64..6_000)).prop_map(|span| {
        span.map(|(one, other)| (Time::from_millis(one), Time::from_millis(other)))
    })
}

prop_compose! {
    fn timeline()(
        events in proptest::collection::vec((0_u64..5_000_000, kind()), 0..80),
        (handshake, tls) in (span(), span()),
        (ending_at, base_rtt) in (proptest::option::of(0_u64..5_000), proptest::option::of(0_u64..300_000)),
        delay in prop_oneof![Just(0_u64), 1_u64..200_000],
        blind in proptest::option::of(prop_oneof![Just(Reason::Filtered), Just(Reason::OneDirection)]),
    ) -> Timeline {
        let mut events: Vec<Event> = events
            .into_iter()
            .map(|(at, kind)| Event { at: Time::from_micros(at), kind })
            .collect();
        events.sort_by_key(|event| event.at);
        Timeline {
            from: Time::from_millis(1),
            to: Time::from_millis(5_000),
            handshake,
            tls,
            ending_at: ending_at.map(Time::from_millis),
            base_rtt: base_rtt.map(Duration::from_micros),
            feedback_delay: Duration::from_micros(delay),
            queues_show: true,
            peer_window: false,
            segment: PacketOverhead::IPV4_TIMESTAMPS,
            window: WindowField::Scaled,
            blind,
            events,
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn spans_follow_each_other_without_gap_and_sum_to_the_nanosecond(timeline in timeline()) {
        let attribution = attribute(&timeline);
        let mut at = timeline.from;
        for span in &attribution.spans {
            prop_assert_eq!(span.from, at);
            prop_assert!(span.to > span.from);
            prop_assert_eq!(span.reason.is_some(), span.limit == LimitName::Unknown);
            at = span.to;
        }
        prop_assert_eq!(at, timeline.to);
        let sum: Duration = attribution.limits().into_values().sum();
        prop_assert_eq!(sum, timeline.to.since(timeline.from));
        prop_assert_eq!(&attribution, &attribute(&timeline));
    }

    #[test]
    fn handshake_and_closing_win_over_everything_that_holds_beside_them(
        mut timeline in timeline(),
        from in 1_u64..2_000,
        len in 1_u64..2_000,
    ) {
        let (from, to) = (Time::from_millis(from), Time::from_millis(from + len));
        timeline.handshake = Some((from, to));
        let attribution = attribute(&timeline);
        for span in attribution.spans.iter().filter(|span| span.from < to && span.to > from) {
            prop_assert_eq!(span.limit, LimitName::Handshake);
        }
    }
}
