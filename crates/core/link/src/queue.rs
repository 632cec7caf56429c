use alloc::collections::VecDeque;
use core::ops::Range;

use units::{Bytes, Time};

use crate::counters::Tally;
use crate::item::{Item, Segments};

/// The droptail queue in front of the bottleneck, limited in bytes.
///
/// Active queue management replaces this file: it sees packets enter with their arrival time and leave
/// at the exact time at which the shaper takes them, which is all that `CoDel` and RED need.
#[derive(Debug)]
pub(crate) struct Queue<T> {
    limit: Bytes,
    entries: VecDeque<Entry<T>>,
    bytes: Bytes,
    peak: Bytes,
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
}

// === impl Queue ===

impl<T: Clone> Queue<T> {
    pub(crate) const fn new(limit: Bytes) -> Self {
        Self {
            limit,
            entries: VecDeque::new(),
            bytes: Bytes::ZERO,
            peak: Bytes::ZERO,
        }
    }

    /// Lets in what fits and returns what had to be dropped. With `bottleneck_idle` the first segment
    /// passes straight to the bottleneck and needs no room.
    pub(crate) fn admit(
        &mut self,
        now: Time,
        item: Item<T>,
        item_index: u64,
        bottleneck_idle: bool,
    ) -> Tally {
        let Item { payload, segments } = item;
        let count = segments.count();
        let straight = u32::from(bottleneck_idle && self.entries.is_empty());
        let mut room = self.limit.saturating_sub(self.bytes).get();
        let mut admitted = straight;
        while admitted < count && u64::from(segments.size(admitted)) <= room {
            room -= u64::from(segments.size(admitted));
            admitted += 1;
        }
        // The last segment may be short enough for the room that a full one did not fit in.
        let last = count - 1;
        let short_last = admitted < last && u64::from(segments.size(last)) <= room;
        let dropped = admitted..if short_last { last } else { count };

        let entry = |range| Entry {
            payload: payload.clone(),
            segments,
            range,
            item_index,
            arrived_at: now,
        };
        if admitted > 0 {
            let entry = entry(0..admitted);
            self.push(entry, straight);
        }
        if short_last {
            let entry = entry(last..count);
            self.push(entry, 0);
        }
        Tally::new(
            u64::from(dropped.end - dropped.start),
            segments.bytes(&dropped),
        )
    }

    /// When the first packet in line arrived.
    pub(crate) fn head_arrived_at(&self) -> Option<Time> {
        self.entries.front().map(|entry| entry.arrived_at)
    }

    pub(crate) fn head(&self) -> Option<&Entry<T>> {
        self.entries.front()
    }

    /// Takes the first `count` segments of the first entry, of which there must be as many.
    pub(crate) fn take(&mut self, count: u32) -> Option<Entry<T>> {
        let head = self.entries.front_mut()?;
        let split = head.range.start.saturating_add(count);
        let taken = if split >= head.range.end {
            self.entries.pop_front()?
        } else {
            let mut taken = head.clone();
            taken.range.end = split;
            head.range.start = split;
            taken
        };
        self.bytes = self.bytes.saturating_sub(taken.bytes());
        Some(taken)
    }

    /// Counted anew from what is here, so that conservation is a check and not a tautology.
    pub(crate) fn tally(&self) -> Tally {
        self.entries
            .iter()
            .fold(Tally::default(), |sum, entry| sum + entry.tally())
    }

    /// What waits, without a recount.
    pub(crate) const fn bytes(&self) -> Bytes {
        self.bytes
    }

    pub(crate) const fn peak(&self) -> Bytes {
        self.peak
    }

    /// `straight` segments at the front go on at once and never count as waiting for the peak.
    fn push(&mut self, entry: Entry<T>, straight: u32) {
        let start = entry.range.start;
        let passing = entry.segments.bytes(&(start..start + straight));
        self.bytes += entry.bytes();
        self.peak = self.peak.max(self.bytes.saturating_sub(passing));
        self.entries.push_back(entry);
    }
}

// === impl Entry ===

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
