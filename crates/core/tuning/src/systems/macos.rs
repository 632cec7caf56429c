//! macOS: `sysctl`, lost at the next start unless a launch daemon sets it again.

use record::tune::{Finding, Kind};

use super::{buffer, finding, in_flight};
use crate::Path;

const XNU: &str =
    "Apple, xnu: bsd/netinet/tcp_subr.c, bsd/netinet/tcp_input.c, bsd/kern/uipc_socket2.c";

pub(crate) fn findings(path: &Path) -> Vec<Finding> {
    let size = buffer(path);
    let buffers = [
        ("kern.ipc.maxsockbuf", size.saturating_mul(2)),
        ("net.inet.tcp.autorcvbufmax", size),
        ("net.inet.tcp.autosndbufmax", size),
    ];
    let each = |line: fn(&str, &str) -> Vec<String>| {
        let lines = buffers
            .iter()
            .flat_map(|(key, value)| line(key, &value.to_string()));
        lines.collect::<Vec<String>>()
    };
    vec![
        finding(
            "receive-buffer",
            Kind::Limits,
            format!(
                "{}; autotuning of receive buffers ends at net.inet.tcp.autorcvbufmax (4 MB, 2 MB with less than 4 GB \
                 of memory), of send buffers at autosndbufmax. kern.ipc.maxsockbuf bounds both, and goes no higher \
                 than a sixteenth of the memory for network buffers (`Result too large`). A program that sets \
                 SO_RCVBUF or SO_SNDBUF switches autotuning off.",
                in_flight(path)
            ),
            XNU,
            each(set),
            each(|key, _| vec![put_back(key)]),
        ),
        finding(
            "autotuning-off",
            Kind::Folklore,
            "Lists of tweaks set net.inet.tcp.sendspace and recvspace by hand and switch autotuning off with \
             it: put the switch back to 1. Send buffers have none, and grow unless the program sets a size."
                .to_owned(),
            XNU,
            set("net.inet.tcp.doautorcvbuf", "1"),
            vec![put_back("net.inet.tcp.doautorcvbuf")],
        ),
        finding(
            "delayed-ack",
            Kind::Folklore,
            "net.inet.tcp.delayed_ack=0 doubles the ACKs of every download and frees no byte; the default 3 \
             decides by itself. Only where a short segment waits for an ACK does 0 save time."
                .to_owned(),
            XNU,
            set("net.inet.tcp.delayed_ack", "3"),
            vec![put_back("net.inet.tcp.delayed_ack")],
        ),
    ]
}

/// What there is now, kept in a file for the way back, and the new value.
pub(crate) fn set(key: &str, value: &str) -> Vec<String> {
    vec![
        format!("sysctl -n {key} > ~/{key}.before"),
        format!("sudo sysctl -w {key}={value}"),
    ]
}

/// Sets it to what [`set`] has kept.
pub(crate) fn put_back(key: &str) -> String {
    format!("sudo sysctl -w {key}=\"$(cat ~/{key}.before)\"")
}
