//! What `longhaul lab run` keeps of every single run, and how a block begins: the whole binary on real kernels.
//! Needs what `longhaul doctor` lists for the lab; without it, these tests fail.

#![allow(clippy::unwrap_used, reason = "in a test, a panic is the report")]

mod common;

use common::{Finished, alone, longhaul, run};
use record::lab::{Arm, Document};
use serde_json::Value;

struct Ran {
    finished: Finished,
    document: Document,
    /// What `--csv` wrote.
    rows: String,
    /// Lines of `series.jsonl`.
    series: Vec<Value>,
}

fn lab_run(scenario: &str) -> Ran {
    let _alone = alone();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("scenario.toml");
    std::fs::write(&file, scenario).unwrap();
    let out = folder.path().join("out");
    let rows = folder.path().join("rows.csv");
    let mut command = longhaul();
    command.args(["lab", "run", "--json"]).arg(&file);
    command.arg("--csv").arg(&rows);
    let finished = run(command.arg("--out").arg(&out));
    let document = serde_json::from_value(finished.json()).unwrap();
    let rows = std::fs::read_to_string(rows).unwrap();
    let series = std::fs::read_to_string(out.join("series.jsonl")).unwrap_or_default();
    let series = series
        .lines()
        .map(|line| serde_json::from_str(line).unwrap());
    Ran {
        finished,
        document,
        rows,
        series: series.collect(),
    }
}

fn arm<'a>(document: &'a Document, name: &str) -> &'a Arm {
    let arms = document.cells[0].arms.iter();
    arms.into_iter().find(|arm| arm.name == name).unwrap()
}

#[test]
fn kernel_counters_are_kept_of_every_run() {
    let ran = lab_run(
        r#"
        name = "runs"
        seed = 7
        [path]
        rtt = "20 ms"
        rate = "50 Mbit/s"
        queue = "1 BDP"
        [[workloads]]
        name = "100 kB"
        bytes = "100 kB"
        [[arms]]
        name = "new"
        [[arms]]
        name = "kept"
        reuse = true
        [experiment]
        runs = 3
        block = 3
        series = "5 ms"
        "#,
    );
    let (finished, document) = (&ran.finished, &ran.document);
    assert_eq!(finished.code, Some(0), "{finished:#?}");
    let mut column = vec!["retransmissions".to_owned()];
    // Who opens a connection for each upload does it in each, who keeps one in the first.
    for (name, opened) in [("new", [1, 1, 1]), ("kept", [1, 0, 0])] {
        let arm = arm(document, name);
        let of = |counter: &str| &arm.counters_by_run[&format!("client: {counter}")];
        assert_eq!(of("TcpActiveOpens"), &opened, "{name}: {arm:#?}");
        // 100,000 bytes are 70 segments, and a request has a head; the queue holds them all.
        let segments = of("TcpOutSegs");
        assert!(segments.iter().all(|sent| *sent >= 70), "{segments:?}");
        // Told also where there were none, as there should be on a machine that keeps up.
        let hosts = arm.counters_by_run.iter();
        let resent = hosts.filter(|(counter, _)| counter.ends_with(": TcpRetransSegs"));
        let resent: Vec<u64> = resent.fold(vec![0; 3], |sums, (_, runs)| {
            sums.iter().zip(runs).map(|(sum, run)| sum + run).collect()
        });
        let sum = u32::try_from(resent.iter().sum::<u64>()).unwrap();
        let mean = f64::from(sum) / 3.0;
        assert!(
            (arm.retransmissions.unwrap() - mean).abs() < 1e-9,
            "{arm:#?}"
        );
        column.extend(resent.iter().map(u64::to_string));
        for (counter, runs) in &arm.counters_by_run {
            assert_eq!(runs.len(), 3, "{counter}");
            assert_eq!(runs.iter().sum::<u64>(), arm.counters[counter], "{counter}");
        }
    }
    let ninth = |row: &str| row.split(',').nth(8).map(str::to_owned).unwrap();
    assert_eq!(ran.rows.lines().map(ninth).collect::<Vec<_>>(), column);

    // And what the sender's kernel said meanwhile.
    let kept = ran.series.iter().map(|line| {
        let number = line["transfer"].as_u64().unwrap();
        (line["arm"].as_str().unwrap(), number)
    });
    let kept: Vec<_> = kept.collect();
    // Who looks late, on a busy machine, may see nothing of a transfer of some 60 ms.
    let all = [
        ("new", 1),
        ("new", 2),
        ("new", 3),
        ("kept", 1),
        ("kept", 2),
        ("kept", 3),
    ];
    let mut expected = all.iter().filter(|one| kept.contains(one));
    assert!(
        !kept.is_empty() && kept.iter().all(|one| Some(one) == expected.next()),
        "{kept:?}"
    );
    for line in &ran.series {
        let points = line["series"]["points"].as_array().unwrap();
        assert!(
            points.iter().any(|point| point["cwnd"].is_u64()),
            "{line:#}"
        );
    }
}

#[test]
fn every_block_meets_the_schedule_from_its_beginning() {
    let ran = lab_run(
        r#"
        name = "schedule"
        seed = 7
        [path]
        rtt = "20 ms"
        rate = "20 Mbit/s"
        queue = "1 BDP"
        [[path.schedule]]
        at = "1 s"
        for = "2 s"
        outage = "hold"
        [[workloads]]
        name = "4 MB"
        kind = "stream"
        bytes = "4 MB"
        [[arms]]
        name = "direct"
        [experiment]
        runs = 2
        block = 1
        "#,
    );
    assert_eq!(ran.finished.code, Some(0), "{:#?}", ran.finished);
    assert_eq!(ran.document.order.len(), 2, "two blocks");
    // 1.6 s of bytes: nobody is done before the outage, or before it ends, 3 s after the block's beginning. In
    // a second block without it they would be through in 1.7 s. Clients begin a moment after their block: that much
    // less of the outage they see.
    let waited = &arm(&ran.document, "direct").samples_s;
    assert!(waited.iter().all(|seconds| *seconds > 2.2), "{waited:?}");
}

#[test]
fn what_a_program_has_read_is_proved_by_its_content() {
    let ran = lab_run(
        r#"
        name = "read"
        seed = 7
        [path]
        rtt = "20 ms"
        rate = "50 Mbit/s"
        queue = "1 BDP"
        [[workloads]]
        name = "GET"
        kind = "download"
        bytes = "100 kB"
        command = "head -c {size} /dev/zero > {file}"
        [[arms]]
        name = "direct"
        [experiment]
        runs = 1
        block = 1
        "#,
    );
    // As many bytes as were asked for, and none of them right.
    assert_eq!(ran.finished.code, Some(1), "{:#?}", ran.finished);
    let why = ran.document.cells[0].why.as_deref().unwrap();
    assert!(
        why.contains("wrote other bytes than the origin holds"),
        "{why}"
    );
    assert_eq!(arm(&ran.document, "direct").failed, 1);
}
