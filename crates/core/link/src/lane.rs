use core::time::Duration;

use units::{Bytes, Time};

use crate::counters::{LaneCounters, Tally};
use crate::fate::Fate;
use crate::item::{Delivery, Item};
use crate::queue::{Entry, Queue};
use crate::shaper::Shaper;
use crate::spec::{Direction, DirectionSpec, LossSpec};
use crate::wire::Wire;

/// One direction: its stages in their order, and what passed between them.
#[derive(Debug)]
pub(crate) struct Lane<T> {
    direction: Direction,
    seed: u64,
    loss: LossSpec,
    queue: Queue<T>,
    bottleneck: Option<Bottleneck>,
    wire: Wire<T>,
    offered: Tally,
    dropped: Tally,
    lost: Tally,
    delivered: Tally,
}

#[derive(Debug)]
struct Bottleneck {
    shaper: Shaper,
    /// Segments of one item that leave together may be this long in sum; one always may leave.
    burst: Bytes,
}

// === impl Lane ===

impl<T: Clone> Lane<T> {
    pub(crate) fn new(
        direction: Direction,
        spec: &DirectionSpec,
        seed: u64,
        resolution: Duration,
    ) -> Self {
        Self {
            direction,
            seed,
            loss: spec.loss.clone(),
            queue: Queue::new(spec.queue),
            bottleneck: spec.rate.map(|rate| Bottleneck {
                shaper: Shaper::new(rate),
                // So fast that the product overflows: every item may leave whole.
                burst: rate.checked_mul(resolution).unwrap_or(Bytes::new(u64::MAX)),
            }),
            wire: Wire::new(spec.one_way_delay),
            offered: Tally::default(),
            dropped: Tally::default(),
            lost: Tally::default(),
            delivered: Tally::default(),
        }
    }

    pub(crate) fn offer(&mut self, now: Time, item: Item<T>) {
        self.advance(now);
        let item_index = self.offered.packets;
        let count = item.segments.count();
        self.offered += Tally::new(u64::from(count), item.segments.bytes(&(0..count)));
        if let Some(bottleneck) = &self.bottleneck {
            let idle = bottleneck.shaper.free_at() <= now;
            self.dropped += self.queue.admit(now, item, item_index, idle);
            self.advance(now);
        } else {
            let whole = Entry {
                payload: item.payload,
                segments: item.segments,
                range: 0..count,
                item_index,
                arrived_at: now,
            };
            self.send_by_fate(now, whole);
        }
    }

    /// The next packets that are due at `now` and not lost.
    pub(crate) fn poll(&mut self, now: Time) -> Option<Delivery<T>> {
        self.advance(now);
        while let Some(arrived) = self.wire.receive(now) {
            let tally = arrived.packets.tally();
            match arrived.fate {
                Fate::Lost => self.lost += tally,
                Fate::Delivered => {
                    self.delivered += tally;
                    return Some(Delivery {
                        direction: self.direction,
                        first_index: arrived.packets.first_index(),
                        payload: arrived.packets.payload,
                        segments: arrived.packets.range,
                        due_at: arrived.due_at,
                    });
                }
            }
        }
        None
    }

    /// Nothing arrives before this moment. The bottleneck need not be visited in between: it catches up
    /// exactly, so a driver wakes once per arrival and not once more per departure.
    pub(crate) fn next_at(&self) -> Option<Time> {
        self.wire.next_at().or_else(|| self.departure_at())
    }

    pub(crate) const fn queued_bytes(&self) -> Bytes {
        self.queue.bytes()
    }

    pub(crate) fn counters(&self) -> LaneCounters {
        LaneCounters {
            offered: self.offered,
            dropped: self.dropped,
            lost: self.lost,
            delivered: self.delivered,
            queued: self.queue.tally(),
            in_flight: self.wire.tally(),
            queue_peak: self.queue.peak(),
        }
    }

    /// Lets the bottleneck do everything that it did up to `now`, each at its own time.
    fn advance(&mut self, now: Time) {
        while let Some(start_at) = self.departure_at().filter(|&at| at <= now) {
            // `departure_at` is `Some` only with a bottleneck and a head.
            let (Some(bottleneck), Some(head)) = (&mut self.bottleneck, self.queue.head()) else {
                return;
            };
            let (count, fate) = next_burst(
                head,
                bottleneck.burst,
                &self.loss,
                self.seed,
                self.direction,
            );
            let Some(packets) = self.queue.take(count) else {
                return;
            };
            let serialised_at = bottleneck.shaper.serialise(start_at, packets.bytes());
            self.wire.send(serialised_at, packets, fate);
        }
    }

    /// When the first packet in line starts to be serialised.
    fn departure_at(&self) -> Option<Time> {
        let free_at = self.bottleneck.as_ref()?.shaper.free_at();
        Some(self.queue.head_arrived_at()?.max(free_at))
    }

    /// Without a bottleneck only different fates part the segments of an item.
    fn send_by_fate(&mut self, now: Time, mut rest: Entry<T>) {
        let end = rest.range.end;
        let everything = Bytes::new(u64::MAX);
        while rest.range.start < end {
            let (count, fate) =
                next_burst(&rest, everything, &self.loss, self.seed, self.direction);
            let mut burst = rest.clone();
            burst.range.end = burst.range.start + count;
            rest.range.start = burst.range.end;
            self.wire.send(now, burst, fate);
        }
    }
}

/// How many of the entry's first segments leave together: within `limit` bytes but at least one, and
/// all of the same fate.
fn next_burst<T>(
    entry: &Entry<T>,
    limit: Bytes,
    loss: &LossSpec,
    seed: u64,
    direction: Direction,
) -> (u32, Fate) {
    let first = entry.first_index();
    let fate = loss.fate(seed, direction, first);
    let start = entry.range.start;
    let mut end = start + 1;
    while end < entry.range.end
        && entry.segments.bytes(&(start..end + 1)) <= limit
        && loss.fate(seed, direction, entry.item_index + u64::from(end)) == fate
    {
        end += 1;
    }
    (end - start, fate)
}
