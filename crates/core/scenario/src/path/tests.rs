use std::time::Duration;

use link::{QueueLimit, Trace};

use super::*;

fn path(text: &str) -> Path {
    toml::from_str(text).unwrap()
}

fn problems(text: &str) -> Vec<String> {
    let problems = path(text).problems();
    let lines = problems
        .iter()
        .map(|(field, message)| format!("{field}: {message}"));
    lines.collect()
}

const PLAIN: &str = "rtt = \"70 ms\"\nrate = \"10 Mbit/s\"\nqueue = \"100 kB\"\n";

#[test]
fn the_four_plain_fields_mean_what_they_always_meant() {
    let path = path(&format!("{PLAIN}loss = \"0.5 %\""));
    let loss = LossSpec::Bernoulli(LossRate::per_billion(5_000_000).unwrap());
    let rate = Rate::mbit_per_s(10);
    let rtt = Duration::from_millis(70);
    let expected = PathSpec::symmetric(rtt, Some(rate), Bytes::new(100_000), loss, 3);
    assert_eq!(path.spec(3), expected);
    assert_eq!(path.bottleneck_rate(), rate);
    assert_eq!(
        path.to_string(),
        "70 ms round trip, 10 Mbit/s, queue 100 kB, loss 0.5 % each way"
    );
}

#[test]
fn every_field_reaches_the_model() {
    let text = r#"
        rtt = "100 ms"
        rate = "10 Mbit/s"
        queue = "0.5 BDP"
        discipline = { codel = { target = "10 ms", ecn = true } }
        policer = { rate = "8 Mbit/s", burst = "64 KiB" }
        jitter = { normal = { mean = "4 ms", deviation = "1 ms" }, correlation = "25 %" }
        order = "free"
        reorder = { share = "1 %", late = "5 ms" }
        duplicate = "0.1 %"
        corrupt = "0.01 %"
        loss = { gilbert-elliott = { loss = "1 %", burst = 5 } }
        [forward]
        queue = "100 packets"
        discipline = "red"
        loss = { every = 1000 }
        [backward]
        rate = "50 Mbit/s"
        loss = { packets = [3, 4] }
        [[schedule]]
        at = "5 s"
        for = "300 ms"
        every = "15 s"
        outage = "hold"
        [[schedule]]
        at = "20 s"
        direction = "forward"
        rate = "2 Mbit/s"
        rtt = "140 ms"
        loss = "2 %"
    "#;
    let path = path(text);
    assert_eq!(path.problems(), []);
    let spec = path.spec(1);
    assert_eq!(spec.validate(), Ok(()));
    let share = |billionths| LossRate::per_billion(billionths).unwrap();
    let (forward, backward) = (&spec.forward, &spec.backward);
    assert_eq!(forward.queue, QueueLimit::Packets(100));
    let Discipline::Red(red) = forward.discipline else {
        panic!("{:?}", forward.discipline)
    };
    assert_eq!(
        (red.min, red.max),
        (QueueLimit::Packets(8), QueueLimit::Packets(25))
    );
    assert_eq!(forward.loss, LossSpec::Every(1000));
    assert_eq!(forward.schedule.len(), 2);
    assert_eq!(
        forward.schedule[1].one_way_delay,
        Some(Duration::from_millis(70))
    );
    assert_eq!(path.bottleneck_rate(), Rate::mbit_per_s(8));
    // Half of 50 Mbit/s x 100 ms.
    assert_eq!(backward.queue, QueueLimit::Bytes(Bytes::new(312_500)));
    let Discipline::CoDel(codel) = backward.discipline else {
        panic!("{:?}", backward.discipline)
    };
    assert_eq!(codel.target, Duration::from_millis(10));
    assert_eq!(codel.interval, Duration::from_millis(100));
    assert!(codel.ecn);
    assert_eq!(backward.loss, LossSpec::Listed(vec![3, 4]));
    assert_eq!(backward.schedule.len(), 1);
    for direction in [forward, backward] {
        assert_eq!(direction.order, Order::Free);
        assert_eq!(direction.duplicate, share(1_000_000));
        assert_eq!(direction.corrupt, share(100_000));
        assert!(direction.jitter.is_some() && direction.reorder.is_some());
    }
}

#[test]
fn a_trace_is_read_by_the_caller_and_refused_until_then() {
    let mut path = path("rtt = \"40 ms\"\ntrace = \"lte.trace\"\nqueue = \"50 packets\"");
    assert_eq!(path.problems(), []);
    assert!(
        path.spec(0).validate().is_err(),
        "an unread trace is no path"
    );
    for trace in path.traces_mut() {
        assert_eq!(trace.name(), "lte.trace");
        trace.read("1\n2\n3\n").unwrap();
    }
    let spec = path.spec(0);
    assert_eq!(spec.validate(), Ok(()));
    assert_eq!(spec.forward.trace, Some(Trace::parse("1\n2\n3\n").unwrap()));
    assert_eq!(path.bottleneck_rate(), Rate::mbit_per_s(12));
}

#[test]
fn problems_name_the_field_and_the_direction() {
    assert_eq!(problems(PLAIN), Vec::<String>::new());
    assert_eq!(
        problems("rtt = \"70 ms\""),
        ["path.rate: say how fast it is: set `rate`, `trace` or `policer`"]
    );
    assert_eq!(
        problems("rtt = \"70 ms\"\nrate = \"1 kbit/s\""),
        [
            "path.rate: 1 kbit/s is below the least rate of 10 kbit/s",
            "path.queue: say how much may wait for the bottleneck, such as `\"1 BDP\"`",
        ]
    );
    assert_eq!(
        problems(&format!(
            "{PLAIN}[forward]\nqueue = \"0 packets\"\n[backward]\nqueue = \"9 B\""
        )),
        [
            "path.forward.queue: 0 packets does not hold one packet of 1500 B",
            "path.backward.queue: 9 B does not hold one packet of 1500 B",
        ]
    );
    assert_eq!(
        problems(&format!(
            "{PLAIN}policer = {{ rate = \"1 Mbit/s\", burst = \"1 kB\" }}"
        )),
        [
            "path.policer.burst: the policer's burst of 1 kB lets no full packet pass; give it at \
          least 1500 B"
        ]
    );
    assert_eq!(
        problems(&format!("{PLAIN}[[schedule]]\nat = \"1 s\"")),
        ["path.schedule[0]: change 0 of the schedule changes nothing"]
    );
}

#[test]
fn what_cannot_be_read_says_what_would_be_right() {
    let error = |line: &str| {
        let text = format!("rtt = \"70 ms\"\n{line}");
        toml::from_str::<Path>(&text).unwrap_err().to_string()
    };
    assert!(error("queue = \"5 bdps\"").contains("`0.5 BDP`"));
    assert!(error("queue = \"0.12345 BDP\"").contains("`0.5 BDP`"));
    assert!(error("discipline = \"fq\"").contains("droptail"));
    assert!(error("discipline = { codel = {}, red = {} }").contains("droptail"));
    assert!(error("discipline = { codel = { tarjet = \"5 ms\" } }").contains("tarjet"));
    assert!(error("loss = { every = 3, packets = [1] }").contains("gilbert-elliott"));
    assert!(error("loss = \"150 %\"").contains("a share"));
    assert!(error("jitter = { correlation = \"5 %\" }").contains("`pareto`"));
    assert!(error("reorder = { share = \"1 %\" }").contains("`early`"));
    assert!(error("[forward]\nrtt = \"1 ms\"").contains("rtt"));
}

#[test]
fn sizes_of_queues_are_written_as_they_are_read() {
    for text in ["256 KiB", "100 packets", "1 BDP", "0.5 BDP", "2.125 BDP"] {
        let size: QueueSize = text.parse().unwrap();
        assert_eq!(size.to_string(), text);
    }
}
