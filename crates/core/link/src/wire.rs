use alloc::collections::{BinaryHeap, VecDeque};
use core::cmp::{Ordering, Reverse};

use units::Time;

use crate::counters::Tally;
use crate::lots::Outcome;
use crate::queue::Entry;

/// Propagation: everything leaves when it is due.
#[derive(Debug)]
pub(crate) struct Wire<T> {
    travelling: Order<T>,
    /// When the last packet that keeps the order is due.
    last_due_at: Time,
    sent: u64,
}

/// Packets on the wire that share their end.
#[derive(Debug)]
pub(crate) struct Travelling<T> {
    pub(crate) due_at: Time,
    pub(crate) outcome: Outcome,
    pub(crate) reordered: bool,
    pub(crate) packets: Entry<T>,
}

/// A heap costs several times what a list does, so that only those pay it who need it.
#[derive(Debug)]
enum Order<T> {
    Kept(VecDeque<Travelling<T>>),
    Free(BinaryHeap<Reverse<Ranked<T>>>),
}

/// By due time, and in the order of sending among packets due at the same moment.
#[derive(Debug)]
struct Ranked<T> {
    sent: u64,
    travelling: Travelling<T>,
}

// === impl Wire ===

impl<T> Wire<T> {
    /// With `may_overtake` packets may leave in another order than that in which they were sent.
    pub(crate) const fn new(may_overtake: bool) -> Self {
        Self {
            travelling: if may_overtake {
                Order::Free(BinaryHeap::new())
            } else {
                Order::Kept(VecDeque::new())
            },
            last_due_at: Time::ZERO,
            sent: 0,
        }
    }

    /// Whether what is sent later may be due earlier.
    pub(crate) const fn may_overtake(&self) -> bool {
        matches!(self.travelling, Order::Free(_))
    }

    /// Sends packets that are due no earlier than those before them, whatever `due_at` says.
    #[inline]
    pub(crate) fn send_in_order(&mut self, mut packets: Travelling<T>) {
        packets.due_at = packets.due_at.max(self.last_due_at);
        self.last_due_at = packets.due_at;
        self.send(packets);
    }

    /// Sends packets that may overtake and be overtaken, if the wire lets them.
    #[inline]
    pub(crate) fn send(&mut self, packets: Travelling<T>) {
        self.sent += 1;
        match &mut self.travelling {
            Order::Kept(list) => list.push_back(packets),
            Order::Free(heap) => heap.push(Reverse(Ranked {
                sent: self.sent,
                travelling: packets,
            })),
        }
    }

    #[inline]
    pub(crate) fn next_at(&self) -> Option<Time> {
        match &self.travelling {
            Order::Kept(list) => list.front().map(|first| first.due_at),
            Order::Free(heap) => heap.peek().map(|Reverse(first)| first.travelling.due_at),
        }
    }

    #[inline]
    pub(crate) fn receive(&mut self, now: Time) -> Option<Travelling<T>> {
        if self.next_at()? > now {
            return None;
        }
        match &mut self.travelling {
            Order::Kept(list) => list.pop_front(),
            Order::Free(heap) => heap.pop().map(|Reverse(first)| first.travelling),
        }
    }

    /// Counted anew from what is here, so that conservation is a check and not a tautology.
    pub(crate) fn tally(&self) -> Tally {
        let add = |sum: Tally, one: &Travelling<T>| sum + one.packets.tally();
        match &self.travelling {
            Order::Kept(list) => list.iter().fold(Tally::default(), add),
            Order::Free(heap) => heap.iter().fold(Tally::default(), |sum, Reverse(one)| {
                add(sum, &one.travelling)
            }),
        }
    }
}

// === impl Ranked ===

impl<T> Ranked<T> {
    const fn rank(&self) -> (Time, u64) {
        (self.travelling.due_at, self.sent)
    }
}

impl<T> PartialEq for Ranked<T> {
    fn eq(&self, other: &Self) -> bool {
        self.rank() == other.rank()
    }
}

impl<T> Eq for Ranked<T> {}

impl<T> PartialOrd for Ranked<T> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<T> Ord for Ranked<T> {
    fn cmp(&self, other: &Self) -> Ordering {
        self.rank().cmp(&other.rank())
    }
}
