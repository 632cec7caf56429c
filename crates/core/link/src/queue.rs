pub(crate) mod codel;
mod line;
pub(crate) mod red;

use core::fmt;

use units::{Bytes, Time};

use crate::counters::Tally;
use crate::queue::codel::ControlLoop;
use crate::queue::red::{Detector, Verdict};
use crate::spec::{Direction, DirectionSpec};

pub use codel::CoDel;
pub use red::Red;

pub(crate) use line::Entry;
use line::Line;

/// How much may wait for the bottleneck. The packet under serialisation has left the queue.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Deserialize, serde::Serialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "kebab-case"))]
pub enum QueueLimit {
    /// IP bytes.
    Bytes(Bytes),
    /// Packets, whatever their size.
    Packets(u64),
}

/// How a queue treats packets while there is room for them; what finds none is dropped at the tail.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Deserialize, serde::Serialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "lowercase"))]
pub enum Discipline {
    /// Lets all in.
    #[default]
    DropTail,
    /// Keeps the time they wait short.
    CoDel(CoDel),
    /// Keeps the average length short.
    Red(Red),
}

/// The queue in front of the bottleneck, with what it dropped and marked.
#[derive(Debug)]
pub(crate) struct Queue<T> {
    limit: QueueLimit,
    management: Management,
    line: Line<T>,
    full: Tally,
    marked: Tally,
}

#[derive(Debug)]
enum Management {
    None,
    CoDel(ControlLoop),
    Red(Detector),
}

// === impl QueueLimit ===

impl QueueLimit {
    /// Its size in bytes, with packets of `packet` bytes.
    #[must_use]
    pub const fn in_bytes(self, packet: Bytes) -> Bytes {
        match self {
            Self::Bytes(bytes) => bytes,
            Self::Packets(packets) => Bytes::new(packets.saturating_mul(packet.get())),
        }
    }
}

impl From<Bytes> for QueueLimit {
    fn from(bytes: Bytes) -> Self {
        Self::Bytes(bytes)
    }
}

impl fmt::Display for QueueLimit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Bytes(bytes) => bytes.fmt(f),
            Self::Packets(packets) => write!(f, "{packets} packets"),
        }
    }
}

// === impl Queue ===

impl<T: Clone> Queue<T> {
    pub(crate) fn new(spec: &DirectionSpec, seed: u64, direction: Direction) -> Self {
        let management = match spec.discipline {
            Discipline::DropTail => Management::None,
            Discipline::CoDel(parameters) => Management::CoDel(ControlLoop::new(parameters)),
            Discipline::Red(parameters) => {
                let typical = spec
                    .line_rate()
                    .and_then(|rate| Bytes::new(1500).checked_div(rate));
                let typical = typical.unwrap_or_default();
                Management::Red(Detector::new(parameters, typical, seed, direction))
            }
        };
        Self {
            limit: spec.queue,
            management,
            line: Line::new(),
            full: Tally::default(),
            marked: Tally::default(),
        }
    }

    /// Lets in what fits. With `bottleneck_idle` the first segment passes straight to the bottleneck and
    /// needs no room.
    pub(crate) fn admit(&mut self, entry: Entry<T>, bottleneck_idle: bool) {
        let straight = bottleneck_idle && self.line.is_empty();
        if let Management::Red(_) = self.management {
            self.admit_judged(&entry, straight);
        } else {
            self.admit_fitting(entry, u32::from(straight));
        }
    }

    /// When the first packet in line arrived.
    #[inline]
    pub(crate) fn head_arrived_at(&self) -> Option<Time> {
        self.line.front().map(|entry| entry.arrived_at)
    }

    /// Whether every packet has to be looked at on its own when it leaves.
    pub(crate) const fn parts_items(&self) -> bool {
        matches!(self.management, Management::CoDel(_))
    }

    /// The entry whose first segments are to leave at `now`, after management has dropped what it had to.
    #[inline]
    pub(crate) fn head(&mut self, now: Time) -> Option<&Entry<T>> {
        if let Management::CoDel(control) = &mut self.management
            && control.dequeue(now, &mut self.line)
        {
            self.marked += self.line.mark_front();
        }
        self.line.front()
    }

    /// Takes the first `count` segments of the first entry, of which there must be as many, at `now`.
    #[inline]
    pub(crate) fn take(&mut self, count: u32, now: Time) -> Option<Entry<T>> {
        let taken = self.line.take(count);
        if let Management::Red(detector) = &mut self.management
            && self.line.is_empty()
        {
            detector.empty_at(now);
        }
        taken
    }

    /// Counted anew from what is here, so that conservation is a check and not a tautology.
    pub(crate) fn tally(&self) -> Tally {
        self.line.tally()
    }

    /// What waits, without a recount.
    pub(crate) const fn bytes(&self) -> Bytes {
        self.line.bytes()
    }

    pub(crate) const fn peak(&self) -> Bytes {
        self.line.peak()
    }

    /// What found no room.
    pub(crate) const fn full(&self) -> Tally {
        self.full
    }

    /// What management dropped.
    pub(crate) const fn managed(&self) -> Tally {
        self.line.dropped()
    }

    /// What management marked.
    pub(crate) const fn marked(&self) -> Tally {
        self.marked
    }

    /// The first `straight` segments need no room.
    fn admit_fitting(&mut self, entry: Entry<T>, straight: u32) {
        let Entry {
            segments, range, ..
        } = &entry;
        let (start, end) = (range.start, range.end);
        let mut room = self.room();
        let mut admitted = start + straight.min(end - start);
        while admitted < end && room.hold(segments.size(admitted)) {
            admitted += 1;
        }
        if admitted == end {
            self.line.push(entry, straight);
            return;
        }
        // The last segment may be short enough for the room that a full one did not fit in.
        let last = end - 1;
        let short_last = admitted < last && room.hold(segments.size(last));
        let dropped = admitted..if short_last { last } else { end };
        self.full += Tally::new(
            u64::from(dropped.end - dropped.start),
            segments.bytes(&dropped),
        );
        if admitted > start {
            self.line.push(entry.part(start..admitted), straight);
        }
        if short_last {
            self.line.push(entry.part(last..end), 0);
        }
    }

    /// One segment after the other, as each finds its own average.
    fn admit_judged(&mut self, entry: &Entry<T>, mut straight: bool) {
        for position in entry.range.clone() {
            let Management::Red(detector) = &mut self.management else {
                return;
            };
            let size = entry.segments.size(position);
            let n = entry.item_index + u64::from(position);
            let takes_marks = entry.segments.ecn().is_capable();
            let length = self.line.length();
            let mut segment = entry.part(position..position + 1);
            match detector.judge(entry.arrived_at, length, n, size, takes_marks) {
                Verdict::Pass => {}
                Verdict::Mark => {
                    segment.marked = true;
                    self.marked += segment.tally();
                }
                Verdict::Drop => {
                    self.line.note_dropped(segment.tally());
                    continue;
                }
            }
            if straight || self.room().hold(size) {
                self.line.extend(segment, straight);
            } else {
                self.full += segment.tally();
            }
            straight = false;
        }
    }

    fn room(&self) -> Room {
        let length = self.line.length();
        match self.limit {
            QueueLimit::Bytes(limit) => Room::Bytes(limit.saturating_sub(length.bytes).get()),
            QueueLimit::Packets(limit) => Room::Packets(limit.saturating_sub(length.packets)),
        }
    }
}

/// What is left of a limit.
enum Room {
    Bytes(u64),
    Packets(u64),
}

impl Room {
    /// Takes the room of a packet, if there is as much.
    fn hold(&mut self, ip_bytes: u32) -> bool {
        let (room, needed) = match self {
            Self::Bytes(room) => (room, u64::from(ip_bytes)),
            Self::Packets(room) => (room, 1),
        };
        let left = room.checked_sub(needed);
        *room = left.unwrap_or(*room);
        left.is_some()
    }
}
