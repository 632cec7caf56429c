use alloc::boxed::Box;
use core::time::Duration;

use congestion::{Acknowledgement, Controller, DeliveryRate, Parameters};
use units::{Rate, Time};

use crate::config::{Config, LossDetection, Pacing};
use crate::hold::Hold;
use crate::probes::{Purpose, TailProbe, Timer, probe_timeout};
use crate::recovery::{Phase, Rack, Reduction};
use crate::rtt::RttEstimator;
use crate::scoreboard::{Delivery, Newest, RateStamp, Scoreboard, Sent};

/// The sending half: what may leave, what is lost, and when to ask.
///
/// Offsets count from our SYN, so the first byte of data is 1.
#[derive(Debug)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "independent facts, not states of one machine"
)]
pub(crate) struct Sender {
    config: Config,
    pub(crate) controller: Box<dyn Controller>,
    pub(crate) board: Scoreboard,
    pub(crate) rtt: RttEstimator,
    /// Payload of a full segment.
    mss: u32,
    sack: bool,
    /// First unacknowledged (SND.UNA), next to be sent (SND.NXT), end of what was written.
    una: u64,
    nxt: u64,
    written: u64,
    /// Whether a FIN follows what was written.
    closing: bool,
    refused: bool,
    /// End of the last segment sent short of the MSS.
    short_end: u64,
    window: Window,
    phase: Phase,
    reduction: Option<Reduction>,
    rack: Rack,
    timer: Option<Timer>,
    tail_probe: Option<TailProbe>,
    probe_due: bool,
    window_probes: u32,
    timeouts: u32,
    duplicate_acks: u32,
    /// RFC 6582 section 3.2 step 1: recovery does not begin again below this.
    recover: u64,
    first_repair_at: Option<Time>,
    pacer: Pacer,
    rate: RateState,
    usage: Usage,
    last_sent_at: Option<Time>,
    counters: Counters,
}

/// What the peer allows.
#[derive(Clone, Copy, Debug, Default)]
struct Window {
    /// Right edge.
    edge: u64,
    /// Peer's offset and our offset at the last update (SND.WL1, SND.WL2).
    from: u64,
    acked: u64,
    largest: u64,
}

#[derive(Clone, Copy, Debug, Default)]
struct Pacer {
    next_at: Time,
}

#[derive(Clone, Copy, Debug, Default)]
struct RateState {
    delivered: u64,
    delivered_at: Time,
    flight_started_at: Time,
    /// Deliveries up to this count may have been limited by the application.
    limited_until: Option<u64>,
}

/// Whether the window was in use (Linux `tcp_cwnd_validate`).
#[derive(Clone, Copy, Debug, Default)]
struct Usage {
    limited: bool,
    most_outstanding: u32,
    round_ends_at: u64,
    used: u32,
    since: Time,
}

#[derive(Clone, Copy, Debug, Default)]
struct Counters {
    retransmissions: u64,
    segments: u64,
    timeouts: u64,
    spurious: u64,
}

/// A look at a sender, as `TCP_INFO` gives it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SenderView {
    /// Congestion window in segments.
    pub cwnd: u32,
    /// Slow-start threshold in segments; `u32::MAX` where none was set.
    pub ssthresh: u32,
    /// Segments in flight.
    pub in_flight: u32,
    /// Payload of a full segment.
    pub mss: u32,
    /// Bytes sent and not acknowledged.
    pub outstanding: u64,
    /// Bytes that the peer's window still allows.
    pub window: u64,
    /// Smoothed RTT.
    pub smoothed_rtt: Option<Duration>,
    /// Smallest RTT.
    pub min_rtt: Option<Duration>,
    /// Bytes acknowledged since the beginning.
    pub acknowledged: u64,
    /// Data segments sent, repetitions included.
    pub segments: u64,
    /// Data segments sent again.
    pub retransmissions: u64,
    /// Retransmission timeouts.
    pub timeouts: u64,
    /// Reductions that were taken back as spurious.
    pub spurious: u64,
}

/// What an acknowledgement field tells, with the peer's offset of the segment that carried it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Report {
    pub(crate) to: u64,
    pub(crate) from: u64,
    pub(crate) window: u64,
    /// Whether the segment carried data, SYN or FIN, so that it cannot be a duplicate ACK.
    pub(crate) occupied: bool,
    /// When the segment that is echoed left, in whole milliseconds, where timestamps are in use.
    pub(crate) echoed_at: Option<Time>,
}

/// A data segment to be sent.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Fragment {
    pub(crate) start: u64,
    pub(crate) payload: u32,
    pub(crate) fin: bool,
    pub(crate) push: bool,
}

// === impl Sender ===

impl Sender {
    pub(crate) fn new(config: &Config) -> Self {
        let mss = u32::from(config.mss);
        Self {
            controller: start(config, mss),
            board: Scoreboard::default(),
            rtt: RttEstimator::new(config.min_rto),
            mss,
            sack: false,
            una: 0,
            nxt: 1,
            written: 1,
            closing: false,
            refused: false,
            short_end: 0,
            window: Window::default(),
            phase: Phase::Open,
            reduction: None,
            rack: Rack::new(),
            timer: None,
            tail_probe: None,
            probe_due: false,
            window_probes: 0,
            timeouts: 0,
            duplicate_acks: 0,
            recover: 0,
            first_repair_at: None,
            pacer: Pacer::default(),
            rate: RateState::default(),
            usage: Usage::default(),
            last_sent_at: None,
            counters: Counters::default(),
            config: config.clone(),
        }
    }

    /// The handshake is complete: `mss` is what a full segment carries, `window` what the peer offered.
    pub(crate) fn establish(&mut self, now: Time, mss: u32, sack: bool, window: u64, from: u64) {
        self.mss = mss.max(1);
        self.sack = sack;
        self.una = 1;
        self.controller = start(&self.config, self.mss);
        self.window = Window {
            edge: 1 + window,
            from,
            acked: 1,
            largest: window,
        };
        self.rate.delivered_at = now;
        self.rate.flight_started_at = now;
        self.usage.since = now;
    }

    pub(crate) const fn una(&self) -> u64 {
        self.una
    }

    pub(crate) const fn nxt(&self) -> u64 {
        self.nxt
    }

    pub(crate) fn view(&self) -> SenderView {
        SenderView {
            cwnd: self.cwnd(),
            ssthresh: self.controller.ssthresh(),
            in_flight: self.in_flight(),
            mss: self.mss,
            outstanding: self.nxt - self.una.min(self.nxt),
            window: self.window.edge.saturating_sub(self.nxt),
            smoothed_rtt: self.rtt.smoothed(),
            min_rtt: self.rtt.min(),
            acknowledged: self.una.saturating_sub(1),
            segments: self.counters.segments,
            retransmissions: self.counters.retransmissions,
            timeouts: self.counters.timeouts,
            spurious: self.counters.spurious,
        }
    }

    /// Accepts at most `bytes` and returns how many.
    pub(crate) fn write(&mut self, now: Time, bytes: u64) -> u64 {
        let held = self.written - self.una.clamp(1, self.written);
        let room = self.config.send_buffer.get().saturating_sub(held);
        let accepted = bytes.min(room);
        self.refused = accepted < bytes;
        if accepted > 0 {
            self.restart_if_idle(now);
            self.written += accepted;
        }
        accepted
    }

    /// Whether a write that was refused would find room for something worth waking up for.
    pub(crate) fn take_writable(&mut self) -> bool {
        let held = self.written - self.una.clamp(1, self.written);
        // `sk_stream_is_writeable`: a third of the buffer is free.
        let writable = self.refused && held * 3 <= self.config.send_buffer.get() * 2;
        if writable {
            self.refused = false;
        }
        writable
    }

    pub(crate) const fn close(&mut self) {
        self.closing = true;
    }

    pub(crate) const fn is_closing(&self) -> bool {
        self.closing
    }

    /// Whether our FIN has been sent and acknowledged.
    pub(crate) const fn fin_acknowledged(&self) -> bool {
        self.closing && self.una > self.written
    }

    /// Whether there is data, or a FIN, that has never been sent.
    const fn has_new(&self) -> bool {
        self.nxt < self.end()
    }

    /// Offset after all that is to be sent, the FIN included.
    const fn end(&self) -> u64 {
        if self.closing {
            self.written + 1
        } else {
            self.written
        }
    }

    pub(crate) const fn timer(&self) -> Option<Time> {
        match self.timer {
            Some(timer) => Some(timer.at),
            None => None,
        }
    }

    /// The next moment at which a paced segment may leave, while one waits.
    pub(crate) fn paced_at(&self, now: Time) -> Option<Time> {
        (self.pacer.next_at > now && self.hold(now) == Hold::Pacing).then_some(self.pacer.next_at)
    }

    fn cwnd(&self) -> u32 {
        match self.reduction {
            Some(reduction) => reduction.cwnd,
            None => self.controller.cwnd(),
        }
    }

    /// Segments in flight; without SACK every duplicate ACK stands for one that arrived (RFC 6582).
    fn in_flight(&self) -> u32 {
        let arrived = if self.sack { 0 } else { self.duplicate_acks };
        self.board.in_flight().saturating_sub(arrived)
    }

    // --- what leaves -----------------------------------------------------------------------------

    /// The next data segment that may leave at `now`.
    pub(crate) fn poll(&mut self, now: Time) -> Option<Fragment> {
        if self.probe_due {
            self.probe_due = false;
            if let Some(fragment) = self.probe_tail(now) {
                return Some(fragment);
            }
        }
        if self.blocked_by_pacing(now) {
            return None;
        }
        if self.board.lost() > 0 && self.in_flight() < self.cwnd() && self.board.has_repairs() {
            let stamp = self.stamp(now);
            if let Some(sent) = self.board.repair(now, stamp) {
                self.on_repair(now, &sent);
                return Some(fragment_of(&sent, self.nxt));
            }
        }
        let payload = self.next_payload().ok()?;
        if self.in_flight() >= self.cwnd() && !self.limited_transmit_allows() {
            return None;
        }
        Some(self.send_new(now, payload))
    }

    /// Payload of the next new segment, or what stands against it apart from the congestion window.
    fn next_payload(&self) -> Result<u32, Hold> {
        if !self.has_new() {
            return Err(self.nothing_new());
        }
        let unsent = self.written - self.nxt.min(self.written);
        let room = self.window.edge.saturating_sub(self.nxt);
        let wanted = unsent.min(u64::from(self.mss));
        if wanted > room {
            //= https://www.rfc-editor.org/rfc/rfc9293#section-3.8.6.2.1
            //# (1) if a maximum-sized segment can be sent, i.e., if:
            //#        min(D,U) >= Eff.snd.MSS
            // or at least half of the largest window ever seen (case 3); else wait for more room.
            if room == 0 || room * 2 < self.window.largest {
                return Err(Hold::ReceiveWindow);
            }
            return Ok(narrow(room));
        }
        if wanted < u64::from(self.mss) && self.config.nagle && !self.closing {
            //= https://www.rfc-editor.org/rfc/rfc9293#section-3.7.4
            //# If there is unacknowledged data (i.e., SND.NXT > SND.UNA), then the
            //# sending TCP endpoint buffers all user data (regardless of the PSH
            //# bit) until the outstanding data has been acknowledged or until the
            //# TCP endpoint can send a full-sized segment (Eff.snd.MSS bytes).
            // Linux, and we, hold a short segment only behind another short one (Minshall's variant).
            if self.short_end > self.una {
                return Err(Hold::Nagle);
            }
        }
        Ok(narrow(wanted))
    }

    fn send_new(&mut self, now: Time, payload: u32) -> Fragment {
        let start = self.nxt;
        let end = start + u64::from(payload);
        let fin = self.closing && end == self.written;
        let len = payload + u32::from(fin);
        let stamp = self.stamp(now);
        let was_empty = self.board.outstanding() == 0;
        self.board.push(Sent {
            start,
            len,
            fin,
            fate: crate::scoreboard::Fate::InFlight,
            transmissions: 1,
            at: now,
            stamp,
        });
        self.nxt = start + u64::from(len);
        if payload < self.mss {
            self.short_end = self.nxt;
        }
        self.on_transmit(now, payload);
        if was_empty
            || self
                .timer
                .is_none_or(|timer| timer.purpose != Purpose::Reorder)
        {
            self.arm(now);
        }
        Fragment {
            start,
            payload,
            fin,
            push: end == self.written || fin,
        }
    }

    fn on_repair(&mut self, now: Time, sent: &Sent) {
        self.counters.retransmissions += 1;
        self.first_repair_at = self.first_repair_at.or(Some(now));
        self.on_transmit(now, sent.len);
        if self
            .timer
            .is_none_or(|timer| timer.purpose != Purpose::Reorder)
        {
            self.arm(now);
        }
    }

    fn on_transmit(&mut self, now: Time, payload: u32) {
        self.counters.segments += 1;
        self.last_sent_at = Some(now);
        if let Some(reduction) = &mut self.reduction {
            reduction.on_sent();
        }
        if let Some(rate) = self.pacing_rate() {
            let bits = u128::from(payload) * 8_000_000_000;
            let gap = bits / u128::from(rate.bits_per_s().max(1));
            let gap = Duration::from_nanos(u64::try_from(gap).unwrap_or(u64::MAX));
            self.pacer.next_at = self.pacer.next_at.max(now) + gap;
        }
    }

    fn pacing_rate(&self) -> Option<Rate> {
        let own = self.controller.pacing_rate();
        match self.config.pacing {
            Pacing::Off => own,
            Pacing::AtMost(most) => Some(own.map_or(most, |rate| rate.min(most))),
            Pacing::Window => own.or_else(|| {
                let rtt = self.rtt.smoothed()?.as_nanos();
                // `tcp_pacing_ss_ratio` 200 and `tcp_pacing_ca_ratio` 120.
                let percent = if self.controller.cwnd() < self.controller.ssthresh() / 2 {
                    200
                } else {
                    120
                };
                let bits = u128::from(self.cwnd()) * u128::from(self.mss) * 8 * percent;
                let rate = (bits * 10_000_000).checked_div(rtt)?;
                u64::try_from(rate).ok().map(Rate::bit_per_s)
            }),
        }
    }

    /// Two segments may leave together: the pacer looks one segment ahead, as timers are not exact.
    fn blocked_by_pacing(&self, now: Time) -> bool {
        self.pacer.next_at > now
    }

    //= https://www.rfc-editor.org/rfc/rfc3042#section-2
    //# The Limited Transmit algorithm calls for a TCP sender to transmit
    //# new data upon the arrival of the first two consecutive duplicate ACKs
    // With SACK the reported segments leave the pipe, which has the same effect.
    fn limited_transmit_allows(&self) -> bool {
        self.config.limited_transmit
            && !self.sack
            && self.phase == Phase::Open
            && (1..=2).contains(&self.duplicate_acks)
            && self.board.outstanding() < self.cwnd() + self.duplicate_acks
    }

    const fn nothing_new(&self) -> Hold {
        if self.nxt > self.una {
            if self.refused {
                Hold::SendBuffer
            } else {
                Hold::Propagation
            }
        } else {
            Hold::Application
        }
    }

    /// What keeps the next segment back.
    pub(crate) fn hold(&self, now: Time) -> Hold {
        if self.phase != Phase::Open {
            return Hold::Recovery;
        }
        match self.next_payload() {
            Err(hold) => hold,
            Ok(_) if self.in_flight() >= self.cwnd() => {
                if self.controller.in_slow_start() {
                    Hold::SlowStart
                } else {
                    Hold::CongestionAvoidance
                }
            }
            Ok(_) if self.blocked_by_pacing(now) => Hold::Pacing,
            Ok(_) => Hold::Propagation,
        }
    }

    /// To be called when nothing more leaves at `now`.
    pub(crate) fn settle(&mut self, now: Time) {
        let limited = self.in_flight() >= self.cwnd();
        let outstanding = self.board.outstanding();
        // `tcp_cwnd_validate`.
        if self.una >= self.usage.round_ends_at
            || limited
            || (!self.usage.limited && outstanding > self.usage.most_outstanding)
        {
            self.usage.limited = limited;
            self.usage.most_outstanding = outstanding;
            self.usage.round_ends_at = self.nxt;
        }
        if self.is_cwnd_limited() {
            self.usage.used = 0;
            self.usage.since = now;
        } else {
            self.usage.used = self.usage.used.max(outstanding);
            let long = now.since(self.usage.since) >= self.rtt.timeout();
            if self.config.restart_after_idle
                && long
                && outstanding > 0
                && self.phase == Phase::Open
                && !self.refused
            {
                self.controller.on_application_limited(self.usage.used);
                self.usage.used = 0;
                self.usage.since = now;
            }
        }
        if !self.has_new() && !limited && self.board.lost() == 0 {
            // `tcp_rate_check_app_limited`: up to here the application may have set the pace.
            let until = self.rate.delivered + u64::from(self.board.in_flight());
            self.rate.limited_until = Some(until.max(1));
        }
        // A closed window is asked about, where nothing outstanding will bring news of it.
        if outstanding == 0
            && self.timer.is_none()
            && self.has_new()
            && self.next_payload().is_err()
        {
            self.arm_window_probe(now);
        }
    }

    fn is_cwnd_limited(&self) -> bool {
        // In slow start a window half used may still grow (RFC 5681 section 3.1, `tcp_is_cwnd_limited`).
        self.usage.limited
            || (self.controller.in_slow_start()
                && self.controller.cwnd() < self.usage.most_outstanding.saturating_mul(2))
    }

    fn restart_if_idle(&mut self, now: Time) {
        if self.nxt > self.una {
            return;
        }
        if let Some(last) = self.last_sent_at {
            let idle = now.since(last);
            let rto = self.rtt.timeout();
            //= https://www.rfc-editor.org/rfc/rfc5681#section-4.1
            //# Therefore, a TCP SHOULD set cwnd to no more than RW before beginning
            //# transmission if the TCP has not sent data in an interval exceeding
            //# the retransmission timeout.
            let restart = self.config.restart_after_idle && idle > rto;
            self.controller.on_idle(now, idle, rto, restart);
        }
        self.usage.since = now;
    }

    // --- what the peer reports -------------------------------------------------------------------

    /// The peer acknowledges, within what was sent. `blocks` are its SACK blocks as offsets.
    pub(crate) fn on_report(
        &mut self,
        now: Time,
        report: &Report,
        blocks: impl Iterator<Item = (u64, u64)>,
    ) {
        let window_changed = self.update_window(report);
        let in_flight_before = self.in_flight();
        let mut delivery = Delivery::default();
        let mut duplicate = false;
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
        if duplicate {
            self.rack.on_duplicate(self.una, self.nxt);
        }
        let rate = self.rate_sample(now, &delivery);
        let recovering = self.phase != Phase::Open;
        if advanced {
            self.undo_if_spurious(now, report);
            self.answer_probe(now, duplicate);
        }
        let (lost, reorder_at) = self.detect(now, advanced);
        self.advance_phase(now, advanced, lost);
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

    fn update_window(&mut self, report: &Report) -> bool {
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

    /// Whether the first block reports a duplicate (RFC 2883).
    fn take_blocks(
        &mut self,
        to: u64,
        blocks: impl Iterator<Item = (u64, u64)>,
        delivery: &mut Delivery,
    ) -> bool {
        let mut duplicate = false;
        let mut first: Option<(u64, u64)> = None;
        for (left, right) in blocks {
            if left >= right || right > self.nxt {
                continue;
            }
            match first {
                None => {
                    first = Some((left, right));
                    duplicate = right <= to;
                }
                Some(block) if !duplicate => duplicate = left <= block.0 && block.1 <= right,
                Some(_) => {}
            }
            if left > self.una && right > to {
                self.board.sack(left..right, delivery);
            }
        }
        duplicate
    }

    fn detect(&mut self, now: Time, advanced: bool) -> (u32, Option<Time>) {
        if !self.sack {
            return (self.detect_by_duplicates(advanced), None);
        }
        match (self.config.loss_detection, self.rack.newest) {
            (LossDetection::Rack, Some(newest)) => {
                let recovering = self.phase != Phase::Open;
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

    fn detect_by_duplicates(&mut self, advanced: bool) -> u32 {
        match self.phase {
            //= https://www.rfc-editor.org/rfc/rfc6582#section-3.2
            //# When the third duplicate ACK is received, the TCP sender first
            //# checks the value of recover to see if the Cumulative
            //# Acknowledgment field covers more than recover.
            Phase::Open if self.duplicate_acks == 3 && !advanced && self.una > self.recover => {
                self.board.lose_first()
            }
            Phase::Recovery { until } if advanced && self.una < until => {
                // RFC 6582 section 3.2 step 3, partial acknowledgment: the next hole is at its edge.
                self.board.lose_first()
            }
            Phase::Open | Phase::Recovery { .. } | Phase::Loss { .. } => 0,
        }
    }

    fn advance_phase(&mut self, now: Time, advanced: bool, lost: u32) {
        match self.phase {
            Phase::Open => {
                if lost > 0 {
                    self.enter_recovery(now);
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

    fn enter_recovery(&mut self, now: Time) {
        let cwnd = self.cwnd();
        let in_flight = self.in_flight();
        self.phase = Phase::Recovery { until: self.nxt };
        self.recover = self.nxt;
        self.first_repair_at = None;
        self.tail_probe = None;
        self.controller.on_congestion_event(now, in_flight);
        let spread = self.config.proportional_rate_reduction;
        if spread && !self.controller.shapes_recovery() {
            self.reduction = Some(Reduction::start(cwnd, in_flight));
        }
    }

    fn leave_recovery(&mut self, now: Time) {
        self.phase = Phase::Open;
        self.reduction = None;
        self.duplicate_acks = 0;
        self.first_repair_at = None;
        self.rack.on_recovery_end();
        self.controller.on_recovery_end(now);
    }

    /// RFC 3522 (Eifel): the ACK that ends the wait echoes a time before the first repetition, so it was
    /// caused by the original, and nothing had been lost.
    fn undo_if_spurious(&mut self, now: Time, report: &Report) {
        let (Some(echoed), Some(repaired)) = (report.echoed_at, self.first_repair_at) else {
            return;
        };
        if self.phase == Phase::Open || echoed >= floor_millis(repaired) {
            return;
        }
        self.board.restore_lost();
        self.controller.undo();
        self.counters.spurious += 1;
        self.leave_recovery(now);
    }

    fn answer_probe(&mut self, now: Time, duplicate: bool) {
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
    fn control(
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
        let in_recovery = matches!(self.phase, Phase::Recovery { .. });
        self.controller.on_ack(&Acknowledgement {
            now,
            delivered: delivery.segments,
            lost,
            rtt,
            in_flight_before,
            in_flight,
            may_grow: !in_recovery && advanced && !(recovering && self.phase == Phase::Open),
            cwnd_limited: self.is_cwnd_limited(),
            acked_to: self.una,
            sent_to: self.nxt,
            rate,
            recovering: self.phase != Phase::Open,
        });
    }

    // --- delivery rate ---------------------------------------------------------------------------

    fn stamp(&mut self, now: Time) -> RateStamp {
        if self.board.in_flight() == 0 {
            // A new flight: the time in which nothing was under way must not count.
            self.rate.flight_started_at = now;
            self.rate.delivered_at = now;
        }
        RateStamp {
            delivered: self.rate.delivered,
            delivered_at: self.rate.delivered_at,
            flight_started_at: self.rate.flight_started_at,
            application_limited: self.rate.limited_until.is_some(),
        }
    }

    fn rate_sample(&mut self, now: Time, delivery: &Delivery) -> Option<DeliveryRate> {
        if delivery.segments == 0 {
            return None;
        }
        self.rate.delivered += u64::from(delivery.segments);
        self.rate.delivered_at = now;
        if self
            .rate
            .limited_until
            .is_some_and(|until| self.rate.delivered > until)
        {
            self.rate.limited_until = None;
        }
        let Newest { at, stamp, .. } = delivery.newest?;
        // The slower of how fast they were sent and how fast they were acknowledged.
        let sending = at.since(stamp.flight_started_at);
        let interval = sending.max(now.since(stamp.delivered_at));
        self.rate.flight_started_at = at;
        if interval.is_zero() || self.rtt.min().is_some_and(|min| interval < min) {
            return None;
        }
        Some(DeliveryRate {
            delivered: u32::try_from(self.rate.delivered - stamp.delivered).unwrap_or(u32::MAX),
            interval,
            prior_delivered: stamp.delivered,
            total_delivered: self.rate.delivered,
            application_limited: stamp.application_limited,
        })
    }

    // --- timers ----------------------------------------------------------------------------------

    fn set_timer(&mut self, now: Time, advanced: bool, delivered: bool, reorder_at: Option<Time>) {
        if self.board.outstanding() == 0 {
            self.timer = None;
            return;
        }
        if let Some(at) = reorder_at {
            self.timer = Some(Timer {
                at,
                purpose: Purpose::Reorder,
            });
            return;
        }
        let reorder = self
            .timer
            .is_some_and(|timer| timer.purpose == Purpose::Reorder);
        if advanced || delivered || reorder {
            self.arm(now);
        }
    }

    /// Starts the probe timer where a probe may be sent, and the retransmission timer elsewhere.
    fn arm(&mut self, now: Time) {
        //= https://www.rfc-editor.org/rfc/rfc6298#section-5
        //# (5.1) Every time a packet containing data is sent (including a
        //# retransmission), if the timer is not running, start it running
        //# so that it will expire after RTO seconds
        let rto_at = now + self.rtt.timeout();
        let probes = self.config.tail_loss_probe
            && self.sack
            && self.phase == Phase::Open
            && self.tail_probe.is_none()
            && self.rtt.smoothed().is_some();
        let mut timer = Timer {
            at: rto_at,
            purpose: Purpose::Retransmit,
        };
        if probes {
            let at = now + probe_timeout(self.rtt.smoothed(), self.board.outstanding());
            // Where the RTO would come first, the probe takes its place (RFC 8985 section 7.2).
            timer = Timer {
                at: at.min(rto_at),
                purpose: Purpose::TailProbe,
            };
        }
        self.timer = Some(timer);
    }

    fn arm_window_probe(&mut self, now: Time) {
        let wait = self
            .rtt
            .timeout()
            .saturating_mul(1 << self.window_probes.min(10));
        self.timer = Some(Timer {
            at: now + wait.min(Duration::from_mins(2)),
            purpose: Purpose::WindowProbe,
        });
    }

    /// Handles the timer if it is due. `Err` when the peer has been silent for too long, `Ok(true)` when
    /// a window probe should be sent.
    pub(crate) fn on_timeout(&mut self, now: Time) -> Result<bool, ()> {
        let Some(timer) = self.timer.filter(|timer| timer.at <= now) else {
            return Ok(false);
        };
        self.timer = None;
        match timer.purpose {
            Purpose::Reorder => {
                let (lost, reorder_at) = self.detect(now, false);
                self.advance_phase(now, false, lost);
                self.set_timer(now, false, true, reorder_at);
            }
            Purpose::TailProbe => self.probe_due = true,
            Purpose::Retransmit => return self.on_retransmission_timeout(now).map(|()| false),
            Purpose::WindowProbe => {
                self.window_probes += 1;
                if self.window_probes > self.config.retries {
                    return Err(());
                }
                self.arm_window_probe(now);
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn on_retransmission_timeout(&mut self, now: Time) -> Result<(), ()> {
        if self.board.outstanding() == 0 {
            return Ok(());
        }
        self.timeouts += 1;
        if self.timeouts > self.config.retries {
            return Err(());
        }
        self.counters.timeouts += 1;
        // Only the first of a row reduces the threshold (RFC 5681 section 3.1, equation 4).
        let repeated =
            matches!(self.phase, Phase::Loss { until } if self.timeouts > 1 && self.una < until);
        if !repeated {
            self.controller.on_timeout(now, self.in_flight());
            self.first_repair_at = None;
        }
        if self
            .board
            .first()
            .is_some_and(|first| first.fate == crate::scoreboard::Fate::Sacked)
        {
            // The peer has not acknowledged what it reported: it has dropped it.
            self.board.forget_sacks();
        }
        self.board.lose_all();
        self.phase = Phase::Loss { until: self.nxt };
        self.recover = self.nxt;
        self.reduction = None;
        self.duplicate_acks = 0;
        self.tail_probe = None;
        self.rtt.back_off();
        self.pacer.next_at = now;
        self.arm(now);
        Ok(())
    }

    fn probe_tail(&mut self, now: Time) -> Option<Fragment> {
        if self.board.outstanding() == 0 {
            return None;
        }
        self.timer = Some(Timer {
            at: now + self.rtt.timeout(),
            purpose: Purpose::Retransmit,
        });
        let retransmit = self.timer;
        let fragment = if let Ok(payload) = self.next_payload() {
            // RFC 8985 section 7.3: a new segment where there is one and the peer's window allows it.
            self.tail_probe = Some(TailProbe {
                until: self.nxt,
                repeated: false,
            });
            Some(self.send_new(now, payload))
        } else {
            let stamp = self.stamp(now);
            let sent = self.board.repeat_last(now, stamp)?;
            self.counters.retransmissions += 1;
            self.tail_probe = Some(TailProbe {
                until: self.nxt,
                repeated: true,
            });
            self.on_transmit(now, sent.len);
            Some(fragment_of(&sent, self.nxt))
        };
        if let Some(probe) = &mut self.tail_probe {
            probe.until = self.nxt;
        }
        // Sending has started the timer for another probe; there is one per flight.
        self.timer = retransmit;
        fragment
    }
}

fn start(config: &Config, mss: u32) -> Box<dyn Controller> {
    config.algorithm.start(&Parameters {
        initial_cwnd: config.initial_cwnd,
        initial_ssthresh: config
            .initial_ssthresh
            .map(|bytes| narrow(bytes.get() / u64::from(mss.max(1))).max(2)),
        mss,
        paced: config.pacing != Pacing::Off,
        seed: config.seed,
    })
}

fn fragment_of(sent: &Sent, nxt: u64) -> Fragment {
    Fragment {
        start: sent.start,
        payload: sent.len - u32::from(sent.fin),
        fin: sent.fin,
        push: sent.end() == nxt,
    }
}

/// Timestamps count whole milliseconds.
fn floor_millis(at: Time) -> Time {
    Time::from_millis(at.as_nanos() / 1_000_000)
}

fn narrow(bytes: u64) -> u32 {
    u32::try_from(bytes).unwrap_or(u32::MAX)
}
