//! The command lines of `lab up` and `lab shell`.

use std::path::PathBuf;

use clap::Args;

/// Build a scenario's network with everything on it, and keep it until Ctrl-C.
///
/// Nothing is transferred. `lab shell` opens a shell in its hosts.
#[derive(Debug, Args)]
#[command(after_help = "\
Example:
  longhaul lab up scenarios/field/c-uploads.toml
  longhaul lab shell client -- curl -s http://storage.example/       (in another terminal)")]
pub(crate) struct LabUp {
    /// The scenario, in TOML.
    #[arg(value_name = "SCENARIO")]
    pub(crate) scenario: PathBuf,

    /// Seed of everything random; default: the scenario's.
    #[arg(long, value_name = "N")]
    pub(crate) seed: Option<u64>,

    /// Where captures of relays and logs go.
    #[arg(long, value_name = "DIR", default_value = "out/lab")]
    pub(crate) out: PathBuf,
}

/// Open a shell in a host of a running lab, or run a command there.
///
/// It sees the host's network, the lab's processes, and the endpoint's name as the host resolves it. Works
/// beside `lab up` and `lab run` of the same user.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  longhaul lab shell                          which hosts there are
  longhaul lab shell client
  longhaul lab shell origin -- ss -tin")]
pub(crate) struct LabShell {
    /// The host, such as `client`, `origin` or `relay-NAME`; without it, running hosts are listed.
    #[arg(value_name = "HOST")]
    pub(crate) host: Option<String>,

    /// The scenario's name, where several labs run.
    #[arg(long, value_name = "NAME")]
    pub(crate) lab: Option<String>,

    /// What to run instead of a shell.
    #[arg(value_name = "COMMAND", last = true)]
    pub(crate) command: Vec<String>,
}
