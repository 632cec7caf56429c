//! The command lines of `lab up`, `lab shell` and `lab netem`.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::{Args, ValueEnum};

use crate::arguments::LinkBackend;

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

    /// Who plays the path: our own link, or Linux's netem where the kernel has it.
    #[arg(long, value_enum, default_value = "ours")]
    pub(crate) link: LinkBackend,
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

/// Print a scenario's path as `tc` commands for netem, Linux's own emulator.
///
/// For a machine between two others, or an end that only sends: netem works on what leaves a device. What it
/// cannot do (a policer, a trace, a schedule, managed queues, lists of losses) is refused by name. `lab run --link
/// netem` lets it play the path of an experiment; the lab itself never needs it.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  longhaul lab netem scenarios/field/a-s3-loss.toml --device eth0
  longhaul lab netem my.toml --device eth1 --direction backward --apply")]
pub(crate) struct LabNetem {
    /// The scenario, in TOML; of a sweep, the first combination.
    #[arg(value_name = "SCENARIO")]
    pub(crate) scenario: PathBuf,

    /// The device that packets leave by.
    #[arg(long, value_name = "DEV")]
    pub(crate) device: String,

    /// Which way of the path: forward is from client to origin.
    #[arg(long, value_enum, default_value = "forward")]
    pub(crate) direction: Way,

    /// Also run the commands, here and now. Needs root and a kernel with netem.
    #[arg(long)]
    pub(crate) apply: bool,
}

/// A direction of a path.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum Way {
    /// From client to origin.
    Forward,
    /// From origin to client.
    Backward,
}

/// Show results of the lab as a web page, as they come.
///
/// Every folder below DIR with a `result.json` is listed. Read-only; a result that a run writes meanwhile
/// appears by itself.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  longhaul lab view                              everything below `out`, at http://127.0.0.1:9902
  longhaul lab view out/field --listen 127.0.0.1:0

Nobody is asked for a password. Beyond this host the page is for a network that you trust:
  longhaul lab view --listen 10.0.0.5:9902")]
pub(crate) struct LabView {
    /// Where `lab run --out` wrote.
    #[arg(value_name = "DIR", default_value = "out")]
    pub(crate) dir: PathBuf,

    /// Where to listen; port 0 takes a free one.
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:9902")]
    pub(crate) listen: SocketAddr,
}
