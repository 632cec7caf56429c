mod cycle;
mod model;

use core::time::Duration;

use units::{Rate, Time};

use crate::algorithm::Parameters;
use crate::bbr3::cycle::{Cycle, Phase};
use crate::bbr3::model::Model;
use crate::pacing::{Gains, UNIT, initial_pacing};
use crate::window::narrow;
use crate::{Acknowledgement, Controller};

/// BBR version 3 (draft-ietf-ccwg-bbr): version 1's model of rate and RTT, and beside it two bounds on what
/// may be in flight, which losses set: one for the present round trips, one for the next probe.
///
/// In segments, where the draft counts bytes. Losses are judged by the rate sample of the ACK that reveals
/// them; the draft looks at each lost packet's own flight. Marks count as losses: the draft leaves them
/// open, and RFC 3168 does not.
#[derive(Debug)]
pub(crate) struct Bbr3 {
    mss: u32,
    gains: Gains,
    probe_rtt_time: Duration,
    initial: u32,
    cwnd: u32,
    prior_cwnd: u32,
    pacing: Rate,
    model: Model,
    cycle: Cycle,
    full: FullPipe,
    probe_rtt: ProbeRtt,
    /// Data leaves after silence: the silence must not pass for an expired filter.
    restarting: bool,
    undo: Option<Undo>,
}

/// Whether the rate still grows (section 5.3.1.2).
#[derive(Clone, Copy, Debug, Default)]
struct FullPipe {
    bandwidth: u64,
    rounds: u32,
    now: bool,
    /// Ever since the beginning.
    reached: bool,
    /// ACKs of this round that told of losses.
    losses: u32,
}

#[derive(Clone, Copy, Debug, Default)]
struct ProbeRtt {
    ends_at: Option<Time>,
    round_done: bool,
}

/// What a reduction overwrote.
#[derive(Clone, Copy, Debug)]
struct Undo {
    bandwidth_low: Option<u64>,
    in_flight_low: Option<u32>,
    in_flight_high: Option<u32>,
}

/// 4 ln 2 = 2.773: the least that doubles the rate each round trip.
const STARTUP_GAIN: u64 = UNIT * 2773 / 1000;
const DRAIN_GAIN: u64 = UNIT / 2;
/// Segments with which ACKs keep coming whatever the receiver delays.
const MIN_CWND: u32 = 4;
const PROBE_RTT_TIME: Duration = Duration::from_millis(200);
/// Rounds with losses that end startup.
const STARTUP_LOSSES: u32 = 6;
/// The share by which the rate stays below the estimate, so that queues drain.
const MARGIN_PERCENT: u64 = 1;

// === impl Bbr3 ===

impl Bbr3 {
    pub(crate) fn new(parameters: &Parameters) -> Self {
        let cwnd = parameters.initial_cwnd.max(1);
        let tuning = &parameters.tuning;
        let gains = Gains::new(tuning, STARTUP_GAIN);
        Self {
            mss: parameters.mss.max(1),
            gains,
            probe_rtt_time: tuning.probe_rtt_time.unwrap_or(PROBE_RTT_TIME),
            initial: cwnd,
            cwnd,
            prior_cwnd: 0,
            pacing: initial_pacing(
                cwnd,
                parameters.mss,
                Duration::from_millis(1),
                gains.startup,
            ),
            model: Model::default(),
            cycle: Cycle::new(parameters.seed),
            full: FullPipe::default(),
            probe_rtt: ProbeRtt::default(),
            restarting: false,
            undo: None,
        }
    }

    /// Bandwidth times smallest RTT times `gain`, in segments; the initial window while nothing is known.
    fn product(&self, gain: u64) -> u32 {
        self.model.product(gain).unwrap_or(self.initial)
    }

    /// `product` with room for what hosts bundle (section 5.6.4.2).
    fn in_flight_for(&self, gain: u64) -> u32 {
        self.with_budget(self.product(gain))
    }

    fn with_budget(&self, segments: u32) -> u32 {
        // Two segments, and as many as leave in a millisecond, up to 64 KiB.
        let bundle = (self.pacing.bytes_per_s() / 1000).min(65_536) / u64::from(self.mss);
        let segments = segments.max(narrow(3 * bundle.max(2))).max(MIN_CWND);
        let probing = self.cycle.phase == Phase::Up;
        segments.saturating_add(if probing { 2 } else { 0 })
    }

    fn check_full_pipe(&mut self, ack: &Acknowledgement) {
        let Some(rate) = ack.rate.filter(|rate| !rate.application_limited) else {
            return;
        };
        if self.full.now || !self.model.round_started {
            return;
        }
        let bandwidth = model::bandwidth(&rate);
        if bandwidth >= self.full.bandwidth * 5 / 4 {
            self.reset_full_pipe(bandwidth);
            return;
        }
        self.full.rounds += 1;
        self.full.now = self.full.rounds >= 3;
        self.full.reached |= self.full.now;
    }

    fn reset_full_pipe(&mut self, bandwidth: u64) {
        self.full.bandwidth = bandwidth;
        self.full.rounds = 0;
        self.full.now = false;
    }

    /// Section 5.3.1.3: losses in too many places of one round trip end startup too.
    fn check_startup_losses(&mut self, ack: &Acknowledgement) {
        self.full.losses += u32::from(ack.lost > 0);
        if !self.model.loss_round_started {
            return;
        }
        let many = core::mem::take(&mut self.full.losses) >= STARTUP_LOSSES;
        if !self.full.reached && many && model::is_too_much(ack) {
            self.full.reached = true;
            self.full.now = true;
            let bound = self.product(UNIT).max(self.model.in_flight_latest);
            self.model.in_flight_high = Some(bound);
        }
    }

    fn check_phases(&mut self, ack: &Acknowledgement) {
        if self.cycle.phase == Phase::Startup && self.full.reached {
            self.cycle.phase = Phase::Drain;
        }
        if self.cycle.phase == Phase::Drain && ack.in_flight <= self.in_flight_for(UNIT) {
            self.start_down(ack.now);
        }
        if self.full.reached {
            self.adapt_upper_bound(ack);
            self.advance_cycle(ack);
        }
    }

    /// Section 5.3.3.6, `BBRAdaptLongTermModel`.
    fn adapt_upper_bound(&mut self, ack: &Acknowledgement) {
        let limited = ack.rate.is_none_or(|rate| rate.application_limited);
        if self.model.round_started && self.cycle.on_round(limited) {
            self.model.next_cycle();
        }
        let Some(rate) = ack.rate else { return };
        if model::is_too_much(ack) {
            if self.cycle.samples_probe {
                self.on_too_much(ack.now, rate.sent_in_flight, rate.application_limited);
            }
        } else if let Some(high) = self.model.in_flight_high {
            let mut high = high.max(rate.sent_in_flight);
            if self.cycle.phase == Phase::Up && ack.cwnd_limited && self.cwnd >= high {
                let grown = self.cycle.raise(ack.delivered);
                high = high.saturating_add(grown);
                if self.model.round_started {
                    self.cycle.steepen(self.cwnd);
                }
            }
            self.model.in_flight_high = Some(high);
        }
    }

    /// The probe put more in flight than the path takes (`BBRHandleInflightTooHigh`).
    fn on_too_much(&mut self, now: Time, in_flight: u32, application_limited: bool) {
        self.cycle.samples_probe = false;
        if !application_limited {
            let floor = model::reduced(self.target());
            self.model.in_flight_high = Some(in_flight.max(floor));
        }
        if self.cycle.phase == Phase::Up {
            self.start_down(now);
        }
    }

    fn target(&self) -> u32 {
        self.product(UNIT).min(self.cwnd)
    }

    fn advance_cycle(&mut self, ack: &Acknowledgement) {
        match self.cycle.phase {
            Phase::Down | Phase::Cruise if self.cycle.is_due(ack.now, self.target()) => {
                self.model.forget_lower_bounds();
                self.model.start_round();
                self.cycle.refill();
            }
            Phase::Down => {
                let room = self.model.with_headroom().unwrap_or(u32::MAX);
                if ack.in_flight <= room && ack.in_flight <= self.in_flight_for(UNIT) {
                    self.cycle.phase = Phase::Cruise;
                }
            }
            Phase::Refill if self.model.round_started => {
                self.model.start_round();
                self.reset_full_pipe(ack.rate.as_ref().map_or(0, model::bandwidth));
                self.cycle.go_up(self.cwnd);
            }
            Phase::Up => {
                let high = self.model.in_flight_high;
                if ack.cwnd_limited && high.is_some_and(|high| self.cwnd >= high) {
                    // The bound holds the probe back, not the path.
                    self.reset_full_pipe(ack.rate.as_ref().map_or(0, model::bandwidth));
                } else if self.full.now {
                    self.start_down(ack.now);
                }
            }
            Phase::Startup | Phase::Drain | Phase::Cruise | Phase::Refill | Phase::ProbeRtt => {}
        }
    }

    fn start_down(&mut self, now: Time) {
        self.model.forget_signals();
        self.model.start_round();
        self.cycle.go_down(now);
    }

    fn check_probe_rtt(&mut self, ack: &Acknowledgement) {
        let expired = self.model.update_min_rtt(ack);
        if expired && !self.restarting && self.cycle.phase != Phase::ProbeRtt {
            self.save_cwnd();
            self.cycle.phase = Phase::ProbeRtt;
            self.cycle.stop_probe();
            self.model.start_round();
            self.probe_rtt = ProbeRtt::default();
        }
        if self.cycle.phase == Phase::ProbeRtt {
            match self.probe_rtt.ends_at {
                None if ack.in_flight <= self.probe_rtt_cwnd() => {
                    self.probe_rtt.ends_at = Some(ack.now + self.probe_rtt_time);
                    self.model.start_round();
                }
                None => {}
                Some(_) => {
                    self.probe_rtt.round_done |= self.model.round_started;
                    if self.probe_rtt.round_done {
                        self.check_probe_rtt_done(ack.now);
                    }
                }
            }
        }
        if ack.delivered > 0 {
            self.restarting = false;
        }
    }

    fn check_probe_rtt_done(&mut self, now: Time) {
        if self.probe_rtt.ends_at.is_some_and(|end| now > end) {
            self.model.renew_min_rtt(now);
            self.cwnd = self.cwnd.max(self.prior_cwnd);
            self.model.forget_lower_bounds();
            if self.full.reached {
                self.start_down(now);
                self.cycle.phase = Phase::Cruise;
            } else {
                self.cycle.phase = Phase::Startup;
            }
        }
    }

    fn probe_rtt_cwnd(&self) -> u32 {
        self.product(UNIT / 2).max(MIN_CWND)
    }

    fn save_cwnd(&mut self) {
        let temporary = self.model.loss_in_round || self.cycle.phase == Phase::ProbeRtt;
        self.prior_cwnd = if temporary {
            self.prior_cwnd.max(self.cwnd)
        } else {
            self.cwnd
        };
    }

    fn update_pacing(&mut self) {
        let rate = self.paced(self.cycle.phase.pacing_gain(self.gains));
        if rate.bits_per_s() > 0 && (self.full.reached || rate > self.pacing) {
            self.pacing = rate;
        }
    }

    fn paced(&self, gain: u64) -> Rate {
        let bits = self.model.bits_per_s(self.mss) * u128::from(gain) / u128::from(UNIT);
        let bits = bits * u128::from(100 - MARGIN_PERCENT) / 100;
        Rate::bit_per_s(u64::try_from(bits).unwrap_or(u64::MAX))
    }

    fn update_cwnd(&mut self, ack: &Acknowledgement) {
        let target = self.product(self.cycle.phase.cwnd_gain(self.gains));
        let most = self.with_budget(target.saturating_add(self.model.extra(self.full.reached)));
        let grown = self.cwnd.saturating_add(ack.delivered);
        if self.full.reached {
            self.cwnd = grown.min(most);
        } else if self.cwnd < most || self.model.delivered < u64::from(self.initial) {
            self.cwnd = grown;
        }
        self.cwnd = self.cwnd.max(MIN_CWND);
        if self.cycle.phase == Phase::ProbeRtt {
            self.cwnd = self.cwnd.min(self.probe_rtt_cwnd());
        }
        let bound = match self.cycle.phase {
            Phase::Down | Phase::Refill | Phase::Up => self.model.in_flight_high,
            Phase::Cruise | Phase::ProbeRtt => self.model.with_headroom(),
            Phase::Startup | Phase::Drain => None,
        };
        let bound = bound.unwrap_or(u32::MAX);
        let bound = bound.min(self.model.in_flight_low.unwrap_or(u32::MAX));
        self.cwnd = self.cwnd.min(bound.max(MIN_CWND));
    }
}

impl Controller for Bbr3 {
    fn cwnd(&self) -> u32 {
        self.cwnd
    }

    /// It has none; startup is over when the pipe was once full.
    fn ssthresh(&self) -> u32 {
        if self.full.reached { 1 } else { u32::MAX }
    }

    fn on_ack(&mut self, ack: &Acknowledgement) {
        if !self.model.has_rtt()
            && let Some(rtt) = ack.rtt
        {
            self.pacing = initial_pacing(self.cwnd, self.mss, rtt, self.gains.startup);
        }
        self.model.update(ack, self.cwnd, self.cycle.phase.probes());
        if self.model.round_started {
            self.cycle.rounds += 1;
        }
        self.check_full_pipe(ack);
        self.check_startup_losses(ack);
        self.check_phases(ack);
        self.check_probe_rtt(ack);
        self.model.finish_round(ack);
        self.update_pacing();
        self.update_cwnd(ack);
    }

    fn on_congestion_event(&mut self, _now: Time, _in_flight: u32) {
        self.save_cwnd();
        self.undo = Some(Undo {
            bandwidth_low: self.model.bandwidth_low,
            in_flight_low: self.model.in_flight_low,
            in_flight_high: self.model.in_flight_high,
        });
    }

    fn on_congestion_mark(&mut self, _now: Time, _in_flight: u32) {
        self.model.note_loss();
    }

    fn on_timeout(&mut self, now: Time, in_flight: u32) {
        self.on_congestion_event(now, in_flight);
        self.on_repeated_timeout(now, in_flight);
    }

    fn on_repeated_timeout(&mut self, _now: Time, _in_flight: u32) {
        self.model.note_loss();
        self.cwnd = 1;
    }

    fn on_recovery_end(&mut self, _now: Time) {
        self.cwnd = self.cwnd.max(self.prior_cwnd);
    }

    fn on_idle(&mut self, now: Time, _idle: Duration, _rto: Duration, _restart: bool) {
        self.restarting = true;
        self.model.restart_aggregation(now);
        if self.cycle.phase == Phase::ProbeRtt {
            self.check_probe_rtt_done(now);
        } else if self.full.reached {
            // Silence taught nothing: leave at the estimate, neither probing nor draining.
            self.pacing = self.paced(UNIT);
        }
    }

    fn on_application_limited(&mut self, _used: u32) {}

    /// Section 5.5.11, `BBRHandleSpuriousLossDetection`.
    fn undo(&mut self) {
        self.model.loss_in_round = false;
        self.reset_full_pipe(0);
        self.cwnd = self.cwnd.max(self.prior_cwnd);
        if let Some(before) = self.undo.take() {
            self.model.bandwidth_low = before.bandwidth_low;
            self.model.in_flight_low = before.in_flight_low;
            self.model.in_flight_high = before.in_flight_high;
        }
    }

    fn pacing_rate(&self) -> Option<Rate> {
        Some(self.pacing)
    }

    /// Section 5.3.4.3, `BBRHandleProbeRTT`: low rates of this phase are ignored.
    fn hides_rate(&self) -> bool {
        self.cycle.phase == Phase::ProbeRtt
    }

    fn shapes_recovery(&self) -> bool {
        true
    }

    /// More than others, because it sends on while repairs are under way (`bbr_sndbuf_expand`).
    fn buffered_windows(&self) -> u32 {
        3
    }
}
