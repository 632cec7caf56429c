//! A receive window that stays too small for the path.

use core::time::Duration;

use connections::Side;
use limit::{Attribution, Detail, LimitName};
use record::explain::Confidence;
use tuning::remedies::Cause;
use units::Bytes;

use super::{CatalogueEntry, Found, Judged, Need, flight, parallel, severity_of};
use crate::analysis::{Analysed, Direction};
use crate::text::duration;

pub(super) const ENTRY: CatalogueEntry = CatalogueEntry {
    name: "fixed-window",
    meaning: "The receiver's window stays so small that the next segment has no room for most of each \
              round trip: the rate is bound by window / RTT.",
    source: "RFC 9293 §3.8.6 (window management), RFC 1122 §4.2.3.4 (a sender waits for room for a full \
             segment); Linux net.ipv4.tcp_rmem",
};

pub(super) fn find(connections: &[Analysed]) -> Vec<Judged> {
    connections
        .iter()
        .flat_map(|analysed| {
            analysed
                .directions()
                .into_iter()
                .filter_map(|(side, direction)| judge(analysed, side, direction))
        })
        .map(|found| found.into_finding(&ENTRY))
        .collect()
}

/// Whether a finding may show how this direction's flight began: this one, and those of what else each connection has
/// for itself.
pub(super) fn is_worth_a_look(attribution: &Attribution) -> bool {
    let own: Duration = attribution
        .limits()
        .into_iter()
        .filter(|(limit, _)| parallel::OWN.contains(limit))
        .map(|(_, time)| time)
        .sum();
    let key = (LimitName::Application, Detail::PeerWindow);
    let peer = attribution.details().get(&key).copied();
    attribution
        .busy
        .is_some_and(|(first, last)| (own + peer.unwrap_or_default()) * 5 >= last.since(first))
}

fn judge(analysed: &Analysed, side: Side, direction: &Direction) -> Option<Found> {
    let attribution = &direction.attribution;
    let (first, last) = attribution.busy?;
    let busy = last.since(first);
    let time = |detail| attribution.held_by(LimitName::ReceiveWindow, detail);
    let lost: Duration = time(Detail::Static) + time(Detail::NoScaling);
    if lost.is_zero() || lost * 5 < busy {
        return None;
    }
    let cause = if time(Detail::NoScaling) > time(Detail::Static) {
        Cause::NoWindowScaling
    } else {
        Cause::ReceiveWindow
    };
    let connection = &analysed.connection;
    let (_, window) = connection.window_range(side.peer())?;
    let rtt = direction.timeline.base_rtt?;
    let bound = Bytes::new(window).checked_per(rtt)?.bytes_per_s();
    let flying = connection.flow(side).max_in_flight;
    Some(Found {
        severity: severity_of(lost, busy),
        confidence: Confidence::High,
        summary: format!(
            "the {}'s window of at most {window} B over {} of RTT bounds the transfer to {}.{:02} kB/s; \
             {flying} B fly at most, since the next segment has no room",
            side.peer(),
            duration(rtt),
            bound / 1000,
            bound % 1000 / 10,
        ),
        connections: vec![analysed.id],
        evidence: flight::table(&analysed.shown.sent(side).flight),
        lost: Some(lost),
        remedy: format!(
            "Raise the {}'s receive buffer to at least rate x RTT (Linux: the third value of \
             net.ipv4.tcp_rmem, with net.ipv4.tcp_moderate_rcvbuf on; take a fixed SO_RCVBUF out of the \
             application), or put a relay near it whose windows are large.",
            side.peer()
        ),
        predicted: Vec::new(),
        needs: vec![Need::new(cause, side.peer())],
    })
}
