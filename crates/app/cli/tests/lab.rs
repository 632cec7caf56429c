//! `longhaul lab run`, the whole binary on real kernels: what it prints and writes, and that nothing is
//! left of it whatever ends it. Needs what `longhaul doctor` lists for the lab; without it, these tests
//! fail. No test looks at how fast anything was, only at what must hold at any speed.

#![allow(clippy::unwrap_used, reason = "in a test, a panic is the report")]

mod common;

use std::io::{BufRead as _, BufReader, Read as _};
use std::os::unix::fs::{PermissionsExt as _, chown};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use common::{Finished, alone, longhaul, root, run};
use record::lab::{Arm, Document};
use serde_json::Value;
use tempfile::TempDir;

/// Twelve uploads on a short path; the assertion holds by a factor of three on any machine.
const SCENARIO: &str = r#"
name = "short"
title = "A few uploads over 30 ms"
seed = 7
[path]
rtt = "30 ms"
rate = "50 Mbit/s"
queue = "188 kB"
[hosts.client]
congestion-control = "cubic"
[hosts.origin]
congestion-control = "cubic"
[hosts.relay]
sysctls = { "net.ipv4.tcp_slow_start_after_idle" = "0" }
[relays.hot]
[relays.unprimed]
prime = false
[[workloads]]
name = "100 KiB"
bytes = "100 KiB"
assert = ["max(relay) <= 1 * min(direct)"]
[[arms]]
name = "direct"
[[arms]]
name = "direct-reuse"
reuse = true
[[arms]]
name = "relay"
relay = "hot"
unprimed = "unprimed"
[experiment]
runs = 4
block = 2
explains = "direct"
predicts = "relay"
"#;

/// Runs a program where the TUN device may be opened by everybody, as it is wherever udev has made it. A container may
/// have it for root alone.
const EVERYBODYS_TUN: &str =
    "mount -t tmpfs tun /dev/net && mknod -m 666 /dev/net/tun c 10 200 && exec \"$@\"";

/// Uid and gid of `nobody`.
const NOBODY: u32 = 65_534;

/// A scenario file and a folder for results, gone with the test.
struct Bench {
    folder: TempDir,
}

impl Bench {
    fn new(scenario: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("scenario.toml"), scenario).unwrap();
        Self { folder }
    }

    fn out(&self) -> PathBuf {
        self.folder.path().join("out")
    }

    fn command(&self) -> Command {
        let mut command = longhaul();
        self.arguments(&mut command);
        command
    }

    fn arguments(&self, command: &mut Command) {
        command
            .args(["lab", "run"])
            .arg(self.folder.path().join("scenario.toml"))
            .arg("--out")
            .arg(self.out())
            .env(MARK, self.mark());
    }

    /// What the environment of everything that this lab starts carries.
    fn mark(&self) -> String {
        self.folder.path().display().to_string()
    }

    fn text(&self, file: &str) -> String {
        std::fs::read_to_string(self.out().join(file)).unwrap()
    }

    /// Waits until nothing that carries the mark runs any more; fails after 20 s.
    fn expect_nothing_left(&self) {
        let deadline = Instant::now() + Duration::from_secs(20);
        let wanted = format!("{MARK}={}", self.mark());
        loop {
            let left = processes_with(&wanted);
            if left.is_empty() {
                return;
            }
            assert!(Instant::now() < deadline, "still running: {left:?}");
            std::thread::yield_now();
        }
    }
}

const MARK: &str = "LONGHAUL_TEST_MARK";

fn processes_with(variable: &str) -> Vec<PathBuf> {
    let carries = |process: &Path| {
        // A process that ends meanwhile can't be read and does not count; nor does a zombie, whose
        // environment is gone with its namespaces and devices.
        let environment = std::fs::read(process.join("environ")).unwrap_or_default();
        environment
            .split(|byte| *byte == 0)
            .any(|one| one == variable.as_bytes())
    };
    let entries = std::fs::read_dir("/proc").unwrap().flatten();
    entries
        .map(|entry| entry.path())
        .filter(|path| carries(path))
        .collect()
}

/// A run with `--json`, made once for all tests that look at what it gave.
fn finished() -> &'static (Bench, Finished) {
    static RUN: OnceLock<(Bench, Finished)> = OnceLock::new();
    RUN.get_or_init(|| {
        let _alone = alone();
        let bench = Bench::new(SCENARIO);
        let finished = run(bench.command().arg("--json"));
        assert_eq!(finished.code, Some(0), "{finished:#?}");
        (bench, finished)
    })
}

fn document(finished: &Finished) -> Document {
    serde_json::from_value(finished.json()).unwrap()
}

fn arm<'a>(document: &'a Document, name: &str) -> &'a Arm {
    let mut arms = document.cells[0].arms.iter();
    arms.find(|arm| arm.name == name).unwrap()
}

fn signal(child: &Child, name: &str) {
    let sent = Command::new("kill")
        .args([name, &child.id().to_string()])
        .status();
    assert!(sent.unwrap().success());
}

/// Starts a run and waits until its first block has been measured.
fn past_the_first_block(bench: &Bench) -> (Child, BufReader<std::process::ChildStderr>) {
    let mut command = bench.command();
    let mut child = command
        .arg("--json")
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut talk = BufReader::new(child.stderr.take().unwrap());
    let mut said = String::new();
    while !said.lines().any(|line| line.starts_with("1/6 ")) {
        assert!(
            talk.read_line(&mut said).unwrap() > 0,
            "it ended early: {said}"
        );
    }
    (child, talk)
}

#[test]
fn the_document_has_the_shape_that_others_build_on() {
    let (_, finished) = finished();
    let json = finished.json();
    assert_eq!(
        (&json["schema"], &json["scenario"]),
        (&"longhaul.lab".into(), &"short".into())
    );
    assert_eq!(
        (&json["seed"], &json["interrupted"]),
        (&7.into(), &false.into())
    );
    let cell = &json["cells"][0];
    assert_eq!(cell["workload"], "100 KiB");
    assert_eq!((&cell["valid"], &cell["why"]), (&true.into(), &Value::Null));
    assert_eq!(cell["factors"], serde_json::json!({}));
    for field in [
        "rtt_asked_s",
        "rtt_achieved_s",
        "rate_asked_bps",
        "rate_achieved_bps",
    ] {
        assert!(cell["path"][field].is_f64(), "{field}: {cell:#}");
    }
    let names: Vec<&Value> = cell["arms"]
        .as_array()
        .unwrap()
        .iter()
        .map(|arm| &arm["name"])
        .collect();
    assert_eq!(names, ["direct", "direct-reuse", "relay"]);
    for arm in cell["arms"].as_array().unwrap() {
        for field in [
            "median_s",
            "p05_s",
            "p95_s",
            "goodput_bps",
            "share_of_floor",
        ] {
            assert!(arm[field].is_f64(), "{field}: {arm:#}");
        }
        assert!(arm["limits"].is_object(), "{arm:#}");
    }
    let kept: Value = serde_json::from_str(&finished_bench().text("result.json")).unwrap();
    assert_eq!(json, kept, "stdout and result.json say the same");
}

fn finished_bench() -> &'static Bench {
    &finished().0
}

#[test]
fn every_upload_is_proved_and_the_relay_beats_the_direct_way() {
    let document = document(&finished().1);
    for arm in &document.cells[0].arms {
        assert_eq!(
            (arm.n, arm.failed, arm.samples_s.len()),
            (4, 0, 4),
            "{arm:#?}"
        );
    }
    let slowest = arm(&document, "relay").max_s.unwrap();
    let fastest = arm(&document, "direct")
        .samples_s
        .iter()
        .copied()
        .fold(f64::MAX, f64::min);
    assert!(
        slowest < fastest,
        "{slowest} s with the relay, {fastest} s without"
    );
    assert!(arm(&document, "relay").first_unprimed_s.is_some());
    assert!(document.priming[0].bytes > 0 && document.priming[0].requests > 0);
    assert!(document.assertions.iter().all(|assertion| assertion.holds));
    assert_eq!(document.order.len(), 6);
}

#[test]
fn the_direct_way_is_explained_and_the_relay_predicted_from_it() {
    let (bench, finished) = finished();
    let document = document(finished);
    let prediction = &document.cells[0].predictions[0];
    assert_eq!(prediction.arm, "relay");
    assert!(
        prediction.predicted_s > 0.03,
        "faster than light: {prediction:#?}"
    );
    assert!(prediction.error.is_some(), "{prediction:#?}");
    let first_relay = document
        .order
        .iter()
        .position(|label| label.starts_with("relay"));
    let first_direct = document
        .order
        .iter()
        .position(|label| label.starts_with("direct,"));
    assert!(first_direct < first_relay, "{:?}", document.order);

    let limits = &arm(&document, "direct").limits;
    // A handshake and several rounds of slow start over 30 ms.
    let sum: f64 = limits.values().sum();
    assert!(sum > 0.09 && limits.len() >= 3, "{limits:?}");

    let before: record::explain::Document =
        serde_json::from_str(&bench.text("explain-before.json")).unwrap();
    assert!(
        before
            .findings
            .iter()
            .any(|finding| finding.name == "no-connection-reuse")
    );
}

#[test]
fn its_captures_can_be_explained_again() {
    let (bench, finished) = finished();
    // Explaining takes the processors that another lab measures with.
    let _alone = alone();
    let captures = std::fs::read_dir(bench.out().join("captures")).unwrap();
    let mut direct: Vec<PathBuf> = captures
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.display().to_string().contains("-direct-100-kib"))
        .collect();
    direct.sort();
    // `BLOCK-ARM-WORKLOAD-ATTEMPT.pcapng`: of a block that was repeated the last one counts.
    let of_block = |path: &PathBuf| {
        path.file_name()
            .map(|name| name.as_encoded_bytes()[..2].to_vec())
    };
    direct.reverse();
    direct.dedup_by_key(|path| of_block(path));
    direct.reverse();
    assert_eq!(direct.len(), 2, "{direct:?}");
    let again = run(longhaul().args(["explain", "--json"]).args(&direct)).json();
    let connections = again["connections"].as_array().unwrap();
    assert_eq!(connections.len(), 4);
    let mut waited = arm(&document(finished), "direct").samples_s.clone();
    let mut seen: Vec<f64> = connections
        .iter()
        .map(|one| one["transfers"][0]["with_handshake_s"].as_f64().unwrap())
        .collect();
    waited.sort_by(f64::total_cmp);
    seen.sort_by(f64::total_cmp);
    for (seen, waited) in seen.iter().zip(&waited) {
        // What the client waited and what the wire shows are the same thing, but for its own work.
        assert!(
            *seen < waited * 1.5 && *seen > waited / 1.5,
            "{seen} s against {waited} s"
        );
    }
}

#[test]
fn the_report_needs_nothing_from_anywhere() {
    let html = finished_bench().text("report.html");
    assert!(html.contains("<svg") && html.contains("100 KiB"));
    for fetch in [
        "src=\"http",
        "href=\"http",
        "src=\"//",
        "url(http",
        "@import",
        "<script src",
        "<link ",
    ] {
        assert!(!html.contains(fetch), "`{fetch}` in the report");
    }
}

#[test]
fn a_broken_assertion_is_exit_code_1_with_both_numbers() {
    let _alone = alone();
    let bench = Bench::new(
        &SCENARIO
            .replace("max(relay) <= 1 *", "min(direct) <= 1 *")
            .replace("min(direct)\"]", "max(relay)\"]"),
    );
    let broken = run(bench.command().args(["--runs", "2"]));
    assert_eq!(broken.code, Some(1), "{broken:#?}");
    assert!(broken.stdout.contains("0 of 1"), "{}", broken.stdout);
    assert!(broken.stdout.contains("against"), "{}", broken.stdout);
    bench.expect_nothing_left();
}

#[test]
fn an_interrupted_run_keeps_what_it_measured() {
    let _alone = alone();
    for name in ["-INT", "-TERM"] {
        let bench = Bench::new(SCENARIO);
        let (child, mut talk) = past_the_first_block(&bench);
        signal(&child, name);
        let mut said = String::new();
        talk.read_to_string(&mut said).unwrap();
        let cut = Finished::from(child.wait_with_output().unwrap());
        assert_eq!(cut.code, Some(130), "{name}: {said}");
        let document = document(&cut);
        assert!(document.interrupted && document.assertions.is_empty());
        assert!(
            (1..6).contains(&document.order.len()),
            "{:?}",
            document.order
        );
        let measured: u64 = document.cells[0].arms.iter().map(|arm| arm.n).sum();
        assert_eq!(measured, 2 * document.order.len() as u64);
        assert!(bench.text("report.html").contains("was interrupted"));
        bench.expect_nothing_left();
    }
}

#[test]
fn a_killed_run_leaves_nothing_behind() {
    let _alone = alone();
    let bench = Bench::new(SCENARIO);
    let (mut child, _talk) = past_the_first_block(&bench);
    // Init, the inner process, link, origin, relay: more than the one that is killed.
    let mark = format!("{MARK}={}", bench.mark());
    assert!(
        processes_with(&mark).len() >= 5,
        "{:?}",
        processes_with(&mark)
    );
    child.kill().unwrap();
    child.wait().unwrap();
    bench.expect_nothing_left();
}

#[test]
fn a_link_that_dies_ends_the_run_with_its_name() {
    let _alone = alone();
    let bench = Bench::new(SCENARIO);
    let (mut child, mut talk) = past_the_first_block(&bench);
    let mark = format!("{MARK}={}", bench.mark());
    let is_link = |process: &PathBuf| {
        let words = std::fs::read(process.join("cmdline")).unwrap_or_default();
        words.ends_with(b"worker\0link\0")
    };
    let link = processes_with(&mark)
        .into_iter()
        .find(is_link)
        .expect("the link runs");
    let id = link.file_name().unwrap();
    assert!(
        Command::new("kill")
            .arg("-KILL")
            .arg(id)
            .status()
            .unwrap()
            .success()
    );
    let mut said = String::new();
    talk.read_to_string(&mut said).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(3), "{said}");
    assert!(said.contains("the link ended (signal: 9"), "{said}");
    let kept: Document = serde_json::from_str(&bench.text("result.json")).unwrap();
    let why = kept.broken.unwrap();
    assert!(why.contains("the link ended (signal: 9"), "{why}");
    assert!(!kept.order.is_empty() && kept.interrupted && kept.assertions.is_empty());
    let measured: u64 = kept.cells[0].arms.iter().map(|arm| arm.n).sum();
    assert_eq!(measured, 2 * kept.order.len() as u64);
    bench.expect_nothing_left();
}

#[test]
fn an_external_client_is_proved_and_timed_on_the_wire() {
    let _alone = alone();
    let bench = Bench::new(SCENARIO);
    let python = std::env::var("LONGHAUL_PYTHON").unwrap_or_else(|_| "python3".to_owned());
    let script = root().join("scenarios/field/clients/form_post.py");
    let client = format!(
        "'{python}' '{}' --range 1 --url {{url}} --file_input {{file}}",
        script.display()
    );
    let ran = run(bench
        .command()
        .args(["--json", "--runs", "2", "--client", &client]));
    assert_eq!(ran.code, Some(0), "{ran:#?}");
    assert!(
        ran.stderr
            .contains("arms that reuse a connection are left out"),
        "{}",
        ran.stderr
    );
    let document = document(&ran);
    for (name, count) in [("direct", 2), ("direct-reuse", 0), ("relay", 2)] {
        let arm = arm(&document, name);
        assert_eq!((arm.n, arm.failed), (count, 0), "{arm:#?}");
    }
    // Python alone takes longer to start than this upload takes on the wire.
    let relay = arm(&document, "relay").max_s.unwrap();
    let direct = arm(&document, "direct").median_s.unwrap();
    assert!(
        relay < direct,
        "{relay} s with the relay, {direct} s without"
    );
    bench.expect_nothing_left();
}

#[test]
fn a_client_command_that_fails_is_quoted_and_nothing_holds() {
    let _alone = alone();
    let bench = Bench::new(SCENARIO);
    let client = "echo no such bucket >&2; exit 9";
    let failed = run(bench
        .command()
        .args(["--json", "--runs", "2", "--client", client]));
    assert_eq!(failed.code, Some(1), "{failed:#?}");
    let document = document(&failed);
    let why = document.cells[0].why.as_deref().unwrap();
    assert!(why.contains("exit status: 9: no such bucket"), "{why}");
    assert_eq!(arm(&document, "direct").failed, 2);
    assert!(document.assertions.iter().all(|assertion| !assertion.holds));
}

#[test]
fn an_ordinary_user_needs_no_root() {
    let _alone = alone();
    // Longer, because delays are less exact without real-time priority.
    let bench = Bench::new(&SCENARIO.replace("30 ms", "100 ms"));
    let folder = bench.folder.path();
    std::fs::set_permissions(folder, std::fs::Permissions::from_mode(0o755)).unwrap();
    let binary = folder.join("longhaul");
    std::fs::copy(env!("CARGO_BIN_EXE_longhaul"), &binary).unwrap();
    std::fs::create_dir(bench.out()).unwrap();
    let mut command = if is_root() {
        chown(bench.out(), Some(NOBODY), Some(NOBODY)).unwrap();
        let mut command = Command::new("unshare");
        let nobody = NOBODY.to_string();
        command.args([
            "--mount",
            "sh",
            "-c",
            EVERYBODYS_TUN,
            "sh",
            "setpriv",
            "--reuid",
            &nobody,
            "--regid",
            &nobody,
            "--clear-groups",
            "--",
        ]);
        command.arg(&binary);
        command
    } else {
        Command::new(&binary)
    };
    bench.arguments(&mut command);
    let ran = run(command
        .args(["--json", "--runs", "2"])
        .env("HOME", bench.out())
        .stdin(Stdio::null()));
    let cell = &document(&ran).cells[0];
    // Without real-time priority a busy machine may make the link too late for this path. Then the run has to say
    // so; that it went is what matters here.
    let why = cell.why.as_deref().unwrap_or_default();
    let too_late = why.starts_with("the path was off 3 times");
    assert_eq!(ran.code, Some(i32::from(too_late)), "{ran:#?}");
    assert!(cell.valid != too_late, "{why}");
    bench.expect_nothing_left();
}

fn is_root() -> bool {
    use std::os::unix::fs::MetadataExt as _;
    std::fs::metadata("/proc/self").unwrap().uid() == 0
}
