use super::*;
use crate::{InvalidTrace, Trace};

fn traced(text: &str) -> PathSpec {
    let mut path = spec(None, Bytes::mib(1), Duration::ZERO, LossSpec::None);
    path.forward.trace = Some(Trace::parse(text).unwrap());
    path
}

fn due_ms(offers: &Offers, trace: &str) -> Vec<u64> {
    let (arrivals, _) = run(&traced(trace), Duration::from_micros(50), offers);
    arrivals
        .iter()
        .map(|arrival| arrival.due_at.as_nanos() / 1_000_000)
        .collect()
}

#[test]
fn each_line_of_a_trace_delivers_a_full_packet_and_its_last_line_wraps() {
    assert_eq!(
        due_ms(&packets(7, 1500), "5\n5\n10\n"),
        [5, 5, 10, 15, 15, 20, 25]
    );
    let superpacket = [(Time::ZERO, Segments::uniform(7, 1500, 1500).unwrap())].into();
    assert_eq!(
        due_ms(&superpacket, "5\n5\n10\n"),
        [5, 5, 10, 15, 15, 20, 25]
    );
}

#[test]
fn an_opportunity_carries_several_small_packets_or_a_part_of_a_large_one() {
    assert_eq!(due_ms(&packets(5, 500), "4\n8\n"), [4, 4, 4, 8, 8]);
    // 2250 bytes are one and a half opportunities, and the other half serves the next packet.
    assert_eq!(due_ms(&packets(3, 2250), "4\n8\n"), [8, 12, 20]);
}

#[test]
fn what_no_packet_wants_is_gone() {
    let at = |ms| (Time::from_millis(ms), Segments::single(1500));
    let offers = [at(0), at(6), at(10), at(1_000_007), at(1_000_010)].into();
    assert_eq!(
        due_ms(&offers, "0\n5\n10\n"),
        [0, 10, 10, 1_000_010, 1_000_010]
    );
}

#[test]
fn a_trace_has_a_mean_rate_and_a_period() {
    let trace = Trace::parse("5\n5\n\n10\n").unwrap();
    assert_eq!(trace.mean_rate(), Rate::kbit_per_s(3600));
    assert_eq!(trace.period(), Duration::from_millis(10));
}

#[test]
fn what_is_no_trace_says_where() {
    let error = |text| Trace::parse(text).unwrap_err();
    assert_eq!(error("1\nx\n"), InvalidTrace::NoNumber { line: 2 });
    assert_eq!(error("-1\n"), InvalidTrace::NoNumber { line: 1 });
    assert_eq!(error("4\n\n3\n"), InvalidTrace::NotAscending { line: 3 });
    assert_eq!(error(""), InvalidTrace::NoTime);
    assert_eq!(error("0\n0\n"), InvalidTrace::NoTime);
}

proptest! {
    #[test]
    fn a_trace_never_delivers_more_than_its_opportunities(
        gaps in prop::collection::vec(0_u32..20, 1..30), offers in any_offers(),
        resolution in any_resolution(),
    ) {
        let mut stamp = 1;
        let stamps: Vec<u64> = gaps.into_iter().map(|gap| { stamp += u64::from(gap); stamp }).collect();
        let text: Vec<_> = stamps.iter().map(std::string::ToString::to_string).collect();
        let (arrivals, path) = run(&traced(&text.join("\n")), resolution, &offers);
        prop_assert_eq!(path.counters().forward.queued.packets, 0);
        let mut delivered = 0;
        for (position, arrival) in arrivals.iter().enumerate() {
            delivered += arrival.bytes;
            if arrivals.get(position + 1).is_some_and(|next| next.due_at == arrival.due_at) {
                continue;
            }
            let ms = arrival.due_at.as_nanos() / 1_000_000;
            prop_assert_eq!(ms * 1_000_000, arrival.due_at.as_nanos());
            let cycles = ms / stamp;
            let in_last = stamps.iter().filter(|&&at| at <= ms % stamp).count();
            let opportunities = cycles * u64::try_from(stamps.len()).unwrap()
                + u64::try_from(in_last).unwrap();
            prop_assert!(delivered <= opportunities * 1500, "{delivered} by {ms} ms");
        }
    }

    #[test]
    fn any_text_is_a_trace_or_none(text in "[0-9\n -]{0,60}") {
        if let Ok(trace) = Trace::parse(&text) {
            prop_assert!(trace.mean_rate().bits_per_s() > 0);
        }
    }
}
