//! The flags of `longhaul explain`.

use std::path::PathBuf;

use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{Args, Subcommand, ValueEnum};
use explain::Target;
use units::Span;

/// Tell from a capture where each second of a transfer went, and what would help.
///
/// Reads pcap and pcapng (gzip, zstd and lz4 too) and the text that tcpdump prints. Nothing is resolved or
/// sent: the answer depends on the capture alone.
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
#[command(disable_help_subcommand = true)]
#[command(after_help = "\
Capture at the sender, headers are enough, and include the start of the connection:
  tcpdump -i eth0 -s 256 -w slow.pcap host store.example
  longhaul explain how-to-capture --on windows    (also macos, bigip, aix)

Examples:
  longhaul explain slow.pcap
  longhaul explain slow.pcap.gz --json | jq '.findings[0]'
  tcpdump -r slow.pcap | longhaul explain -
  longhaul explain slow.pcap --html slow.html
  longhaul explain captures/ --parquet tables/
  longhaul explain -i eth0 --filter 'host 203.0.113.7' --duration 30s --follow
  longhaul explain slow.pcap --anonymize --anonymized-capture to-show.pcapng
  longhaul explain slow.pcap --for windows         commands with their undo
  longhaul explain slow.pcap --fail-on critical && deploy
  longhaul explain --compare before.pcap after.pcap")]
#[expect(clippy::struct_excessive_bools, reason = "each is a flag of its own")]
pub(crate) struct Explain {
    #[command(subcommand)]
    pub(crate) command: Option<ExplainCommand>,

    /// Captures, folders of captures or quoted patterns, read as one timeline; `-` is standard input.
    #[arg(required_unless_present = "interface", value_name = "FILE")]
    pub(crate) files: Vec<PathBuf>,

    /// Capture at this interface of this host instead; its own remote session (SSH) is left out.
    #[arg(long, short = 'i', value_name = "NAME", conflicts_with_all = ["files", "compare"])]
    pub(crate) interface: Option<String>,

    /// With --interface: which packets are meant, as for tcpdump: `tcp and host 203.0.113.7 and port 443`.
    #[arg(long, value_name = "FILTER", requires = "interface")]
    pub(crate) filter: Option<String>,

    /// With --interface: end after this time; otherwise Ctrl-C ends.
    #[arg(long, value_name = "TIME", requires = "interface")]
    pub(crate) duration: Option<Span>,

    /// With --interface: bytes kept of each packet; 128 are headers only, 256 show requests and hellos.
    #[arg(long, value_name = "BYTES", default_value_t = 128, requires = "interface",
        value_parser = clap::value_parser!(u32).range(64..=262_144))]
    pub(crate) snaplen: u32,

    /// With --interface: show what is known every second, drawn again on a terminal; with --json, a
    /// document per line.
    #[arg(long, requires = "interface")]
    pub(crate) follow: bool,

    /// Print one JSON document (`longhaul schema explain` describes it).
    #[arg(long)]
    pub(crate) json: bool,

    /// Put the points of plots into the JSON document.
    #[arg(long, requires = "json")]
    pub(crate) series: bool,

    /// Also write a self-contained HTML report here.
    #[arg(long, value_name = "FILE")]
    pub(crate) html: Option<PathBuf>,

    /// Also write pictures of the connections with the most data into this folder.
    #[arg(long, value_name = "DIR")]
    pub(crate) svg: Option<PathBuf>,

    /// Also write tables into this folder, as Parquet: connections, transfers, findings, series.
    #[arg(long, value_name = "DIR")]
    pub(crate) parquet: Option<PathBuf>,

    /// Also write the same tables as comma-separated values.
    #[arg(long, value_name = "DIR")]
    pub(crate) csv: Option<PathBuf>,

    /// Print Markdown, for a ticket.
    #[arg(long, conflicts_with = "json")]
    pub(crate) markdown: bool,

    /// Replace addresses, names, paths and payload in everything that comes out.
    #[arg(long)]
    pub(crate) anonymize: bool,

    /// Also write the captures as one, anonymous too (pcapng).
    #[arg(long, value_name = "FILE", requires = "anonymize")]
    pub(crate) anonymized_capture: Option<PathBuf>,

    /// A file of 16 random bytes, so that captures of several places get the same replacements; default: a
    /// key that is forgotten.
    #[arg(long, value_name = "FILE", requires = "anonymize")]
    pub(crate) anonymize_key: Option<PathBuf>,

    /// Tell what changed from the first capture to the second, limit by limit.
    #[arg(long, conflicts_with_all = ["html", "svg", "parquet", "csv", "markdown", "series", "emit_scenario", "anonymized_capture", "fail_on"])]
    pub(crate) compare: bool,

    /// Play the findings' remedies on the rebuilt path, as `simulate --what-if` does, and predict by what
    /// they bring; `auto` does so where it takes a moment.
    #[arg(long, value_name = "WHEN", default_value = "auto")]
    pub(crate) predict: Predict,

    /// Also write a scenario that rebuilds path and transfers, for `simulate` and `lab run`.
    #[arg(long, value_name = "FILE")]
    pub(crate) emit_scenario: Option<PathBuf>,

    /// Give remedies in the terms of this system or program; default: what each host's SYN looks like.
    #[arg(long, value_name = "SYSTEM", value_parser = remedy_target())]
    pub(crate) r#for: Option<Target>,

    /// Exit with 1 where a finding is at least this severe.
    #[arg(long, value_name = "SEVERITY")]
    pub(crate) fail_on: Option<Severity>,
}

/// When remedies are played by the simulator.
#[derive(Clone, Copy, Debug, Eq, PartialEq, ValueEnum)]
pub(crate) enum Predict {
    Auto,
    Always,
    Never,
}

#[derive(Debug, Subcommand)]
pub(crate) enum ExplainCommand {
    HowToCapture(HowToCapture),
}

/// Print the command that makes a capture worth explaining, in the terms of the host it is made on.
#[derive(Debug, Args)]
pub(crate) struct HowToCapture {
    /// The system of that host.
    #[arg(long, value_name = "SYSTEM", default_value = "linux")]
    pub(crate) on: CapturePlace,

    /// The other end of the connection, as an address or a name.
    #[arg(long, value_name = "HOST")]
    pub(crate) host: Option<String>,

    /// Its port.
    #[arg(long, value_name = "PORT")]
    pub(crate) port: Option<u16>,

    /// The interface; default: the usual one of that system.
    #[arg(long, value_name = "NAME")]
    pub(crate) interface: Option<String>,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum CapturePlace {
    Linux,
    Macos,
    Windows,
    /// F5 BIG-IP.
    Bigip,
    /// IBM AIX.
    Aix,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum Severity {
    Info,
    Warning,
    Critical,
}

/// The systems and programs that remedies are known for, by name.
fn remedy_target() -> impl TypedValueParser<Value = Target> {
    PossibleValuesParser::new(Target::ALL.map(Target::as_str))
        .try_map(|name| Target::named(&name).ok_or_else(|| format!("no remedies for `{name}`")))
}
