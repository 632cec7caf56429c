use capture::Observations;
use connections::Tracker;
use record::explain::Transfer;
use record::what_if::RemedyName;
use scenario::{HostName, Scenario};

use super::*;

/// A verdict on what a host of the scenario's first arm saw.
fn verdict(scenario: &Scenario, host: HostName) -> Document {
    let mut first = None;
    sim::run_captured(scenario, 1, &[host], &mut |capture| {
        first.get_or_insert(capture.pcapng);
    })
    .unwrap();
    let capture = first.unwrap();
    let mut observations = Observations::new(&capture);
    let mut tracker = Tracker::new();
    while let Some(observation) = observations.next_observation().unwrap() {
        tracker.observe(&observation);
    }
    explain::explain(&tracker.finish(), explain::Options::default())
}

fn scenario(text: &str) -> Scenario {
    let mut variants = scenario::read(text).unwrap();
    variants.remove(0).scenario
}

fn with_outlook(mut document: Document) -> Document {
    let outlook = Outlook::of(&document).unwrap();
    let played: Vec<Outcome> = outlook
        .trials()
        .map(|trial| trial.play(outlook.seed()).unwrap())
        .collect();
    outlook.predict(&mut document, played);
    document
}

fn prediction<'a>(document: &'a Document, finding: &str, remedy: &str) -> Option<&'a Prediction> {
    let finding = document.findings.iter().find(|one| one.name == finding)?;
    finding.predicted.iter().find(|one| one.remedy == remedy)
}

const HELD: &str = r#"
    name = "held"
    seed = 1
    [path]
    rtt = "63 ms"
    rate = "100 Mbit/s"
    queue = "800 kB"
    [hosts.origin]
    tcp = { receive-window = "65535 B", window-scaling = false }
    [[workloads]]
    name = "stream"
    kind = "stream"
    direction = "up"
    bytes = "4 MB"
    [[arms]]
    name = "direct"
    [experiment]
    runs = 1
    block = 1
"#;

/// Field case C, small: a new connection for every object.
const FRESH: &str = r#"
    name = "fresh"
    seed = 1
    [path]
    rtt = "100 ms"
    rate = "100 Mbit/s"
    queue = "1250 kB"
    [[workloads]]
    name = "upload"
    kind = "upload"
    bytes = "100 KiB"
    [[arms]]
    name = "direct"
    [experiment]
    runs = 3
    block = 3
"#;

#[test]
fn a_window_that_is_lifted_brings_what_the_whole_path_brings() {
    let document = with_outlook(verdict(&scenario(HELD), HostName::Client));
    let name = document
        .findings
        .iter()
        .map(|finding| finding.name.as_str())
        .find(|name| ["fixed-window", "no-window-scaling"].contains(name))
        .unwrap_or_else(|| panic!("{:#?}", document.findings));
    let prediction = prediction(&document, name, "receive-window").unwrap();
    // The truth: the same path and transfer without the window.
    let free = HELD.replace(
        "tcp = { receive-window = \"65535 B\", window-scaling = false }",
        "",
    );
    let truth = sim::run(&scenario(&free), 1).unwrap();
    let truth = truth.cells[0].arms[0].median_s.unwrap();
    let off = prediction.predicted_s / truth - 1.0;
    assert!(off.abs() < 0.3, "{prediction:#?}, in truth {truth} s");
    assert!(
        prediction.predicted_s < 0.3 * prediction.now_s,
        "{prediction:#?}"
    );
    assert!(
        prediction.derivation.contains("simulated"),
        "{prediction:#?}"
    );
}

#[test]
fn a_connection_that_is_reused_and_a_hot_pool_are_played() {
    let mut document = verdict(&scenario(FRESH), HostName::Client);
    // Simulated payload has no content, so that its requests are not seen: they are told.
    for connection in &mut document.connections {
        connection.transfers = vec![Transfer {
            request_bytes: 103_000,
            response_bytes: 200,
            with_handshake_s: Some(0.501),
            ..Transfer::default()
        }];
    }
    let document = with_outlook(document);
    let pool = prediction(&document, "no-connection-reuse", "hot-pool").unwrap();
    // One round trip and the time to serialise 106 kB at 100 Mbit/s.
    assert!((0.1085..0.125).contains(&pool.predicted_s), "{pool:#?}");
    assert!(pool.derivation.contains("simulated"), "{pool:#?}");
}

/// A sender that random losses hold, whose congestion control is not the one that the model would take.
const LOSSY: &str = r#"
    name = "lossy"
    seed = 3
    [path]
    rtt = "60 ms"
    rate = "30 Mbit/s"
    queue = "400 kB"
    loss = "0.3 %"
    [hosts.client]
    congestion-control = "reno"
    [[workloads]]
    name = "stream"
    kind = "stream"
    direction = "up"
    bytes = "4 MB"
    [[arms]]
    name = "direct"
    [experiment]
    runs = 5
    block = 1
"#;

/// What the verdict on a Reno sender over this path predicts of another controller, and what BBR takes in truth.
fn without_reno(rtt: &str, rate: &str, loss: &str) -> (Option<Prediction>, f64) {
    let lossy = LOSSY
        .replace("60 ms", rtt)
        .replace("30 Mbit/s", rate)
        .replace("0.3 %", loss);
    let document = with_outlook(verdict(&scenario(&lossy), HostName::Client));
    let predicted = prediction(&document, "loss-limited", "algorithm").cloned();
    let remedied = lossy.replace("\"reno\"", "\"bbr\"");
    let truth = sim::run(&scenario(&remedied), 3).unwrap();
    (predicted, truth.cells[0].arms[0].median_s.unwrap())
}

#[test]
fn a_controller_that_single_losses_do_not_hold_is_predicted_within_a_fifth_on_three_paths() {
    for (rtt, rate, loss) in [
        ("30 ms", "80 Mbit/s", "0.3 %"),
        ("60 ms", "30 Mbit/s", "0.3 %"),
        ("120 ms", "30 Mbit/s", "0.3 %"),
    ] {
        let (predicted, truth) = without_reno(rtt, rate, loss);
        let predicted = predicted.unwrap_or_else(|| panic!("{rtt}: nothing is predicted"));
        let off = predicted.predicted_s / truth - 1.0;
        assert!(off.abs() < 0.2, "{predicted:#?}, in truth {truth} s");
        assert!(predicted.derivation.contains("bbr"), "{predicted:#?}");
    }
}

#[test]
fn a_sender_that_losses_do_not_move_is_rebuilt_as_bbr_and_newreno_and_cubic_are_not() {
    for (controller, loss, rebuilt) in [
        ("bbr", "0.3 %", true),
        ("bbr", "1 %", true),
        ("reno", "0.3 %", false),
        ("cubic", "0.3 %", false),
    ] {
        for host in [HostName::Client, HostName::Origin] {
            let lossy = LOSSY
                .replace("\"reno\"", &format!("\"{controller}\""))
                .replace("0.3 %", loss)
                .replace("4 MB", "16 MB");
            let document = verdict(&scenario(&lossy), host);
            let response = &document.connections[0]
                .directions
                .client_to_server
                .loss_response;
            let text = explain::scenario(&document).unwrap();
            assert_eq!(
                text.contains("[hosts.client]\ncongestion-control = \"bbr\""),
                rebuilt && host == HostName::Client,
                "{controller} at {loss}, captured at {host:?}: {response:?}"
            );
            assert_eq!(scenario::read(&text).unwrap().len(), 1);
        }
    }
}

#[test]
fn what_keeps_its_flight_and_grows_in_between_is_not_rebuilt_as_bbr() {
    for loss in ["0.05 %", "0.1 %"] {
        let lossy = LOSSY
            .replace("\"reno\"", "\"westwood\"")
            .replace("0.3 %", loss)
            .replace("30 Mbit/s", "200 Mbit/s")
            .replace("4 MB", "64 MB");
        let document = verdict(&scenario(&lossy), HostName::Client);
        let response = &document.connections[0]
            .directions
            .client_to_server
            .loss_response;
        let text = explain::scenario(&document).unwrap();
        assert!(
            !text.contains("congestion-control = \"bbr\""),
            "{loss}: {response:?}"
        );
    }
}

#[test]
fn a_path_that_losses_kept_too_empty_to_show_its_rate_is_not_predicted() {
    let (predicted, truth) = without_reno("120 ms", "30 Mbit/s", "1 %");
    assert_eq!(predicted, None, "in truth {truth} s");
}

#[test]
fn a_path_that_the_model_does_not_reproduce_is_not_predicted() {
    let document = verdict(&scenario(HELD), HostName::Client);
    let outlook = Outlook::of(&document).unwrap();
    let count = outlook.trials().count();
    assert!(count >= 2, "today and a remedy");
    let slow = Outcome {
        median_s: Some(100.0),
        p05_s: Some(99.0),
        p95_s: Some(101.0),
        ..Outcome::default()
    };
    let mut predicted = document.clone();
    outlook.predict(&mut predicted, vec![slow; count]);
    assert_eq!(predicted, document);
}

#[test]
fn a_verdict_without_a_finding_needs_no_simulation() {
    let mut document = verdict(&scenario(HELD), HostName::Client);
    document.findings.clear();
    let outlook = Outlook::of(&document).unwrap();
    assert_eq!((outlook.trials().count(), outlook.payload()), (0, 0));
}

#[test]
fn every_finding_that_is_answered_is_one_of_explain_s() {
    let known: Vec<&str> = explain::CATALOGUE.iter().map(|entry| entry.name).collect();
    for name in [
        "no-connection-reuse",
        "fixed-window",
        "no-window-scaling",
        "send-buffer",
        "loss-limited",
        "loss-recovery",
        "policer",
        "low-initial-ssthresh",
    ] {
        assert!(known.contains(&name), "{name} is not in the catalogue");
        assert!(!remedies::of(name).is_empty());
    }
    assert!(remedies::of("syn-loss").is_empty());
    assert!(remedies::of("no-connection-reuse").contains(&RemedyName::HotPool));
}
