//! The sender's timer: retransmission, tail loss probe, reordering, window probe.

use core::time::Duration;

use units::Time;

use super::spurious::TimeoutCheck;
use super::{Fragment, Sender};
use crate::probes::{Purpose, TailProbe, Timer, probe_timeout};
use crate::recovery::Phase;
use crate::scoreboard::Fate;

impl Sender {
    pub(super) fn set_timer(
        &mut self,
        now: Time,
        advanced: bool,
        delivered: bool,
        reorder_at: Option<Time>,
    ) {
        if self.board.outstanding() == 0 {
            self.timer = None;
            return;
        }
        if let Some(at) = reorder_at {
            self.timer = Some(Timer {
                at,
                purpose: Purpose::Reorder,
            });
            return;
        }
        let reorder = self
            .timer
            .is_some_and(|timer| timer.purpose == Purpose::Reorder);
        if advanced || delivered || reorder {
            self.arm(now);
        }
    }

    /// Starts the probe timer where a probe may be sent, and the retransmission timer elsewhere.
    pub(super) fn arm(&mut self, now: Time) {
        //= https://www.rfc-editor.org/rfc/rfc6298#section-5
        //# (5.1) Every time a packet containing data is sent (including a
        //# retransmission), if the timer is not running, start it running
        //# so that it will expire after RTO seconds
        let rto_at = now + self.rtt.timeout();
        let probes = self.config.tail_loss_probe
            && self.sack
            && self.phase.is_orderly()
            && self.tail_probe.is_none()
            && self.rtt.smoothed().is_some();
        let mut timer = Timer {
            at: rto_at,
            purpose: Purpose::Retransmit,
        };
        if probes {
            let at = now + probe_timeout(self.rtt.smoothed(), self.board.outstanding());
            // Where the RTO would come first, the probe takes its place (RFC 8985 section 7.2).
            timer = Timer {
                at: at.min(rto_at),
                purpose: Purpose::TailProbe,
            };
        }
        self.timer = Some(timer);
    }

    pub(super) fn arm_window_probe(&mut self, now: Time) {
        let wait = self
            .rtt
            .timeout()
            .saturating_mul(1 << self.window_probes.min(10));
        self.timer = Some(Timer {
            at: now + wait.min(Duration::from_mins(2)),
            purpose: Purpose::WindowProbe,
        });
    }

    /// Handles the timer if it is due. `Err` when the peer has been silent for too long, `Ok(true)` when
    /// a window probe should be sent.
    pub(crate) fn on_timeout(&mut self, now: Time) -> Result<bool, ()> {
        let Some(timer) = self.timer.filter(|timer| timer.at <= now) else {
            return Ok(false);
        };
        self.timer = None;
        match timer.purpose {
            Purpose::Reorder => {
                let (lost, reorder_at) = self.detect(now, false);
                self.advance_phase(now, false, lost);
                self.set_timer(now, false, true, reorder_at);
            }
            Purpose::TailProbe => self.probe_due = true,
            Purpose::Retransmit => return self.on_retransmission_timeout(now).map(|()| false),
            Purpose::WindowProbe => {
                self.window_probes += 1;
                if self.window_probes > self.config.retries {
                    return Err(());
                }
                self.arm_window_probe(now);
                if self.window.edge > self.nxt {
                    // Some room there is, though too little for a full segment: the override timeout.
                    self.crumb_due = true;
                    return Ok(false);
                }
                return Ok(true);
            }
        }
        Ok(false)
    }

    pub(super) fn on_retransmission_timeout(&mut self, now: Time) -> Result<(), ()> {
        if self.board.outstanding() == 0 {
            return Ok(());
        }
        self.timeouts += 1;
        if self.timeouts > self.config.retries {
            return Err(());
        }
        self.counters.timeouts += 1;
        // Only the first of a row reduces the threshold (RFC 5681 section 3.1, equation 4), and none in a
        // flight for which it was reduced already, though section 4.3 asks for it: as `tcp_enter_loss`.
        let repeated = match self.phase {
            Phase::Open => false,
            Phase::Reduced { until } | Phase::Recovery { until } => self.una < until,
            Phase::Loss { until } => self.timeouts > 1 && self.una < until,
        };
        // Not while fast recovery is under way: there the repairs themselves may have been lost.
        let check = self.config.forward_rto && (self.phase.is_orderly() || self.timeouts > 1);
        let in_flight = self.in_flight();
        if repeated {
            self.controller.on_repeated_timeout(now, in_flight);
        } else {
            self.fall_to_pipe();
            self.controller.on_timeout(now, in_flight);
            self.begin_undo();
            self.tell_reduction = self.ecn;
        }
        self.timeout_check = if check {
            TimeoutCheck::Repeated
        } else {
            TimeoutCheck::Off
        };
        if self
            .board
            .first()
            .is_some_and(|first| first.fate == Fate::Sacked)
        {
            // The peer has not acknowledged what it reported: it has dropped it.
            self.board.forget_sacks();
        }
        self.rate.lost += u64::from(self.board.in_flight());
        self.board.lose_all();
        self.phase = Phase::Loss { until: self.nxt };
        self.recover = self.nxt;
        self.reduction = None;
        self.repair_owed = false;
        self.duplicate_acks = 0;
        self.tail_probe = None;
        self.rtt.back_off();
        self.pacer.next_at = now;
        self.arm(now);
        Ok(())
    }

    pub(super) fn probe_tail(&mut self, now: Time) -> Option<Fragment> {
        if self.board.outstanding() == 0 {
            return None;
        }
        self.timer = Some(Timer {
            at: now + self.rtt.timeout(),
            purpose: Purpose::Retransmit,
        });
        let retransmit = self.timer;
        let fragment = if let Ok(payload) = self.next_payload() {
            // RFC 8985 section 7.3: a new segment where there is one and the peer's window allows it.
            self.tail_probe = Some(TailProbe {
                until: self.nxt,
                repeated: false,
            });
            Some(self.send_new(now, payload))
        } else {
            let stamp = self.stamp(now);
            let sent = self.board.repeat_last(now, stamp)?;
            self.counters.retransmissions += 1;
            self.tail_probe = Some(TailProbe {
                until: self.nxt,
                repeated: true,
            });
            self.on_transmit(now, sent.len);
            Some(self.repetition(&sent))
        };
        if let Some(probe) = &mut self.tail_probe {
            probe.until = self.nxt;
        }
        // Sending has started the timer for another probe; there is one per flight.
        self.timer = retransmit;
        fragment
    }
}
