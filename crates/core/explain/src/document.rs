//! Facts of a connection, as the record carries them.

use core::time::Duration;
use std::collections::BTreeMap;

use connections::{Close, Connection, Notice, Side, Tracked, Vantage};
use limit::{Attribution, EventKind};
use record::explain as record;
use units::{Bytes, Time};

use crate::analysis::{Analysed, Complete};
use crate::counters::counters;
use crate::{caveats, growth, loss_response, series, session, transfers};

/// What is said of a connection by itself. Its number and its start follow: [`place`].
pub(crate) fn connection(
    connection: &Connection,
    to_server: &Complete,
    to_client: &Complete,
    with_series: bool,
) -> record::Connection {
    let spans = |direction| {
        let spans = with_series.then(|| series::limit_spans(connection, direction));
        spans.unwrap_or_default()
    };
    record::Connection {
        id: 0,
        client: endpoint(&connection.client),
        server: endpoint(&connection.server),
        start_s: 0.0,
        duration_s: connection.duration().as_secs_f64(),
        rtt: rtt(connection),
        negotiated: negotiated(connection),
        vantage: connection.vantage.as_str().into(),
        vantage_confidence: vantage_confidence(connection),
        directions: record::Directions {
            client_to_server: record::Direction {
                limit_spans: spans(to_server),
                ..direction(connection, Side::Client, to_server)
            },
            server_to_client: record::Direction {
                limit_spans: spans(to_client),
                ..direction(connection, Side::Server, to_client)
            },
        },
        tls: session::tls(connection).map(Box::new),
        ssh: session::ssh(connection),
        transfers: transfers::of(connection),
        close: close(connection),
        icmp: connection
            .notices
            .iter()
            .map(|notice| icmp(connection, notice))
            .collect(),
        caveats: caveats::of_connection(connection),
        series: with_series.then(|| Box::new(series::series(connection, to_server, to_client))),
    }
}

/// How sure the side of the path is: by how far the ways from the tap to both ends differ.
fn vantage_confidence(connection: &Connection) -> Option<record::Confidence> {
    /// So many times as far from one end as from the other is beside that one, whatever hosts add to their answers.
    const CLEAR: u32 = 50;
    /// And within this nobody takes the tap for one that is beside either.
    const MIDDLE: u32 = 3;
    let halves = connection.client_half().zip(connection.server_half());
    let clear = halves.is_some_and(|(client, server)| {
        let (near, far) = (client.min(server), client.max(server));
        match connection.vantage {
            Vantage::Client | Vantage::Server => near * CLEAR <= far,
            Vantage::Between => far <= near * MIDDLE,
            Vantage::Unknown => false,
        }
    });
    let sure = if clear {
        record::Confidence::High
    } else {
        record::Confidence::Medium
    };
    (connection.vantage != Vantage::Unknown).then_some(sure)
}

/// Sets what a connection is among all others, the first of which began at `first_at`.
pub(crate) fn place(record: &mut record::Connection, analysed: &Analysed, first_at: Time) {
    let after = |at: Time| at.since(first_at).as_secs_f64();
    record.id = analysed.id;
    record.start_s = after(analysed.connection.first_at);
    for (transfer, at) in record.transfers.iter_mut().zip(&analysed.transfers_at) {
        transfer.start_s = after(*at);
    }
}

pub(crate) fn echo(echo: &connections::Echo) -> record::Echo {
    record::Echo {
        from: echo.from.clone(),
        to: echo.to.clone(),
        requests: echo.requests,
        replies: echo.replies,
        resolved: echo.resolved,
        rtt: record::Rtt {
            handshake_s: None,
            ..summary(echo.rtt.iter().copied())
        },
    }
}

/// Counts and duration of the only input.
pub(crate) fn fill_capture(capture: &mut record::Capture, tracked: &Tracked) {
    capture.packets = capture.packets.max(tracked.packets);
    for (kind, packets) in &tracked.other {
        capture.other.entry((*kind).to_owned()).or_insert(*packets);
    }
    let echoes: u64 = tracked
        .echoes
        .iter()
        .map(|echo| echo.requests + echo.replies)
        .sum();
    if echoes > 0 {
        capture.other.entry("ICMP echo".into()).or_insert(echoes);
    }
    if tracked.late > 0 {
        capture.caveats.push(format!(
            "{} packets came behind the end of their connections and were passed over",
            tracked.late
        ));
    }
    let duration = tracked
        .last_at
        .unwrap_or_default()
        .since(tracked.first_at.unwrap_or_default());
    capture.duration_s = capture.duration_s.max(duration.as_secs_f64());
}

/// How long the side that was told of the end kept its own half open, the path's share taken off.
pub(crate) fn close_wait(connection: &Connection) -> Option<(Side, Duration)> {
    let Close::Fin(closing) = connection.close else {
        return None;
    };
    let side = closing.first.peer();
    let until = closing.second.map_or(connection.last_at, |mark| mark.at);
    let path = connection.half_rtt(side).unwrap_or_default();
    Some((side, until.since(closing.first_fin.at).saturating_sub(path)))
}

fn endpoint(endpoint: &connections::Endpoint) -> record::Endpoint {
    record::Endpoint {
        host: endpoint.host.clone(),
        port: endpoint.port,
    }
}

/// Samples over the whole path: at the ends each sample of the side that is far is one; in between, the
/// two halves are added at their smallest.
fn rtt(connection: &Connection) -> record::Rtt {
    let near = |side: Side| connection.half_rtt(side).unwrap_or_default();
    let across = [Side::Client, Side::Server].into_iter().flat_map(|side| {
        let other_half = near(side);
        let relevant = near(side.peer()) * 10 > connection.base_rtt().unwrap_or_default();
        let samples = &connection.flow(side).rtt;
        samples
            .iter()
            .filter(move |_| relevant)
            .map(move |sample| sample.rtt + other_half)
    });
    let mut rtt = summary(across);
    let handshake = connection.handshake_rtt().map(|span| span.as_secs_f64());
    rtt.min_s = match (rtt.min_s, handshake) {
        (Some(sample), Some(handshake)) => Some(sample.min(handshake)),
        (sample, handshake) => sample.or(handshake),
    };
    rtt.median_s = rtt.median_s.or(handshake);
    rtt.max_s = match (rtt.max_s, handshake) {
        (Some(sample), Some(handshake)) => Some(sample.max(handshake)),
        (sample, handshake) => sample.or(handshake),
    };
    record::Rtt {
        handshake_s: handshake,
        ..with_queueing(rtt)
    }
}

/// What lies above the smallest.
fn with_queueing(mut rtt: record::Rtt) -> record::Rtt {
    let least = rtt.min_s.filter(|_| rtt.samples > 0);
    let above = |value: Option<f64>| Some((value? - least?).max(0.0));
    rtt.queueing_median_s = above(rtt.median_s);
    rtt.queueing_p95_s = above(rtt.p95_s);
    rtt
}

fn summary(samples: impl Iterator<Item = Duration>) -> record::Rtt {
    let mut samples: Vec<Duration> = samples.collect();
    let seconds = |span: Option<Duration>| span.map(|span| span.as_secs_f64());
    let median = at_most(&mut samples, 50);
    let p95 = at_most(&mut samples, 95);
    let p99 = at_most(&mut samples, 99);
    with_queueing(record::Rtt {
        handshake_s: None,
        min_s: seconds(samples.iter().min().copied()),
        median_s: seconds(median),
        p95_s: seconds(p95),
        p99_s: seconds(p99),
        max_s: seconds(samples.iter().max().copied()),
        samples: u64::try_from(samples.len()).unwrap_or(u64::MAX),
        ..record::Rtt::default()
    })
}

/// The sample that so many of a hundred do not exceed; one that was seen.
fn at_most(samples: &mut [Duration], percent: usize) -> Option<Duration> {
    let index = (samples.len() * percent).div_ceil(100).checked_sub(1)?;
    Some(*samples.select_nth_unstable(index).1)
}

fn negotiated(connection: &Connection) -> record::Negotiated {
    let (client, server) = (connection.to_server.syn, connection.to_client.syn);
    record::Negotiated {
        client_mss: client.and_then(|syn| syn.mss),
        server_mss: server.and_then(|syn| syn.mss),
        client_window_scale: client.and_then(|syn| syn.window_scale),
        server_window_scale: server.and_then(|syn| syn.window_scale),
        client_sack: client.map(|syn| syn.sack_permitted),
        server_sack: server.map(|syn| syn.sack_permitted),
        client_timestamps: client.map(|syn| syn.timestamps),
        server_timestamps: server.map(|syn| syn.timestamps),
        client_window: client.map(|syn| syn.window),
        server_window: server.map(|syn| syn.window),
        sack: connection.sack(),
        timestamps: connection.timestamps(),
    }
}

fn close(connection: &Connection) -> record::Close {
    match connection.close {
        Close::Open => record::Close {
            how: "open".into(),
            ..record::Close::default()
        },
        Close::Reset(side, _) => record::Close {
            how: "reset".into(),
            first: Some(side.to_string()),
            ..record::Close::default()
        },
        Close::Fin(closing) => {
            let waited = close_wait(connection);
            record::Close {
                how: "fin".into(),
                first: Some(closing.first.to_string()),
                close_wait: waited.map(|(side, _)| side.to_string()),
                close_wait_s: waited.map(|(_, span)| span.as_secs_f64()),
            }
        }
    }
}

fn icmp(connection: &Connection, notice: &Notice) -> record::Icmp {
    record::Icmp {
        at_s: notice.mark.at.since(connection.first_at).as_secs_f64(),
        from: notice.from.clone(),
        about: notice.side.to_string(),
        reason: notice.reason.as_str().into(),
        mtu: notice.mtu(),
    }
}

fn direction(connection: &Connection, side: Side, direction: &Complete) -> record::Direction {
    let flow = connection.flow(side);
    let attribution = &direction.attribution;
    let acks_seen = !connection.quality.filtered && connection.quality.one_direction.is_none();
    let window = connection.window_range(side.peer());
    record::Direction {
        bytes: flow.bytes(),
        segments: flow.segments,
        retransmitted_bytes: flow.repeated_bytes,
        retransmissions: u64::try_from(flow.repeats.len()).unwrap_or(u64::MAX),
        out_of_order: flow.out_of_order,
        capture_copies: flow.copies,
        limits: attribution
            .limits()
            .into_iter()
            .map(|(limit, time)| (limit, time.as_secs_f64()))
            .collect(),
        limit_spans: Vec::new(),
        details: details(attribution),
        dominant: attribution.dominant(),
        unknown_because: unknown_because(attribution),
        initial_window_segments: initial_window(connection, side, direction).filter(|_| acks_seen),
        max_in_flight: Some(flow.max_in_flight).filter(|flight| *flight > 0 && acks_seen),
        receive_window_min: window.map(|(least, _)| least),
        receive_window_max: window.map(|(_, most)| most),
        goodput_bps: goodput(attribution, flow.bytes()),
        delivery_rate_bps: growth::delivery_rate(&direction.timeline)
            .filter(|_| acks_seen && flow.bytes() > 0)
            .map(bits_per_s),
        slow_start_exit: growth::slow_start_exit(connection, attribution),
        loss_response: loss_response::of(&direction.timeline, attribution),
        ack_rtt: summary(flow.rtt.iter().map(|sample| sample.rtt)),
        timestamp_rtt: summary(
            flow.stamped_us
                .iter()
                .map(|micros| Duration::from_micros(u64::from(*micros))),
        ),
        counts: counters(connection, side),
        path_rate_bps: attribution.path_rate.rate.ok().map(bits_per_s),
    }
}

fn details(attribution: &Attribution) -> BTreeMap<String, f64> {
    attribution
        .details()
        .into_iter()
        .map(|((limit, detail), time)| (format!("{limit}: {detail}"), time.as_secs_f64()))
        .collect()
}

fn unknown_because(attribution: &Attribution) -> Option<String> {
    let reasons: Vec<String> = attribution
        .reasons()
        .iter()
        .map(ToString::to_string)
        .collect();
    (!reasons.is_empty()).then(|| reasons.join("; "))
}

/// Segments of the first flight: everything sent before the first ACK of data took effect. Offload-sized
/// segments count as the packets that they become.
fn initial_window(connection: &Connection, side: Side, direction: &Complete) -> Option<u32> {
    connection.flow(side).syn?;
    let mss = i64::from(direction.timeline.segment.payload.max(1));
    let mut segments = 0_i64;
    for event in &direction.timeline.events {
        match event.kind {
            EventKind::Sent {
                from,
                to,
                repair: None,
            } => {
                segments = segments.saturating_add((to - from + mss - 1) / mss);
            }
            EventKind::Ack { to, .. } if to > 0 => break,
            EventKind::Sent { .. } | EventKind::Ack { .. } => {}
        }
    }
    u32::try_from(segments)
        .ok()
        .filter(|segments| *segments > 0)
}

fn goodput(attribution: &Attribution, bytes: u64) -> Option<f64> {
    let (first, last): (Time, Time) = attribution.busy?;
    Bytes::new(bytes)
        .checked_per(last.since(first))
        .map(bits_per_s)
}

#[expect(clippy::cast_precision_loss, reason = "exact below 9 Pbit/s")]
pub(crate) fn bits_per_s(rate: units::Rate) -> f64 {
    rate.bits_per_s() as f64
}
