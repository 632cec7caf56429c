use core::fmt;
use core::time::Duration;

use units::{Rate, Time};

/// How much a sender may have in flight, and why.
///
/// Windows are in segments. The endpoint calls one `on_` method per occurrence and reads the window
/// afterwards; none of them is called for segments that carry no data.
pub trait Controller: fmt::Debug + Send {
    /// The congestion window, in segments; at least one.
    fn cwnd(&self) -> u32;

    /// The slow-start threshold, in segments; `u32::MAX` where nothing has set one yet.
    fn ssthresh(&self) -> u32;

    /// An ACK delivered something, or carried a sample. Called for every such ACK, also in recovery.
    fn on_ack(&mut self, ack: &Acknowledgement);

    /// Loss was found, or an ECN mark, for the first time in this window of data: reduces `ssthresh`
    /// and the window to it. The endpoint spreads the reduction over the round trip.
    fn on_congestion_event(&mut self, now: Time, in_flight: u32);

    /// A router marked a segment instead of dropping it (RFC 3168 section 6.1.2: as for a loss). The next
    /// call of [`on_recovery_end`](Self::on_recovery_end) ends the reduction.
    fn on_congestion_mark(&mut self, now: Time, in_flight: u32) {
        self.on_congestion_event(now, in_flight);
    }

    /// The retransmission timer expired: everything in flight counts as lost.
    fn on_timeout(&mut self, now: Time, in_flight: u32);

    /// It expired in a window of data for which the threshold has fallen already, because a repair was lost
    /// as well: only the window falls, to one segment (Linux `tcp_enter_loss`).
    fn on_repeated_timeout(&mut self, now: Time, in_flight: u32);

    /// All that was outstanding when recovery or a timeout began has been acknowledged.
    fn on_recovery_end(&mut self, _now: Time) {}

    /// Data is about to leave after `idle` without any in flight. `restart` is set where the host
    /// validates windows (RFC 2861, Linux `tcp_slow_start_after_idle`) and `idle` exceeds the `rto`.
    fn on_idle(&mut self, now: Time, idle: Duration, rto: Duration, restart: bool);

    /// The application used no more than `used` segments of the window during a whole RTO (RFC 2861
    /// section 3.1, Linux `tcp_cwnd_application_limited`).
    fn on_application_limited(&mut self, used: u32);

    /// Nothing shows that the path carries more than `cwnd` segments: lowers the window to that, and
    /// remembers three quarters of what it was as the threshold (RFC 7661 section 4.4).
    fn limit(&mut self, _cwnd: u32) {}

    /// The last reduction was a mistake: what had been declared lost arrived (RFC 3522, RFC 3708).
    fn undo(&mut self);

    /// The rate at which segments should leave, in bits of payload per second; `None` where the window
    /// alone decides.
    fn pacing_rate(&self) -> Option<Rate> {
        None
    }

    /// Whether it keeps the window small for a while, so that what is delivered says nothing about the path
    /// and counts as limited by the application (BBR's `PROBE_RTT`).
    fn hides_rate(&self) -> bool {
        false
    }

    /// Whether it sets its own window during recovery too, so that the endpoint must not (BBR).
    fn shapes_recovery(&self) -> bool {
        false
    }

    /// How many windows the host should buffer for sending (`sndbuf_expand`): what is in flight, and as
    /// much again for the time in which it is repaired.
    fn buffered_windows(&self) -> u32 {
        2
    }

    /// Whether the window is below the threshold.
    fn in_slow_start(&self) -> bool {
        self.cwnd() < self.ssthresh()
    }
}

/// What one ACK told.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Acknowledgement {
    /// When it came.
    pub now: Time,
    /// Segments that it newly reports as delivered, by acknowledgement number or SACK.
    pub delivered: u32,
    /// Segments newly found lost with it.
    pub lost: u32,
    /// RTT of the newest segment that it delivers, by Karn's rule.
    pub rtt: Option<Duration>,
    /// Segments in flight before it.
    pub in_flight_before: u32,
    /// Segments in flight after it.
    pub in_flight: u32,
    /// Whether the window may grow: not in recovery, and forward progress was made.
    pub may_grow: bool,
    /// Whether the window was what held the sender back during the last round trip (RFC 7661 section
    /// 4.1 in the form of Linux' `tcp_is_cwnd_limited`).
    pub cwnd_limited: bool,
    /// Offset of the first unacknowledged byte.
    pub acked_to: u64,
    /// Offset after the last byte sent.
    pub sent_to: u64,
    /// The delivery rate, where the ACK gave one.
    pub rate: Option<DeliveryRate>,
    /// Whether loss is being repaired (fast recovery or after a timeout).
    pub recovering: bool,
}

/// A delivery-rate sample (draft-ietf-ccwg-bbr section 4.1, Linux `tcp_rate.c`).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct DeliveryRate {
    /// Segments delivered since the newest acknowledged segment was sent.
    pub delivered: u32,
    /// In what time.
    pub interval: Duration,
    /// Segments delivered over the connection's life when that segment was sent.
    pub prior_delivered: u64,
    /// Segments delivered over the connection's life.
    pub total_delivered: u64,
    /// Segments in flight when that segment was sent.
    pub sent_in_flight: u32,
    /// Segments found lost since that segment was sent.
    pub lost: u32,
    /// Whether the application, not the network, may have set the rate.
    pub application_limited: bool,
}
