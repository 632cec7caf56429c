//! `longhaul tune` proved by the lab: what it predicts, then what the same transfers take before and after
//! `--apply` on real kernels over the same path, then the way back.
//! Needs what `longhaul doctor` lists for the lab; without it, these tests fail.

#![allow(clippy::unwrap_used, reason = "in a test, a panic is the report")]

mod common;

use std::fmt::Write as _;
use std::io::{BufRead as _, BufReader};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::MutexGuard;

use common::{Finished, Standing, alone, longhaul, run};
use record::flow;
use record::tune::{Document, Gain};

/// Predictions have to hold within this share of what is measured.
const WITHIN: f64 = 0.2;

/// A standing network of the lab: client and origin at both ends of a path.
struct Network {
    lab: Standing,
    server: Child,
    /// What the server says; it would miss whoever does not listen any more.
    _served: BufReader<ChildStdout>,
    _alone: MutexGuard<'static, ()>,
}

impl Network {
    fn new(name: &str, path: &str, client: &[(&str, &str)]) -> Self {
        let alone = alone();
        // Another lab of that name may be running on this machine.
        let name = &format!("{name}-{}", std::process::id());
        let mut scenario =
            format!("name = \"{name}\"\nseed = 1\n[path]\n{path}\nqueue = \"1 BDP\"\n");
        for (host, sysctls) in [("client", client), ("origin", &[])] {
            let all = sysctls
                .iter()
                .map(|(key, value)| format!("\"{key}\" = \"{value}\""));
            let all = all.collect::<Vec<_>>().join(", ");
            let _ = write!(
                scenario,
                "[hosts.{host}]\ncongestion-control = \"cubic\"\nsysctls = {{ {all} }}\n"
            );
        }
        scenario += "[[workloads]]\nname = \"w\"\nbytes = \"1 kB\"\n[[arms]]\nname = \"direct\"\n";
        let lab = Standing::up(name, &scenario);
        let mut server = shell(&lab, "origin")
            .args(["flow", "server", "192.0.2.10:7000", "--json"])
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut ready = String::new();
        let mut served = BufReader::new(server.stdout.take().unwrap());
        served.read_line(&mut ready).unwrap();
        assert!(ready.contains("ready"), "{ready}");
        Self {
            lab,
            server,
            _served: served,
            _alone: alone,
        }
    }

    fn tune(&self, arguments: &[&str]) -> Finished {
        let mut command = shell(&self.lab, "client");
        command.arg("tune").args(arguments);
        command
            .arg("--journal")
            .arg(self.lab.folder().join("tune.json"));
        command
            .arg("--drop-in")
            .arg(self.lab.folder().join("90.conf"));
        run(&mut command)
    }

    /// Seconds of each transfer, connecting included where there is only one.
    fn transfers(&self, arguments: &[&str]) -> Vec<f64> {
        let mut command = shell(&self.lab, "client");
        command.args(["flow", "client", "192.0.2.10:7000", "--json"]);
        let finished = run(command.args(arguments));
        assert_eq!(finished.code, Some(0), "{finished:#?}");
        let document: flow::Document = serde_json::from_value(finished.json()).unwrap();
        let flow = &document.flows[0];
        assert_eq!(flow.data_ok, Some(true), "{flow:#?}");
        match flow.transfers.as_slice() {
            [_] => vec![flow.total_s],
            several => several.iter().map(|transfer| transfer.seconds).collect(),
        }
    }

    /// Every sysctl of TCP in the client's namespace, as its kernel prints it.
    fn sysctls(&self) -> String {
        let script = "grep -r . /proc/sys/net/ipv4 --include='tcp_*' 2>/dev/null | sort";
        let mut command = self.lab.shell();
        let finished = run(command.args(["client", "--", "sh", "-c", script]));
        assert!(finished.stdout.contains("tcp_rmem:"), "{finished:#?}");
        finished.stdout
    }
}

impl Drop for Network {
    fn drop(&mut self) {
        // The lab's end takes the server with it.
        self.lab.end();
        let _ = self.server.wait();
    }
}

/// `longhaul` in a host of the lab.
fn shell(lab: &Standing, host: &str) -> Command {
    let mut command = lab.shell();
    command.args([host, "--"]).arg(longhaul().get_program());
    command
}

fn median(mut seconds: Vec<f64>) -> f64 {
    seconds.sort_by(f64::total_cmp);
    seconds[seconds.len() / 2]
}

#[track_caller]
fn close(predicted: f64, measured: f64, what: &str) {
    let off = (predicted - measured).abs() / measured;
    assert!(
        off <= WITHIN,
        "{what}: predicted {predicted:.3} s, measured {measured:.3} s"
    );
}

fn predicted<'a>(document: &'a Document, finding: &str, transfer: &str) -> &'a Gain {
    let finding = document.findings.iter().find(|one| one.name == finding);
    let finding = finding.unwrap_or_else(|| panic!("not found: {document:#?}"));
    let gain = finding
        .gains
        .iter()
        .find(|gain| gain.transfer.starts_with(transfer));
    gain.unwrap_or_else(|| panic!("no gain for {transfer}: {finding:#?}"))
}

/// Asks for advice, measures, applies, measures again, takes it back.
fn proves(
    network: &Network,
    tune: &[&str],
    finding: &str,
    transfer: &str,
    measure: impl Fn() -> f64,
) {
    let untouched = network.sysctls();
    let advice = network.tune(&[tune, &["--json"]].concat());
    assert_eq!(advice.code, Some(0), "{advice:#?}");
    let advice: Document = serde_json::from_value(advice.json()).unwrap();
    let gain = predicted(&advice, finding, transfer);

    let before = measure();
    let applied = network.tune(&[tune, &["--apply", "--yes"]].concat());
    assert_eq!(applied.code, Some(0), "{applied:#?}");
    let after = measure();
    close(gain.before_s, before, "before");
    close(gain.after_s, after, "after");
    close(gain.before_s - gain.after_s, before - after, "the gain");

    let reverted = network.tune(&["--revert"]);
    assert_eq!(reverted.code, Some(0), "{reverted:#?}");
    assert_eq!(network.sysctls(), untouched, "to the byte");
}

#[test]
fn case_b_gains_what_was_predicted() {
    let network = Network::new(
        "tune-window",
        "rtt = \"190 ms\"\nrate = \"100 Mbit/s\"",
        &[("net.ipv4.tcp_rmem", "1024 8800 8800")],
    );
    let path = [
        "--rtt",
        "190 ms",
        "--rate",
        "100 Mbit/s",
        "--bytes",
        "50 kB",
    ];
    proves(&network, &path, "receive-buffer", "download", || {
        median(
            (0..3)
                .flat_map(|_| network.transfers(&["--bytes", "50kB", "--direction", "down"]))
                .collect(),
        )
    });
}

#[test]
fn slow_start_after_idle_gains_what_was_predicted() {
    let network = Network::new("tune-idle", "rtt = \"100 ms\"\nrate = \"100 Mbit/s\"", &[]);
    let path = ["--rtt", "100 ms", "--rate", "100 Mbit/s", "--bytes", "1 MB"];
    let finding = "slow-start-after-idle";
    proves(&network, &path, finding, "ten uploads of 1 MB", || {
        let bursts = ["--burst", "1MB", "--idle", "5s", "--count", "4"];
        let seconds = network.transfers(&bursts);
        // The first burst is the connection's own slow start; the other nine are alike.
        seconds[0] + 9.0 * median(seconds[1..].to_vec())
    });
}
