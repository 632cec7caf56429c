//! The three columns that show what a sender waits for: time between ACKs, bytes in flight, window.

use core::time::Duration;

use connections::{Mark, Side};
use record::explain::Evidence;
use units::Time;

use super::frame;
use crate::analysis::Analysed;
use crate::text::duration;

/// ACKs of what `side` sent from `since` on, with their window, and what was in flight when they came.
pub(super) fn table(analysed: &Analysed<'_>, side: Side, since: Time) -> Vec<Evidence> {
    const SHOWN: usize = 6;
    let connection = analysed.connection;
    let (mut sent, mut evidence) = (0_i64, Vec::new());
    let mut before: Option<Mark> = None;
    for packet in &connection.packets {
        if packet.side == side {
            sent = sent.max(packet.to());
            continue;
        }
        let Some(ack) = packet.ack else { continue };
        if packet.is_pure_ack()
            && packet.at >= since
            && sent > ack.saturating_sub(1)
            && evidence.len() < SHOWN
        {
            let gap = before.map_or(Duration::ZERO, |mark| packet.at.since(mark.at));
            let window = connection
                .window(packet)
                .map_or_else(|| "unknown".to_owned(), |window| format!("{window} B"));
            evidence.push(frame(
                packet.mark(),
                format!(
                    "{} after the ACK before; {} B in flight, window {window}",
                    duration(gap),
                    sent.saturating_sub(ack)
                ),
            ));
        }
        before = Some(packet.mark());
    }
    evidence
}
