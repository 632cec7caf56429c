//! `lab shell`: a look into a running lab from outside.
//!
//! Every host of a bench has a process that does nothing but stay in it. Its command line says which host
//! it holds, so that it is found by looking, and there is no file that could be out of date.

use std::path::Path;
use std::process::{Command, ExitCode};

use crate::commands::lab::arguments::LabShell;
use crate::failure::{Blame as _, Failure, Kind};
use crate::output;

/// A host of a running lab.
#[derive(Clone, Debug, Eq, Ord, PartialEq, PartialOrd)]
struct Host {
    /// The scenario.
    lab: String,
    name: String,
    /// Who holds it, as this process sees it.
    process: u32,
}

pub(super) fn run(arguments: &LabShell) -> Result<ExitCode, Failure> {
    let mut hosts = running(Path::new("/proc"));
    if let Some(lab) = &arguments.lab {
        hosts.retain(|host| host.lab == *lab);
    }
    let Some(wanted) = &arguments.host else {
        for host in &hosts {
            output::data(&format!("{} of {}\n", host.name, host.lab))?;
        }
        return Ok(ExitCode::SUCCESS);
    };
    let of_name: Vec<&Host> = hosts.iter().filter(|host| host.name == *wanted).collect();
    let host = match of_name.as_slice() {
        [host] => *host,
        [] => return Err(unknown(wanted, &hosts)),
        _ => {
            let error = anyhow::anyhow!("{} running hosts are called `{wanted}`", of_name.len());
            let hint = "name the scenario too, with --lab; or end the other run";
            return Err(Failure::new(Kind::Usage, error).hint(hint));
        }
    };
    let mut command = if let Some((program, words)) = arguments.command.split_first() {
        let mut command = Command::new(program);
        command.args(words);
        command
    } else {
        let shell = std::env::var_os("SHELL").unwrap_or_else(|| "/bin/sh".into());
        output::say(&format!(
            "in host `{}` of `{}`; `exit` leaves it",
            host.name, host.lab
        ));
        Command::new(shell)
    };
    command.env("LONGHAUL_HOST", &host.name);
    let status = sys::visit::run(host.process, &mut command)
        .environment(format!("cannot visit the host `{}`", host.name))?;
    let code = status.code().and_then(|code| u8::try_from(code).ok());
    Ok(ExitCode::from(code.unwrap_or(1)))
}

fn unknown(wanted: &str, hosts: &[Host]) -> Failure {
    let error = anyhow::anyhow!("no running lab has a host `{wanted}`");
    let hint = if hosts.is_empty() {
        "start one with `longhaul lab up SCENARIO.toml`".to_owned()
    } else {
        let names: Vec<&str> = hosts.iter().map(|host| host.name.as_str()).collect();
        format!("running hosts: `{}`", names.join("`, `"))
    };
    Failure::new(Kind::Usage, error).hint(hint)
}

/// Every host of every lab that runs on this machine, by their holders' command lines.
fn running(processes: &Path) -> Vec<Host> {
    let entries = std::fs::read_dir(processes).into_iter().flatten().flatten();
    let mut hosts: Vec<Host> = entries.filter_map(|entry| held(&entry.path())).collect();
    hosts.sort();
    hosts
}

/// `longhaul lab worker hold HOST LAB`.
fn held(process: &Path) -> Option<Host> {
    let number = process.file_name()?.to_str()?.parse().ok()?;
    let line = std::fs::read(process.join("cmdline")).ok()?;
    let words: Vec<&str> = line
        .split(|byte| *byte == 0)
        .filter_map(|word| std::str::from_utf8(word).ok())
        .collect();
    match words.as_slice() {
        [_, "lab", "worker", "hold", name, lab, ..] => Some(Host {
            lab: (*lab).to_owned(),
            name: (*name).to_owned(),
            process: number,
        }),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn holders_are_found_by_their_command_line() {
        let folder = tempfile::tempdir().unwrap();
        let process = |number: &str, words: &[&str]| {
            let path = folder.path().join(number);
            std::fs::create_dir(&path).unwrap();
            std::fs::write(path.join("cmdline"), words.join("\0") + "\0").unwrap();
        };
        process(
            "7",
            &["/bin/longhaul", "lab", "worker", "hold", "client", "s"],
        );
        process("8", &["/bin/longhaul", "lab", "worker", "origin"]);
        process(
            "self",
            &["/bin/longhaul", "lab", "worker", "hold", "x", "s"],
        );
        let found = running(folder.path());
        assert_eq!(
            found,
            [Host {
                lab: "s".to_owned(),
                name: "client".to_owned(),
                process: 7
            }]
        );
    }
}
