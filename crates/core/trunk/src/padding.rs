use core::time::Duration;

use units::Time;

use crate::Padding;

/// What may be spent on padding, as a bucket that fills at a rate.
#[derive(Debug)]
pub(crate) struct Allowance {
    padding: Padding,
    left: u64,
    filled_at: Option<Time>,
}

impl Allowance {
    pub(crate) fn new(padding: Padding) -> Self {
        Self {
            padding,
            left: padding.burst.get(),
            filled_at: None,
        }
    }

    /// What is left now.
    pub(crate) fn left(&mut self, now: Time) -> u64 {
        let since = self
            .filled_at
            .replace(now)
            .map_or(Duration::ZERO, |at| now.since(at));
        let gained = self
            .padding
            .rate
            .checked_mul(since)
            .map_or(0, units::Bytes::get);
        if gained == 0 && since > Duration::ZERO {
            // Too little time for a byte: it must not be lost.
            self.filled_at = Some(now.saturating_sub(since));
        }
        self.left = self
            .left
            .saturating_add(gained)
            .min(self.padding.burst.get());
        self.left
    }

    pub(crate) fn spend(&mut self, bytes: u64) {
        self.left = self.left.saturating_sub(bytes);
    }

    pub(crate) const fn peek(&self) -> u64 {
        self.left
    }
}

/// Whether a connection is still getting faster while it carries nothing but padding, as BBR tells that a
/// pipe is full: three round trips without a quarter more.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Warmth {
    /// The highest delivery rate seen, bytes per second.
    best: u64,
    rounds_without_growth: u32,
    round_ends_at: Time,
    /// Bytes sent when the round began.
    sent: u64,
}

const ROUNDS: u32 = 3;

impl Warmth {
    /// The kernel says this delivery rate, bytes per second, after `sent` bytes in all. A round in which
    /// less than half a `window` was sent says nothing.
    pub(crate) fn observe(
        &mut self,
        rate: u64,
        round_trip: Duration,
        sent: u64,
        window: u64,
        now: Time,
    ) {
        if now < self.round_ends_at || sent.saturating_sub(self.sent) < window / 2 {
            return;
        }
        self.round_ends_at = now + round_trip;
        self.sent = sent;
        if u128::from(rate) * 4 >= u128::from(self.best) * 5 {
            self.best = rate;
            self.rounds_without_growth = 0;
        } else {
            self.rounds_without_growth = self.rounds_without_growth.saturating_add(1);
        }
    }

    /// The rate at which it stopped growing.
    pub(crate) fn full(&self) -> Option<u64> {
        (self.rounds_without_growth >= ROUNDS && self.best > 0).then_some(self.best)
    }
}
