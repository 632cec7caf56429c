//! Known answers on real kernels: what TCP must do on a path can be computed, and the lab has to find it.
//! Needs what `longhaul doctor` lists for the lab; without it, this test fails.
//!
//! One test runs all cases, one after the other, because two would measure each other, and counts them: a
//! case that was not run is no case that passed.

#![allow(clippy::unwrap_used, reason = "in a test, a panic is the report")]

mod common;

use std::ops::RangeInclusive;

use common::{longhaul, run};
use record::lab::{Arm, Document};

/// A scenario, and the seconds that each arm must take.
struct Case {
    name: &'static str,
    scenario: &'static str,
    judged_by: Judged,
    expected: &'static [(&'static str, RangeInclusive<f64>)],
}

/// Which of an arm's runs is the answer.
#[derive(Clone, Copy)]
enum Judged {
    /// Where nothing is left to chance: whatever else the machine does makes a run slower, and none faster.
    Fastest,
    /// Where losses fall by chance.
    Median,
}

const CASES: [Case; 5] = [
    // RFC 9293: no more than a window in a round trip. Without scaling (RFC 7323 section 2) a window is at
    // most 65535 B: 2 MiB are 32 windows, after 0.4 s of slow start up to it.
    Case {
        name: "window / RTT",
        scenario: r#"
            path = { rtt = "100 ms", rate = "100 Mbit/s", queue = "1250 kB" }
            hosts.origin = { tcp = { window-scaling = false } }
            workloads = [{ name = "2 MiB", bytes = "2 MiB" }]
            arms = [{ name = "unscaled" }]
            experiment = { runs = 2, block = 1 }
        "#,
        judged_by: Judged::Fastest,
        expected: &[("unscaled", 3.2..=4.2)],
    },
    // 4 MiB are 4,345,548 IP bytes: 1.738 s at 20 Mbit/s and one round trip of 20 ms; above it the
    // handshake and the rounds of slow start that do not fill the path.
    Case {
        name: "rate floor",
        scenario: r#"
            path = { rtt = "20 ms", rate = "20 Mbit/s", queue = "100 kB" }
            workloads = [{ name = "4 MiB", bytes = "4 MiB" }]
            arms = [{ name = "direct" }]
            experiment = { runs = 2, block = 1 }
        "#,
        judged_by: Judged::Fastest,
        expected: &[("direct", 1.757..=1.94)],
    },
    // 102400 B and the request's head are 72 segments: from an initial window of 10 (RFC 6928) flights of
    // 10, 20, 40 and 2, from one of 40 flights of 40 and 32. Each takes a round trip, and so does the
    // handshake.
    Case {
        name: "rounds of slow start",
        scenario: r#"
            path = { rtt = "200 ms", rate = "100 Mbit/s", queue = "2500 kB" }
            workloads = [{ name = "100 KiB", bytes = "100 KiB" }]
            arms = [
                { name = "10", hosts.client = { tcp = { initial-cwnd = 10 } } },
                { name = "40", hosts.client = { tcp = { initial-cwnd = 40 } } },
            ]
            experiment = { runs = 3, block = 1 }
        "#,
        judged_by: Judged::Fastest,
        expected: &[("10", 1.0..=1.08), ("40", 0.6..=0.68)],
    },
    // Mathis et al., The Macroscopic Behavior of the TCP Congestion Avoidance Algorithm (CCR 27(3), 1997):
    // MSS / RTT * sqrt(3/2) / sqrt(p) = 1448 B / 20 ms * 1.2247 / 0.1 = 887 kB/s, 4.7 s for 4 MiB. Random
    // instead of periodic losses, slow start and timeouts are worth up to a factor of two.
    Case {
        name: "Mathis",
        scenario: r#"
            path = { rtt = "20 ms", rate = "200 Mbit/s", queue = "500 kB", loss = "1 %" }
            hosts.client = { congestion-control = "reno" }
            workloads = [{ name = "4 MiB", bytes = "4 MiB" }]
            arms = [{ name = "reno" }]
            experiment = { runs = 3, block = 1 }
        "#,
        judged_by: Judged::Median,
        expected: &[("reno", 2.4..=9.5)],
    },
    // RFC 5681 section 3.1: below ssthresh a window doubles in a round trip, above it it grows by a segment. 2 MB
    // are 1401 segments of 1428 B (IPv6 with timestamps), ssthresh 65535 B are 46 of them. Without a threshold
    // flights of 10, 20, .. 640 carry 1270, an eighth the rest: 9 round trips with the handshake. With it flights of
    // 10, 20 and 40, then 46, 47, .. , carry 1401 in the 27th: 28 round trips, and two more where each ACK stands
    // for two segments and is counted once.
    Case {
        name: "initial ssthresh",
        scenario: r#"
            path = { ip = "v6", rtt = "100 ms", rate = "100 Mbit/s", queue = "1250 kB" }
            hosts.client = { stack = "longhaul", congestion-control = "reno" }
            hosts.origin = { stack = "longhaul", tcp = { receive-window = "4 MB" } }
            workloads = [{ name = "2 MB", kind = "stream", bytes = "2 MB" }]
            arms = [
                { name = "65535", hosts.client = { tcp = { initial-ssthresh = "65535 B" } } },
                { name = "infinite", hosts.client = { tcp = { initial-ssthresh = "infinite" } } },
            ]
            experiment = { runs = 2, block = 1 }
        "#,
        judged_by: Judged::Fastest,
        expected: &[("65535", 2.75..=3.1), ("infinite", 0.88..=1.0)],
    },
];

#[test]
fn the_lab_finds_known_answers() {
    let mut wrong = Vec::new();
    for case in &CASES {
        let document = measured(case);
        for (name, expected) in case.expected {
            let arm = arm(&document, name);
            let seconds = match case.judged_by {
                Judged::Fastest => arm.samples_s.iter().copied().reduce(f64::min),
                Judged::Median => arm.median_s,
            };
            if !seconds.is_some_and(|seconds| expected.contains(&seconds)) {
                let cell = &document.cells[0];
                wrong.push(format!(
                    "{}, {name}: {seconds:?} s is not within {expected:?} ({:?})",
                    case.name, cell.why
                ));
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

fn measured(case: &Case) -> Document {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("scenario.toml");
    // Ends that no default of this machine decides about.
    let scenario = format!("name = \"known\"\nseed = 1\n{}", case.scenario);
    std::fs::write(&file, scenario).unwrap();
    let finished = run(longhaul()
        .args(["lab", "run", "--json"])
        .arg(&file)
        .arg("--out")
        .arg(folder.path().join("out")));
    assert_eq!(finished.code, Some(0), "{}: {finished:#?}", case.name);
    serde_json::from_value(finished.json()).unwrap()
}

fn arm<'a>(document: &'a Document, name: &str) -> &'a Arm {
    let mut arms = document.cells[0].arms.iter();
    arms.find(|arm| arm.name == name).unwrap()
}
