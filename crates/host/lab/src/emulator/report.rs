//! What the emulator says about itself. It is talk for logs and manifests: whether the path was right is
//! measured at the endpoints ([`probe`](crate::probe)) and never taken from here.

use std::io::Write;

use link::{LaneCounters, PathCounters, Tally};
use serde::{Deserialize, Serialize};
use sys::realtime::{Granted, Outcome};

use crate::emulator::EmulatorError;
use crate::emulator::lateness::LatenessHistogram;

/// One line of JSON from the emulator.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(tag = "event", rename_all = "kebab-case")]
pub enum Event {
    /// Packets flow from now on.
    Ready {
        /// What punctuality the system permits.
        realtime: Realtime,
    },
    /// The answer to a command.
    Counters(Counters),
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

/// One direction.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Serialize)]
pub struct DirectionCounters {
    /// Came from the device.
    pub offered: Count,
    /// The queue was full.
    pub dropped: Count,
    /// The seed's losses.
    pub lost: Count,
    /// Written to the other device.
    pub delivered: Count,
    /// Wait for the bottleneck.
    pub queued: Count,
    /// On the wire.
    pub in_flight: Count,
    /// Most bytes that ever waited.
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

impl From<Granted> for Realtime {
    fn from(granted: Granted) -> Self {
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
        }
    }
}

// === impl Counters ===

impl Counters {
    pub(super) fn new(
        path: &PathCounters,
        lateness: &LatenessHistogram,
        unreadable: u64,
        undeliverable: u64,
    ) -> Self {
        Self {
            forward: path.forward.into(),
            backward: path.backward.into(),
            lateness: Lateness {
                p50_s: lateness.quantile(50).as_secs_f64(),
                p99_s: lateness.quantile(99).as_secs_f64(),
                max_s: lateness.worst().as_secs_f64(),
            },
            unreadable,
            undeliverable,
        }
    }
}

// === impl DirectionCounters ===

impl From<LaneCounters> for DirectionCounters {
    fn from(lane: LaneCounters) -> Self {
        Self {
            offered: lane.offered.into(),
            dropped: lane.dropped.into(),
            lost: lane.lost.into(),
            delivered: lane.delivered.into(),
            queued: lane.queued.into(),
            in_flight: lane.in_flight.into(),
            queue_peak: lane.queue_peak.get(),
        }
    }
}

// === impl Count ===

impl From<Tally> for Count {
    fn from(tally: Tally) -> Self {
        Self {
            packets: tally.packets,
            bytes: tally.bytes.get(),
        }
    }
}
