use core::time::Duration;

use units::{Bytes, LossRate, Time};

use crate::chance::{Dice, Draw};
use crate::queue::QueueLimit;
use crate::spec::Direction;

/// Random Early Detection (Floyd and Jacobson, IEEE/ACM Transactions on Networking 1(4), 1993): drops
/// arriving packets with a probability that grows with the average length of the queue.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Deserialize, serde::Serialize))]
#[cfg_attr(
    feature = "serde",
    serde(rename_all = "kebab-case", deny_unknown_fields)
)]
pub struct Red {
    /// Up to this average length nothing is dropped. In bytes, small packets are dropped more seldom
    /// than large ones in proportion to their size; in packets, alike.
    pub min: QueueLimit,
    /// At this average length the probability reaches `probability`; in the same unit as `min`.
    pub max: QueueLimit,
    /// The probability at `max` (`max_p`).
    pub probability: LossRate,
    /// Of a new sample in the average (`w_q`).
    pub weight: LossRate,
    /// From `max` to twice `max` the probability grows to one, instead of jumping there (Floyd 2000).
    pub gentle: bool,
    /// Mark packets that permit it instead of dropping them, up to where everything is dropped
    /// (RFC 3168, section 7).
    pub ecn: bool,
}

/// RED under way, with the paper's names.
#[derive(Debug)]
pub(crate) struct Detector {
    parameters: Red,
    min: f64,
    max: f64,
    dice: Dice,
    /// Average length in the thresholds' unit.
    average: f64,
    /// Packets (in bytes: full packets' worth) since the last that was dropped or marked; absent below
    /// `min` (the paper's -1).
    count: Option<f64>,
    /// Since when nothing waits.
    idle_since: Option<Time>,
    /// How long the bottleneck takes for a typical packet, in seconds (`s`).
    typical_s: f64,
}

/// What RED decides of an arriving packet.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Verdict {
    Pass,
    Mark,
    Drop,
}

/// What waits when a packet arrives.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Length {
    pub(crate) packets: u64,
    pub(crate) bytes: Bytes,
}

/// The packet size to which probabilities in bytes refer.
const FULL_PACKET: f64 = 1500.0;

// === impl Detector ===

impl Detector {
    /// `typical`: how long the bottleneck takes for a full packet.
    pub(crate) fn new(parameters: Red, typical: Duration, seed: u64, direction: Direction) -> Self {
        Self {
            parameters,
            min: size(parameters.min),
            max: size(parameters.max),
            dice: Dice::new(seed, direction, Draw::Red),
            average: 0.0,
            count: None,
            idle_since: Some(Time::ZERO),
            typical_s: typical.as_secs_f64(),
        }
    }

    /// Nothing waits any more.
    pub(crate) const fn empty_at(&mut self, now: Time) {
        self.idle_since = Some(now);
    }

    /// Decides about packet `n` of `ip_bytes` bytes.
    pub(crate) fn judge(
        &mut self,
        now: Time,
        waiting: Length,
        n: u64,
        ip_bytes: u32,
        takes_marks: bool,
    ) -> Verdict {
        self.update_average(now, waiting);
        let Some(base) = self.base_probability() else {
            self.count = None;
            return Verdict::Pass;
        };
        if base >= 1.0 {
            // ECN gives no right to a queue that is too long.
            self.count = Some(0.0);
            return Verdict::Drop;
        }
        let packet = match self.parameters.min {
            QueueLimit::Bytes(_) => f64::from(ip_bytes) / FULL_PACKET,
            QueueLimit::Packets(_) => 1.0,
        };
        let count = self.count.map_or(0.0, |count| count + packet);
        self.count = Some(count);
        // Spreads the drops: independent draws would come in clumps (section 7 of the paper).
        let spread = 1.0 - count * base;
        let probability = if spread > 0.0 {
            base * packet / spread
        } else {
            1.0
        };
        if self.dice.unit(n) >= probability {
            return Verdict::Pass;
        }
        self.count = Some(0.0);
        if self.parameters.ecn && takes_marks {
            Verdict::Mark
        } else {
            Verdict::Drop
        }
    }

    fn update_average(&mut self, now: Time, waiting: Length) {
        let weight = self.parameters.weight.as_f64();
        if let Some(since) = self.idle_since.take() {
            // As many empty samples as packets could have passed meanwhile.
            let missed = now.since(since).as_secs_f64() / self.typical_s;
            if missed > 0.0 {
                self.average *= libm::pow(1.0 - weight, missed);
            }
            // It may pass straight on, and then the queue stays empty.
            self.idle_since = (waiting.packets == 0).then_some(now);
            return;
        }
        let length = match self.parameters.min {
            QueueLimit::Bytes(_) => to_f64(waiting.bytes.get()),
            QueueLimit::Packets(_) => to_f64(waiting.packets),
        };
        self.average += weight * (length - self.average);
    }

    /// The paper's `p_b`; `None` below `min`.
    fn base_probability(&self) -> Option<f64> {
        let Self {
            min, max, average, ..
        } = *self;
        let at_max = self.parameters.probability.as_f64();
        if average < min {
            None
        } else if average < max {
            Some(at_max * (average - min) / (max - min))
        } else if self.parameters.gentle && average < 2.0 * max {
            Some(at_max + (1.0 - at_max) * (average - max) / max)
        } else {
            Some(1.0)
        }
    }
}

fn size(limit: QueueLimit) -> f64 {
    to_f64(match limit {
        QueueLimit::Bytes(bytes) => bytes.get(),
        QueueLimit::Packets(packets) => packets,
    })
}

#[expect(
    clippy::cast_precision_loss,
    reason = "queues are far below 2^52 bytes"
)]
fn to_f64(number: u64) -> f64 {
    number as f64
}
