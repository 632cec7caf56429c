use alloc::collections::VecDeque;
use core::ops::Range;

/// Disjoint ranges of offsets, ascending, none touching the next.
///
/// A queue, because nearly everything happens at its ends: new ranges come at the upper one, and the
/// lower one is forgotten as holes are filled. After an overrun there can be thousands of them.
#[derive(Clone, Debug, Default)]
pub(crate) struct Ranges {
    list: VecDeque<Range<u64>>,
    /// Bytes inside, counted along: every segment beyond a hole asks for them.
    bytes: u64,
}

// === impl Ranges ===

impl Ranges {
    pub(crate) fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    pub(crate) fn clear(&mut self) {
        self.list.clear();
        self.bytes = 0;
    }

    pub(crate) fn iter(&self) -> impl DoubleEndedIterator<Item = &Range<u64>> {
        self.list.iter()
    }

    pub(crate) fn first(&self) -> Option<&Range<u64>> {
        self.list.front()
    }

    /// The range around `offset`.
    pub(crate) fn around(&self, offset: u64) -> Option<Range<u64>> {
        let after = self.first_that(|range| range.end > offset);
        let range = self.list.get(after);
        range.filter(|range| range.start <= offset).cloned()
    }

    pub(crate) fn covers(&self, wanted: &Range<u64>) -> bool {
        self.around(wanted.start)
            .is_some_and(|range| wanted.end <= range.end)
    }

    /// The first range that shares an offset with `wanted`.
    pub(crate) fn clone_overlapping(&self, wanted: &Range<u64>) -> Option<Range<u64>> {
        let after = self.first_that(|range| range.end > wanted.start);
        let range = self.list.get(after);
        range.filter(|range| range.start < wanted.end).cloned()
    }

    /// Adds a range and returns the one that it has become a part of.
    pub(crate) fn insert(&mut self, new: Range<u64>) -> Range<u64> {
        let first = self.first_that(|range| range.end >= new.start);
        let mut merged = new;
        let mut touching = 0;
        while let Some(range) = self.list.get(first + touching)
            && range.start <= merged.end
        {
            merged = merged.start.min(range.start)..merged.end.max(range.end);
            self.bytes -= range.end - range.start;
            touching += 1;
        }
        self.bytes += merged.end - merged.start;
        match self.list.get_mut(first) {
            Some(range) if touching > 0 => {
                *range = merged.clone();
                self.list.drain(first + 1..first + touching);
            }
            Some(_) | None => self.list.insert(first, merged.clone()),
        }
        merged
    }

    /// Forgets everything below `offset`.
    pub(crate) fn forget_below(&mut self, offset: u64) {
        while let Some(first) = self.list.front_mut() {
            let gone = first.end.min(offset).saturating_sub(first.start);
            self.bytes -= gone;
            if first.end > offset {
                first.start += gone;
                return;
            }
            self.list.pop_front();
        }
    }

    /// Bytes inside.
    pub(crate) const fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Where the first range stands that is such, as all above it are.
    fn first_that(&self, such: impl Fn(&Range<u64>) -> bool) -> usize {
        match self.list.back() {
            Some(last) if such(last) => self.list.partition_point(|range| !such(range)),
            Some(_) | None => self.list.len(),
        }
    }
}

#[cfg(test)]
mod tests {
    use alloc::collections::BTreeSet;
    use alloc::vec::Vec;

    use proptest::prelude::*;

    use super::*;

    #[derive(Clone, Debug)]
    enum Step {
        Insert(u64, u64),
        Forget(u64),
    }

    fn step() -> impl Strategy<Value = Step> {
        prop_oneof![
            4 => (0..60_u64, 1..9_u64).prop_map(|(start, len)| Step::Insert(start, start + len)),
            1 => (0..70_u64).prop_map(Step::Forget),
        ]
    }

    proptest! {
        /// Against a set of single offsets.
        #[test]
        fn ranges_are_the_set_of_their_offsets(steps in prop::collection::vec(step(), 0..40)) {
            let mut ranges = Ranges::default();
            let mut set = BTreeSet::new();
            for step in steps {
                match step {
                    Step::Insert(start, end) => {
                        let merged = ranges.insert(start..end);
                        set.extend(start..end);
                        prop_assert!(merged.clone().all(|offset| set.contains(&offset)));
                        prop_assert!(!set.contains(&merged.end));
                        prop_assert_eq!(ranges.around(start), Some(merged));
                    }
                    Step::Forget(below) => {
                        ranges.forget_below(below);
                        set.retain(|offset| *offset >= below);
                    }
                }
                let inside: Vec<u64> = ranges.iter().cloned().flatten().collect();
                prop_assert_eq!(&inside, &set.iter().copied().collect::<Vec<u64>>());
                prop_assert_eq!(ranges.bytes(), set.len() as u64);
                let apart = ranges.iter().zip(ranges.iter().skip(1));
                for (one, next) in apart {
                    prop_assert!(one.end < next.start, "{:?} touches {:?}", one, next);
                }
            }
        }
    }
}
