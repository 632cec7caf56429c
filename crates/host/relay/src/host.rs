//! What the relay needs to know of the host it runs on.

use std::fs;

use crate::HttpRelay;
use crate::event::Event;
use crate::pool::Events;

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
pub(crate) fn problems(relay: &HttpRelay, forgets_windows: bool) -> Vec<(&'static str, String)> {
    let mut problems = Vec::new();
    // BBR keeps its own estimate and never restarts (`cong_control` in `net/ipv4/tcp_output.c`).
    let prefers_bbr = relay
        .server_profile
        .congestion_control
        .first()
        .is_some_and(|cc| cc == "bbr");
    if forgets_windows && relay.priming.is_some() && !prefers_bbr {
        problems.push((
            "slow-start-after-idle",
            format!(
                "the kernel forgets congestion windows over idle time, so hot connections cool after \
                 about one round trip of silence; run `{KEEP_WINDOWS}`, or take a server profile that \
                 prefers BBR, which keeps its estimate"
            ),
        ));
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

pub(crate) fn warn(relay: &HttpRelay, forgets_windows: bool, events: &Events) {
    for (name, text) in problems(relay, forgets_windows) {
        events(Event::Warning { name, text });
    }
}
