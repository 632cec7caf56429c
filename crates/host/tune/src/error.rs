use std::io;
use std::path::PathBuf;

/// Settings could not be changed or restored.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TuneError {
    /// A sysctl can't be read.
    #[error("can't read the sysctl {key}")]
    Read {
        /// Its dotted name.
        key: String,
        /// What the kernel said.
        #[source]
        source: io::Error,
    },
    /// A sysctl can't be written. What was already written has been put back.
    #[error("can't set {key} to `{value}`; everything set before it is as it was")]
    Write {
        /// Its dotted name.
        key: String,
        /// The value.
        value: String,
        /// What the kernel said.
        #[source]
        source: io::Error,
    },
    /// The kernel took a value and has another. What was already written has been put back.
    #[error("{key} was set to `{asked}` and is `{became}`; everything set before it is as it was")]
    ReadBack {
        /// Its dotted name.
        key: String,
        /// What was written.
        asked: String,
        /// What it is.
        became: String,
    },
    /// A sysctl can't be restored. The journal is kept.
    #[error("can't restore {key} to `{value}`; the journal is kept, try again")]
    Restore {
        /// Its dotted name.
        key: String,
        /// The value before.
        value: String,
        /// What the kernel said.
        #[source]
        source: io::Error,
    },
    /// One of our own files can't be written.
    #[error("can't write `{}`", path.display())]
    WriteFile {
        /// Which.
        path: PathBuf,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// One of our own files can't be read.
    #[error("can't read `{}`", path.display())]
    ReadFile {
        /// Which.
        path: PathBuf,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// The journal is no journal.
    #[error("`{}` is no journal of ours", path.display())]
    ParseJournal {
        /// Which file.
        path: PathBuf,
        /// What is wrong with it.
        #[source]
        source: serde_json::Error,
    },
    /// There is nothing to take back.
    #[error("there is nothing to take back: no journal at `{}`", path.display())]
    NoJournal {
        /// Where it would be.
        path: PathBuf,
    },
    /// The journal belongs to another network namespace.
    #[error(
        "the journal `{}` was written in another network namespace ({theirs}; this is {ours}): run it there, \
         with `ip netns exec` or `nsenter`",
        path.display()
    )]
    OtherNamespace {
        /// Which file.
        path: PathBuf,
        /// Namespace in the journal.
        theirs: String,
        /// Namespace of this process.
        ours: String,
    },
    /// Something that the journal needs to know of this host can't be read.
    #[error("can't tell which boot and namespace this is")]
    Identity {
        /// What the system said.
        #[source]
        source: io::Error,
    },
}
