use core::time::Duration;

use units::{Bytes, Rate, Time};

/// The bottleneck: serialises one packet after the other at a constant rate.
///
/// A trace replaces this file: it answers when the bottleneck is free and when a packet is through.
#[derive(Debug)]
pub(crate) struct Shaper {
    rate: Rate,
    /// When the packet under serialisation is through, rounded up to the nanosecond.
    free_at: Time,
    /// By how much `free_at` was rounded up, in units of 1 ns / rate. Without it, 1500 bytes at
    /// 7 Gbit/s would take 1715 ns instead of 1714.29 and the rate would be 0.04 % low.
    rounded_up: u64,
}

// === impl Shaper ===

impl Shaper {
    /// `rate` must not be zero.
    pub(crate) const fn new(rate: Rate) -> Self {
        Self {
            rate,
            free_at: Time::ZERO,
            rounded_up: 0,
        }
    }

    pub(crate) const fn free_at(&self) -> Time {
        self.free_at
    }

    /// Serialises `bytes` from `start_at`, which must not be before [`free_at`](Self::free_at), and
    /// returns when the last bit is out.
    pub(crate) fn serialise(&mut self, start_at: Time, bytes: Bytes) -> Time {
        // Only a packet that follows without a gap inherits what the one before was rounded by.
        let inherited = if start_at == self.free_at {
            self.rounded_up
        } else {
            0
        };
        let rate = u128::from(self.rate.bits_per_s()).max(1);
        let work = (u128::from(bytes.get()) * 8_000_000_000).saturating_sub(inherited.into());
        let nanos = work.div_ceil(rate);
        // Below `rate`, which fits.
        self.rounded_up = u64::try_from(nanos * rate - work).unwrap_or(0);
        self.free_at = start_at + Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX));
        self.free_at
    }
}
