//! Trunks in Prometheus' text format.

use std::collections::BTreeMap;
use std::fmt::{Display, Write as _};

use super::account::Counts;
use super::status::{OneConnection, OneTrunk};
use super::watch::Found;
use crate::lost;

/// All that is exposed, at one moment.
pub(super) struct Exposed {
    pub(super) trunks: Vec<OneTrunk>,
    pub(super) counts: BTreeMap<String, Counts>,
    pub(super) health: BTreeMap<String, Found>,
    pub(super) usage: Option<sys::process::Usage>,
}

/// A family of series, which the format wants together.
struct Family<'a> {
    text: &'a mut String,
    name: &'static str,
}

/// A gauge or counter of a trunk, of its past, of a WAN connection.
type OfTrunk = fn(&OneTrunk) -> u64;
type OfCounts = fn(&Counts) -> u64;
type OfConnection = fn(&OneConnection) -> Option<f64>;

const CONNECTION: [(&str, &str, &str, OfConnection); 8] = [
    (
        "longhaul_wan_rtt_seconds",
        "gauge",
        "Smoothed round trip of frames, with what queues on the way.",
        |one| one.rtt_s,
    ),
    (
        "longhaul_wan_min_rtt_seconds",
        "gauge",
        "The least round trip of frames of late.",
        |one| one.min_rtt_s,
    ),
    (
        "longhaul_wan_delivery_bits_per_second",
        "gauge",
        "The highest delivery rate of late.",
        |one| one.delivery_bps.map(count),
    ),
    (
        "longhaul_wan_cwnd_bytes",
        "gauge",
        "TCP's congestion window.",
        |one| one.cwnd_bytes.map(count),
    ),
    (
        "longhaul_wan_peer_window_bytes",
        "gauge",
        "The other end's receive window.",
        |one| one.peer_window_bytes.map(count),
    ),
    (
        "longhaul_wan_unsent_bytes",
        "gauge",
        "In the send buffer, not yet sent.",
        |one| one.unsent_bytes.map(count),
    ),
    (
        "longhaul_wan_in_flight_bytes",
        "gauge",
        "Bytes of frames that are not acknowledged.",
        |one| Some(count(one.in_flight_bytes)),
    ),
    (
        "longhaul_wan_stalled",
        "gauge",
        "Whether it carries nothing because acknowledgements have stopped.",
        |one| Some(if one.stalled { 1.0 } else { 0.0 }),
    ),
];

/// Everything.
pub(super) fn write(exposed: &Exposed) -> String {
    let mut text = String::new();
    write_trunks(&mut text, &exposed.trunks);
    for (name, kind, help, value) in CONNECTION {
        let mut family = Family::new(&mut text, name, kind, help);
        for trunk in &exposed.trunks {
            for connection in &trunk.connections {
                if let Some(value) = value(connection) {
                    let id = connection.connection.to_string();
                    let labels = [
                        ("trunk", trunk.trunk.as_str()),
                        ("session", &trunk.session),
                        ("connection", &id),
                    ];
                    family.add(&labels, value);
                }
            }
        }
    }
    write_connection_limits(&mut text, &exposed.trunks);
    write_counts(&mut text, &exposed.counts);
    write_health(&mut text, &exposed.health);
    if let Some(usage) = &exposed.usage {
        write_usage(&mut text, usage);
    }
    lost::write(&mut text);
    text
}

fn write_trunks(text: &mut String, trunks: &[OneTrunk]) {
    let families: [(&'static str, &str, &str, OfTrunk); 12] = [
        (
            "longhaul_trunk_up",
            "gauge",
            "Whether a connection has joined and is not stalled.",
            |one| u64::from(one.up),
        ),
        (
            "longhaul_trunk_connections",
            "gauge",
            "WAN connections.",
            |one| u64::try_from(one.connections.len()).unwrap_or(u64::MAX),
        ),
        (
            "longhaul_trunk_wanted_connections",
            "gauge",
            "WAN connections that it would like.",
            |one| u64::from(one.wanted_connections),
        ),
        (
            "longhaul_trunk_streams",
            "gauge",
            "Streams that are open.",
            |one| u64::try_from(one.streams).unwrap_or(u64::MAX),
        ),
        (
            "longhaul_trunk_modest",
            "gauge",
            "Whether it makes room for others on its path.",
            |one| u64::from(one.modest),
        ),
        (
            "longhaul_trunk_send_held_bytes",
            "gauge",
            "Accepted from applications and not acknowledged by the other end.",
            |one| one.send_held_bytes,
        ),
        (
            "longhaul_trunk_receive_held_bytes",
            "gauge",
            "Received and not taken by applications.",
            |one| one.receive_held_bytes,
        ),
        (
            "longhaul_trunk_delivered_bytes_total",
            "counter",
            "Payload that the other end has acknowledged.",
            |one| one.delivered_bytes,
        ),
        (
            "longhaul_trunk_received_bytes_total",
            "counter",
            "Payload that has come from the other end.",
            |one| one.received_bytes,
        ),
        (
            "longhaul_trunk_repeated_bytes_total",
            "counter",
            "Payload that went out again because a connection stalled or died.",
            |one| one.repeated_bytes,
        ),
        (
            "longhaul_trunk_retransmitted_bytes_total",
            "counter",
            "Bytes on WAN connections that the kernel sent again.",
            |one| one.retransmitted_bytes,
        ),
        (
            "longhaul_trunk_padding_bytes_total",
            "counter",
            "Padding that kept connections hot.",
            |one| one.padding_bytes,
        ),
    ];
    for (name, kind, help, value) in families {
        let mut family = Family::new(text, name, kind, help);
        for trunk in trunks {
            family.add(&of(trunk), value(trunk));
        }
    }
    let help =
        "Time for which this limit held streams' sending back; two streams' seconds are two.";
    let mut family = Family::new(text, "longhaul_trunk_limit_seconds_total", "counter", help);
    for trunk in trunks {
        for (limit, seconds) in &trunk.limits_s {
            let limit = limit.to_string();
            let labels = [
                ("trunk", trunk.trunk.as_str()),
                ("session", &trunk.session),
                ("limit", &limit),
            ];
            family.add(&labels, seconds);
        }
    }
}

fn write_connection_limits(text: &mut String, trunks: &[OneTrunk]) {
    let help = "Time for which this limit held a WAN connection's sending back.";
    let mut family = Family::new(text, "longhaul_wan_limit_seconds_total", "counter", help);
    for trunk in trunks {
        for one in &trunk.connections {
            let number = one.connection.to_string();
            for (limit, seconds) in &one.limits_s {
                let limit = limit.to_string();
                let labels = [
                    ("trunk", trunk.trunk.as_str()),
                    ("session", &trunk.session),
                    ("connection", &number),
                    ("limit", &limit),
                ];
                family.add(&labels, seconds);
            }
        }
    }
}

fn write_counts(text: &mut String, counts: &BTreeMap<String, Counts>) {
    let name = "longhaul_trunk_streams_ended_total";
    let help = "Streams that are over, by who ended them and why.";
    let mut family = Family::new(text, name, "counter", help);
    for (trunk, counts) in counts {
        for ((by, reason), count) in &counts.streams {
            family.add(
                &[("trunk", trunk.as_str()), ("by", by), ("reason", reason)],
                count,
            );
        }
    }
    let families: [(&'static str, &str, OfCounts); 6] = [
        (
            "longhaul_trunk_wan_connected_total",
            "WAN connections that joined.",
            |one| one.wan_connected,
        ),
        (
            "longhaul_trunk_wan_lost_total",
            "WAN connections that are gone.",
            |one| one.wan_lost,
        ),
        (
            "longhaul_trunk_wan_unreachable_total",
            "Times that a far relay could not be reached, the first of each row and each 300th.",
            |one| one.wan_unreachable,
        ),
        (
            "longhaul_trunk_sessions_ended_total",
            "Sessions that are over.",
            |one| one.sessions_ended,
        ),
        (
            "longhaul_trunk_integrity_alarms_total",
            "Streams whose bytes changed between the relays.",
            |one| one.integrity_alarms,
        ),
        (
            "longhaul_trunk_modest_total",
            "Times that the guard found too much.",
            |one| one.modest,
        ),
    ];
    for (name, help, value) in families {
        let mut family = Family::new(text, name, "counter", help);
        for (trunk, counts) in counts {
            family.add(&[("trunk", trunk.as_str())], value(counts));
        }
    }
}

fn write_health(text: &mut String, health: &BTreeMap<String, Found>) {
    let help = "Whether the last active probe passed data and reached every target.";
    let mut family = Family::new(text, "longhaul_trunk_healthy", "gauge", help);
    for (trunk, found) in health {
        family.add(&[("trunk", trunk.as_str())], u8::from(found.probe.healthy));
    }
    let name = "longhaul_trunk_probe_seconds";
    let help = "How long the last active probe's data took there and back.";
    let mut family = Family::new(text, name, "gauge", help);
    for (trunk, found) in health {
        if let Some(seconds) = found.probe.echo.seconds {
            family.add(&[("trunk", trunk.as_str())], seconds);
        }
    }
    let name = "longhaul_trunk_probed_timestamp_seconds";
    let help = "When the last active probe ended, in seconds since 1970.";
    let mut family = Family::new(text, name, "gauge", help);
    for (trunk, found) in health {
        family.add(&[("trunk", trunk.as_str())], found.at_unix_s);
    }
}

/// Under the names that every client library of Prometheus uses.
fn write_usage(text: &mut String, usage: &sys::process::Usage) {
    let cpu = "CPU time of this process.";
    Family::new(text, "process_cpu_seconds_total", "counter", cpu)
        .add(&[], usage.cpu.as_secs_f64());
    let resident = "Memory of this process that is in RAM.";
    Family::new(text, "process_resident_memory_bytes", "gauge", resident).add(&[], usage.resident);
    let descriptors = "Descriptors that are open.";
    Family::new(text, "process_open_fds", "gauge", descriptors).add(&[], usage.descriptors);
}

fn of(trunk: &OneTrunk) -> [(&str, &str); 2] {
    [("trunk", &trunk.trunk), ("session", &trunk.session)]
}

/// The format's numbers are doubles, which hold bytes exactly up to nine petabytes.
#[allow(clippy::cast_precision_loss, reason = "see above")]
const fn count(value: u64) -> f64 {
    value as f64
}

// === impl Family ===

impl<'a> Family<'a> {
    fn new(text: &'a mut String, name: &'static str, kind: &str, help: &str) -> Self {
        // Writing to a String cannot fail, here and below.
        let _ = writeln!(text, "# HELP {name} {help}\n# TYPE {name} {kind}");
        Self { text, name }
    }

    fn add(&mut self, labels: &[(&str, &str)], value: impl Display) {
        let _ = write!(self.text, "{}", self.name);
        for (index, (label, value)) in labels.iter().enumerate() {
            let before = if index == 0 { '{' } else { ',' };
            let _ = write!(self.text, "{before}{label}=\"{}\"", escape(value));
        }
        let after = if labels.is_empty() { "" } else { "}" };
        let _ = writeln!(self.text, "{after} {value}");
    }
}

/// A label's value, of which the format wants these three escaped.
fn escape(value: &str) -> String {
    value
        .replace('\\', "\\\\")
        .replace('"', "\\\"")
        .replace('\n', "\\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_are_escaped_and_every_family_is_described_once() {
        let counts = BTreeMap::from([("a \"b\"\\\n".to_owned(), Counts::default())]);
        let exposed = Exposed {
            trunks: Vec::new(),
            counts,
            health: BTreeMap::new(),
            usage: sys::process::Usage::now().ok(),
        };
        let text = write(&exposed);
        assert!(
            text.contains("longhaul_trunk_wan_lost_total{trunk=\"a \\\"b\\\"\\\\\\n\"} 0\n"),
            "{text}"
        );
        let mut described: Vec<&str> = text
            .lines()
            .filter_map(|line| line.strip_prefix("# TYPE "))
            .collect();
        let all = described.len();
        described.sort_unstable();
        described.dedup();
        assert_eq!(described.len(), all);
        assert!(text.contains("\nprocess_resident_memory_bytes "), "{text}");
    }
}
