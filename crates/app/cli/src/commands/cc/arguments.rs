//! The flags of `longhaul cc`.

use clap::{Args, Subcommand};
use controllers::{Controller, Name};

/// Put congestion control that this kernel does not ship into it: highspeed, westwood+, newreno with a threshold.
///
/// They are eBPF programs (`struct_ops`, Linux 5.6 and later with BTF), fitted to the running kernel. A name counts for
/// the whole machine and every network namespace, for users without privilege too, until it is unloaded or the
/// machine restarts. Profiles take them by preference: `congestion-control = ["westwood+", "cubic"]`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  longhaul cc load westwood+                       registers lh_westwood
  longhaul cc load highspeed
  longhaul cc load newreno --ssthresh 44           registers lh_newreno_44: slow start ends at 44 segments
  longhaul cc load westwood+ --name lh_site7       several owners of one machine
  longhaul cc list
  longhaul cc unload lh_westwood                   connections that have it keep it to their end
  longhaul flow client 203.0.113.7:5201 --congestion-control lh_westwood")]
pub(crate) struct Cc {
    #[command(subcommand)]
    pub(crate) command: CcCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum CcCommand {
    /// Register a controller with the kernel. Needs root.
    Load {
        /// `highspeed` (RFC 3649), `westwood+` or `newreno`.
        #[arg(value_name = "CONTROLLER")]
        controller: Controller,

        /// Its name in the kernel: `lh_` and up to 12 letters, digits, `_` or `.`; default: by the controller.
        #[arg(long, value_name = "NAME")]
        name: Option<Name>,

        /// With newreno: the initial slow start threshold, in segments.
        #[arg(long, value_name = "SEGMENTS", value_parser = clap::value_parser!(u32).range(2..))]
        ssthresh: Option<u32>,

        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
    /// List what of ours is registered. Needs root.
    List {
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
    /// Take a controller out. Needs root.
    Unload {
        /// Its name in the kernel.
        #[arg(value_name = "NAME", required_unless_present = "all")]
        name: Option<Name>,

        /// All of ours.
        #[arg(long, conflicts_with = "name")]
        all: bool,
    },
}
