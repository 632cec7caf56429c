//! Counters in Prometheus' text format.

use std::fmt::{Display, Write as _};
use std::net::SocketAddr;
use std::sync::Arc;

use profile::Side;

use super::{Counts, Meter};
use crate::lost;

/// One metric, of which every listener has some series.
struct Metric {
    name: &'static str,
    kind: &'static str,
    help: &'static str,
    series: fn(&mut Series<'_>, &Reading),
}

/// A listener's counters at one moment.
struct Reading {
    listen: SocketAddr,
    clients: usize,
    counts: Counts,
}

/// Where the lines of one metric of one listener go.
pub(super) struct Series<'a> {
    text: &'a mut String,
    name: &'static str,
    listen: SocketAddr,
}

const METRICS: [Metric; 15] = [
    Metric {
        name: "longhaul_clients",
        kind: "gauge",
        help: "Clients that are connected now.",
        series: |series, reading| series.add("", "", reading.clients),
    },
    Metric {
        name: "longhaul_clients_total",
        kind: "counter",
        help: "Clients that were accepted.",
        series: |series, reading| series.add("", "", reading.counts.accepted),
    },
    Metric {
        name: "longhaul_refused_total",
        kind: "counter",
        help: "Clients that may not connect.",
        series: |series, reading| series.add("", "", reading.counts.refused),
    },
    Metric {
        name: "longhaul_ended_total",
        kind: "counter",
        help: "Connections, or requests of an HTTP relay, by who ended them in which phase.",
        series: |series, reading| {
            for ((by, phase), count) in &reading.counts.ended {
                let (by, phase) = (by.as_str(), phase.as_str());
                series.add("", &format!("by=\"{by}\",phase=\"{phase}\""), count);
            }
        },
    },
    Metric {
        name: "longhaul_bytes_total",
        kind: "counter",
        help: "Payload of connections and requests that have ended.",
        series: |series, reading| {
            series.add("", "direction=\"up\"", reading.counts.bytes_up);
            series.add("", "direction=\"down\"", reading.counts.bytes_down);
        },
    },
    Metric {
        name: "longhaul_limit_seconds_total",
        kind: "counter",
        help: "Time for which this limit held sending back on a side, of connections that have ended.",
        series: |series, reading| {
            for ((side, limit), seconds) in &reading.counts.limits_s {
                let labels = format!("side=\"{}\",limit=\"{limit}\"", name(*side));
                series.add("", &labels, seconds);
            }
        },
    },
    Metric {
        name: "longhaul_retransmitted_segments_total",
        kind: "counter",
        help: "Segments that each side's connections have sent again.",
        series: |series, reading| {
            for (side, count) in &reading.counts.retransmitted {
                series.add("", &format!("side=\"{}\"", name(*side)), count);
            }
        },
    },
    Metric {
        name: "longhaul_requests_total",
        kind: "counter",
        help: "Requests by class of status; 0xx got none.",
        series: |series, reading| {
            for (class, count) in &reading.counts.requests {
                series.add("", &format!("status=\"{class}xx\""), count);
            }
        },
    },
    Metric {
        name: "longhaul_requests_hot_total",
        kind: "counter",
        help: "Requests that a hot connection served.",
        series: |series, reading| series.add("", "", reading.counts.requests_hot),
    },
    Metric {
        name: "longhaul_target_available",
        kind: "gauge",
        help: "Whether a target gets connections, once that has changed.",
        series: |series, reading| {
            for (target, available) in &reading.counts.targets {
                // Host names and addresses: nothing to escape.
                series.add("", &format!("target=\"{target}\""), u8::from(*available));
            }
        },
    },
    Metric {
        name: "longhaul_warnings_total",
        kind: "counter",
        help: "Warnings by name.",
        series: |series, reading| {
            for (name, count) in &reading.counts.warnings {
                series.add("", &format!("name=\"{name}\""), count);
            }
        },
    },
    Metric {
        name: "longhaul_tls_handshakes_total",
        kind: "counter",
        help: "TLS handshakes that came to their end, told with the connection or its first request.",
        series: |series, reading| {
            for ((side, version, resumed), count) in &reading.counts.handshakes {
                let side = name(*side);
                let labels = format!("side=\"{side}\",version=\"{version}\",resumed=\"{resumed}\"");
                series.add("", &labels, count);
            }
        },
    },
    Metric {
        name: "longhaul_option_info",
        kind: "gauge",
        help: "Socket options in effect as they were read back last; always 1.",
        series: |series, reading| {
            for ((side, profile, option), effective) in &reading.counts.options {
                let (side, profile) = (name(*side), escaped(profile));
                let labels = format!(
                    "side=\"{side}\",profile=\"{profile}\",option=\"{option}\",effective=\"{}\"",
                    escaped(effective)
                );
                series.add("", &labels, 1);
            }
        },
    },
    Metric {
        name: "longhaul_connect_seconds",
        kind: "histogram",
        help: "From the start of name resolution to the open connection to the target.",
        series: |series, reading| reading.counts.connect.write(series),
    },
    Metric {
        name: "longhaul_request_seconds",
        kind: "histogram",
        help: "From a request's first byte to the last of its response.",
        series: |series, reading| reading.counts.request.write(series),
    },
];

/// All series of all listeners. Each metric's series stand together, as the format wants it.
pub(crate) fn write(meters: &[Arc<Meter>]) -> String {
    let readings: Vec<_> = meters
        .iter()
        .map(|meter| Reading {
            listen: meter.listen,
            clients: meter.present().len(),
            counts: meter.counts().clone(),
        })
        .collect();
    let mut text = String::new();
    for metric in &METRICS {
        let Metric {
            name, kind, help, ..
        } = metric;
        // Writing to a String cannot fail.
        let _ = writeln!(text, "# HELP {name} {help}\n# TYPE {name} {kind}");
        for reading in &readings {
            let mut series = Series {
                text: &mut text,
                name,
                listen: reading.listen,
            };
            (metric.series)(&mut series, reading);
        }
    }
    lost::write(&mut text);
    text
}

impl Series<'_> {
    /// One line; `labels` beside the listener's own.
    pub(super) fn add(&mut self, suffix: &str, labels: &str, value: impl Display) {
        let separator = if labels.is_empty() { "" } else { "," };
        let (name, listen) = (self.name, self.listen);
        // Writing to a String cannot fail.
        let _ = writeln!(
            self.text,
            "{name}{suffix}{{listen=\"{listen}\"{separator}{labels}}} {value}"
        );
    }
}

/// As a label's value stands between its quotes.
fn escaped(text: &str) -> String {
    let text = text.replace('\\', "\\\\").replace('"', "\\\"");
    text.replace('\n', "\\n")
}

fn name(side: Side) -> &'static str {
    match side {
        Side::Client => "client",
        Side::Server => "server",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const EXAMPLES: [(&str, &str); 3] = [
        (
            "alerts.yml",
            include_str!("../../../../../examples/prometheus/alerts.yml"),
        ),
        (
            "alerts-test.yml",
            include_str!("../../../../../examples/prometheus/alerts-test.yml"),
        ),
        (
            "relay.json",
            include_str!("../../../../../examples/grafana/relay.json"),
        ),
    ];

    /// Names as a query writes them: a histogram's series have endings of their own.
    fn named(text: &str) -> Vec<&str> {
        let is_name = |c: char| c.is_ascii_lowercase() || c == '_';
        let starts = text.match_indices("longhaul_").map(|(start, _)| start);
        starts
            .map(|start| {
                let rest = &text[start..];
                &rest[..rest.find(|c| !is_name(c)).unwrap_or(rest.len())]
            })
            .collect()
    }

    #[test]
    fn the_examples_ask_only_for_metrics_that_there_are() {
        for (file, text) in EXAMPLES {
            let names = named(text);
            assert!(names.len() > 3, "{file}");
            for name in names {
                let known = METRICS.iter().any(|metric| {
                    let histogram = metric.kind == "histogram";
                    let ending = name.strip_prefix(metric.name);
                    ending.is_some_and(|ending| {
                        ending.is_empty()
                            || histogram && ["_bucket", "_sum", "_count"].contains(&ending)
                    })
                });
                assert!(known, "{file}: {name}");
            }
        }
    }

    #[test]
    fn the_dashboard_is_json_and_every_panel_asks_for_something() {
        let dashboard: serde_json::Value = serde_json::from_str(EXAMPLES[2].1).unwrap();
        let panels = dashboard["panels"].as_array().unwrap();
        assert!(panels.len() >= 8);
        for panel in panels {
            let targets = panel["targets"].as_array().unwrap();
            assert!(!targets.is_empty(), "{}", panel["title"]);
        }
    }

    #[test]
    fn what_a_label_says_cannot_end_it() {
        assert_eq!(escaped("a\"b\\c\nd"), "a\\\"b\\\\c\\nd");
    }
}
