use alloc::collections::BTreeMap;

/// Numbers seen so far: all below a floor, and some above it in ranges.
///
/// Whoever adds numbers that come once each and nearly in order keeps few ranges; whoever reads them from
/// a peer bounds the span above the floor.
#[derive(Clone, Debug, Default)]
pub(crate) struct Seen {
    /// Every number below has been seen.
    floor: u64,
    /// Ranges above the floor, first to end (exclusive). They do not touch each other or the floor.
    above: BTreeMap<u64, u64>,
}

impl Seen {
    /// Every number below this one has been seen.
    pub(crate) const fn floor(&self) -> u64 {
        self.floor
    }

    /// One more than the highest number that has been seen.
    pub(crate) fn end(&self) -> u64 {
        let last = self.above.last_key_value();
        last.map_or(self.floor, |(_, end)| *end)
    }

    pub(crate) fn contains(&self, number: u64) -> bool {
        number < self.floor
            || self
                .above
                .range(..=number)
                .next_back()
                .is_some_and(|(_, end)| number < *end)
    }

    /// Adds a number; `false` if it was there already.
    pub(crate) fn insert(&mut self, number: u64) -> bool {
        if self.contains(number) {
            return false;
        }
        let mut end = number + 1;
        if let Some(after) = self.above.remove(&end) {
            end = after;
        }
        if number == self.floor {
            self.floor = end;
            return true;
        }
        match self.above.range_mut(..number).next_back() {
            Some((_, before)) if *before == number => *before = end,
            _ => {
                self.above.insert(number, end);
            }
        }
        true
    }
}
