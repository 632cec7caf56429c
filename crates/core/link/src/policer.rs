use core::ops::Range;

use units::{Bytes, Rate, Time};

use crate::item::Segments;

/// A token bucket before the queue: what finds too few tokens is dropped, nothing waits.
///
/// As `tc`'s policer and most operators' do it: the bucket starts full, fills at `rate` up to `burst`,
/// and a packet passes when the bucket holds a token for each of its bytes.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Deserialize, serde::Serialize))]
#[cfg_attr(feature = "serde", serde(deny_unknown_fields))]
pub struct Policer {
    /// At which tokens come, in IP bytes.
    pub rate: Rate,
    /// The most tokens the bucket holds.
    pub burst: Bytes,
}

/// A policer under way.
#[derive(Debug)]
pub(crate) struct Bucket {
    policer: Policer,
    /// In bits x 10^9, so that every nanosecond's tokens are a whole number.
    tokens: u128,
    filled_at: Time,
}

/// One byte's token in the bucket's unit.
const BYTE: u128 = 8_000_000_000;

// === impl Bucket ===

impl Bucket {
    pub(crate) fn new(policer: Policer) -> Self {
        Self {
            policer,
            tokens: u128::from(policer.burst.get()) * BYTE,
            filled_at: Time::ZERO,
        }
    }

    /// Takes tokens for an item's packets, one after the other, at `now`: those in the first range pass,
    /// and those in the second, which is empty unless a short last packet found the tokens that a long
    /// one before it did not.
    pub(crate) fn pass(&mut self, now: Time, segments: Segments) -> [Range<u32>; 2] {
        self.fill(now);
        let count = segments.count();
        let last = count - 1;
        let mut passed = 0;
        while passed < count && self.take(segments.size(passed)) {
            passed += 1;
        }
        let short_last = passed < last && self.take(segments.size(last));
        [0..passed, if short_last { last..count } else { 0..0 }]
    }

    fn fill(&mut self, now: Time) {
        let gained =
            u128::from(self.policer.rate.bits_per_s()) * now.since(self.filled_at).as_nanos();
        let most = u128::from(self.policer.burst.get()) * BYTE;
        self.tokens = self.tokens.saturating_add(gained).min(most);
        self.filled_at = self.filled_at.max(now);
    }

    fn take(&mut self, ip_bytes: u32) -> bool {
        let left = self.tokens.checked_sub(u128::from(ip_bytes) * BYTE);
        self.tokens = left.unwrap_or(self.tokens);
        left.is_some()
    }
}
