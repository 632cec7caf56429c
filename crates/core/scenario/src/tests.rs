use std::time::Duration;

use proptest::prelude::*;

use super::*;

const SOUND: &str = r#"
    name = "c-uploads"
    seed = 7
    [path]
    rtt = "200.4 ms"
    rate = "100 Mbit/s"
    queue = "2500 kB"
    [relays.hot]
    [[workloads]]
    name = "100 KiB"
    bytes = "100 KiB"
    reported.direct = ["1017 ms"]
    assert = ["max(relay) <= 1.15 * floor", "prediction-error(relay) <= 20 %"]
    [[arms]]
    name = "direct"
    [[arms]]
    name = "relay"
    relay = "hot"
    [experiment]
    explains = "direct"
    predicts = "relay"
"#;

#[test]
fn a_sound_scenario_has_no_problems() {
    let scenario: Scenario = toml::from_str(SOUND).unwrap();
    assert_eq!(scenario.problems(), []);
    assert_eq!(scenario.path.rtt.get(), Duration::from_micros(200_400));
    assert_eq!(scenario.experiment.runs, 20);
    let floor = scenario.workloads[0].floor(&scenario.path).unwrap().total();
    assert_eq!(floor.as_micros(), 208_887);
}

#[test]
fn all_problems_are_reported_at_once() {
    let broken = SOUND
        .replace("relay = \"hot\"", "relay = \"hto\"")
        .replace("2500 kB", "100 B")
        .replace("max(relay)", "max(rely)")
        .replace("explains = \"direct\"", "runs = 7\nblock = 5");
    let scenario: Scenario = toml::from_str(&broken).unwrap();
    let problems: Vec<String> = scenario
        .problems()
        .iter()
        .map(ToString::to_string)
        .collect();
    assert_eq!(
        problems,
        [
            "`path.queue`: 100 B does not hold one packet of 1500 B",
            "`experiment.runs`: 7 runs do not divide into blocks of 5; choose 5 or 10",
            "`arms[1].relay`: there is no `[relays.hto]`; known relays: `hot`",
            "`experiment.predicts`: a prediction needs an arm to explain: set `explains` too",
            "`workloads[0]`: there is no arm `rely`; known arms: `direct`, `relay`",
        ]
    );
}

#[test]
fn a_prediction_has_an_arm_of_its_own_and_an_assertion_has_a_prediction() {
    let problems = |text: &str| -> Vec<String> {
        let scenario: Scenario = toml::from_str(text).unwrap();
        scenario
            .problems()
            .iter()
            .map(ToString::to_string)
            .collect()
    };
    assert_eq!(
        problems(&SOUND.replace("explains = \"direct\"", "explains = \"relay\"")),
        [
            "`experiment.predicts`: an arm can't be predicted from its own captures: name another one"
        ]
    );
    assert_eq!(
        problems(&SOUND.replace("predicts = \"relay\"", "")),
        [
            "`workloads[0].assert`: `prediction-error(relay) <= 20 %` needs a prediction: set \
          `experiment.predicts = \"relay\"`"
        ]
    );
}

#[test]
fn runs_that_do_not_divide_are_told_the_nearest_that_do() {
    let problem = |runs, block| {
        let experiment = Experiment {
            runs,
            block,
            ..Experiment::default()
        };
        experiment.problem_of_runs().unwrap_or_default()
    };
    assert_eq!(problem(20, 5), "");
    assert_eq!(
        problem(7, 5),
        "7 runs do not divide into blocks of 5; choose 5 or 10"
    );
    assert_eq!(
        problem(3, 5),
        "3 runs do not divide into blocks of 5; choose 5"
    );
    assert!(problem(0, 5).contains("0 runs"));
    assert!(problem(5, 0).contains("experiment.block"));
}

#[test]
fn a_relay_that_ends_tls_wants_some_and_one_that_reads_requests_wants_none() {
    let problems = |text: &str| -> Vec<String> {
        let scenario: Scenario = toml::from_str(text).unwrap();
        let problems = scenario.problems();
        problems.iter().map(ToString::to_string).collect()
    };
    let ends = SOUND.replace(
        "[relays.hot]",
        "[relays.hot]\nmode = \"tls\"\ntls-profile = \"s3\"",
    );
    assert_eq!(
        problems(&ends),
        [
            "`workloads[0]`: in arm `relay` `[relays.hot]` ends TLS, and this is in the clear: set `tls`, here \
             or there"
        ]
    );
    let spoken = ends.replace("relay = \"hot\"", "relay = \"hot\"\ntls = \"1.2\"");
    assert_eq!(problems(&spoken), [""; 0]);
    let hidden = spoken.replace("mode = \"tls\"", "mode = \"http\"");
    assert_eq!(
        problems(&hidden),
        [
            "`relays.hot.tls-profile`: only a relay that ends TLS has one: set `mode = \"tls\"`",
            "`workloads[0]`: in arm `relay` `[relays.hot]` reads requests, which TLS hides: give it \
             `mode = \"tls\"`, or `\"tcp\"`",
        ]
    );
    let deaf = SOUND.replace(
        "[relays.hot]",
        "[relays.hot]\nmode = \"tcp\"\nexpect = \"answer\"",
    );
    assert!(
        problems(&deaf).contains(
            &"`relays.hot.expect`: only our relay that reads requests can answer them: set `mode = \"http\"`, without \
              `command`"
                .to_owned()
        ),
        "{:?}",
        problems(&deaf)
    );
}

#[test]
fn unknown_keys_and_bare_numbers_are_refused() {
    let error = toml::from_str::<Scenario>(&SOUND.replace("queue =", "que =")).unwrap_err();
    assert!(error.to_string().contains("que"), "{error}");
    let error =
        toml::from_str::<Scenario>(&SOUND.replace("\"200.4 ms\"", "\"200.4\"")).unwrap_err();
    assert!(
        error.to_string().contains("a time with its unit"),
        "{error}"
    );
}

#[test]
fn assertions_compare_what_they_say() {
    let value = |statistic: Statistic, arm: &str| match (statistic, arm) {
        (Statistic::Median, "direct") => Some(1.0),
        (Statistic::Max, "relay") => Some(0.24),
        (Statistic::PredictionError, "relay") => Some(0.05),
        _ => None,
    };
    let ground = Ground {
        floor_s: Some(0.2),
        rate_bps: Some(100e6),
    };
    let holds = |text: &str| {
        text.parse::<Assertion>()
            .unwrap()
            .check(ground, value)
            .map(|(holds, _, _)| holds)
    };
    assert_eq!(holds("max(relay) <= 1.2 * floor"), Some(true));
    assert_eq!(holds("max(relay) <= 1.19 * floor"), Some(false));
    assert_eq!(holds("median(direct) >= 915 ms"), Some(true));
    assert_eq!(holds("max(relay) <= 0.25 * median(direct)"), Some(true));
    assert_eq!(holds("max(relay) >= median(direct)"), Some(false));
    assert_eq!(holds("prediction-error(relay) <= 4 %"), Some(false));
    assert_eq!(
        holds("p95(relay) <= floor"),
        None,
        "a missing number must not pass"
    );
}

#[test]
fn an_unreadable_assertion_says_what_would_be_right() {
    for text in [
        "",
        "max(relay)",
        "max(relay) < 3 s",
        "max() <= floor",
        "max(relay) <= 20 %",
    ] {
        let error = text.parse::<Assertion>().unwrap_err().to_string();
        assert!(error.contains("write for example"), "{error}");
    }
}

proptest! {
    #[test]
    fn the_assertion_parser_never_panics(text in ".{0,40}") {
        let _ = text.parse::<Assertion>();
    }
}
