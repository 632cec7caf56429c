//! What the emulator says about itself. Whether the path was right is measured at the endpoints
//! ([`probe`](crate::probe)) and never taken from here; but an emulator that knows that it was late can
//! invalidate what was measured meanwhile ([`Interval::problems`]).

use std::fs::File;
use std::io::{self, Write};
use std::time::Duration;

use link::{LaneCounters, Tally};
use serde::{Deserialize, Serialize};
use sys::realtime::{Granted, Outcome};
use units::{Bytes, format_span};

use crate::emulator::EmulatorError;

/// One line of JSON from the emulator.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(tag = "event", rename_all = "kebab-case")]
pub enum Event {
    /// Packets flow from now on.
    Ready {
        /// What punctuality the system permits.
        realtime: Realtime,
    },
    /// The answer to `counters`: everything since the start.
    Counters(Counters),
    /// The answer to `read`: everything since the last `read`, or since the start.
    Interval(Interval),
    /// One of the samples that `sample` asked for.
    Sample(Sample),
    /// The answer to `quiet`: the path is empty, and nothing has moved on it for as long as was asked.
    Quiet,
    /// The answer to what is no command.
    Refused {
        /// As it came.
        command: String,
    },
    /// The end.
    Stopped(Counters),
}

/// What the system permits; a refusal says what it costs and what would help.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct Realtime {
    /// Whether the emulator comes before every ordinary thread.
    pub granted: bool,
    /// In words.
    pub scheduling: String,
    /// In words.
    pub timer_slack: String,
    /// Whether processors stay awake, in words.
    #[serde(default)]
    pub idle_states: String,
}

/// Packets and bytes in every place they can be.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct Counters {
    /// From near to far.
    pub forward: DirectionCounters,
    /// From far to near.
    pub backward: DirectionCounters,
    /// How late packets were written.
    pub lateness: Lateness,
    /// Packets that came from a device but could not be understood, and are gone.
    pub unreadable: u64,
    /// Packets that a device refused, because it is down or memory is short, and that are gone.
    pub undeliverable: u64,
}

/// What happened between two readings.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct Interval {
    /// Its beginning, in seconds since 1970, as captures have them.
    pub from_unix_s: f64,
    /// Its end.
    pub to_unix_s: f64,
    /// Only of this interval, except what waits and what is on the wire, which is as at its end.
    #[serde(flatten)]
    pub counters: Counters,
}

/// The queues at one moment.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Serialize)]
pub struct Sample {
    /// Seconds since 1970, as captures have them.
    pub at_unix_s: f64,
    /// From near to far.
    pub forward: DirectionSample,
    /// From far to near.
    pub backward: DirectionSample,
}

/// The queue of one direction.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Serialize)]
pub struct DirectionSample {
    /// IP packets that wait for the bottleneck now.
    pub queue_packets: u64,
    /// Their IP bytes.
    pub queue_bytes: u64,
    /// Most bytes that waited since the last sample.
    pub queue_peak_bytes: u64,
    /// Packets that found no room, or were dropped by the queue's management, since the last sample.
    pub dropped_packets: u64,
    /// IP bytes written to the other device since the last sample.
    pub delivered_bytes: u64,
}

/// One direction.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Serialize)]
pub struct DirectionCounters {
    /// Came from the device.
    pub offered: Count,
    /// The policer had no tokens for them.
    pub policed: Count,
    /// The queue was full.
    pub dropped: Count,
    /// The queue's management dropped them before it was full.
    pub managed: Count,
    /// Left the bottleneck during an outage that lets nothing through.
    pub outage: Count,
    /// Copies: the only packets that were written without having come.
    pub duplicated: Count,
    /// The seed's losses.
    pub lost: Count,
    /// Written to the other device.
    pub delivered: Count,
    /// Marked by the queue's management (ECN).
    pub marked: Count,
    /// Of the delivered ones, those that were damaged.
    pub corrupted: Count,
    /// Of the delivered ones, those that were taken out of their order.
    pub reordered: Count,
    /// Wait for the bottleneck.
    pub queued: Count,
    /// On the wire.
    pub in_flight: Count,
    /// Most bytes that ever waited, or that waited at any time of the interval.
    pub queue_peak: u64,
}

/// IP packets and their bytes.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Serialize)]
pub struct Count {
    /// Packets.
    pub packets: u64,
    /// IP bytes.
    pub bytes: u64,
}

/// Seconds between a packet's due time and its writing.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Serialize)]
pub struct Lateness {
    /// Packets and superpackets that were written.
    pub writes: u64,
    /// Half of the packets were at most this late.
    pub p50_s: f64,
    /// 99 of 100.
    pub p99_s: f64,
    /// All of them.
    pub max_s: f64,
}

pub(super) fn write(reports: &mut impl Write, event: &Event) -> Result<(), EmulatorError> {
    let mut write = || {
        serde_json::to_writer(&mut *reports, event)?;
        reports.write_all(b"\n")?;
        reports.flush()
    };
    write().map_err(|source| EmulatorError::Report { source })
}

// === impl Realtime ===

impl Realtime {
    pub(super) fn new(granted: &Granted, awake: Option<&io::Result<File>>) -> Self {
        let scheduling = match &granted.scheduling {
            Outcome::Refused { why } => format!(
                "{why}; without it, packets wait behind other threads: expect some tenths of a \
                 millisecond more per round trip on an idle machine, and milliseconds on a busy one"
            ),
            other @ (Outcome::Granted | Outcome::NotAsked) => other.to_string(),
        };
        Self {
            granted: granted.is_realtime(),
            scheduling,
            timer_slack: granted.timer_slack.to_string(),
            idle_states: match awake {
                Some(Ok(_)) => "kept awake".to_owned(),
                Some(Err(error)) => format!(
                    "processors may sleep ({error}): expect some tenths of a millisecond more per round trip \
                     on an idle machine"
                ),
                None => "not asked for".to_owned(),
            },
        }
    }
}

// === impl Interval ===

/// Share of the round trip by which one packet of a hundred may be late.
const LATENESS_SHARE: f64 = 0.02;

impl Interval {
    /// What the link promises up to 100 Mbit/s on a machine that has nothing else to do.
    pub const PUNCTUAL: Duration = Duration::from_micros(300);

    /// Why nothing that was measured in this interval counts on a path with this round-trip time, in words;
    /// empty where the link did its work. One packet of a hundred may be 2 % of the round trip late, or
    /// `grain` where that is more, such as [`PUNCTUAL`](Self::PUNCTUAL).
    #[must_use]
    pub fn problems(&self, rtt: Duration, grain: Duration) -> Vec<String> {
        let mut problems = Vec::new();
        let allowed = rtt.mul_f64(LATENESS_SHARE).max(grain);
        let p99 = Duration::try_from_secs_f64(self.counters.lateness.p99_s).unwrap_or_default();
        if p99 > allowed {
            problems.push(format!(
                "the link delivered one packet in a hundred later than {}, allowed are {}: the machine is \
                 too busy for this path",
                format_span(p99),
                format_span(allowed),
            ));
        }
        let gone = self.counters.unreadable + self.counters.undeliverable;
        if gone > 0 {
            problems.push(format!("{gone} packets were lost by the link itself"));
        }
        problems
    }
}

// === impl DirectionCounters ===

impl From<LaneCounters> for DirectionCounters {
    fn from(lane: LaneCounters) -> Self {
        Self {
            offered: lane.offered.into(),
            policed: lane.policed.into(),
            dropped: lane.dropped.into(),
            managed: lane.managed.into(),
            outage: lane.outage.into(),
            duplicated: lane.duplicated.into(),
            lost: lane.lost.into(),
            delivered: lane.delivered.into(),
            marked: lane.marked.into(),
            corrupted: lane.corrupted.into(),
            reordered: lane.reordered.into(),
            queued: lane.queued.into(),
            in_flight: lane.in_flight.into(),
            queue_peak: lane.queue_peak.get(),
        }
    }
}

impl DirectionCounters {
    /// What happened between two moments, with the longest queue meanwhile.
    pub(super) fn since(old: &LaneCounters, new: &LaneCounters, peak: Bytes) -> Self {
        Self {
            offered: Count::since(old.offered, new.offered),
            policed: Count::since(old.policed, new.policed),
            dropped: Count::since(old.dropped, new.dropped),
            managed: Count::since(old.managed, new.managed),
            outage: Count::since(old.outage, new.outage),
            duplicated: Count::since(old.duplicated, new.duplicated),
            lost: Count::since(old.lost, new.lost),
            delivered: Count::since(old.delivered, new.delivered),
            marked: Count::since(old.marked, new.marked),
            corrupted: Count::since(old.corrupted, new.corrupted),
            reordered: Count::since(old.reordered, new.reordered),
            queue_peak: peak.get(),
            ..Self::from(*new)
        }
    }
}

// === impl Count ===

impl Count {
    const fn since(old: Tally, new: Tally) -> Self {
        Self {
            packets: new.packets - old.packets,
            bytes: new.bytes.get() - old.bytes.get(),
        }
    }
}

impl From<Tally> for Count {
    fn from(tally: Tally) -> Self {
        Self {
            packets: tally.packets,
            bytes: tally.bytes.get(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn interval(p99_s: f64, undeliverable: u64) -> Interval {
        let direction = DirectionCounters::from(LaneCounters::default());
        Interval {
            from_unix_s: 0.0,
            to_unix_s: 1.0,
            counters: Counters {
                forward: direction,
                backward: direction,
                lateness: Lateness {
                    writes: 100,
                    p50_s: 0.0,
                    p99_s,
                    max_s: p99_s,
                },
                unreadable: 0,
                undeliverable,
            },
        }
    }

    #[test]
    fn a_link_that_was_late_for_its_path_spoils_what_was_measured() {
        let (short, long) = (Duration::from_millis(1), Duration::from_millis(70));
        let grain = Interval::PUNCTUAL;
        assert_eq!(
            interval(0.000_299, 0).problems(short, grain),
            Vec::<String>::new()
        );
        assert_eq!(
            interval(0.001_3, 0).problems(long, grain),
            Vec::<String>::new()
        );
        assert_eq!(
            interval(0.001_5, 3).problems(long, grain),
            [
                "the link delivered one packet in a hundred later than 1.5 ms, allowed are 1.4 ms: the \
                 machine is too busy for this path",
                "3 packets were lost by the link itself",
            ]
        );
        assert_eq!(interval(0.000_301, 0).problems(short, grain).len(), 1);
    }

    #[test]
    fn events_are_flat_lines_of_json() {
        let line = serde_json::to_value(Event::Interval(interval(0.001, 0))).unwrap();
        assert_eq!(line["event"], "interval");
        assert_eq!(line["lateness"]["writes"], 100);
        assert_eq!(line["forward"]["delivered"]["bytes"], 0);
    }
}
