use proptest::prelude::*;
use record::top::{Process, Role, State};

use super::{at, seen};
use crate::{Filter, Watched};

fn matches(filter: &str) -> bool {
    let mut watched = Watched::new(1, seen(1, 0, 0), Role::Client, at(0), true);
    watched.process = Some(Process {
        pid: 42,
        name: "nginx".to_owned(),
    });
    let filter: Filter = filter.parse().unwrap();
    filter.matches(&watched)
}

#[test]
fn a_filter_reads_as_it_would_for_ss() {
    for (filter, holds) in [
        ("", true),
        ("dport = :443", true),
        ("dport :443", true),
        ("sport = :443", false),
        ("port 443", true),
        ("dport=443", true),
        ("dport != 443", false),
        ("sport >= :40000 and sport <= :40000", true),
        ("sport > 40000", false),
        ("dst 203.0.113.0/24", true),
        ("dst 203.0.113.8/31", false),
        ("dst 203.0.113.6/31", true),
        ("src 0.0.0.0/0", true),
        ("dst [2001:db8::1]", false),
        ("host 10.0.0.1", true),
        ("state established", true),
        ("state connected", true),
        ("state close-wait or state established", true),
        ("state close-wait dport 443", false),
        ("not state close-wait", true),
        ("( dport 443 or dport 80 ) and process nginx", true),
        ("(dport 443 or dport 80) and not process ngi", false),
        ("pid 42 uid 1000 cc cubic limit unknown", true),
        ("limit receive-window", false),
        ("! pid 42", false),
    ] {
        assert_eq!(matches(filter), holds, "{filter}");
    }
}

#[test]
fn what_is_not_understood_is_named_with_its_place() {
    for (filter, says) in [
        (
            "dport",
            "expected a port in the filter `dport`, at `its end`",
        ),
        ("dport 70000", "expected a port"),
        ("dst example.org", "`example.org` is no address"),
        ("dst 10.0.0.0/33", "no address"),
        ("state open", "expected a state"),
        ("( dport 80", "parenthesis is not closed"),
        ("dport 80 )", "expected `and`, `or` or the end"),
        ("colour red", "at `colour red`"),
        ("dport 80 or", "at `its end`"),
        ("dport => 80", "expected `=`"),
    ] {
        let error = filter.parse::<Filter>().unwrap_err().to_string();
        assert!(error.contains(says), "{filter}: {error}");
    }
    let deep = "(".repeat(10_000);
    assert!(deep.parse::<Filter>().is_err());
}

#[test]
fn a_filter_knows_which_states_it_asks_for() {
    let names = |text: &str, state| text.parse::<Filter>().unwrap().names(state);
    assert!(names(
        "dport 80 and (state time-wait or pid 1)",
        State::TimeWait
    ));
    assert!(names("state all", State::Listening));
    assert!(!names("state connected", State::Listening));
    assert!(!names("dport 80", State::TimeWait));
}

proptest! {
    #[test]
    fn no_text_makes_the_parser_panic(text in "[a-z0-9:./()!<>= \\[\\]|&-]{0,60}") {
        let _ = text.parse::<Filter>();
    }
}
