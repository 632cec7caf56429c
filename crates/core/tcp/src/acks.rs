use core::time::Duration;

use units::Time;

use crate::config::AckPolicy;

/// When received data is acknowledged.
#[derive(Debug)]
pub(crate) struct Acks {
    policy: AckPolicy,
    /// An acknowledgement is due at once.
    pub(crate) now: bool,
    /// One is due by then.
    pub(crate) due_at: Option<Time>,
    /// Acknowledgements that are still sent at once (`icsk_ack.quick`).
    quick: u32,
    /// Whether data goes both ways, so that an acknowledgement can ride on the answer.
    interactive: bool,
    /// How long an acknowledgement may wait; zero before the first data (`icsk_ack.ato`).
    wait: Duration,
    last_received_at: Time,
    /// The peer marked the end of a message.
    pushed: bool,
    merging: Option<Merging>,
}

/// Reports of segments beyond a hole, which say much the same (Linux `__tcp_ack_snd_check`).
#[derive(Clone, Copy, Debug, Default)]
struct Merging {
    /// First missing byte when they were last counted.
    hole: u64,
    /// Reports that were sent at once, because the peer counts them.
    prompt: u32,
    /// Segments not yet reported, and ranges that they began.
    waiting: u32,
    ranges: u32,
}

/// `TCP_MAX_QUICKACKS`.
const MAX_QUICK: u32 = 16;
/// `TCP_FASTRETRANS_THRESH`.
const PROMPT_REPORTS: u32 = 3;
/// `TCP_SACK_BLOCKS_EXPECTED`: a header has room for three, and what it does not name counts as lost.
const MOST_RANGES: u32 = 2;
/// `tcp_comp_sack_nr`.
const MOST_MERGED: u32 = 44;
/// `tcp_comp_sack_delay_ns`.
const MERGED_FOR: Duration = Duration::from_millis(1);
/// `TCP_DELACK_MIN` and `TCP_ATO_MIN`.
const MIN_WAIT: Duration = Duration::from_millis(40);
/// `TCP_DELACK_MAX`; RFC 9293 section 3.8.6.3 allows 500 ms.
const MAX_WAIT: Duration = Duration::from_millis(200);

// === impl Acks ===

impl Acks {
    pub(crate) fn new(policy: AckPolicy, merge: bool) -> Self {
        Self {
            policy,
            now: false,
            due_at: None,
            quick: 0,
            interactive: false,
            wait: Duration::ZERO,
            last_received_at: Time::ZERO,
            pushed: false,
            merging: (merge && policy == AckPolicy::Linux).then(Merging::default),
        }
    }

    /// Data came that continues the stream. `unacknowledged` bytes of it wait for an acknowledgement,
    /// `window` is what the peer was offered, `rto` our own timeout.
    pub(crate) fn on_data(
        &mut self,
        now: Time,
        pushed: bool,
        unacknowledged: u64,
        mss: u32,
        window: u64,
        rto: Duration,
    ) {
        self.adapt(now, mss, window, rto);
        self.pushed |= pushed;
        //= https://www.rfc-editor.org/rfc/rfc9293#section-3.8.6.3
        //# A TCP endpoint SHOULD implement a delayed ACK (SHLD-18), but an
        //# ACK should not be excessively delayed; in particular, the delay MUST
        //# be less than 0.5 seconds (MUST-40).
        let (due, delay) = match self.policy {
            AckPolicy::Immediate => (true, Duration::ZERO),
            // "an ACK SHOULD be generated for at least every second full-sized segment" (SHLD-19).
            AckPolicy::Every2 { delay } => (unacknowledged >= 2 * u64::from(mss), delay),
            AckPolicy::Linux => {
                let quick = self.quick > 0 && !self.interactive;
                let delay = self.wait.clamp(MIN_WAIT, MAX_WAIT);
                (unacknowledged > u64::from(mss) || quick, delay)
            }
        };
        if due {
            self.now = true;
        } else if self.due_at.is_none() {
            self.due_at = Some(now + delay);
        }
    }

    /// Data came that does not end where `hole` begins, the first missing byte; `apart` from the
    /// segment before. `rtt` is the round trip as the receiver knows it.
    //= https://www.rfc-editor.org/rfc/rfc5681#section-3.2
    //# A TCP receiver SHOULD send an immediate duplicate ACK when an out-
    //# of-order segment arrives.
    // Three of them, so that the peer repairs; what follows may be merged.
    pub(crate) fn on_hole(&mut self, now: Time, hole: u64, apart: bool, rtt: Option<Duration>) {
        let quick = self.quick > 0 && !self.interactive;
        let Some(merging) = self.merging.as_mut().filter(|_| !quick) else {
            self.now = true;
            return;
        };
        if merging.hole != hole {
            merging.hole = hole;
            merging.prompt = 0;
        }
        merging.ranges += u32::from(apart);
        let delay = MERGED_FOR.min(rtt.unwrap_or_default() / 20);
        if merging.prompt < PROMPT_REPORTS {
            merging.prompt += 1;
            self.now = true;
        } else if merging.waiting >= MOST_MERGED || merging.ranges >= MOST_RANGES || delay.is_zero()
        {
            self.now = true;
        } else {
            merging.waiting += 1;
            let due_at = now + delay;
            self.due_at = Some(self.due_at.map_or(due_at, |at| at.min(due_at)));
        }
    }

    /// Something came that the peer must hear about: a repetition, a FIN.
    pub(crate) const fn at_once(&mut self) {
        self.now = true;
        if self.quick < MAX_QUICK {
            self.quick = MAX_QUICK;
        }
        self.interactive = false;
    }

    /// The window has just opened a little; the peer should hear soon (`tcp_grow_window`).
    pub(crate) const fn window_grew(&mut self) {
        self.quick |= 1;
    }

    /// The application has read everything there was.
    pub(crate) fn on_drained(&mut self, unacknowledged: u64, mss: u32) {
        if self.policy != AckPolicy::Linux || unacknowledged == 0 {
            return;
        }
        // `tcp_cleanup_rbuf`: a message was read, and no answer carried the acknowledgement.
        if unacknowledged > u64::from(mss) || (self.pushed && !self.interactive) {
            self.now = true;
        }
    }

    /// A segment with an acknowledgement leaves.
    pub(crate) const fn on_sent(&mut self) {
        self.now = false;
        self.due_at = None;
        self.pushed = false;
        self.quick = self.quick.saturating_sub(1);
        if let Some(merging) = &mut self.merging {
            merging.waiting = 0;
            merging.ranges = 0;
        }
    }

    /// A segment with data leaves: soon after received data it is an answer.
    pub(crate) fn on_data_sent(&mut self, now: Time) {
        if !self.wait.is_zero() && now.since(self.last_received_at) < self.wait {
            self.interactive = true;
        }
    }

    pub(crate) fn on_timeout(&mut self, now: Time) {
        if self.due_at.is_some_and(|at| at <= now) {
            self.now = true;
            self.due_at = None;
            // The answer did not come in time: there is none (`tcp_delack_timer_handler`).
            self.interactive = false;
        }
    }

    /// `tcp_event_data_recv`.
    fn adapt(&mut self, now: Time, mss: u32, window: u64, rto: Duration) {
        let silence = now.since(self.last_received_at);
        let quick = || {
            let segments = window / (2 * u64::from(mss.max(1)));
            u32::try_from(segments)
                .unwrap_or(MAX_QUICK)
                .clamp(2, MAX_QUICK)
        };
        if self.wait.is_zero() {
            self.quick = self.quick.max(quick());
            self.wait = MIN_WAIT;
        } else if silence <= MIN_WAIT / 2 {
            self.wait = self.wait / 2 + MIN_WAIT / 2;
        } else if silence < self.wait {
            self.wait = (self.wait / 2 + silence).min(rto);
        } else if silence > rto {
            self.quick = self.quick.max(quick());
        }
        self.last_received_at = now;
    }
}
