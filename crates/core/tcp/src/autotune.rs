use core::time::Duration;

use units::Time;

use crate::config::ReceiveBuffer;

/// How far ahead of the reader the peer may send: a limit that grows with what is read per round trip
/// (Linux `tcp_rcv_space_adjust`), approached as data arrives (`tcp_grow_window`).
#[derive(Debug)]
pub(crate) struct Autotune {
    /// Window that the buffer allows (`window_clamp`).
    limit: u64,
    /// Window that is offered (`rcv_ssthresh`).
    offered: u64,
    max: u64,
    fixed: bool,
    /// Bytes read in the best round trip so far (`rcvq_space.space`).
    per_round_trip: u64,
    measured_from: u64,
    measured_at: Time,
    rtt: Option<Duration>,
}

// === impl Autotune ===

impl Autotune {
    /// `segment` is what full segments are expected to carry.
    pub(crate) fn new(
        buffer: ReceiveBuffer,
        segment: u32,
        initial_cwnd: u32,
        scaled: bool,
    ) -> Self {
        let segment = u64::from(segment.max(1));
        let (initial, max, fixed) = match buffer {
            ReceiveBuffer::Fixed(bytes) => (bytes.get(), bytes.get(), true),
            ReceiveBuffer::Autotuned { initial, max } => (initial.get(), max.get(), false),
        };
        let bound = if scaled {
            u64::MAX
        } else {
            u64::from(u16::MAX)
        };
        let limit = initial.min(bound);
        // `tcp_select_initial_window` offers whole segments.
        let offered = if limit > segment && !fixed {
            limit / segment * segment
        } else {
            limit
        };
        Self {
            limit,
            offered,
            max: max.max(initial).min(bound),
            fixed,
            per_round_trip: offered.min(u64::from(initial_cwnd) * segment),
            measured_from: 1,
            measured_at: Time::ZERO,
            rtt: None,
        }
    }

    /// The window on a SYN, which is never scaled.
    pub(crate) fn initial_window(&self) -> u64 {
        self.offered.min(u64::from(u16::MAX))
    }

    pub(crate) const fn limit(&self) -> u64 {
        self.limit
    }

    pub(crate) const fn offered(&self) -> u64 {
        self.offered
    }

    /// Largest window that may ever be offered, from which the scale is chosen.
    pub(crate) const fn max(&self) -> u64 {
        self.max
    }

    /// The handshake is complete.
    pub(crate) const fn start(&mut self, now: Time) {
        self.measured_at = now;
    }

    /// A full segment's timestamp says how long the round trip takes (`tcp_rcv_rtt_measure_ts`).
    pub(crate) fn sample_rtt(&mut self, rtt: Duration) {
        self.rtt = Some(match self.rtt {
            None => rtt,
            Some(smoothed) => smoothed * 7 / 8 + rtt / 8,
        });
    }

    /// Data lies beyond a hole, up to `extent` bytes ahead of the first missing byte: the window has to
    /// hold that beside what a round trip brings, or every loss would stop the sender (Linux
    /// `tcp_data_queue_ofo` since 6.16).
    pub(crate) fn on_ahead(&mut self, extent: u64) {
        if !self.fixed {
            let wanted = self.per_round_trip.saturating_mul(2).saturating_add(extent);
            self.limit = self.limit.max(wanted.min(self.max));
        }
    }

    /// `len` bytes arrived while `unread` wait to be read, those beyond a hole among them; returns whether
    /// the offered window grew.
    pub(crate) fn on_data(&mut self, len: u32, mss: u32, unread: u64) -> bool {
        if self.fixed {
            return false;
        }
        let room = self
            .limit
            .saturating_sub(unread)
            .saturating_sub(self.offered);
        if room == 0 || len < 128 {
            // Small segments cost more memory than they carry (check #2 of `tcp_grow_window`).
            return false;
        }
        self.offered += room.min(u64::from(2 * len.max(mss)));
        true
    }

    /// The application has read up to `read_to`; the data beyond a hole reaches `ahead`
    /// bytes over it.
    pub(crate) fn on_read(&mut self, now: Time, read_to: u64, ahead: u64) {
        let Some(rtt) = self.rtt.filter(|_| !self.fixed) else {
            return;
        };
        if now.since(self.measured_at) < rtt {
            return;
        }
        let copied = read_to.saturating_sub(self.measured_from);
        if copied > self.per_round_trip {
            // `tcp_rcvbuf_grow`: twice what was read, because the sender may double while this is on
            // its way, and in proportion to the growth seen.
            let before = self.per_round_trip.max(1);
            let mut window = u128::from(copied) * 2;
            window += 2 * (window * u128::from(copied - self.per_round_trip) / u128::from(before));
            window += u128::from(ahead);
            let window = u64::try_from(window).unwrap_or(u64::MAX).min(self.max);
            self.limit = self.limit.max(window);
            self.per_round_trip = copied;
        }
        self.measured_from = read_to;
        self.measured_at = now;
    }
}
