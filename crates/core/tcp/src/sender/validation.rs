//! Whether the window is in use, and what becomes of one that is not.

use core::time::Duration;

use units::Time;

use super::Sender;
use crate::hold::Hold;

/// Whether the window was in use (Linux `tcp_cwnd_validate`).
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Usage {
    limited: bool,
    most_outstanding: u32,
    round_ends_at: u64,
    used: u32,
    /// Whether a segment left since the last look.
    pub(super) sent: bool,
    /// When the window was last seen in use (`snd_cwnd_stamp`).
    pub(super) since: Time,
}

/// What the path has carried lately, in segments per round trip: `pipeACK` of RFC 7661 section 4.2.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Pipe {
    round_ends_at: u64,
    delivered: u32,
    /// Largest sample of the period before and of this one, which began at `since`.
    best: [Option<u32>; 2],
    since: Time,
    unvalidated_since: Option<Time>,
}

/// RFC 7661 section 4.4: for how long a window may go unused and be kept.
const KEPT: Duration = Duration::from_mins(5);

// === impl Pipe ===

impl Pipe {
    fn on_delivery(&mut self, now: Time, segments: u32, una: u64, nxt: u64, period: Duration) {
        self.delivered = self.delivered.saturating_add(segments);
        if una < self.round_ends_at {
            return;
        }
        if now.since(self.since) > period {
            self.best = [self.best[1], None];
            self.since = now;
        }
        self.best[1] = self.best[1].max(Some(self.delivered));
        self.delivered = 0;
        self.round_ends_at = nxt;
    }

    /// The largest sample of the last one to two periods; `None` before the first.
    fn volume(&self) -> Option<u32> {
        self.best[0].max(self.best[1])
    }
}

impl Sender {
    /// To be called when nothing more leaves at `now`.
    pub(crate) fn settle(&mut self, now: Time) {
        self.pacer.burst = 0;
        if self.is_settled() {
            return;
        }
        let limited = self.in_flight() >= self.cwnd();
        let outstanding = self.board.outstanding();
        if core::mem::take(&mut self.usage.sent) || limited {
            self.validate(now, limited, outstanding);
        }
        if !self.has_new() && !limited && self.board.lost() == 0 {
            // `tcp_rate_check_app_limited`: up to here the application may have set the pace.
            self.limit_rate();
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

    /// Whether there is nothing to send or to wait for, and that has been noted before.
    fn is_settled(&self) -> bool {
        self.nxt == self.una
            && !self.has_new()
            && !self.usage.sent
            && self.rate.limited_until == Some(self.rate.delivered.max(1))
    }

    /// Notes whether the window holds the sender back (`tcp_cwnd_validate`); Linux does so whenever it has
    /// sent something, or could not for the window's sake.
    fn validate(&mut self, now: Time, limited: bool, outstanding: u32) {
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
                && !self.config.keep_unused_window
                && long
                && outstanding > 0
                && self.phase.is_orderly()
                && !self.refused
            {
                self.controller.on_application_limited(self.usage.used);
                self.usage.used = 0;
                self.usage.since = now;
            }
        }
    }

    pub(super) fn is_cwnd_limited(&self) -> bool {
        // In slow start a window half used may still grow (RFC 5681 section 3.1, `tcp_is_cwnd_limited`).
        self.usage.limited
            || (self.controller.in_slow_start()
                && self.controller.cwnd() < self.usage.most_outstanding.saturating_mul(2))
    }

    pub(super) fn restart_if_idle(&mut self, now: Time) {
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
            let restart =
                self.config.restart_after_idle && !self.config.keep_unused_window && idle > rto;
            self.controller.on_idle(now, idle, rto, restart);
            if restart {
                self.usage.used = 0;
                self.usage.since = now;
            }
            self.expire_unused(now);
        }
    }

    /// Follows what the path carries (RFC 7661); to be called for every acknowledgement.
    pub(super) fn measure_pipe(&mut self, now: Time, delivered: u32) {
        if !self.config.keep_unused_window {
            return;
        }
        // Section 4.2: the sampling period is three round trips, one second at least.
        let period = self.rtt.smoothed().unwrap_or_default() * 3;
        let period = period.max(Duration::from_secs(1));
        self.pipe
            .on_delivery(now, delivered, self.una, self.nxt, period);
        if self.is_validated() {
            self.pipe.unvalidated_since = None;
        } else {
            self.pipe.unvalidated_since.get_or_insert(now);
        }
        self.expire_unused(now);
    }

    /// Whether the window was shown to fit the path: at least half of it was carried in a round trip.
    /// Without a sample nothing speaks against it (RFC 7661 section 4.3).
    pub(super) fn is_validated(&self) -> bool {
        !self.config.keep_unused_window
            || self
                .pipe
                .volume()
                .is_none_or(|volume| volume >= self.controller.cwnd() / 2)
    }

    /// After five minutes half of an unused window is lost (RFC 7661 section 4.4.3).
    fn expire_unused(&mut self, now: Time) {
        if let Some(since) = self.pipe.unvalidated_since
            && now.since(since) >= KEPT
        {
            let cwnd = self.controller.cwnd();
            self.controller
                .limit((cwnd / 2).max(self.config.initial_cwnd));
            self.pipe.unvalidated_since = Some(now);
        }
    }

    /// A loss in a window that was not validated: what the path has carried counts, not the window
    /// (RFC 7661 section 4.4.1).
    pub(super) fn fall_to_pipe(&mut self) {
        if !self.is_validated() {
            let carried = self.pipe.volume().unwrap_or(0).max(self.in_flight());
            self.controller.limit(carried);
        }
        self.pipe = Pipe::default();
    }

    /// What keeps the next segment back.
    pub(crate) fn hold(&self, now: Time) -> Hold {
        if !self.phase.is_orderly() {
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
}
