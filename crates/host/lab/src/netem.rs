//! A path by Linux's own emulator, where the kernel has it; [`link::DirectionSpec::netem`] says in which words.

use std::io::{self, Write as _};
use std::process::{Command, Stdio};

use link::{BeyondNetem, DirectionSpec};

pub use link::Direction;

/// A direction could not be put on a device.
#[derive(Debug, thiserror::Error)]
pub enum NetemError {
    /// It asks for what netem cannot do.
    #[error("netem cannot play this path:\n  {}", list(beyond))]
    Beyond {
        /// All of it.
        beyond: Vec<BeyondNetem>,
    },
    /// `tc` could not be run.
    #[error("cannot run `tc`; it comes with iproute2")]
    Run(#[source] io::Error),
    /// The kernel knows no such queueing discipline.
    #[error(
        "this kernel has no netem: load the module `sch_netem` (`modprobe sch_netem`), installing your \
         distribution's extra kernel modules where it is not there, or stay with the lab's own link, which needs \
         none"
    )]
    Missing,
    /// What `tc` shows is no JSON.
    #[error("cannot read what `tc` shows of the path's disciplines")]
    Unreadable(#[source] serde_json::Error),
    /// Something keeps moving across the path.
    #[error("packets keep crossing the path, long after the transfers")]
    Restless,
    /// `tc` refused.
    #[error("`tc` refused `{line}`: {why}")]
    Refused {
        /// What it was told.
        line: String,
        /// Its own words.
        why: String,
    },
}

/// What the kernel says of a queueing discipline that it does not have (`net/sched/sch_api.c`).
const UNKNOWN: &str = "qdisc kind is unknown";

/// The lines for `tc` that play `spec` on the way out of `device`.
pub fn lines(spec: &DirectionSpec, device: &str) -> Result<Vec<String>, NetemError> {
    spec.netem(device)
        .map_err(|beyond| NetemError::Beyond { beyond })
}

/// Puts `spec` on the way out of `device`. `tc` makes the command, in whatever namespace the device is.
pub fn apply(
    spec: &DirectionSpec,
    device: &str,
    tc: impl Fn() -> Command,
) -> Result<(), NetemError> {
    for line in lines(spec, device)? {
        let mut process = tc()
            .args(["-batch", "-"])
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .map_err(NetemError::Run)?;
        if let Some(mut stdin) = process.stdin.take() {
            writeln!(stdin, "{line}").map_err(NetemError::Run)?;
        }
        let ended = process.wait_with_output().map_err(NetemError::Run)?;
        if !ended.status.success() {
            let why = String::from_utf8_lossy(&ended.stderr).trim().to_owned();
            if why.contains(UNKNOWN) {
                return Err(NetemError::Missing);
            }
            return Err(NetemError::Refused { line, why });
        }
    }
    Ok(())
}

fn list(beyond: &[BeyondNetem]) -> String {
    let lines: Vec<String> = beyond.iter().map(ToString::to_string).collect();
    lines.join("\n  ")
}
