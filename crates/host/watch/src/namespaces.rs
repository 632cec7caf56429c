//! Which network namespaces are read.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

/// A network namespace and how people call it.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Namespace {
    /// Its name below `/run/netns`, or a process in it.
    pub name: String,
    /// A file that opens it.
    pub path: PathBuf,
}

/// Which ones are meant.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub enum NamespaceChoice {
    /// The one that this process is in.
    #[default]
    Here,
    /// These: a name below `/run/netns`, the number of a process in it, or a path.
    These(Vec<String>),
    /// All that a process or a name of this host holds.
    All,
}

/// Where `ip netns add` keeps its names.
const NAMED: &str = "/run/netns";

// === impl NamespaceChoice ===

impl NamespaceChoice {
    /// The namespaces, without doubles. Those of [`Self::All`] that this user may not see are left out.
    #[must_use]
    pub fn resolve(&self) -> Vec<Namespace> {
        match self {
            Self::Here => vec![Namespace {
                name: "this host".to_owned(),
                path: "/proc/thread-self/ns/net".into(),
            }],
            Self::These(names) => names.iter().map(|name| named(name)).collect(),
            Self::All => all(),
        }
    }
}

fn named(name: &str) -> Namespace {
    let path = if name.contains('/') {
        name.into()
    } else if name.bytes().all(|byte| byte.is_ascii_digit()) {
        format!("/proc/{name}/ns/net").into()
    } else {
        Path::new(NAMED).join(name)
    };
    Namespace {
        name: name.to_owned(),
        path,
    }
}

/// By the number of the namespace's file, which names and processes share.
fn all() -> Vec<Namespace> {
    let mut found: BTreeMap<u64, Namespace> = BTreeMap::new();
    let mut add = |path: PathBuf, name: String| {
        if let Ok(file) = fs::metadata(&path) {
            let namespace = Namespace { name, path };
            found.entry(file.ino()).or_insert(namespace);
        }
    };
    add("/proc/self/ns/net".into(), "this host".to_owned());
    for entry in fs::read_dir(NAMED).into_iter().flatten().flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        add(entry.path(), name);
    }
    let mut processes = numbers(Path::new("/proc"));
    processes.sort_unstable();
    for pid in processes {
        let comm = fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
        add(
            format!("/proc/{pid}/ns/net").into(),
            format!("{} ({pid})", comm.trim()),
        );
    }
    found.into_values().collect()
}

/// The entries of a folder that are numbers.
pub(crate) fn numbers(folder: &Path) -> Vec<u32> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_namespace_is_named_by_name_by_process_or_by_path() {
        for (name, path) in [
            ("site", "/run/netns/site"),
            ("4711", "/proc/4711/ns/net"),
            ("/proc/1/ns/net", "/proc/1/ns/net"),
        ] {
            assert_eq!(named(name).path, Path::new(path));
        }
    }

    #[test]
    fn all_namespaces_hold_this_one_once() {
        let here = fs::metadata("/proc/self/ns/net").unwrap().ino();
        let same: Vec<_> = NamespaceChoice::All
            .resolve()
            .into_iter()
            .filter(|one| fs::metadata(&one.path).is_ok_and(|file| file.ino() == here))
            .collect();
        assert_eq!(same.len(), 1, "{same:?}");
        assert_eq!(same[0].name, "this host");
    }
}
