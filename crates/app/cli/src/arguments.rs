//! The command line. Parsing does no work; every flag says its unit and its default.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};

use crate::commands::cc::arguments::Cc;
use crate::commands::explain::arguments::Explain;
use crate::commands::flow::arguments::Flow;
use crate::commands::lab::arguments::{LabNetem, LabShell, LabUp, LabView};
use crate::commands::lab::new::LabNew;
use crate::commands::object::arguments::Object;
use crate::commands::profile::arguments::Profile;
use crate::commands::relay::arguments::Relay;
use crate::commands::top::arguments::Top;
use crate::commands::trunk::arguments::Trunk;
use crate::commands::tune::arguments::Tune;

/// Makes TCP fast over distance: tells why a transfer is slow, predicts what each remedy would bring,
/// makes it fast without touching either endpoint, and proves it on the same path.
#[derive(Debug, Parser)]
#[command(name = "longhaul", disable_version_flag = true, after_help = AFTER_HELP)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    pub(crate) command: Option<Command>,

    /// Print version, commit and features.
    #[arg(long, short = 'V')]
    pub(crate) version: bool,

    /// With --version: print JSON.
    #[arg(long)]
    pub(crate) json: bool,
}

const AFTER_HELP: &str = "\
The loop:
  longhaul explain slow.pcapng              where each second went, and the remedy
  longhaul relay http :9000 store.example:80 --server-profile s3
                                            the remedy, beside the client
  longhaul lab run scenarios/field/c-uploads.toml
                                            both, measured on the same path

stdout is data, stderr is talk. Exit codes: 0 ok, 1 an assertion or --fail-on hit,
2 usage or configuration, 3 environment (privilege, kernel), 4 a bug of ours.";

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    Explain(Explain),
    Simulate(Simulate),
    Relay(Relay),
    Trunk(Trunk),
    Object(Object),
    Lab(Lab),
    Flow(Flow),
    Profile(Profile),
    Top(Top),
    Tune(Tune),
    Cc(Cc),
    Doctor(Doctor),
    Schema(Schema),
    /// Print what makes a shell complete this program's flags: `longhaul completions bash`.
    Completions {
        /// Which shell.
        shell: clap_complete::Shell,
    },
    /// Write manual pages, one for each verb, into a folder.
    Manual {
        /// The folder; it is made where it is not there.
        #[arg(value_name = "DIR")]
        folder: PathBuf,
    },
}

/// `:9000` means every address; a bare port is refused, since it names no side.
pub(crate) fn listen_address(text: &str) -> Result<SocketAddr, String> {
    let full = if text.starts_with(':') {
        format!("0.0.0.0{text}")
    } else {
        text.to_owned()
    };
    full.parse()
        .map_err(|_| format!("`{text}` is not ADDRESS:PORT, such as `0.0.0.0:80` or `[::]:80`"))
}

/// Run experiments on a WAN inside this machine: real kernels, an emulated path, the real binary.
#[derive(Debug, Args)]
pub(crate) struct Lab {
    #[command(subcommand)]
    pub(crate) command: LabCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum LabCommand {
    Run(LabRun),
    Check(LabCheck),
    New(LabNew),
    Up(LabUp),
    Shell(LabShell),
    View(LabView),
    Netem(LabNetem),
    #[command(hide = true)]
    Worker(LabWorker),
}

/// Run a scenario: every arm repeated on the same path, captured, explained, with statistics.
///
/// Namespaces, devices and processes live and die with this command, whatever ends it. Needs root, or
/// a system that lets users make user namespaces.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  longhaul lab run scenarios/field/c-uploads.toml
  longhaul lab run scenarios/field/c-uploads.toml --runs 5 --json
  longhaul lab run scenarios/field/c-uploads.toml --client 'aws s3 cp {file} s3://{bucket}/{key}'

An external client runs in the client's namespace once per transfer, with {file}, {bucket}, {key},
{url} and {size} replaced, and AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, AWS_ENDPOINT_URL and
AWS_REGION set. Its transfers are timed on the wire: from the SYN to the last byte of the response.")]
pub(crate) struct LabRun {
    /// The scenario, in TOML.
    #[arg(value_name = "SCENARIO")]
    pub(crate) scenario: PathBuf,

    /// Transfers per arm and workload; default: the scenario's.
    #[arg(long, value_name = "N")]
    pub(crate) runs: Option<u32>,

    /// Seed of everything random; default: the scenario's.
    #[arg(long, value_name = "N")]
    pub(crate) seed: Option<u64>,

    /// Where results go: report.html, result.json, explain-*.json, captures.
    #[arg(long, value_name = "DIR", default_value = "out/lab")]
    pub(crate) out: PathBuf,

    /// Also write every transfer as a row of CSV here.
    #[arg(long, value_name = "FILE")]
    pub(crate) csv: Option<PathBuf>,

    /// Upload with this command instead of the built-in S3 client.
    #[arg(long, value_name = "COMMAND")]
    pub(crate) client: Option<String>,

    /// Who plays the path: our own link, or Linux's netem where the kernel has it.
    #[arg(long, value_enum, default_value = "ours")]
    pub(crate) link: LinkBackend,

    /// Print one JSON document (`longhaul schema lab` describes it).
    #[arg(long)]
    pub(crate) json: bool,
}

/// Who plays a path.
#[derive(Clone, Copy, Debug, Eq, PartialEq, ValueEnum)]
pub(crate) enum LinkBackend {
    Ours,
    Netem,
}

/// Read a scenario and report everything that is wrong with it.
#[derive(Debug, Args)]
pub(crate) struct LabCheck {
    /// The scenario, in TOML.
    #[arg(value_name = "SCENARIO")]
    pub(crate) scenario: PathBuf,
}

/// A process of a running scenario; started by `lab run`, configured on standard input.
#[derive(Debug, Args)]
pub(crate) struct LabWorker {
    /// Which one.
    pub(crate) role: WorkerRole,

    /// For people and `lab shell`, who look at command lines: which host is held, and of which lab.
    #[arg(hide = true)]
    pub(crate) labels: Vec<String>,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum WorkerRole {
    /// The link emulator between two TUN devices.
    Link,
    /// The embedded S3 origin.
    Origin,
    /// The built-in S3 client.
    Client,
    /// Stays in a host, so that it can be entered.
    Hold,
    /// Isolates itself and says how; `doctor` asks it.
    Probe,
}

/// Run a lab scenario in virtual time: no privilege, no waiting, the same table.
///
/// TCP endpoints of our own over the same path model that the lab's emulator uses, in one order of
/// events: a seed gives the same result on every machine. Assertions about predictions are left out,
/// since here everything is one.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  longhaul simulate scenarios/field/c-uploads.toml
  longhaul simulate scenarios/field/c-uploads.toml --json | jq '.cells[0].arms'

  longhaul simulate scenarios/field/c-uploads.toml --what-if
  longhaul simulate scenarios/field/d1-fixed-window.toml --what-if --set 'path.rtt=20 ms'

Programs take no time in it, so measured transfers are a few milliseconds longer.")]
pub(crate) struct Simulate {
    /// The scenario, in TOML.
    #[arg(value_name = "SCENARIO")]
    pub(crate) scenario: PathBuf,

    /// Seed of everything random; default: the scenario's.
    #[arg(long, value_name = "N")]
    pub(crate) seed: Option<u64>,

    /// Write what each host sees on the simulated wire, one pcapng file per arm, workload, block and host.
    #[arg(long, value_name = "DIR")]
    pub(crate) pcap: Option<PathBuf>,

    /// Capture at this host only; may be repeated.
    #[arg(long, value_name = "HOST", requires = "pcap")]
    pub(crate) at: Vec<CapturePoint>,

    /// Override a field of the scenario before it is read, such as `path.rate=10 Gbit/s` or
    /// `arms.relay.reuse=true`; may be repeated. A factor of that name takes only this value.
    #[arg(long, value_name = "FIELD=VALUE")]
    pub(crate) set: Vec<String>,

    /// Try one remedy at a time on an arm and rank them by the time they save: windows and buffers, initial
    /// cwnd and ssthresh, congestion control, reuse, parallel connections, relays at either end.
    #[arg(long, conflicts_with = "pcap")]
    pub(crate) what_if: bool,

    /// The arm from which remedies depart; default: the scenario's first.
    #[arg(long, value_name = "NAME", requires = "what_if")]
    pub(crate) arm: Option<String>,

    /// Also write the result as one self-contained HTML page.
    #[arg(long, value_name = "FILE")]
    pub(crate) html: Option<PathBuf>,

    /// Print one JSON document (`longhaul schema lab` describes it, or `schema what-if`).
    #[arg(long)]
    pub(crate) json: bool,
}

/// Where the simulated wire is captured.
#[derive(Clone, Copy, Debug, Eq, PartialEq, ValueEnum)]
pub(crate) enum CapturePoint {
    /// On the client's interface.
    Client,
    /// On both interfaces of the host of near relays.
    Relay,
    /// On both interfaces of the host of far relays.
    FarRelay,
    /// On the origin's interface.
    Origin,
    /// On the interface of the host from which rival flows start.
    Rival,
}

/// Tell which verbs this host can run, and why not.
#[derive(Debug, Args)]
pub(crate) struct Doctor {
    /// Print JSON.
    #[arg(long)]
    pub(crate) json: bool,
}

/// Print the JSON schema of a verb's --json document.
#[derive(Debug, Args)]
pub(crate) struct Schema {
    /// Which document.
    pub(crate) document: SchemaDocument,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum SchemaDocument {
    Explain,
    /// What `explain --compare` prints.
    Change,
    Lab,
    Flow,
    /// What stands behind the web page of `relay` and `lab view`: every answer below `/v1/`.
    Page,
    /// What `flow play` prints.
    Play,
    /// The lines of `top --json` and `top --record`.
    Top,
    Tune,
    /// What `simulate --what-if` prints.
    WhatIf,
}
