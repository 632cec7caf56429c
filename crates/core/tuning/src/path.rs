use std::time::Duration;

use units::{Bytes, LossRate, Rate};

/// The path that a host is tuned for.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Path {
    /// Round-trip time of the idle path.
    pub rtt: Duration,
    /// Its rate, in IP bytes.
    pub rate: Rate,
    /// Random loss in each direction.
    pub loss: LossRate,
}

// === impl Path ===

impl Path {
    /// Bandwidth-delay product: what has to fly for the path to be full. Saturates.
    #[must_use]
    pub fn bdp(&self) -> Bytes {
        self.rate
            .checked_mul(self.rtt)
            .unwrap_or(Bytes::new(u64::MAX))
    }

    pub(crate) fn record(&self) -> record::tune::Path {
        record::tune::Path {
            rtt_s: self.rtt.as_secs_f64(),
            #[expect(clippy::cast_precision_loss, reason = "a rate below 2^53 bit/s")]
            rate_bps: self.rate.bits_per_s() as f64,
            loss: self.loss.as_f64(),
            bdp_bytes: self.bdp().get(),
        }
    }
}
