use std::fmt;
use std::ops::RangeInclusive;
use std::time::Duration;

use link::{Direction, DirectionSpec, Discipline, LossSpec, PathSpec};
use units::{LossRate, Rate, format_span};

use crate::probe::train::Basis;

/// Share by which a round-trip time may be off: 2 %.
pub const RTT_TOLERANCE: f64 = 0.02;
/// Share by which a rate may be off: 1 %.
pub const RATE_TOLERANCE: f64 = 0.01;
/// What the emulator's own work may add to a round trip, however short it is.
const RTT_GRAIN: Duration = Duration::from_micros(200);

/// A path as asked for and as its ends saw it.
#[derive(Clone, Debug, PartialEq)]
pub struct PathReading {
    /// As asked.
    pub rtt_asked: Duration,
    /// What jitter and the schedule may make of it.
    rtt_range: RangeInclusive<Duration>,
    /// Each echo's round trip, less the serialisation of the echo at the asked rate; in order of arrival.
    pub rtt_samples: Vec<Duration>,
    /// From near to far.
    pub forward: DirectionReading,
    /// From far to near.
    pub backward: DirectionReading,
    /// How long the measurement took.
    pub took: Duration,
}

/// One direction.
#[derive(Clone, Debug, PartialEq)]
pub struct DirectionReading {
    /// As asked.
    pub rate_asked: Option<Rate>,
    /// As the receiver saw it, in IP bytes.
    pub rate: Result<Rate, Unmeasured>,
    /// Packets that the probe sent in this direction.
    pub sent: u64,
    /// Those that did not arrive, by their number among the packets that the probe sent in this direction,
    /// from 0. On a path that carried nothing before, these are the model's indices.
    pub lost: Vec<u64>,
    /// Whether the path is asked to lose any.
    lossy: bool,
    /// What the path is asked for and no probe looks at.
    unchecked: Vec<&'static str>,
}

/// Why there is no rate.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Unmeasured {
    /// Only the round trip was asked for.
    NotTried,
    /// The path is asked to have no bottleneck, or none whose rate holds at any moment and shows in a short
    /// train: a trace, a schedule, a policer with a bucket of more than a second, close to another rate, or
    /// before losses that are too many to tell from it.
    NoRateAsked,
    /// The sender did not keep the bottleneck busy: the machine is too slow, or was too busy.
    SenderTooSlow,
    /// Too little of the train arrived.
    TooFewArrived,
}

// === impl PathReading ===

impl PathReading {
    pub(crate) fn new(path: &PathSpec) -> Self {
        let direction = |direction| {
            let spec = path.direction(direction);
            DirectionReading {
                rate_asked: Basis::of(spec).map(|basis| basis.rate),
                rate: Err(Unmeasured::NotTried),
                sent: 0,
                lost: Vec::new(),
                lossy: spec.is_lossy(),
                unchecked: unchecked(spec),
            }
        };
        Self {
            rtt_asked: path.rtt(),
            rtt_range: path.rtt_range(),
            rtt_samples: Vec::new(),
            forward: direction(Direction::Forward),
            backward: direction(Direction::Backward),
            took: Duration::ZERO,
        }
    }

    /// The median round trip; `None` when no echo came back.
    #[must_use]
    pub fn rtt(&self) -> Option<Duration> {
        let mut samples = self.rtt_samples.clone();
        samples.sort_unstable();
        samples.get(samples.len() / 2).copied()
    }

    /// One direction.
    #[must_use]
    pub const fn direction(&self, direction: Direction) -> &DirectionReading {
        match direction {
            Direction::Forward => &self.forward,
            Direction::Backward => &self.backward,
        }
    }

    pub(super) const fn direction_mut(&mut self, direction: Direction) -> &mut DirectionReading {
        match direction {
            Direction::Forward => &mut self.forward,
            Direction::Backward => &mut self.backward,
        }
    }

    /// Everything in which the path is not what was asked for, in words; empty for a valid path.
    #[must_use]
    pub fn problems(&self) -> Vec<String> {
        let mut problems = Vec::new();
        problems.extend(self.rtt_problem());
        for direction in Direction::BOTH {
            let reading = self.direction(direction);
            let found = [reading.rate_problem(), reading.loss_problem()];
            problems.extend(
                found
                    .into_iter()
                    .flatten()
                    .map(|what| format!("{direction}: {what}")),
            );
        }
        problems
    }

    /// What was asked for and not looked at, in words: valid means valid but for this.
    #[must_use]
    pub fn unchecked(&self) -> Vec<String> {
        let mut unchecked = Vec::new();
        for direction in Direction::BOTH {
            let reading = self.direction(direction);
            if let Err(why) = reading.rate {
                unchecked.push(format!("{direction}: the rate ({why})"));
            }
            let others = reading.unchecked.iter();
            unchecked.extend(others.map(|what| format!("{direction}: {what}")));
        }
        unchecked
    }

    /// Whether the path is what was asked for.
    #[must_use]
    pub fn is_valid(&self) -> bool {
        self.problems().is_empty()
    }

    fn rtt_problem(&self) -> Option<String> {
        let asked = format_span(self.rtt_asked);
        let Some(rtt) = self.rtt() else {
            return Some(format!(
                "no echo came back, with an RTT of {asked} asked for"
            ));
        };
        let allowed = self.rtt_asked.mul_f64(RTT_TOLERANCE).max(RTT_GRAIN);
        let (least, most) = (*self.rtt_range.start(), *self.rtt_range.end());
        let asked = if least == most {
            asked
        } else {
            format!("{} to {}", format_span(least), format_span(most))
        };
        // Nothing makes a packet faster than its path, so of jitter and delays that change the fastest
        // echo is judged as well.
        let fastest = self.rtt_samples.iter().min().copied().unwrap_or(rtt);
        if fastest < least.saturating_sub(allowed) {
            return Some(format!(
                "an echo came back after {}, earlier than the {asked} asked for allow",
                format_span(fastest)
            ));
        }
        (rtt > most + allowed).then(|| {
            format!(
                "the RTT is {}, not {asked} within {}",
                format_span(rtt),
                format_span(allowed)
            )
        })
    }
}

// === impl DirectionReading ===

impl DirectionReading {
    fn rate_problem(&self) -> Option<String> {
        let asked = self.rate_asked?;
        match self.rate {
            Ok(rate) => {
                let off = relative_difference(rate, asked);
                (off.abs() > RATE_TOLERANCE)
                    .then(|| format!("the rate is {rate}, {:+.1} % off {asked}", off * 100.0))
            }
            Err(why @ (Unmeasured::TooFewArrived | Unmeasured::SenderTooSlow)) => {
                Some(format!("the rate could not be measured: {why}"))
            }
            Err(Unmeasured::NotTried | Unmeasured::NoRateAsked) => None,
        }
    }

    fn loss_problem(&self) -> Option<String> {
        (!self.lossy && !self.lost.is_empty()).then(|| {
            format!(
                "{} of {} packets did not arrive",
                self.lost.len(),
                self.sent
            )
        })
    }
}

fn unchecked(spec: &DirectionSpec) -> Vec<&'static str> {
    let asked = [
        (
            spec.rate.is_some() || spec.trace.is_some(),
            "the queue's size",
        ),
        (
            spec.discipline != Discipline::DropTail,
            "the queue's management",
        ),
        (spec.trace.is_some(), "the trace"),
        (spec.jitter.is_some(), "the distribution of the jitter"),
        (spec.reorder.is_some(), "the share of reordered packets"),
        (spec.duplicate != LossRate::ZERO, "the share of copies"),
        (
            spec.corrupt != LossRate::ZERO,
            "the share of damaged packets",
        ),
        (spec.loss != LossSpec::None, "the share of lost packets"),
        (!spec.schedule.is_empty(), "the schedule"),
    ];
    let asked = asked.into_iter().filter(|(asked, _)| *asked);
    asked.map(|(_, what)| what).collect()
}

/// `rate / asked - 1`.
#[expect(clippy::cast_precision_loss, reason = "rates are far below 2^53")]
fn relative_difference(rate: Rate, asked: Rate) -> f64 {
    rate.bits_per_s() as f64 / (asked.bits_per_s() as f64).max(1.0) - 1.0
}

// === impl Unmeasured ===

impl fmt::Display for Unmeasured {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NotTried => "only the round-trip time was asked for",
            Self::NoRateAsked => "the path is asked to have no rate that a short train could show",
            Self::SenderTooSlow => "this machine could not send as fast as the path is asked to be",
            Self::TooFewArrived => "too few packets of the train arrived",
        })
    }
}

#[cfg(test)]
mod tests {
    use link::{Distribution, Jitter};
    use units::Bytes;

    use super::*;

    fn reading(rtt_ms: u64, rate: Result<Rate, Unmeasured>, lost: &[u64]) -> PathReading {
        let rtt = Duration::from_millis(200);
        let asked = Some(Rate::mbit_per_s(100));
        let path = PathSpec::symmetric(rtt, asked, Bytes::kib(256), LossSpec::None, 0);
        let mut reading = PathReading::new(&path);
        reading.rtt_samples = vec![Duration::from_millis(rtt_ms)];
        reading.forward.rate = rate;
        reading.forward.sent = 800;
        reading.forward.lost = lost.to_vec();
        reading
    }

    #[test]
    fn a_path_as_asked_is_valid() {
        let right = reading(203, Ok(Rate::kbit_per_s(99_100)), &[]);
        assert_eq!(right.problems(), Vec::<String>::new());
    }

    #[test]
    fn each_deviation_is_said_in_words() {
        let wrong = reading(205, Ok(Rate::kbit_per_s(98_900)), &[3, 4]);
        assert_eq!(
            wrong.problems(),
            [
                "the RTT is 205 ms, not 200 ms within 4 ms",
                "forward: the rate is 98.9 Mbit/s, -1.1 % off 100 Mbit/s",
                "forward: 2 of 800 packets did not arrive",
            ]
        );
    }

    #[test]
    fn silence_is_a_problem_and_not_a_zero() {
        let mut silent = reading(200, Err(Unmeasured::TooFewArrived), &[]);
        silent.rtt_samples.clear();
        assert_eq!(silent.rtt(), None);
        assert_eq!(silent.problems().len(), 2);
    }

    #[test]
    fn what_no_probe_looks_at_is_said() {
        let mut right = reading(200, Ok(Rate::mbit_per_s(100)), &[]);
        right.backward.rate = Ok(Rate::mbit_per_s(100));
        assert_eq!(
            right.unchecked(),
            ["forward: the queue's size", "backward: the queue's size"]
        );
        right.forward.rate = Err(Unmeasured::NotTried);
        assert_eq!(
            right.unchecked()[0],
            "forward: the rate (only the round-trip time was asked for)"
        );
    }

    #[test]
    fn jitter_makes_echoes_late_and_never_early() {
        let rtt = Duration::from_millis(200);
        let mut path = PathSpec::symmetric(rtt, None, Bytes::ZERO, LossSpec::None, 0);
        path.forward.jitter = Some(Jitter {
            distribution: Distribution::Uniform {
                most: Duration::from_millis(20),
            },
            correlation: LossRate::ZERO,
        });
        let mut reading = PathReading::new(&path);
        let echoes = |times: [u64; 3]| times.map(Duration::from_millis).to_vec();
        reading.rtt_samples = echoes([201, 209, 219]);
        assert_eq!(reading.problems(), Vec::<String>::new());
        reading.rtt_samples = echoes([195, 209, 219]);
        assert!(reading.problems()[0].starts_with("an echo came back after 195 ms"));
        reading.rtt_samples = echoes([209, 229, 231]);
        assert!(reading.problems()[0].starts_with("the RTT is 229 ms"));
    }
}
