//! What a connection forgets over idle time, and what it should forget of connections before it.

use record::tune::Kind;

use super::{IP_SYSCTL, Judged, change};
use crate::{Host, Settings};

pub(super) fn judge(host: &Host, judged: &mut Judged) {
    after_idle(host, judged);
    metrics(&host.settings, judged);
}

fn after_idle(host: &Host, judged: &mut Judged) {
    let settings = &host.settings;
    let key = "net.ipv4.tcp_slow_start_after_idle";
    let uses_bbr = host.congestion_control() == Some("bbr");
    match settings.number(key) {
        None => judged.unknown(key),
        Some(0) => judged.fine(format!("{key} is 0: idle connections keep their window")),
        // `tcp_slow_start_after_idle_check` in `include/net/tcp.h` returns early for an algorithm that has
        // a `cong_control` of its own.
        Some(_) if uses_bbr => judged.fine(format!(
            "{key} is 1, and BBR ignores it: it keeps its estimate of the path"
        )),
        Some(_) => judged.sysctls(
            "slow-start-after-idle",
            Kind::Limits,
            "A connection that was silent for one retransmission timeout starts again with 10 segments. \
             With hot connections to a far store that is several round trips for every burst.",
            &format!("{IP_SYSCTL}, tcp_slow_start_after_idle; RFC 7661 section 1"),
            vec![change(settings, key, "0")],
        ),
    }
}

fn metrics(settings: &Settings, judged: &mut Judged) {
    let key = "net.ipv4.tcp_no_metrics_save";
    match settings.number(key) {
        None => judged.unknown(key),
        Some(1) => judged.fine(format!(
            "{key} is 1: connections don't inherit a bad moment"
        )),
        Some(_) => judged.sysctls(
            "metrics-cache",
            Kind::Consider,
            "When a connection ends, its slow-start threshold is kept for the next ones to that \
             destination: after one bad moment later connections leave slow start early. \
             `ip tcp_metrics flush` forgets what is kept now.",
            &format!(
                "{IP_SYSCTL}, tcp_no_metrics_save; tcp_update_metrics in net/ipv4/tcp_metrics.c"
            ),
            vec![change(settings, key, "1")],
        ),
    }
}
