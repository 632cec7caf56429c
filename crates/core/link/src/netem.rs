//! One direction in the words of Linux's own emulator, `tc-netem(8)`, for where the kernel has it.
//!
//! The root is netem, for everything that happens on the wire; its child is a token bucket, `tc-tbf(8)`, for the
//! bottleneck and its queue. So delay and loss come before the bottleneck there and behind it here: rate, round
//! trip, share of losses and room in the queue are the same, what a lost packet did to others in the queue is not.
//! What netem means otherwise than we do, or has no word for, is refused by name.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;
use core::time::Duration;

use units::{Bytes, LossRate, Rate};

use crate::{
    DirectionSpec, Discipline, Distribution, Jitter, LossSpec, Order, QueueLimit, Reorder, Shift,
};

/// What a direction asks for and netem cannot do.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct BeyondNetem {
    /// The setting, by its name in [`DirectionSpec`].
    pub setting: &'static str,
    /// Why, and what to do.
    pub why: &'static str,
}

/// Packets that netem may hold: those on the wire. At 10 Gbit/s a second has 833,000 full ones.
const ON_THE_WIRE: u32 = 1_000_000;
/// Least bucket: two full packets. A smaller one would never let a packet of the MTU with its link-layer
/// header through.
const LEAST_BURST: Bytes = Bytes::new(3_028);
/// Time that a bucket lets pass at once, so that a timer's lateness costs no rate.
const BURST: Duration = Duration::from_micros(100);
/// Deviations at which netem's tables of distributions end (`NETEM_DIST_SCALE` and 16 bits,
/// `net/sched/sch_netem.c`).
const TABLE_ENDS: u32 = 4;

impl DirectionSpec {
    /// The lines that put it on the way out of `device`, each for `tc`, or everything that stands against it.
    pub fn netem(&self, device: &str) -> Result<Vec<String>, Vec<BeyondNetem>> {
        let beyond = self.beyond_netem();
        if !beyond.is_empty() {
            return Err(beyond);
        }
        let mut root = format!("qdisc add dev {device} root handle 1: netem limit {ON_THE_WIRE}");
        let mut say = |words: String| {
            root.push(' ');
            root.push_str(&words);
        };
        if let Some(delay) = delay(self.one_way_delay, self.jitter) {
            say(delay);
        }
        match &self.loss {
            LossSpec::Bernoulli(share) => say(format!("loss random {}", percent(*share))),
            LossSpec::GilbertElliott(chain) => say(format!(
                "loss gemodel {} {} {} {}",
                percent(chain.to_bad),
                percent(chain.to_good),
                percent(chain.loss_in_bad),
                percent(chain.loss_in_good)
            )),
            LossSpec::None | LossSpec::Every(_) | LossSpec::Listed(_) => {}
        }
        if self.duplicate != LossRate::ZERO {
            say(format!("duplicate {}", percent(self.duplicate)));
        }
        if self.corrupt != LossRate::ZERO {
            say(format!("corrupt {}", percent(self.corrupt)));
        }
        if let Some(reorder) = self.reorder {
            say(format!("reorder {}", percent(reorder.share)));
        }
        let mut lines = [root].to_vec();
        if let (Some(rate), QueueLimit::Bytes(queue)) = (self.rate, self.queue) {
            lines.push(bucket(device, rate, queue));
        }
        Ok(lines)
    }

    fn beyond_netem(&self) -> Vec<BeyondNetem> {
        let mut beyond = Vec::new();
        let mut refuse = |applies: bool, setting, why| {
            if applies {
                beyond.push(BeyondNetem { setting, why });
            }
        };
        refuse(
            self.policer.is_some(),
            "policer",
            "netem has none, and where `tc police` stands is no place behind netem",
        );
        refuse(
            self.trace.is_some(),
            "trace",
            "tbf has one rate; take the trace's mean",
        );
        refuse(
            self.discipline != Discipline::DropTail,
            "discipline",
            "below tbf the queue is a plain one",
        );
        refuse(
            self.rate.is_some() && matches!(self.queue, QueueLimit::Packets(_)),
            "queue",
            "tbf counts bytes: give the limit in them",
        );
        let (jitter, tail) = match self.jitter {
            None => (false, false),
            Some(jitter) => (true, has_no_table(jitter)),
        };
        refuse(
            jitter && self.order == Order::Kept,
            "order",
            "netem's jitter lets packets overtake each other: set it to free",
        );
        refuse(
            tail,
            "jitter",
            "netem's tables end at four deviations, and its correlation bends them: uniform, or normal with a \
             mean of four deviations, without correlation",
        );
        refuse(
            self.reorder.is_some_and(|reorder| !jumps(reorder, self)),
            "reorder",
            "netem sends what it takes out of order at once: shift it early by the whole delay",
        );
        refuse(
            matches!(self.loss, LossSpec::Every(_) | LossSpec::Listed(_)),
            "loss",
            "netem has no list and no period: use a share, or bursts",
        );
        refuse(
            !self.schedule.is_empty(),
            "schedule",
            "netem stays as it is set",
        );
        beyond
    }
}

/// Whether netem's jitter would be another.
fn has_no_table(jitter: Jitter) -> bool {
    let tail = match jitter.distribution {
        Distribution::Uniform { .. } => false,
        Distribution::Normal { mean, deviation } => mean < deviation * TABLE_ENDS,
        Distribution::Pareto { .. } => true,
    };
    tail || jitter.correlation != LossRate::ZERO
}

/// Whether a reordered packet skips all of the delay, as netem has it.
fn jumps(reorder: Reorder, spec: &DirectionSpec) -> bool {
    match reorder.shift {
        Shift::Early(by) => by >= spec.one_way_delay && spec.one_way_delay > Duration::ZERO,
        Shift::Late(_) => false,
    }
}

/// netem's jitter goes both ways from the delay, ours only adds.
fn delay(propagation: Duration, jitter: Option<Jitter>) -> Option<String> {
    let Some(jitter) = jitter else {
        return (propagation > Duration::ZERO).then(|| format!("delay {}", micros(propagation)));
    };
    match jitter.distribution {
        Distribution::Uniform { most } => {
            let half = most / 2;
            Some(format!(
                "delay {} {}",
                micros(propagation + half),
                micros(half)
            ))
        }
        Distribution::Normal { mean, deviation } => Some(format!(
            "delay {} {} distribution normal",
            micros(propagation + mean),
            micros(deviation)
        )),
        // Refused before.
        Distribution::Pareto { .. } => None,
    }
}

/// The bottleneck and what may wait for it.
fn bucket(device: &str, rate: Rate, queue: Bytes) -> String {
    let burst = rate
        .checked_mul(BURST)
        .unwrap_or(LEAST_BURST)
        .max(LEAST_BURST);
    format!(
        "qdisc add dev {device} parent 1:1 handle 2: tbf rate {}bit burst {} limit {}",
        rate.bits_per_s(),
        burst.get(),
        queue.get()
    )
}

/// In microseconds, with decimals where there are some: `tc` of iproute2 6.1 takes no smaller unit here.
fn micros(span: Duration) -> String {
    match (span.as_micros(), span.as_nanos() % 1_000) {
        (whole, 0) => format!("{whole}us"),
        (whole, thousandths) => format!("{whole}.{thousandths:03}us"),
    }
}

/// Seven decimals of a per cent are a billionth.
fn percent(share: LossRate) -> String {
    let billionths = share.as_per_billion();
    let (whole, rest) = (billionths / 10_000_000, billionths % 10_000_000);
    let text = format!("{whole}.{rest:07}");
    let short = text.trim_end_matches('0').trim_end_matches('.');
    format!("{short}%")
}

// === impl BeyondNetem ===

impl fmt::Display for BeyondNetem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "`{}` cannot be played by netem: {}",
            self.setting, self.why
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Change, GilbertElliott, Policer};

    fn share(billionths: u32) -> LossRate {
        LossRate::per_billion(billionths).unwrap()
    }

    fn path() -> DirectionSpec {
        DirectionSpec {
            rate: Some(Rate::mbit_per_s(10)),
            queue: QueueLimit::Bytes(Bytes::new(100_000)),
            one_way_delay: Duration::from_millis(35),
            ..DirectionSpec::default()
        }
    }

    #[test]
    fn a_bottleneck_with_delay_and_loss_is_two_lines() {
        let spec = DirectionSpec {
            loss: LossSpec::Bernoulli(share(5_000_000)),
            duplicate: share(1),
            corrupt: share(1_000_000_000),
            ..path()
        };
        assert_eq!(
            spec.netem("wan0").unwrap(),
            [
                "qdisc add dev wan0 root handle 1: netem limit 1000000 delay 35000us loss random 0.5% \
                 duplicate 0.0000001% corrupt 100%",
                "qdisc add dev wan0 parent 1:1 handle 2: tbf rate 10000000bit burst 3028 limit 100000",
            ]
        );
        let nothing = DirectionSpec::default().netem("eth0").unwrap();
        assert_eq!(
            nothing,
            ["qdisc add dev eth0 root handle 1: netem limit 1000000"]
        );
    }

    #[test]
    fn bursts_of_loss_and_jitter_keep_their_numbers() {
        let spec = DirectionSpec {
            rate: Some(Rate::mbit_per_s(1_000)),
            jitter: Some(Jitter {
                distribution: Distribution::Uniform {
                    most: Duration::from_millis(4),
                },
                correlation: LossRate::ZERO,
            }),
            order: Order::Free,
            loss: LossSpec::GilbertElliott(GilbertElliott {
                to_bad: share(10_000_000),
                to_good: share(250_000_000),
                loss_in_bad: share(1_000_000_000),
                loss_in_good: LossRate::ZERO,
            }),
            reorder: Some(Reorder {
                share: share(20_000_000),
                shift: Shift::Early(Duration::from_millis(35)),
            }),
            ..path()
        };
        let lines = spec.netem("wan0").unwrap();
        assert!(
            lines[0].ends_with("delay 37000us 2000us loss gemodel 1% 25% 100% 0% reorder 2%"),
            "{lines:?}"
        );
        // 100 us of 1 Gbit/s.
        assert!(lines[1].contains("burst 12500 "), "{lines:?}");
    }

    #[test]
    fn what_netem_means_otherwise_is_refused_by_name_all_at_once() {
        let spec = DirectionSpec {
            policer: Some(Policer {
                rate: Rate::mbit_per_s(1),
                burst: Bytes::kib(64),
            }),
            queue: QueueLimit::Packets(50),
            discipline: Discipline::CoDel(crate::CoDel::default()),
            jitter: Some(Jitter {
                distribution: Distribution::Pareto {
                    mean: Duration::from_millis(1),
                },
                correlation: LossRate::ZERO,
            }),
            reorder: Some(Reorder {
                share: share(1_000),
                shift: Shift::Late(Duration::from_millis(1)),
            }),
            loss: LossSpec::Every(100),
            schedule: [Change::default()].to_vec(),
            ..path()
        };
        let refused = spec.netem("wan0").unwrap_err();
        let settings: Vec<&str> = refused.iter().map(|one| one.setting).collect();
        assert_eq!(
            settings,
            [
                "policer",
                "discipline",
                "queue",
                "order",
                "jitter",
                "reorder",
                "loss",
                "schedule"
            ]
        );
        assert!(format!("{}", refused[0]).starts_with("`policer` cannot be played by netem: "));
    }
}
