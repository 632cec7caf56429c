use core::time::Duration;

use units::Time;

use crate::max_filter::MaxFilter;
use crate::window::narrow;
use crate::{Acknowledgement, DeliveryRate};

/// What is known of the path: its rate and RTT, and what losses say about how much may be in flight.
#[derive(Debug)]
pub(super) struct Model {
    /// Segments delivered over the connection's life.
    pub(super) delivered: u64,
    /// The ACK at hand begins a round trip.
    pub(super) round_started: bool,
    round_ends_at: u64,
    rounds: u64,
    /// Segments per 2^24 us, largest of this and the last cycle of probing.
    bandwidth: MaxFilter,
    cycles: u64,
    min_rtt: Option<Duration>,
    min_rtt_at: Time,
    /// Smallest RTT since the last time that it was looked for, and when it was seen.
    probed_rtt: Option<Duration>,
    probed_rtt_at: Time,
    /// Something was lost in this round trip, and the ACK at hand begins the next of those.
    pub(super) loss_in_round: bool,
    pub(super) loss_round_started: bool,
    loss_round_ends_at: u64,
    /// Largest of the present round trip.
    bandwidth_latest: u64,
    pub(super) in_flight_latest: u32,
    /// Bounds for the present cycle, where losses have set them.
    pub(super) bandwidth_low: Option<u64>,
    pub(super) in_flight_low: Option<u32>,
    /// Bound for the next probe (`BBR.inflight_longterm`).
    pub(super) in_flight_high: Option<u32>,
    aggregation_since: Time,
    aggregated: u64,
    extra: MaxFilter,
}

const BANDWIDTH_SHIFT: u32 = 24;
const MIN_RTT_WINDOW: Duration = Duration::from_secs(10);
const PROBE_RTT_INTERVAL: Duration = Duration::from_secs(5);
const AGGREGATION_ROUNDS: u64 = 10;

// === impl Model ===

impl Model {
    pub(super) fn has_rtt(&self) -> bool {
        self.min_rtt.is_some()
    }

    pub(super) fn bandwidth(&self) -> u64 {
        let most = self.bandwidth.max();
        self.bandwidth_low.map_or(most, |low| low.min(most))
    }

    pub(super) fn bits_per_s(&self, mss: u32) -> u128 {
        (u128::from(self.bandwidth()) * u128::from(mss) * 8_000_000) >> BANDWIDTH_SHIFT
    }

    /// Bandwidth times smallest RTT times `gain` 256ths, in segments.
    pub(super) fn product(&self, gain: u64) -> Option<u32> {
        let min_rtt = self.min_rtt?;
        let segments = u128::from(self.bandwidth()) * min_rtt.as_micros() * u128::from(gain);
        let unit = 1_u128 << (BANDWIDTH_SHIFT + 8);
        Some(u32::try_from(segments.div_ceil(unit)).unwrap_or(u32::MAX))
    }

    /// The upper bound less what is left to others: 15 % (`BBRInflightWithHeadroom`).
    pub(super) fn with_headroom(&self) -> Option<u32> {
        let high = self.in_flight_high?;
        let room = u32::try_from(u64::from(high) * 15 / 100).unwrap_or(u32::MAX);
        Some(high.saturating_sub(room.max(1)).max(super::MIN_CWND))
    }

    /// How much more than expected ACKs report at once; at most what 100 ms deliver.
    pub(super) fn extra(&self, known: bool) -> u32 {
        if !known {
            return 0;
        }
        let most = (u128::from(self.bandwidth()) * 100_000) >> BANDWIDTH_SHIFT;
        narrow(self.extra.max()).min(u32::try_from(most).unwrap_or(u32::MAX))
    }

    /// Takes an ACK; `probing` says whether more is asked of the path than it is known to carry.
    pub(super) fn update(&mut self, ack: &Acknowledgement, cwnd: u32, probing: bool) {
        self.delivered += u64::from(ack.delivered);
        self.round_started = false;
        self.loss_round_started = false;
        if ack.lost > 0 {
            self.note_loss();
        }
        if let Some(rate) = &ack.rate {
            self.bandwidth_latest = self.bandwidth_latest.max(bandwidth(rate));
            self.in_flight_latest = self.in_flight_latest.max(rate.delivered);
            if rate.prior_delivered >= self.loss_round_ends_at {
                self.loss_round_ends_at = self.delivered;
                self.loss_round_started = true;
            }
            if rate.prior_delivered >= self.round_ends_at {
                self.start_round();
                self.rounds += 1;
                self.round_started = true;
            }
            let sample = bandwidth(rate);
            if !rate.application_limited || sample >= self.bandwidth.max() {
                self.bandwidth.push(self.cycles, sample);
            }
        }
        if self.loss_round_started {
            if self.loss_in_round && !probing {
                self.lower_bounds(cwnd);
            }
            self.loss_in_round = false;
        }
        self.update_aggregation(ack, cwnd);
    }

    /// The last step of an ACK: a new round trip takes its own latest values.
    pub(super) fn finish_round(&mut self, ack: &Acknowledgement) {
        if self.loss_round_started {
            self.bandwidth_latest = ack.rate.as_ref().map_or(0, bandwidth);
            self.in_flight_latest = ack.rate.map_or(0, |rate| rate.delivered);
        }
    }

    pub(super) const fn note_loss(&mut self) {
        if !self.loss_in_round {
            self.loss_round_ends_at = self.delivered;
        }
        self.loss_in_round = true;
    }

    pub(super) const fn start_round(&mut self) {
        self.round_ends_at = self.delivered;
    }

    pub(super) const fn next_cycle(&mut self) {
        self.cycles += 1;
    }

    pub(super) const fn forget_signals(&mut self) {
        self.loss_in_round = false;
        self.bandwidth_latest = 0;
        self.in_flight_latest = 0;
    }

    pub(super) const fn forget_lower_bounds(&mut self) {
        self.bandwidth_low = None;
        self.in_flight_low = None;
    }

    /// A round trip with losses outside of a probe: 30 % less than before, or what was delivered
    /// (section 5.5.10.3).
    fn lower_bounds(&mut self, cwnd: u32) {
        let rate = self.bandwidth_low.unwrap_or_else(|| self.bandwidth.max());
        self.bandwidth_low = Some(self.bandwidth_latest.max(rate * 7 / 10));
        let in_flight = self.in_flight_low.unwrap_or(cwnd);
        self.in_flight_low = Some(self.in_flight_latest.max(reduced(in_flight)));
    }

    /// Returns whether the RTT is to be looked for again (section 5.3.4.3).
    pub(super) fn update_min_rtt(&mut self, ack: &Acknowledgement) -> bool {
        let expired = ack.now > self.probed_rtt_at + PROBE_RTT_INTERVAL;
        if let Some(rtt) = ack.rtt
            && (expired || self.probed_rtt.is_none_or(|known| rtt < known))
        {
            self.probed_rtt = Some(rtt);
            self.probed_rtt_at = ack.now;
        }
        let outdated = ack.now > self.min_rtt_at + MIN_RTT_WINDOW;
        if let Some(probed) = self.probed_rtt
            && (outdated || self.min_rtt.is_none_or(|known| probed < known))
        {
            self.min_rtt = Some(probed);
            self.min_rtt_at = self.probed_rtt_at;
        }
        expired && self.min_rtt.is_some() && self.rounds > 0
    }

    pub(super) const fn renew_min_rtt(&mut self, now: Time) {
        self.probed_rtt_at = now;
    }

    pub(super) const fn restart_aggregation(&mut self, now: Time) {
        self.aggregation_since = now;
        self.aggregated = 0;
    }

    fn update_aggregation(&mut self, ack: &Acknowledgement, cwnd: u32) {
        let elapsed = ack.now.since(self.aggregation_since).as_micros();
        let expected = (u128::from(self.bandwidth()) * elapsed) >> BANDWIDTH_SHIFT;
        let mut expected = u64::try_from(expected).unwrap_or(u64::MAX);
        if self.aggregated <= expected {
            self.restart_aggregation(ack.now);
            expected = 0;
        }
        self.aggregated += u64::from(ack.delivered);
        let extra = self.aggregated.saturating_sub(expected);
        self.extra.push(self.rounds, extra.min(u64::from(cwnd)));
    }
}

impl Default for Model {
    fn default() -> Self {
        Self {
            delivered: 0,
            round_started: false,
            round_ends_at: 0,
            rounds: 0,
            bandwidth: MaxFilter::new(1),
            cycles: 0,
            min_rtt: None,
            min_rtt_at: Time::ZERO,
            probed_rtt: None,
            probed_rtt_at: Time::ZERO,
            loss_in_round: false,
            loss_round_started: false,
            loss_round_ends_at: 0,
            bandwidth_latest: 0,
            in_flight_latest: 0,
            bandwidth_low: None,
            in_flight_low: None,
            in_flight_high: None,
            aggregation_since: Time::ZERO,
            aggregated: 0,
            extra: MaxFilter::new(AGGREGATION_ROUNDS),
        }
    }
}

/// Segments per 2^24 us.
pub(super) fn bandwidth(rate: &DeliveryRate) -> u64 {
    let micros = u64::try_from(rate.interval.as_micros()).unwrap_or(u64::MAX);
    (u64::from(rate.delivered) << BANDWIDTH_SHIFT)
        .checked_div(micros)
        .unwrap_or(0)
}

/// Whether more than 2 % of what was in flight when the newest delivered segment left has been lost since.
pub(super) fn is_too_much(ack: &Acknowledgement) -> bool {
    ack.rate
        .is_some_and(|rate| u64::from(rate.lost) * 50 > u64::from(rate.sent_in_flight))
}

/// `BBR.Beta`: 0.7 of `segments`.
pub(super) fn reduced(segments: u32) -> u32 {
    u32::try_from(u64::from(segments) * 7 / 10).unwrap_or(u32::MAX)
}
