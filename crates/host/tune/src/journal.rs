//! What was changed, on disk before it is changed.

use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::place::folder;
use crate::{Place, TuneError};

/// What sysctls were, and what they became.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Journal {
    /// The kernel's name for this boot: after the next one sysctls are as the system's files have them.
    pub boot: String,
    /// The network namespace, as `/proc/self/ns/net` links to it.
    pub namespace: String,
    /// Every sysctl that was changed, in the order of the changes.
    pub entries: Vec<Entry>,
    /// The file that makes the changes last, where one was written.
    pub drop_in: Option<DropIn>,
}

/// One sysctl.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Entry {
    /// Its dotted name.
    pub key: String,
    /// The bytes that the kernel printed before the first change.
    pub before: String,
    /// What it was set to last.
    pub after: String,
}

/// A file below `/etc/sysctl.d`.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct DropIn {
    /// What it held before; `None` where there was no such file.
    pub before: Option<String>,
}

/// What a revert did.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Restored {
    /// Sysctls that have their former value again.
    pub sysctls: Vec<String>,
    /// Whether the host was started anew since, so that its sysctls had lost the changes already.
    pub rebooted: bool,
    /// Whether a file below `/etc/sysctl.d` was put back or removed.
    pub drop_in: bool,
}

impl Journal {
    /// An empty one of this boot and namespace.
    pub(crate) fn new() -> Result<Self, TuneError> {
        let identity = |source| TuneError::Identity { source };
        let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").map_err(identity)?;
        let namespace = fs::read_link("/proc/self/ns/net").map_err(identity)?;
        Ok(Self {
            boot: boot.trim().to_owned(),
            namespace: namespace.to_string_lossy().into_owned(),
            entries: Vec::new(),
            drop_in: None,
        })
    }

    /// The journal on disk; `None` where there is none.
    pub(crate) fn load(place: &Place) -> Result<Option<Self>, TuneError> {
        let path = &place.journal;
        match fs::read_to_string(path) {
            Ok(text) => {
                serde_json::from_str(&text)
                    .map(Some)
                    .map_err(|source| TuneError::ParseJournal {
                        path: path.clone(),
                        source,
                    })
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(source) => Err(TuneError::ReadFile {
                path: path.clone(),
                source,
            }),
        }
    }

    /// Writes it so that a crash leaves the old one or the new one, whole.
    pub(crate) fn save(&self, place: &Place) -> Result<(), TuneError> {
        let mut text =
            serde_json::to_string_pretty(self).map_err(|source| TuneError::ParseJournal {
                path: place.journal.clone(),
                source,
            })?;
        text.push('\n');
        replace(&place.journal, &text)
    }

    pub(crate) fn remove(place: &Place) -> Result<(), TuneError> {
        remove(&place.journal)
    }

    /// Notes a change. What a sysctl was before the first of several changes is what counts.
    pub(crate) fn note(&mut self, key: &str, before: &str, after: &str) {
        match self.entries.iter_mut().find(|entry| entry.key == key) {
            Some(entry) => after.clone_into(&mut entry.after),
            None => self.entries.push(Entry {
                key: key.to_owned(),
                before: before.to_owned(),
                after: after.to_owned(),
            }),
        }
    }
}

/// Writes `text` beside `path`, down to the disk, and puts it in `path`'s place.
pub(crate) fn replace(path: &Path, text: &str) -> Result<(), TuneError> {
    let written = || -> io::Result<()> {
        fs::create_dir_all(folder(path))?;
        let beside = path.with_extension("new");
        let mut file = File::create(&beside)?;
        file.write_all(text.as_bytes())?;
        file.sync_all()?;
        fs::rename(&beside, path)?;
        // The rename itself is on disk only once the folder is.
        File::open(folder(path))?.sync_all()
    };
    written().map_err(|source| TuneError::WriteFile {
        path: path.to_owned(),
        source,
    })
}

pub(crate) fn remove(path: &Path) -> Result<(), TuneError> {
    let removed = || -> io::Result<()> {
        fs::remove_file(path)?;
        File::open(folder(path))?.sync_all()
    };
    match removed() {
        Err(source) if source.kind() != io::ErrorKind::NotFound => Err(TuneError::WriteFile {
            path: path.to_owned(),
            source,
        }),
        _ => Ok(()),
    }
}
