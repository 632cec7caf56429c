//! What the whole-binary tests share.

#![allow(
    dead_code,
    unreachable_pub,
    clippy::print_stderr,
    reason = "each test binary uses its part, and a test that does not run says so"
)]

pub mod trunk;

use std::io::{BufRead as _, BufReader};
use std::net::{SocketAddr, TcpListener};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStderr, Command, Output, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};

use serde_json::Value;
use tempfile::TempDir;

/// The binary under test.
pub fn longhaul() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_longhaul"));
    command.stdin(Stdio::null()).env("NO_COLOR", "1");
    command
}

/// `relay` in this mode towards `service`, with its listening socket as systemd gives it: descriptor 3, and variables for this
/// process.
pub fn socket_activated(socket: &TcpListener, mode: &str, service: SocketAddr) -> Command {
    let mut command = Command::new("sh");
    command
        .args([
            "-c",
            "exec 3<&0 </dev/null; LISTEN_PID=$$ LISTEN_FDS=1 exec \"$@\"",
            "sh",
        ])
        .arg(longhaul().get_program())
        .args(["relay", mode, &socket.local_addr().unwrap().to_string()])
        .args([&service.to_string(), "--json"])
        .stdin(OwnedFd::from(socket.try_clone().unwrap()));
    command
}

/// Runs to the end and takes stdout, stderr and status apart.
pub fn run(command: &mut Command) -> Finished {
    Finished::from(command.output().expect("the binary starts"))
}

/// A process that has ended.
#[derive(Debug)]
pub struct Finished {
    pub code: Option<i32>,
    pub stdout: String,
    pub stderr: String,
}

impl From<Output> for Finished {
    fn from(output: Output) -> Self {
        Self {
            code: output.status.code(),
            stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
            stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
        }
    }
}

impl Finished {
    /// The JSON document on stdout; fails with everything that was said.
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.stdout)
            .unwrap_or_else(|error| panic!("stdout is no JSON document: {error}\n{self:#?}"))
    }
}

/// The folder of the field reports, or `None` where `LONGHAUL_FIELD_DATA` is `none`; absence is a failure.
pub fn field_data() -> Option<PathBuf> {
    let folder = match std::env::var_os("LONGHAUL_FIELD_DATA") {
        Some(value) if value == "none" => {
            eprintln!("not run: LONGHAUL_FIELD_DATA is `none`");
            return None;
        }
        Some(value) => PathBuf::from(value),
        None => PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../../../shared")),
    };
    assert!(
        folder.join("seeds").is_dir(),
        "no field data at `{}`: set LONGHAUL_FIELD_DATA to its folder, or to `none`",
        folder.display()
    );
    Some(folder)
}

/// One lab at a time in a test binary: two would measure each other.
pub fn alone() -> MutexGuard<'static, ()> {
    static LAB: Mutex<()> = Mutex::new(());
    // A test that failed has not made the lab unusable.
    LAB.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The repository's root.
pub fn root() -> PathBuf {
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../.."))
}

/// A network of `lab up`, which ends with this at the latest.
#[derive(Debug)]
pub struct Standing {
    name: String,
    folder: TempDir,
    lab: Child,
    /// What it says; it would miss whoever does not listen any more.
    _talk: BufReader<ChildStderr>,
}

impl Standing {
    /// Builds the network of `scenario`, which calls itself `name`, and waits until it is up.
    pub fn up(name: &str, scenario: &str) -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let file = folder.path().join("scenario.toml");
        std::fs::write(&file, scenario).expect("the scenario can be written");
        let mut lab = longhaul()
            .args(["lab", "up"])
            .arg(&file)
            .arg("--out")
            .arg(folder.path().join("out"))
            .stderr(Stdio::piped())
            .spawn()
            .expect("the binary starts");
        let mut talk = BufReader::new(lab.stderr.take().expect("it is piped"));
        let mut said = String::new();
        while !said.contains("Ctrl-C ends it") {
            let count = talk.read_line(&mut said).expect("it speaks");
            assert!(count > 0, "it ended: {said}");
        }
        Self {
            name: name.to_owned(),
            folder,
            lab,
            _talk: talk,
        }
    }

    /// Where what belongs to it may be kept.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// `longhaul lab shell` in it, before its host is named.
    pub fn shell(&self) -> Command {
        let mut command = longhaul();
        command.args(["lab", "shell", "--lab", &self.name]);
        command
    }

    /// Interrupts it as Ctrl-C does, and returns its exit code.
    pub fn end(&mut self) -> Option<i32> {
        // Once it was waited for, its number may be another's.
        if let Ok(None) = self.lab.try_wait() {
            let id = self.lab.id().to_string();
            let status = Command::new("kill").args(["-INT", &id]).status();
            assert!(status.is_ok_and(|status| status.success()), "no such lab");
        }
        self.lab.wait().expect("it ends").code()
    }
}

impl Drop for Standing {
    fn drop(&mut self) {
        self.end();
    }
}
