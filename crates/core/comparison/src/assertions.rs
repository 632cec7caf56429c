//! Whether what a scenario promises holds.

use record::lab::{Assertion, Cell};
use scenario::{Dimension, Ground, Scenario, Statistic, Workload};

use crate::cell::bits_per_s;
use crate::statistics::quantile;
use crate::summary::retransmissions_per_transfer;

/// Checks every assertion of the scenario against the finished cells. A number that is missing, an
/// invalid path or a failed transfer makes the assertions of its workload fail: they never pass unseen.
#[must_use]
pub fn assertions(scenario: &Scenario, cells: &[Cell]) -> Vec<Assertion> {
    let mut results = Vec::new();
    for (workload, cell) in scenario.workloads.iter().zip(cells) {
        for assertion in &workload.assertions {
            let text = format!("[{}] {assertion}", workload.name);
            let (holds, detail) = if let Some(why) = &cell.why {
                (false, format!("not valid: {why}"))
            } else {
                match assertion.check(ground(scenario, workload), |statistic, arm| {
                    value(cell, statistic, arm)
                }) {
                    Some((holds, left, right)) => {
                        let (left, right) = (shown(assertion, left), shown(assertion, right));
                        (holds, format!("{left} against {right}"))
                    }
                    None => (false, "not measured".to_owned()),
                }
            };
            results.push(Assertion {
                text,
                holds,
                detail,
            });
        }
    }
    results
}

/// What the assertions of a workload measure against.
fn ground(scenario: &Scenario, workload: &Workload) -> Ground {
    let floor = workload.floor(&scenario.path);
    Ground {
        floor_s: floor.map(|floor| floor.total().as_secs_f64()),
        rate_bps: Some(bits_per_s(
            scenario.path.bottleneck_rate_of(workload.direction()),
        )),
    }
}

/// A side of an assertion with its unit.
fn shown(assertion: &scenario::Assertion, value: f64) -> String {
    match assertion.dimension() {
        Dimension::Time if value < 10.0 => format!("{:.1} ms", value * 1e3),
        Dimension::Time => format!("{value:.2} s"),
        Dimension::Rate => format!("{:.3} Mbit/s", value / 1e6),
        Dimension::Count => format!("{value:.2}"),
        Dimension::Share => format!("{:.1} %", value * 1e2),
    }
}

fn value(cell: &Cell, statistic: Statistic, name: &str) -> Option<f64> {
    let arm = cell.arms.iter().find(|arm| arm.name == name)?;
    match statistic {
        Statistic::Min => quantile(&arm.samples_s, 0.0),
        Statistic::P05 => arm.p05_s,
        Statistic::Median => arm.median_s,
        Statistic::P95 => arm.p95_s,
        Statistic::Max => arm.max_s,
        Statistic::Goodput => arm.goodput_bps,
        Statistic::Steady => arm.steady_bps,
        Statistic::ShareOfFloor => arm.share_of_floor,
        Statistic::Harm => arm.rivals.as_ref()?.harm,
        Statistic::Jain => arm.rivals.as_ref()?.jain,
        Statistic::Retransmissions => retransmissions_per_transfer(arm),
        Statistic::PredictionError => cell
            .predictions
            .iter()
            .find(|prediction| prediction.arm == name)?
            .error
            .map(f64::abs),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::{Evidence, Measured, Predicted, Rivals, Transfer, cells};

    fn scenario() -> Scenario {
        toml::from_str(
            r#"
            name = "s"
            seed = 1
            [path]
            rtt = "200 ms"
            rate = "100 Mbit/s"
            queue = "100 kB"
            [relays.hot]
            [experiment]
            explains = "direct"
            predicts = "relay"
            [[workloads]]
            name = "100 KiB"
            bytes = "100 KiB"
            assert = ["max(relay) <= 1.15 * floor", "prediction-error(relay) <= 20 %"]
            [[arms]]
            name = "direct"
            [[arms]]
            name = "relay"
            relay = "hot"
            "#,
        )
        .unwrap()
    }

    fn evidence(relay_seconds: f64) -> Evidence {
        let transfers = |seconds: f64| {
            let transfer = |position| Transfer {
                position,
                seconds,
                bytes: 102_400,
                ..Transfer::default()
            };
            Measured {
                transfers: (0..5).map(transfer).collect(),
                ..Measured::default()
            }
        };
        Evidence {
            measured: BTreeMap::from([
                ((0, 0), transfers(1.017)),
                ((1, 0), transfers(relay_seconds)),
            ]),
            predictions: vec![Predicted {
                workload: 0,
                seconds: 0.21,
                derivation: String::new(),
            }],
            ..Evidence::default()
        }
    }

    #[test]
    fn shares_and_assertions_follow_from_the_samples() {
        let (scenario, evidence) = (scenario(), evidence(0.22));
        let cells = cells(&scenario, 1, &evidence);
        let relay = &cells[0].arms[1];
        assert_eq!((relay.n, relay.failed, relay.median_s), (5, 0, Some(0.22)));
        let share = relay.share_of_floor.unwrap();
        assert!((share - 0.2085 / 0.22).abs() < 1e-3, "{share}");
        assert_eq!(relay.by_position_s.len(), 5);
        let error = cells[0].predictions[0].error.unwrap();
        assert!((error - (0.21 / 0.22 - 1.0)).abs() < 1e-9, "{error}");
        assert!(
            assertions(&scenario, &cells)
                .iter()
                .all(|assertion| assertion.holds)
        );
    }

    #[test]
    fn one_slow_upload_breaks_the_promise_of_every_upload() {
        let scenario = scenario();
        let mut evidence = evidence(0.22);
        evidence.measured.get_mut(&(1, 0)).unwrap().transfers[3].seconds = 0.25;
        let results = assertions(&scenario, &cells(&scenario, 1, &evidence));
        assert!(!results[0].holds, "{results:?}");
        assert!(results[1].holds, "the median has not moved");
    }

    #[test]
    fn a_wrong_digest_or_path_fails_every_assertion() {
        let scenario = scenario();
        let mut corrupted = evidence(0.22);
        corrupted.measured.get_mut(&(1, 0)).unwrap().transfers[0].failure =
            Some("SHA-256 differs".to_owned());
        let mut off = evidence(0.22);
        off.invalid_path = Some("RTT 300 ms instead of 200 ms".to_owned());
        for evidence in [corrupted, off, Evidence::default()] {
            let cells = cells(&scenario, 1, &evidence);
            let results = assertions(&scenario, &cells);
            assert!(
                results.iter().all(|assertion| !assertion.holds),
                "{results:?}"
            );
        }
    }

    const WIDER: &str = r#"
        name = "s"
        seed = 1
        [path]
        rtt = "100 ms"
        rate = "12 Mbit/s"
        queue = "100 kB"
        [[workloads]]
        name = "stream"
        kind = "stream"
        duration = "10 s"
        assert = [
          "goodput(ours) >= 0.9 * rate", "goodput(ours) >= 10 Mbit/s", "steady(ours) >= 1.2 * steady(theirs)",
          "retransmissions(ours) <= 10", "harm(ours) <= 50 %", "jain(ours) >= 0.9",
          "share-of-floor(ours) >= 95 %",
        ]
        [[arms]]
        name = "theirs"
        [[arms]]
        name = "ours"
    "#;

    fn streams(bytes: u64, steady_bps: f64) -> Measured {
        let transfer = |position| Transfer {
            position,
            seconds: 10.0,
            bytes,
            steady_bps: Some(steady_bps),
            counters: BTreeMap::from([("client: TcpRetransSegs".to_owned(), 8)]),
            ..Transfer::default()
        };
        Measured {
            transfers: (0..5).map(transfer).collect(),
            rivals: Some(Rivals {
                alone_bps: vec![11e6],
                beside_bps: vec![6e6],
                own_bps: vec![5e6],
            }),
            ..Measured::default()
        }
    }

    #[test]
    fn rates_retransmissions_and_what_rivals_lose_can_be_asserted() {
        let scenario: Scenario = toml::from_str(WIDER).unwrap();
        let mut evidence = Evidence {
            measured: BTreeMap::from([
                ((0, 0), streams(5_000_000, 4e6)),
                ((1, 0), streams(14_000_000, 11.4e6)),
            ]),
            ..Evidence::default()
        };
        let held = |evidence: &Evidence| -> Vec<bool> {
            let cells = cells(&scenario, 1, evidence);
            let results = assertions(&scenario, &cells);
            results.iter().map(|assertion| assertion.holds).collect()
        };
        assert_eq!(held(&evidence), [true; 7]);
        let shown: Vec<String> = assertions(&scenario, &cells(&scenario, 1, &evidence))
            .into_iter()
            .map(|assertion| assertion.detail)
            .collect();
        assert_eq!(shown[0], "11.200 Mbit/s against 10.800 Mbit/s");
        assert_eq!(shown[3], "8.00 against 10.00");
        assert_eq!(shown[4], "45.5 % against 50.0 %");

        // Each of them can also fail: a slow arm that starves its rival.
        let mut slow = streams(5_000_000, 4e6);
        for transfer in &mut slow.transfers {
            transfer.counters = BTreeMap::from([("client: TcpRetransSegs".to_owned(), 12)]);
        }
        slow.rivals = Some(Rivals {
            alone_bps: vec![11e6],
            beside_bps: vec![1e6],
            own_bps: vec![5e6],
        });
        evidence.measured.insert((1, 0), slow);
        assert_eq!(held(&evidence), [false; 7]);

        // And none passes for want of a number.
        let unknown = Measured {
            transfers: vec![Transfer {
                seconds: 10.0,
                ..Transfer::default()
            }],
            ..Measured::default()
        };
        evidence.measured.insert((1, 0), unknown);
        assert_eq!(held(&evidence), [false; 7]);
    }
}
