use units::Time;

use crate::digest::DigestKind;
use crate::event::{Half, Receipt};
use crate::holding::Ledger;
use crate::incoming::Incoming;
use crate::outgoing::Outgoing;
use crate::{StreamId, Target};

/// A stream as one end sees it.
#[derive(Debug)]
pub(crate) struct Stream {
    pub(crate) opened_at: Time,
    pub(crate) phase: Phase,
    pub(crate) outgoing: Outgoing,
    pub(crate) incoming: Incoming,
    /// What holds its sending back.
    pub(crate) ledger: Ledger,
    /// Stands in one of the scheduler's queues.
    pub(crate) scheduled: bool,
    /// Bytes that it may still send before it makes room for others.
    pub(crate) quantum: u64,
    /// [`crate::Event::Readable`] was given and nothing has been read to the end since.
    pub(crate) readable_told: bool,
}

/// How far a stream's opening has come.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) enum Phase {
    /// Ours, and the open frame has not gone out.
    Opening(Target),
    /// Ours, and the peer has not reached the target yet.
    Opened,
    /// The peer's, known from frames that overtook its open.
    Early,
    /// The peer's, and the driver has not reached the target yet.
    Offered,
    /// Both ends are connected.
    Established,
}

impl Stream {
    pub(crate) fn new(
        phase: Phase,
        digest: DigestKind,
        limit: u64,
        window: u64,
        now: Time,
    ) -> Self {
        Self {
            opened_at: now,
            phase,
            outgoing: Outgoing::new(digest, limit),
            incoming: Incoming::new(digest, window, now),
            ledger: Ledger::new(now),
            scheduled: false,
            quantum: 0,
            readable_told: false,
        }
    }

    /// Whether it has something for the trunk, as far as its own credit goes.
    pub(crate) fn has_work(&self) -> bool {
        matches!(self.phase, Phase::Opening(_))
            || self.outgoing.sendable() > 0
            || self.outgoing.finish_due()
    }

    /// Both directions have come to their ends, and both ends know it.
    pub(crate) const fn is_done(&self) -> bool {
        self.outgoing.is_confirmed() && self.incoming.confirmed
    }

    pub(crate) fn receipt(&self, now: Time) -> Receipt {
        let received = self.incoming.outcome();
        Receipt {
            opened_at: self.opened_at,
            closed_at: now,
            held_by: self.ledger.until(now),
            sent: Half {
                bytes: self.outgoing.sent(),
                digest: self.outgoing.summary().map(|summary| summary.digest),
                confirmed: self.outgoing.is_confirmed(),
            },
            received: Half {
                bytes: self.incoming.bytes(),
                digest: received.map(|(ours, _)| ours.digest),
                confirmed: received.is_some_and(|(ours, theirs)| ours == theirs),
            },
        }
    }
}

/// A stream is gone: it was closed or reset, and its event says why.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
#[error("{0} is gone")]
pub struct StreamGone(pub StreamId);
