use core::time::Duration;

use units::{Bytes, Time};

use crate::counters::PathCounters;
use crate::item::{Delivery, Item};
use crate::lane::Lane;
use crate::spec::{Direction, InvalidPath, PathSpec};

/// A path under way: packets go in with [`offer`](Self::offer) and come out with [`poll`](Self::poll).
///
/// Time is the driver's and must not go back. Between two moments nothing happens unseen: a driver that
/// sleeps until [`next_at`](Self::next_at) misses nothing.
#[derive(Debug)]
pub struct Path<T> {
    forward: Lane<T>,
    backward: Lane<T>,
}

// === impl Path ===

impl<T: Clone> Path<T> {
    /// An empty path. Segments of one item that the bottleneck serialises within `resolution` may leave
    /// together, when the last of them is through; zero parts every item into its packets.
    pub fn new(spec: &PathSpec, resolution: Duration) -> Result<Self, InvalidPath> {
        spec.validate()?;
        let lane =
            |direction| Lane::new(direction, spec.direction(direction), spec.seed, resolution);
        Ok(Self {
            forward: lane(Direction::Forward),
            backward: lane(Direction::Backward),
        })
    }

    /// Counts the times of schedules and traces from `now` on instead of from [`Time::ZERO`]: a driver that has to
    /// prepare something on the path starts them when the preparation is over. What has not left the
    /// bottleneck yet obeys the schedule as it then is, and an outage of before is over.
    pub fn start_schedule(&mut self, now: Time) {
        self.forward.start_schedule(now);
        self.backward.start_schedule(now);
    }

    /// Sends `item` into `direction` at `now`.
    pub fn offer(&mut self, now: Time, direction: Direction, item: Item<T>) {
        match direction {
            Direction::Forward => self.forward.offer(now, item),
            Direction::Backward => self.backward.offer(now, item),
        }
    }

    /// Something that arrived by `now`, earliest first; call until `None`.
    #[inline]
    pub fn poll(&mut self, now: Time) -> Option<Delivery<T>> {
        // Once in each direction; a lane that moves on within the first poll may be due in the second.
        let (forward, backward) = (self.forward.due_at(), self.backward.due_at());
        if forward.min(backward) > now {
            // Most calls are the last of a row. What waits moves on all the same.
            self.catch_up(now);
            return None;
        }
        let [first, second] = if backward < forward {
            [&mut self.backward, &mut self.forward]
        } else {
            [&mut self.forward, &mut self.backward]
        };
        first.poll(now).or_else(|| second.poll(now))
    }

    /// Lets the bottlenecks do what they did up to `now`, so that [`queued_bytes`](Self::queued_bytes) tells
    /// of that moment.
    #[inline]
    pub fn catch_up(&mut self, now: Time) {
        self.forward.advance(now);
        self.backward.advance(now);
    }

    /// The moment before which nothing more will arrive; `None` when the path is empty. What is due then
    /// may turn out to be lost, in which case [`poll`](Self::poll) returns nothing.
    #[inline]
    #[must_use]
    pub fn next_at(&self) -> Option<Time> {
        let due_at = self.forward.due_at().min(self.backward.due_at());
        // What is due at the end of time never comes.
        (due_at < Time::MAX).then_some(due_at)
    }

    /// IP bytes that wait for the bottleneck of `direction` since the path was last offered or polled
    /// something, or caught up; cheap enough to be asked after every packet, unlike [`counters`](Self::counters).
    #[must_use]
    pub const fn queued_bytes(&self, direction: Direction) -> Bytes {
        match direction {
            Direction::Forward => self.forward.queued_bytes(),
            Direction::Backward => self.backward.queued_bytes(),
        }
    }

    /// Where all packets are.
    #[must_use]
    pub fn counters(&self) -> PathCounters {
        PathCounters {
            forward: self.forward.counters(),
            backward: self.backward.counters(),
        }
    }

    /// in + duplicated = out + dropped by each stage + lost + queued + in flight, both ways.
    ///
    /// # Panics
    /// When that does not hold, which is a bug of this crate.
    pub fn assert_conserved(&self) {
        let counters = self.counters();
        for direction in Direction::BOTH {
            if let Err(error) = counters.direction(direction).check() {
                panic!("{direction}: {error}");
            }
        }
    }
}
