use alloc::vec::Vec;
use core::fmt;
use core::time::Duration;

use units::{Bytes, LossRate, Rate};

use crate::fate::LossSpec;
use crate::queue::{Discipline, QueueLimit, Red};
use crate::schedule::Change;
use crate::spec::{Direction, DirectionSpec, MAX_DELAY, MIN_QUEUE, Shift};

/// A path's settings contradict each other or the model.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub struct InvalidPath {
    /// Everything found, with the direction it was found in.
    pub errors: Vec<(Direction, SpecError)>,
}

/// One thing wrong with one direction.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
pub enum SpecError {
    /// Nothing would ever arrive.
    #[error(
        "the rate is zero; leave it out for a path without a bottleneck, use an outage for a pause"
    )]
    ZeroRate,
    /// Two bottlenecks in one.
    #[error(
        "a rate and a trace are set; the trace says the rate at every moment, so leave one out"
    )]
    RateAndTrace,
    /// Any two packets in a row would lose one.
    #[error("the queue of {queue} holds no full packet; give it at least {MIN_QUEUE} or 1 packet")]
    QueueBelowOnePacket {
        /// As asked.
        queue: QueueLimit,
    },
    /// Nothing would ever pass.
    #[error("the policer's rate is zero")]
    ZeroPolicerRate,
    /// No full packet would ever pass.
    #[error(
        "the policer's burst of {burst} lets no full packet pass; give it at least {MIN_QUEUE}"
    )]
    BurstBelowOnePacket {
        /// As asked.
        burst: Bytes,
    },
    /// The control loop would divide by zero, or drop everything.
    #[error("CoDel's target has to be above zero and below its interval")]
    CoDelTarget,
    /// The average could not be compared with both.
    #[error("RED's thresholds are in different units; give both in bytes or both in packets")]
    RedUnits,
    /// There is no slope between the thresholds.
    #[error("RED's maximum of {max} has to be above its minimum of {min}")]
    RedThresholds {
        /// As asked.
        min: QueueLimit,
        /// As asked.
        max: QueueLimit,
    },
    /// RED would never do anything.
    #[error("RED's probability and its weight have to be above zero")]
    RedShares,
    /// A typing error, most likely.
    #[error("a delay is longer than an hour")]
    DelayTooLong,
    /// Every packet would have the delay of the first.
    #[error("the correlation of the jitter is 100 %; it has to be below that")]
    FullCorrelation,
    /// The list cannot be searched.
    #[error("the list of lost packets is not ascending at its position {position}")]
    LossListNotAscending {
        /// Position in the list, from 0.
        position: usize,
    },
    /// Every 0th packet is none.
    #[error("every 0th packet cannot be lost; the count has to be 1 at least")]
    LossEveryZero,
    /// The chain has no long run.
    #[error("the Gilbert-Elliott chain never leaves its first state; set one of its probabilities")]
    StuckChain,
    /// A change whose settings are all absent.
    #[error("change {number} of the schedule changes nothing")]
    EmptyChange {
        /// Position in the schedule, from 0.
        number: usize,
    },
    /// A change that lasts no time, or comes back before it has ended.
    #[error(
        "change {number} of the schedule has to last some time, and less than until it comes back"
    )]
    ChangeWithoutSpan {
        /// Position in the schedule, from 0.
        number: usize,
    },
    /// The trace says the rate.
    #[error("change {number} of the schedule sets a rate, which the trace says already")]
    RateOfTrace {
        /// Position in the schedule, from 0.
        number: usize,
    },
}

/// Everything that is wrong with `spec`.
pub(super) fn of(spec: &DirectionSpec) -> Vec<SpecError> {
    let mut errors = Vec::new();
    if let Some(policer) = spec.policer {
        errors.extend(is_zero(policer.rate).then_some(SpecError::ZeroPolicerRate));
        let burst = policer.burst;
        errors.extend((burst < MIN_QUEUE).then_some(SpecError::BurstBelowOnePacket { burst }));
    }
    errors.extend(
        spec.rate
            .filter(|&rate| is_zero(rate))
            .map(|_| SpecError::ZeroRate),
    );
    if spec.rate.is_some() && spec.trace.is_some() {
        errors.push(SpecError::RateAndTrace);
    }
    if spec.has_bottleneck() && spec.queue.in_bytes(MIN_QUEUE) < MIN_QUEUE {
        errors.push(SpecError::QueueBelowOnePacket { queue: spec.queue });
    }
    errors.extend(of_discipline(spec.discipline));
    let mut delays = Vec::from([spec.one_way_delay]);
    delays.extend(spec.jitter.map(|jitter| jitter.longest()));
    delays.extend(spec.reorder.map(|reorder| match reorder.shift {
        Shift::Late(by) | Shift::Early(by) => by,
    }));
    delays.extend(
        spec.schedule
            .iter()
            .filter_map(|change| change.one_way_delay),
    );
    if delays.into_iter().any(|delay| delay > MAX_DELAY) {
        errors.push(SpecError::DelayTooLong);
    }
    if spec
        .jitter
        .is_some_and(|jitter| jitter.correlation == LossRate::ONE)
    {
        errors.push(SpecError::FullCorrelation);
    }
    errors.extend(of_loss(&spec.loss));
    for (number, change) in spec.schedule.iter().enumerate() {
        of_change(change, number, spec.trace.is_some(), &mut errors);
    }
    errors
}

fn of_discipline(discipline: Discipline) -> Option<SpecError> {
    match discipline {
        Discipline::DropTail => None,
        Discipline::CoDel(codel) => (codel.target.is_zero() || codel.target >= codel.interval)
            .then_some(SpecError::CoDelTarget),
        Discipline::Red(red) => of_red(red),
    }
}

fn of_red(red: Red) -> Option<SpecError> {
    let Red { min, max, .. } = red;
    let rising = match (min, max) {
        (QueueLimit::Bytes(min), QueueLimit::Bytes(max)) => min < max,
        (QueueLimit::Packets(min), QueueLimit::Packets(max)) => min < max,
        (QueueLimit::Bytes(_), QueueLimit::Packets(_))
        | (QueueLimit::Packets(_), QueueLimit::Bytes(_)) => return Some(SpecError::RedUnits),
    };
    if !rising {
        return Some(SpecError::RedThresholds { min, max });
    }
    [red.probability, red.weight]
        .contains(&LossRate::ZERO)
        .then_some(SpecError::RedShares)
}

fn of_loss(loss: &LossSpec) -> Option<SpecError> {
    match loss {
        LossSpec::None | LossSpec::Bernoulli(_) => None,
        LossSpec::GilbertElliott(model) => {
            let stuck = [model.to_bad, model.to_good] == [LossRate::ZERO; 2];
            stuck.then_some(SpecError::StuckChain)
        }
        LossSpec::Every(period) => (*period == 0).then_some(SpecError::LossEveryZero),
        LossSpec::Listed(list) => {
            let unsorted = list.windows(2).position(|pair| pair[0] >= pair[1]);
            unsorted.map(|position| SpecError::LossListNotAscending {
                position: position + 1,
            })
        }
    }
}

fn of_change(change: &Change, number: usize, traced: bool, errors: &mut Vec<SpecError>) {
    let Change {
        at: _,
        lasts,
        every,
        rate,
        one_way_delay,
        loss,
        outage,
    } = change;
    if rate.is_none() && one_way_delay.is_none() && loss.is_none() && outage.is_none() {
        errors.push(SpecError::EmptyChange { number });
    }
    let spans = match (lasts, every) {
        (None, None) => true,
        (None, Some(_)) => false,
        (Some(lasts), None) => *lasts > Duration::ZERO,
        (Some(lasts), Some(every)) => *lasts > Duration::ZERO && lasts < every,
    };
    if !spans {
        errors.push(SpecError::ChangeWithoutSpan { number });
    }
    if traced && rate.is_some() {
        errors.push(SpecError::RateOfTrace { number });
    }
    errors.extend(
        rate.filter(|&rate| is_zero(rate))
            .map(|_| SpecError::ZeroRate),
    );
    errors.extend(loss.as_ref().and_then(of_loss));
}

const fn is_zero(rate: Rate) -> bool {
    rate.bits_per_s() == 0
}

// === impl InvalidPath ===

impl fmt::Display for InvalidPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (position, (direction, error)) in self.errors.iter().enumerate() {
            if position > 0 {
                f.write_str("; ")?;
            }
            write!(f, "{direction}: {error}")?;
        }
        Ok(())
    }
}
