use alloc::vec::Vec;
use core::ops::Range;

/// Disjoint ranges of offsets, ascending, none touching the next.
#[derive(Clone, Debug, Default)]
pub(crate) struct Ranges(Vec<Range<u64>>);

// === impl Ranges ===

impl Ranges {
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn clear(&mut self) {
        self.0.clear();
    }

    pub(crate) fn iter(&self) -> impl DoubleEndedIterator<Item = &Range<u64>> {
        self.0.iter()
    }

    pub(crate) fn first(&self) -> Option<&Range<u64>> {
        self.0.first()
    }

    /// The range around `offset`.
    pub(crate) fn around(&self, offset: u64) -> Option<Range<u64>> {
        let after = self.0.partition_point(|range| range.end <= offset);
        self.0
            .get(after)
            .filter(|range| range.start <= offset)
            .cloned()
    }

    pub(crate) fn covers(&self, wanted: &Range<u64>) -> bool {
        self.around(wanted.start)
            .is_some_and(|range| wanted.end <= range.end)
    }

    /// The first range that shares an offset with `wanted`.
    pub(crate) fn clone_overlapping(&self, wanted: &Range<u64>) -> Option<Range<u64>> {
        let after = self.0.partition_point(|range| range.end <= wanted.start);
        self.0
            .get(after)
            .filter(|range| range.start < wanted.end)
            .cloned()
    }

    /// Adds a range and returns the one that it has become a part of.
    pub(crate) fn insert(&mut self, new: Range<u64>) -> Range<u64> {
        // Nearly everything arrives at the upper end.
        let first = match self.0.last() {
            Some(last) if last.end >= new.start => {
                self.0.partition_point(|range| range.end < new.start)
            }
            _ => self.0.len(),
        };
        let touching = self.0[first..]
            .iter()
            .take_while(|range| range.start <= new.end)
            .count();
        if touching == 0 {
            self.0.insert(first, new.clone());
            return new;
        }
        let last = first + touching - 1;
        let merged = self.0[first].start.min(new.start)..self.0[last].end.max(new.end);
        self.0[first] = merged.clone();
        self.0.drain(first + 1..=last);
        merged
    }

    /// Forgets everything below `offset`.
    pub(crate) fn forget_below(&mut self, offset: u64) {
        let gone = self.0.partition_point(|range| range.end <= offset);
        self.0.drain(..gone);
        if let Some(first) = self.0.first_mut() {
            first.start = first.start.max(offset);
        }
    }

    /// Bytes inside.
    pub(crate) fn bytes(&self) -> u64 {
        self.0.iter().map(|range| range.end - range.start).sum()
    }
}
