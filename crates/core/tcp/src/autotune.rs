use core::time::Duration;

use units::Time;

use crate::config::ReceiveBuffer;

/// How far ahead of the reader the peer may send: a buffer that grows with what is read per round trip
/// (Linux `tcp_rcv_space_adjust`), and a window that approaches it as data arrives (`tcp_grow_window`).
#[derive(Debug)]
pub(crate) struct Autotune {
    /// Memory for what has arrived, with all that a segment takes beside its payload (`sk_rcvbuf`).
    buffer: u64,
    max_buffer: u64,
    /// How much of the buffer counts as payload, in 256ths (`scaling_ratio`).
    ratio: u64,
    /// Window that the buffer allows (`window_clamp`).
    limit: u64,
    /// Window that is offered (`rcv_ssthresh`).
    offered: u64,
    /// What a window may be without scaling.
    bound: u64,
    fixed: bool,
    /// Bytes read in the best round trip so far (`rcvq_space.space`).
    per_round_trip: u64,
    measured_from: u64,
    measured_at: Time,
    /// Whole milliseconds, because the peer's clock tells no more, and eighths of them by averaging.
    rtt: Option<Duration>,
    /// The echo of the last sample: many segments carry the same one (`rcv_rtt_last_tsecr`).
    sampled: Option<Time>,
}

/// One half, until a full segment has shown how much memory it takes.
const FIRST_RATIO: u64 = 128;
const WHOLE: u64 = 256;

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
            buffer: initial.saturating_mul(WHOLE / FIRST_RATIO),
            max_buffer: max.max(initial).saturating_mul(WHOLE / FIRST_RATIO),
            ratio: FIRST_RATIO,
            limit,
            offered,
            bound,
            fixed,
            per_round_trip: offered.min(u64::from(initial_cwnd) * segment),
            measured_from: 1,
            measured_at: Time::ZERO,
            rtt: None,
            sampled: None,
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

    /// More than any window that may ever be offered, from which the scale is chosen; Linux takes the
    /// buffer, whatever share of it becomes payload.
    pub(crate) fn max(&self) -> u64 {
        let most = if self.fixed {
            self.limit
        } else {
            self.max_buffer
        };
        most.min(self.bound)
    }

    /// The round trip as the peer's echoes show it.
    pub(crate) const fn rtt(&self) -> Option<Duration> {
        self.rtt
    }

    /// The handshake is complete.
    pub(crate) const fn start(&mut self, now: Time) {
        self.measured_at = now;
    }

    /// The largest segment so far carries `len` bytes, and shows how much of the memory that it takes is
    /// payload (`tcp_measure_rcv_mss`).
    pub(crate) fn measure_segment(&mut self, len: u32) {
        if self.fixed {
            return;
        }
        self.ratio = (u64::from(len) * WHOLE / memory_of(len)).clamp(1, WHOLE);
        self.limit = self.window_of(self.buffer);
    }

    /// A full segment's timestamp, sent at `echoed`, says how long the round trip takes
    /// (`tcp_rcv_rtt_measure_ts`). With `unread` data the reader's pace is in it, so that only a smaller
    /// one counts.
    pub(crate) fn sample_rtt(&mut self, now: Time, echoed: Time, unread: bool) {
        if self.sampled.replace(echoed) == Some(echoed) {
            return;
        }
        let rtt = Time::from_millis(now.as_nanos() / 1_000_000).since(echoed);
        if rtt.is_zero() {
            return;
        }
        match self.rtt {
            Some(smoothed) if rtt >= smoothed && unread => {}
            Some(smoothed) if rtt >= smoothed => self.rtt = Some(smoothed * 7 / 8 + rtt / 8),
            Some(_) | None => self.rtt = Some(rtt),
        }
    }

    /// Data lies beyond a hole, up to `extent` bytes ahead of the first missing byte: the window has to
    /// hold that beside what a round trip brings, or every loss would stop the sender (Linux
    /// `tcp_data_queue_ofo` since 6.16).
    pub(crate) fn on_ahead(&mut self, extent: u64) {
        if !self.fixed {
            let wanted = self.per_round_trip.saturating_mul(2).saturating_add(extent);
            self.grow(wanted);
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

    /// The application has read up to `read_to`, and `unread` bytes wait; the data beyond a hole reaches
    /// `ahead` bytes over it.
    pub(crate) fn on_read(&mut self, now: Time, read_to: u64, unread: u64, ahead: u64) {
        let Some(rtt) = self.rtt.filter(|_| !self.fixed) else {
            return;
        };
        if now.since(self.measured_at) < rtt {
            return;
        }
        // What waits is what the reader did not keep up with.
        let copied = read_to
            .saturating_sub(self.measured_from)
            .saturating_sub(unread);
        if copied > self.per_round_trip {
            // `tcp_rcvbuf_grow`: twice what was read, because the sender may double while this is on
            // its way, and in proportion to the growth seen.
            let before = self.per_round_trip.max(1);
            let mut window = u128::from(copied) * 2;
            window += 2 * (window * u128::from(copied - self.per_round_trip) / u128::from(before));
            window += u128::from(ahead);
            self.grow(u64::try_from(window).unwrap_or(u64::MAX));
            self.per_round_trip = copied;
        }
        self.measured_from = read_to;
        self.measured_at = now;
    }

    /// Makes the buffer large enough for a window, as far as it may be.
    fn grow(&mut self, window: u64) {
        let wanted = u128::from(window) * u128::from(WHOLE) / u128::from(self.ratio);
        let wanted = u64::try_from(wanted).unwrap_or(u64::MAX);
        let buffer = wanted.min(self.max_buffer);
        if buffer > self.buffer {
            self.buffer = buffer;
            self.limit = self.window_of(buffer);
        }
    }

    /// `tcp_win_from_space`.
    fn window_of(&self, buffer: u64) -> u64 {
        let window = u128::from(buffer) * u128::from(self.ratio) / u128::from(WHOLE);
        u64::try_from(window).unwrap_or(u64::MAX).min(self.bound)
    }
}

/// Memory that a segment with `len` bytes of payload takes: a power of two that holds it with its headers
/// and its list of fragments, and its description (`skb->truesize`; 2304 bytes for 1448, as a TUN device
/// and most others count it).
fn memory_of(len: u32) -> u64 {
    const HEADERS_AND_FRAGMENTS: u64 = 320;
    const DESCRIPTION: u64 = 256;
    (u64::from(len) + HEADERS_AND_FRAGMENTS).next_power_of_two() + DESCRIPTION
}
