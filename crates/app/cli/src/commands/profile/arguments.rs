//! The flags of `longhaul profile`.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use profile::foreign::Language;

/// Named TCP profiles: how a socket of a relay should behave, and why.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  longhaul profile list
  longhaul profile diff s3 wan
  longhaul profile show office --config relay.toml
  tmsh list ltm profile tcp s3-tcp all-properties > s3-tcp.txt     # on a BIG-IP
  longhaul profile import s3-tcp.txt >> relay.toml
  longhaul profile export wan --to sysctl")]
pub(crate) struct Profile {
    #[command(subcommand)]
    pub(crate) command: ProfileCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum ProfileCommand {
    /// List the profiles and the paths they suit.
    List {
        /// Profiles of this relay configuration as well.
        #[arg(long, value_name = "FILE")]
        config: Option<PathBuf>,
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
    /// Show every setting of a profile.
    Show {
        /// The profile's name.
        name: String,
        /// Profiles of this relay configuration as well.
        #[arg(long, value_name = "FILE")]
        config: Option<PathBuf>,
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
    /// Show where two profiles differ; exit code 1 where they do.
    Diff {
        /// One profile's name.
        one: String,
        /// The other's.
        other: String,
        /// Profiles of this relay configuration as well.
        #[arg(long, value_name = "FILE")]
        config: Option<PathBuf>,
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
    /// Read what `tmsh list ltm profile tcp` prints: a table for a configuration on stdout, and on stderr what
    /// became of each field.
    Import {
        /// The text; `-` is standard input.
        file: PathBuf,
        /// Print JSON instead, with every field.
        #[arg(long)]
        json: bool,
    },
    /// Write a profile for another system, with what it cannot say as comments.
    Export {
        /// The profile's name.
        name: String,
        /// `tmsh`, `sysctl`, `powershell` or `haproxy`.
        #[arg(long, value_name = "SYSTEM")]
        to: Language,
        /// Profiles of this relay configuration as well.
        #[arg(long, value_name = "FILE")]
        config: Option<PathBuf>,
    },
}
