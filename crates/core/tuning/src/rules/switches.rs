//! Parts of TCP that somebody has switched off.

use record::tune::Kind;

use super::{IP_SYSCTL, Judged, change};
use crate::Settings;

/// One switch, and what is lost without it.
struct Switch {
    name: &'static str,
    key: &'static str,
    /// Its value on a host that nobody has touched.
    default: &'static str,
    is_off: fn(i64) -> bool,
    says: &'static str,
    source: &'static str,
}

const SWITCHES: [Switch; 10] = [
    Switch {
        name: "no-window-scaling",
        key: "net.ipv4.tcp_window_scaling",
        default: "1",
        is_off: is_zero,
        says: "Window scaling is off: no window is larger than 65535 B, whatever the buffers.",
        source: "RFC 7323 section 2",
    },
    Switch {
        name: "autotuning-off",
        key: "net.ipv4.tcp_moderate_rcvbuf",
        default: "1",
        is_off: is_zero,
        says: "Receive autotuning is off: every connection keeps the default of tcp_rmem, however long \
               its path is.",
        source: "Linux, Documentation/networking/ip-sysctl.rst, tcp_moderate_rcvbuf",
    },
    Switch {
        name: "no-sack",
        key: "net.ipv4.tcp_sack",
        default: "1",
        is_off: is_zero,
        says: "Selective acknowledgements are off: one lost segment is repaired per round trip.",
        source: "RFC 2018; RFC 6675",
    },
    Switch {
        name: "no-timestamps",
        key: "net.ipv4.tcp_timestamps",
        default: "1",
        is_off: is_zero,
        says: "Timestamps are off: no RTT sample of a segment that was sent twice, no protection against \
               old segments above 1 Gbit/s, later recognition of needless retransmissions. They cost \
               12 B of 1448.",
        source: "RFC 7323 sections 3 to 5",
    },
    Switch {
        name: "no-dsack",
        key: "net.ipv4.tcp_dsack",
        default: "1",
        is_off: is_zero,
        says: "D-SACK is off: a peer can't see that its retransmission was needless, and keeps its window cut.",
        source: "RFC 2883",
    },
    Switch {
        name: "no-rack",
        key: "net.ipv4.tcp_recovery",
        default: "1",
        is_off: lowest_bit_clear,
        says: "RACK is off: lost retransmissions and losses at the end of a burst wait for a timeout.",
        source: "RFC 8985",
    },
    Switch {
        name: "no-tail-loss-probe",
        key: "net.ipv4.tcp_early_retrans",
        default: "3",
        is_off: is_zero,
        says: "Tail loss probes are off: a lost last segment waits for a whole timeout.",
        source: "RFC 8985 section 7",
    },
    Switch {
        name: "no-frto",
        key: "net.ipv4.tcp_frto",
        default: "2",
        is_off: is_zero,
        says: "F-RTO is off: a path that pauses for a moment costs the whole window again.",
        source: "RFC 5682",
    },
    Switch {
        name: "window-share-changed",
        key: "net.ipv4.tcp_adv_win_scale",
        default: "1",
        is_off: is_not_one,
        says: "tcp_adv_win_scale was changed: kernels up to 6.5 announce another share of the buffer, newer \
               ones ignore it; either way the buffer's size is the place to say it.",
        source: "Linux, Documentation/networking/ip-sysctl.rst, tcp_adv_win_scale",
    },
    Switch {
        name: "signed-windows",
        key: "net.ipv4.tcp_workaround_signed_windows",
        default: "0",
        is_off: is_not_zero,
        says: "Windows of peers without scaling are taken as signed: no more than 32767 B fly to them.",
        source: "Linux, Documentation/networking/ip-sysctl.rst, tcp_workaround_signed_windows",
    },
];

const fn is_zero(value: i64) -> bool {
    value == 0
}

const fn is_not_zero(value: i64) -> bool {
    value != 0
}

const fn is_not_one(value: i64) -> bool {
    value != 1
}

const fn lowest_bit_clear(value: i64) -> bool {
    value & 1 == 0
}

pub(super) fn judge(settings: &Settings, judged: &mut Judged) {
    for switch in &SWITCHES {
        match settings.number(switch.key) {
            None => judged.unknown(switch.key),
            Some(value) if (switch.is_off)(value) => judged.sysctls(
                switch.name,
                Kind::Folklore,
                switch.says,
                switch.source,
                vec![change(settings, switch.key, switch.default)],
            ),
            Some(value) => judged.fine(format!("{} is {value}", switch.key)),
        }
    }
    small_writes(settings, judged);
    ecn(settings, judged);
}

/// Congestion told by a mark instead of a loss, where a queue on the path can.
fn ecn(settings: &Settings, judged: &mut Judged) {
    let key = "net.ipv4.tcp_ecn";
    match settings.number(key) {
        None => judged.unknown(key),
        Some(0) => judged.sysctls(
            "no-ecn",
            Kind::Consider,
            "ECN is refused even to peers that ask for it: a queue that could mark a packet (fq_codel, CAKE, L4S) \
             drops it. With 2, the default, it is accepted and not asked for.",
            &format!("RFC 3168 section 6.1; RFC 8087; {IP_SYSCTL}, tcp_ecn"),
            vec![change(settings, key, "2")],
        ),
        Some(value) => judged.fine(format!("{key} is {value}: peers that ask for ECN get it")),
    }
}

/// Limits on what a socket takes ahead of the wire, where they are below what a wake-up needs.
fn small_writes(settings: &Settings, judged: &mut Judged) {
    /// Two segments of 64 KiB: with less the sender runs dry between two wake-ups.
    const LEAST: i64 = 128 * 1024;
    for (name, key, default) in [
        (
            "small-output-limit",
            "net.ipv4.tcp_limit_output_bytes",
            "4194304",
        ),
        (
            "small-unsent-limit",
            "net.ipv4.tcp_notsent_lowat",
            "4294967295",
        ),
    ] {
        match settings.number(key) {
            None => judged.unknown(key),
            Some(value) if (0..LEAST).contains(&value) => judged.sysctls(
                name,
                Kind::Limits,
                format!(
                    "{key} is {value} B: a sender that is woken for every few segments can't keep a fast \
                     path full."
                ),
                IP_SYSCTL,
                vec![change(settings, key, default)],
            ),
            Some(value) => judged.fine(format!("{key} is {value}")),
        }
    }
}
