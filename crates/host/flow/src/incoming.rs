//! The receiving half of a connection: counts, compares, notes progress, and writes receipts.

use std::time::{Duration, Instant};

use crate::pattern::{Verifier, to_u64};
use crate::protocol::{ReadPause, Receipt};

/// Points of a series at most; a longer one keeps every second point and doubles its interval.
pub(crate) const MOST_POINTS: usize = 4096;

/// The streams of one direction, one after the other.
#[derive(Debug)]
pub(crate) struct Incoming {
    verifier: Verifier,
    interval: Option<Duration>,
    window: Option<Duration>,
    pause: Option<ReadPause>,
    /// Payload bytes of all streams.
    total: u64,
    stream: Stream,
}

/// The stream under way.
#[derive(Debug, Default)]
struct Stream {
    first_at: Option<Instant>,
    last_at: Option<Instant>,
    bytes: u64,
    progress: Vec<(u64, u64)>,
    next_point: Duration,
    interval: Option<Duration>,
    /// The window has closed and the receipt was given.
    closed: bool,
}

// === impl Incoming ===

impl Incoming {
    pub(crate) fn new(
        seed: u64,
        interval: Option<Duration>,
        window: Option<Duration>,
        pause: Option<ReadPause>,
    ) -> Self {
        Self {
            verifier: Verifier::new(seed),
            interval: interval.filter(|interval| !interval.is_zero()),
            window,
            pause,
            total: 0,
            stream: Stream::default(),
        }
    }

    /// Takes payload that came at `now`; the receipt, where that closes the window.
    pub(crate) fn data(&mut self, bytes: &[u8], now: Instant) -> Option<Receipt> {
        self.verifier.take(bytes);
        self.total = self.total.saturating_add(to_u64(bytes.len()));
        if self.stream.closed {
            return None;
        }
        let first = *self.stream.first_at.get_or_insert_with(|| {
            self.stream.interval = self.interval;
            now
        });
        let age = now.duration_since(first);
        if let Some(window) = self.window.filter(|&window| age > window) {
            self.stream.closed = true;
            return Some(self.receipt(window));
        }
        self.stream.bytes = self.stream.bytes.saturating_add(to_u64(bytes.len()));
        self.stream.last_at = Some(now);
        self.stream.note(age);
        None
    }

    /// The stream is complete; the receipt, where it was not given yet.
    pub(crate) fn end(&mut self) -> Option<Receipt> {
        let stream = &self.stream;
        let span = stream
            .first_at
            .zip(stream.last_at)
            .map_or(Duration::ZERO, |(first, last)| last.duration_since(first));
        let receipt = (!stream.closed).then(|| self.receipt(span));
        self.stream = Stream::default();
        receipt
    }

    /// When reading shall stop, if now is the moment; asked once after every read.
    pub(crate) fn pause(&mut self) -> Option<Duration> {
        let due = self.pause.filter(|pause| self.total >= pause.after_bytes)?;
        self.pause = None;
        Some(Duration::from_nanos(due.for_ns))
    }

    fn receipt(&mut self, span: Duration) -> Receipt {
        let duration_ns = u64::try_from(span.as_nanos()).unwrap_or(u64::MAX);
        let mut progress = std::mem::take(&mut self.stream.progress);
        if self.stream.interval.is_some() {
            progress.push((duration_ns, self.stream.bytes));
        }
        Receipt {
            bytes: self.stream.bytes,
            duration_ns,
            first_difference: self.verifier.first_difference(),
            progress,
        }
    }
}

// === impl Stream ===

impl Stream {
    /// Notes the progress at `age` if a point is due.
    fn note(&mut self, age: Duration) {
        let Some(interval) = self.interval.filter(|_| age >= self.next_point) else {
            return;
        };
        let nanos = u64::try_from(age.as_nanos()).unwrap_or(u64::MAX);
        self.progress.push((nanos, self.bytes));
        self.next_point = age + interval;
        if self.progress.len() >= MOST_POINTS {
            thin(&mut self.progress);
            self.interval = Some(interval.saturating_mul(2));
        }
    }
}

/// Keeps every second point, the first among them.
pub(crate) fn thin<T>(points: &mut Vec<T>) {
    let mut keep = false;
    points.retain(|_| {
        keep = !keep;
        keep
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pattern::Pattern;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn a_receipt_spans_first_byte_to_last_and_the_next_stream_starts_anew() {
        let mut incoming = Incoming::new(1, None, None, None);
        let mut pattern = Pattern::new(1);
        let start = Instant::now();
        for (bytes, at) in [(10, 5), (20, 6), (5, 8)] {
            let piece = pattern.peek(bytes).to_vec();
            assert_eq!(incoming.data(&piece, start + SECOND * at), None);
            pattern.advance(piece.len());
        }
        let receipt = incoming.end().unwrap();
        assert_eq!((receipt.bytes, receipt.duration_ns), (35, 3_000_000_000));
        assert_eq!(receipt.first_difference, None);
        incoming.data(pattern.peek(4), start + SECOND * 20);
        assert_eq!(incoming.end().unwrap().bytes, 4);
    }

    #[test]
    fn a_window_counts_what_came_in_it_and_gives_one_receipt() {
        let mut incoming = Incoming::new(1, Some(SECOND), Some(SECOND * 2), None);
        let start = Instant::now();
        assert_eq!(incoming.data(&[0; 10], start), None);
        assert_eq!(incoming.data(&[0; 10], start + SECOND), None);
        let receipt = incoming.data(&[0; 10], start + SECOND * 3).unwrap();
        assert_eq!((receipt.bytes, receipt.duration_ns), (20, 2_000_000_000));
        assert_eq!(
            receipt.progress,
            [(0, 10), (1_000_000_000, 20), (2_000_000_000, 20)]
        );
        assert_eq!(incoming.data(&[0; 10], start + SECOND * 4), None);
        assert_eq!(incoming.end(), None);
    }

    #[test]
    fn a_reader_pauses_once() {
        let pause = ReadPause {
            after_bytes: 15,
            for_ns: 7,
        };
        let mut incoming = Incoming::new(1, None, None, Some(pause));
        incoming.data(&[0; 10], Instant::now());
        assert_eq!(incoming.pause(), None);
        incoming.data(&[0; 10], Instant::now());
        assert_eq!(incoming.pause(), Some(Duration::from_nanos(7)));
        assert_eq!(incoming.pause(), None);
    }

    #[test]
    fn a_long_series_is_thinned_and_stays_in_order() {
        let mut incoming = Incoming::new(1, Some(Duration::from_nanos(1)), None, None);
        let start = Instant::now();
        for at in 0..100_000 {
            incoming.data(&[0], start + Duration::from_nanos(at));
        }
        let receipt = incoming.end().unwrap();
        assert!(receipt.progress.len() <= MOST_POINTS + 1);
        assert!(receipt.progress.len() > MOST_POINTS / 4);
        assert!(receipt.progress.is_sorted());
        assert_eq!(receipt.progress.last(), Some(&(99_999, 100_000)));
    }
}
