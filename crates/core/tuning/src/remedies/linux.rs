//! A Linux host that can't be read from here: what it has now is kept in files, for the way back.

use units::format_span;

use super::{Cause, Remedy};
use crate::Path;
use crate::systems::buffer;

pub(super) fn remedy(cause: Cause, path: &Path) -> Option<Remedy> {
    let size = buffer(path);
    Some(match cause {
        Cause::ReceiveWindow => {
            let mut remedy = set(
                "The third value bounds autotuning. A program that sets SO_RCVBUF switches it off: take that out.",
                "net.ipv4.tcp_rmem",
                &format!("4096 131072 {size}"),
            );
            by_tune(&mut remedy, path);
            remedy
        }
        Cause::SendBuffer => {
            let mut remedy = set(
                "The third value bounds autotuning. A program that sets SO_SNDBUF switches it off: take that out.",
                "net.ipv4.tcp_wmem",
                &format!("4096 16384 {size}"),
            );
            by_tune(&mut remedy, path);
            remedy
        }
        Cause::NoWindowScaling => set("New connections only.", "net.ipv4.tcp_window_scaling", "1"),
        Cause::NoSack => set("New connections only.", "net.ipv4.tcp_sack", "1"),
        Cause::NoTimestamps => set("New connections only.", "net.ipv4.tcp_timestamps", "1"),
        Cause::Loss => {
            let mut remedy = set(
                "BBR takes its rate from what arrives and not from losses. The route's setting concerns this \
                 destination alone; put its address in place of 192.0.2.0/24.",
                "net.ipv4.tcp_congestion_control",
                "bbr",
            );
            remedy.commands.insert(0, "modprobe tcp_bbr".into());
            remedy
                .commands
                .push("ip route replace 192.0.2.0/24 via GATEWAY congctl bbr".into());
            remedy.undo.push("ip route del 192.0.2.0/24".into());
            remedy
        }
        Cause::RestartAfterIdle => set(
            "The congestion window then survives pauses; all connections of the host have it at once.",
            "net.ipv4.tcp_slow_start_after_idle",
            "0",
        ),
        Cause::LowThreshold => {
            let mut remedy = set(
                "The kernel remembers a destination's threshold from earlier connections: forget it, and \
                 remember none.",
                "net.ipv4.tcp_no_metrics_save",
                "1",
            );
            remedy.commands.push("ip tcp_metrics flush all".into());
            remedy
        }
        Cause::BlackHole => set(
            "The kernel then tries smaller segments once repeats of a full one stay unanswered (RFC 4821).",
            "net.ipv4.tcp_mtu_probing",
            "1",
        ),
        Cause::SmallWrites => Remedy {
            says: "On the host that delays its ACKs, for this destination alone; put its address in place of \
                   192.0.2.0/24. Better: TCP_NODELAY where the pieces are written."
                .into(),
            commands: vec!["ip route replace 192.0.2.0/24 via GATEWAY quickack 1".into()],
            undo: vec!["ip route del 192.0.2.0/24".into()],
        },
        Cause::NewConnections
        | Cause::TooFewConnections
        | Cause::ContinueWait
        | Cause::TlsRoundTrips
        | Cause::TlsResumption => return None,
    })
}

/// A sysctl, with what it was kept in a file.
fn set(says: &str, key: &str, value: &str) -> Remedy {
    Remedy {
        says: says.to_owned(),
        commands: vec![
            format!("sysctl -n {key} > ~/{key}.before"),
            format!("sysctl -w {key}='{value}'"),
        ],
        undo: vec![format!("sysctl -w {key}=\"$(cat ~/{key}.before)\"")],
    }
}

/// The same by the verb that reads back what it writes.
fn by_tune(remedy: &mut Remedy, path: &Path) {
    remedy.commands.push(format!(
        "# or on that host: longhaul tune --rtt '{}' --rate '{}' --apply",
        format_span(path.rtt),
        path.rate
    ));
    remedy.undo.push("# or: longhaul tune --revert".into());
}
