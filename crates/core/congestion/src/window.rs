use core::time::Duration;

use crate::Acknowledgement;
use crate::algorithm::Parameters;

/// The window that all loss-based controllers share: slow start, additive growth, restart and undo.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Window {
    pub(crate) cwnd: u32,
    pub(crate) ssthresh: u32,
    initial: u32,
    /// Segments acknowledged since the window last grew linearly.
    credit: u32,
    /// Window and threshold before the last reduction.
    before: Option<(u32, u32)>,
}

/// RFC 5681 section 3.1, equation 4: never below two segments.
pub(crate) const MIN_SSTHRESH: u32 = 2;

/// A count of segments in the 32 bits that windows have.
pub(crate) fn narrow(value: u64) -> u32 {
    u32::try_from(value).unwrap_or(u32::MAX)
}

// === impl Window ===

impl Window {
    pub(crate) fn new(parameters: &Parameters) -> Self {
        Self {
            cwnd: parameters.initial_cwnd.max(1),
            //= https://www.rfc-editor.org/rfc/rfc5681#section-3.1
            //# The initial value of ssthresh SHOULD be set arbitrarily high (e.g.,
            //# to the size of the largest possible advertised window), but ssthresh
            //# MUST be reduced in response to congestion.
            ssthresh: parameters.initial_ssthresh.unwrap_or(u32::MAX),
            initial: parameters.initial_cwnd.max(1),
            credit: 0,
            before: None,
        }
    }

    pub(crate) const fn in_slow_start(&self) -> bool {
        self.cwnd < self.ssthresh
    }

    /// Grows by every segment delivered, up to the threshold, and returns what is left of `delivered`.
    ///
    /// RFC 5681 bounds the growth per ACK to one segment, RFC 3465 to two; Linux does neither
    /// (`tcp_slow_start`), because receivers merge segments and acknowledge dozens at once.
    pub(crate) fn slow_start(&mut self, delivered: u32) -> u32 {
        let grown = self.cwnd.saturating_add(delivered).min(self.ssthresh);
        let used = grown.saturating_sub(self.cwnd);
        self.cwnd = grown;
        delivered - used
    }

    /// Grows by one segment per `per` segments delivered (Linux `tcp_cong_avoid_ai`).
    pub(crate) fn grow_linearly(&mut self, per: u32, delivered: u32) {
        let per = per.max(1);
        if self.credit >= per {
            // The divisor has fallen since the credit was earned.
            self.credit = 0;
            self.cwnd = self.cwnd.saturating_add(1);
        }
        self.credit = self.credit.saturating_add(delivered);
        if self.credit >= per {
            self.cwnd = self.cwnd.saturating_add(self.credit / per);
            self.credit %= per;
        }
    }

    /// `NewReno`'s growth, which Westwood+ shares.
    pub(crate) fn grow_as_reno(&mut self, ack: &Acknowledgement) {
        if !(ack.may_grow && ack.cwnd_limited) {
            return;
        }
        let mut rest = ack.delivered;
        if self.in_slow_start() {
            rest = self.slow_start(rest);
        }
        if rest > 0 {
            //= https://www.rfc-editor.org/rfc/rfc5681#section-3.1
            //# During congestion avoidance, cwnd is incremented by roughly 1 full-sized
            //# segment per round-trip time (RTT).
            self.grow_linearly(self.cwnd, rest);
        }
    }

    /// Falls to `ssthresh`, remembering what was.
    pub(crate) fn reduce_to(&mut self, ssthresh: u32) {
        self.before = Some((self.cwnd, self.ssthresh));
        self.ssthresh = ssthresh.max(MIN_SSTHRESH);
        self.cwnd = self.cwnd.min(self.ssthresh);
        self.credit = 0;
    }

    /// Falls to one segment, the loss window.
    pub(crate) fn collapse(&mut self, ssthresh: u32) {
        self.before = Some((self.cwnd, self.ssthresh));
        self.ssthresh = ssthresh.max(MIN_SSTHRESH);
        self.collapse_again();
    }

    /// Falls to one segment, with the threshold that a reduction in the same window of data has set.
    pub(crate) const fn collapse_again(&mut self) {
        //= https://www.rfc-editor.org/rfc/rfc5681#section-3.1
        //# Furthermore, upon a timeout (as specified in [RFC2988]) cwnd MUST be
        //# set to no more than the loss window, LW, which equals 1 full-sized
        //# segment (regardless of the value of IW).
        self.cwnd = 1;
        self.credit = 0;
    }

    /// Halves once per RTO of silence, down to the initial window, and remembers three quarters of what
    /// was as the threshold (Linux `tcp_cwnd_restart`, RFC 2861 section 3.1).
    pub(crate) fn restart(&mut self, idle: Duration, rto: Duration) {
        let floor = self.initial.min(self.cwnd);
        self.ssthresh = self.validated_ssthresh();
        let mut left = idle.saturating_sub(rto);
        while !left.is_zero() && self.cwnd > floor && !rto.is_zero() {
            self.cwnd /= 2;
            left = left.saturating_sub(rto);
        }
        self.cwnd = self.cwnd.max(floor);
        self.credit = 0;
    }

    /// Moves half way to what the application used (Linux `tcp_cwnd_application_limited`).
    pub(crate) fn follow_application(&mut self, used: u32) {
        let used = used.max(self.initial);
        if used < self.cwnd {
            self.ssthresh = self.validated_ssthresh();
            self.cwnd = u32::midpoint(self.cwnd, used);
        }
    }

    /// Falls to `cwnd` without a loss (RFC 7661 section 4.4).
    pub(crate) fn limit(&mut self, cwnd: u32) {
        if cwnd < self.cwnd {
            self.ssthresh = self.validated_ssthresh();
            self.cwnd = cwnd.max(1);
            self.credit = 0;
        }
    }

    pub(crate) fn undo(&mut self) {
        if let Some((cwnd, ssthresh)) = self.before.take() {
            self.cwnd = self.cwnd.max(cwnd);
            self.ssthresh = self.ssthresh.max(ssthresh);
        }
    }

    /// RFC 2861 section 3.1: `ssthresh = max(ssthresh, 3*cwnd/4)`.
    fn validated_ssthresh(&self) -> u32 {
        self.ssthresh.max(self.cwnd / 2 + self.cwnd / 4)
    }
}
