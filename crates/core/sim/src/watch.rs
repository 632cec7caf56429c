//! Senders looked at from time to time: the series of a transfer.

use std::time::Duration;

use record::lab::{Series, SeriesPoint};
use tcp::SenderView;
use units::{Bytes, Time};

/// Some ends of connections and what was seen of them so far, their figures taken together.
#[derive(Clone, Debug)]
pub(crate) struct Watch {
    interval: Duration,
    since: Time,
    next_at: Time,
    /// Sums at the start and at the last point.
    start: Sums,
    last: Sums,
    points: Vec<SeriesPoint>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Sums {
    acknowledged: u64,
    retransmissions: u64,
    cwnd: u64,
    outstanding: u64,
    /// Smoothed round-trip times of those that have measured one, and how many they are.
    rtts: Duration,
    measured: u32,
}

// === impl Watch ===

impl Watch {
    pub(crate) fn new(
        now: Time,
        interval: Duration,
        views: impl Iterator<Item = SenderView>,
    ) -> Self {
        let start = Sums::of(views);
        Self {
            interval,
            since: now,
            next_at: now + interval,
            start,
            last: start,
            points: Vec::new(),
        }
    }

    /// When it wants to look next.
    pub(crate) const fn next_at(&self) -> Time {
        self.next_at
    }

    /// Looks, at the moment of [`next_at`](Self::next_at). `queue` is what waits at the bottleneck.
    pub(crate) fn look(&mut self, views: impl Iterator<Item = SenderView>, queue: Bytes) {
        let sums = Sums::of(views);
        let delivered = sums.acknowledged.saturating_sub(self.last.acknowledged);
        let again = sums.retransmissions;
        self.points.push(SeriesPoint {
            at_s: self.next_at.since(self.since).as_secs_f64(),
            goodput_bps: Some(bits(delivered) / self.interval.as_secs_f64()),
            cwnd: Some(sums.cwnd),
            rtt_s: sums.mean_rtt().map(|rtt| rtt.as_secs_f64()),
            in_flight: Some(sums.outstanding),
            queue: Some(queue.get()),
            retransmissions: Some(again.saturating_sub(self.start.retransmissions)),
        });
        self.last = sums;
        self.next_at += self.interval;
    }

    pub(crate) fn into_series(self) -> Series {
        Series {
            interval_s: self.interval.as_secs_f64(),
            points: self.points,
        }
    }
}

// === impl Sums ===

impl Sums {
    fn of(views: impl Iterator<Item = SenderView>) -> Self {
        let mut sums = Self::default();
        for view in views {
            sums.acknowledged += view.acknowledged;
            sums.retransmissions += view.retransmissions;
            sums.cwnd += u64::from(view.cwnd) * u64::from(view.mss);
            sums.outstanding += view.outstanding;
            if let Some(rtt) = view.smoothed_rtt {
                sums.rtts += rtt;
                sums.measured += 1;
            }
        }
        sums
    }

    fn mean_rtt(&self) -> Option<Duration> {
        (self.measured > 0).then(|| self.rtts / self.measured)
    }
}

#[expect(
    clippy::cast_precision_loss,
    reason = "bytes of a simulation are far below 2^52"
)]
fn bits(bytes: u64) -> f64 {
    bytes as f64 * 8.0
}
