mod settings;
#[cfg(test)]
mod tests;

use std::fmt;

use link::{
    Change, Direction, DirectionSpec, Discipline, LossSpec, Order, PathSpec, Reorder, Shift,
    SpecError,
};
use serde::Deserialize;
use units::{Bytes, LossRate, PacketOverhead, Rate, Span};

use crate::workload::Flow;

pub use settings::{
    CoDelSetting, DisciplineSetting, JitterSetting, LossSetting, OrderSetting, OutageSetting,
    PolicerSetting, QueueSize, RedSetting, ReorderSetting, TraceFile,
};

/// The path between site and origin. Without more said both directions are alike, each with its own
/// queue, the delay split in halves; `[path.forward]` (client to origin) and `[path.backward]` set single
/// fields of one direction, and `[[path.schedule]]` changes some over time. `docs/link.md` says what each
/// stage does.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Path {
    /// What hosts speak across it and on their LANs.
    #[serde(default)]
    pub ip: IpVersion,
    /// Round-trip time of a small packet on the idle path, its serialisation and jitter not counted.
    pub rtt: Span,
    /// The bottleneck's rate in IP bytes. Wanted in each direction, unless a trace or a policer says it.
    pub rate: Option<Rate>,
    /// The bottleneck's rate by the millisecond, from a file in Mahimahi's format.
    pub trace: Option<TraceFile>,
    /// What may wait for the bottleneck; wanted where there is a rate or a trace.
    pub queue: Option<QueueSize>,
    /// How the queue is managed; droptail where absent.
    pub discipline: Option<DisciplineSetting>,
    /// A token bucket before the queue.
    pub policer: Option<PolicerSetting>,
    /// Delay that differs from packet to packet.
    pub jitter: Option<JitterSetting>,
    /// Whether jitter lets packets overtake each other; it does not where absent.
    pub order: Option<OrderSetting>,
    /// Packets taken out of their order.
    pub reorder: Option<ReorderSetting>,
    /// Share of packets that arrive twice.
    pub duplicate: Option<LossRate>,
    /// Share of packets that are damaged on the way.
    pub corrupt: Option<LossRate>,
    /// Loss in each direction.
    pub loss: Option<LossSetting>,
    /// What is different from client to origin.
    #[serde(default)]
    pub forward: Way,
    /// What is different from origin to client.
    #[serde(default)]
    pub backward: Way,
    /// What changes over time.
    #[serde(default)]
    pub schedule: Vec<Scheduled>,
}

/// One direction: what is set here replaces the path's own.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Way {
    /// As [`Path::rate`].
    pub rate: Option<Rate>,
    /// As [`Path::trace`].
    pub trace: Option<TraceFile>,
    /// As [`Path::queue`].
    pub queue: Option<QueueSize>,
    /// As [`Path::discipline`].
    pub discipline: Option<DisciplineSetting>,
    /// As [`Path::policer`].
    pub policer: Option<PolicerSetting>,
    /// As [`Path::jitter`].
    pub jitter: Option<JitterSetting>,
    /// As [`Path::order`].
    pub order: Option<OrderSetting>,
    /// As [`Path::reorder`].
    pub reorder: Option<ReorderSetting>,
    /// As [`Path::duplicate`].
    pub duplicate: Option<LossRate>,
    /// As [`Path::corrupt`].
    pub corrupt: Option<LossRate>,
    /// As [`Path::loss`].
    pub loss: Option<LossSetting>,
}

/// A change that takes effect at a moment, and ends again or comes back if wanted.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Scheduled {
    /// When, counted from the start of the path.
    pub at: Span,
    /// How long; for good where absent.
    #[serde(rename = "for")]
    pub lasts: Option<Span>,
    /// After how long it comes back.
    pub every: Option<Span>,
    /// Which way; both where absent.
    pub direction: Option<WayName>,
    /// The bottleneck's rate.
    pub rate: Option<Rate>,
    /// The round-trip time, of which each direction concerned gets its half: a handover.
    pub rtt: Option<Span>,
    /// Loss.
    pub loss: Option<LossSetting>,
    /// Nothing passes.
    pub outage: Option<OutageSetting>,
}

/// A version of the Internet Protocol, whose header every packet carries.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq)]
#[serde(rename_all = "kebab-case")]
pub enum IpVersion {
    /// IPv4: 20 bytes (RFC 791 section 3.1).
    #[default]
    V4,
    /// IPv6: 40 bytes (RFC 8200 section 3).
    V6,
}

/// A direction, as scenario files write it.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq)]
#[serde(rename_all = "kebab-case")]
pub enum WayName {
    /// From client to origin.
    Forward,
    /// From origin to client.
    Backward,
}

/// The least rate: below it a full packet takes more than a second.
const LEAST_RATE: Rate = Rate::kbit_per_s(10);

// === impl IpVersion ===

impl IpVersion {
    /// Bytes of its header, without options or extensions.
    #[must_use]
    pub const fn header_bytes(self) -> u32 {
        match self {
            Self::V4 => 20,
            Self::V6 => 40,
        }
    }

    /// What a full TCP segment with timestamps holds on an MTU of 1500 bytes.
    #[must_use]
    pub const fn full_packet(self) -> PacketOverhead {
        match self {
            Self::V4 => PacketOverhead::IPV4_TIMESTAMPS,
            Self::V6 => PacketOverhead::IPV6_TIMESTAMPS,
        }
    }
}

// === impl Path ===

impl Path {
    /// The model's settings for it.
    ///
    /// A trace that has not been read ([`traces_mut`](Self::traces_mut)) gives a path that the model
    /// refuses, because nothing else would be the path that was asked for.
    #[must_use]
    pub fn spec(&self, seed: u64) -> PathSpec {
        PathSpec {
            forward: self.direction(Direction::Forward),
            backward: self.direction(Direction::Backward),
            seed,
        }
    }

    /// The rate that a long transfer from client to origin cannot exceed: the smaller one of rate (the
    /// highest that a schedule sets) and policer, or a trace's mean. Nothing limits it as long as the
    /// trace has not been read.
    #[must_use]
    pub fn bottleneck_rate(&self) -> Rate {
        self.bottleneck_rate_of(Flow::Up)
    }

    /// The same for payload that flows in this direction; both ways, the smaller one of both.
    #[must_use]
    pub fn bottleneck_rate_of(&self, flow: Flow) -> Rate {
        let rate = |direction| {
            let rate = self.direction(direction).bottleneck_rate();
            rate.filter(|rate| rate.bits_per_s() > 0)
                .unwrap_or(Rate::bit_per_s(u64::MAX))
        };
        match flow {
            Flow::Up => rate(Direction::Forward),
            Flow::Down => rate(Direction::Backward),
            Flow::Both => rate(Direction::Forward).min(rate(Direction::Backward)),
        }
    }

    /// The traces that it names, to be read by the caller, who knows the folder of the file.
    pub fn traces_mut(&mut self) -> impl Iterator<Item = &mut TraceFile> {
        [
            &mut self.trace,
            &mut self.forward.trace,
            &mut self.backward.trace,
        ]
        .into_iter()
        .flatten()
    }

    /// What is wrong with it: fields, as paths in the file, and what to do.
    pub(crate) fn problems(&self) -> Vec<(String, String)> {
        let found = Direction::BOTH.map(|direction| self.problems_of(direction));
        let [forward, backward] = &found;
        let mut problems = Vec::new();
        for problem in forward {
            let way = if backward.contains(problem) {
                "path"
            } else {
                "path.forward"
            };
            problems.push((format!("{way}.{}", problem.0), problem.1.clone()));
        }
        for problem in backward.iter().filter(|problem| !forward.contains(problem)) {
            problems.push((format!("path.backward.{}", problem.0), problem.1.clone()));
        }
        problems
    }

    fn problems_of(&self, direction: Direction) -> Vec<(String, String)> {
        let way = self.way(direction);
        let mut problems = Vec::new();
        if way.rate.is_none() && way.trace.is_none() && way.policer.is_none() {
            let message = "say how fast it is: set `rate`, `trace` or `policer`";
            problems.push(("rate".to_owned(), message.to_owned()));
        }
        if let Some(rate) = way.rate.filter(|&rate| rate < LEAST_RATE) {
            let message = format!("{rate} is below the least rate of 10 kbit/s");
            problems.push(("rate".to_owned(), message));
        }
        if way.queue.is_none() && (way.rate.is_some() || way.trace.is_some()) {
            let message = "say how much may wait for the bottleneck, such as `\"1 BDP\"`";
            problems.push(("queue".to_owned(), message.to_owned()));
        }
        let path = PathSpec {
            forward: self.direction(direction),
            backward: DirectionSpec::default(),
            seed: 0,
        };
        let errors = path
            .validate()
            .err()
            .map_or_else(Vec::new, |invalid| invalid.errors);
        for (_, error) in errors {
            problems.extend(problem_of(&way, error));
        }
        problems
    }

    fn direction(&self, direction: Direction) -> DirectionSpec {
        let way = self.way(direction);
        let trace = way.trace.as_ref();
        let content = trace.and_then(TraceFile::content).cloned();
        // An unread trace is no path without a bottleneck.
        let unread = (trace.is_some() && content.is_none()).then_some(Rate::bit_per_s(0));
        let mut spec = DirectionSpec {
            policer: way.policer.map(Into::into),
            rate: way.rate.or(unread),
            trace: content,
            one_way_delay: half(self.rtt, direction),
            jitter: way.jitter.map(Into::into),
            order: way.order.map_or(Order::Kept, Into::into),
            reorder: way.reorder.map(|reorder| Reorder {
                share: reorder.share,
                shift: match reorder.shift {
                    settings::ShiftSetting::Late(by) => Shift::Late(by.get()),
                    settings::ShiftSetting::Early(by) => Shift::Early(by.get()),
                },
            }),
            duplicate: way.duplicate.unwrap_or_default(),
            corrupt: way.corrupt.unwrap_or_default(),
            loss: way.loss.map_or(LossSpec::None, Into::into),
            schedule: self.changes(direction),
            ..DirectionSpec::default()
        };
        let product = spec
            .line_rate()
            .and_then(|rate| rate.checked_mul(self.rtt.get()));
        let size = way.queue.unwrap_or(QueueSize::Bytes(Bytes::ZERO));
        spec.queue = size.limit(product.unwrap_or_default());
        spec.discipline = way.discipline.map_or(Discipline::DropTail, |discipline| {
            discipline.of_queue(spec.queue, product.unwrap_or_default())
        });
        spec
    }

    fn changes(&self, direction: Direction) -> Vec<Change> {
        let changes = self.schedule.iter().map(|scheduled| {
            let concerned = match scheduled.direction {
                None => true,
                Some(WayName::Forward) => direction == Direction::Forward,
                Some(WayName::Backward) => direction == Direction::Backward,
            };
            let change = Change {
                at: scheduled.at.get(),
                lasts: scheduled.lasts.map(Span::get),
                every: scheduled.every.map(Span::get),
                rate: scheduled.rate,
                one_way_delay: scheduled.rtt.map(|rtt| half(rtt, direction)),
                loss: scheduled.loss.clone().map(Into::into),
                outage: scheduled.outage.map(Into::into),
            };
            (concerned, change)
        });
        changes
            .filter_map(|(concerned, change)| concerned.then_some(change))
            .collect()
    }

    /// The path's fields with those of the direction over them. A trace replaces the path's rate, and a
    /// rate its trace.
    fn way(&self, direction: Direction) -> Way {
        let own = match direction {
            Direction::Forward => &self.forward,
            Direction::Backward => &self.backward,
        };
        Way {
            rate: own
                .rate
                .or_else(|| self.rate.filter(|_| own.trace.is_none())),
            trace: own
                .trace
                .clone()
                .or_else(|| self.trace.clone().filter(|_| own.rate.is_none())),
            queue: own.queue.or(self.queue),
            discipline: own.discipline.or(self.discipline),
            policer: own.policer.or(self.policer),
            jitter: own.jitter.or(self.jitter),
            order: own.order.or(self.order),
            reorder: own.reorder.or(self.reorder),
            duplicate: own.duplicate.or(self.duplicate),
            corrupt: own.corrupt.or(self.corrupt),
            loss: own.loss.clone().or_else(|| self.loss.clone()),
        }
    }
}

/// Half of a round trip; an odd nanosecond goes back, so that both halves sum to it.
fn half(rtt: Span, direction: Direction) -> std::time::Duration {
    let forward = rtt.get() / 2;
    match direction {
        Direction::Forward => forward,
        Direction::Backward => rtt.get().saturating_sub(forward),
    }
}

/// An error of the model in the words of the file; `None` where the file's own check has said it.
fn problem_of(way: &Way, error: SpecError) -> Option<(String, String)> {
    let field = match error {
        SpecError::ZeroRate => return None,
        SpecError::QueueBelowOnePacket { .. } => {
            let queue = way.queue?;
            let message = format!("{queue} does not hold one packet of 1500 B");
            return Some(("queue".to_owned(), message));
        }
        SpecError::RateAndTrace => "trace".to_owned(),
        SpecError::ZeroPolicerRate => "policer.rate".to_owned(),
        SpecError::BurstBelowOnePacket { .. } => "policer.burst".to_owned(),
        SpecError::CoDelTarget
        | SpecError::RedUnits
        | SpecError::RedThresholds { .. }
        | SpecError::RedShares => "discipline".to_owned(),
        SpecError::DelayTooLong => "rtt".to_owned(),
        SpecError::FullCorrelation => "jitter.correlation".to_owned(),
        SpecError::LossListNotAscending { .. }
        | SpecError::LossEveryZero
        | SpecError::StuckChain => "loss".to_owned(),
        SpecError::EmptyChange { number }
        | SpecError::ChangeWithoutSpan { number }
        | SpecError::RateOfTrace { number } => format!("schedule[{number}]"),
    };
    Some((field, error.to_string()))
}

impl fmt::Display for Path {
    /// In a line, for people: what it is from client to origin, and that there is more.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let way = self.way(Direction::Forward);
        write!(f, "{} round trip", self.rtt)?;
        if let Some(rate) = way.rate {
            write!(f, ", {rate}")?;
        }
        if let Some(trace) = &way.trace {
            write!(f, ", trace `{}`", trace.name())?;
        }
        if let Some(queue) = way.queue {
            write!(f, ", queue {queue}")?;
        }
        if let Some(policer) = way.policer {
            write!(
                f,
                ", policed at {} with bursts of {}",
                policer.rate, policer.burst
            )?;
        }
        let loss = way.loss.unwrap_or_default();
        write!(f, ", loss {loss} each way")?;
        if !self.schedule.is_empty() {
            write!(f, ", changing over time")?;
        }
        Ok(())
    }
}
