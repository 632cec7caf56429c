//! Every script of `scripts/conformance` against our endpoint, in virtual time. Crate `flow` plays the
//! same ones against the kernel.

#![allow(clippy::unwrap_used, reason = "in a test, a panic is the report")]

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use longhaul_script::{Endpoint, Script, Tolerance, Who, play};

fn scripts() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../scripts/conformance");
    let mut scripts: Vec<_> = fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| {
            path.extension()
                .is_some_and(|extension| extension == "play")
        })
        .collect();
    scripts.sort();
    scripts
}

#[test]
fn our_endpoint_does_what_every_script_says() {
    let mut failures = String::new();
    let mut played = 0;
    for path in scripts() {
        let name = path.file_name().unwrap().to_string_lossy();
        let script = match Script::read(&fs::read_to_string(&path).unwrap()) {
            Ok(script) => script,
            Err(error) => {
                writeln!(failures, "{name}: {error}").unwrap();
                continue;
            }
        };
        assert_eq!(script.excludes(Who::Ours), None, "{name}");
        let play = play(&script, &mut Endpoint::new(&script), Tolerance::default());
        if let Some(failure) = play.failure {
            writeln!(failures, "{name}: {failure}").unwrap();
        }
        played += 1;
    }
    assert!(failures.is_empty(), "\n{failures}");
    assert!(played >= 40, "only {played} scripts were found");
}
