//! `longhaul explain`, run on the lab's captures as a stranger would: as a process.

use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use record::explain::Document;
use sys::isolation;

/// `explain` could not be run, or printed something else than its document.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ExplainError {
    /// The process could not be started.
    #[error("cannot start `longhaul explain`")]
    Start {
        /// What the kernel said.
        #[source]
        source: io::Error,
    },
    /// It failed.
    #[error("`longhaul explain` ended with {status}: {stderr}")]
    Failed {
        /// How.
        status: String,
        /// Its own words.
        stderr: String,
    },
    /// Its output is no document of this version.
    #[error(
        "`longhaul explain --json` printed no document of schema version {}",
        record::VERSION
    )]
    Output {
        /// What is wrong with it.
        #[source]
        source: serde_json::Error,
    },
}

/// Explains `captures` as one timeline.
pub(super) fn explain(
    binary: &Path,
    captures: &[PathBuf],
    series: bool,
) -> Result<Document, ExplainError> {
    let mut command = Command::new(binary);
    command.args(["explain", "--json"]);
    if series {
        command.arg("--series");
    }
    command.arg("--").args(captures).stdin(Stdio::null());
    isolation::die_with_parent(&mut command);
    let output = command
        .output()
        .map_err(|source| ExplainError::Start { source })?;
    if !output.status.success() {
        return Err(ExplainError::Failed {
            status: output.status.to_string(),
            stderr: String::from_utf8_lossy(&output.stderr).trim().to_owned(),
        });
    }
    serde_json::from_slice(&output.stdout).map_err(|source| ExplainError::Output { source })
}
