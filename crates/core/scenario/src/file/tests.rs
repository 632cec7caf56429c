use std::time::Duration;

use proptest::prelude::*;

use super::*;

const SOUND: &str = r#"
    name = "s"
    seed = 1
    [path]
    rtt = "20 ms"
    rate = "10 Mbit/s"
    queue = "100 kB"
    [[workloads]]
    name = "bulk"
    bytes = "1 MB"
    [[arms]]
    name = "direct"
    [[arms]]
    name = "relay"
    relay = "hot"
    [relays.hot]
"#;

fn problems(text: &str) -> Vec<String> {
    match read(text) {
        Ok(_) => Vec::new(),
        Err(FileError::Unsound { problems }) => problems.iter().map(ToString::to_string).collect(),
        Err(FileError::Syntax { source }) => vec![source.to_string()],
    }
}

#[test]
fn a_file_without_factors_is_one_variant() {
    let variants = read(SOUND).unwrap();
    assert_eq!(variants.len(), 1);
    assert!(variants[0].factors.is_empty());
    assert_eq!(variants[0].scenario.arms[1].relay.hops(), ["hot"]);
}

#[test]
fn every_wrong_field_is_told_at_once_with_its_path() {
    let broken = SOUND
        .replace("rtt = \"20 ms\"", "rtt = \"20\"")
        .replace("queue", "que")
        .replace("bytes = \"1 MB\"", "bytes = 5\nkind = \"uplaod\"")
        .replace("seed = 1", "[hosts.cleint]\ncongestion-control = \"bbr\"");
    assert_eq!(
        problems(&broken),
        [
            "`hosts.cleint`: there is no `cleint`; did you mean `client`?",
            "`path.que`: there is no `que`; did you mean `queue`?",
            "`path.rtt`: `20` is not a time with its unit, such as `200.4 ms`, `30 s` or `5 min`",
            "`workloads[0].bytes`: wants a size with its unit, such as \"64 KiB\", not integer `5`",
            "`workloads[0].kind`: there is no `uplaod`; did you mean `upload`?",
            "`the file`: `seed` is missing",
        ]
    );
}

#[test]
fn a_queue_without_its_unit_is_told_what_a_queue_is() {
    assert_eq!(
        problems(&SOUND.replace("\"100 kB\"", "0")),
        [
            "`path.queue`: wants a queue's size, such as \"256 KiB\", \"100 packets\" or \"0.5 BDP\", not \
             integer `0`"
        ]
    );
}

#[test]
fn a_field_of_few_words_says_which() {
    assert_eq!(
        problems(&format!("{SOUND}\n[experiment]\ncapture = true\n")),
        ["`experiment.capture`: wants one of `client`, `all`, `none`, not boolean `true`"]
    );
}

/// 4,000 flows were refused in a workload, and any number was taken in an arm.
#[test]
fn thousands_of_connections_are_sound_and_what_is_beyond_them_is_told_wherever_it_stands() {
    let with = |workload: u32, arm: u32| {
        let many = format!("kind = \"stream\"\n    parallel = {workload}\n    bytes =");
        let here = format!("name = \"direct\"\n    parallel = {arm}");
        SOUND
            .replace("bytes =", &many)
            .replace("name = \"direct\"", &here)
            .replace("relay = \"hot\"", "")
            .replace("[relays.hot]", "")
    };
    assert_eq!(problems(&with(4_000, 4_096)), [] as [&str; 0]);
    assert_eq!(
        problems(&with(4_097, 5_000)),
        [
            "`arms[0].parallel`: 5000 is outside 1 to 4096",
            "`workloads[0].parallel`: 4097 is outside 1 to 4096",
        ]
    );
}

#[test]
fn what_is_wrong_between_sound_fields_is_told_beside_faulty_ones() {
    let broken = SOUND
        .replace("seed = 1", "")
        .replace("rtt = \"20 ms\"", "rtt = \"20\"")
        .replace("bytes = \"1 MB\"", "kind = \"stream\"")
        .replace("relay = \"hot\"", "relay = \"warm\"");
    let told = problems(&broken);
    assert_eq!(told.len(), 3, "{told:#?}");
    assert!(
        told[0].starts_with("`path.rtt`: `20` is not a time"),
        "{told:#?}"
    );
    assert_eq!(told[1], "`the file`: `seed` is missing");
    // The workload has no size, but what is said of workloads depends on the path.
    assert!(told[2].starts_with("`arms[1].relay`"), "{told:#?}");

    // A fault of the relay may be why the arm does not find what it wants.
    let broken = broken.replace("[relays.hot]", "[relays.hot]\nat = \"nowhere\"");
    let told = problems(&broken);
    assert!(!told.iter().any(|one| one.contains("warm")), "{told:#?}");

    let assertion = SOUND.replace("bytes", "assert = [\"max(relay) <= 1 * flor\"]\nbytes");
    let told = problems(&assertion.replace("relay = \"hot\"", "relay = \"warm\""));
    assert_eq!(told.len(), 2, "{told:#?}");
}

#[test]
fn what_is_missing_in_several_tables_is_told_at_once() {
    let broken = SOUND
        .replace("    name = \"bulk\"\n", "")
        .replace("rtt = ", "# ");
    assert_eq!(
        problems(&broken),
        [
            "`path`: `rtt` is missing",
            "`workloads[0]`: `name` is missing"
        ]
    );
}

#[test]
fn factors_give_every_combination_the_last_changing_fastest() {
    let text = format!(
        "{SOUND}\n[factors]\n\"path.rtt\" = [\"20 ms\", \"70 ms\"]\n\"workloads.bulk.parallel\" = [1, 4]\n"
    );
    let variants = read(&text).unwrap();
    let seen: Vec<(Duration, u32)> = variants
        .iter()
        .map(|variant| {
            let scenario = &variant.scenario;
            (scenario.path.rtt.get(), scenario.workloads[0].parallel())
        })
        .collect();
    let (near, far) = (Duration::from_millis(20), Duration::from_millis(70));
    assert_eq!(seen, [(near, 1), (near, 4), (far, 1), (far, 4)]);
    let last = &variants[3].factors;
    assert_eq!(last["path.rtt"], "70 ms");
    assert_eq!(last["workloads.bulk.parallel"], "4");
}

#[test]
fn a_group_sets_many_fields_under_one_name() {
    let text = format!(
        "{SOUND}{}",
        r#"
        [hosts.client.tcp]
        mss = 1000
        [[factors.stack]]
        name = "wan"
        "hosts.client.congestion-control" = "bbr"
        "arms[0].reuse" = true
        'hosts.client.sysctls."net.ipv4.tcp_sack"' = "0"
        hosts.client.tcp.initial-cwnd = 32
        [[factors.stack]]
        name = "lan"
        "#
    );
    let variants = read(&text).unwrap();
    assert_eq!(variants.len(), 2);
    let wan = &variants[0].scenario;
    let client = &wan.hosts[&crate::HostName::Client];
    assert_eq!(variants[0].factors["stack"], "wan");
    assert_eq!(client.congestion_control.as_deref(), Some("bbr"));
    assert_eq!(client.sysctls["net.ipv4.tcp_sack"], "0");
    assert_eq!(client.tcp.initial_cwnd, Some(32));
    assert_eq!(client.tcp.mss, Some(1_000), "what a group leaves out stays");
    assert!(wan.arms[0].reuse);
    assert!(!variants[1].scenario.arms[0].reuse);
}

#[test]
fn a_problem_of_some_combinations_names_them() {
    let text = format!("{SOUND}\n[factors]\n\"path.queue\" = [\"100 kB\", \"10 B\", \"20 B\"]\n");
    assert_eq!(
        problems(&text),
        [
            "`path.queue`: 10 B does not hold one packet of 1500 B (with path.queue = 10 B)",
            "`path.queue`: 20 B does not hold one packet of 1500 B (with path.queue = 20 B)",
        ]
    );
    let everywhere = text
        .replace("relay = \"hot\"", "relay = \"cold\"")
        .replace("\"10 B\", \"20 B\"", "\"200 kB\"");
    assert_eq!(
        problems(&everywhere),
        ["`arms[1].relay`: there is no `[relays.cold]`; known relays: `hot`"]
    );
}

#[test]
fn factors_that_cannot_be_expanded_say_why() {
    let with = |factors: &str| problems(&format!("{SOUND}\n[factors]\n{factors}\n"));
    assert_eq!(
        with("\"path.rtt\" = []"),
        ["`factors.path.rtt`: has no values; leave it out"]
    );
    assert_eq!(
        with("\"path.rtt\" = \"1 s\""),
        ["`factors.path.rtt`: wants a list of values"]
    );
    assert_eq!(
        with("seed = [1, 1]"),
        ["`factors.seed`: has the same value twice"]
    );
    assert_eq!(
        with("\"workloads.small.bytes\" = [\"1 B\"]"),
        ["`factors.workloads.small.bytes`: `workloads` has no element `small`"]
    );
    assert_eq!(
        with("\"path..rtt\" = [\"1 s\"]"),
        ["`factors.path..rtt`: `path..rtt` is no path to a field, such as `path.rtt`"]
    );
    assert_eq!(
        with("\"path.rt\" = [\"1 s\"]"),
        ["`path.rt`: there is no `rt`; did you mean `rtt`?"]
    );
}

proptest! {
    /// Whatever is replaced by whatever: problems, never a panic.
    #[test]
    fn a_mangled_file_gives_problems_and_never_panics(
        at in 0..SOUND.len(),
        length in 0_usize..12,
        insert in "[ -~]{0,8}",
    ) {
        let mut text = SOUND.to_owned();
        let end = (at + length).min(text.len());
        text.replace_range(at..end, &insert);
        let _ = read(&text);
    }

    #[test]
    fn factor_paths_never_panic(path in "[a-z.\\[\\]\"0-9]{0,20}") {
        let mut document: toml::Table = SOUND.parse().unwrap();
        let factor = toml::Value::Array(vec![toml::Value::String("1 s".to_owned())]);
        let factors = toml::Table::from_iter([(path, factor)]);
        document.insert("factors".to_owned(), toml::Value::Table(factors));
        let _ = expand(&document);
    }
}

#[test]
fn a_trunk_is_a_near_and_a_far_end_and_nothing_else() {
    let text = |near: &str, far: &str, route: &str| {
        format!(
            "name = \"t\"\nseed = 1\n[path]\nrtt = \"20 ms\"\nrate = \"10 Mbit/s\"\nqueue = \"1 BDP\"\n\
             [relays.a]\nmode = \"trunk\"\n{near}\n[relays.b]\nmode = \"trunk\"\n{far}\n\
             [[workloads]]\nname = \"w\"\nkind = \"stream\"\nbytes = \"1 MB\"\n\
             [[arms]]\nname = \"trunk\"\nrelay = {route}\n"
        )
    };
    read(&text("", "at = \"far\"", "[\"a\", \"b\"]")).unwrap();
    for (near, far, route) in [
        ("", "at = \"far\"", "\"a\""),
        ("", "at = \"far\"", "\"b\""),
        ("", "", "[\"a\", \"b\"]"),
    ] {
        let error = read(&text(near, far, route)).unwrap_err().to_string();
        assert!(error.contains("a trunk is two relays"), "{error}");
    }
    let other = "command = \"socat {port} {target}\"";
    let error = read(&text(other, "at = \"far\"", "[\"a\", \"b\"]"))
        .unwrap_err()
        .to_string();
    assert!(error.contains("a trunk is ours at both ends"), "{error}");
}
