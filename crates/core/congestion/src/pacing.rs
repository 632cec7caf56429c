//! What both versions of BBR count alike.

use core::time::Duration;

use units::Rate;

use crate::tuning::Tuning;

/// Gains are in 256ths, as in Linux' `tcp_bbr.c`.
pub(crate) const UNIT: u64 = 256;

/// Multiples of the estimated rate and of the product, in 256ths.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Gains {
    /// Rate and window while the rate is still looked for.
    pub(crate) startup: u64,
    /// The window afterwards.
    pub(crate) cwnd: u64,
}

/// Two products in flight, because ACKs come in bundles (both versions).
const CWND_GAIN: u64 = 2 * UNIT;

// === impl Gains ===

impl Gains {
    /// `startup` is the version's own.
    pub(crate) fn new(tuning: &Tuning, startup: u64) -> Self {
        Self {
            startup: tuning.startup_gain.unwrap_or(startup),
            cwnd: tuning.cwnd_gain.unwrap_or(CWND_GAIN),
        }
    }
}

/// The initial window per RTT, times the gain that startup has.
pub(crate) fn initial_pacing(cwnd: u32, mss: u32, rtt: Duration, gain: u64) -> Rate {
    let bits = u128::from(cwnd) * u128::from(mss) * 8 * u128::from(gain) / u128::from(UNIT);
    let rate = (bits * 1_000_000_000).checked_div(rtt.as_nanos());
    Rate::bit_per_s(u64::try_from(rate.unwrap_or(u128::MAX)).unwrap_or(u64::MAX))
}
