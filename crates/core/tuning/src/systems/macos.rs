//! macOS: `sysctl`, lost at the next start unless a launch daemon sets it again.

use record::tune::{Finding, Kind};

use super::{buffer, finding, in_flight};
use crate::Path;

const XNU: &str = "Apple, xnu: bsd/netinet/tcp_subr.c, bsd/kern/uipc_socket2.c";

pub(crate) fn findings(path: &Path) -> Vec<Finding> {
    let size = buffer(path);
    vec![
        finding(
            "receive-buffer",
            Kind::Limits,
            format!(
                "{}; autotuning of receive buffers ends at net.inet.tcp.autorcvbufmax (4 MB), of send buffers \
                 at autosndbufmax. kern.ipc.maxsockbuf bounds both.",
                in_flight(path)
            ),
            XNU,
            vec![
                "sysctl kern.ipc.maxsockbuf net.inet.tcp.autorcvbufmax net.inet.tcp.autosndbufmax \
                 net.inet.tcp.doautorcvbuf net.inet.tcp.doautosndbuf"
                    .to_owned(),
                format!("sudo sysctl -w kern.ipc.maxsockbuf={}", size.saturating_mul(2)),
                format!(
                    "sudo sysctl -w net.inet.tcp.autorcvbufmax={size} net.inet.tcp.autosndbufmax={size}"
                ),
            ],
            vec![
                "sudo sysctl -w kern.ipc.maxsockbuf=8388608 net.inet.tcp.autorcvbufmax=4194304 \
                 net.inet.tcp.autosndbufmax=4194304"
                    .to_owned(),
            ],
        ),
        finding(
            "autotuning-off",
            Kind::Folklore,
            "Lists of tweaks set net.inet.tcp.sendspace and recvspace by hand and switch autotuning off with \
             it: put both doauto switches back to 1."
                .to_owned(),
            XNU,
            vec!["sudo sysctl -w net.inet.tcp.doautorcvbuf=1 net.inet.tcp.doautosndbuf=1".to_owned()],
            Vec::new(),
        ),
        finding(
            "delayed-ack",
            Kind::Folklore,
            "net.inet.tcp.delayed_ack=0 doubles the ACKs of every download and frees no byte; the default 3 \
             decides by itself."
                .to_owned(),
            XNU,
            vec!["sysctl net.inet.tcp.delayed_ack".to_owned(), "sudo sysctl -w net.inet.tcp.delayed_ack=3".to_owned()],
            Vec::new(),
        ),
    ]
}
