use connections::{Connection, Role, Side};
use record::LimitName;
use record::explain::{DataPoint, Series};
use units::Time;
use wire::TcpFlags;

use crate::analysis::{Analysed, Direction};

/// Points for plots of the direction with more bytes, on the capture's own clock.
pub(crate) fn series(analysed: &Analysed<'_>) -> Series {
    let connection = analysed.connection;
    let side = if connection.to_server.bytes() >= connection.to_client.bytes() {
        Side::Client
    } else {
        Side::Server
    };
    let mut series = points(connection, side);
    series.limits = limit_spans(connection, analysed.direction(side));
    series
}

/// When each limit of a direction held, on the capture's own clock.
pub(crate) fn limit_spans(
    connection: &Connection,
    direction: &Direction,
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
        series
            .in_flight
            .push((at, u64::try_from(sent.saturating_sub(acked)).unwrap_or(0)));
    }
    series
}
