use core::time::Duration;

use units::{Bytes, Rate, Time};

/// What a connection's acknowledgements tell of its speed.
///
/// Measured between relays, from the moment a frame is given to the socket: it contains the socket's queue
/// and the path's, which is what a chunk given now will meet.
#[derive(Debug, Default)]
pub(crate) struct Pace {
    /// Smoothed time to an acknowledgement and its mean deviation, as RFC 6298 smooths an RTT.
    smoothed: Option<(Duration, Duration)>,
    /// The least seen in this and in the last period: near the path's own round trip.
    least: [Option<Duration>; 2],
    /// The highest delivery rate in this and in the last period, bytes per second.
    fastest: [u64; 2],
    period_began_at: Time,
    /// Bytes acknowledged since the connection came up.
    delivered: u64,
    /// When `delivered` last changed.
    delivered_at: Time,
}

/// What has to be remembered of a frame to learn from its acknowledgement.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Mark {
    sent_at: Time,
    delivered: u64,
    delivered_at: Time,
}

/// Long enough to hold several round trips of any path, short enough to follow a route change.
const PERIOD: Duration = Duration::from_secs(5);

/// Ten segments (RFC 6928).
const INITIAL_WINDOW: u64 = 14_600;

impl Pace {
    pub(crate) fn mark(&mut self, idle: bool, now: Time) -> Mark {
        if idle {
            // The pause is not part of the delivery that begins now.
            self.delivered_at = now;
        }
        Mark {
            sent_at: now,
            delivered: self.delivered,
            delivered_at: self.delivered_at,
        }
    }

    /// Frames up to one with this mark are acknowledged; `bytes` of them are new.
    pub(crate) fn on_ack(&mut self, bytes: u64, last: Mark, now: Time) {
        self.delivered += bytes;
        self.delivered_at = now;
        self.on_round_trip(now.since(last.sent_at), now);
        // The longer of the two spans, as in draft-cheng-iccrg-delivery-rate-estimation: acknowledgements
        // that come in one lump must not look like speed.
        let span = now.since(last.delivered_at).max(now.since(last.sent_at));
        let rate = Bytes::new(self.delivered - last.delivered)
            .checked_per(span)
            .map_or(0, Rate::bytes_per_s);
        let [current, _] = &mut self.fastest;
        *current = (*current).max(rate);
    }

    pub(crate) fn on_round_trip(&mut self, sample: Duration, now: Time) {
        if now.since(self.period_began_at) >= PERIOD {
            self.period_began_at = now;
            self.least = [None, self.least[0]];
            self.fastest = [0, self.fastest[0]];
        }
        let [current, _] = &mut self.least;
        *current = Some(current.map_or(sample, |least| least.min(sample)));
        self.smoothed = Some(match self.smoothed {
            None => (sample, sample / 2),
            Some((mean, deviation)) => (
                (mean * 7 + sample) / 8,
                (deviation * 3 + mean.abs_diff(sample)) / 4,
            ),
        });
    }

    /// The least time to an acknowledgement of late.
    pub(crate) fn round_trip(&self) -> Option<Duration> {
        self.least.iter().flatten().min().copied()
    }

    /// The smoothed time to an acknowledgement.
    pub(crate) fn smoothed(&self) -> Option<Duration> {
        self.smoothed.map(|(mean, _)| mean)
    }

    /// After this long without an acknowledgement something is wrong.
    pub(crate) fn stall_after(&self, least: Duration) -> Duration {
        // Without a sample, RFC 6298's initial second.
        let (mean, deviation) = self
            .smoothed
            .unwrap_or((Duration::from_secs(1), Duration::ZERO));
        mean + (deviation * 4).max(least)
    }

    /// Bytes per second, the highest of late; `None` before the first acknowledgement.
    pub(crate) fn rate(&self) -> Option<u64> {
        self.fastest.iter().max().copied().filter(|rate| *rate > 0)
    }

    /// Bytes that keep the path busy for one round trip.
    pub(crate) fn bdp(&self) -> Option<u64> {
        Rate::bit_per_s(self.rate()?.saturating_mul(8))
            .checked_mul(self.round_trip()?)
            .map(Bytes::get)
    }

    /// When an acknowledgement of `len` more bytes will come, behind `ahead` that are on their way; `None`
    /// before the first acknowledgement.
    pub(crate) fn expected(&self, ahead: u64, len: u64) -> Option<Duration> {
        let round_trip = self.round_trip()?;
        // What has carried little was asked for little: any connection carries an initial window.
        let least = Bytes::new(INITIAL_WINDOW)
            .checked_per(round_trip)
            .map_or(0, Rate::bytes_per_s);
        let rate = Rate::bit_per_s(self.rate().unwrap_or(0).max(least).saturating_mul(8));
        let alone = round_trip + Bytes::new(len).checked_div(rate)?;
        Some(alone.max(Bytes::new(ahead + len).checked_div(rate)?))
    }
}
