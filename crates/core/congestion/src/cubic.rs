use core::time::Duration;

use units::Time;

use crate::algorithm::{Parameters, SlowStart};
use crate::hystart::{CSS_GROWTH_DIVISOR, Detector, HyStartPlusPlus, Verdict};
use crate::window::{Window, narrow};
use crate::{Acknowledgement, Controller};

/// CUBIC (RFC 9438) in the arithmetic of Linux' `tcp_cubic.c`, so that traces of both can be compared
/// segment by segment: time in units of 1/1024 s, beta 717/1024, C 410/1024.
#[derive(Debug)]
pub(crate) struct Cubic {
    window: Window,
    curve: Curve,
    detector: Detector,
    /// The conservative phase's growth, in quarters of a segment.
    quarters: u32,
    min_rtt: Option<Duration>,
    epoch: Option<Epoch>,
    /// `W_max`, the window before the last reduction; zero where there was none.
    last_max: u32,
    /// Segments delivered per segment of growth.
    per: u32,
    updated_at: Time,
    updated_cwnd: u32,
    ended_recovery_at: Option<Time>,
    last_ack_at: Time,
}

/// A stage of congestion avoidance.
#[derive(Clone, Copy, Debug)]
struct Epoch {
    curve: Curve,
    started_at: Time,
    /// K, in 1/1024 s.
    k: u64,
    origin: u32,
    /// The window `NewReno` would have (`W_est`), and segments towards its next one.
    reno: u32,
    reno_credit: u32,
}

/// The two numbers that make the curve, in 1024ths.
#[derive(Clone, Copy, Debug)]
struct Curve {
    beta: u64,
    c: u64,
}

// RFC 9438 section 4.6 asks that beta_cubic be set to 0.7.
const BETA: u32 = 717;
/// C = 410 / 1024 = 0.4 segments per cubic second (RFC 9438 section 5).
const C: u32 = 410;
const SCALE: u64 = 1024;

// === impl Cubic ===

impl Cubic {
    pub(crate) fn new(parameters: &Parameters, slow_start: SlowStart) -> Self {
        let detector = match slow_start {
            SlowStart::Standard => Detector::Off,
            SlowStart::HyStart => Detector::linux(parameters.paced),
            SlowStart::HyStartPlusPlus => Detector::PlusPlus(HyStartPlusPlus::default()),
        };
        Self {
            window: Window::new(parameters),
            curve: Curve {
                beta: parameters.tuning.beta.unwrap_or(BETA).into(),
                c: parameters.tuning.c.unwrap_or(C).max(1).into(),
            },
            detector,
            quarters: 0,
            min_rtt: None,
            epoch: None,
            last_max: 0,
            per: 1,
            updated_at: Time::ZERO,
            updated_cwnd: 0,
            ended_recovery_at: None,
            last_ack_at: Time::ZERO,
        }
    }

    /// Slow start by the detector's verdict; returns the segments that are left of `delivered`.
    fn slow_start(&mut self, verdict: Verdict, delivered: u32) -> u32 {
        if verdict == Verdict::Conservatively {
            self.quarters += delivered;
            let whole = self.quarters / CSS_GROWTH_DIVISOR;
            self.quarters %= CSS_GROWTH_DIVISOR;
            return self.window.slow_start(whole);
        }
        self.window.slow_start(delivered)
    }

    /// How many segments must be delivered per segment of growth (`bictcp_update`).
    fn update(&mut self, now: Time, delivered: u32) {
        let cwnd = self.window.cwnd;
        // Thirty-two times a second is often enough while the window stands still.
        let recent = now.since(self.updated_at) <= Duration::from_micros(31_250);
        if let Some(epoch) = &mut self.epoch {
            epoch.reno_credit = epoch.reno_credit.saturating_add(delivered);
            if self.updated_cwnd == cwnd && recent {
                return;
            }
        }
        self.updated_cwnd = cwnd;
        self.updated_at = now;
        let (last_max, curve) = (self.last_max, self.curve);
        let epoch = self
            .epoch
            .get_or_insert_with(|| Epoch::new(curve, now, cwnd, last_max, delivered));

        // RFC 9438 section 4.2, figure 1: W_cubic(t) is C times the cube of (t - K), plus W_max.
        // The target is that of one RTT ahead, as section 4.2 asks: t is advanced by the smallest RTT.
        let t = scaled(now.since(epoch.started_at) + self.min_rtt.unwrap_or_default());
        let target = epoch.target(t);
        self.per = if target > cwnd {
            cwnd / (target - cwnd)
        } else {
            cwnd.saturating_mul(100)
        };
        // Before the first loss there is no W_max: at least 5 % per round trip.
        if last_max == 0 {
            self.per = self.per.min(20);
        }
        if let Some(reno_per) = epoch.reno_per(cwnd) {
            self.per = self.per.min(reno_per);
        }
        // RFC 9438 section 4.2 bounds the target to 1.5 times the window, which is this.
        self.per = self.per.max(2);
    }

    /// The threshold after a loss; starts a new epoch.
    fn reduced(&mut self) -> u32 {
        self.epoch = None;
        let cwnd = u64::from(self.window.cwnd);
        self.last_max = if self.window.cwnd < self.last_max {
            // Fast convergence, RFC 9438 section 4.7: W_max becomes cwnd * (1 + beta_cubic) / 2.
            narrow(cwnd * (SCALE + self.curve.beta) / (2 * SCALE))
        } else {
            self.window.cwnd
        };
        narrow(cwnd * self.curve.beta / SCALE)
    }

    /// The path may be another one now (`bictcp_reset`).
    fn start_anew(&mut self) {
        self.last_max = 0;
        self.min_rtt = None;
        self.detector.reset();
    }
}

impl Controller for Cubic {
    fn cwnd(&self) -> u32 {
        self.window.cwnd
    }

    fn ssthresh(&self) -> u32 {
        self.window.ssthresh
    }

    fn on_ack(&mut self, ack: &Acknowledgement) {
        self.last_ack_at = ack.now;
        // Samples of the first second after recovery still carry the queue that the loss came from.
        let settled = self
            .ended_recovery_at
            .is_none_or(|at| ack.now.since(at) >= Duration::from_secs(1));
        if let Some(rtt) = ack.rtt.filter(|_| settled) {
            self.min_rtt = Some(self.min_rtt.map_or(rtt, |min| min.min(rtt)));
        }
        let mut verdict = Verdict::Continue;
        if settled && self.window.in_slow_start() {
            verdict = self.detector.on_ack(ack, self.min_rtt, self.window.cwnd);
            if verdict == Verdict::Leave {
                self.window.ssthresh = self.window.cwnd;
            }
        }
        if !(ack.may_grow && ack.cwnd_limited) {
            return;
        }
        let mut rest = ack.delivered;
        if self.window.in_slow_start() {
            rest = self.slow_start(verdict, rest);
            if self.window.in_slow_start() {
                return;
            }
        }
        if rest > 0 {
            self.update(ack.now, rest);
            self.window.grow_linearly(self.per, rest);
        }
    }

    fn on_congestion_event(&mut self, _now: Time, _in_flight: u32) {
        let reduced = self.reduced();
        self.window.reduce_to(reduced);
    }

    fn on_timeout(&mut self, _now: Time, _in_flight: u32) {
        let reduced = self.reduced();
        self.window.collapse(reduced);
        self.start_anew();
    }

    fn on_repeated_timeout(&mut self, _now: Time, _in_flight: u32) {
        self.window.collapse_again();
        self.start_anew();
    }

    fn on_recovery_end(&mut self, now: Time) {
        self.ended_recovery_at = Some(now);
    }

    fn on_idle(&mut self, _now: Time, idle: Duration, rto: Duration, restart: bool) {
        // RFC 9438 section 5.8: time without traffic must not count, or the window would jump.
        if let Some(epoch) = &mut self.epoch {
            epoch.started_at += idle;
        }
        if restart {
            self.window.restart(idle, rto);
        }
    }

    fn on_application_limited(&mut self, used: u32) {
        self.window.follow_application(used);
    }

    fn limit(&mut self, cwnd: u32) {
        self.window.limit(cwnd);
    }

    fn undo(&mut self) {
        self.window.undo();
    }
}

// === impl Curve ===

impl Curve {
    /// alpha of the Reno-friendly region, as segments delivered per window and per segment of growth:
    /// (1 + beta) / (3 (1 - beta)), 1.89 by default, in eighths (`beta_scale`).
    const fn reno_eighths(self) -> u64 {
        8 * (SCALE + self.beta) / 3 / (SCALE - self.beta)
    }
}

// === impl Epoch ===

impl Epoch {
    fn new(curve: Curve, now: Time, cwnd: u32, last_max: u32, delivered: u32) -> Self {
        let missing = last_max.saturating_sub(cwnd);
        //= https://www.rfc-editor.org/rfc/rfc9438#section-4.2
        //# _K_ is the time period that the above function takes to increase the
        //# congestion window size at the beginning of the current congestion
        //# avoidance stage to _W_max_
        // K^3 = (W_max - cwnd) / C in s^3, that is 2^30 times more in (1/1024 s)^3.
        let cube = (u128::from(missing) << 30) * u128::from(SCALE) / u128::from(curve.c);
        Self {
            curve,
            started_at: now,
            k: cube_root(cube),
            origin: last_max.max(cwnd),
            reno: cwnd,
            reno_credit: delivered,
        }
    }

    /// `W_cubic(t)`, `t` in 1/1024 s.
    fn target(&self, t: u64) -> u32 {
        // Half an hour without a loss is beyond any window that fits.
        let distance = u128::from(t.abs_diff(self.k).min(1 << 21));
        let delta = (u128::from(self.curve.c) * distance * distance * distance) >> 40;
        let delta = u32::try_from(delta).unwrap_or(u32::MAX);
        if t < self.k {
            self.origin.saturating_sub(delta)
        } else {
            self.origin.saturating_add(delta)
        }
    }

    /// Growth that keeps up with `NewReno` (RFC 9438 section 4.3), where that is faster.
    fn reno_per(&mut self, cwnd: u32) -> Option<u32> {
        let per = narrow(u64::from(cwnd) * self.curve.reno_eighths() / 8).max(1);
        let grown = self.reno_credit / per;
        self.reno = self.reno.saturating_add(grown);
        self.reno_credit %= per;
        let behind = self.reno.checked_sub(cwnd).filter(|&behind| behind > 0)?;
        Some(cwnd / behind)
    }
}

/// A span in 1/1024 s.
fn scaled(span: Duration) -> u64 {
    span.as_secs() * SCALE + u64::from(span.subsec_nanos()) * SCALE / 1_000_000_000
}

/// The largest integer whose cube is at most `value`, digit by digit; once per epoch.
fn cube_root(value: u128) -> u64 {
    let mut root: u128 = 0;
    for bit in (0..32).rev() {
        let candidate = root | 1 << bit;
        if candidate * candidate * candidate <= value {
            root = candidate;
        }
    }
    // At most 32 bits.
    u64::try_from(root).unwrap_or(u64::MAX)
}

#[cfg(test)]
pub(crate) fn k_seconds(w_max: u32, cwnd: u32) -> f64 {
    let curve = Curve {
        beta: BETA.into(),
        c: C.into(),
    };
    let epoch = Epoch::new(curve, Time::ZERO, cwnd, w_max, 0);
    f64::from(narrow(epoch.k)) / 1024.0
}
