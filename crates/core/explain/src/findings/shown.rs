//! What rules need of a connection's packets, taken down before those go.

use connections::{Connection, Mark, Packet, Side};
use limit::{Detail, LimitName, Span};

use super::blackhole::Hole;
use super::capture_artefact::{self, Artefacts};
use super::connection_reuse::{self, Fresh};
use super::continue_wait::{self, Wait};
use super::flight::{self, Row};
use super::held;
use super::loss_recovery::{self, Repairs};
use super::peer_window::{self, Channel};
use super::zero_window::{self, Stalls};
use super::{blackhole, fixed_window};
use crate::analysis::Complete;

/// Packets of a connection to point at, and what only they tell.
#[derive(Clone, Debug)]
pub(crate) struct Shown {
    to_server: Sent,
    to_client: Sent,
    pub(super) artefacts: Artefacts,
    pub(super) fresh: Option<Box<Fresh>>,
    pub(super) continue_waits: Box<[Wait]>,
}

/// The same for what one side sent.
#[derive(Clone, Debug)]
pub(super) struct Sent {
    /// Its receiver's closed windows.
    pub(super) stalls: Stalls,
    pub(super) hole: Option<Box<Hole>>,
    /// Its flight from the first byte on.
    pub(super) flight: Box<[Row]>,
    /// Its flight in the longest span under a limit.
    pub(super) held: Box<[(LimitName, Box<[Row]>)]>,
    /// What it sent again.
    pub(super) repairs: Repairs,
    /// The window above TCP that it waited for.
    pub(super) channel: Option<Box<Channel>>,
    /// From here on it grew slowly.
    pub(super) slow_since: Option<Mark>,
    /// It began again from a small window.
    pub(super) restarted: Option<Mark>,
}

// === impl Shown ===

impl Shown {
    pub(crate) fn new(connection: &Connection, up: &Complete, down: &Complete) -> Self {
        Self {
            to_server: Sent::new(connection, Side::Client, up),
            to_client: Sent::new(connection, Side::Server, down),
            artefacts: capture_artefact::of(connection),
            fresh: connection_reuse::fresh(connection, up).map(Box::new),
            continue_waits: continue_wait::of(connection),
        }
    }

    pub(super) const fn sent(&self, side: Side) -> &Sent {
        match side {
            Side::Client => &self.to_server,
            Side::Server => &self.to_client,
        }
    }
}

// === impl Sent ===

impl Sent {
    fn new(connection: &Connection, side: Side, direction: &Complete) -> Self {
        let spans = &direction.attribution.spans;
        let starts = |limit, detail| {
            let same = |span: &&Span| (span.limit, span.detail) == (limit, Some(detail));
            let span = spans.iter().find(same)?;
            let sends =
                |packet: &&Packet| packet.side == side && packet.len > 0 && packet.at >= span.from;
            connection.packets.iter().find(sends).map(Packet::mark)
        };
        let flight = direction
            .attribution
            .busy
            .filter(|_| fixed_window::is_worth_a_look(&direction.attribution))
            .map(|(first, _)| flight::rows(connection, side, first));
        Self {
            stalls: zero_window::stalls(connection, side.peer()),
            hole: blackhole::hole(connection, side).map(Box::new),
            flight: flight.unwrap_or_default(),
            held: held::longest(connection, side, direction),
            repairs: loss_recovery::repairs(connection, side, direction),
            channel: peer_window::channel(connection, side, &direction.attribution),
            slow_since: starts(LimitName::CongestionAvoidance, Detail::LowSsthresh),
            restarted: starts(LimitName::SlowStart, Detail::AfterIdle),
        }
    }
}
