//! How fast the path delivers (Linux `tcp_rate.c`).

use congestion::DeliveryRate;
use units::Time;

use super::Sender;
use crate::scoreboard::{Delivery, Newest, RateStamp};

/// Deliveries so far, and since when the present flight is under way.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct RateState {
    pub(super) delivered: u64,
    pub(super) delivered_at: Time,
    pub(super) flight_started_at: Time,
    /// Segments found lost.
    pub(super) lost: u64,
    /// Deliveries up to this count may have been limited by the application.
    pub(super) limited_until: Option<u64>,
}

impl Sender {
    pub(super) fn stamp(&mut self, now: Time) -> RateStamp {
        if self.board.outstanding() == 0 {
            // A new flight: the time in which nothing was under way must not count.
            self.rate.flight_started_at = now;
            self.rate.delivered_at = now;
        }
        RateStamp {
            delivered: self.rate.delivered,
            delivered_at: self.rate.delivered_at,
            flight_started_at: self.rate.flight_started_at,
            application_limited: self.rate.limited_until.is_some(),
            // With the segment that is about to leave.
            in_flight: self.board.in_flight() + 1,
            lost: self.rate.lost,
        }
    }

    /// Something else than the network may set the rate of what is in flight.
    pub(super) fn limit_rate(&mut self) {
        let until = self.rate.delivered + u64::from(self.board.in_flight());
        self.rate.limited_until = Some(until.max(1));
    }

    pub(super) fn rate_sample(&mut self, now: Time, delivery: &Delivery) -> Option<DeliveryRate> {
        if delivery.segments == 0 {
            return None;
        }
        self.rate.delivered += u64::from(delivery.segments);
        self.rate.delivered_at = now;
        if self
            .rate
            .limited_until
            .is_some_and(|until| self.rate.delivered > until)
        {
            self.rate.limited_until = None;
        }
        let Newest { at, stamp, .. } = delivery.newest?;
        // The slower of how fast they were sent and how fast they were acknowledged.
        let sending = at.since(stamp.flight_started_at);
        let interval = sending.max(now.since(stamp.delivered_at));
        self.rate.flight_started_at = at;
        if interval.is_zero() || self.rtt.min().is_some_and(|min| interval < min) {
            return None;
        }
        Some(DeliveryRate {
            delivered: u32::try_from(self.rate.delivered - stamp.delivered).unwrap_or(u32::MAX),
            interval,
            prior_delivered: stamp.delivered,
            total_delivered: self.rate.delivered,
            sent_in_flight: stamp.in_flight,
            lost: u32::try_from(self.rate.lost - stamp.lost).unwrap_or(u32::MAX),
            application_limited: stamp.application_limited,
        })
    }
}
