//! What the rules want to know of this host. What can't be read is left out: they then say so.

use std::fs;
use std::net::IpAddr;
use std::process::{Command, Stdio};

use tuning::{Host, KEYS, Route};
use units::Bytes;

use crate::Place;
use crate::apply::get;

/// Reads the host that we run on, in our network namespace; the route towards `to`, or the default route.
#[must_use]
pub fn read(place: &Place, to: Option<IpAddr>) -> Host {
    let settings = KEYS
        .iter()
        .filter_map(|key| Some(((*key).to_owned(), get(place, key).ok()?)))
        .collect();
    Host {
        settings,
        kernel: get(place, "kernel.osrelease").ok(),
        memory: memory(),
        route: route(to),
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
