use core::time::Duration;

use units::{Bytes, Time};

use crate::counters::{LaneCounters, Tally};
use crate::item::{Delivery, Item};
use crate::lots::{Lot, Lots, Outcome};
use crate::policer::Bucket;
use crate::queue::{Entry, Queue};
use crate::schedule::{Outage, Schedule, Settings};
use crate::shaper::Shaper;
use crate::spec::{Direction, DirectionSpec, Order, Shift};
use crate::wire::{Travelling, Wire};

/// One direction: its stages in their order, and what passed between them.
#[derive(Debug)]
pub(crate) struct Lane<T> {
    direction: Direction,
    schedule: Schedule,
    policer: Option<Bucket>,
    queue: Queue<T>,
    bottleneck: Option<Shaper>,
    lots: Lots,
    order: Order,
    shift: Shift,
    wire: Wire<T>,
    offered: Tally,
    policed: Tally,
    outage: Tally,
    duplicated: Tally,
    lost: Tally,
    delivered: Tally,
    corrupted: Tally,
    reordered: Tally,
}

/// A limit that no item reaches.
const UNLIMITED: Bytes = Bytes::new(u64::MAX);

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
            schedule: Schedule::new(spec),
            policer: spec.policer.map(Bucket::new),
            queue: Queue::new(spec, seed, direction),
            bottleneck: Shaper::new(spec, resolution),
            lots: Lots::new(spec, seed, direction),
            order: spec.order,
            shift: spec
                .reorder
                .map_or(Shift::Late(Duration::ZERO), |reorder| reorder.shift),
            wire: Wire::new(spec.order == Order::Free || spec.reorder.is_some()),
            offered: Tally::default(),
            policed: Tally::default(),
            outage: Tally::default(),
            duplicated: Tally::default(),
            lost: Tally::default(),
            delivered: Tally::default(),
            corrupted: Tally::default(),
            reordered: Tally::default(),
        }
    }

    /// Counts the times of schedule and trace from `now` on. An outage of before is over.
    pub(crate) fn start_schedule(&mut self, now: Time) {
        self.advance(now);
        let held = self.schedule.reach(now).is_held();
        self.schedule.start(now);
        if let Some(bottleneck) = &mut self.bottleneck {
            bottleneck.restart(now, held);
        }
    }

    pub(crate) fn offer(&mut self, now: Time, item: Item<T>) {
        self.advance(now);
        let item_index = self.offered.packets;
        let Item { payload, segments } = item;
        let count = segments.count();
        let offered = Tally::new(u64::from(count), segments.bytes(&(0..count)));
        self.offered += offered;
        let whole = Entry {
            payload,
            segments,
            range: 0..count,
            item_index,
            arrived_at: now,
            marked: false,
        };
        let Some(policer) = &mut self.policer else {
            self.enqueue(now, whole);
            return;
        };
        let mut dropped = offered;
        for range in policer.pass(now, segments) {
            if !range.is_empty() {
                let passed = whole.part(range);
                dropped = dropped.less(passed.tally());
                self.enqueue(now, passed);
            }
        }
        self.policed += dropped;
    }

    /// The next packets that are due at `now` and not lost.
    pub(crate) fn poll(&mut self, now: Time) -> Option<Delivery<T>> {
        self.advance(now);
        while let Some(arrived) = self.wire.receive(now) {
            let Travelling {
                due_at,
                outcome,
                reordered,
                packets,
            } = arrived;
            let tally = packets.tally();
            if outcome.lost {
                self.lost += tally;
                continue;
            }
            self.delivered += tally;
            let first_index = packets.first_index();
            let corruption = outcome
                .corrupted
                .then(|| self.lots.damage(first_index, outcome.copy));
            if corruption.is_some() {
                self.corrupted += tally;
            }
            if reordered {
                self.reordered += tally;
            }
            return Some(Delivery {
                direction: self.direction,
                first_index,
                payload: packets.payload,
                segments: packets.range,
                due_at,
                marked: packets.marked,
                corruption,
            });
        }
        None
    }

    /// Nothing arrives before this moment; the end of time where there is nothing. The bottleneck need not
    /// be visited in between where packets keep their order: it catches up exactly, so a driver wakes once
    /// per arrival and not once more per departure.
    #[inline]
    pub(crate) fn due_at(&self) -> Time {
        match self.wire.next_at() {
            Some(arrival) if !self.wire.may_overtake() => arrival,
            arrival => {
                let departure = self.departure_at().unwrap_or(Time::MAX);
                arrival.map_or(departure, |arrival| arrival.min(departure))
            }
        }
    }

    pub(crate) const fn queued_bytes(&self) -> Bytes {
        self.queue.bytes()
    }

    pub(crate) fn counters(&self) -> LaneCounters {
        LaneCounters {
            offered: self.offered,
            policed: self.policed,
            dropped: self.queue.full(),
            managed: self.queue.managed(),
            outage: self.outage,
            duplicated: self.duplicated,
            lost: self.lost,
            delivered: self.delivered,
            queued: self.queue.tally(),
            in_flight: self.wire.tally(),
            marked: self.queue.marked(),
            corrupted: self.corrupted,
            reordered: self.reordered,
            queue_peak: self.queue.peak(),
        }
    }

    /// Lets the bottleneck do everything that it did up to `now`, each at its own time.
    #[inline]
    pub(crate) fn advance(&mut self, now: Time) {
        while let Some(start_at) = self.departure_at().filter(|&at| at <= now) {
            self.depart(start_at);
        }
    }

    /// When the first packet in line starts to be serialised.
    #[inline]
    fn departure_at(&self) -> Option<Time> {
        let bottleneck = self.bottleneck.as_ref()?;
        Some(bottleneck.starts_at(self.queue.head_arrived_at()?))
    }

    /// Puts packets that come at `now` in line, or on the wire where there is no line.
    #[inline]
    fn enqueue(&mut self, now: Time, packets: Entry<T>) {
        let settings = self.schedule.reach(now);
        let Some(bottleneck) = &mut self.bottleneck else {
            self.send_all(now, packets, settings);
            return;
        };
        if settings.is_held() {
            bottleneck.wait_until(self.schedule.until());
        }
        let idle = bottleneck.starts_at(now) <= now;
        self.queue.admit(packets, idle);
        self.advance(now);
    }

    /// Serialises the packets whose turn comes at `start_at`.
    #[inline]
    fn depart(&mut self, start_at: Time) {
        let Some(bottleneck) = &mut self.bottleneck else {
            return;
        };
        let settings = self.schedule.reach(start_at);
        if settings.is_held() {
            bottleneck.wait_until(self.schedule.until());
            return;
        }
        let limit = if self.queue.parts_items() {
            Bytes::ZERO
        } else {
            bottleneck.burst(start_at, &self.schedule)
        };
        let Some(head) = self.queue.head(start_at) else {
            return;
        };
        let (count, lot) = self.lots.next(head, limit, &self.schedule, settings);
        let Some(packets) = self.queue.take(count, start_at) else {
            return;
        };
        let serialised_at = bottleneck.serialise(start_at, packets.bytes(), &mut self.schedule);
        self.send(serialised_at, packets, lot, settings);
    }

    /// Without a bottleneck only different lots part the segments of an item.
    fn send_all(&mut self, now: Time, mut rest: Entry<T>, settings: Settings) {
        loop {
            let (count, lot) = self.lots.next(&rest, UNLIMITED, &self.schedule, settings);
            let split = rest.range.start + count;
            if split >= rest.range.end {
                self.send(now, rest, lot, settings);
                return;
            }
            let first = rest.part(rest.range.start..split);
            rest.range.start = split;
            self.send(now, first, lot, settings);
        }
    }

    /// Puts packets of one lot on the wire, or what an outage leaves of them.
    #[inline]
    fn send(&mut self, serialised_at: Time, packets: Entry<T>, lot: Lot, settings: Settings) {
        if settings.outage == Some(Outage::Drop) {
            self.outage += packets.tally();
            return;
        }
        let mut due_at = serialised_at + settings.delay + lot.jitter;
        if lot.reordered {
            due_at = match self.shift {
                Shift::Late(by) => due_at + by,
                Shift::Early(by) => due_at.saturating_sub(by).max(serialised_at),
            };
        }
        if let Some(outcome) = lot.copy {
            self.duplicated += packets.tally();
            let copy = packets.clone();
            self.launch(due_at, packets, lot.reordered, lot.original);
            self.launch(due_at, copy, lot.reordered, outcome);
        } else {
            self.launch(due_at, packets, lot.reordered, lot.original);
        }
    }

    #[inline]
    fn launch(&mut self, due_at: Time, packets: Entry<T>, reordered: bool, outcome: Outcome) {
        let travelling = Travelling {
            due_at,
            outcome,
            reordered,
            packets,
        };
        if reordered || self.order == Order::Free {
            self.wire.send(travelling);
        } else {
            self.wire.send_in_order(travelling);
        }
    }
}
