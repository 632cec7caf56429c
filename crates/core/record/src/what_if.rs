//! What `longhaul simulate --what-if --json` prints.

use std::collections::BTreeMap;
use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::lab::Measure;
use crate::{LimitSeconds, Manifest};

/// The version of this document.
pub const VERSION: u32 = 1;

/// The whole document.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
pub struct Document {
    /// Always `longhaul.what-if`.
    pub schema: String,
    /// [`VERSION`] of the program that wrote it.
    pub version: u32,
    /// Where the result comes from.
    pub manifest: Manifest,
    /// The scenario's name.
    pub scenario: String,
    /// The seed of everything random in it.
    pub seed: u64,
    /// The arm from which every remedy departs.
    pub arm: String,
    /// One cell per workload and combination of factors.
    pub cells: Vec<Cell>,
}

/// One workload under one combination of factors.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
pub struct Cell {
    /// The workload's name.
    pub workload: String,
    /// Payload bytes per transfer; 0 where a transfer lasts for a time instead.
    pub bytes: u64,
    /// Whether remedies are compared by the time of a transfer or by its rate.
    pub measure: Measure,
    /// Factors and their values; empty without a sweep.
    pub factors: BTreeMap<String, String>,
    /// Round-trip time of the path.
    pub rtt_s: f64,
    /// Rate of the path in the payload's direction, in bits per second of IP bytes.
    pub rate_bps: f64,
    /// The time below which no design can come; 0 where transfers last for a time.
    pub floor_s: f64,
    /// How the floor was computed.
    pub floor_derivation: String,
    /// Payload bits per second above which no design can come.
    pub ceiling_bps: Option<f64>,
    /// The arm as it is.
    pub today: Outcome,
    /// Every remedy that was tried, alone: the one that saves most first, what failed last.
    pub remedies: Vec<Remedy>,
    /// Remedies that were not tried.
    pub not_tried: Vec<NotTried>,
}

/// How transfers went.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
pub struct Outcome {
    /// Transfers simulated.
    pub n: u64,
    /// Why there is no result, where there is none.
    pub failure: Option<String>,
    /// Median seconds.
    pub median_s: Option<f64>,
    /// 5th percentile.
    pub p05_s: Option<f64>,
    /// 95th percentile.
    pub p95_s: Option<f64>,
    /// Median by position within a block of consecutive transfers, first to last.
    pub by_position_s: Vec<f64>,
    /// Median of payload bits per second.
    pub goodput_bps: Option<f64>,
    /// `floor_s / median_s`, or `goodput_bps / ceiling_bps` where rates are compared.
    pub share_of_floor: Option<f64>,
    /// Segments sent again per transfer, by all hosts.
    pub retransmissions: Option<f64>,
    /// Mean seconds per limit and transfer, at the first connection of the host where the payload starts.
    pub limits: LimitSeconds,
}

/// One remedy, alone.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
pub struct Remedy {
    /// Its kind.
    pub name: RemedyName,
    /// What exactly is different from today, for people: `client: initial cwnd of 32 segments`.
    pub change: String,
    /// Whether it is worth anything.
    pub verdict: Verdict,
    /// Seconds saved per transfer against today; less than zero where it costs.
    pub saved_s: Option<f64>,
    /// Its median over today's, by the cell's measure.
    pub ratio: Option<f64>,
    /// How transfers went with it.
    pub outcome: Outcome,
}

/// A remedy that was not tried.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
pub struct NotTried {
    /// Its kind.
    pub name: RemedyName,
    /// Why not.
    pub why: String,
}

/// Kinds of remedies. Names never change meaning.
#[derive(
    Clone, Copy, Debug, Deserialize, Eq, JsonSchema, Ord, PartialEq, PartialOrd, Serialize,
)]
#[serde(rename_all = "kebab-case")]
pub enum RemedyName {
    /// A receive window that holds the path's product from the first byte on.
    ReceiveWindow,
    /// A send buffer that does.
    SendBuffer,
    /// More segments in the first flight.
    InitialCwnd,
    /// Another initial slow-start threshold.
    InitialSsthresh,
    /// Another congestion control.
    Algorithm,
    /// Connections that stay open from transfer to transfer.
    ConnectionReuse,
    /// More connections at once for the same payload.
    Parallel,
    /// A relay beside the client, without knowledge of the traffic.
    RelayNear,
    /// A relay beside the client that keeps primed connections to the origin (HTTP).
    HotPool,
    /// A relay beside the origin.
    RelayFar,
    /// One relay at each end of the path.
    RelayPair,
}

/// What a remedy is worth.
#[derive(Clone, Copy, Debug, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// At least 2 % better than today.
    Helps,
    /// Within 2 % of today.
    NoDifference,
    /// At least 2 % worse.
    Harms,
    /// Its transfers failed, or today's did.
    Unknown,
}

// === impl RemedyName ===

impl RemedyName {
    /// The name as documents carry it.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::ReceiveWindow => "receive-window",
            Self::SendBuffer => "send-buffer",
            Self::InitialCwnd => "initial-cwnd",
            Self::InitialSsthresh => "initial-ssthresh",
            Self::Algorithm => "algorithm",
            Self::ConnectionReuse => "connection-reuse",
            Self::Parallel => "parallel",
            Self::RelayNear => "relay-near",
            Self::HotPool => "hot-pool",
            Self::RelayFar => "relay-far",
            Self::RelayPair => "relay-pair",
        }
    }
}

impl fmt::Display for RemedyName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}
