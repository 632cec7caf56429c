//! A receiver that closes its window.

use core::time::Duration;

use connections::{Connection, Mark, Role, Side};
use limit::{Detail, LimitName};
use record::explain::Confidence;
use wire::TcpFlags;

use super::{CatalogueEntry, Found, Judged, MAX_EVIDENCE, frame, severity_of};
use crate::analysis::Analysed;
use crate::text::{count, duration};

pub(super) const ENTRY: CatalogueEntry = CatalogueEntry {
    name: "zero-window-stalls",
    meaning: "The receiver closed its window: its application reads more slowly than data comes, and the \
              network has no part in it.",
    source: "RFC 9293 §3.8.6.1 (zero-window probing)",
};

pub(super) fn find(connections: &[Analysed]) -> Vec<Judged> {
    [Side::Client, Side::Server]
        .into_iter()
        .filter_map(|side| judge(connections, side))
        .map(|found| found.into_finding(&ENTRY))
        .collect()
}

fn judge(connections: &[Analysed], receiver: Side) -> Option<Found> {
    let mut ids = Vec::new();
    let mut evidence = Vec::new();
    let (mut lost, mut closed_for, mut total) = (Duration::ZERO, Duration::ZERO, Duration::ZERO);
    let mut stalls = 0;
    for analysed in connections {
        let closed = &analysed.shown.sent(receiver.peer()).stalls;
        if closed.number == 0 {
            continue;
        }
        ids.push(analysed.id);
        total += analysed.connection.duration();
        stalls += closed.number;
        closed_for += closed.time;
        // A sender that has nothing to send loses nothing by a closed window.
        let direction = analysed.direction(receiver.peer());
        lost += if direction.timeline.blind.is_some() {
            closed.time
        } else {
            let detail = Detail::ZeroWindow;
            direction
                .attribution
                .held_by(LimitName::ReceiveWindow, detail)
        };
        for (from, to) in closed.first.iter().copied() {
            let until = to.map_or(analysed.connection.last_at, |mark| mark.at);
            evidence.push(frame(from, format!("connection {}: window 0", analysed.id)));
            evidence.extend(to.map(|mark| {
                frame(
                    mark,
                    format!("open again {} later", duration(until.since(from.at))),
                )
            }));
        }
    }
    if ids.is_empty() {
        return None;
    }
    Some(Found {
        severity: severity_of(lost, total),
        confidence: Confidence::High,
        summary: format!(
            "the {receiver}'s window was closed {} on {}, for {} in all",
            count(stalls, "time"),
            count(ids.len(), "connection"),
            duration(closed_for)
        ),
        connections: ids,
        evidence,
        lost: Some(lost),
        remedy: format!(
            "Find out what the reading application on the {receiver} waits for (disk, lock, its own peer); \
             a larger receive buffer only moves the moment."
        ),
        predicted: Vec::new(),
        needs: Vec::new(),
    })
}

/// Closed windows of one connection.
#[derive(Clone, Debug, Default)]
pub(crate) struct Stalls {
    number: usize,
    time: Duration,
    /// The first few, from closing to opening.
    first: Box<[(Mark, Option<Mark>)]>,
}

pub(super) fn stalls(connection: &Connection, receiver: Side) -> Stalls {
    if connection
        .flow(receiver)
        .window_fields
        .is_none_or(|(least, _)| least > 0)
    {
        return Stalls::default();
    }
    let mut spans = closed_windows(connection, receiver);
    let until = |to: &Option<Mark>| to.map_or(connection.last_at, |mark| mark.at);
    let time = spans.iter().map(|(from, to)| until(to).since(from.at));
    let (number, time) = (spans.len(), time.sum());
    // Each takes two frames.
    spans.truncate(MAX_EVIDENCE / 2);
    Stalls {
        number,
        time,
        first: spans.into(),
    }
}

/// Spans in which `receiver` advertised no window, while the connection was open.
fn closed_windows(connection: &Connection, receiver: Side) -> Vec<(Mark, Option<Mark>)> {
    let mut spans: Vec<(Mark, Option<Mark>)> = Vec::new();
    let mut open = true;
    for packet in &connection.packets {
        let unrelated = packet.side != receiver
            || packet.flags.contains(TcpFlags::SYN)
            || packet.flags.contains(TcpFlags::RST)
            || matches!(packet.role, Role::Copy | Role::Stray);
        if unrelated {
            continue;
        }
        if packet.window == 0 && open {
            spans.push((packet.mark(), None));
            open = false;
        } else if packet.window > 0 && !open {
            if let Some(last) = spans.last_mut() {
                last.1 = Some(packet.mark());
            }
            open = true;
        }
    }
    spans
}
