use std::io;
use std::path::PathBuf;
use std::time::Duration;

use crate::bench::explain::ExplainError;
use crate::bench::sampler::SamplerError;
use crate::bench::topology::TopologyError;
use crate::netem::NetemError;
use crate::probe::ProbeError;
use crate::tap::TapError;
use crate::worker::WorkerError;

/// A bench could not be built, or broke.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BenchError {
    /// A folder of results could not be made.
    #[error("cannot make `{}`", path.display())]
    Folder {
        /// The folder.
        path: PathBuf,
        /// What the kernel said.
        #[source]
        source: io::Error,
    },
    /// Namespaces, devices, routes or settings of hosts.
    #[error("cannot build the network of the scenario")]
    Topology(#[source] TopologyError),
    /// A process of the scenario.
    #[error(transparent)]
    Worker(#[from] WorkerError),
    /// netem, which was asked to play the path.
    #[error("netem cannot play the path")]
    Netem(#[source] NetemError),
    /// The path could not be measured at all.
    #[error("cannot measure the path")]
    Probe(#[source] ProbeError),
    /// A capture.
    #[error("cannot capture at the {host}")]
    Capture {
        /// Which host.
        host: String,
        /// What failed.
        #[source]
        source: TapError,
    },
    /// Sockets or counters of a host.
    #[error("cannot watch what TCP does in the hosts")]
    Sampler(#[source] SamplerError),
    /// What a block left behind does not get away.
    #[error(
        "the {host} still has {bytes} unacknowledged bytes {} s after a block; is its peer gone, or the path cut?",
        limit.as_secs()
    )]
    Undrained {
        /// A host that has something to send.
        host: String,
        /// How much.
        bytes: u64,
        /// How long the lab waited.
        limit: Duration,
    },
    /// `explain` could not be run on a capture.
    #[error("cannot explain a capture")]
    Explain(#[source] ExplainError),
    /// What a relay is to do could not be put into words.
    #[error("cannot write down the configuration of a relay")]
    RelayFile(#[source] toml::ser::Error),
    /// A file of the bench could not be written: an object, a certificate, a relay's configuration.
    #[error("cannot write `{}`", path.display())]
    Object {
        /// The file.
        path: PathBuf,
        /// What the kernel said.
        #[source]
        source: io::Error,
    },
    /// An external command could not be started or watched.
    #[error("cannot run the command `{command}`")]
    Command {
        /// As it was given to the shell.
        command: String,
        /// What the kernel said.
        #[source]
        source: io::Error,
    },
}
