//! Limits from a kernel's own clocks, for those who see `TCP_INFO` and no packets.
//!
//! Linux keeps exact clocks for the peer's window, the send buffer and for having something to send
//! (`tcp_chrono_start` in `net/ipv4/tcp_output.c`); one runs at a time. What they leave was held by the
//! congestion window or the path, and only the readings at both ends of a span tell which.

use std::time::Duration;

use record::{LimitName, LimitSeconds};

/// RTT above the smallest from which the path's queue is taken for full of our own data.
const QUEUEING: f64 = 1.25;

/// The clocks at one moment, since the connection was made. Their grain is a jiffy.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Clocks {
    /// Time in which something was in flight or waiting to leave.
    pub busy: Duration,
    /// The part of it held back by the peer's window.
    pub rwnd_limited: Duration,
    /// The part of it held back by the send buffer.
    pub sndbuf_limited: Duration,
}

/// What a kernel told of a sender at one moment.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Reading {
    /// `None` from a kernel that does not keep them (before 4.10).
    pub clocks: Option<Clocks>,
    /// Smoothed round-trip time.
    pub rtt: Duration,
    /// The smallest of the kernel's window.
    pub min_rtt: Option<Duration>,
    /// Congestion window, in segments or in bytes.
    pub cwnd: u64,
    /// Slow start threshold in the unit of `cwnd`; `None` while it is infinite.
    pub ssthresh: Option<u64>,
    /// Segments taken for lost and not repaired yet.
    pub lost: u64,
    /// Segments sent again since the connection was made.
    pub retransmissions: u64,
}

/// How long each limit held in a span. Names appear once; the times sum to the span.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Division {
    shares: [(LimitName, Duration); 4],
}

// === impl Clocks ===

impl Clocks {
    /// How far each clock ran since `before`.
    #[must_use]
    pub fn since(self, before: Self) -> Self {
        Self {
            busy: self.busy.saturating_sub(before.busy),
            rwnd_limited: self.rwnd_limited.saturating_sub(before.rwnd_limited),
            sndbuf_limited: self.sndbuf_limited.saturating_sub(before.sndbuf_limited),
        }
    }

    /// Divides `span`, in which the clocks ran this far; what they leave belongs to `rest`.
    ///
    /// The clocks are read one after the other and have a grain, so each is bounded by what is left.
    #[must_use]
    pub fn divide(self, span: Duration, rest: LimitName) -> Division {
        let busy = self.busy.min(span);
        let rwnd = self.rwnd_limited.min(busy);
        let sndbuf = self.sndbuf_limited.min(busy.saturating_sub(rwnd));
        Division {
            shares: [
                (LimitName::Application, span.saturating_sub(busy)),
                (LimitName::ReceiveWindow, rwnd),
                (LimitName::SendBuffer, sndbuf),
                (rest, busy.saturating_sub(rwnd + sndbuf)),
            ],
        }
    }
}

// === impl Reading ===

impl Reading {
    /// What held the sender back in the `span` from `before` to this reading.
    ///
    /// A span that retransmits and still grows its window is repair: `loss-recovery` has precedence.
    #[must_use]
    pub fn since(&self, before: &Self, span: Duration) -> Division {
        let Some(clocks) = self.clocks else {
            return Division::whole(LimitName::Unknown, span);
        };
        clocks
            .since(before.clocks.unwrap_or_default())
            .divide(span, self.held_by_window(before))
    }

    fn held_by_window(&self, before: &Self) -> LimitName {
        let queueing = self
            .min_rtt
            .is_some_and(|least| self.rtt.as_secs_f64() > least.as_secs_f64() * QUEUEING);
        if self.lost > 0 || self.retransmissions > before.retransmissions {
            LimitName::LossRecovery
        } else if queueing {
            LimitName::Bottleneck
        } else if self.ssthresh.is_none_or(|ssthresh| self.cwnd < ssthresh) {
            LimitName::SlowStart
        } else {
            LimitName::CongestionAvoidance
        }
    }
}

// === impl Division ===

impl Division {
    /// All of `span` belongs to one limit.
    #[must_use]
    pub const fn whole(name: LimitName, span: Duration) -> Self {
        Self {
            shares: [
                (name, span),
                (LimitName::Unknown, Duration::ZERO),
                (LimitName::Unknown, Duration::ZERO),
                (LimitName::Unknown, Duration::ZERO),
            ],
        }
    }

    /// The limits that held, and for how long.
    pub fn shares(&self) -> impl Iterator<Item = (LimitName, Duration)> {
        self.shares.into_iter().filter(|(_, held)| !held.is_zero())
    }

    /// The limit that held longest; of those that held as long, the one that has precedence.
    #[must_use]
    pub fn dominant(&self) -> Option<LimitName> {
        self.shares()
            .max_by(|(a, held_a), (b, held_b)| held_a.cmp(held_b).then(b.cmp(a)))
            .map(|(name, _)| name)
    }

    /// Adds the shares to `limits`.
    pub fn add_to(&self, limits: &mut LimitSeconds) {
        for (name, held) in self.shares() {
            *limits.entry(name).or_insert(0.0) += held.as_secs_f64();
        }
    }
}

impl From<Division> for LimitSeconds {
    fn from(division: Division) -> Self {
        let mut limits = Self::new();
        division.add_to(&mut limits);
        limits
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn ms(count: u64) -> Duration {
        Duration::from_millis(count)
    }

    fn busy(count: u64) -> Reading {
        Reading {
            clocks: Some(Clocks {
                busy: ms(count),
                ..Clocks::default()
            }),
            rtt: ms(100),
            min_rtt: Some(ms(100)),
            cwnd: 10,
            ..Reading::default()
        }
    }

    #[test]
    fn a_queue_of_our_own_is_the_bottleneck_and_a_finite_threshold_ends_slow_start() {
        let start = Reading::default();
        let growing = busy(1000);
        let queueing = Reading {
            rtt: ms(126),
            ..growing
        };
        let linear = Reading {
            ssthresh: Some(10),
            ..growing
        };
        let repairing = Reading {
            retransmissions: 1,
            ..queueing
        };
        for (reading, name) in [
            (growing, LimitName::SlowStart),
            (queueing, LimitName::Bottleneck),
            (linear, LimitName::CongestionAvoidance),
            (repairing, LimitName::LossRecovery),
        ] {
            let division = reading.since(&start, ms(1000));
            assert_eq!(division.dominant(), Some(name));
            assert_eq!(
                LimitSeconds::from(division),
                LimitSeconds::from([(name, 1.0)])
            );
        }
    }

    #[test]
    fn a_kernel_without_the_clocks_leaves_the_time_unknown() {
        let old = Reading::default();
        let division = old.since(&old, ms(20));
        assert_eq!(division.dominant(), Some(LimitName::Unknown));
    }

    #[test]
    fn of_two_limits_that_held_as_long_the_one_with_precedence_is_named() {
        let clocks = Clocks {
            busy: ms(100),
            rwnd_limited: ms(50),
            sndbuf_limited: ms(50),
        };
        let division = clocks.divide(ms(100), LimitName::SlowStart);
        assert_eq!(division.dominant(), Some(LimitName::ReceiveWindow));
    }

    proptest! {
        #[test]
        fn the_parts_sum_to_the_span_whatever_the_clocks_say(
            busy in 0_u64..5000, rwnd in 0_u64..5000, sndbuf in 0_u64..5000, span in 0_u64..5000,
        ) {
            let clocks = Clocks { busy: ms(busy), rwnd_limited: ms(rwnd), sndbuf_limited: ms(sndbuf) };
            let division = clocks.divide(ms(span), LimitName::SlowStart);
            let sum: Duration = division.shares().map(|(_, held)| held).sum();
            prop_assert_eq!(sum, ms(span));
        }
    }
}
