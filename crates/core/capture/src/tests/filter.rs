use std::string::{String, ToString};

use proptest::prelude::*;
use wire::Observation;

use crate::{Filter, FilterError, Observations};

fn matches(filter: &str, line: &str) -> bool {
    let filter: Filter = filter.parse().unwrap();
    let text = std::format!("12:00:00.5 IP {line}\n");
    let mut observations = Observations::new(text.as_bytes());
    filter.matches(&observations.next_observation().unwrap().unwrap())
}

const SEGMENT: &str = "10.1.2.3.40000 > 203.0.113.7.443: Flags [.], ack 1, win 9, length 0";
const ECHO: &str = "10.1.2.3 > 203.0.113.7: ICMP echo request, id 1, seq 1, length 64";

#[test]
fn filters_mean_what_they_mean_to_tcpdump() {
    for (filter, segment, echo) in [
        ("tcp", true, false),
        ("icmp", false, true),
        ("ip6", false, false),
        ("host 10.1.2.3", true, true),
        ("src host 203.0.113.7", false, false),
        ("dst host 203.0.113.7", true, true),
        ("net 10.0.0.0/8", true, true),
        ("src net 10.1.2.0/24 and dst port 443", true, false),
        ("tcp port 443", true, false),
        ("tcp dst port 40000", false, false),
        // As pcap-filter(7) has it: `and` and `or` bind alike, from left to right.
        ("host 10.1.2.3 or host 9.9.9.9 and port 80", false, false),
        ("host 10.1.2.3 or (host 9.9.9.9 and port 80)", true, true),
        ("port 80 and port 81 or icmp", false, true),
        // A value alone is what the latest one was.
        ("port 80 or 443", true, false),
        ("src port 443 or 80", false, false),
        ("not host 9.9.9.9 and 203.0.113.7", true, true),
        ("dst 203.0.113.7", true, true),
        ("tcp and 10.1.2.3", true, false),
        ("src or dst port 443", true, false),
        ("dst or src host 10.1.2.3", true, true),
        ("src and dst net 10.0.0.0/8", false, false),
        ("ip host 10.1.2.3", true, true),
        ("ip6 host 10.1.2.3", false, false),
        ("portrange 400-500", true, false),
        ("not port 22", true, true),
        ("not (port 443 or host 10.9.9.9)", false, true),
        ("port 80 or port 443 and host 10.1.2.3", true, false),
        ("!tcp && host 10.1.2.3", false, true),
    ] {
        assert_eq!(matches(filter, SEGMENT), segment, "{filter}");
        assert_eq!(matches(filter, ECHO), echo, "{filter}");
    }
}

#[test]
fn a_filter_that_is_wrong_says_what_was_expected() {
    let said = |text: &str| text.parse::<Filter>().unwrap_err().to_string();
    assert_eq!(
        said("port https"),
        "`https` in the filter: expected a port number"
    );
    assert_eq!(
        said("host store.example"),
        "`store.example` in the filter: expected an address (names are not resolved)"
    );
    assert_eq!(
        said("tcp and"),
        std::format!(
            "the filter ends where {} was expected",
            super::super::filter::PRIMITIVE
        )
    );
    assert_eq!(
        said("tcp udp"),
        "`udp` in the filter: expected `and`, `or` or the end"
    );
    assert!(said("net 10.0.0.0/33").contains("10.0.0.0/33"));
    assert_eq!(
        "(".repeat(100_000).parse::<Filter>(),
        Err(FilterError::Depth)
    );
}

#[test]
fn a_session_is_left_out_both_ways_and_nothing_else() {
    let filter = Filter::without_session(
        ("10.1.2.3".parse().unwrap(), 40_000),
        ("203.0.113.7".parse().unwrap(), 443),
    );
    let seen = |line: &str| {
        let text = std::format!("12:00:00.5 IP {line}\n");
        let mut observations = Observations::new(text.as_bytes());
        filter.matches(&observations.next_observation().unwrap().unwrap())
    };
    assert!(!seen(SEGMENT));
    assert!(!seen(
        "203.0.113.7.443 > 10.1.2.3.40000: Flags [.], ack 1, win 9, length 0"
    ));
    assert!(seen(
        "203.0.113.7.443 > 10.1.2.3.40001: Flags [.], ack 1, win 9, length 0"
    ));
    assert!(filter.matches(&Observation::Other("ARP")));
}

proptest! {
    #[test]
    fn any_words_are_a_filter_or_an_error(
        words in proptest::collection::vec(
            proptest::sample::select(
                &[
                    "tcp", "and", "or", "not", "(", ")", "host", "port", "net", "1.2.3.4", "::1/12", "80",
                    "src",
                ][..],
            ),
            0..20,
        ),
        noise in ".{0,12}",
    ) {
        for text in [words.join(" "), words.join(" ") + &noise, String::from(&noise)] {
            if let Ok(filter) = text.parse::<Filter>() {
                let _judged = filter.matches(&Observation::Other("ARP"));
            }
        }
    }
}
