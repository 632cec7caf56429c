use alloc::collections::BTreeMap;

/// A set of positions as disjoint half-open ranges. An in-order stream is one range, however long.
#[derive(Clone, Debug, Default)]
pub struct Ranges {
    spans: BTreeMap<i64, i64>,
    /// The highest range, which nearly every insertion makes longer; not in `spans`.
    edge: Option<(i64, i64)>,
    total: u64,
}

impl Ranges {
    /// Adds `[from, to)` and returns how many positions are new.
    pub fn insert(&mut self, from: i64, to: i64) -> u64 {
        if from >= to {
            return 0;
        }
        let before = self.total;
        match &mut self.edge {
            // In order, or something again that the edge touches.
            Some((left, right)) if from >= *left && from <= *right => {
                if to > *right {
                    self.total = self.total.saturating_add(right.abs_diff(to));
                    *right = to;
                }
            }
            edge => {
                if let Some((left, right)) = edge.take() {
                    self.spans.insert(left, right);
                }
                self.merge(from, to);
                self.edge = self.spans.pop_last();
            }
        }
        self.total.saturating_sub(before)
    }

    /// Adds a range wherever it belongs.
    fn merge(&mut self, mut from: i64, mut to: i64) {
        // Swallow every range that touches the new one: at most one starts before it, and neighbours
        // merge, so that a stream without holes stays one entry.
        while let Some((&left, &right)) = self.spans.range(..=to).next_back() {
            if right < from {
                break;
            }
            self.spans.remove(&left);
            self.total = self.total.saturating_sub(left.abs_diff(right));
            from = from.min(left);
            to = to.max(right);
        }
        self.spans.insert(from, to);
        self.total = self.total.saturating_add(from.abs_diff(to));
    }

    /// Forgets every position below `position`.
    pub fn drop_below(&mut self, position: i64) {
        while let Some((&left, &right)) = self.spans.first_key_value() {
            if left >= position {
                return;
            }
            self.spans.remove(&left);
            let end = right.min(position);
            self.total = self.total.saturating_sub(left.abs_diff(end));
            if end < right {
                self.spans.insert(end, right);
                return;
            }
        }
        if let Some((left, right)) = self.edge
            && left < position
        {
            let end = right.min(position);
            self.total = self.total.saturating_sub(left.abs_diff(end));
            self.edge = (end < right).then_some((end, right));
        }
    }

    /// How many positions of `[from, to)` are in the set.
    #[must_use]
    pub fn covered(&self, from: i64, to: i64) -> u64 {
        let before = self.spans.range(..from).next_back();
        let within = self.spans.range(from..to.max(from));
        let spans = before.into_iter().chain(within);
        spans
            .map(|(&left, &right)| (left, right))
            .chain(self.edge)
            .map(|(left, right)| {
                let (left, right) = (left.max(from), right.min(to));
                if left < right {
                    left.abs_diff(right)
                } else {
                    0
                }
            })
            .sum()
    }

    /// How many positions the set holds.
    #[must_use]
    pub const fn total(&self) -> u64 {
        self.total
    }
}
