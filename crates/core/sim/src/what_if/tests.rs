use record::what_if::{Cell, Remedy, RemedyName, Verdict};
use scenario::{Scenario, Threshold};

use super::{Trials, what_if};
use crate::SimulateError;

const PATH: &str = r#"
    name = "s"
    seed = 3
    [path]
    rtt = "100 ms"
    rate = "50 Mbit/s"
    queue = "625 kB"
    [experiment]
    runs = 4
    block = 2
    [[arms]]
    name = "direct"
"#;

fn scenario(more: &str) -> Scenario {
    toml::from_str(&format!("{PATH}\n{more}")).unwrap()
}

fn tried(more: &str) -> Cell {
    let document = what_if(&scenario(more), None, 3).unwrap();
    document.cells.into_iter().next().unwrap()
}

fn all(cell: &Cell, name: RemedyName) -> Vec<&Remedy> {
    let remedies = cell.remedies.iter();
    remedies.filter(|remedy| remedy.name == name).collect()
}

fn verdicts(cell: &Cell, name: RemedyName) -> Vec<Verdict> {
    let all = all(cell, name);
    all.iter().map(|remedy| remedy.verdict).collect()
}

const UPLOAD: &str = "[[workloads]]\nname = \"100 KiB\"\nbytes = \"100 KiB\"";
const STREAM: &str = "[[workloads]]\nname = \"2 s\"\nkind = \"stream\"\nduration = \"2 s\"";

#[test]
fn a_short_upload_gains_most_from_connections_that_have_grown() {
    let cell = tried(&format!(
        "[hosts.client]\nsysctls = {{ \"net.ipv4.tcp_slow_start_after_idle\" = \"0\" }}\n{UPLOAD}"
    ));
    let best: Vec<RemedyName> = cell.remedies.iter().take(2).map(|one| one.name).collect();
    assert!(best.contains(&RemedyName::HotPool), "{best:?}");
    assert!(best.contains(&RemedyName::ConnectionReuse), "{best:?}");
    for remedy in &cell.remedies[..2] {
        assert_eq!(remedy.verdict, Verdict::Helps);
        assert!(remedy.outcome.share_of_floor.unwrap() > 0.99, "{remedy:?}");
        // Handshake and three rounds of slow start, in which most of the payload's 17 ms at 50 Mbit/s
        // went by as well.
        assert!(
            (remedy.saved_s.unwrap() - 0.385).abs() < 0.005,
            "{remedy:?}"
        );
    }
    assert_eq!(
        verdicts(&cell, RemedyName::SendBuffer),
        [],
        "the path holds less than the buffer"
    );
    assert_eq!(
        verdicts(&cell, RemedyName::InitialCwnd),
        [Verdict::Helps; 2]
    );
    assert_eq!(
        verdicts(&cell, RemedyName::ReceiveWindow),
        [Verdict::NoDifference]
    );
}

#[test]
fn remedies_stand_by_what_they_save() {
    let cell = tried(UPLOAD);
    let ratios: Vec<f64> = cell.remedies.iter().map(|one| one.ratio.unwrap()).collect();
    assert!(ratios.len() > 10);
    assert!(ratios.is_sorted(), "{ratios:?}");
    assert!(ratios[0] < 0.6);
    let cell = tried(STREAM);
    let ratios: Vec<f64> = cell.remedies.iter().map(|one| one.ratio.unwrap()).collect();
    assert!(ratios.iter().rev().is_sorted(), "rates: {ratios:?}");
}

#[test]
fn a_fixed_window_is_lifted_where_it_is_and_by_a_relay_behind_it() {
    let cell = tried(&format!(
        "[hosts.origin.tcp]\nreceive-window = \"60 KiB\"\nwindow-scaling = false\n{STREAM}"
    ));
    for name in [
        RemedyName::ReceiveWindow,
        RemedyName::RelayFar,
        RemedyName::RelayPair,
        RemedyName::Parallel,
    ] {
        let verdicts = verdicts(&cell, name);
        assert!(!verdicts.is_empty(), "{name}");
        assert!(verdicts.iter().all(|one| *one == Verdict::Helps), "{name}");
    }
    for name in [RemedyName::RelayNear, RemedyName::InitialSsthresh] {
        let verdicts = verdicts(&cell, name);
        assert_eq!(verdicts, [Verdict::NoDifference], "{name}");
    }
    let window = all(&cell, RemedyName::ReceiveWindow)[0].ratio.unwrap();
    assert!(window > 5.0, "{window}");
}

#[test]
fn a_low_threshold_is_named_by_the_infinite_one() {
    let cell = tried(&format!(
        "[hosts.client]\nstack = \"longhaul\"\ncongestion-control = \"reno\"\n\
         [hosts.client.tcp]\ninitial-ssthresh = \"65535 B\"\n{STREAM}"
    ));
    let thresholds = all(&cell, RemedyName::InitialSsthresh);
    assert_eq!(thresholds.len(), 2);
    assert!(thresholds.iter().all(|one| one.ratio.unwrap() > 1.3));
    assert!(
        thresholds
            .iter()
            .any(|one| one.change.ends_with("infinite"))
    );
}

#[test]
fn parallel_connections_carry_the_same_payload() {
    for workload in [
        UPLOAD,
        "[[workloads]]\nname = \"s\"\nkind = \"stream\"\nbytes = \"10 MB\"\nparallel = 2",
        "[[workloads]]\nname = \"p\"\nkind = \"download\"\nbytes = \"10 MB\"\npart = \"1 MB\"",
    ] {
        let trials = Trials::new(&scenario(workload), None).unwrap();
        let payload = |scenario: &Scenario| {
            let (arm, workload) = (&scenario.arms[0], &scenario.workloads[0]);
            workload.payload(arm.parallel(workload)).unwrap()
        };
        let today = payload(&trials.trials()[0].scenario);
        let mut seen = 0;
        for trial in trials.trials() {
            if let Some((RemedyName::Parallel, change)) = &trial.remedy {
                assert_eq!(payload(&trial.scenario), today, "{workload}: {change}");
                seen += 1;
            }
        }
        assert!(seen >= 2, "{workload}");
    }
}

#[test]
fn behind_a_relay_the_relay_is_what_changes() {
    let relayed = "[relays.near]\nmode = \"tcp\"\ncongestion-control = \"cubic\"\n\
                   [[arms]]\nname = \"near\"\nrelay = \"near\"";
    let scenario = scenario(&format!("{relayed}\n{STREAM}"));
    let trials = Trials::new(&scenario, Some("near")).unwrap();
    let algorithms: Vec<&str> = trials
        .trials()
        .iter()
        .filter_map(|trial| trial.remedy.as_ref())
        .filter(|(name, _)| *name == RemedyName::Algorithm)
        .map(|(_, change)| change.as_str())
        .collect();
    assert_eq!(algorithms.len(), 4, "it has cubic: {algorithms:?}");
    assert!(algorithms.iter().all(|one| one.starts_with("relay: ")));
    // The relay's own setting would win over its host's.
    let document = what_if(&scenario, Some("near"), 3).unwrap();
    let algorithms = all(&document.cells[0], RemedyName::Algorithm);
    assert!(algorithms.iter().any(|one| one.ratio != Some(1.0)));
    let left_out: Vec<RemedyName> = trials.not_tried[0].iter().map(|one| one.name).collect();
    assert!(left_out.contains(&RemedyName::RelayPair), "{left_out:?}");
}

#[test]
fn what_cannot_be_simulated_is_said_and_not_tried() {
    let command = "[[workloads]]\nname = \"c\"\nkind = \"command\"\ncommand = \"true\"";
    let cell = tried(command);
    let why = cell.today.failure.unwrap();
    assert!(why.starts_with("not simulated: programs"), "{why}");
    assert_eq!((cell.remedies, cell.not_tried), (Vec::new(), Vec::new()));
    let unknown = Trials::new(&scenario(UPLOAD), Some("relay")).unwrap_err();
    assert!(matches!(&unknown, SimulateError::UnknownArm { known } if known == &["direct"]));
}

#[test]
fn trials_leave_the_scenario_as_it_was_but_for_their_remedy() {
    let scenario = scenario(UPLOAD);
    let trials = Trials::new(&scenario, None).unwrap();
    for trial in trials.trials() {
        let client = &trial.scenario.for_arm(0)[&scenario::HostName::Client];
        let changed = client.tcp.initial_ssthresh.is_some();
        let remedy = trial.remedy.as_ref().map(|(name, _)| *name);
        assert_eq!(changed, remedy == Some(RemedyName::InitialSsthresh));
        if changed {
            let product = units::Bytes::new(625_000);
            assert_eq!(client.tcp.initial_ssthresh, Some(Threshold::Bytes(product)));
        }
        assert_eq!(trial.scenario.arms.len(), 1);
    }
}
