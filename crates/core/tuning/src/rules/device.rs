//! The device that the path's packets leave by, and the queue before it.

use std::collections::BTreeSet;

use units::Rate;

use super::Judged;
use crate::{Device, Host, Path};

/// From here on the work per packet counts.
const FAST: Rate = Rate::mbit_per_s(1_000);
/// What most of the Internet takes.
const FULL_MTU: u32 = 1_500;

pub(super) fn judge(host: &Host, path: &Path, judged: &mut Judged) {
    let Some(device) = &host.device else {
        judged.unknown.push(
            "the device of this path is not known, so nothing is said about its queue, rings and offloads"
                .to_owned(),
        );
        return;
    };
    speed(device, path, judged);
    mtu(device, judged);
    queue(device, host, judged);
    offloads(device, path, judged);
    ring(device, path, judged);
}

fn speed(device: &Device, path: &Path, judged: &mut Judged) {
    let name = &device.name;
    match device.speed {
        None => judged.unknown.push(format!(
            "{name} does not tell its speed: virtual devices have none"
        )),
        Some(speed) if speed < path.rate => judged.considered(
            "slow-device",
            format!(
                "{name} runs at {speed}, the path is said to have {}: no setting moves more than the device.",
                path.rate
            ),
            "ethtool(8)",
            vec![format!("ethtool {name}")],
            Vec::new(),
        ),
        Some(speed) => judged.fine(format!("{name} runs at {speed}")),
    }
}

fn mtu(device: &Device, judged: &mut Judged) {
    match device.mtu {
        None => judged
            .unknown
            .push(format!("{} does not tell its MTU", device.name)),
        Some(mtu) if mtu < FULL_MTU => judged.fine(format!(
            "{} takes packets of {mtu} B, fewer than usual: a tunnel, so mind what `explain` says of MTU",
            device.name
        )),
        Some(mtu) => judged.fine(format!("{} takes packets of {mtu} B", device.name)),
    }
}

fn queue(device: &Device, host: &Host, judged: &mut Judged) {
    let name = &device.name;
    let Some(qdiscs) = &device.qdiscs else {
        judged.unknown.push(format!(
            "the queueing discipline of {name} could not be read (`tc` of iproute2 tells it)"
        ));
        return;
    };
    let one_queue: BTreeSet<&str> = qdiscs
        .iter()
        .map(String::as_str)
        .filter(|kind| ["pfifo_fast", "pfifo", "bfifo"].contains(kind))
        .collect();
    let bbr = host.congestion_control() == Some("bbr");
    if let Some(kind) = one_queue.first() {
        judged.considered(
            "one-queue-for-all",
            format!(
                "All flows share one queue at {name} ({kind}): a bulk transfer that fills it delays every other \
                 packet of this host. `fq` serves flows in turn and paces them; `fq_codel` where the kernel has \
                 no `fq`."
            ),
            "tc-fq(8); RFC 8290",
            vec![format!("tc qdisc replace dev {name} root fq")],
            vec![format!("tc qdisc delete dev {name} root")],
        );
    } else if bbr && !qdiscs.iter().any(|kind| kind == "fq") {
        // `tcp_internal_pacing` in `net/ipv4/tcp_output.c`.
        judged.fine(format!(
            "{name} queues by {}; BBR paces by a timer of each socket since Linux 4.13, so `fq` only saves \
             processor time",
            qdiscs.join(", ")
        ));
    } else {
        judged.fine(format!("{name} queues by {}", qdiscs.join(", ")));
    }
}

fn offloads(device: &Device, path: &Path, judged: &mut Judged) {
    let name = &device.name;
    let named = |wanted: bool| -> Vec<&str> {
        let of = device.offloads.iter().filter(|(_, on)| *on == wanted);
        of.map(|(name, _)| *name).collect()
    };
    let (on, off) = (named(true), named(false));
    if off.is_empty() || path.rate < FAST {
        if !on.is_empty() {
            judged.fine(format!("{name} has {} on", on.join(", ")));
        }
        return;
    }
    let set = |value: &str| -> Vec<String> {
        let each = off
            .iter()
            .map(|offload| format!("ethtool -K {name} {offload} {value}"));
        each.collect()
    };
    judged.considered(
        "single-packets",
        format!(
            "{name} has {} off: the kernel handles every packet by itself, which costs several times the \
             processor time per byte at {}.",
            off.join(", "),
            path.rate
        ),
        "Linux, Documentation/networking/segmentation-offloads.rst",
        set("on"),
        set("off"),
    );
}

fn ring(device: &Device, path: &Path, judged: &mut Judged) {
    let name = &device.name;
    let Some((now, most)) = device.ring else {
        return;
    };
    if now >= most || path.rate < FAST {
        judged.fine(format!("{name} receives into {now} descriptors of {most}"));
        return;
    }
    judged.considered(
        "short-ring",
        format!(
            "{name} receives into {now} descriptors and could have {most}: a burst that finds no \
             descriptor is lost before the kernel sees it (`ethtool -S {name}` counts it as missed)."
        ),
        "ethtool(8), -G",
        vec![format!("ethtool -G {name} rx {most}")],
        vec![format!("ethtool -G {name} rx {now}")],
    );
}
