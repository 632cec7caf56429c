use std::collections::BTreeMap;
use std::string::{String, ToString};
use std::time::Duration;
use std::vec::Vec;

use units::{Bytes, Rate};

use crate::{ProfileError, ProfileSet, RawTcpProfile, builtin};

fn set(text: &str) -> ProfileSet {
    let written: BTreeMap<String, RawTcpProfile> = toml::from_str(text).unwrap();
    ProfileSet::new(written)
}

#[test]
fn every_built_in_profile_is_found_by_its_name_and_is_valid() {
    for name in builtin::NAMES {
        let profile = builtin::find(name).unwrap();
        assert_eq!(profile.name, name);
        assert_eq!(profile.problems(), Vec::<String>::new());
        assert_eq!(ProfileSet::default().resolve(name), Ok(profile));
    }
}

#[test]
fn a_profile_inherits_what_it_does_not_say() {
    let set = set(r#"
        [site]
        extends = "s3"
        max-pacing-rate = "95 Mbit/s"
        user-timeout = "off"

        [site-slow]
        extends = "site"
        max-pacing-rate = "2 Mbit/s"
        keep-alive-idle = "20 s"
    "#);
    let slow = set.resolve("site-slow").unwrap();
    assert_eq!(slow.name, "site-slow");
    assert_eq!(slow.max_pacing_rate, Some(Rate::mbit_per_s(2)));
    assert_eq!(slow.user_timeout, None);
    assert_eq!(slow.notsent_low_water, Some(Bytes::kib(256)));
    let keep_alive = slow.keep_alive.unwrap();
    assert_eq!(keep_alive.idle, Duration::from_secs(20));
    assert_eq!(keep_alive.probes, builtin::s3().keep_alive.unwrap().probes);
}

#[test]
fn probes_can_be_switched_off_and_on_again() {
    let set = set(r#"
        [silent]
        keep-alive-idle = "off"
        [loud]
        extends = "silent"
        keep-alive-idle = "5 s"
    "#);
    assert_eq!(set.resolve("silent").unwrap().keep_alive, None);
    let loud = set.resolve("loud").unwrap().keep_alive.unwrap();
    assert_eq!(loud.idle, Duration::from_secs(5));
}

#[test]
fn a_circle_is_named_with_its_chain() {
    let set = set("[a]\nextends = \"b\"\n[b]\nextends = \"a\"\n");
    let errors = set.resolve("a").unwrap_err();
    assert_eq!(
        errors[0].to_string(),
        "profile `a` extends itself: a -> b -> a"
    );
}

#[test]
fn an_unknown_name_is_answered_with_the_known_ones() {
    let errors = set("[mine]").resolve("lann").unwrap_err();
    assert_eq!(
        errors[0].to_string(),
        "there is no profile `lann`; known are lan, wan, s3, mobile, satellite, legacy, mine"
    );
}

#[test]
fn all_problems_are_told_at_once() {
    let set = set(r#"
        [wan]
        nagle = true
        [broken]
        keep-alive-idle = "500 ms"
        keep-alive-probes = 200
        congestion-control = ["a name with spaces"]
        [lost]
        extends = "nowhere"
    "#);
    let problems = set.problems();
    assert_eq!(problems.len(), 5, "{problems:?}");
    assert!(problems.contains(&ProfileError::Shadowed { name: "wan".into() }));
}

#[test]
fn an_unknown_field_and_a_number_without_unit_are_refused() {
    for text in [
        "[a]\ncongestion = \"cubic\"",
        "[a]\nuser-timeout = 30",
        "[a]\nuser-timeout = \"30\"",
    ] {
        assert!(
            toml::from_str::<BTreeMap<String, RawTcpProfile>>(text).is_err(),
            "{text}"
        );
    }
}

#[test]
fn the_order_for_forgetting_hosts_is_taken_there_only_and_not_inherited_past_an_order_of_ones_own()
{
    let s3 = builtin::s3();
    assert_eq!(
        s3.clone().on_host(true).congestion_control,
        ["bbr", "cubic"]
    );
    assert_eq!(s3.on_host(false).congestion_control, ["cubic", "bbr"]);
    let set = set(
        "[a]\nextends = \"s3\"\n[b]\nextends = \"s3\"\ncongestion-control = [\"reno\"]\n\
         [c]\nextends = \"b\"\ncongestion-control-forgetting = [\"bbr\"]",
    );
    let on = |name: &str| set.resolve(name).unwrap().on_host(true).congestion_control;
    assert_eq!(on("a"), ["bbr", "cubic"]);
    assert_eq!(on("b"), ["reno"]);
    assert_eq!(on("c"), ["bbr"]);
}

#[test]
fn bounds_are_inherited_undone_and_checked() {
    let set = set(r#"
        [small]
        send-buffer = "64 KiB"
        receive-buffer = "64 KiB"
        max-segment = "1200 B"
        syn-retries = 2
        dscp = 46
        [auto]
        extends = "small"
        send-buffer = "off"
        max-segment = "off"
        [wrong]
        receive-buffer = "1 KiB"
        max-segment = "40 B"
        syn-retries = 0
        dscp = 64
    "#);
    let auto = set.resolve("auto").unwrap();
    assert_eq!((auto.send_buffer, auto.max_segment), (None, None));
    assert_eq!(auto.receive_buffer, Some(Bytes::kib(64)));
    assert_eq!((auto.syn_retries, auto.dscp), (Some(2), Some(46)));
    assert_eq!(set.resolve("wrong").unwrap_err().len(), 4);
}

#[test]
fn no_built_in_profile_ends_autotuning() {
    for name in builtin::NAMES {
        let profile = builtin::find(name).unwrap();
        assert_eq!(
            (profile.send_buffer, profile.receive_buffer),
            (None, None),
            "{name}"
        );
    }
}
