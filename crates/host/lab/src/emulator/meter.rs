//! What the driver notes about its own work, since the start and since it was last asked.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use link::{Direction, LaneCounters, PathCounters};
use units::Bytes;

use crate::emulator::lateness::LatenessHistogram;
use crate::emulator::report::{Counters, DirectionCounters, DirectionSample, Interval, Sample};

/// Counters of the driver itself; the model has its own.
#[derive(Debug)]
pub(super) struct Meter {
    /// Up to the last [`interval`](Self::interval).
    earlier: LatenessHistogram,
    /// Since then.
    recent: LatenessHistogram,
    /// Packets that could not be understood.
    unreadable: u64,
    /// Packets that a device refused.
    undeliverable: u64,
    /// Most bytes that waited in each direction since the last interval, and since the last sample.
    interval_peaks: [Bytes; 2],
    sample_peaks: [Bytes; 2],
    /// As it was at the last interval.
    interval_base: Base,
    /// As it was at the last sample.
    sample_base: PathCounters,
}

#[derive(Debug)]
struct Base {
    at: Duration,
    path: PathCounters,
    unreadable: u64,
    undeliverable: u64,
}

// === impl Meter ===

impl Meter {
    pub(super) fn new() -> Self {
        Self {
            earlier: LatenessHistogram::new(),
            recent: LatenessHistogram::new(),
            unreadable: 0,
            undeliverable: 0,
            interval_peaks: [Bytes::ZERO; 2],
            sample_peaks: [Bytes::ZERO; 2],
            interval_base: Base {
                at: since_epoch(),
                path: PathCounters::default(),
                unreadable: 0,
                undeliverable: 0,
            },
            sample_base: PathCounters::default(),
        }
    }

    pub(super) fn note_delivery(&mut self, late: Duration) {
        self.recent.record(late);
    }

    pub(super) const fn note_unreadable(&mut self) {
        self.unreadable += 1;
    }

    pub(super) const fn note_undeliverable(&mut self) {
        self.undeliverable += 1;
    }

    /// What waits after a packet was offered: a queue is longest then.
    pub(super) fn note_queue(&mut self, direction: Direction, waiting: Bytes) {
        for peaks in [&mut self.interval_peaks, &mut self.sample_peaks] {
            let peak = &mut peaks[index(direction)];
            *peak = (*peak).max(waiting);
        }
    }

    /// Everything since the start.
    pub(super) fn totals(&self, path: &PathCounters) -> Counters {
        let mut lateness = self.earlier.clone();
        lateness.absorb(&self.recent);
        Counters {
            forward: path.forward.into(),
            backward: path.backward.into(),
            lateness: lateness.summary(),
            unreadable: self.unreadable,
            undeliverable: self.undeliverable,
        }
    }

    /// Everything since this was last asked.
    pub(super) fn interval(&mut self, path: &PathCounters) -> Interval {
        let now = since_epoch();
        let base = &self.interval_base;
        let direction = |direction: Direction| {
            let (new, old) = (path.direction(direction), base.path.direction(direction));
            let peak = self.interval_peaks[index(direction)];
            DirectionCounters::since(old, new, peak)
        };
        let counters = Counters {
            forward: direction(Direction::Forward),
            backward: direction(Direction::Backward),
            lateness: self.recent.summary(),
            unreadable: self.unreadable - base.unreadable,
            undeliverable: self.undeliverable - base.undeliverable,
        };
        let interval = Interval {
            from_unix_s: base.at.as_secs_f64(),
            to_unix_s: now.as_secs_f64(),
            counters,
        };
        self.earlier.absorb(&self.recent);
        self.recent.clear();
        self.interval_base = Base {
            at: now,
            path: *path,
            unreadable: self.unreadable,
            undeliverable: self.undeliverable,
        };
        self.interval_peaks = queued(path);
        interval
    }

    /// The queues, now and since the last sample.
    pub(super) fn sample(&mut self, path: &PathCounters) -> Sample {
        let base = self.sample_base;
        let direction = |direction: Direction| {
            let (new, old) = (path.direction(direction), base.direction(direction));
            let gone = |lane: &LaneCounters| lane.dropped.packets + lane.managed.packets;
            DirectionSample {
                queue_packets: new.queued.packets,
                queue_bytes: new.queued.bytes.get(),
                queue_peak_bytes: self.sample_peaks[index(direction)].get(),
                dropped_packets: gone(new) - gone(old),
                delivered_bytes: new.delivered.bytes.get() - old.delivered.bytes.get(),
            }
        };
        let sample = Sample {
            at_unix_s: since_epoch().as_secs_f64(),
            forward: direction(Direction::Forward),
            backward: direction(Direction::Backward),
        };
        self.sample_base = *path;
        self.sample_peaks = queued(path);
        sample
    }
}

/// A peak is at least what waits when its interval begins.
fn queued(path: &PathCounters) -> [Bytes; 2] {
    [path.forward.queued.bytes, path.backward.queued.bytes]
}

const fn index(direction: Direction) -> usize {
    match direction {
        Direction::Forward => 0,
        Direction::Backward => 1,
    }
}

fn since_epoch() -> Duration {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default()
}
