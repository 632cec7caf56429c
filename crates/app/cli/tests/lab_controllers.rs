//! Congestion control as eBPF carries transfers over a lab's lossy path: by a host's route, by a relay's profile, by a
//! scenario's list of preferences.
//! Needs what `longhaul doctor` lists for the lab and `cc`; without it, these tests fail.

#![allow(clippy::unwrap_used, reason = "in a test, a panic is the report")]

mod common;

use std::io::{BufRead as _, BufReader};
use std::process::{Child, ChildStdout, Command, Stdio};

use common::{Standing, alone, longhaul, run};
use record::{flow, lab};
use serde_json::Value;

/// Losses that a controller has to answer: 0.5 % of 1400 segments are seven.
const PATH: &str = "
    [path]
    rtt = \"30 ms\"
    rate = \"30 Mbit/s\"
    queue = \"1 BDP\"
    loss = \"0.5 %\"
";

/// A controller in the kernel, taken out at the end where this put it in.
struct Loaded(Option<String>);

impl Loaded {
    fn new(arguments: &[&str]) -> Self {
        let loaded = run(longhaul().args(["cc", "load"]).args(arguments));
        match loaded.code {
            Some(0) => Self(Some(loaded.stdout.trim().to_owned())),
            // The host's own, which stays.
            _ if loaded.stderr.contains("registered already") => Self(None),
            _ => panic!("{loaded:#?}"),
        }
    }
}

impl Drop for Loaded {
    fn drop(&mut self) {
        if let Some(name) = self.0.take() {
            let unloaded = run(longhaul().args(["cc", "unload", &name]));
            assert_eq!(unloaded.code, Some(0), "{unloaded:#?}");
        }
    }
}

/// A process of a lab's host that prints lines, and ends with this at the latest.
struct Talking {
    child: Child,
    lines: BufReader<ChildStdout>,
}

impl Talking {
    fn start(command: &mut Command) -> Self {
        let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap());
        Self { child, lines }
    }

    /// The first line of JSON that is meant.
    fn until(&mut self, is_meant: impl Fn(&Value) -> bool) -> Value {
        loop {
            let mut line = String::new();
            let count = self.lines.read_line(&mut line).unwrap();
            assert!(count > 0, "it ended before");
            let value: Value = serde_json::from_str(&line).unwrap();
            if is_meant(&value) {
                return value;
            }
        }
    }
}

impl Drop for Talking {
    fn drop(&mut self) {
        // Already gone where it has ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// `longhaul` in a host of the lab.
fn shell(lab: &Standing, host: &str) -> Command {
    let mut command = lab.shell();
    command.args([host, "--"]).arg(longhaul().get_program());
    command
}

fn flow_of(command: &mut Command) -> flow::Flow {
    let finished = run(command);
    assert_eq!(finished.code, Some(0), "{finished:#?}");
    let mut document: flow::Document = serde_json::from_value(finished.json()).unwrap();
    let flow = document.flows.remove(0);
    assert_eq!(flow.data_ok, Some(true), "{flow:#?}");
    flow
}

#[test]
fn a_route_and_a_relay_s_profile_in_a_namespace_have_what_was_loaded() {
    let _alone = alone();
    let _loaded = [Loaded::new(&["highspeed"]), Loaded::new(&["westwood+"])];
    let name = format!("controllers-{}", std::process::id());
    let scenario = format!(
        "name = \"{name}\"\nseed = 8\n{PATH}\n[hosts.client]\ncongestion-control = \"highspeed\"\n\
         [[workloads]]\nname = \"w\"\nbytes = \"1 kB\"\n[[arms]]\nname = \"direct\"\n"
    );
    let lab = Standing::up(&name, &scenario);
    let mut server =
        Talking::start(shell(&lab, "origin").args(["flow", "server", "192.0.2.10:7000", "--json"]));
    server.until(|line| line["event"] == "ready");

    let direct = [
        "flow",
        "client",
        "192.0.2.10:7000",
        "--json",
        "--bytes",
        "2MB",
    ];
    let flow = flow_of(shell(&lab, "client").args(direct));
    assert_eq!(flow.congestion_control.as_deref(), Some("lh_highspeed"));

    let file = lab.folder().join("relay.toml");
    let text = r#"
        [profiles.lossy]
        extends = "wan"
        congestion-control = ["westwood+", "cubic"]
        [[tcp]]
        listen = "127.0.0.1:7001"
        target = "192.0.2.10:7000"
        server-profile = "lossy"
    "#;
    std::fs::write(&file, text).unwrap();
    let mut relay = Talking::start(
        shell(&lab, "client")
            .args(["relay", "run", "--json", "--config"])
            .arg(&file),
    );
    relay.until(|line| line["event"] == "listening");
    let mut watching = Talking::start(
        shell(&lab, "client")
            .args([
                "top",
                "--json",
                "-i",
                "50 ms",
                "--max-cpu",
                "0",
                "--duration",
                "2 min",
            ])
            .args(["--filter", "dport = :7000 and cc lh_westwood"]),
    );
    watching.until(|line| line["line"] == "reading");
    let relayed = [
        "flow",
        "client",
        "127.0.0.1:7001",
        "--json",
        "--bytes",
        "8MB",
    ];
    flow_of(shell(&lab, "client").args(relayed));
    // The relay's own socket, sending under its controller.
    watching.until(|line| {
        let rows = line["connections"].as_array();
        rows.is_some_and(|rows| {
            rows.iter()
                .any(|row| row["out_bps"].as_f64().is_some_and(|out| out > 1e6))
        })
    });
    drop((watching, relay, server));
}

#[test]
fn a_scenario_s_list_takes_its_first_and_without_it_the_next() {
    let _alone = alone();
    let segments = (1000 + std::process::id() % 9000).to_string();
    let _loaded = [
        Loaded::new(&["westwood+"]),
        Loaded::new(&["newreno", "--ssthresh", &segments]),
    ];
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("scenario.toml");
    let scenario = format!(
        r#"
        name = "controllers"
        seed = 8
        {PATH}
        [relays.near]
        mode = "tcp"
        congestion-control = ["westwood+", "cubic"]
        [relays.next]
        mode = "tcp"
        congestion-control = ["newreno_none", "cubic"]
        [[workloads]]
        name = "2 MB"
        kind = "stream"
        bytes = "2 MB"
        [[arms]]
        name = "threshold"
        hosts.client.congestion-control = "newreno_{segments}"
        [[arms]]
        name = "westwood"
        relay = "near"
        [[arms]]
        name = "the next"
        relay = "next"
        [experiment]
        runs = 1
        block = 1
        "#
    );
    std::fs::write(&file, &scenario).unwrap();
    let play = |file: &std::path::Path| {
        let mut command = longhaul();
        command.args(["lab", "run", "--json", "--out"]);
        run(command.arg(folder.path().join("out")).arg(file))
    };
    let finished = play(&file);
    assert_eq!(finished.code, Some(0), "{finished:#?}");
    let document: lab::Document = serde_json::from_value(finished.json()).unwrap();
    for arm in &document.cells[0].arms {
        assert_eq!((arm.n, arm.failed), (1, 0), "{arm:#?}");
    }

    let absent = scenario.replace(&format!("newreno_{segments}"), "newreno_none");
    std::fs::write(&file, absent).unwrap();
    let refused = play(&file);
    assert_eq!(refused.code, Some(3), "{refused:#?}");
    assert!(refused.stderr.contains("longhaul cc load"), "{refused:#?}");
}
