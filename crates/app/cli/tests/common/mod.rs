//! What the whole-binary tests share.

#![allow(
    dead_code,
    unreachable_pub,
    clippy::print_stderr,
    reason = "each test binary uses its part, and a test that does not run says so"
)]

use std::path::PathBuf;
use std::process::{Command, Output, Stdio};

use serde_json::Value;

/// The binary under test.
pub fn longhaul() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_longhaul"));
    command.stdin(Stdio::null()).env("NO_COLOR", "1");
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

/// The repository's root.
pub fn root() -> PathBuf {
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../.."))
}
