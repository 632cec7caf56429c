use core::time::Duration;

use units::Time;

use crate::scoreboard::Newest;

/// Whether loss is being repaired, and until which offset.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Phase {
    /// Nothing is known to be lost.
    Open,
    /// Reducing because of a congestion mark, until something sent after it has arrived.
    Reduced { until: u64 },
    /// Fast recovery, until everything sent before `until` has arrived.
    Recovery { until: u64 },
    /// After a retransmission timeout.
    Loss { until: u64 },
}

/// Proportional rate reduction (RFC 6937): how much may be in flight during fast recovery.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Reduction {
    pub(crate) cwnd: u32,
    prior_cwnd: u32,
    delivered: u32,
    sent: u32,
}

/// What RACK knows (RFC 8985 section 5.3).
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rack {
    /// When the newest delivered transmission was sent, and its end.
    pub(crate) newest: Option<(Time, u64)>,
    rtt: Duration,
    reordering_seen: bool,
    /// Quarters of the smallest RTT to wait for reordered segments.
    steps: u32,
    /// Recoveries for which a widened window is kept.
    persist: u32,
    widen_after: u64,
}

// === impl Phase ===

impl Phase {
    /// Whether nothing has to be repaired.
    pub(crate) const fn is_orderly(self) -> bool {
        matches!(self, Self::Open | Self::Reduced { .. })
    }
}

// === impl Reduction ===

impl Reduction {
    pub(crate) fn start(cwnd: u32, in_flight: u32) -> Self {
        Self {
            // With nothing in flight no acknowledgement would come to open it again.
            cwnd: in_flight.max(1),
            prior_cwnd: cwnd.max(1),
            delivered: 0,
            sent: 0,
        }
    }

    /// RFC 6937 section 3 in segments, as `tcp_cwnd_reduction` computes it.
    pub(crate) fn on_ack(
        &mut self,
        ssthresh: u32,
        in_flight: u32,
        delivered: u32,
        advanced: bool,
        lost: u32,
    ) {
        if delivered == 0 {
            return;
        }
        self.delivered = self.delivered.saturating_add(delivered);
        let mut allowed = if in_flight > ssthresh {
            //= https://www.rfc-editor.org/rfc/rfc6937#section-3
            //# sndcnt = CEIL(prr_delivered * ssthresh / RecoverFS) - prr_out
            let share = u64::from(self.delivered) * u64::from(ssthresh);
            let share = share.div_ceil(u64::from(self.prior_cwnd));
            u32::try_from(share)
                .unwrap_or(u32::MAX)
                .saturating_sub(self.sent)
        } else {
            //= https://www.rfc-editor.org/rfc/rfc6937#section-3
            //# limit = MAX(prr_delivered - prr_out, DeliveredData) + MSS
            // Linux adds the segment only while repairs arrive and nothing more is lost.
            let mut limit = self.delivered.saturating_sub(self.sent).max(delivered);
            if advanced && lost == 0 {
                limit += 1;
            }
            //= https://www.rfc-editor.org/rfc/rfc6937#section-3
            //# sndcnt = MIN(ssthresh - pipe, limit)
            limit.min(ssthresh - in_flight)
        };
        if self.sent == 0 {
            // The first repair leaves at once, whatever the proportion says.
            allowed = allowed.max(1);
        }
        self.cwnd = in_flight.saturating_add(allowed);
    }

    pub(crate) const fn on_sent(&mut self) {
        self.sent = self.sent.saturating_add(1);
    }
}

// === impl Rack ===

impl Rack {
    pub(crate) const fn new() -> Self {
        Self {
            newest: None,
            rtt: Duration::ZERO,
            reordering_seen: false,
            steps: 1,
            persist: 0,
            widen_after: 0,
        }
    }

    /// RFC 8985 section 6.2, steps 1 and 2.
    pub(crate) fn on_delivery(&mut self, now: Time, newest: &Newest, min_rtt: Option<Duration>) {
        let rtt = now.since(newest.at);
        // RFC 8985 section 6.2 step 2: an ACK of a repeated segment that comes sooner than the smallest
        // RTT acknowledges the first transmission, and says nothing about the repetition.
        if newest.repeated && min_rtt.is_some_and(|min| rtt < min) {
            return;
        }
        self.rtt = rtt;
        let latest = (newest.at, newest.end);
        if self.newest.is_none_or(|known| latest > known) {
            self.newest = Some(latest);
        }
    }

    pub(crate) const fn on_reordering(&mut self) {
        self.reordering_seen = true;
    }

    /// A duplicate was reported: the last repair was not needed, wait longer. Once per round trip.
    pub(crate) fn on_duplicate(&mut self, una: u64, nxt: u64) {
        if una >= self.widen_after {
            self.steps = (self.steps + 1).min(255);
            self.persist = 16;
            self.widen_after = nxt;
        }
    }

    pub(crate) const fn on_recovery_end(&mut self) {
        self.persist = self.persist.saturating_sub(1);
        if self.persist == 0 {
            self.steps = 1;
        }
    }

    /// How long after its sending a segment is lost, if one sent later was delivered (step 4).
    pub(crate) fn wait(
        &self,
        recovering: bool,
        sacked: u32,
        min_rtt: Option<Duration>,
        smoothed: Option<Duration>,
    ) -> Duration {
        // RFC 8985 section 6.2 step 4: while no reordering has been seen, nothing is waited for during
        // recovery or once three segments were reported, so that recovery is as prompt as by counting.
        let window = if !self.reordering_seen && (recovering || sacked >= 3) {
            Duration::ZERO
        } else {
            let quarters = min_rtt.unwrap_or_default() / 4 * self.steps;
            quarters.min(smoothed.unwrap_or_default())
        };
        self.rtt + window
    }
}
