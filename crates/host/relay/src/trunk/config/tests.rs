use super::*;

const NEAR: &str = r#"
[[near]]
via = ["site-b:7000"]
[[near.listeners]]
listen = "0.0.0.0:6000"
to = "aix-vm-2:22"
"#;

fn problems(text: &str) -> Vec<String> {
    let error = TrunkConfig::from_toml(text).unwrap_err();
    let problems = error.problems().iter();
    problems
        .map(|problem| format!("{}: {}", problem.key, problem.what))
        .collect()
}

#[test]
fn one_far_relay_and_one_listener_are_enough() {
    let config = TrunkConfig::from_toml(NEAR).unwrap();
    let near = &config.near[0];
    assert_eq!(near.end.name, "site-b:7000");
    assert_eq!(near.end.wan_profile.name, "wan");
    assert_eq!(near.end.limits.outage, Duration::from_mins(1));
    let identity = DEFAULT_IDENTITY.into();
    let trust = Vec::new();
    assert_eq!(near.end.security, Security::Pinned { identity, trust });
    let allow = &near.end.listeners[0].allow;
    let admits = |address: &str| {
        let address = address.parse().unwrap();
        allow.iter().any(|block| block.contains(address))
    };
    assert!(admits("10.10.10.7") && admits("127.0.0.1") && !admits("203.0.113.1"));
}

#[test]
fn a_printed_configuration_reads_back_as_itself() {
    let options = TrunkOptions::far(FarOptions {
        listen: "0.0.0.0:7000".into(),
        allow_targets: vec!["10.20.20.0/24:22".into()],
        security: SecurityOptions {
            identity: Some("/tmp/id".into()),
            ..SecurityOptions::default()
        },
        ..FarOptions::default()
    })
    .with_status("127.0.0.1:7070".parse().unwrap());
    let text = options.to_toml().unwrap();
    let read = TrunkConfig::from_toml(&text).unwrap();
    assert_eq!(read, options.resolve().unwrap(), "{text}");
}

#[test]
fn everything_that_is_wrong_is_told_with_its_line() {
    let text = "[[near]]\nvia = [\"site-b\"]\n[[near.listeners]]\nlisten = \"6000\"\nto = \"aix\"\nallw = []\n";
    let error = TrunkConfig::from_toml(text).unwrap_err();
    let told = error.problems().iter();
    let told: Vec<_> = told
        .map(|problem| {
            let line = problem.position.as_ref().map_or(0, |at| at.line);
            (line, problem.key.as_str())
        })
        .collect();
    assert_eq!(
        told,
        [
            (2, "near.via"),
            (4, "near.listeners.listen"),
            (5, "near.listeners.to"),
            (6, "near.listeners.allw"),
        ]
    );
}

#[test]
fn a_far_end_that_may_open_nothing_is_refused() {
    let found = problems("[[far]]\nlisten = \"0.0.0.0:7000\"\n");
    assert!(
        found[0].starts_with("far: ") && found[0].contains("allow-targets"),
        "{found:?}"
    );
}

#[test]
fn a_plain_far_end_open_to_everybody_is_refused_as_an_open_relay() {
    let far = |allow: &str, security: &str| {
        format!(
            "[[far]]\nlisten = \"0.0.0.0:7000\"\nallow-targets = [\"10.0.0.0/8:22\"]\n{allow}\n[far.security]\n{security}\n"
        )
    };
    let found = problems(&far("allow = [\"0.0.0.0/0\"]", "plain = true"));
    assert!(found[0].contains("open relay"), "{found:?}");
    let plain = TrunkConfig::from_toml(&far("", "plain = true")).unwrap();
    let outside = "203.0.113.1".parse().unwrap();
    assert!(
        !plain.far[0]
            .allow
            .iter()
            .any(|block| block.contains(outside))
    );
    let with_tls = TrunkConfig::from_toml(&far("", "")).unwrap();
    assert!(
        with_tls.far[0]
            .allow
            .iter()
            .any(|block| block.contains(outside))
    );
}

#[test]
fn all_problems_are_told_at_once_with_their_place() {
    let found = problems(
        r#"
status = "0.0.0.0:80"
[[near]]
via = ["nowhere"]
wan-profile = "warp"
allow-targets = ["0.0.0.0/0:*"]
[near.security]
plain = true
identity = "x"
[near.limits]
wan-connections = 0
connect-timeout = "0 s"
[[near.listeners]]
listen = "6000"
to = "aix"
"#,
    );
    for part in [
        "near.via: ",
        "warp",
        "every port of every host",
        "one of three",
        "limits.wan-connections",
        "limits.connect-timeout",
        "near.listeners.listen: ",
        "near.listeners.to: ",
        "status",
    ] {
        assert!(
            found.iter().any(|problem| problem.contains(part)),
            "{part}: {found:#?}"
        );
    }
}

#[test]
fn an_unknown_key_is_shown_with_what_there_is() {
    let text = NEAR.replace("via", "vai");
    let error = TrunkConfig::from_toml(&text).unwrap_err();
    let told = error.to_string();
    assert!(told.contains("vai") && told.contains("`via`"), "{told}");
}

#[test]
fn the_pieces_of_an_authority_belong_together() {
    let text = NEAR.replace(
        "[[near.listeners]]",
        "[near.security]\ncertificate = \"a.pem\"\n[[near.listeners]]",
    );
    let found = problems(&text);
    assert!(found[0].contains("private-key"), "{found:?}");
}

#[test]
fn the_example_has_every_default() {
    let text = include_str!("../../../../../../examples/trunk.toml");
    let written = TrunkConfig::from_toml(text).unwrap();
    assert_eq!(written.probe_every, Some(Duration::from_mins(1)));
    let default = TrunkConfig::from_toml(NEAR).unwrap();
    for end in written.ends() {
        let default = &default.near[0].end;
        assert_eq!(end.limits, default.limits);
        assert_eq!((end.padding, end.guard), (default.padding, default.guard));
        assert_eq!(end.digest, default.digest);
        assert_eq!(end.wan_profile, default.wan_profile);
        assert_eq!(end.lan_profile, default.lan_profile);
    }
    assert_eq!(
        written.near[0].end.listeners[0].allow,
        default.near[0].end.listeners[0].allow
    );
}

#[test]
fn what_a_trunk_may_do_is_checked_where_it_is_written() {
    let found = problems(&format!(
        "probe-every = \"10 ms\"\nthreads = 0\n{NEAR}\n[near.guard]\nqueueing-delay = \"0 s\"\nretransmissions = \"0.01 %\"\n\
         [near.limits]\nmin-wan-connections = 9\n"
    ));
    for part in [
        "probe-every",
        "threads: it is not between 1 and 256",
        "guard.queueing-delay",
        "guard.retransmissions",
        "min-wan-connections",
    ] {
        assert!(
            found.iter().any(|problem| problem.contains(part)),
            "{part}: {found:?}"
        );
    }
}
