use super::*;

fn path() -> Path {
    toml::from_str("rtt = \"100 ms\"\nrate = \"10 Mbit/s\"\nqueue = \"100 kB\"").unwrap()
}

fn workload(text: &str) -> Workload {
    let workload: Workload = toml::from_str(&format!("name = \"w\"\n{text}")).unwrap();
    assert_eq!(workload.problems(), [], "{text}");
    workload
}

/// Floor in microseconds, with its round trips read back from the derivation.
fn floor(text: &str) -> Option<(String, u128)> {
    let floor = workload(text).floor(&path())?;
    let derivation = floor.to_string();
    let trips = derivation.split(' ').next().unwrap().to_owned();
    Some((trips, floor.total().as_micros()))
}

#[test]
fn the_floor_is_the_round_trips_that_a_verb_needs_and_its_packets_at_the_rate() {
    // 1,448,000 B are 1000 full packets of 1500 B: 1.2 s at 10 Mbit/s.
    let packets = 1_200_000;
    let one = |us| Some(("1".to_owned(), us));
    assert_eq!(floor("bytes = \"1448 kB\""), one(100_000 + packets));
    assert_eq!(
        floor("kind = \"download\"\nbytes = \"1448 kB\""),
        one(100_000 + packets)
    );
    assert_eq!(
        floor("kind = \"stream\"\nbytes = \"1448 kB\"\nparallel = 3"),
        one(100_000 + 3 * packets)
    );
    assert_eq!(
        floor("kind = \"download\"\nbytes = \"1448 kB\"\npart = \"100 kB\"\nparallel = 3"),
        one(100_000 + packets),
        "parts share one object"
    );
    assert_eq!(
        floor("sizes = [\"1448 kB\", \"1448 kB\"]"),
        Some(("2".to_owned(), 200_000 + 2 * packets)),
        "the second object follows the first"
    );
    // 64 B there and 64 B back count as one packet of 180 B: 144 us.
    assert_eq!(
        floor("kind = \"exchange\"\ncount = 10"),
        Some(("10".to_owned(), 10 * 100_144))
    );
    assert_eq!(
        floor("kind = \"replicate\"\nbytes = \"1448 kB\"\ncount = 2"),
        one(100_000 + 2 * packets),
        "objects may follow each other without waiting"
    );
}

#[test]
fn what_runs_for_a_time_has_neither_payload_nor_floor() {
    for text in [
        "kind = \"stream\"\nduration = \"20 s\"",
        "kind = \"command\"\ncommand = \"true\"",
    ] {
        let workload = workload(text);
        assert_eq!(workload.payload(1), None, "{text}");
        assert!(workload.floor(&path()).is_none(), "{text}");
    }
}

#[test]
fn payload_counts_connections_and_both_ways() {
    let payload = |text: &str, parallel| workload(text).payload(parallel).unwrap().get();
    assert_eq!(payload("bytes = \"1 kB\"", 4), 4_000);
    assert_eq!(payload("bytes = \"10 MiB\"\npart = \"5 MiB\"", 4), 10 << 20);
    let both = "kind = \"stream\"\ndirection = \"both\"\nbytes = \"1 kB\"";
    assert_eq!(payload(both, 1), 2_000);
}

#[test]
fn fields_of_other_kinds_and_missing_ones_are_told() {
    let problems = |text: &str| -> Vec<String> {
        let workload: Workload = toml::from_str(&format!("name = \"w\"\n{text}")).unwrap();
        let problems = workload.problems();
        problems
            .into_iter()
            .map(|(field, _)| field.to_owned())
            .collect()
    };
    assert_eq!(problems(""), ["bytes"]);
    assert_eq!(problems("bytes = \"1 B\"\nsizes = [\"1 B\"]"), ["sizes"]);
    assert_eq!(
        problems("bytes = \"1 B\"\nidle = \"1 s\"\ncount = 2"),
        ["count", "idle"]
    );
    assert_eq!(problems("kind = \"stream\""), ["duration"]);
    assert_eq!(
        problems("kind = \"stream\"\nbytes = \"1 B\"\nduration = \"1 s\""),
        ["duration"]
    );
    assert_eq!(
        problems("kind = \"stream\"\nbytes = \"1 B\"\npart = \"1 MB\""),
        ["part", "part"]
    );
    assert_eq!(problems("kind = \"burst\"\nbytes = \"1 B\""), ["idle"]);
    assert_eq!(problems("kind = \"command\""), ["command"]);
    assert_eq!(
        problems("kind = \"exchange\"\nrequest = \"0 B\""),
        ["request"]
    );
    assert_eq!(problems("bytes = \"2 GiB\""), ["bytes"]);
    assert_eq!(problems("bytes = \"1 B\"\nparallel = 0"), ["parallel"]);
}

#[test]
fn reports_give_times_or_rates_of_payload() {
    assert_eq!("1.5 s".parse::<Reported>().unwrap().seconds(), Some(1.5));
    let rate = |text: &str| {
        text.parse::<Reported>()
            .unwrap()
            .rate()
            .unwrap()
            .bits_per_s()
    };
    assert_eq!(rate("30 Mbit/s"), 30_000_000);
    assert_eq!(rate("4 MB/s"), 32_000_000);
    assert!("4".parse::<Reported>().unwrap_err().contains("neither"));
}

#[test]
fn ipv6_leaves_20_bytes_less_of_every_packet() {
    let path: Path =
        toml::from_str("ip = \"v6\"\nrtt = \"100 ms\"\nrate = \"10 Mbit/s\"\nqueue = \"100 kB\"")
            .unwrap();
    // 1,428,000 B are 1000 full packets of 1500 B.
    let floor = workload("bytes = \"1428 kB\"").floor(&path).unwrap();
    assert_eq!(floor.total().as_micros(), 1_300_000);
}
