//! `longhaul completions` and `longhaul manual`: what a package installs beside the binary, made from the same
//! description of flags that the binary reads.

use std::path::Path;
use std::process::ExitCode;

use clap::CommandFactory as _;
use clap_complete::Shell;

use crate::arguments::Arguments;
use crate::failure::{Blame as _, Failure};
use crate::output;

const PROGRAM: &str = "longhaul";

/// Prints the completions of one shell.
pub(crate) fn completions(shell: Shell) -> Result<ExitCode, Failure> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Arguments::command(), PROGRAM, &mut script);
    output::data(&String::from_utf8_lossy(&script))?;
    Ok(ExitCode::SUCCESS)
}

/// Writes a manual page for the program and each of its verbs.
pub(crate) fn manual(folder: &Path) -> Result<ExitCode, Failure> {
    let cannot = format!("cannot write manual pages into `{}`", folder.display());
    std::fs::create_dir_all(folder).environment(cannot.clone())?;
    let command = Arguments::command()
        .version(env!("CARGO_PKG_VERSION"))
        .disable_help_subcommand(true);
    clap_mangen::generate_to(command, folder).environment(cannot)?;
    Ok(ExitCode::SUCCESS)
}
