//! The three columns that show what a sender waits for: time between ACKs, bytes in flight, window.

use core::time::Duration;

use connections::{Connection, Mark, Side};
use record::explain::Evidence;
use units::Time;

use super::frame;
use crate::text::duration;

/// An ACK, and what was in flight when it came.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Row {
    mark: Mark,
    /// Since the ACK before.
    gap: Duration,
    /// Bytes in flight.
    flight: i64,
    /// Bytes; `None` where the scale is not known.
    window: Option<u64>,
}

/// ACKs of what `side` sent from `since` on.
pub(super) fn rows(connection: &Connection, side: Side, since: Time) -> Box<[Row]> {
    const SHOWN: usize = 6;
    let (mut sent, mut rows) = (0_i64, Vec::new());
    let mut before: Option<Mark> = None;
    for packet in &connection.packets {
        if packet.side == side {
            sent = sent.max(packet.to());
            continue;
        }
        let Some(ack) = packet.ack else { continue };
        if packet.is_pure_ack() && packet.at >= since && sent > ack.saturating_sub(1) {
            rows.push(Row {
                mark: packet.mark(),
                gap: before.map_or(Duration::ZERO, |mark| packet.at.since(mark.at)),
                flight: sent.saturating_sub(ack),
                window: connection.window(packet),
            });
            if rows.len() == SHOWN {
                break;
            }
        }
        before = Some(packet.mark());
    }
    rows.into()
}

/// The rows as evidence.
pub(super) fn table(rows: &[Row]) -> Vec<Evidence> {
    rows.iter()
        .map(|row| {
            let window = row
                .window
                .map_or_else(|| "unknown".to_owned(), |window| format!("{window} B"));
            frame(
                row.mark,
                format!(
                    "{} after the ACK before; {} B in flight, window {window}",
                    duration(row.gap),
                    row.flight
                ),
            )
        })
        .collect()
}
