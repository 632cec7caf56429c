//! An explanation as tables.

use record::LimitName;
use record::explain::{Connection, Direction, Document, Finding, Transfer};

use super::{Columns, Table};
use crate::quantity::float;
use crate::sentence;

/// `connections` (a row per direction), `transfers`, `findings` (a row per finding), and `series` (a row
/// per point, for connections that carry them). Connections are numbered as in the document.
#[must_use]
pub fn explain(document: &Document) -> Vec<Table> {
    vec![
        connections(document),
        transfers(document),
        findings(document),
        series(document),
    ]
}

/// One direction of one connection.
struct Way<'a> {
    connection: &'a Connection,
    name: &'static str,
    direction: &'a Direction,
}

fn connections(document: &Document) -> Table {
    let ways: Vec<Way<'_>> = document
        .connections
        .iter()
        .flat_map(|connection| {
            let directions = &connection.directions;
            [
                ("client_to_server", &directions.client_to_server),
                ("server_to_client", &directions.server_to_client),
            ]
            .map(|(name, direction)| Way {
                connection,
                name,
                direction,
            })
        })
        .collect();
    let columns = Columns::over(&ways)
        .int("connection", |way| Some(way.connection.id))
        .text("direction", |way| Some(way.name.to_owned()))
        .text("client_host", |way| {
            Some(way.connection.client.host.clone())
        })
        .int("client_port", |way| Some(way.connection.client.port))
        .text("server_host", |way| {
            Some(way.connection.server.host.clone())
        })
        .int("server_port", |way| Some(way.connection.server.port))
        .real("start_s", |way| Some(way.connection.start_s))
        .real("duration_s", |way| Some(way.connection.duration_s))
        .real("rtt_handshake_s", |way| way.connection.rtt.handshake_s)
        .real("rtt_min_s", |way| way.connection.rtt.min_s)
        .real("rtt_median_s", |way| way.connection.rtt.median_s)
        .real("rtt_max_s", |way| way.connection.rtt.max_s)
        .text("vantage", |way| Some(way.connection.vantage.clone()))
        .flag("sack", |way| way.connection.negotiated.sack)
        .flag("timestamps", |way| way.connection.negotiated.timestamps)
        .text("tls_version", |way| {
            way.connection.tls.as_ref()?.version.clone()
        })
        .text("tls_group", |way| {
            way.connection.tls.as_ref()?.group.clone()
        })
        .flag("tls_resumed", |way| way.connection.tls.as_ref()?.resumed)
        .int("tls_round_trips", |way| {
            Some(way.connection.tls.as_ref()?.round_trips)
        })
        .real("tls_first_data_s", |way| {
            way.connection.tls.as_ref()?.first_data_s
        })
        .text("close", |way| Some(way.connection.close.how.clone()))
        .text("closed_by", |way| way.connection.close.first.clone())
        .int("bytes", |way| Some(way.direction.bytes))
        .int("segments", |way| Some(way.direction.segments))
        .int("retransmitted_bytes", |way| {
            Some(way.direction.retransmitted_bytes)
        })
        .int("retransmissions", |way| Some(way.direction.retransmissions))
        .int("out_of_order", |way| Some(way.direction.out_of_order))
        .int("capture_copies", |way| Some(way.direction.capture_copies))
        .int("initial_window_segments", |way| {
            way.direction.initial_window_segments
        })
        .int("max_in_flight", |way| way.direction.max_in_flight)
        .int("receive_window_min", |way| way.direction.receive_window_min)
        .int("receive_window_max", |way| way.direction.receive_window_max)
        .real("goodput_bps", |way| way.direction.goodput_bps)
        .real("path_rate_bps", |way| way.direction.path_rate_bps)
        .text("dominant", |way| {
            way.direction.dominant.map(|limit| limit.to_string())
        });
    let columns = LimitName::ALL.into_iter().fold(columns, |columns, limit| {
        columns.real(limit_column(limit), move |way: &Way<'_>| {
            Some(way.direction.limits.get(&limit).copied().unwrap_or(0.0))
        })
    });
    counted(columns).table("connections")
}

/// What the packets of a direction were.
fn counted<'a, 'b>(columns: Columns<'a, Way<'b>>) -> Columns<'a, Way<'b>> {
    columns
        .int("fast_retransmissions", |way| {
            Some(way.direction.counts.fast_retransmissions)
        })
        .int("timeout_retransmissions", |way| {
            Some(way.direction.counts.timeout_retransmissions)
        })
        .int("tail_loss_probes", |way| {
            Some(way.direction.counts.tail_loss_probes)
        })
        .int("spurious_retransmissions", |way| {
            Some(way.direction.counts.spurious_retransmissions)
        })
        .int("zero_windows", |way| {
            Some(way.direction.counts.zero_windows)
        })
        .real("zero_window_s", |way| {
            Some(way.direction.counts.zero_window_s)
        })
        .int("window_full", |way| Some(way.direction.counts.window_full))
        .int("duplicate_acks", |way| {
            Some(way.direction.counts.duplicate_acks)
        })
        .real("ack_rtt_p95_s", |way| way.direction.ack_rtt.p95_s)
        .real("delivery_rate_bps", |way| way.direction.delivery_rate_bps)
        .text("slow_start_exit", |way| {
            let exit = way.direction.slow_start_exit.as_ref();
            exit.map(|exit| exit.cause.to_string())
        })
        .real("slow_start_exit_s", |way| {
            let exit = way.direction.slow_start_exit.as_ref();
            exit.map(|exit| exit.after_s)
        })
        .text("vantage_confidence", |way| {
            let sure = way.connection.vantage_confidence;
            sure.map(|sure| sentence::confidence_word(sure).to_owned())
        })
}

/// Seconds of a limit.
const fn limit_column(limit: LimitName) -> &'static str {
    match limit {
        LimitName::Handshake => "limit_handshake_s",
        LimitName::TlsHandshake => "limit_tls_handshake_s",
        LimitName::Application => "limit_application_s",
        LimitName::Propagation => "limit_propagation_s",
        LimitName::SendBuffer => "limit_send_buffer_s",
        LimitName::ReceiveWindow => "limit_receive_window_s",
        LimitName::SlowStart => "limit_slow_start_s",
        LimitName::CongestionAvoidance => "limit_congestion_avoidance_s",
        LimitName::LossRecovery => "limit_loss_recovery_s",
        LimitName::LossLimited => "limit_loss_limited_s",
        LimitName::Policer => "limit_policer_s",
        LimitName::Bottleneck => "limit_bottleneck_s",
        LimitName::NagleDelayedAck => "limit_nagle_delayed_ack_s",
        LimitName::Closing => "limit_closing_s",
        LimitName::Unknown => "limit_unknown_s",
    }
}

fn transfers(document: &Document) -> Table {
    let all: Vec<(u32, &Transfer)> = document
        .connections
        .iter()
        .flat_map(|connection| {
            let transfers = connection.transfers.iter();
            transfers.map(|transfer| (connection.id, transfer))
        })
        .collect();
    Columns::over(&all)
        .int("connection", |(id, _)| Some(*id))
        .text("request", |(_, one)| Some(one.request.clone()))
        .text("operation", |(_, one)| one.operation.clone())
        .int("status", |(_, one)| one.status)
        .real("start_s", |(_, one)| Some(one.start_s))
        .real("continue_wait_s", |(_, one)| one.continue_wait_s)
        .real("sent_s", |(_, one)| Some(one.sent_s))
        .real("server_s", |(_, one)| one.server_s)
        .real("first_byte_s", |(_, one)| one.first_byte_s)
        .real("response_s", |(_, one)| one.response_s)
        .real("complete_s", |(_, one)| one.complete_s)
        .real("with_handshake_s", |(_, one)| one.with_handshake_s)
        .int("request_bytes", |(_, one)| Some(one.request_bytes))
        .int("response_bytes", |(_, one)| Some(one.response_bytes))
        .table("transfers")
}

fn findings(document: &Document) -> Table {
    let ids = |finding: &Finding| {
        let ids: Vec<String> = finding.connections.iter().map(u32::to_string).collect();
        ids.join(" ")
    };
    Columns::over(&document.findings)
        .text("name", |finding| Some(finding.name.clone()))
        .text("severity", |finding| {
            Some(sentence::severity(finding.severity).to_lowercase())
        })
        .text("confidence", |finding| {
            Some(sentence::confidence(finding).to_owned())
        })
        .real("lost_s", |finding| finding.lost_s)
        .text("connections", |finding| Some(ids(finding)))
        .text("summary", |finding| Some(finding.summary.clone()))
        .text("remedy", |finding| Some(finding.remedy.clone()))
        .int("first_frame", |finding| {
            Some(finding.evidence.first()?.frame)
        })
        .real("now_s", |finding| Some(finding.predicted.first()?.now_s))
        .real("predicted_s", |finding| {
            Some(finding.predicted.first()?.predicted_s)
        })
        .text("systems", |finding| {
            let systems: Vec<&str> = finding
                .steps
                .iter()
                .map(|steps| steps.system.as_str())
                .collect();
            (!systems.is_empty()).then(|| systems.join(" "))
        })
        .text("filter", |finding| finding.filter.clone())
        .table("findings")
}

/// One point of a series.
struct Point {
    connection: u32,
    kind: &'static str,
    t: f64,
    from: Option<u64>,
    value: f64,
}

fn series(document: &Document) -> Table {
    let mut points = Vec::new();
    for connection in &document.connections {
        let Some(series) = &connection.series else {
            continue;
        };
        let id = connection.id;
        for data in &series.data {
            points.push(Point {
                connection: id,
                kind: if data.retransmission {
                    "retransmission"
                } else {
                    "data"
                },
                t: data.t,
                from: Some(data.from),
                value: float(data.to),
            });
        }
        let lines = [
            ("ack", &series.acks),
            ("window-edge", &series.window_edge),
            ("in-flight", &series.in_flight),
            ("receive-window", &series.receive_window),
            ("congestion-window", &series.congestion_window),
        ];
        for (kind, line) in lines {
            points.extend(line.iter().map(|(t, value)| Point {
                connection: id,
                kind,
                t: *t,
                from: None,
                value: float(*value),
            }));
        }
        points.extend(series.sacks.iter().map(|(t, from, to)| Point {
            connection: id,
            kind: "sack",
            t: *t,
            from: Some(*from),
            value: float(*to),
        }));
        for (kind, line) in [("rtt", &series.rtt), ("goodput", &series.goodput)] {
            points.extend(line.iter().map(|(t, value)| Point {
                connection: id,
                kind,
                t: *t,
                from: None,
                value: *value,
            }));
        }
    }
    Columns::over(&points)
        .int("connection", |point| Some(point.connection))
        .text("kind", |point| Some(point.kind.to_owned()))
        .real("t_s", |point| Some(point.t))
        .int("from_byte", |point| point.from)
        .real("value", |point| Some(point.value))
        .table("series")
}
