//! What holds the connections that are there now, by the kernel's own clocks.

use super::Judged;
use crate::{Host, Live, Path};
use units::format_span;

pub(super) fn judge(host: &Host, path: &Path, judged: &mut Judged) {
    let Some(live) = &host.live else {
        judged
            .unknown
            .push("the live connections of this host could not be listed".to_owned());
        return;
    };
    if live.connections == 0 {
        judged.fine("no live connection leaves this host: none could be looked at");
        return;
    }
    peer(live, path, judged);
    send_buffer(live, judged);
    let controls: Vec<String> = live
        .controls
        .iter()
        .map(|(name, count)| format!("{name} {count}"))
        .collect();
    judged.fine(format!(
        "{} live connections, by congestion control: {}",
        live.connections,
        controls.join(", ")
    ));
}

fn peer(live: &Live, path: &Path, judged: &mut Judged) {
    if live.held_by_peer == 0 {
        return;
    }
    judged.considered(
        "peer-window",
        format!(
            "{} of {} live connections waited for the peer's receive window for most of the time in which they \
             had data: what holds them is set at the other end.",
            live.held_by_peer, live.connections
        ),
        "TCP_INFO, tcpi_rwnd_limited; tcp_chrono_start in net/ipv4/tcp_output.c",
        vec![format!(
            "longhaul tune --rtt '{}' --rate '{}'   # at the other end",
            format_span(path.rtt),
            path.rate
        )],
        Vec::new(),
    );
}

fn send_buffer(live: &Live, judged: &mut Judged) {
    if live.held_by_send_buffer == 0 {
        return;
    }
    judged.considered(
        "full-send-buffer",
        format!(
            "{} of {} live connections waited for room in their own send buffer for most of the time in which \
             they had data: either tcp_wmem ends too early, or the program fixes SO_SNDBUF, which ends \
             autotuning.",
            live.held_by_send_buffer, live.connections
        ),
        "TCP_INFO, tcpi_sndbuf_limited; socket(7), SO_SNDBUF",
        vec!["longhaul top --sort goodput   # which connections, and whose".to_owned()],
        Vec::new(),
    );
}
