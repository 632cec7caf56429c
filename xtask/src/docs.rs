//! Pages that are generated from the program, so that they cannot say something else.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, ensure};

/// Writes every generated page.
pub(crate) fn write() -> Result<()> {
    let path = findings_page();
    std::fs::write(&path, findings()).with_context(|| format!("cannot write `{}`", path.display()))
}

/// Fails where a page is not what would be written now.
pub(crate) fn check() -> Result<()> {
    let path = findings_page();
    let found = std::fs::read_to_string(&path)
        .with_context(|| format!("cannot read `{}`", path.display()))?;
    ensure!(
        found == findings(),
        "`{}` is stale: run `cargo xtask docs`",
        path.display()
    );
    Ok(())
}

fn findings_page() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("..")
        .join("docs/findings.md")
}

fn findings() -> String {
    let mut page = String::from(
        "# What `longhaul explain` can find\n\n\
         <!-- Generated from `explain::CATALOGUE` by `cargo xtask docs`. -->\n\n\
         Names are stable: scripts may rely on them. What a capture must hold for a finding, and how the \
         seconds are counted, is in [explain.md](explain.md).\n",
    );
    for entry in &explain::CATALOGUE {
        let _ = write!(
            page,
            "\n## `{}`\n\n{}\n\nSource: {}.\n",
            entry.name, entry.meaning, entry.source
        );
    }
    page
}
