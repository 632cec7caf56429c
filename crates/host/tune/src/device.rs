//! What can be asked of the device that a path's packets leave by.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use sys::ethtool::{DeviceControl, Offload};
use tuning::Device;
use units::Rate;

/// Everything that `name` tells.
pub(crate) fn read(name: &str) -> Device {
    let control = DeviceControl::open().ok();
    let control = control.as_ref();
    let offload = |label, offload| {
        let on = control?.offload(name, offload).ok()?;
        Some((label, on))
    };
    let offloads = [
        offload("tso", Offload::Tso),
        offload("gso", Offload::Gso),
        offload("gro", Offload::Gro),
    ];
    let ring = control.and_then(|control| control.receive_ring(name).ok());
    let folder = control.and_then(|control| folder(control, name));
    Device {
        name: name.to_owned(),
        mtu: control.and_then(|control| control.mtu(name).ok()),
        speed: folder.as_deref().and_then(speed),
        queues: folder.as_deref().and_then(queues),
        qdiscs: qdiscs(name),
        offloads: offloads.into_iter().flatten().collect(),
        ring: ring.map(|ring| (ring.now, ring.most)),
    }
}

/// Its folder in sysfs, where that shows this network namespace: whoever entered a namespace without mounting
/// sysfs anew sees the devices of another one, of which one may have the same name.
fn folder(control: &DeviceControl, name: &str) -> Option<PathBuf> {
    let folder = Path::new("/sys/class/net").join(name);
    let shown: u32 = fs::read_to_string(folder.join("ifindex"))
        .ok()?
        .trim()
        .parse()
        .ok()?;
    (control.index(name).ok()? == shown).then_some(folder)
}

/// In Mbit/s; -1, or an error, where the device has no link or none to speak of.
fn speed(folder: &Path) -> Option<Rate> {
    let text = fs::read_to_string(folder.join("speed")).ok()?;
    let megabits: u64 = text.trim().parse().ok()?;
    (megabits > 0 && megabits < u64::from(u32::MAX)).then(|| Rate::mbit_per_s(megabits))
}

fn queues(folder: &Path) -> Option<(usize, usize)> {
    let names: Vec<String> = fs::read_dir(folder.join("queues"))
        .ok()?
        .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
        .collect();
    let count = |prefix| names.iter().filter(|name| name.starts_with(prefix)).count();
    Some((count("rx-"), count("tx-")))
}

/// Lines such as `qdisc fq_codel 0: parent :2 limit 10240p …`.
fn qdiscs(name: &str) -> Option<Vec<String>> {
    let output = Command::new("tc")
        .args(["qdisc", "show", "dev", name])
        .stdin(Stdio::null())
        .output()
        .ok()
        .filter(|output| output.status.success())?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    Some(kinds(&text))
}

fn kinds(text: &str) -> Vec<String> {
    let mut seen = BTreeSet::new();
    text.lines()
        .filter_map(|line| line.strip_prefix("qdisc ")?.split_whitespace().next())
        .filter(|kind| seen.insert(*kind))
        .map(str::to_owned)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn disciplines_are_named_once_the_root_first() {
        let text = "qdisc mq 0: root \n\
                    qdisc fq_codel 0: parent :2 limit 10240p flows 1024\n\
                    qdisc fq_codel 0: parent :1 limit 10240p flows 1024\n";
        assert_eq!(kinds(text), ["mq", "fq_codel"]);
        assert!(kinds("").is_empty());
    }

    #[test]
    fn the_loopback_device_is_read() {
        let device = read("lo");
        assert!(device.mtu.is_some_and(|mtu| mtu >= 1280), "{device:?}");
        assert_eq!(device.ring, None);
        assert_eq!(device.offloads.len(), 3, "{device:?}");
    }

    #[test]
    fn a_device_that_is_not_there_tells_nothing() {
        let device = read("lh-none");
        assert_eq!(
            (device.mtu, device.speed, device.queues),
            (None, None, None)
        );
        assert!(device.offloads.is_empty());
    }
}
