//! What both versions of BBR count alike.

use core::time::Duration;

use units::Rate;

/// Gains are in 256ths, as in Linux' `tcp_bbr.c`.
pub(crate) const UNIT: u64 = 256;

/// The initial window per RTT, times the gain that startup has.
pub(crate) fn initial_pacing(cwnd: u32, mss: u32, rtt: Duration, gain: u64) -> Rate {
    let bits = u128::from(cwnd) * u128::from(mss) * 8 * u128::from(gain) / u128::from(UNIT);
    let rate = (bits * 1_000_000_000).checked_div(rtt.as_nanos());
    Rate::bit_per_s(u64::try_from(rate.unwrap_or(u128::MAX)).unwrap_or(u64::MAX))
}
