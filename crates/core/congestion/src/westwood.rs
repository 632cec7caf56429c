use core::time::Duration;

use units::Time;

use crate::algorithm::Parameters;
use crate::window::Window;
use crate::{Acknowledgement, Controller};

/// Westwood+ (Grieco and Mascolo, CCR 34(2), 2004; Linux `tcp_westwood.c`): grows as `NewReno`, but at
/// a loss falls to what the path was measured to deliver per smallest RTT, not to one half.
#[derive(Debug)]
pub(crate) struct WestwoodPlus {
    window: Window,
    /// Start of the window in which deliveries are counted.
    counting_since: Option<Time>,
    counted: u64,
    /// Segments per 2^20 s, filtered once and twice.
    rate_once: u64,
    rate: u64,
    latest_rtt: Duration,
    min_rtt: Option<Duration>,
}

/// Deliveries are counted over one RTT, but at least this long (`TCP_WESTWOOD_RTT_MIN`), because over
/// less the rate of a burst is mistaken for the path's.
const MIN_COUNTING: Duration = Duration::from_millis(50);
const RATE_SHIFT: u32 = 20;

// === impl WestwoodPlus ===

impl WestwoodPlus {
    pub(crate) fn new(parameters: &Parameters) -> Self {
        Self {
            window: Window::new(parameters),
            counting_since: None,
            counted: 0,
            rate_once: 0,
            rate: 0,
            latest_rtt: Duration::ZERO,
            min_rtt: None,
        }
    }

    /// What the path delivers per smallest RTT, in segments.
    fn bandwidth_delay_product(&self) -> u32 {
        let min_rtt = self.min_rtt.unwrap_or_default().as_nanos();
        let segments = (u128::from(self.rate) * min_rtt / 1_000_000_000) >> RATE_SHIFT;
        u32::try_from(segments).unwrap_or(u32::MAX)
    }

    fn measure(&mut self, ack: &Acknowledgement) {
        if let Some(rtt) = ack.rtt {
            self.latest_rtt = rtt;
            self.min_rtt = Some(self.min_rtt.map_or(rtt, |min| min.min(rtt)));
        }
        self.counted += u64::from(ack.delivered);
        let since = *self.counting_since.get_or_insert(ack.now);
        let span = ack.now.since(since);
        if span <= self.latest_rtt.max(MIN_COUNTING) {
            return;
        }
        let sample = (u128::from(self.counted) << RATE_SHIFT) * 1_000_000_000 / span.as_nanos();
        let sample = u64::try_from(sample).unwrap_or(u64::MAX);
        if self.rate == 0 {
            self.rate_once = sample;
            self.rate = sample;
        } else {
            // Two low-pass filters in a row, each keeping seven eighths (`westwood_filter`).
            self.rate_once = self.rate_once / 8 * 7 + sample / 8;
            self.rate = self.rate / 8 * 7 + self.rate_once / 8;
        }
        self.counted = 0;
        self.counting_since = Some(ack.now);
    }
}

impl Controller for WestwoodPlus {
    fn cwnd(&self) -> u32 {
        self.window.cwnd
    }

    fn ssthresh(&self) -> u32 {
        self.window.ssthresh
    }

    fn on_ack(&mut self, ack: &Acknowledgement) {
        self.measure(ack);
        self.window.grow_as_reno(ack);
    }

    fn on_congestion_event(&mut self, _now: Time, _in_flight: u32) {
        self.window.reduce_to(self.bandwidth_delay_product());
    }

    fn on_timeout(&mut self, _now: Time, _in_flight: u32) {
        self.window.collapse(self.bandwidth_delay_product());
        // The path may have changed: the next sample starts a new minimum (`reset_rtt_min`).
        self.min_rtt = None;
    }

    fn on_repeated_timeout(&mut self, _now: Time, _in_flight: u32) {
        self.window.collapse_again();
    }

    fn on_idle(&mut self, now: Time, idle: Duration, rto: Duration, restart: bool) {
        if restart {
            self.window.restart(idle, rto);
        }
        // Silence is not a low rate.
        self.counting_since = Some(now);
        self.counted = 0;
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
