//! What the peer reports: acknowledgements, SACK blocks, windows; and what follows for loss and window.

use core::time::Duration;

use congestion::{Acknowledgement, DeliveryRate};
use units::Time;

use super::spurious::TimeoutCheck;
use super::{Report, Sender};
use crate::config::LossDetection;
use crate::recovery::{Phase, Reduction};
use crate::scoreboard::Delivery;

impl Sender {
    /// The peer acknowledges, within what was sent. `blocks` are its SACK blocks as offsets.
    pub(crate) fn on_report(
        &mut self,
        now: Time,
        report: &Report,
        blocks: impl Iterator<Item = (u64, u64)>,
    ) {
        let window_changed = self.update_window(report);
        let mut blocks = blocks.peekable();
        if self.is_at_rest(report) && blocks.peek().is_none() {
            // Every segment of a peer that only sends: nothing of ours is judged by it.
            return;
        }
        let in_flight_before = self.in_flight();
        let mut delivery = Delivery::default();
        let mut duplicate = None;
        if self.sack {
            duplicate = self.take_blocks(report.to, blocks, &mut delivery);
        }
        let advanced = report.to > self.una;
        if advanced {
            self.board.acknowledge(report.to, &mut delivery);
            self.una = report.to;
            self.nxt = self.nxt.max(self.una);
            self.timeouts = 0;
            self.window_probes = 0;
            self.rtt.reset_backoff();
        }
        if self.una == self.nxt && self.window.edge > self.nxt {
            self.window_probes = 0;
        }
        let outstanding = self.nxt > self.una;
        let plain_duplicate = !self.sack && !advanced && !report.occupied && !window_changed;
        if plain_duplicate && outstanding && report.to == self.una {
            self.duplicate_acks = self.duplicate_acks.saturating_add(1);
            delivery.segments += 1;
        } else if advanced && self.duplicate_acks > 0 {
            // All but the repaired segment were counted by their duplicate ACKs (`tcp_remove_reno_sacks`).
            let counted = delivery.segments.saturating_sub(1).min(self.duplicate_acks);
            self.duplicate_acks -= counted;
            delivery.segments -= counted;
        }
        let rtt = delivery.unambiguous_at.map(|at| now.since(at));
        if let Some(rtt) = rtt {
            self.rtt.sample(now, rtt);
        }
        if let Some(newest) = &delivery.newest {
            self.rack.on_delivery(now, newest, self.rtt.min());
        }
        if delivery.reordered {
            self.rack.on_reordering();
        }
        if duplicate.is_some() {
            self.rack.on_duplicate(self.una, self.nxt);
        }
        let mut rate = self.rate_sample(now, &delivery);
        let recovering = self.phase != Phase::Open;
        self.measure_pipe(now, delivery.segments);
        self.undo_if_spurious(now, report, advanced, &delivery, duplicate);
        if advanced {
            self.answer_probe(now, duplicate.is_some());
        }
        let (lost, reorder_at) = self.detect(now, advanced);
        if let Some(rate) = &mut rate {
            rate.lost = rate.lost.saturating_add(lost);
        }
        self.advance_phase(now, advanced, lost);
        if report.marked && self.ecn && self.phase == Phase::Open {
            self.reduce_for_mark(now);
        }
        self.control(
            now,
            &delivery,
            in_flight_before,
            lost,
            rtt,
            rate,
            advanced,
            recovering,
        );
        if !self.sack && advanced && self.phase == Phase::Open {
            self.duplicate_acks = 0;
        }
        self.set_timer(now, advanced, delivery.segments > 0, reorder_at);
    }

    /// Whether nothing is under way that `report` could tell about, and no state of ours waits for news.
    fn is_at_rest(&self, report: &Report) -> bool {
        self.una == self.nxt
            && report.to == self.una
            && !report.marked
            && self.phase == Phase::Open
            && self.timer.is_none()
            && self.reduction.is_none()
            && self.duplicate_acks == 0
            && self.window_probes == 0
            && !self.config.keep_unused_window
    }

    pub(super) fn update_window(&mut self, report: &Report) -> bool {
        let edge = report.to + report.window;
        // RFC 9293 section 3.10.7.4, fifth check: SND.WL1 and SND.WL2 keep old segments from updating.
        let newer = self.window.from < report.from
            || (self.window.from == report.from && self.window.acked <= report.to);
        if !newer {
            return false;
        }
        self.window.from = report.from;
        self.window.acked = report.to;
        self.window.largest = self.window.largest.max(report.window);
        // Only a window that really opens or closes is news; the same edge seen from further on is not.
        let changed = edge != self.window.edge;
        self.window.edge = edge;
        changed
    }

    /// Reports what has arrived above holes; returns the duplicate that the first block tells of.
    pub(super) fn take_blocks(
        &mut self,
        to: u64,
        blocks: impl Iterator<Item = (u64, u64)>,
        delivery: &mut Delivery,
    ) -> Option<(u64, u64)> {
        let mut duplicate = None;
        let mut first: Option<(u64, u64)> = None;
        for (position, (left, right)) in blocks.enumerate() {
            if left >= right || right > self.nxt {
                continue;
            }
            // RFC 2883 section 4: the first block is below the acknowledgement, or inside the second.
            match first {
                None if position == 0 => {
                    first = Some((left, right));
                    duplicate = first.filter(|_| right <= to);
                }
                Some(block) if position == 1 && left <= block.0 && block.1 <= right => {
                    duplicate = first;
                }
                None | Some(_) => {}
            }
            if left > self.una && right > to {
                self.board.sack(left..right, delivery);
            }
        }
        duplicate.filter(|_| self.config.duplicate_sack)
    }

    /// Finds losses; returns how many are new, and when to look again.
    pub(super) fn detect(&mut self, now: Time, advanced: bool) -> (u32, Option<Time>) {
        let found = self.find_losses(now, advanced);
        self.rate.lost += u64::from(found.0);
        found
    }

    fn find_losses(&mut self, now: Time, advanced: bool) -> (u32, Option<Time>) {
        if !self.sack {
            return (self.detect_by_duplicates(advanced), None);
        }
        match (self.config.loss_detection, self.rack.newest) {
            (LossDetection::Rack, Some(newest)) => {
                let recovering = !self.phase.is_orderly();
                let sacked = self.board.sacked();
                let wait = self
                    .rack
                    .wait(recovering, sacked, self.rtt.min(), self.rtt.smoothed());
                self.board.detect_by_time(now, newest, wait)
            }
            (LossDetection::Rack, None) => (0, None),
            (LossDetection::DuplicateAcks, _) => (self.board.detect_by_count(3, self.mss), None),
        }
    }

    pub(super) fn detect_by_duplicates(&mut self, advanced: bool) -> u32 {
        match self.phase {
            //= https://www.rfc-editor.org/rfc/rfc6582#section-3.2
            //# When the third duplicate ACK is received, the TCP sender first
            //# checks the value of recover to see if the Cumulative
            //# Acknowledgment field covers more than recover.
            Phase::Open | Phase::Reduced { .. }
                if self.duplicate_acks == 3 && !advanced && self.una > self.recover =>
            {
                self.board.lose_first()
            }
            Phase::Recovery { until } if advanced && self.una < until => {
                // RFC 6582 section 3.2 step 3, partial acknowledgment: the next hole is at its edge.
                self.owe_repair();
                self.board.lose_first()
            }
            Phase::Open | Phase::Reduced { .. } | Phase::Recovery { .. } | Phase::Loss { .. } => 0,
        }
    }

    pub(super) fn advance_phase(&mut self, now: Time, advanced: bool, lost: u32) {
        match self.phase {
            Phase::Open => {
                self.first_repair_at = None;
                if self.board.lost() > 0 {
                    self.enter_recovery(now);
                }
            }
            Phase::Reduced { until } => {
                self.first_repair_at = None;
                if lost > 0 {
                    // The window has been reduced for this flight already.
                    self.begin_recovery();
                    self.owe_repair();
                } else if self.una > until {
                    // Something sent after the reduction has arrived, and the notice of it too.
                    self.leave_recovery(now);
                }
            }
            Phase::Recovery { until } | Phase::Loss { until } => {
                if advanced && self.una >= until {
                    self.leave_recovery(now);
                    if self.board.lost() > 0 {
                        self.enter_recovery(now);
                    }
                }
            }
        }
    }

    pub(super) fn enter_recovery(&mut self, now: Time) {
        let cwnd = self.cwnd();
        let in_flight = self.in_flight();
        self.begin_undo();
        self.begin_recovery();
        self.fall_to_pipe();
        self.controller.on_congestion_event(now, in_flight);
        self.tell_reduction = self.ecn;
        let spread = self.config.proportional_rate_reduction;
        if spread && !self.controller.shapes_recovery() {
            self.reduction = Some(Reduction::start(cwnd, in_flight));
        }
        self.owe_repair();
    }

    //= https://www.rfc-editor.org/rfc/rfc5681#section-3.2
    //# The lost segment starting at SND.UNA MUST be retransmitted
    // At once, though the flight is above the window that has just been halved. Proportional rate reduction and
    // controllers that shape recovery count this repair themselves.
    fn owe_repair(&mut self) {
        self.repair_owed = self.reduction.is_none() && !self.controller.shapes_recovery();
    }

    fn begin_recovery(&mut self) {
        self.phase = Phase::Recovery { until: self.nxt };
        self.recover = self.nxt;
        self.tail_probe = None;
    }

    //= https://www.rfc-editor.org/rfc/rfc3168#section-6.1.2
    //# If the sender receives an ECN-Echo (ECE) ACK
    //# packet (that is, an ACK packet with the ECN-Echo flag set in the TCP
    //# header), then the sender knows that congestion was encountered in the
    //# network on the path from the sender to the receiver.
    // Once per window of data: a flight that is being reduced for is left alone.
    fn reduce_for_mark(&mut self, now: Time) {
        let cwnd = self.cwnd();
        let in_flight = self.in_flight();
        self.phase = Phase::Reduced { until: self.nxt };
        self.fall_to_pipe();
        self.controller.on_congestion_mark(now, in_flight);
        self.tell_reduction = true;
        if self.config.proportional_rate_reduction && !self.controller.shapes_recovery() {
            self.reduction = Some(Reduction::start(cwnd, in_flight));
        }
    }

    pub(super) fn leave_recovery(&mut self, now: Time) {
        self.phase = Phase::Open;
        self.timeout_check = TimeoutCheck::Off;
        self.reduction = None;
        self.repair_owed = false;
        self.duplicate_acks = 0;
        self.rack.on_recovery_end();
        self.controller.on_recovery_end(now);
    }

    pub(super) fn answer_probe(&mut self, now: Time, duplicate: bool) {
        if let Some(probe) = self.tail_probe.filter(|probe| self.una >= probe.until) {
            self.tail_probe = None;
            // RFC 8985 section 7.4.2: the probe repaired a loss that nothing else would have shown.
            if probe.repeated && !duplicate && self.phase == Phase::Open {
                self.controller
                    .on_congestion_event(now, self.board.in_flight());
                self.controller.on_recovery_end(now);
            }
        }
    }

    #[expect(
        clippy::too_many_arguments,
        reason = "one ACK, told once; a struct would only rename it"
    )]
    pub(super) fn control(
        &mut self,
        now: Time,
        delivery: &Delivery,
        in_flight_before: u32,
        lost: u32,
        rtt: Option<Duration>,
        rate: Option<DeliveryRate>,
        advanced: bool,
        recovering: bool,
    ) {
        let in_flight = self.in_flight();
        if let Some(reduction) = &mut self.reduction {
            let ssthresh = self.controller.ssthresh();
            reduction.on_ack(ssthresh, in_flight, delivery.segments, advanced, lost);
        }
        if delivery.segments == 0 && rtt.is_none() && lost == 0 {
            return;
        }
        let in_recovery = matches!(self.phase, Phase::Recovery { .. } | Phase::Reduced { .. });
        self.controller.on_ack(&Acknowledgement {
            now,
            delivered: delivery.segments,
            lost,
            rtt,
            in_flight_before,
            in_flight,
            may_grow: !in_recovery
                && advanced
                && !(recovering && self.phase == Phase::Open)
                && self.is_validated(),
            cwnd_limited: self.is_cwnd_limited(),
            acked_to: self.una,
            sent_to: self.nxt,
            rate,
            recovering: !self.phase.is_orderly(),
        });
        if self.controller.hides_rate() {
            self.limit_rate();
        }
    }
}
