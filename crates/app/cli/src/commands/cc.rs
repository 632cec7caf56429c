//! `longhaul cc`: congestion control that the kernel does not ship.

pub(crate) mod arguments;

use std::fmt::Write as _;
use std::process::ExitCode;

use controllers::{ControllerError, Wanted};
use serde_json::json;

use crate::failure::{Failure, Kind};
use crate::output;
use arguments::{Cc, CcCommand};

/// Lines of the verifier's words that are shown: its verdict stands at the end.
const VERDICT: usize = 12;

pub(crate) fn run(arguments: &Cc) -> Result<ExitCode, Failure> {
    match &arguments.command {
        CcCommand::Load {
            controller,
            name,
            ssthresh,
            json,
        } => {
            let wanted = Wanted {
                controller: *controller,
                name: name
                    .clone()
                    .unwrap_or_else(|| controller.default_name(*ssthresh)),
                initial_ssthresh: *ssthresh,
            };
            controllers::load(&wanted).map_err(blame)?;
            if *json {
                output::json(&json!({
                    "controller": wanted.controller.as_str(),
                    "name": wanted.name.as_str(),
                    "initial_ssthresh_segments": wanted.initial_ssthresh,
                }))?;
            } else {
                output::data(&format!("{}\n", wanted.name))?;
                output::say(&format!(
                    "registered for every namespace; `longhaul cc unload {}` takes it out",
                    wanted.name
                ));
            }
        }
        CcCommand::List { json } => {
            let registered = controllers::list().map_err(blame)?;
            if *json {
                let one = |one: &controllers::Registered| json!({ "name": one.name.as_str(), "map": one.map });
                output::json(&json!({
                    "registered": registered.iter().map(one).collect::<Vec<_>>(),
                }))?;
            } else {
                let mut text = String::new();
                for one in &registered {
                    // Writing to a String cannot fail.
                    let _ = writeln!(text, "{}", one.name);
                }
                output::data(&text)?;
            }
        }
        CcCommand::Unload { name, all } => {
            let mut names: Vec<_> = name.iter().cloned().collect();
            if *all {
                let registered = controllers::list().map_err(blame)?;
                names.extend(registered.into_iter().map(|one| one.name));
            }
            for name in &names {
                controllers::unload(name).map_err(blame)?;
                output::say(&format!("taken out: {name}"));
            }
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn blame(error: ControllerError) -> Failure {
    let (kind, hint) = match &error {
        ControllerError::NoSsthresh(_) => (
            Kind::Usage,
            "`--ssthresh` goes with `newreno`".to_owned(),
        ),
        ControllerError::Exists(name) => (
            Kind::Usage,
            format!("`--name` gives it another name, `longhaul cc unload {name}` takes the first out"),
        ),
        ControllerError::Absent(_) => (Kind::Usage, "`longhaul cc list` has the names".to_owned()),
        ControllerError::Refused { source, log, .. } => {
            let is_denied = source.kind() == std::io::ErrorKind::PermissionDenied;
            let hint = if is_denied && log.is_empty() {
                "it needs root (CAP_BPF and CAP_NET_ADMIN) and a kernel that is not locked down".to_owned()
            } else if log.is_empty() {
                "a profile's next preference works without it".to_owned()
            } else {
                format!("the verifier says:\n{}", tail(log))
            };
            (Kind::Environment, hint)
        }
        // What else there is, and what later versions know, is the kernel's.
        ControllerError::Types(_)
        | ControllerError::Btf(_)
        | ControllerError::Unsupported(_)
        | ControllerError::Fit { .. }
        | _ => (
            Kind::Environment,
            "it takes Linux 5.6 or later, built with CONFIG_DEBUG_INFO_BTF and CONFIG_BPF_JIT; a profile's next \
             preference works without"
                .to_owned(),
        ),
    };
    Failure::new(kind, error).hint(hint)
}

fn tail(log: &str) -> String {
    let lines: Vec<&str> = log.lines().collect();
    lines[lines.len().saturating_sub(VERDICT)..].join("\n")
}
