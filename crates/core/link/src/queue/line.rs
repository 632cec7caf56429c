use alloc::collections::VecDeque;
use core::ops::Range;

use units::{Bytes, Time};

use crate::counters::Tally;
use crate::item::Segments;
use crate::queue::codel::{Front, Waiting};
use crate::queue::red::Length;

/// Packets in line, and how many they are.
#[derive(Debug)]
pub(crate) struct Line<T> {
    entries: VecDeque<Entry<T>>,
    packets: u64,
    bytes: Bytes,
    peak: Bytes,
    /// By management.
    dropped: Tally,
}

/// Neighbouring segments of one item that wait, or that travel together.
#[derive(Clone, Debug)]
pub(crate) struct Entry<T> {
    pub(crate) payload: T,
    pub(crate) segments: Segments,
    /// Those of the item's segments that are meant.
    pub(crate) range: Range<u32>,
    /// Index of the item's segment 0 in its direction.
    pub(crate) item_index: u64,
    pub(crate) arrived_at: Time,
    /// Whether the queue marked them.
    pub(crate) marked: bool,
}

// === impl Line ===

impl<T: Clone> Line<T> {
    pub(crate) const fn new() -> Self {
        Self {
            entries: VecDeque::new(),
            packets: 0,
            bytes: Bytes::ZERO,
            peak: Bytes::ZERO,
            dropped: Tally::new(0, Bytes::ZERO),
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    pub(crate) fn front(&self) -> Option<&Entry<T>> {
        self.entries.front()
    }

    /// `straight` segments at the front go on at once and never count as waiting for the peak.
    #[inline]
    pub(crate) fn push(&mut self, entry: Entry<T>, straight: u32) {
        let start = entry.range.start;
        let passing = entry.segments.bytes(&(start..start + straight));
        self.packets += u64::from(entry.range.end - start);
        self.bytes += entry.bytes();
        self.peak = self.peak.max(self.bytes.saturating_sub(passing));
        self.entries.push_back(entry);
    }

    /// The same for one segment, which is put together with the one before it where that is its neighbour
    /// in an item and no different.
    pub(crate) fn extend(&mut self, segment: Entry<T>, straight: bool) {
        if let Some(last) = self.entries.back_mut()
            && last.item_index == segment.item_index
            && last.range.end == segment.range.start
            && last.marked == segment.marked
        {
            last.range.end = segment.range.end;
            self.packets += 1;
            self.bytes += segment.bytes();
            self.peak = self.peak.max(self.bytes);
        } else {
            self.push(segment, u32::from(straight));
        }
    }

    /// Takes the first `count` segments of the first entry, of which there must be as many.
    #[inline]
    pub(crate) fn take(&mut self, count: u32) -> Option<Entry<T>> {
        let head = self.entries.front_mut()?;
        let split = head.range.start.saturating_add(count);
        let taken = if split >= head.range.end {
            self.entries.pop_front()?
        } else {
            let taken = head.part(head.range.start..split);
            head.range.start = split;
            taken
        };
        self.packets -= u64::from(taken.range.end - taken.range.start);
        self.bytes = self.bytes.saturating_sub(taken.bytes());
        Some(taken)
    }

    /// Marks the first packet, which is parted from its item, and counts it.
    pub(crate) fn mark_front(&mut self) -> Tally {
        let Some(mut first) = self.take(1) else {
            return Tally::default();
        };
        first.marked = true;
        let tally = first.tally();
        self.packets += tally.packets;
        self.bytes += tally.bytes;
        self.entries.push_front(first);
        tally
    }

    pub(crate) fn note_dropped(&mut self, dropped: Tally) {
        self.dropped += dropped;
    }

    pub(crate) fn tally(&self) -> Tally {
        self.entries
            .iter()
            .fold(Tally::default(), |sum, entry| sum + entry.tally())
    }

    pub(crate) const fn length(&self) -> Length {
        Length {
            packets: self.packets,
            bytes: self.bytes,
        }
    }

    pub(crate) const fn bytes(&self) -> Bytes {
        self.bytes
    }

    pub(crate) const fn peak(&self) -> Bytes {
        self.peak
    }

    pub(crate) const fn dropped(&self) -> Tally {
        self.dropped
    }
}

impl<T: Clone> Front for Line<T> {
    fn front(&self) -> Option<Waiting> {
        let entry = self.entries.front()?;
        let first = Bytes::new(entry.segments.size(entry.range.start).into());
        Some(Waiting {
            arrived_at: entry.arrived_at,
            bytes_behind: self.bytes.saturating_sub(first),
            takes_marks: entry.segments.ecn().is_capable(),
        })
    }

    fn drop_front(&mut self) {
        if let Some(dropped) = self.take(1) {
            self.dropped += dropped.tally();
        }
    }
}

// === impl Entry ===

impl<T: Clone> Entry<T> {
    /// Those of its segments that are in `range`.
    pub(crate) fn part(&self, range: Range<u32>) -> Self {
        Self {
            range,
            ..self.clone()
        }
    }
}

impl<T> Entry<T> {
    pub(crate) fn bytes(&self) -> Bytes {
        self.segments.bytes(&self.range)
    }

    pub(crate) fn tally(&self) -> Tally {
        Tally::new(u64::from(self.range.end - self.range.start), self.bytes())
    }

    /// Index of the first segment meant, among all packets of the direction.
    pub(crate) const fn first_index(&self) -> u64 {
        self.item_index + self.range.start as u64
    }
}
