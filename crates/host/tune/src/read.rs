//! What the rules want to know of this host. What can't be read is left out: they then say so.

use std::fs;
use std::net::IpAddr;
use std::path::Path;
use std::process::{Command, Stdio};

use tuning::{Host, KEYS, Route};
use units::Bytes;

use crate::apply::get;
use crate::{Place, device, live};

/// Reads the host that we run on, in our network namespace; the route towards `to`, or the default route.
#[must_use]
pub fn read(place: &Place, to: Option<IpAddr>) -> Host {
    let settings = KEYS
        .iter()
        .filter_map(|key| Some(((*key).to_owned(), get(place, key).ok()?)))
        .collect();
    let route = route(to);
    let device = route.as_ref().and_then(Route::device).map(device::read);
    Host {
        settings,
        kernel: get(place, "kernel.osrelease").ok(),
        memory: memory(),
        memory_limit: memory_limit(Path::new("/sys/fs/cgroup")),
        route,
        device,
        live: live::read(to),
    }
}

/// `MemTotal` of `/proc/meminfo`, in kB of 1024.
fn memory() -> Option<Bytes> {
    let text = fs::read_to_string("/proc/meminfo").ok()?;
    let line = text
        .lines()
        .find_map(|line| line.strip_prefix("MemTotal:"))?;
    let kib: u64 = line.split_whitespace().next()?.parse().ok()?;
    kib.checked_mul(1024).map(Bytes::new)
}

/// The least limit of the control groups that this process is in, from its own up to the root's: `memory.max` of
/// version 2 (cgroups(7)), `memory.limit_in_bytes` of version 1.
fn memory_limit(root: &Path) -> Option<Bytes> {
    let groups = fs::read_to_string("/proc/self/cgroup").ok()?;
    limits(root, &groups).min().map(Bytes::new)
}

fn limits(root: &Path, groups: &str) -> impl Iterator<Item = u64> {
    /// Version 1 writes "no limit" as the largest multiple of a page.
    const NONE: u64 = 1 << 62;
    let files = groups.lines().filter_map(move |line| {
        // `hierarchy:controllers:path`
        let mut fields = line.splitn(3, ':').skip(1);
        let (controllers, path) = (fields.next()?, fields.next()?);
        let (root, file) = if controllers.is_empty() {
            (root.to_owned(), "memory.max")
        } else if controllers.split(',').any(|name| name == "memory") {
            (root.join("memory"), "memory.limit_in_bytes")
        } else {
            return None;
        };
        let group = Path::new(path.trim_start_matches('/'));
        let all: Vec<_> = group
            .ancestors()
            .map(|group| root.join(group).join(file))
            .collect();
        Some(all)
    });
    files
        .flatten()
        .filter_map(|file| fs::read_to_string(file).ok()?.trim().parse().ok())
        .filter(|limit| *limit < NONE)
        .collect::<Vec<_>>()
        .into_iter()
}

/// The route as `ip route change` takes it: `ip route get` answers with the cached one, which names no
/// prefix, so only the default route is printed where it is the one that is used.
fn route(to: Option<IpAddr>) -> Option<Route> {
    let family = match to {
        Some(IpAddr::V6(_)) => "-6",
        Some(IpAddr::V4(_)) | None => "-4",
    };
    let mut arguments = vec![family.to_owned(), "route".to_owned(), "show".to_owned()];
    match to {
        Some(address) => arguments.extend(["match".to_owned(), address.to_string()]),
        None => arguments.push("default".to_owned()),
    }
    let output = Command::new("ip")
        .args(&arguments)
        .stdin(Stdio::null())
        .output()
        .ok()
        .filter(|output| output.status.success())?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    // `match` prints the default route first, the longest prefix last.
    let line = text.lines().map(str::trim).rfind(|line| !line.is_empty())?;
    Some(Route {
        line: line.to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_limit_of_every_group_above_counts_in_both_versions() {
        let root = tempfile::tempdir().unwrap();
        let write = |file: &str, text: &str| {
            let file = root.path().join(file);
            fs::create_dir_all(file.parent().unwrap()).unwrap();
            fs::write(file, text).unwrap();
        };
        write("a/memory.max", "1000\n");
        write("a/b/memory.max", "max\n");
        write("memory/c/memory.limit_in_bytes", "700\n");
        write("memory/memory.limit_in_bytes", "9223372036854771712\n");
        let least = |groups| limits(root.path(), groups).min();
        assert_eq!(least("0::/a/b\n"), Some(1000));
        assert_eq!(least("4:cpu,memory:/c\n0::/a/b\n"), Some(700));
        assert_eq!(least("4:memory:/\n1:name=systemd:/a\n"), None);
        assert_eq!(least("no group\n"), None);
    }
}
