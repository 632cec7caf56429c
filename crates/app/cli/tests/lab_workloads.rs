//! `longhaul lab` beyond plain uploads, the whole binary on real kernels: sweeps, TLS, relays in a row, IPv6,
//! rivals, shells in hosts.
//! Needs what `longhaul doctor` lists for the lab; without it, these tests fail.

#![allow(clippy::unwrap_used, reason = "in a test, a panic is the report")]

mod common;

use std::io::Write as _;
use std::path::Path;
use std::process::Stdio;

use common::{Finished, Standing, alone, longhaul, run};
use record::LimitName;
use record::lab::{Arm, Cell, Document};

const PATH: &str = r#"
name = "workloads"
seed = 7
[path]
rtt = "20 ms"
rate = "50 Mbit/s"
queue = "1 BDP"
[experiment]
runs = 1
block = 1
"#;

/// What `lab run` prints of [`PATH`] with `rest`, and that all transfers went well.
fn play(rest: &str) -> Document {
    play_on(PATH, rest)
}

/// [`PATH`] over IPv6.
fn over_ipv6() -> String {
    PATH.replace("[path]", "[path]\nip = \"v6\"")
}

fn play_on(path: &str, rest: &str) -> Document {
    let folder = tempfile::tempdir().unwrap();
    play_in(folder.path(), path, rest)
}

/// The same, and what it wrote stays below `folder`: `out` and, as a table, `rows.csv`.
fn play_in(folder: &Path, path: &str, rest: &str) -> Document {
    let _alone = alone();
    let file = folder.join("scenario.toml");
    std::fs::write(&file, format!("{path}{rest}")).unwrap();
    let mut command = longhaul();
    command.args(["lab", "run", "--json"]).arg(&file);
    command.arg("--csv").arg(folder.join("rows.csv"));
    let out = folder.join("out");
    let finished = run(command.arg("--out").arg(&out));
    assert_eq!(finished.code, Some(0), "{finished:#?}");
    let kept = std::fs::read_to_string(out.join("result.json")).unwrap();
    let kept: serde_json::Value = serde_json::from_str(&kept).unwrap();
    assert_eq!(finished.json(), kept, "stdout and result.json say the same");
    let document: Document = serde_json::from_value(kept).unwrap();
    for cell in &document.cells {
        assert!(cell.valid, "{:?}", cell.why);
        for arm in &cell.arms {
            assert_eq!((arm.n, arm.failed), (1, 0), "{arm:#?}");
        }
    }
    document
}

fn only(document: &Document) -> &Cell {
    assert_eq!(document.cells.len(), 1);
    &document.cells[0]
}

#[test]
fn a_pair_of_byte_relays_carries_a_stream_unharmed() {
    let document = play(
        r#"
        [relays.near]
        mode = "tcp"
        [relays.far]
        mode = "tcp"
        at = "far"
        [[workloads]]
        name = "1 MB"
        kind = "stream"
        bytes = "1 MB"
        [[arms]]
        name = "direct"
        [[arms]]
        name = "pair"
        relay = ["near", "far"]
        "#,
    );
    // A byte that differs fails its transfer.
    assert_eq!(only(&document).arms[1].name, "pair");
}

#[test]
fn every_kind_of_workload_arrives_whole() {
    let folder = tempfile::tempdir().unwrap();
    let all = PATH.replace("block = 1", "block = 1\ncapture = \"all\"");
    let document = play_in(
        folder.path(),
        &all,
        r#"
        [[workloads]]
        name = "multipart"
        kind = "upload"
        bytes = "6 MiB"
        part = "5 MiB"
        parallel = 2
        [[workloads]]
        name = "ranges"
        kind = "download"
        bytes = "200 kB"
        part = "50 kB"
        parallel = 2
        [[workloads]]
        name = "reader that stops"
        kind = "download"
        bytes = "300 kB"
        read-pause = { after = "100 kB", for = "100 ms" }
        [[workloads]]
        name = "three at once"
        kind = "upload"
        bytes = "20 kB"
        parallel = 3
        [[workloads]]
        name = "mixed sizes"
        kind = "upload"
        sizes = ["4 kB", "200 kB"]
        [[workloads]]
        name = "replication"
        kind = "replicate"
        bytes = "50 kB"
        count = 3
        [[workloads]]
        name = "bursts"
        kind = "burst"
        bytes = "50 kB"
        idle = "100 ms"
        count = 2
        [[workloads]]
        name = "both ways"
        kind = "stream"
        bytes = "200 kB"
        direction = "both"
        [[workloads]]
        name = "a program"
        kind = "command"
        command = "test {port} -gt 0"
        [[arms]]
        name = "direct"
        "#,
    );
    // Bytes that differ or are missing fail their transfer; here, that nothing came sooner than it can.
    let mut names = Vec::new();
    for cell in &document.cells {
        let seconds = cell.arms[0].samples_s[0];
        assert!(seconds >= cell.floor_s, "{}: {seconds} s", cell.workload);
        names.push(cell.workload.as_str());
    }
    let all = "multipart|ranges|reader that stops|three at once|mixed sizes|replication|bursts|both ways|a program";
    assert_eq!(names.join("|"), all);
    let stopped = &document.cells[2].arms[0];
    assert!(stopped.samples_s[0] >= document.cells[2].floor_s + 0.1);

    let rows = std::fs::read_to_string(folder.path().join("rows.csv")).unwrap();
    assert_eq!(rows.lines().count(), 1 + names.len(), "{rows}");
    let captures: Vec<String> = std::fs::read_dir(folder.path().join("out/captures"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    let (origin, client): (Vec<_>, Vec<_>) = captures
        .iter()
        .partition(|name| name.ends_with("-at-origin.pcapng"));
    // A block that did not count was captured as well.
    assert!(client.len() >= names.len(), "{captures:?}");
    assert_eq!(client.len(), origin.len(), "{captures:?}");
}

#[test]
fn a_route_of_several_pairs_carries_a_stream_unharmed() {
    // A pair inside of a pair: four hosts in a row, one way over the WAN.
    let document = play(
        r#"
        [relays.near]
        mode = "tcp"
        [relays.far]
        mode = "tcp"
        at = "far"
        [relays.entry]
        mode = "tcp"
        [relays.exit]
        mode = "tcp"
        at = "far"
        [[workloads]]
        name = "1 MB"
        kind = "stream"
        bytes = "1 MB"
        [[arms]]
        name = "pair"
        relay = ["near", "far"]
        [[arms]]
        name = "pair in a pair"
        relay = ["near", "entry", "exit", "far"]
        "#,
    );
    let [pair, inner] = &only(&document).arms[..] else {
        panic!("{document:#?}");
    };
    let wan = |arm: &Arm| legs(arm).iter().filter(|leg| leg.contains('*')).count();
    assert_eq!((legs(pair).len(), wan(pair)), (3, 1), "{:?}", legs(pair));
    assert_eq!((legs(inner).len(), wan(inner)), (5, 1), "{:?}", legs(inner));
}

/// Seconds of slow start, and of waiting for an application, in a budget of limits.
fn slow_start_and_application(limits: &record::LimitSeconds) -> (f64, f64) {
    let of = |name| limits.get(&name).copied().unwrap_or_default();
    (of(LimitName::SlowStart), of(LimitName::Application))
}

/// The hops of an arm's payload, as `from to`, with a `*` where the WAN is.
fn legs(arm: &Arm) -> Vec<String> {
    let named = arm.legs.iter().map(|leg| {
        let wan = if leg.crosses_wan { "*" } else { "" };
        format!("{}{wan} {}", leg.from, leg.to)
    });
    named.collect()
}

const DOWN_THE_PAIR: &str = r#"
    [relays.near]
    mode = "tcp"
    [relays.far]
    mode = "tcp"
    at = "far"
    [[workloads]]
    name = "500 kB"
    kind = "stream"
    bytes = "500 kB"
    direction = "down"
    [[arms]]
    name = "direct"
    [[arms]]
    name = "pair"
    relay = ["near", "far"]
"#;

#[test]
fn what_holds_a_download_back_is_seen_at_its_sender() {
    let document = play(DOWN_THE_PAIR);
    let [direct, pair] = &only(&document).arms[..] else {
        panic!("{document:#?}");
    };
    assert_eq!(legs(direct), ["origin* client"]);
    assert_eq!(
        legs(pair),
        [
            "origin far-relay-far",
            "far-relay-far* relay-near-to-far",
            "relay-near-to-far client"
        ]
    );
    for arm in [direct, pair] {
        // At the receiver all of it would look like an application that has nothing to send.
        let (slow_start, application) = slow_start_and_application(&arm.limits);
        assert!(
            slow_start > 0.04 && application < slow_start,
            "{:#?}",
            arm.legs
        );
        let wan = arm.legs.iter().find(|leg| leg.crosses_wan).unwrap();
        assert_eq!(wan.limits, arm.limits);
    }
}

#[test]
fn hosts_relays_and_captures_work_over_ipv6() {
    let document = play_on(&over_ipv6(), DOWN_THE_PAIR);
    assert_eq!(only(&document).arms[1].legs.len(), 3);
    for arm in &only(&document).arms {
        let (slow_start, _) = slow_start_and_application(&arm.limits);
        assert!(slow_start > 0.04, "{:#?}", arm.legs);
    }
    let uploads = play_on(
        &over_ipv6(),
        r#"
        [relays.hot]
        [[workloads]]
        name = "100 kB"
        bytes = "100 kB"
        tls = "1.3"
        [[arms]]
        name = "direct"
        "#,
    );
    assert!(
        only(&uploads).floor_derivation.contains("105"),
        "{uploads:#?}"
    );
}

#[test]
fn a_rival_s_loss_and_the_shares_of_all_are_measured() {
    let document = play(
        r#"
        [hosts.client]
        congestion-control = "reno"
        [hosts.rival]
        congestion-control = "reno"
        [[workloads]]
        name = "4 s"
        kind = "stream"
        duration = "4 s"
        rivals = [{ count = 1, head-start = "1 s" }]
        [[arms]]
        name = "one"
        [[arms]]
        name = "three"
        parallel = 3
        "#,
    );
    // Before and after all, after every block, and after the rival was measured alone.
    let path = &only(&document).path;
    let right = path.checks - path.invalid_checks;
    assert!(right >= document.order.len() as u64 + 3, "{path:?}");
    let ceiling = only(&document).ceiling_bps.unwrap();
    // Acknowledgements are counted: one that ends a recovery brings at once what had arrived before, a window at
    // most, which is what the path and its queue hold: twice 20 ms of 50 Mbit/s.
    let window = 2.0 * 0.020 * 50e6 / 4.0;
    // Nobody's clock is read in time on a busy machine: a flow that has ended leaves the path to the rival until
    // that is noticed, a rival that is looked at late had longer.
    let unnoticed = ceiling * 0.150 / 4.0;
    let mut harms = Vec::new();
    for (arm, flows) in only(&document).arms.iter().zip([1_u32, 3]) {
        let rivals = arm.rivals.as_ref().unwrap();
        assert_eq!(rivals.alone_bps.len(), 1);
        assert_eq!(rivals.own_bps.len(), flows as usize);
        // Nobody gets more than there is, alone or together.
        let together = rivals.beside_bps[0] + rivals.own_bps.iter().sum::<f64>();
        assert!(
            rivals.alone_bps[0] <= ceiling + window && together <= ceiling + window + unnoticed,
            "{rivals:#?} of {ceiling}"
        );
        let (harm, jain) = (rivals.harm.unwrap(), rivals.jain.unwrap());
        let lost = 1.0 - rivals.beside_bps[0] / rivals.alone_bps[0];
        assert!((harm - lost).abs() < 1e-9, "{rivals:#?}");
        let shares = || rivals.beside_bps.iter().chain(&rivals.own_bps);
        let (sum, squares) = shares().fold((0.0, 0.0), |(sum, squares), share| {
            (sum + share, squares + share * share)
        });
        let count = f64::from(flows + 1);
        assert!(
            (jain - sum * sum / (count * squares)).abs() < 1e-9,
            "{rivals:#?}"
        );
        harms.push(harm);
    }
    // Reno against Reno: one flow costs a rival about a half, three about three quarters.
    assert!(harms[0] > 0.1 && harms[1] > harms[0], "{harms:?}");
}

#[test]
fn a_shell_in_a_host_of_a_standing_lab_sees_its_network_and_the_endpoint() {
    let _alone = alone();
    let name = format!("standing-{}", std::process::id());
    let scenario = PATH.replace("workloads", &name)
        + "[relays.hot]\ncongestion-control = \"reno\"\n[[workloads]]\nname = \"w\"\nbytes = \"1 kB\"\n\
           [[arms]]\nname = \"relay\"\nrelay = \"hot\"\n";
    let mut lab = Standing::up(&name, &scenario);
    let shell = || lab.shell();
    let hosts = run(&mut shell());
    for host in ["client", "origin", "relay-hot"] {
        assert!(
            hosts.stdout.contains(&format!("{host} of {name}")),
            "{hosts:#?}"
        );
    }
    let looked = run(shell().args([
        "client",
        "--",
        "sh",
        "-c",
        "ip -o -4 addr show dev eth0; getent hosts storage.example; exit 7",
    ]));
    assert_eq!(looked.code, Some(7), "{looked:#?}");
    assert!(
        looked.stdout.contains("10.10.0.10/24") && looked.stdout.contains("192.0.2.10"),
        "{looked:#?}"
    );
    // The profile of its pool says otherwise, the scenario has the last word.
    let pool = run(shell().args(["relay-hot", "--", "ss", "-tinH", "dport = :80"]));
    assert!(
        pool.stdout.contains(" reno ") && !pool.stdout.contains(" bbr "),
        "{pool:#?}"
    );
    // What comes on standard input is for the shell.
    let mut piped = shell()
        .arg("origin")
        .env("SHELL", "/bin/sh")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut typed = piped.stdin.take().unwrap();
    typed
        .write_all(b"echo in $LONGHAUL_HOST; ip -o -4 addr; exit 3\n")
        .unwrap();
    drop(typed);
    let left = Finished::from(piped.wait_with_output().unwrap());
    assert_eq!(left.code, Some(3), "{left:#?}");
    assert!(
        left.stdout.contains("in origin") && left.stdout.contains("192.0.2.10/32"),
        "{left:#?}"
    );
    let unknown = run(shell().arg("nobody"));
    assert_eq!(unknown.code, Some(2), "{unknown:#?}");
    assert!(unknown.stderr.contains("relay-hot"), "{unknown:#?}");

    assert_eq!(lab.end(), Some(0));
    assert_eq!(run(&mut lab.shell()).stdout, "");
}

#[test]
fn a_download_over_tls_1_3_arrives() {
    let document = play(
        r#"
        [[workloads]]
        name = "200 kB"
        kind = "download"
        bytes = "200 kB"
        tls = "1.3"
        [[arms]]
        name = "direct"
        "#,
    );
    // TCP, TLS, the request: three round trips before the last byte.
    assert!(only(&document).arms[0].median_s.unwrap() > 0.06);
}

#[test]
fn a_relay_that_ends_tls_speaks_the_newer_version_across_the_distance() {
    // What a round trip saves must be more than a busy machine can cost.
    let document = play_on(
        &PATH.replace("20 ms", "100 ms"),
        r#"
        [relays.ends]
        mode = "tls"
        tls-profile = "s3"
        [relays.both]
        mode = "tls"
        [[workloads]]
        name = "1 kB"
        kind = "download"
        bytes = "1 kB"
        [[arms]]
        name = "direct"
        tls = "1.2"
        [[arms]]
        name = "relay"
        tls = "1.2"
        relay = "both"
        [[arms]]
        name = "strict"
        tls = "1.3"
        relay = "ends"
        "#,
    );
    let [direct, relay, strict] = [0, 1, 2].map(|arm| only(&document).arms[arm].median_s.unwrap());
    // Four round trips of 100 ms, and three of them with 1.3.
    assert!(
        direct >= 0.4 && relay >= 0.3 && strict >= 0.3,
        "{direct} {relay} {strict}"
    );
    assert!(relay < direct, "{relay} {direct}");
}

#[test]
fn exchanges_with_idle_time_between_are_timed_without_it() {
    let document = play(
        r#"
        [[workloads]]
        name = "asks"
        kind = "exchange"
        count = 3
        idle = "2 s"
        [[arms]]
        name = "direct"
        "#,
    );
    let seconds = only(&document).arms[0].median_s.unwrap();
    // Idle time would be 4 s of it.
    assert!((0.06..2.0).contains(&seconds), "{seconds}");
}

#[test]
fn netem_plays_the_same_path_or_is_named_as_missing() {
    let _alone = alone();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("scenario.toml");
    let upload = "[[workloads]]\nname = \"1 MB\"\nbytes = \"1 MB\"\n[[arms]]\nname = \"direct\"\n";
    std::fs::write(&file, format!("{PATH}{upload}")).unwrap();
    let run_by = |link: &str| {
        let mut command = longhaul();
        command
            .args(["lab", "run", "--json", "--link", link])
            .arg(&file);
        run(command.arg("--out").arg(folder.path().join(link)))
    };
    let theirs = run_by("netem");
    if theirs.code == Some(3) && theirs.stderr.contains("this kernel has no netem") {
        assert!(theirs.stderr.contains("modprobe sch_netem"), "{theirs:#?}");
        tell("comparison not run: this kernel has no netem");
        return;
    }
    assert_eq!(theirs.code, Some(0), "{theirs:#?}");
    let ours = run_by("ours");
    let [ours, theirs] = [ours, theirs].map(|finished| {
        let document: Document = serde_json::from_value(finished.json()).unwrap();
        only(&document).arms[0].median_s.unwrap()
    });
    // Slow start over 20 ms, then 50 Mbit/s: what differs is how a bucket lets bursts through.
    assert!(
        (theirs / ours - 1.0).abs() < 0.1,
        "{theirs} s with netem, {ours} s with ours"
    );
}

#[test]
fn what_netem_cannot_say_is_refused_before_anything_is_built() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("scenario.toml");
    let path = PATH.replace("1 BDP", "50 packets");
    let upload = "[[workloads]]\nname = \"w\"\nbytes = \"1 kB\"\n[[arms]]\nname = \"direct\"\n";
    std::fs::write(&file, format!("{path}{upload}")).unwrap();
    let mut command = longhaul();
    command.args(["lab", "run", "--link", "netem"]).arg(&file);
    let refused = run(command.arg("--out").arg(folder.path().join("out")));
    assert_eq!(refused.code, Some(2), "{refused:#?}");
    assert!(
        refused.stderr.contains("`path.queue`: not with netem"),
        "{refused:#?}"
    );
}

/// What everybody should know who reads a log: past the harness, which keeps what tests print.
fn tell(line: &str) {
    let line = format!("{line}\n");
    std::io::stderr().write_all(line.as_bytes()).unwrap();
}

#[test]
fn a_sweep_is_one_document_with_a_cell_per_value() {
    let document = play(
        r#"
        [factors]
        "path.rtt" = ["20 ms", "40 ms"]
        [[workloads]]
        name = "100 kB"
        bytes = "100 kB"
        [[arms]]
        name = "direct"
        "#,
    );
    let rtts: Vec<&str> = document
        .cells
        .iter()
        .map(|cell| cell.factors["path.rtt"].as_str())
        .collect();
    assert_eq!(rtts, ["20 ms", "40 ms"]);
}
