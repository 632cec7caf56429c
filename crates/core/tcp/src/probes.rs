use core::time::Duration;

use units::Time;

/// The one timer of a sender, and what it is for.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Timer {
    pub(crate) at: Time,
    pub(crate) purpose: Purpose,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Purpose {
    /// Everything outstanding is lost (RFC 6298).
    Retransmit,
    /// The tail of the flight is asked about (RFC 8985 section 7).
    TailProbe,
    /// Reordered segments have had their time (RFC 8985 section 6.3).
    Reorder,
    /// The peer's closed window is asked about (RFC 9293 section 3.8.6.1).
    WindowProbe,
}

/// A tail loss probe under way.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct TailProbe {
    /// Acknowledged up to here, the probe has been answered.
    pub(crate) until: u64,
    /// Whether it repeated a segment, instead of sending a new one.
    pub(crate) repeated: bool,
}

/// What a peer may add by delaying its ACK when a single segment is outstanding (`TCP_RTO_MIN`).
const WORST_DELAYED_ACK: Duration = Duration::from_millis(200);
/// `TCP_TIMEOUT_MIN`: two ticks.
const GRAIN: Duration = Duration::from_millis(2);

/// RFC 8985 section 7.2: how long after the last transmission the probe is due.
pub(crate) fn probe_timeout(smoothed: Option<Duration>, outstanding: u32) -> Duration {
    let Some(smoothed) = smoothed else {
        return Duration::from_secs(1);
    };
    //= https://www.rfc-editor.org/rfc/rfc8985#section-7.2
    //# PTO = 2 * SRTT
    let extra = if outstanding == 1 {
        WORST_DELAYED_ACK
    } else {
        GRAIN
    };
    smoothed * 2 + extra
}
