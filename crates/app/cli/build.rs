//! Notes the commit that is built, for `--version`, manifests and bug reports.

use std::process::Command;

fn main() {
    println!("cargo:rerun-if-changed=../../../.git/HEAD");
    println!("cargo:rerun-if-changed=../../../.git/refs");
    println!(
        "cargo:rustc-env=LONGHAUL_COMMIT={}",
        commit().unwrap_or_else(|| "unknown".to_owned())
    );
}

/// The short hash of the checkout; `None` for a source tree without git.
fn commit() -> Option<String> {
    let output = Command::new("git")
        .args(["rev-parse", "--short=12", "HEAD"])
        .output()
        .ok()?;
    output
        .status
        .success()
        .then(|| String::from_utf8_lossy(&output.stdout).trim().to_owned())
}
