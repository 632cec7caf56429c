use core::time::Duration;

use units::{Bytes, Rate, Time};

use crate::Padding;

/// One frame of padding, as long as a socket takes at a time.
pub(crate) const PIECE: usize = 16 << 10;

/// What may be spent on padding, as a bucket that fills at a rate and is emptied in one go: windows grow in
/// bursts, and a trickle at the refill's rate would keep nothing hot and never end.
#[derive(Debug)]
pub(crate) struct Allowance {
    padding: Padding,
    left: u64,
    /// From a full bucket until it is empty.
    spending: bool,
    filled_at: Option<Time>,
}

impl Allowance {
    pub(crate) fn new(padding: Padding) -> Self {
        Self {
            padding,
            left: padding.burst.get(),
            spending: true,
            filled_at: None,
        }
    }

    /// What may go out now; nothing between an empty bucket and the next full one.
    pub(crate) fn left(&mut self, now: Time) -> u64 {
        let since = self
            .filled_at
            .replace(now)
            .map_or(Duration::ZERO, |at| now.since(at));
        let gained = self.padding.rate.checked_mul(since).map_or(0, Bytes::get);
        if gained == 0 && since > Duration::ZERO {
            // Too little time for a byte: it must not be lost.
            self.filled_at = Some(now.saturating_sub(since));
        }
        self.left = self
            .left
            .saturating_add(gained)
            .min(self.padding.burst.get());
        self.spending |= self.left == self.padding.burst.get();
        if self.spending { self.left } else { 0 }
    }

    pub(crate) fn spend(&mut self, bytes: u64) {
        self.left = self.left.saturating_sub(bytes);
        self.spending &= self.left >= PIECE as u64;
    }

    pub(crate) const fn peek(&self) -> u64 {
        self.left
    }
}

/// Whether a connection is still getting faster, as BBR tells that a pipe is full: three round trips without a
/// quarter more.
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
    /// less was sent than half a `window`, and than half of what the best rate carries, says nothing. Half a window
    /// alone would not do: a start's window holds three times what the path carries.
    pub(crate) fn observe(
        &mut self,
        rate: u64,
        round_trip: Duration,
        sent: u64,
        window: u64,
        now: Time,
    ) {
        let carried = Rate::bit_per_s(self.best.saturating_mul(8)).checked_mul(round_trip);
        let enough = carried.map_or(window, Bytes::get).min(window) / 2;
        if now < self.round_ends_at || sent.saturating_sub(self.sent) < enough {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_empty_allowance_is_full_again_before_any_of_it_is_spent() {
        let mut allowance = Allowance::new(Padding {
            burst: Bytes::mib(1),
            rate: Rate::mbit_per_s(1),
            ready_for: None,
        });
        let start = Time::from_millis(0);
        assert_eq!(allowance.left(start), 1 << 20);
        allowance.spend(1 << 20);
        // 1 MiB at 1 Mbit/s takes 8.4 s.
        assert_eq!(allowance.left(start + Duration::from_secs(8)), 0);
        assert_eq!(allowance.left(start + Duration::from_secs(9)), 1 << 20);
    }

    #[test]
    fn what_a_connection_did_not_need_stays_at_hand() {
        let mut allowance = Allowance::new(Padding {
            burst: Bytes::mib(1),
            rate: Rate::bit_per_s(8),
            ready_for: None,
        });
        let start = Time::from_millis(0);
        allowance.spend(1 << 19);
        assert_eq!(allowance.left(start), 1 << 19);
    }
}
