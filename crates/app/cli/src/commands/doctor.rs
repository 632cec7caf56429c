//! `longhaul doctor`: which verbs this host can run, and why not.

use std::fmt::Write as _;
use std::process::{Command, ExitCode, Stdio};

use serde_json::{Value, json};

use crate::arguments::Doctor;
use crate::failure::Failure;
use crate::output;

/// One thing that a verb needs.
struct Check {
    verb: &'static str,
    what: &'static str,
    /// `Err` says why not and what to do.
    result: Result<String, String>,
}

pub(crate) fn run(arguments: &Doctor) -> Result<ExitCode, Failure> {
    let checks = checks();
    let verbs = ["explain", "simulate", "relay", "lab", "profile"];
    if arguments.json {
        let verb = |name: &str| {
            let of_verb = || checks.iter().filter(|check| check.verb == name);
            json!({
                "verb": name,
                "runs": of_verb().all(|check| check.result.is_ok()),
                "checks": of_verb().map(describe).collect::<Vec<_>>(),
            })
        };
        output::json(&json!({ "verbs": verbs.map(verb) }))?;
        return Ok(ExitCode::SUCCESS);
    }
    let mut text = String::new();
    for verb in verbs {
        let of_verb: Vec<&Check> = checks.iter().filter(|check| check.verb == verb).collect();
        let runs = of_verb.iter().all(|check| check.result.is_ok());
        let runs = if runs {
            "runs here"
        } else {
            "does not run here"
        };
        // Writing to a String cannot fail, here and below.
        let _ = writeln!(text, "{verb}: {runs}");
        for check in of_verb {
            let (mark, said) = match &check.result {
                Ok(said) => ("ok", said),
                Err(said) => ("no", said),
            };
            let _ = writeln!(text, "  {mark}  {}: {said}", check.what);
        }
    }
    output::data(&text)?;
    Ok(ExitCode::SUCCESS)
}

fn describe(check: &Check) -> Value {
    let (ok, said) = match &check.result {
        Ok(said) => (true, said),
        Err(said) => (false, said),
    };
    json!({ "what": check.what, "ok": ok, "says": said })
}

fn checks() -> Vec<Check> {
    vec![
        Check {
            verb: "relay",
            what: "slow start after idle",
            result: slow_start_after_idle(),
        },
        Check {
            verb: "relay",
            what: "congestion control",
            result: congestion_control(),
        },
        Check {
            verb: "lab",
            what: "iproute2",
            result: iproute2(),
        },
        Check {
            verb: "lab",
            what: "TUN devices",
            result: tun(),
        },
        Check {
            verb: "lab",
            what: "namespaces",
            result: namespaces(),
        },
        Check {
            verb: "lab",
            what: "CUBIC, for the field cases",
            result: cubic(),
        },
    ]
}

fn read(path: &str) -> Result<String, String> {
    match std::fs::read_to_string(path) {
        Ok(text) => Ok(text.trim().to_owned()),
        Err(error) => Err(format!("cannot read `{path}`: {error}")),
    }
}

/// A relay runs with either value, but its idle connections cool down with 1.
fn slow_start_after_idle() -> Result<String, String> {
    read("/proc/sys/net/ipv4/tcp_slow_start_after_idle").map(|value| {
        if value == "0" {
            "off: idle connections stay hot".to_owned()
        } else {
            "on: idle connections are primed again; \
             `sysctl -w net.ipv4.tcp_slow_start_after_idle=0` keeps them hot"
                .to_owned()
        }
    })
}

fn congestion_control() -> Result<String, String> {
    let available = read("/proc/sys/net/ipv4/tcp_available_congestion_control")?;
    let default = read("/proc/sys/net/ipv4/tcp_congestion_control")?;
    Ok(format!("{available} (default {default})"))
}

fn cubic() -> Result<String, String> {
    let available = read("/proc/sys/net/ipv4/tcp_available_congestion_control")?;
    if available.split_whitespace().any(|name| name == "cubic") {
        return Ok("available".to_owned());
    }
    Err(format!(
        "not among `{available}`: load it with `modprobe tcp_cubic`"
    ))
}

fn iproute2() -> Result<String, String> {
    let version = Command::new("ip").arg("-V").stdin(Stdio::null()).output();
    match version {
        Ok(output) => Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned()),
        Err(error) => Err(format!(
            "cannot run `ip` ({error}): install the package iproute2"
        )),
    }
}

fn tun() -> Result<String, String> {
    match std::fs::OpenOptions::new()
        .read(true)
        .write(true)
        .open("/dev/net/tun")
    {
        Ok(_) => Ok("`/dev/net/tun` opens".to_owned()),
        Err(error) => Err(format!(
            "`/dev/net/tun`: {error}; `modprobe tun`, and in a container pass the device in"
        )),
    }
}

/// Asks a child, because isolation would replace this process.
fn namespaces() -> Result<String, String> {
    let probe = std::env::current_exe().and_then(|binary| {
        Command::new(binary)
            .args(["lab", "worker", "probe"])
            .stdin(Stdio::null())
            .output()
    });
    match probe {
        Ok(output) if output.status.success() => {
            Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
        }
        Ok(output) => Err(String::from_utf8_lossy(&output.stderr).trim().to_owned()),
        Err(error) => Err(format!("cannot start a child: {error}")),
    }
}
