//! The committed eBPF object: made again where its source has changed.

use std::path::Path;
use std::process::Command;

use anyhow::{Context as _, Result, ensure};

const FOLDER: &str = "crates/host/controllers/bpf";
const SOURCE: &str = "controllers.bpf.c";
const OBJECT: &str = "controllers.bpf.o";

/// Compiles, strips debugging sections (BTF stays), and writes the source's hash beside the object.
pub(crate) fn write() -> Result<()> {
    let tool = |names: &[&str], arguments: &[&str]| -> Result<()> {
        for name in names {
            let ran = Command::new(name)
                .args(arguments)
                .current_dir(FOLDER)
                .status();
            if let Ok(status) = ran {
                ensure!(status.success(), "`{name}` ended with {status}");
                return Ok(());
            }
        }
        anyhow::bail!("none of {} is installed", names.join(", "))
    };
    let compile = [
        "-target", "bpfel", "-mcpu=v3", "-O2", "-g", "-Wall", "-Werror", "-c", SOURCE, "-o", OBJECT,
    ];
    tool(&["clang", "clang-19", "clang-16", "clang-14"], &compile)?;
    tool(
        &[
            "llvm-strip",
            "llvm-strip-19",
            "llvm-strip-16",
            "llvm-strip-14",
        ],
        &["-g", OBJECT],
    )?;
    let hash = Command::new("sha256sum")
        .arg(SOURCE)
        .current_dir(FOLDER)
        .output()
        .context("cannot run `sha256sum`")?;
    ensure!(hash.status.success(), "`sha256sum` failed");
    let path = Path::new(FOLDER).join("controllers.bpf.sha256");
    std::fs::write(&path, hash.stdout).with_context(|| format!("cannot write {}", path.display()))
}
