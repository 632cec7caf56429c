//! Compiles the eBPF programs where clang is there, and takes the committed object where it is not.
//!
//! The committed object names the source that it was made from by its SHA-256: a source that was changed
//! without making the object again fails the build on a machine without clang, instead of shipping old code.
//! `LONGHAUL_BPF_CLANG` names another compiler, or `none` to take the committed object.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs};

use sha2::{Digest as _, Sha256};

const SOURCE: &str = "bpf/controllers.bpf.c";
const OBJECT: &str = "bpf/controllers.bpf.o";
const HASH: &str = "bpf/controllers.bpf.sha256";

fn main() {
    for file in [SOURCE, OBJECT, HASH] {
        println!("cargo:rerun-if-changed={file}");
    }
    println!("cargo:rerun-if-env-changed=LONGHAUL_BPF_CLANG");
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets OUT_DIR"))
        .join("controllers.bpf.o");
    if !compile(&out) {
        take_committed(&out);
    }
}

/// Whether some clang could compile the programs.
fn compile(out: &Path) -> bool {
    let chosen = env::var("LONGHAUL_BPF_CLANG").ok();
    let candidates = match &chosen {
        Some(none) if none == "none" => return false,
        Some(clang) => vec![clang.as_str()],
        None => vec!["clang", "clang-19", "clang-16", "clang-14"],
    };
    candidates.into_iter().any(|clang| {
        Command::new(clang)
            .args([
                "-target", "bpfel", "-mcpu=v3", "-O2", "-g", "-Wall", "-Werror",
            ])
            // So that the object is the same wherever the checkout lies.
            .arg(format!(
                "-fdebug-prefix-map={}=.",
                env!("CARGO_MANIFEST_DIR")
            ))
            .args(["-c", SOURCE, "-o"])
            .arg(out)
            .status()
            .is_ok_and(|status| status.success())
    })
}

fn take_committed(out: &Path) {
    let source = fs::read(SOURCE).expect("the source is part of this crate");
    let digest = Sha256::digest(&source);
    let hash = digest.iter().fold(String::new(), |mut hash, byte| {
        // Writing to a String cannot fail.
        let _ = write!(hash, "{byte:02x}");
        hash
    });
    let committed = fs::read_to_string(HASH).unwrap_or_default();
    assert!(
        committed.split_whitespace().next() == Some(hash.as_str()),
        "{OBJECT} was made from another {SOURCE}, and no clang is here to make it again: install clang, or run \
         `cargo xtask bpf` where it is"
    );
    fs::copy(OBJECT, out).expect("the committed object can be copied");
}
