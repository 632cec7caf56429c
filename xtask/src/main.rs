//! The one gate, for people and for CI alike: `cargo xtask ci`.
//!
//! | command | what it checks |
//! |---|---|
//! | `cargo xtask fmt` | formatting |
//! | `cargo xtask clippy` | the workspace's lints, warnings refused |
//! | `cargo xtask doc` | documentation builds without a warning |
//! | `cargo xtask deps` | imports go down only, and the core stays free of I/O |
//! | `cargo xtask quotes` | quotations of standards have their form and a section that exists |
//! | `cargo xtask docs` | writes the generated pages; `lint` only checks them |
//! | `cargo xtask accuracy` | writes `docs/accuracy.md`: how often `explain` is right on captures whose truth is known |
//! | `cargo xtask captures` | writes `docs/explain-captures.md`: `explain` beside an analyser on captures of others |
//! | `cargo xtask case-e` | writes `docs/case-e.md` and its pictures: field case E in virtual time (`make case-e`) |
//! | `cargo xtask field DIR` | writes `docs/field-results.md` from results in DIR (`make field`) |
//! | `xtask executed` | reads what `cargo test` prints, and fails where privileged tests are missing (`make test`) |
//! | `cargo xtask fuzz NAME` | feeds a fuzz body with fresh inputs for some minutes (`make soak`) |
//! | `cargo xtask bpf` | makes the committed eBPF object and its source's hash again (clang 14 or later) |
//! | `cargo xtask package KIND` | `.deb`, `.rpm`, tarball around the release binary |
//! | `cargo xtask lint` | fmt to docs |
//! | `cargo xtask test` | `make test` |
//! | `cargo xtask ci` | lint, then test: what CI runs |

#![expect(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a developer's tool talks on its terminal"
)]

mod accuracy;
mod bpf;
mod captures;
mod case_e;
mod components;
mod deps;
mod docs;
mod executed;
mod field;
mod fuzz;
mod package;
mod quotes;

use std::process::{Command, ExitCode};

use anyhow::{Context as _, Result, bail};

fn main() -> ExitCode {
    let task = std::env::args().nth(1);
    let result = match task.as_deref() {
        Some("fmt") => fmt(),
        Some("clippy") => clippy(),
        Some("doc") => doc(),
        Some("deps") => deps::check(),
        Some("quotes") => quotes::check(),
        Some("accuracy") => accuracy::write(),
        Some("captures") => captures::write(),
        Some("case-e") => case_e::write(),
        Some("docs") => docs::write(),
        Some("field") => match std::env::args_os().nth(2) {
            Some(folder) => field::write(folder.as_ref()),
            None => Err(anyhow::anyhow!(
                "name the folder with the results: `cargo xtask field out/field`"
            )),
        },
        Some("executed") => executed::check(std::io::stdin().lock()),
        Some("fuzz") => fuzz::run(std::env::args().skip(2)),
        Some("bpf") => bpf::write(),
        Some("package") => package::run(std::env::args().skip(2)),
        Some("lint") => lint(),
        Some("test") => test(),
        Some("ci") => lint().and_then(|()| test()),
        _ => {
            eprintln!(
                "usage: cargo xtask fmt|clippy|doc|deps|quotes|docs|accuracy|captures|case-e|field|executed|fuzz|bpf|package|lint|test|ci"
            );
            return ExitCode::from(2);
        }
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn lint() -> Result<()> {
    fmt()?;
    deps::check()?;
    quotes::check()?;
    docs::check()?;
    clippy()?;
    doc()
}

fn fmt() -> Result<()> {
    run("cargo", &["fmt", "--all", "--check"], &[])
}

fn clippy() -> Result<()> {
    run(
        "cargo",
        &[
            "clippy",
            "--workspace",
            "--all-targets",
            "--quiet",
            "--",
            "-D",
            "warnings",
        ],
        &[],
    )
}

fn doc() -> Result<()> {
    let arguments = [
        "doc",
        "--workspace",
        "--no-deps",
        "--document-private-items",
        "--quiet",
    ];
    run("cargo", &arguments, &[("RUSTDOCFLAGS", "-D warnings")])
}

fn test() -> Result<()> {
    run("make", &["test"], &[])
}

fn run(program: &str, arguments: &[&str], environment: &[(&str, &str)]) -> Result<()> {
    println!("> {program} {}", arguments.join(" "));
    let status = Command::new(program)
        .args(arguments)
        .envs(environment.iter().copied())
        .status()
        .with_context(|| format!("cannot start `{program}`"))?;
    if !status.success() {
        bail!("`{program} {}` ended with {status}", arguments.join(" "));
    }
    Ok(())
}
