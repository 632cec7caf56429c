use core::time::Duration;

use units::{Bytes, Time};

/// Controlled Delay (RFC 8289): drops from the front of a queue in which even the packet that waited
/// least waited longer than `target`, for `interval`.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Deserialize, serde::Serialize))]
#[cfg_attr(feature = "serde", serde(deny_unknown_fields))]
pub struct CoDel {
    /// Acceptable standing delay: 5 to 10 % of `interval` (RFC 8289, section 4.3).
    pub target: Duration,
    /// How long the delay must stand before it is acted upon: a round trip of most flows (section 4.2).
    pub interval: Duration,
    /// Mark packets that permit it instead of dropping them, as Linux does.
    pub ecn: bool,
}

/// The control loop under way, with the RFC's names.
#[derive(Debug)]
pub(crate) struct ControlLoop {
    parameters: CoDel,
    /// Absent is the RFC's 0.
    first_above_time: Option<Time>,
    drop_next: Time,
    count: u32,
    last_count: u32,
    dropping: bool,
}

/// The queue as `CoDel` sees it.
pub(crate) trait Front {
    /// When the first packet came, and the bytes behind it.
    fn front(&self) -> Option<Waiting>;
    /// Drops the first packet.
    fn drop_front(&mut self);
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Waiting {
    pub(crate) arrived_at: Time,
    pub(crate) bytes_behind: Bytes,
    pub(crate) takes_marks: bool,
}

/// An MTU: a queue that holds no more than this behind the packet that leaves is no standing queue.
const MAXPACKET: Bytes = Bytes::new(1500);

// === impl CoDel ===

impl Default for CoDel {
    /// The values that the RFC recommends for the Internet (sections 4.2 and 4.3), which fit round trips
    /// up to 300 ms, dropping as an ordinary router would.
    fn default() -> Self {
        Self {
            target: Duration::from_millis(5),
            interval: Duration::from_millis(100),
            ecn: false,
        }
    }
}

// === impl ControlLoop ===

impl ControlLoop {
    pub(crate) const fn new(parameters: CoDel) -> Self {
        Self {
            parameters,
            first_above_time: None,
            drop_next: Time::ZERO,
            count: 0,
            last_count: 0,
            dropping: false,
        }
    }

    /// The RFC's `dequeue` (section 5.5): drops what has to go, so that the front of the queue is what
    /// leaves at `now`, and says whether that packet has to be marked.
    pub(crate) fn dequeue(&mut self, now: Time, queue: &mut impl Front) -> bool {
        let ok_to_drop = self.is_ok_to_drop(now, queue);
        if self.dropping {
            if !ok_to_drop {
                self.dropping = false;
            }
            while self.dropping && now >= self.drop_next {
                self.count = self.count.saturating_add(1);
                if self.marks(queue) {
                    self.drop_next = self.control_law(self.drop_next);
                    return true;
                }
                queue.drop_front();
                if self.is_ok_to_drop(now, queue) {
                    self.drop_next = self.control_law(self.drop_next);
                } else {
                    self.dropping = false;
                }
            }
            return false;
        }
        if !ok_to_drop {
            return false;
        }
        let marks = self.marks(queue);
        if !marks {
            queue.drop_front();
            // Whatever it says, the drop state is entered; but it notes whether the delay still stands.
            self.is_ok_to_drop(now, queue);
        }
        self.dropping = true;
        // "If min went above TARGET close to when it last went below, assume that the drop rate that
        // controlled the queue on the last cycle is a good starting point to control it now."
        let delta = self.count.saturating_sub(self.last_count);
        let recent = now.since(self.drop_next) < self.parameters.interval * 16;
        self.count = if delta > 1 && recent { delta } else { 1 };
        self.drop_next = self.control_law(now);
        self.last_count = self.count;
        marks
    }

    /// The judgement of the RFC's `dodequeue` (section 5.6) on the packet at the front.
    fn is_ok_to_drop(&mut self, now: Time, queue: &impl Front) -> bool {
        let CoDel {
            target, interval, ..
        } = self.parameters;
        let standing = queue.front().is_some_and(|front| {
            now.since(front.arrived_at) >= target && front.bytes_behind > MAXPACKET
        });
        if !standing {
            self.first_above_time = None;
            return false;
        }
        if let Some(first_above_time) = self.first_above_time {
            return now >= first_above_time;
        }
        self.first_above_time = Some(now + interval);
        false
    }

    fn marks(&self, queue: &impl Front) -> bool {
        self.parameters.ecn && queue.front().is_some_and(|front| front.takes_marks)
    }

    /// `t + INTERVAL / sqrt(count)` (section 5.6).
    fn control_law(&self, t: Time) -> Time {
        t + self
            .parameters
            .interval
            .div_f64(libm::sqrt(f64::from(self.count.max(1))))
    }
}
