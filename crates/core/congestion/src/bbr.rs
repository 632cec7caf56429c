mod long_term;

use core::time::Duration;

use units::{Rate, Time};

use crate::algorithm::Parameters;
use crate::max_filter::MaxFilter;
use crate::pacing::{Gains, UNIT, initial_pacing};
use crate::window::narrow;
use crate::{Acknowledgement, Controller, DeliveryRate};
use long_term::{Count, LongTerm, News};

/// BBR version 1 (Cardwell and others, ACM Queue 14(5), 2016) as Linux has it (`tcp_bbr.c`): a model of
/// the path from its largest delivery rate and smallest RTT, probed in turns.
#[derive(Debug)]
pub(crate) struct Bbr {
    mss: u32,
    gains: Gains,
    min_rtt_window: Duration,
    probe_rtt_time: Duration,
    mode: Mode,
    cwnd: u32,
    prior_cwnd: u32,
    ssthresh: u32,
    pacing: Rate,
    /// Segments per 2^24 us, largest of the last ten round trips.
    bandwidth: MaxFilter,
    min_rtt: Option<Duration>,
    min_rtt_at: Time,
    round: Rounds,
    full: FullPipe,
    cycle: Cycle,
    aggregation: Aggregation,
    probe_rtt: ProbeRtt,
    recovery: Recovery,
    long_term: LongTerm,
    count: Count,
    /// Data leaves after silence: the silence must not pass for an expired filter.
    restarting: bool,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Mode {
    Startup,
    Drain,
    ProbeBandwidth,
    ProbeRtt,
}

#[derive(Clone, Copy, Debug, Default)]
struct Rounds {
    count: u64,
    /// The round ends when a segment sent after so many deliveries is delivered.
    ends_at: u64,
    started: bool,
}

#[derive(Clone, Copy, Debug, Default)]
struct FullPipe {
    bandwidth: u64,
    rounds: u32,
    reached: bool,
}

#[derive(Clone, Copy, Debug)]
struct Cycle {
    phase: usize,
    started_at: Time,
    random: u64,
}

/// How much more than expected ACKs report at once, because receivers and links bundle them.
#[derive(Debug)]
struct Aggregation {
    since: Time,
    delivered: u64,
    extra: MaxFilter,
}

#[derive(Clone, Copy, Debug, Default)]
struct ProbeRtt {
    ends_at: Option<Time>,
    round_done: bool,
}

#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
struct Recovery {
    under_way: bool,
    /// It has begun, and no ACK has come since.
    beginning: bool,
    /// The first round of recovery sends one segment per segment delivered.
    conserving: bool,
}

const BANDWIDTH_SHIFT: u32 = 24;
/// 2 / ln 2 (`bbr_high_gain`): the least that doubles the rate each round trip.
const HIGH_GAIN: u64 = UNIT * 2885 / 1000 + 1;
const DRAIN_GAIN: u64 = UNIT * 1000 / 2885;
const CYCLE: [u64; 8] = [
    UNIT * 5 / 4,
    UNIT * 3 / 4,
    UNIT,
    UNIT,
    UNIT,
    UNIT,
    UNIT,
    UNIT,
];
const BANDWIDTH_ROUNDS: u64 = 10;
const MIN_RTT_WINDOW: Duration = Duration::from_secs(10);
const PROBE_RTT_TIME: Duration = Duration::from_millis(200);
/// Enough for delayed ACKs to keep the clock going.
const MIN_CWND: u32 = 4;
const AGGREGATION_ROUNDS: u64 = 5;
/// `bbr_pacing_margin_percent`: a little below the estimate, so that queues drain.
const MARGIN_PERCENT: u64 = 1;

// === impl Bbr ===

impl Bbr {
    pub(crate) fn new(parameters: &Parameters) -> Self {
        let cwnd = parameters.initial_cwnd.max(1);
        let tuning = &parameters.tuning;
        let gains = Gains::new(tuning, HIGH_GAIN);
        Self {
            mss: parameters.mss.max(1),
            gains,
            min_rtt_window: tuning.min_rtt_window.unwrap_or(MIN_RTT_WINDOW),
            probe_rtt_time: tuning.probe_rtt_time.unwrap_or(PROBE_RTT_TIME),
            mode: Mode::Startup,
            cwnd,
            prior_cwnd: 0,
            ssthresh: u32::MAX,
            pacing: initial_pacing(
                cwnd,
                parameters.mss,
                Duration::from_millis(1),
                gains.startup,
            ),
            bandwidth: MaxFilter::new(BANDWIDTH_ROUNDS),
            min_rtt: None,
            min_rtt_at: Time::ZERO,
            round: Rounds::default(),
            full: FullPipe::default(),
            cycle: Cycle {
                phase: 0,
                started_at: Time::ZERO,
                random: parameters.seed,
            },
            aggregation: Aggregation {
                since: Time::ZERO,
                delivered: 0,
                extra: MaxFilter::new(AGGREGATION_ROUNDS),
            },
            probe_rtt: ProbeRtt::default(),
            recovery: Recovery::default(),
            long_term: LongTerm::default(),
            count: Count::default(),
            restarting: false,
        }
    }

    fn pacing_gain(&self) -> u64 {
        match self.mode {
            Mode::Startup => self.gains.startup,
            Mode::Drain => DRAIN_GAIN,
            // A policer drops what exceeds its rate: probing only costs.
            Mode::ProbeBandwidth if self.long_term.bandwidth().is_some() => UNIT,
            Mode::ProbeBandwidth => CYCLE[self.cycle.phase % CYCLE.len()],
            Mode::ProbeRtt => UNIT,
        }
    }

    fn cwnd_gain(&self) -> u64 {
        match self.mode {
            Mode::Startup | Mode::Drain => self.gains.startup,
            Mode::ProbeBandwidth => self.gains.cwnd,
            Mode::ProbeRtt => UNIT,
        }
    }

    /// What the path is taken to carry (`bbr_bw`); [`bandwidth`](Self::bandwidth) is what it was seen to.
    fn believed(&self) -> u64 {
        let policed = self.long_term.bandwidth();
        policed.unwrap_or_else(|| self.bandwidth.max())
    }

    /// `gain` times `bandwidth` times smallest RTT, in segments (`bbr_bdp`).
    fn product(&self, bandwidth: u64, gain: u64) -> u32 {
        let Some(min_rtt) = self.min_rtt else {
            // Nothing known yet: the initial window.
            return self.cwnd.min(10);
        };
        let segments = u128::from(bandwidth) * min_rtt.as_micros() * u128::from(gain);
        let unit = 1_u128 << (BANDWIDTH_SHIFT + 8);
        u32::try_from(segments.div_ceil(unit)).unwrap_or(u32::MAX)
    }

    /// What must be in flight to keep bundles of ACKs and segments from emptying the path
    /// (`bbr_quantization_budget`).
    fn budget(&self, cwnd: u32) -> u32 {
        let bundle = self.pacing.bytes_per_s() >> 10;
        let least = if self.pacing.bits_per_s() < 1_200_000 {
            1
        } else {
            2
        };
        let segments = (bundle.min(65_536) / u64::from(self.mss)).max(least);
        let roomy = cwnd.saturating_add(narrow(3 * segments));
        let even = roomy.saturating_add(1) & !1;
        if self.mode == Mode::ProbeBandwidth && self.cycle.phase == 0 {
            return even.saturating_add(2);
        }
        even
    }

    fn inflight(&self, gain: u64) -> u32 {
        self.budget(self.product(self.bandwidth.max(), gain))
    }

    fn update_bandwidth(&mut self, ack: &Acknowledgement, sample: &DeliveryRate) {
        let micros = u64::try_from(sample.interval.as_micros()).unwrap_or(u64::MAX);
        if sample.prior_delivered >= self.round.ends_at {
            self.start_round(sample.total_delivered);
            self.round.count += 1;
            self.round.started = true;
            self.recovery.conserving = false;
        }
        self.look_for_policer(ack.now, ack.lost > 0, sample.application_limited);
        let Some(bandwidth) = (u64::from(sample.delivered) << BANDWIDTH_SHIFT).checked_div(micros)
        else {
            return;
        };
        if !sample.application_limited || bandwidth >= self.bandwidth.max() {
            self.bandwidth.push(self.round.count, bandwidth);
        }
    }

    fn look_for_policer(&mut self, now: Time, lost: bool, application_limited: bool) {
        let news = News {
            lost,
            application_limited,
            round_started: self.round.started,
            probing: self.mode == Mode::ProbeBandwidth,
        };
        if self.long_term.update(self.count, news, self.mss) {
            self.probe_bandwidth(now);
        }
    }

    fn start_round(&mut self, total_delivered: u64) {
        self.round.ends_at = total_delivered;
    }

    fn update_aggregation(&mut self, ack: &Acknowledgement) {
        let elapsed = ack.now.since(self.aggregation.since).as_micros();
        let expected = (u128::from(self.believed()) * elapsed) >> BANDWIDTH_SHIFT;
        let expected = u64::try_from(expected).unwrap_or(u64::MAX);
        if self.aggregation.delivered <= expected {
            self.aggregation.since = ack.now;
            self.aggregation.delivered = 0;
        }
        self.aggregation.delivered += u64::from(ack.delivered);
        let expected = if self.aggregation.since == ack.now {
            0
        } else {
            expected
        };
        let extra = (self.aggregation.delivered - expected.min(self.aggregation.delivered))
            .min(u64::from(self.cwnd));
        self.aggregation.extra.push(self.round.count, extra);
    }

    /// At most what 100 ms deliver.
    fn aggregation_cwnd(&self) -> u32 {
        if !self.full.reached {
            return 0;
        }
        let most = (u128::from(self.believed()) * 100_000) >> BANDWIDTH_SHIFT;
        narrow(self.aggregation.extra.max()).min(u32::try_from(most).unwrap_or(u32::MAX))
    }

    fn update_cycle(&mut self, ack: &Acknowledgement) {
        if self.mode != Mode::ProbeBandwidth {
            return;
        }
        let full_length = ack.now.since(self.cycle.started_at) > self.min_rtt.unwrap_or_default();
        let gain = self.pacing_gain();
        let before = ack.in_flight_before;
        let next = match gain.cmp(&UNIT) {
            core::cmp::Ordering::Equal => full_length,
            core::cmp::Ordering::Greater => {
                full_length && (ack.lost > 0 || before >= self.inflight(gain))
            }
            core::cmp::Ordering::Less => full_length || before <= self.inflight(UNIT),
        };
        if next {
            self.advance_cycle(ack.now);
        }
    }

    fn advance_cycle(&mut self, now: Time) {
        self.cycle.phase = (self.cycle.phase + 1) % CYCLE.len();
        self.cycle.started_at = now;
    }

    /// Any phase may be first except the one that drains.
    fn probe_bandwidth(&mut self, now: Time) {
        self.mode = Mode::ProbeBandwidth;
        // xorshift64*: one draw per connection needs no better.
        let mut x = self.cycle.random | 1;
        x ^= x >> 12;
        x ^= x << 25;
        x ^= x >> 27;
        self.cycle.random = x;
        let draw = (x.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33) % 7;
        self.cycle.phase = CYCLE.len() - 1 - usize::try_from(draw).unwrap_or(0);
        self.advance_cycle(now);
    }

    fn check_full_pipe(&mut self, sample: &DeliveryRate) {
        if self.full.reached || !self.round.started || sample.application_limited {
            return;
        }
        if self.bandwidth.max() >= self.full.bandwidth * 5 / 4 {
            self.full.bandwidth = self.bandwidth.max();
            self.full.rounds = 0;
            return;
        }
        self.full.rounds += 1;
        self.full.reached = self.full.rounds >= 3;
    }

    fn check_drain(&mut self, ack: &Acknowledgement) {
        if self.mode == Mode::Startup && self.full.reached {
            self.mode = Mode::Drain;
            self.ssthresh = self.inflight(UNIT);
        }
        if self.mode == Mode::Drain && ack.in_flight <= self.inflight(UNIT) {
            self.probe_bandwidth(ack.now);
        }
    }

    fn update_min_rtt(&mut self, ack: &Acknowledgement) {
        let expired = ack.now > self.min_rtt_at + self.min_rtt_window;
        // Linux takes an equal one as well. Its samples differ by microseconds; exact ones are equal after
        // each draining, and would put `PROBE_RTT` off for ever.
        if let Some(rtt) = ack.rtt
            && (expired || self.min_rtt.is_none_or(|min| rtt < min))
        {
            self.min_rtt = Some(rtt);
            self.min_rtt_at = ack.now;
        }
        if expired && !self.restarting && self.mode != Mode::ProbeRtt {
            self.mode = Mode::ProbeRtt;
            self.save_cwnd();
            self.probe_rtt = ProbeRtt::default();
        }
        if self.mode == Mode::ProbeRtt {
            match self.probe_rtt.ends_at {
                None if ack.in_flight <= MIN_CWND => {
                    self.probe_rtt.ends_at = Some(ack.now + self.probe_rtt_time);
                    if let Some(rate) = ack.rate {
                        self.start_round(rate.total_delivered);
                    }
                }
                None => {}
                Some(_) => {
                    self.probe_rtt.round_done |= self.round.started;
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
            self.min_rtt_at = now;
            self.cwnd = self.cwnd.max(self.prior_cwnd);
            if self.full.reached {
                self.probe_bandwidth(now);
            } else {
                self.mode = Mode::Startup;
            }
        }
    }

    fn save_cwnd(&mut self) {
        self.prior_cwnd = if self.recovery.under_way || self.mode == Mode::ProbeRtt {
            self.prior_cwnd.max(self.cwnd)
        } else {
            self.cwnd
        };
    }

    fn update_pacing(&mut self) {
        let rate = self.paced(self.pacing_gain());
        if rate.bits_per_s() > 0 && (self.full.reached || rate > self.pacing) {
            self.pacing = rate;
        }
    }

    fn paced(&self, gain: u64) -> Rate {
        let bits = u128::from(self.believed()) * u128::from(self.mss) * 8 * 1_000_000;
        let bits = (bits * u128::from(gain) / u128::from(UNIT)) >> BANDWIDTH_SHIFT;
        // Dividing 64 bits is many times faster than dividing 128, and no rate needs more.
        let bits = u64::try_from(bits).unwrap_or(u64::MAX);
        Rate::bit_per_s(
            bits / 100 * (100 - MARGIN_PERCENT) + bits % 100 * (100 - MARGIN_PERCENT) / 100,
        )
    }

    fn update_cwnd(&mut self, ack: &Acknowledgement) {
        if ack.delivered > 0 {
            self.cwnd = self.next_cwnd(ack);
        }
        if self.mode == Mode::ProbeRtt {
            self.cwnd = self.cwnd.min(MIN_CWND);
        }
    }

    fn next_cwnd(&mut self, ack: &Acknowledgement) -> u32 {
        let mut cwnd = self.cwnd;
        if ack.lost > 0 {
            cwnd = cwnd.saturating_sub(ack.lost).max(1);
        }
        if self.recovery.beginning {
            // The round begins anew: a flow that loses something in each of them would otherwise take
            // a rate that still grows for the path's (`bbr_set_cwnd_to_recover_or_restore`).
            self.recovery.beginning = false;
            self.recovery.conserving = true;
            self.start_round(self.count.delivered);
            cwnd = ack.in_flight.saturating_add(ack.delivered);
        }
        if self.recovery.conserving {
            // The first round of recovery ends one round trip after it began.
            return cwnd.max(ack.in_flight.saturating_add(ack.delivered));
        }
        let target = self
            .product(self.believed(), self.cwnd_gain())
            .saturating_add(self.aggregation_cwnd());
        let target = self.budget(target);
        let grown = cwnd.saturating_add(ack.delivered);
        let total = ack.rate.map_or(0, |rate| rate.total_delivered);
        if self.full.reached {
            cwnd = grown.min(target);
        } else if cwnd < target || total < 10 {
            cwnd = grown;
        }
        cwnd.max(MIN_CWND)
    }
}

impl Controller for Bbr {
    fn cwnd(&self) -> u32 {
        self.cwnd
    }

    fn ssthresh(&self) -> u32 {
        self.ssthresh
    }

    fn on_ack(&mut self, ack: &Acknowledgement) {
        self.round.started = false;
        self.count.delivered += u64::from(ack.delivered);
        self.count.lost += u64::from(ack.lost);
        if ack.delivered > 0 {
            self.count.at = ack.now;
        }
        if self.min_rtt.is_none()
            && let Some(rtt) = ack.rtt
        {
            self.pacing = initial_pacing(self.cwnd, self.mss, rtt, self.gains.startup);
            self.min_rtt_at = ack.now;
        }
        if let Some(sample) = &ack.rate {
            self.update_bandwidth(ack, sample);
            self.update_aggregation(ack);
            self.update_cycle(ack);
            self.check_full_pipe(sample);
        }
        self.check_drain(ack);
        self.update_min_rtt(ack);
        self.update_pacing();
        self.update_cwnd(ack);
    }

    fn on_congestion_event(&mut self, _now: Time, _in_flight: u32) {
        self.save_cwnd();
        self.recovery = Recovery {
            under_way: true,
            beginning: true,
            conserving: false,
        };
    }

    /// Version 1 does not listen to marks (Linux: `bbr_main` never looks at them).
    fn on_congestion_mark(&mut self, _now: Time, _in_flight: u32) {}

    fn on_timeout(&mut self, now: Time, in_flight: u32) {
        self.save_cwnd();
        self.recovery.conserving = false;
        self.on_repeated_timeout(now, in_flight);
    }

    fn on_repeated_timeout(&mut self, now: Time, in_flight: u32) {
        self.count.lost += u64::from(in_flight);
        self.recovery.under_way = true;
        self.recovery.beginning = false;
        self.full.bandwidth = 0;
        self.round.started = true;
        self.look_for_policer(now, true, false);
        self.cwnd = 1;
    }

    fn on_recovery_end(&mut self, _now: Time) {
        self.cwnd = self.cwnd.max(self.prior_cwnd);
        self.recovery = Recovery::default();
    }

    fn on_idle(&mut self, now: Time, _idle: Duration, _rto: Duration, _restart: bool) {
        self.restarting = true;
        self.aggregation.since = now;
        self.aggregation.delivered = 0;
        if self.mode == Mode::ProbeBandwidth {
            // Silence taught nothing: leave at the estimate, neither probing nor draining.
            self.pacing = self.paced(UNIT);
        } else if self.mode == Mode::ProbeRtt {
            self.check_probe_rtt_done(now);
        }
    }

    fn on_application_limited(&mut self, _used: u32) {}

    fn undo(&mut self) {
        // Losses that were none may have hidden a rate that still grows.
        self.full.bandwidth = 0;
        self.full.rounds = 0;
        self.long_term.reset();
        self.cwnd = self.cwnd.max(self.prior_cwnd);
    }

    fn pacing_rate(&self) -> Option<Rate> {
        Some(self.pacing)
    }

    fn hides_rate(&self) -> bool {
        self.mode == Mode::ProbeRtt
    }

    fn shapes_recovery(&self) -> bool {
        true
    }

    /// More than others, because it sends on while repairs are under way (`bbr_sndbuf_expand`).
    fn buffered_windows(&self) -> u32 {
        3
    }
}
