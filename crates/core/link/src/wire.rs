use alloc::collections::VecDeque;
use core::time::Duration;

use units::Time;

use crate::counters::Tally;
use crate::fate::Fate;
use crate::queue::Entry;

/// Propagation: everything leaves a constant delay after it came, in the order in which it came.
///
/// Jitter and reordering replace this file's order by a heap over (due time, sequence).
#[derive(Debug)]
pub(crate) struct Wire<T> {
    delay: Duration,
    travelling: VecDeque<Travelling<T>>,
}

/// Packets on the wire, all of one fate.
#[derive(Debug)]
pub(crate) struct Travelling<T> {
    pub(crate) due_at: Time,
    pub(crate) fate: Fate,
    pub(crate) packets: Entry<T>,
}

// === impl Wire ===

impl<T> Wire<T> {
    pub(crate) const fn new(delay: Duration) -> Self {
        Self {
            delay,
            travelling: VecDeque::new(),
        }
    }

    /// `serialised_at`: when the last bit of the packets was on the wire.
    pub(crate) fn send(&mut self, serialised_at: Time, packets: Entry<T>, fate: Fate) {
        self.travelling.push_back(Travelling {
            due_at: serialised_at + self.delay,
            fate,
            packets,
        });
    }

    pub(crate) fn next_at(&self) -> Option<Time> {
        self.travelling.front().map(|first| first.due_at)
    }

    pub(crate) fn receive(&mut self, now: Time) -> Option<Travelling<T>> {
        if self.next_at()? > now {
            return None;
        }
        self.travelling.pop_front()
    }

    /// Counted anew from what is here, so that conservation is a check and not a tautology.
    pub(crate) fn tally(&self) -> Tally {
        self.travelling
            .iter()
            .fold(Tally::default(), |sum, one| sum + one.packets.tally())
    }
}
