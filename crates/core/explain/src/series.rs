use core::time::Duration;

use connections::{Connection, Ranges, Role, Side};
use record::LimitName;
use record::explain::{DataPoint, Series};
use units::{Bytes, Time};
use wire::TcpFlags;

use crate::analysis::Complete;
use crate::document::bits_per_s;

/// Points for plots of the direction with more bytes, on the capture's own clock.
pub(crate) fn series(
    connection: &Connection,
    to_server: &Complete,
    to_client: &Complete,
) -> Series {
    let (side, direction) = if connection.to_server.bytes() >= connection.to_client.bytes() {
        (Side::Client, to_server)
    } else {
        (Side::Server, to_client)
    };
    let mut series = points(connection, side);
    let round_trip = connection.base_rtt().or_else(|| connection.handshake_rtt());
    series.congestion_window = most_in_flight(&series, round_trip.unwrap_or_default());
    series.goodput = goodput(&series, connection.duration(), round_trip);
    series.limits = limit_spans(connection, direction);
    series
}

/// When each limit of a direction held, on the capture's own clock.
pub(crate) fn limit_spans(
    connection: &Connection,
    direction: &Complete,
) -> Vec<(f64, f64, LimitName)> {
    let t = |at: Time| at.since(connection.first_at).as_secs_f64();
    let spans = direction.attribution.spans.iter();
    spans
        .map(|span| (t(span.from), t(span.to), span.limit))
        .collect()
}

fn points(connection: &Connection, side: Side) -> Series {
    let start = connection.flow(side).start;
    let t = |at: Time| at.since(connection.first_at).as_secs_f64();
    let offset = |position: i64| u64::try_from(position.saturating_sub(start)).unwrap_or(0);
    let mut series = Series {
        direction: match side {
            Side::Client => "client_to_server".into(),
            Side::Server => "server_to_client".into(),
        },
        ..Series::default()
    };
    let (mut sent, mut acked) = (start, start);
    // What the receiver holds beyond a hole does not fly.
    let mut reports = connection.flow(side).sacked.iter().peekable();
    let mut held = Ranges::default();
    for packet in &connection.packets {
        if matches!(packet.role, Role::Copy | Role::Stray) {
            continue;
        }
        let at = t(packet.at);
        if packet.side == side && packet.len > 0 {
            series.data.push(DataPoint {
                t: at,
                from: offset(packet.from),
                to: offset(packet.to()),
                retransmission: matches!(packet.role, Role::Repeated(_)),
            });
            sent = sent.max(packet.to());
        } else if packet.side != side && !packet.flags.contains(TcpFlags::RST) {
            let Some(ack) = packet.ack else { continue };
            acked = acked.max(ack);
            while let Some(range) = reports.next_if(|range| range.at <= packet.at) {
                held.insert(range.from.max(acked), range.to.min(sent));
            }
            held.drop_below(acked);
            series.acks.push((at, offset(ack)));
            if let Some(window) = connection.window(packet) {
                series
                    .window_edge
                    .push((at, offset(ack).saturating_add(window)));
                series.receive_window.push((at, window));
            }
        } else {
            continue;
        }
        let flying = u64::try_from(sent.saturating_sub(acked)).unwrap_or(0);
        series
            .in_flight
            .push((at, flying.saturating_sub(held.total())));
    }
    let flow = connection.flow(side);
    series.sacks = flow
        .sacked
        .iter()
        .map(|range| (t(range.at), offset(range.from), offset(range.to)))
        .collect();
    series.rtt = flow
        .rtt
        .iter()
        .map(|sample| (t(sample.at), sample.rtt.as_secs_f64()))
        .collect();
    series
}

/// The most in flight within each round trip: what the congestion window let pass at least.
fn most_in_flight(series: &Series, round_trip: Duration) -> Vec<(f64, u64)> {
    let span = round_trip.as_secs_f64();
    if span <= 0.0 {
        return Vec::new();
    }
    let mut line: Vec<(f64, u64)> = Vec::new();
    let mut ends = 0.0;
    for (t, flight) in &series.in_flight {
        match line.last_mut() {
            Some((_, most)) if *t < ends => *most = (*most).max(*flight),
            Some(_) | None => {
                line.push((*t, *flight));
                ends = *t + span;
            }
        }
    }
    line
}

/// Bytes that became acknowledged, over spans of a round trip or a hundredth of the connection.
fn goodput(series: &Series, duration: Duration, round_trip: Option<Duration>) -> Vec<(f64, f64)> {
    let span = (duration / 100).max(round_trip.unwrap_or_default());
    if span.is_zero() {
        return Vec::new();
    }
    let mut line = Vec::new();
    let (mut begins, mut edge, mut acked) = (0.0, 0, 0_u64);
    for (t, to) in &series.acks {
        while *t >= begins + span.as_secs_f64() {
            let bytes = Bytes::new(acked.saturating_sub(edge));
            line.push((begins, bytes.checked_per(span).map_or(0.0, bits_per_s)));
            edge = acked;
            begins += span.as_secs_f64();
        }
        acked = acked.max(*to);
    }
    line
}
