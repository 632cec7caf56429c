//! `longhaul --version [--json]`.

use std::process::ExitCode;

use serde_json::json;

use crate::failure::Failure;
use crate::output;

/// Version and commit in one line, as manifests carry it.
pub(crate) fn identity() -> String {
    format!(
        "{} ({})",
        env!("CARGO_PKG_VERSION"),
        env!("LONGHAUL_COMMIT")
    )
}

pub(crate) fn run(as_json: bool) -> Result<ExitCode, Failure> {
    if as_json {
        output::json(&json!({
            "version": env!("CARGO_PKG_VERSION"),
            "commit": env!("LONGHAUL_COMMIT"),
            "features": ["explain", "simulate", "relay-http", "lab"],
            "target": std::env::consts::ARCH,
        }))?;
    } else {
        output::data(&format!("longhaul {}\n", identity()))?;
    }
    Ok(ExitCode::SUCCESS)
}
