//! Reductions that were a mistake, and how they are found out: by timestamps (RFC 3522), by reports of
//! duplicates (RFC 2883, RFC 3708), after a timeout by new data (RFC 5682).

use units::Time;

use super::{Report, Sender, floor_millis};
use crate::recovery::Phase;
use crate::scoreboard::Delivery;

/// Repairs since the last reduction; when every one of them turns out to have been needless, so was the
/// reduction (Linux `undo_marker`, `undo_retrans`).
#[derive(Clone, Copy, Debug)]
pub(super) struct Undo {
    /// First unacknowledged byte when the reduction began.
    marker: u64,
    /// Repairs not yet reported as duplicates; `None` before the first.
    needed: Option<u32>,
}

/// How far the check of a retransmission timeout has come.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(super) enum TimeoutCheck {
    /// There is none, or it is decided.
    #[default]
    Off,
    /// The first unacknowledged segment was repeated; its acknowledgement is waited for.
    Repeated,
    /// New data goes before repairs; what it brings back decides.
    NewData,
}

// === impl Undo ===

impl Undo {
    /// `under_way` repetitions of before may yet be reported as duplicates (`tcp_init_undo`).
    pub(super) fn new(marker: u64, under_way: u32) -> Self {
        Self {
            marker,
            needed: (under_way > 0).then_some(under_way),
        }
    }

    pub(super) const fn on_repair(&mut self) {
        self.needed = Some(match self.needed {
            Some(count) => count.saturating_add(1),
            None => 1,
        });
    }

    /// A duplicate of `segments` segments up to `end` was reported; whether all repairs were needless.
    fn on_duplicate(&mut self, end: u64, segments: u32) -> bool {
        if end <= self.marker {
            return false;
        }
        let Some(needed) = &mut self.needed else {
            return false;
        };
        *needed = needed.saturating_sub(segments);
        *needed == 0
    }
}

impl Sender {
    /// Whether `delivery` and `duplicate`, the range that the peer reports as received twice, show that
    /// the last reduction was a mistake; if so, it is taken back.
    pub(super) fn undo_if_spurious(
        &mut self,
        now: Time,
        report: &Report,
        advanced: bool,
        delivery: &Delivery,
        duplicate: Option<(u64, u64)>,
    ) {
        let needless = duplicate.is_some_and(|(start, end)| {
            let bytes = end.saturating_sub(start);
            let segments = bytes.div_ceil(u64::from(self.mss)).max(1);
            let segments = u32::try_from(segments).unwrap_or(u32::MAX);
            self.undo
                .as_mut()
                .is_some_and(|undo| undo.on_duplicate(end, segments))
        });
        let early = advanced && self.answers_original(report);
        if needless || early || self.check_timeout(advanced, delivery) {
            self.take_back(now);
        }
    }

    /// RFC 3522 (Eifel): the ACK that ends the wait echoes a time before the first repetition, so it was
    /// caused by the original, and nothing had been lost (`tcp_packet_delayed`).
    fn answers_original(&self, report: &Report) -> bool {
        let (Some(echoed), Some(repaired)) = (report.echoed_at, self.first_repair_at) else {
            return false;
        };
        let early = echoed < floor_millis(repaired);
        match self.phase {
            Phase::Open | Phase::Reduced { .. } => false,
            // In the middle of it, while other repairs are under way, nobody knows what they will tell
            // (`tcp_try_undo_partial`).
            Phase::Recovery { until } => {
                early && (self.una >= until || self.board.repairs_in_flight() == 0)
            }
            Phase::Loss { .. } => early,
        }
    }

    /// RFC 5682 section 3.1, in the form of Linux' `tcp_process_loss`; whether the timeout was spurious.
    fn check_timeout(&mut self, advanced: bool, delivery: &Delivery) -> bool {
        let Phase::Loss { until } = self.phase else {
            return false;
        };
        if self.timeout_check == TimeoutCheck::Off {
            return false;
        }
        //= https://www.rfc-editor.org/rfc/rfc5682#section-3.1
        //# The retransmission timeout can be declared spurious,
        //# because the segment acknowledged with this ACK was transmitted
        //# before the timeout.
        // Without SACK an ACK beside a repeated segment may tell of originals that waited above a hole.
        let told = self.sack || !delivery.repeated;
        if told && delivery.original_end.is_some_and(|end| end <= until) {
            return true;
        }
        match self.timeout_check {
            TimeoutCheck::Repeated if advanced && self.una < until => {
                // Step 2b: new data instead of repairs, as far as there is any; see `poll`.
                self.timeout_check = TimeoutCheck::NewData;
            }
            // Step 3a: what the new data brought back is news of a hole, so the loss was real.
            TimeoutCheck::NewData => self.timeout_check = TimeoutCheck::Off,
            TimeoutCheck::Off | TimeoutCheck::Repeated => {}
        }
        false
    }

    /// A reduction begins: when and whether its repairs turn out to have been needless is looked at from now.
    pub(super) fn begin_undo(&mut self) {
        let probe = self.tail_probe.is_some_and(|probe| probe.repeated);
        let under_way = self.board.repairs_in_flight() + u32::from(probe);
        self.undo = Some(Undo::new(self.una, under_way));
        if !self.board.was_repaired() {
            // Otherwise what answers a repair of before would pass for an original that was only late
            // (`tcp_retrans_stamp_cleanup`).
            self.first_repair_at = None;
        }
    }

    fn take_back(&mut self, now: Time) {
        self.undo = None;
        if !matches!(self.phase, Phase::Recovery { until } if self.una >= until) {
            // What was found lost since is another matter (`tcp_try_undo_recovery`).
            self.board.restore_lost();
        }
        self.controller.undo();
        self.counters.spurious += 1;
        if self.phase != Phase::Open {
            self.leave_recovery(now);
        }
    }
}
