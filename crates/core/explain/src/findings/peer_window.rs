//! A window above TCP's: an SSH channel's.

use core::time::Duration;

use connections::Side;
use limit::{Detail, LimitName};
use record::explain::Confidence;
use tuning::remedies::Cause;
use units::Bytes;

use super::{CatalogueEntry, Found, Judged, Need, flight, severity_of};
use crate::analysis::{Analysed, Direction};
use crate::text::{duration, rounded};

pub(super) const ENTRY: CatalogueEntry = CatalogueEntry {
    name: "peer-window",
    meaning: "A protocol above TCP waits for a window of its own: an SSH channel carries no more than its \
              window per round trip, whatever TCP would allow.",
    source: "RFC 4254 §5.2 (channel windows); OpenSSH channels.h: CHAN_SES_WINDOW_DEFAULT is 2 MiB",
};

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
    let flying = analysed.connection.flow(side).max_in_flight;
    let rtt = direction.timeline.base_rtt?;
    let ceiling = Bytes::new(flying).checked_per(rtt)?;
    Some(Found {
        severity: severity_of(lost, busy),
        confidence: Confidence::Medium,
        summary: format!(
            "for {} the {side} waits for the SSH channel's window and not for TCP: at most {flying} B per \
             round trip of {}, which is {}",
            duration(lost),
            duration(rtt),
            rounded(ceiling)
        ),
        connections: vec![analysed.id],
        evidence: flight::table(&analysed.shown.sent(side).flight),
        lost: Some(lost),
        remedy: "The window is built into OpenSSH (2 MiB): use several connections at a time (rsync or sftp by \
                 parts, rclone's sftp backend with `--multi-thread-streams`), a patched SSH (HPN), or move the \
                 data over HTTPS; a relay cannot widen it."
            .into(),
        predicted: Vec::new(),
        needs: vec![Need::new(Cause::TooFewConnections, Side::Client)],
    })
}
