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
    if forgets_windows && relay.priming.is_some() {
        problems.push((
            "slow-start-after-idle",
            format!(
                "the kernel forgets congestion windows over idle time, so hot connections cool after \
                 about one round trip of silence and have to be primed again within \
                 prime.hourly-bytes; run `{KEEP_WINDOWS}`"
            ),
        ));
    }
    if relay.priming.is_some() && relay.path_rate.is_none() {
        problems.push((
            "path-rate-unknown",
            "without path-rate a hot window leaves as one burst, and what the bottleneck's queue \
             cannot hold is lost; give the path's rate to have segments paced"
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
