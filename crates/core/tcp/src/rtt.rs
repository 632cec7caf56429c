use core::time::Duration;

use units::Time;

/// Round-trip time and retransmission timeout (RFC 6298), and the smallest RTT of five minutes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RttEstimator {
    smoothed: Option<Duration>,
    variation: Duration,
    min: Option<(Duration, Time)>,
    rto: Duration,
    backoff: u32,
    floor: Duration,
}

/// RFC 6298 section 2.1, after Appendix A's measurements.
pub(crate) const INITIAL_RTO: Duration = Duration::from_secs(1);
/// After a SYN that had to be repeated.
const FALLBACK_RTO: Duration = Duration::from_secs(3);
/// `TCP_RTO_MAX`; section 2.5 allows any bound of at least 60 s.
const MAX_RTO: Duration = Duration::from_mins(2);
/// `tcp_min_rtt_wlen`.
const MIN_WINDOW: Duration = Duration::from_mins(5);

/// 36 years: longer than any round trip, short enough to be multiplied by seven.
const MOST_NANOS: u64 = u64::MAX / 16;

// === impl RttEstimator ===

impl RttEstimator {
    pub(crate) const fn new(floor: Duration) -> Self {
        Self {
            smoothed: None,
            variation: Duration::ZERO,
            min: None,
            rto: INITIAL_RTO,
            backoff: 0,
            floor,
        }
    }

    /// The handshake gave no sample, because its SYN was repeated.
    pub(crate) const fn fall_back(&mut self) {
        //= https://www.rfc-editor.org/rfc/rfc6298#section-5
        //# (5.7) If the timer expires awaiting the ACK of a SYN segment and the
        //# TCP implementation is using an RTO less than 3 seconds, the RTO
        //# MUST be re-initialized to 3 seconds when data transmission
        //# begins
        self.rto = FALLBACK_RTO;
    }

    pub(crate) const fn smoothed(&self) -> Option<Duration> {
        self.smoothed
    }

    pub(crate) fn min(&self) -> Option<Duration> {
        self.min.map(|(rtt, _)| rtt)
    }

    /// The timeout with its backoff.
    pub(crate) fn timeout(&self) -> Duration {
        //= https://www.rfc-editor.org/rfc/rfc6298#section-5
        //# (5.5) The host MUST set RTO <- RTO * 2 ("back off the timer").
        self.rto
            .saturating_mul(1 << self.backoff.min(16))
            .min(MAX_RTO)
    }

    pub(crate) const fn back_off(&mut self) {
        self.backoff = self.backoff.saturating_add(1);
    }

    pub(crate) const fn reset_backoff(&mut self) {
        self.backoff = 0;
    }

    /// A sample by Karn's rule.
    pub(crate) fn sample(&mut self, now: Time, rtt: Duration) {
        let expired = self.min.is_some_and(|(_, at)| now.since(at) > MIN_WINDOW);
        if expired || self.min.is_none_or(|(min, _)| rtt <= min) {
            self.min = Some((rtt, now));
        }
        let smoothed = match self.smoothed {
            None => {
                //= https://www.rfc-editor.org/rfc/rfc6298#section-2
                //# SRTT <- R
                //# RTTVAR <- R/2
                self.variation = rtt / 2;
                rtt
            }
            Some(smoothed) => {
                //= https://www.rfc-editor.org/rfc/rfc6298#section-2
                //# RTTVAR <- (1 - beta) * RTTVAR + beta * |SRTT - R'|
                //# SRTT <- (1 - alpha) * SRTT + alpha * R'
                let (old, new) = (nanos(smoothed), nanos(rtt));
                let variation = nanos(self.variation) * 3 / 4 + old.abs_diff(new) / 4;
                self.variation = Duration::from_nanos(variation);
                Duration::from_nanos(old * 7 / 8 + new / 8)
            }
        };
        self.smoothed = Some(smoothed);
        // The floor is that of the variation, as in Linux (`tcp_rttvar_us` starts at `tcp_rto_min`), so
        // that a long, steady path does not time out when its RTT rises a little.
        self.rto = smoothed + (self.variation * 4).max(self.floor);
        self.backoff = 0;
    }
}

/// Whole numbers are several times faster to average than `Duration`s, which count in two parts. Bounded,
/// so that sums of a few cannot overflow.
fn nanos(span: Duration) -> u64 {
    u64::try_from(span.as_nanos()).map_or(MOST_NANOS, |nanos| nanos.min(MOST_NANOS))
}
