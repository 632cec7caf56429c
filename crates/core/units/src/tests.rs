use std::string::ToString;
use std::time::Duration;

use proptest::prelude::*;

use super::*;

#[test]
fn the_bandwidth_delay_product_of_the_field_path() {
    let bdp = Rate::mbit_per_s(100).checked_mul(Duration::from_micros(200_400));
    assert_eq!(bdp, Some(Bytes::new(2_505_000)));
}

#[test]
fn division_by_nothing_is_none_not_a_default() {
    assert_eq!(Bytes::kib(1).checked_div(Rate::bit_per_s(0)), None);
    assert_eq!(Bytes::kib(1).checked_per(Duration::ZERO), None);
    assert!(
        Floor::new(
            1,
            Duration::from_millis(1),
            Bytes::kib(1),
            Rate::bit_per_s(0)
        )
        .is_none()
    );
}

#[test]
fn the_floor_of_the_field_uploads() {
    let rtt = Duration::from_micros(200_400);
    let small = PacketOverhead::IPV4_TIMESTAMPS.ip_bytes(Bytes::new(102_400));
    assert_eq!(small, Bytes::new(102_400 + 71 * 52));
    let floor = Floor::new(1, rtt, small, Rate::mbit_per_s(100)).unwrap();
    assert_eq!(
        floor.to_string(),
        "1 x 200.4 ms + 106092 B at 100 Mbit/s (8.5 ms) = 208.9 ms"
    );
}

#[test]
fn quantities_say_their_unit_both_ways() {
    for text in ["64 KiB", "10 MB", "1 GiB", "1500 B", "0 B", "102401 B"] {
        assert_eq!(text.parse::<Bytes>().unwrap().to_string(), text);
    }
    for text in [
        "100 Mbit/s",
        "1 Gbit/s",
        "1.544 Mbit/s",
        "6.25 Gbit/s",
        "999 bit/s",
    ] {
        assert_eq!(text.parse::<Rate>().unwrap().to_string(), text);
    }
    for text in ["0.5 %", "0.006 %", "100 %", "0 %"] {
        assert_eq!(text.parse::<LossRate>().unwrap().to_string(), text);
    }
    assert_eq!("6e-5".parse::<LossRate>().ok(), None);
    assert_eq!(parse_span("200.4 ms"), Ok(Duration::from_micros(200_400)));
    assert_eq!(format_span(Duration::from_micros(200_400)), "200.4 ms");
    assert_eq!(
        Milliseconds(Duration::from_micros(1_017_350)).to_string(),
        "1017.4"
    );
}

#[test]
fn a_bare_or_hostile_number_is_refused_with_an_example() {
    for text in [
        "1",
        "",
        "-1 s",
        "1..2 s",
        "9999999999999999999 h",
        ".5 s",
        "1e3 s",
    ] {
        let error = parse_span(text).unwrap_err();
        assert!(error.to_string().contains("200.4 ms"), "{error}");
    }
    assert!("0.5 B".parse::<Bytes>().is_err());
    assert!("101 %".parse::<LossRate>().is_err());
    assert!("1".parse::<Rate>().is_err());
}

#[cfg(feature = "serde")]
#[test]
fn the_serde_form_is_text_with_a_unit() {
    assert_eq!(
        serde_json::to_string(&Rate::mbit_per_s(100)).unwrap(),
        "\"100 Mbit/s\""
    );
    let error = serde_json::from_str::<Rate>("100").unwrap_err().to_string();
    assert!(error.contains("a rate with its unit"), "{error}");
}

proptest! {
    #[test]
    fn sequence_arithmetic_survives_the_wrap(base: u32, ahead in 0_u32..0x7fff_ffff) {
        let base = SeqNum::new(base);
        let later = base + ahead;
        prop_assert_eq!(i64::from(later.distance_from(base)), i64::from(ahead));
        prop_assert_eq!(i64::from(base.distance_from(later)), -i64::from(ahead));
    }

    #[test]
    fn text_round_trips(count: u64, rate: u64, loss in 0_u32..=1_000_000_000) {
        let bytes = Bytes::new(count);
        prop_assert_eq!(bytes.to_string().parse::<Bytes>(), Ok(bytes));
        let rate = Rate::bit_per_s(rate);
        prop_assert_eq!(rate.to_string().parse::<Rate>(), Ok(rate));
        let loss = LossRate::per_billion(loss).unwrap();
        prop_assert_eq!(loss.to_string().parse::<LossRate>(), Ok(loss));
    }

    #[test]
    fn serialisation_and_rate_agree(count in 1_u64..1 << 40, rate in 1_000_u64..1 << 40) {
        let span = Bytes::new(count).checked_div(Rate::bit_per_s(rate)).unwrap();
        let back = Rate::bit_per_s(rate).checked_mul(span).unwrap();
        prop_assert!(back >= Bytes::new(count) && back <= Bytes::new(count + rate / 8_000_000_000 + 1));
    }

    #[test]
    fn parsers_never_panic(text in ".{0,24}") {
        let _ = parse_span(&text);
        let _ = text.parse::<Bytes>();
        let _ = text.parse::<Rate>();
        let _ = text.parse::<LossRate>();
    }
}
