/// The largest value of the last `window` ticks, from three candidates instead of a list (Kathleen
/// Nichols' algorithm, Linux `lib/win_minmax.c`).
#[derive(Clone, Copy, Debug)]
pub(crate) struct MaxFilter {
    window: u64,
    /// Best, second best, third best: each later than the one before.
    best: [(u64, u64); 3],
}

// === impl MaxFilter ===

impl MaxFilter {
    pub(crate) const fn new(window: u64) -> Self {
        Self {
            window,
            best: [(0, 0); 3],
        }
    }

    pub(crate) const fn max(&self) -> u64 {
        self.best[0].1
    }

    /// `tick` must not go back.
    pub(crate) fn push(&mut self, tick: u64, value: u64) {
        let new = (tick, value);
        if value >= self.best[0].1 || tick.saturating_sub(self.best[2].0) > self.window {
            self.best = [new; 3];
            return;
        }
        if value >= self.best[1].1 {
            self.best[1] = new;
            self.best[2] = new;
        } else if value >= self.best[2].1 {
            self.best[2] = new;
        }
        self.age(new);
    }

    fn age(&mut self, new: (u64, u64)) {
        let passed = new.0.saturating_sub(self.best[0].0);
        if passed > self.window {
            // The best has expired; the runner-up may have as well.
            self.best = [self.best[1], self.best[2], new];
            if new.0.saturating_sub(self.best[0].0) > self.window {
                self.best = [self.best[1], new, new];
            }
        } else if self.best[1].0 == self.best[0].0 && passed > self.window / 4 {
            // A quarter of the window without a second candidate: take one from the next quarter.
            self.best[1] = new;
            self.best[2] = new;
        } else if self.best[2].0 == self.best[1].0 && passed > self.window / 2 {
            self.best[2] = new;
        }
    }
}
