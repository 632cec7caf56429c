//! The flags of `longhaul tune`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use tune::Place;
use units::{Bytes, LossRate, Rate, Span};

/// Tell which of this host's settings hold transfers back on a path, and change them with a way back.
///
/// Reads sysctls and the route, and plays every change on the given path in the simulator: each finding says what
/// it would bring. Nothing is written without `--apply`, and `--revert` restores every value to the byte.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  longhaul tune --rtt '200 ms' --rate '1 Gbit/s'
  longhaul tune --to store.example:443 --rate '1 Gbit/s'   measures the round trip
  longhaul tune --from-capture slow.pcap --rate '1 Gbit/s'  for the path that a capture shows
  longhaul tune --rtt '200 ms' --bytes '5 MB'              predicts for transfers of that size
  longhaul tune --rtt '200 ms' --apply                     asks, writes, reads back
  longhaul tune --revert                                   also after a crash
  longhaul tune --rtt '200 ms' --check || alert            exit code 1 where something is to change
  longhaul tune --rtt '200 ms' --for windows               commands for a host that isn't this one
  longhaul tune --rtt '200 ms' --clients                   part sizes and concurrency for S3 clients
  ip netns exec site longhaul tune --rtt '200 ms'          sysctls of TCP belong to a network namespace")]
#[expect(clippy::struct_excessive_bools, reason = "each is a flag of its own")]
pub(crate) struct Tune {
    /// Round-trip time of the idle path, such as '200 ms'.
    #[arg(long, value_name = "TIME")]
    pub(crate) rtt: Option<Span>,

    /// Rate of the path [default: 1 Gbit/s, or what --from-capture shows].
    #[arg(long, value_name = "RATE")]
    pub(crate) rate: Option<Rate>,

    /// Random loss in each direction, such as '0.1 %'.
    #[arg(long, value_name = "SHARE")]
    pub(crate) loss: Option<LossRate>,

    /// Measure the round trip by handshakes with this host, and look at the route to it.
    #[arg(long, value_name = "HOST:PORT")]
    pub(crate) to: Option<String>,

    /// Take round trip and loss from this capture of slow transfers, and the rate where it shows it.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["revert", "to", "rtt"])]
    pub(crate) from_capture: Option<PathBuf>,

    /// Predict for transfers of this size, instead of a long one each way, bursts and a first small upload.
    #[arg(long, value_name = "SIZE")]
    pub(crate) bytes: Option<Bytes>,

    /// The system that the advice is for; others than linux are only advised.
    #[arg(long, value_name = "SYSTEM", default_value = "linux")]
    pub(crate) r#for: TuneFor,

    /// Print how S3 clients should be told about this path.
    #[arg(long, conflicts_with_all = ["apply", "revert", "check", "json"])]
    pub(crate) clients: bool,

    /// Write what limits or harms, after a yes; every value is read back.
    #[arg(long, conflicts_with_all = ["revert", "check"])]
    pub(crate) apply: bool,

    /// With --apply: don't ask.
    #[arg(long, requires = "apply")]
    pub(crate) yes: bool,

    /// With --apply: also write a file that the host reads when it starts.
    #[arg(long, requires = "apply")]
    pub(crate) persist: bool,

    /// Restore everything that --apply has changed.
    #[arg(long, conflicts_with_all = ["check", "to"])]
    pub(crate) revert: bool,

    /// Exit with 1 where --apply would change something.
    #[arg(long)]
    pub(crate) check: bool,

    /// Also list what is right.
    #[arg(long)]
    pub(crate) all: bool,

    /// Print one JSON document (`longhaul schema tune` describes it).
    #[arg(long)]
    pub(crate) json: bool,

    /// Where changes are written down before they are made.
    #[arg(long, value_name = "FILE", default_value_os_t = Place::default().journal)]
    pub(crate) journal: PathBuf,

    /// The file of --persist.
    #[arg(long, value_name = "FILE", default_value_os_t = Place::default().drop_in)]
    pub(crate) drop_in: PathBuf,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum TuneFor {
    Linux,
    Windows,
    Aix,
    Macos,
    /// F5 BIG-IP.
    Bigip,
}

impl Tune {
    pub(crate) fn place(&self) -> Place {
        Place {
            journal: self.journal.clone(),
            drop_in: self.drop_in.clone(),
            ..Place::default()
        }
    }
}
