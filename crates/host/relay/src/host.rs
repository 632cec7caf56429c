//! What the relay needs to know of the host it runs on.

use std::fs;

use crate::HttpRelay;
use crate::event::{Event, Events};

/// The command that keeps windows over idle time, for this network namespace.
const KEEP_WINDOWS: &str = "sysctl -w net.ipv4.tcp_slow_start_after_idle=0";

/// Whether the kernel forgets congestion windows over idle time
/// (`net.ipv4.tcp_slow_start_after_idle`, of the network namespace that this process is in). Yes where
/// that cannot be read: it is the kernel's default.
pub(crate) fn forgets_windows() -> bool {
    fs::read_to_string("/proc/sys/net/ipv4/tcp_slow_start_after_idle")
        .map_or(true, |text| text.trim() != "0")
}

/// What an operator should know before the first client comes.
///
/// `congestion` is the congestion control that the server side will have.
pub(crate) fn problems(
    relay: &HttpRelay,
    forgets_windows: bool,
    congestion: Option<&str>,
) -> Vec<(&'static str, String)> {
    let mut problems = Vec::new();
    if forgets_windows && relay.priming.is_some() {
        // BBR keeps its own estimate and never restarts (`tcp_slow_start_after_idle_check` in
        // `include/net/tcp.h` leaves out what has a `cong_control`).
        let text = if congestion == Some("bbr") {
            format!(
                "the kernel forgets congestion windows over idle time (tcp_slow_start_after_idle = 1), \
                 so the server side uses BBR, which keeps its estimate of the path; with \
                 `{KEEP_WINDOWS}`, CUBIC and a kept window are faster still"
            )
        } else {
            format!(
                "the kernel forgets congestion windows over idle time (tcp_slow_start_after_idle = 1) \
                 and the server side has {} instead of BBR, so hot connections cool after one \
                 retransmission timeout of silence, some 200 ms and a round trip; run \
                 `{KEEP_WINDOWS}`, or `modprobe tcp_bbr`",
                congestion.unwrap_or("an unknown congestion control"),
            )
        };
        problems.push(("slow-start-after-idle", text));
    }
    if relay.priming.is_some() && relay.path_rate.is_none() {
        problems.push((
            "path-rate-unknown",
            "without path-rate the pace of hot connections is what priming could measure; \
             give the path's rate if it is known"
                .into(),
        ));
    }
    problems
}

pub(crate) fn warn(
    relay: &HttpRelay,
    forgets_windows: bool,
    congestion: Option<&str>,
    events: &Events,
) {
    for (name, text) in problems(relay, forgets_windows, congestion) {
        events(Event::Warning { name, text });
    }
}

/// The host's name, as its UTS namespace has it.
pub(crate) fn name() -> Option<String> {
    let name = fs::read_to_string("/proc/sys/kernel/hostname").ok()?;
    Some(name.trim().to_owned()).filter(|name| !name.is_empty())
}
