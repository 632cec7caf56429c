//! `longhaul tune` on the kernel's own sysctls, in a network namespace of the test's.

#![allow(clippy::unwrap_used, reason = "in a test, a panic is the report")]

mod common;

use std::path::Path;
use std::process::{Command, Output};

use common::longhaul;
use serde_json::Value;
use tempfile::TempDir;

/// A named network namespace, removed at the end.
struct Namespace {
    name: String,
    state: TempDir,
}

impl Namespace {
    fn new(purpose: &str) -> Self {
        let name = format!("lh-tune-{purpose}-{}", std::process::id());
        ip(&["netns", "add", &name]);
        Self {
            name,
            state: TempDir::new().unwrap(),
        }
    }

    /// `program` inside.
    fn command(&self, program: impl AsRef<std::ffi::OsStr>) -> Command {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &self.name]).arg(program);
        command
    }

    fn tune(&self, arguments: &[&str]) -> Output {
        self.tune_command(arguments).output().unwrap()
    }

    fn tune_command(&self, arguments: &[&str]) -> Command {
        let mut command = self.command(longhaul().get_program());
        command
            .arg("tune")
            .args(arguments)
            .arg("--journal")
            .arg(self.journal())
            .arg("--drop-in")
            .arg(self.state.path().join("sysctl.d/90-longhaul.conf"));
        command
    }

    fn journal(&self) -> std::path::PathBuf {
        self.state.path().join("tune.json")
    }

    fn set(&self, key: &str, value: &str) {
        let output = self
            .command("sysctl")
            .args(["-w", &format!("{key}={value}")])
            .output()
            .unwrap();
        assert!(output.status.success(), "{output:?}");
    }

    /// Every sysctl of TCP, as the kernel prints it.
    fn snapshot(&self) -> String {
        let script = "grep -r . /proc/sys/net/ipv4 --include='tcp_*' 2>/dev/null | sort";
        let output = self.command("sh").args(["-c", script]).output().unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        assert!(text.contains("tcp_rmem:"), "{text}");
        text
    }
}

impl Drop for Namespace {
    fn drop(&mut self) {
        ip(&["netns", "delete", &self.name]);
    }
}

fn ip(arguments: &[&str]) {
    let output = Command::new("ip").args(arguments).output().unwrap();
    assert!(output.status.success(), "{output:?}");
}

const PATH: [&str; 4] = ["--rtt", "190 ms", "--rate", "100 Mbit/s"];

fn with<'a>(more: &[&'a str]) -> Vec<&'a str> {
    PATH.iter().chain(more).copied().collect()
}

/// Field case B's receiver, with folklore on top.
fn held_back(purpose: &str) -> Namespace {
    let namespace = Namespace::new(purpose);
    namespace.set("net.ipv4.tcp_rmem", "1024 8800 8800");
    namespace.set("net.ipv4.tcp_sack", "0");
    namespace
}

#[test]
fn case_b_is_found_changed_read_back_and_taken_back_to_the_byte() {
    let namespace = held_back("loop");
    let before = namespace.snapshot();

    let advice = namespace.tune(&with(&["--check", "--json"]));
    assert_eq!(advice.status.code(), Some(1), "{advice:?}");
    let advice: Value = serde_json::from_slice(&advice.stdout).unwrap();
    assert_eq!(advice["schema"], "longhaul.tune");
    assert_eq!(advice["findings"][0]["name"], "receive-buffer");
    assert_eq!(
        before,
        namespace.snapshot(),
        "nothing is written without --apply"
    );

    let applied = namespace.tune(&with(&["--apply", "--yes", "--persist"]));
    assert!(applied.status.success(), "{applied:?}");
    let after = namespace.snapshot();
    assert!(after.contains("tcp_sack:1"), "{after}");
    assert!(!after.contains("8800"), "{after}");
    let checked = namespace.tune(&with(&["--check"]));
    assert!(checked.status.success(), "{checked:?}");

    let reverted = namespace.tune(&["--revert"]);
    assert!(reverted.status.success(), "{reverted:?}");
    assert_eq!(before, namespace.snapshot());
    let again = namespace.tune(&["--revert"]);
    assert_eq!(again.status.code(), Some(3));
    let said = String::from_utf8(again.stderr).unwrap();
    assert!(said.contains("nothing to take back"), "{said}");
}

#[test]
fn killed_in_the_middle_it_can_still_be_taken_back_to_the_byte() {
    let namespace = held_back("kill");
    let before = namespace.snapshot();
    let mut interrupted = 0_u32;
    // The journal is there before the first change; from then on any moment may be the last.
    for patience in 0..20_u32 {
        let mut child = namespace
            .tune_command(&with(&["--apply", "--yes", "--persist"]))
            .stdout(std::process::Stdio::null())
            .stderr(std::process::Stdio::null())
            .spawn()
            .unwrap();
        await_file(&namespace.journal(), &mut child);
        // Later with every round, by turns of a loop that takes no clock.
        for _ in 0..patience {
            std::thread::yield_now();
        }
        // SIGKILL; it may have ended just now.
        let _ = child.kill();
        if !child.wait().unwrap().success() {
            interrupted += 1;
        }
        let reverted = namespace.tune(&["--revert"]);
        assert!(reverted.status.success(), "{reverted:?}");
        assert_eq!(before, namespace.snapshot(), "round {patience}");
        assert!(!namespace.journal().exists());
    }
    assert!(interrupted > 0, "no round was interrupted");
}

/// Until the file is there or the child has ended.
fn await_file(path: &Path, child: &mut std::process::Child) {
    while !path.exists() {
        if let Some(status) = child.try_wait().unwrap() {
            assert!(path.exists(), "ended with {status} and no journal");
        }
        std::thread::yield_now();
    }
}

#[test]
fn a_path_without_a_round_trip_and_apply_without_a_terminal_say_the_next_step() {
    let namespace = held_back("usage");
    let nowhere = namespace.tune(&[]);
    assert_eq!(nowhere.status.code(), Some(2));
    let said = String::from_utf8(nowhere.stderr).unwrap();
    assert!(said.contains("--to HOST:PORT"), "{said}");
    let unasked = namespace
        .tune_command(&with(&["--apply"]))
        .stdin(std::process::Stdio::null())
        .output()
        .unwrap();
    assert_eq!(unasked.status.code(), Some(2));
    let said = String::from_utf8(unasked.stderr).unwrap();
    assert!(said.contains("add `--yes`"), "{said}");
}
