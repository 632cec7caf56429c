//! The command lines of `longhaul trunk`.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::{Args, Subcommand};
use relay::trunk::{DEFAULT_IDENTITY, Pin};
use units::{Rate, Span};

use crate::arguments::listen_address;

/// Join two sites: a relay at each, and between them hot connections that carry every stream.
///
/// Applications connect to the near relay on their LAN; the far relay connects to the target on its own.
/// Each end knows the other by its key: `longhaul trunk init` makes it.
#[derive(Debug, Args)]
#[command(after_help = "\
Once, at each site; each prints the line to run at the other:
  longhaul trunk init

Then, at the site of the clients and at the site of the targets:
  longhaul trunk near :6000 --via site-b:7000 --to aix-vm-2:22
  longhaul trunk far :7000 --allow-target 10.20.20.0/24:22
  scp -P 6000 big.tar near-relay:")]
pub(crate) struct Trunk {
    #[command(subcommand)]
    pub(crate) command: TrunkCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum TrunkCommand {
    Near(TrunkNear),
    Far(TrunkFar),
    Run(TrunkRun),
    Init(TrunkInit),
    Check(TrunkCheck),
    Status(TrunkStatus),
    History(TrunkHistory),
}

/// Run the end that dials: clients come in here, and are connected to a target behind the far end.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  longhaul trunk near :6000 --via site-b:7000 --to aix-vm-2:22
  longhaul trunk near :6000 --via b1:7000 --via b2:7000 --to db:5432 --status 127.0.0.1:7070
  longhaul trunk near :6000 --via 10.9.0.2:7000 --to db:5432 --plain       (an IPsec tunnel)
  longhaul trunk near :6000 --via site-b:7000 --to db:5432 --print-config > trunk.toml")]
pub(crate) struct TrunkNear {
    /// Where clients connect, such as `:6000` or `127.0.0.1:6000`.
    #[arg(value_name = "LISTEN", value_parser = listen_address)]
    pub(crate) listen: SocketAddr,

    /// The far relay, as `HOST:PORT`; repeat for several: new streams go to the first that is reachable.
    #[arg(long, value_name = "HOST:PORT", required = true)]
    pub(crate) via: Vec<String>,

    /// What the far relay connects clients to, as `HOST:PORT`; it resolves the name.
    #[arg(long, value_name = "HOST:PORT")]
    pub(crate) to: String,

    /// Clients that may connect, as CIDR; repeat for several. Default: loopback and private networks.
    #[arg(long, value_name = "CIDR")]
    pub(crate) allow: Vec<String>,

    #[command(flatten)]
    pub(crate) end: TrunkEnd,
}

/// Run the end that is dialled: it connects near ends' clients to the targets that it allows.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  longhaul trunk far :7000 --allow-target 10.20.20.0/24:22
  longhaul trunk far :7000 --allow-target db.example:5432 --allow-target '[2001:db8::/32]:8000-8099'
  longhaul trunk far 10.9.0.2:7000 --allow-target 10.20.20.7:22 --plain --allow 10.9.0.1")]
pub(crate) struct TrunkFar {
    /// Where near ends connect, such as `:7000`.
    #[arg(value_name = "LISTEN", value_parser = listen_address)]
    pub(crate) listen: SocketAddr,

    /// What may be opened, as `CIDR:PORT` or `NAME:PORT`; a port, `FIRST-LAST` or `*`. Repeat for several.
    #[arg(long, value_name = "HOST:PORT", required = true)]
    pub(crate) allow_target: Vec<String>,

    /// Near ends that may connect, as CIDR. Default: everywhere with TLS, private networks without.
    #[arg(long, value_name = "CIDR")]
    pub(crate) allow: Vec<String>,

    #[command(flatten)]
    pub(crate) end: TrunkEnd,
}

/// What both ends have.
#[derive(Debug, Args)]
pub(crate) struct TrunkEnd {
    /// The directory with this end's key and its list of peers.
    #[arg(long, value_name = "DIR", default_value = DEFAULT_IDENTITY, conflicts_with = "plain")]
    pub(crate) identity: PathBuf,

    /// The pin of a peer, beside those in the directory; repeat for several.
    #[arg(long, value_name = "PIN", conflicts_with = "plain")]
    pub(crate) trust: Vec<Pin>,

    /// Neither encrypt nor authenticate: only for a WAN that does both already.
    #[arg(long)]
    pub(crate) plain: bool,

    /// Profile of the WAN's sockets (see `longhaul profile list`).
    #[arg(long, default_value = "wan", value_name = "NAME")]
    pub(crate) wan_profile: String,

    /// Profile of clients' and targets' sockets.
    #[arg(long, default_value = "lan", value_name = "NAME")]
    pub(crate) lan_profile: String,

    /// WAN connections at most; one is used unless more help [default: 4].
    #[arg(long, value_name = "N")]
    pub(crate) wan_connections: Option<usize>,

    /// The WAN's rate, if known, such as "1 Gbit/s": what connections are kept ready for [default: found out].
    #[arg(long, value_name = "RATE")]
    pub(crate) path_rate: Option<Rate>,

    /// How long streams wait for a WAN that is gone, such as "60 s" [default: 60 s].
    #[arg(long, value_name = "SPAN")]
    pub(crate) outage: Option<Span>,

    /// Pass data through every trunk this often, such as "1 min", and tell when that fails [default: never].
    #[arg(long, value_name = "SPAN")]
    pub(crate) probe_every: Option<Span>,

    /// Answer `GET /status`, `/metrics`, `/check` and more over HTTP at this loopback address.
    #[arg(long, value_name = "ADDRESS:PORT")]
    pub(crate) status: Option<SocketAddr>,

    /// Print what happens as JSON lines on stdout.
    #[arg(long)]
    pub(crate) json: bool,

    /// Print the same end as a configuration file, and do nothing.
    #[arg(long)]
    pub(crate) print_config: bool,
}

/// Run the ends of a configuration file: several trunks, listeners at either end, an authority instead of pins.
#[derive(Debug, Args)]
pub(crate) struct TrunkRun {
    /// The file, in TOML; `-` is standard input.
    #[arg(long, value_name = "FILE")]
    pub(crate) config: PathBuf,

    /// Print what happens as JSON lines on stdout.
    #[arg(long)]
    pub(crate) json: bool,
}

/// Make this end's key, unless there is one, and print what the other end has to run to trust it.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  longhaul trunk init                                    prints this end's pin
  longhaul trunk init --trust sha256:5fd0…               trusts the other end's
  longhaul trunk init --identity ~/.config/longhaul/trunk")]
pub(crate) struct TrunkInit {
    /// The directory for the key and the list of peers.
    #[arg(long, value_name = "DIR", default_value = DEFAULT_IDENTITY)]
    pub(crate) identity: PathBuf,

    /// A pin that the other end's `init` printed; repeat for several.
    #[arg(long, value_name = "PIN")]
    pub(crate) trust: Vec<Pin>,

    /// Print JSON.
    #[arg(long)]
    pub(crate) json: bool,
}

/// Pass data through a running trunk, and reach every target's port, through near and far relay.
///
/// Exits with 1 where any of it fails.
#[derive(Debug, Args)]
#[command(after_help = "\
Example:
  longhaul trunk check --status 127.0.0.1:7070 || page-somebody")]
pub(crate) struct TrunkCheck {
    /// The `--status` address of the running near relay.
    #[arg(long, value_name = "ADDRESS:PORT")]
    pub(crate) status: SocketAddr,

    /// Print JSON.
    #[arg(long)]
    pub(crate) json: bool,
}

/// Show the trunks of a running end: their WAN connections, their streams, and what holds each back.
#[derive(Debug, Args)]
pub(crate) struct TrunkStatus {
    /// The `--status` address of the running relay.
    #[arg(long, value_name = "ADDRESS:PORT")]
    pub(crate) status: SocketAddr,

    /// Print JSON.
    #[arg(long)]
    pub(crate) json: bool,
}

/// Show what a running end remembers: every trunk by minute for two days, and the streams that ended.
///
/// What held a stream back is told for what this end sent. Ask the end at the other site about the other
/// direction.
#[derive(Debug, Args)]
#[command(after_help = "\
Why was last night's backup slow?
  longhaul trunk history --status 127.0.0.1:7070 --since '14 h' --target backup --slowest")]
pub(crate) struct TrunkHistory {
    /// The `--status` address of the running relay.
    #[arg(long, value_name = "ADDRESS:PORT")]
    pub(crate) status: SocketAddr,

    /// Only what was recorded, and ended, this long ago or later, such as "14 h".
    #[arg(long, value_name = "SPAN")]
    pub(crate) since: Option<Span>,

    /// Only streams to targets whose name or port contains this.
    #[arg(long, value_name = "TEXT")]
    pub(crate) target: Option<String>,

    /// Streams that took longest first, instead of the latest last.
    #[arg(long)]
    pub(crate) slowest: bool,

    /// How many minutes of each trunk, and how many streams [default: 60; with --since or --json, all].
    #[arg(long, value_name = "N")]
    pub(crate) last: Option<usize>,

    /// Print JSON.
    #[arg(long)]
    pub(crate) json: bool,
}
