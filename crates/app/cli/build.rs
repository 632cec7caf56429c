//! Notes the commit that is built, for `--version`, manifests and bug reports.

use std::process::Command;

fn main() {
    println!("cargo:rerun-if-changed=../../../.git/HEAD");
    println!("cargo:rerun-if-changed=../../../.git/refs");
    // What is compiled in decides whether it is the commit's; tests do not.
    for group in ["../../app", "../../core", "../../host"] {
        for member in std::fs::read_dir(group).into_iter().flatten().flatten() {
            println!("cargo:rerun-if-changed={}/src", member.path().display());
        }
    }
    // Who builds without git, as in a root of its own, tells the commit.
    println!("cargo:rerun-if-env-changed=LONGHAUL_COMMIT");
    let told = std::env::var("LONGHAUL_COMMIT").ok();
    println!(
        "cargo:rustc-env=LONGHAUL_COMMIT={}",
        told.or_else(commit).unwrap_or_else(|| "unknown".to_owned())
    );
}

/// The short hash of the checkout, with `-dirty` where tracked files differ from it; `None` for a source tree
/// without git.
fn commit() -> Option<String> {
    let hash = git(&["rev-parse", "--short=12", "HEAD"])?;
    let changed = git(&["status", "--porcelain", "--untracked-files=no"])?;
    let mark = if changed.is_empty() { "" } else { "-dirty" };
    Some(format!("{hash}{mark}"))
}

fn git(arguments: &[&str]) -> Option<String> {
    let output = Command::new("git").args(arguments).output().ok()?;
    output
        .status
        .success()
        .then(|| String::from_utf8_lossy(&output.stdout).trim().to_owned())
}
