//! A window above TCP's: an SSH channel's.

use core::time::Duration;

use connections::{Connection, Mark, Side};
use limit::{Attribution, Detail, LimitName};
use record::explain::{Confidence, Evidence};
use tuning::remedies::Cause;
use units::{Bytes, Time};

use super::{CatalogueEntry, Found, Judged, Need, flight, frame, severity_of};
use crate::analysis::{Analysed, Direction};
use crate::text::{duration, rounded};

pub(super) const ENTRY: CatalogueEntry = CatalogueEntry {
    name: "peer-window",
    meaning: "A protocol above TCP waits for a window of its own: an SSH channel carries no more than its \
              window per round trip to the other SSH, whatever TCP would allow and wherever TCP ends.",
    source: "RFC 4254 §5.2 (channel windows); OpenSSH channels.h: CHAN_SES_WINDOW_DEFAULT is 2 MiB",
};

/// A window that shows although TCP acknowledges at once, with packets to point at.
#[derive(Clone, Debug)]
pub(super) struct Channel {
    window: Bytes,
    round_trip: Duration,
    told_percent: u8,
    evidence: Box<[Evidence]>,
}

/// OpenSSH's window, and libssh2's and Paramiko's.
const USUAL: u64 = 2 << 20;

pub(super) fn find(connections: &[Analysed]) -> Vec<Judged> {
    connections
        .iter()
        .flat_map(|analysed| {
            let both = analysed.directions().into_iter();
            both.filter_map(|(side, direction)| judge(analysed, side, direction))
        })
        .map(|found| found.into_finding(&ENTRY))
        .collect()
}

fn judge(analysed: &Analysed, side: Side, direction: &Direction) -> Option<Found> {
    let (first, last) = direction.attribution.busy?;
    let busy = last.since(first);
    let lost = direction
        .attribution
        .held_by(LimitName::Application, Detail::PeerWindow);
    if lost * 5 < busy || lost < Duration::from_millis(100) {
        return None;
    }
    let rtt = direction.timeline.base_rtt?;
    let shown = analysed.shown.sent(side);
    let waits = format!(
        "for {} the {side} waits for the SSH channel's window and not for TCP",
        duration(lost)
    );
    let (confidence, summary, evidence) = if let Some(channel) = &shown.channel {
        let ceiling = channel.window.checked_per(channel.round_trip)?;
        let usual = channel.window.get().abs_diff(USUAL) * 10 <= USUAL;
        let confidence = if usual && channel.told_percent >= 90 {
            Confidence::High
        } else {
            Confidence::Medium
        };
        let summary = format!(
            "{waits}, which acknowledges at once: {} B per round trip of {} to the SSH behind it, which is {}; \
             {} % of the time in pauses ended with a message of the {}",
            channel.window.get(),
            duration(channel.round_trip),
            rounded(ceiling),
            channel.told_percent,
            side.peer()
        );
        (confidence, summary, channel.evidence.to_vec())
    } else {
        let flying = analysed.connection.flow(side).max_in_flight;
        let ceiling = Bytes::new(flying).checked_per(rtt)?;
        let summary = format!(
            "{waits}: at most {flying} B per round trip of {}, which is {}",
            duration(rtt),
            rounded(ceiling)
        );
        (Confidence::Medium, summary, flight::table(&shown.flight))
    };
    Some(Found {
        severity: severity_of(lost, busy),
        confidence,
        summary,
        connections: vec![analysed.id],
        evidence,
        lost: Some(lost),
        remedy: "The window is built into OpenSSH (2 MiB): use several connections at a time (rsync or sftp by \
                 parts, rclone's sftp backend with `--multi-thread-streams`), a patched SSH (HPN), or move the \
                 data over HTTPS; a relay cannot widen it."
            .into(),
        predicted: Vec::new(),
        needs: vec![Need::new(Cause::TooFewConnections, Side::Client)],
    })
}

/// The window that `side` waits for, where TCP's flight does not show it.
pub(super) fn channel(
    connection: &Connection,
    side: Side,
    attribution: &Attribution,
) -> Option<Box<Channel>> {
    let found = attribution.channel.as_ref()?;
    let data = |from: Side, at: Time| -> Option<(Mark, u32)> {
        let first = connection.packets.partition_point(|packet| packet.at < at);
        let behind = connection.packets.get(first..)?.iter();
        let mut behind = behind.take_while(|packet| packet.at == at);
        let packet = behind.find(|packet| packet.side == from && packet.len > 0)?;
        Some((packet.mark(), packet.len))
    };
    let mut evidence = Vec::new();
    if let Some((mark, _)) = data(side, found.began_at) {
        let stroke = found.stroke.get();
        evidence.push(frame(
            mark,
            format!("the first of {stroke} B at one stroke"),
        ));
    }
    for (number, pause) in (0..).zip(&found.pauses) {
        let Some((mark, len)) = data(side.peer(), pause.told_at) else {
            continue;
        };
        let silent = duration(pause.resumed_at.since(pause.sent_at));
        let next = duration(pause.resumed_at.since(pause.told_at));
        let shows = if number == 0 {
            let round_trip = duration(found.round_trip);
            format!(
                "a message of {len} B; the first one {round_trip} after the stroke began, the {side} goes on {next} later"
            )
        } else {
            let on_its_way = pause.on_its_way.get();
            format!(
                "a message of {len} B ends {silent} of silence; {on_its_way} B sent within a round trip before"
            )
        };
        evidence.push(frame(mark, shows));
    }
    Some(Box::new(Channel {
        window: found.window,
        round_trip: found.round_trip,
        told_percent: found.told_percent,
        evidence: evidence.into(),
    }))
}
