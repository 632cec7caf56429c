use std::path::{Path, PathBuf};

/// Where the host's settings and our own files are. [`Place::default`] is the host that we run on; tests
/// point it elsewhere.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Place {
    /// Where sysctls are files: `/proc/sys`.
    pub sysctls: PathBuf,
    /// The journal: `/var/lib/longhaul/tune.json`.
    pub journal: PathBuf,
    /// The file that makes changes last: `/etc/sysctl.d/90-longhaul.conf`.
    pub drop_in: PathBuf,
}

impl Default for Place {
    fn default() -> Self {
        Self {
            sysctls: PathBuf::from("/proc/sys"),
            journal: PathBuf::from("/var/lib/longhaul/tune.json"),
            drop_in: PathBuf::from("/etc/sysctl.d/90-longhaul.conf"),
        }
    }
}

impl Place {
    /// The file of a sysctl. Dots are slashes, as `sysctl(8)` has it; nothing else leaves the folder.
    pub(crate) fn sysctl(&self, key: &str) -> PathBuf {
        let mut path = self.sysctls.clone();
        path.extend(
            key.split('.')
                .filter(|part| !part.contains('/') && !part.is_empty()),
        );
        path
    }
}

/// The folder that a file is in.
pub(crate) fn folder(path: &Path) -> &Path {
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    }
}
