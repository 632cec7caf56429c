use core::time::Duration;

use units::Time;

use super::DRAIN_GAIN;
use crate::pacing::{Gains, UNIT};

/// Where the sender stands (section 5.3).
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Phase {
    /// The rate doubles each round trip.
    Startup,
    /// What startup queued drains.
    Drain,
    /// Bandwidth probing: what the last probe queued drains, with headroom for others.
    Down,
    /// At the estimate.
    Cruise,
    /// The pipe is filled again, before a probe.
    Refill,
    /// More than the estimate, until the rate grows no more or something is lost.
    Up,
    /// Little in flight, so that the RTT is that of empty queues.
    ProbeRtt,
}

/// Which samples ACKs bring now (section 5.3.3.6).
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Samples {
    None,
    /// Of a probe that has begun.
    Starting,
    /// Of the probe.
    Probe,
    /// Of a probe that has ended.
    Stopping,
}

/// Bandwidth probing in turns.
#[derive(Debug)]
pub(super) struct Cycle {
    pub(super) phase: Phase,
    /// Whether losses tell of a probe.
    pub(super) samples_probe: bool,
    /// Round trips since the last probe.
    pub(super) rounds: u32,
    samples: Samples,
    wait: Duration,
    since: Time,
    random: u64,
    /// Segments to be delivered for the bound to grow by one; how many were; rounds that it has grown.
    per: u32,
    acks: u32,
    growth: u32,
}

/// A flow probes at least as often as a Reno flow of the same window would lose (section 5.3.3.5.3).
const MOST_ROUNDS: u32 = 63;

// === impl Phase ===

impl Phase {
    pub(super) const fn pacing_gain(self, gains: Gains) -> u64 {
        match self {
            Self::Startup => gains.startup,
            Self::Drain => DRAIN_GAIN,
            Self::Down => UNIT * 9 / 10,
            Self::Cruise | Self::Refill | Self::ProbeRtt => UNIT,
            Self::Up => UNIT * 5 / 4,
        }
    }

    pub(super) const fn cwnd_gain(self, gains: Gains) -> u64 {
        match self {
            Self::Up => gains.cwnd + UNIT / 4,
            Self::ProbeRtt => UNIT / 2,
            Self::Startup | Self::Drain | Self::Down | Self::Cruise | Self::Refill => gains.cwnd,
        }
    }

    /// Whether more is asked of the path than it is known to carry.
    pub(super) const fn probes(self) -> bool {
        matches!(self, Self::Startup | Self::Refill | Self::Up)
    }
}

// === impl Cycle ===

impl Cycle {
    pub(super) const fn new(seed: u64) -> Self {
        Self {
            phase: Phase::Startup,
            samples_probe: false,
            rounds: 0,
            samples: Samples::None,
            wait: Duration::ZERO,
            since: Time::ZERO,
            random: seed,
            per: u32::MAX,
            acks: 0,
            growth: 0,
        }
    }

    /// A round trip has begun; returns whether the samples of a probe have ended, so that the filter of the
    /// bandwidth may go on to the next cycle.
    pub(super) fn on_round(&mut self, application_limited: bool) -> bool {
        match self.samples {
            Samples::Starting => {
                self.samples = Samples::Probe;
                false
            }
            Samples::Stopping => {
                self.samples = Samples::None;
                !application_limited && self.phase != Phase::ProbeRtt
            }
            Samples::None | Samples::Probe => false,
        }
    }

    /// Whether the next probe is due.
    pub(super) fn is_due(&self, now: Time, target: u32) -> bool {
        now.since(self.since) > self.wait || self.rounds >= target.min(MOST_ROUNDS)
    }

    pub(super) fn go_down(&mut self, now: Time) {
        // Two to three seconds, and by up to one round trip, so that flows do not probe together.
        let draw = self.draw();
        self.rounds = u32::from(draw & 1 == 1);
        self.wait = Duration::from_millis(2_000 + (draw >> 33) % 1_000);
        self.since = now;
        self.per = u32::MAX;
        self.stop_probe();
        self.phase = Phase::Down;
    }

    pub(super) const fn stop_probe(&mut self) {
        self.samples = Samples::Stopping;
    }

    pub(super) const fn refill(&mut self) {
        self.growth = 0;
        self.acks = 0;
        self.samples = Samples::None;
        self.phase = Phase::Refill;
    }

    pub(super) fn go_up(&mut self, cwnd: u32) {
        self.samples = Samples::Starting;
        self.samples_probe = true;
        self.phase = Phase::Up;
        self.rounds = 0;
        self.steepen(cwnd);
    }

    /// By how much the bound grows for `delivered` segments.
    pub(super) const fn raise(&mut self, delivered: u32) -> u32 {
        self.acks = self.acks.saturating_add(delivered);
        let grown = self.acks / self.per;
        self.acks %= self.per;
        grown
    }

    /// The bound grows by twice as much in the next round trip (`BBRRaiseInflightLongtermSlope`).
    pub(super) fn steepen(&mut self, cwnd: u32) {
        self.per = (cwnd >> self.growth).max(1);
        self.growth = (self.growth + 1).min(30);
    }

    /// xorshift64*: a draw per probe needs no better.
    const fn draw(&mut self) -> u64 {
        let mut x = self.random | 1;
        x ^= x >> 12;
        x ^= x << 25;
        x ^= x >> 27;
        self.random = x;
        x.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }
}
