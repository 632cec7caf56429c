//! What `longhaul lab run --json` and `longhaul simulate --json` print.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{LimitSeconds, Manifest};

/// The version of this document. 2: rates beside times, comparisons of arms, series, kernel counters,
/// RFC 6349's metrics, rival flows, invalid blocks by arm.
pub const VERSION: u32 = 2;

/// The whole document.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
pub struct Document {
    /// Always `longhaul.lab`.
    pub schema: String,
    /// [`VERSION`] of the program that wrote it; a field that is younger than it is absent.
    pub version: u32,
    /// Where the result comes from.
    pub manifest: Manifest,
    /// The scenario's name.
    pub scenario: String,
    /// The seed of everything random in it.
    pub seed: u64,
    /// Whether the run was cut short (Ctrl-C): what is here was measured, the rest is missing.
    pub interrupted: bool,
    /// Why the run ended before its time, where something broke, such as the link: what is here was measured
    /// before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub broken: Option<String>,
    /// How transfers were repeated, as the scenario asks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub conduct: Option<Conduct>,
    /// The order of blocks as it was run, such as `relay 100 KiB`.
    pub order: Vec<String>,
    /// One cell per workload and combination of factors.
    pub cells: Vec<Cell>,
    /// What pools were primed with, by arm.
    pub priming: Vec<Priming>,
    /// Assertions of the scenario and how they went.
    pub assertions: Vec<Assertion>,
}

/// How often and in what order transfers are asked for.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
pub struct Conduct {
    /// Transfers of each arm and workload that count.
    pub runs: u64,
    /// Consecutive transfers of a block that count.
    pub block: u64,
    /// Transfers at the beginning of each block that are done and do not count.
    pub warm_up: u64,
    /// Share of the median within which its 95 % interval is asked to lie; absent where `runs` alone count.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub precision: Option<f64>,
    /// Transfers of each arm and workload at which `precision` gives up.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_runs: Option<u64>,
}

/// One workload under one combination of factors.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
pub struct Cell {
    /// The workload's name, such as `upload 102400 B`.
    pub workload: String,
    /// Payload bytes per transfer; 0 where a transfer lasts for a time instead.
    pub bytes: u64,
    /// Whether arms are compared by the time of a transfer or by its rate.
    #[serde(default)]
    pub measure: Measure,
    /// Factors and their values; empty without a sweep.
    pub factors: BTreeMap<String, String>,
    /// Whether the path was what the scenario says, in every block that counts.
    pub valid: bool,
    /// Why not, where it was not.
    pub why: Option<String>,
    /// The path as asked and as endpoints measured it.
    pub path: PathCheck,
    /// The time below which no design can come; 0 where transfers last for a time.
    pub floor_s: f64,
    /// Payload bits per second above which no design can come, whatever it transfers.
    #[serde(default)]
    pub ceiling_bps: Option<f64>,
    /// How the floor was computed.
    pub floor_derivation: String,
    /// The arms in the scenario's order.
    pub arms: Vec<Arm>,
    /// What `explain` predicted, before the arm it speaks of was run.
    pub predictions: Vec<PredictedArm>,
    /// Every other arm against the first.
    #[serde(default)]
    pub comparisons: Vec<Comparison>,
}

/// What a transfer is judged by.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Measure {
    /// Seconds: a given amount of data, less time is better.
    #[default]
    Time,
    /// Payload bits per second: a given time, more data is better.
    Rate,
}

/// A path as asked for and as endpoints saw it.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
pub struct PathCheck {
    /// RTT the scenario asks for.
    pub rtt_asked_s: f64,
    /// Median RTT that endpoints measured. It and the rates are those of the first network; `networks` has
    /// each, where arms have several.
    pub rtt_achieved_s: Option<f64>,
    /// Rate the scenario asks for, towards the origin.
    pub rate_asked_bps: f64,
    /// Rate that the receiving endpoint measured, the origin.
    pub rate_achieved_bps: Option<f64>,
    /// Rate the scenario asks for, towards the client.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub backward_rate_asked_bps: Option<f64>,
    /// Rate that the client measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub backward_rate_achieved_bps: Option<f64>,
    /// What the scenario asks of the path and no check looked at, in words: a path is right but for this.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unchecked: Vec<String>,
    /// Where arms have networks of their own, each of them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub networks: Vec<NetworkCheck>,
    /// Checks made.
    pub checks: u64,
    /// Checks that failed, after which a block was repeated.
    pub invalid_checks: u64,
}

/// A network of some arms as its endpoints saw it.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
pub struct NetworkCheck {
    /// The first of its arms.
    pub arm: String,
    /// Median RTT.
    pub rtt_achieved_s: Option<f64>,
    /// Rate towards the origin.
    pub rate_achieved_bps: Option<f64>,
    /// Rate towards the client.
    pub backward_rate_achieved_bps: Option<f64>,
}

/// One way of doing the workload.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
pub struct Arm {
    /// Its name in the scenario.
    pub name: String,
    /// Transfers measured.
    pub n: u64,
    /// Transfers that failed (error, or another digest in the store than was sent).
    pub failed: u64,
    /// Median seconds.
    pub median_s: Option<f64>,
    /// 5th percentile.
    pub p05_s: Option<f64>,
    /// 95th percentile.
    pub p95_s: Option<f64>,
    /// Slowest.
    pub max_s: Option<f64>,
    /// 95 % bootstrap interval of the median.
    pub ci95_s: Option<(f64, f64)>,
    /// Median of payload bits per second.
    pub goodput_bps: Option<f64>,
    /// 95 % bootstrap interval of it.
    #[serde(default)]
    pub goodput_ci95_bps: Option<(f64, f64)>,
    /// Median payload bits per second over the last half of a transfer, when slow start is over.
    #[serde(default)]
    pub steady_bps: Option<f64>,
    /// `floor_s / median_s`, or `goodput_bps / ceiling_bps` where rates are compared.
    pub share_of_floor: Option<f64>,
    /// Mean seconds per limit and transfer, from a capture at the host that sends the payload across the
    /// WAN; where payload flows both ways, of the way towards the origin.
    pub limits: LimitSeconds,
    /// The same for every hop of the payload, each captured at its sender; empty where none was captured.
    #[serde(default)]
    pub legs: Vec<Leg>,
    /// Seconds of every transfer, in the order in which they ran.
    pub samples_s: Vec<f64>,
    /// Payload bits per second of every transfer, in the same order.
    #[serde(default)]
    pub samples_bps: Vec<f64>,
    /// Median by position within a block of consecutive transfers, first to last.
    pub by_position_s: Vec<f64>,
    /// The field report's figures for this arm, where it gives some.
    pub reported_s: Vec<f64>,
    /// The same where the report gives rates, in payload bits per second.
    #[serde(default)]
    pub reported_bps: Vec<f64>,
    /// The first transfer through a pool that was connected but not primed, reported beside.
    pub first_unprimed_s: Option<f64>,
    /// Kernel counters by host, summed over the arm: `origin: TcpRetransSegs`.
    #[serde(default)]
    pub counters: BTreeMap<String, u64>,
    /// The same for every transfer, in the order of [`samples_s`](Self::samples_s): from its start to the
    /// start of the next, or to the end of its block. Of transfers that failed only the sums have them.
    #[serde(default)]
    pub counters_by_run: BTreeMap<String, Vec<u64>>,
    /// Segments sent again per transfer, by all hosts but rivals.
    #[serde(default)]
    pub retransmissions: Option<f64>,
    /// The transfer that took the median time, from inside the sender.
    #[serde(default)]
    pub series: Option<Series>,
    /// The metrics of RFC 6349 section 4.
    #[serde(default)]
    pub rfc6349: Option<Rfc6349>,
    /// What became of the flows that shared the path.
    #[serde(default)]
    pub rivals: Option<Rivals>,
    /// Blocks that were repeated because the path was off meanwhile.
    #[serde(default)]
    pub invalid_blocks: u64,
    /// What was off about them.
    #[serde(default)]
    pub invalid_because: Vec<String>,
}

/// One hop of an arm's payload.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
pub struct Leg {
    /// The host that sends it, and where it was captured.
    pub from: String,
    /// The host that it is sent to.
    pub to: String,
    /// Whether the WAN lies between them.
    pub crosses_wan: bool,
    /// Mean seconds per limit and transfer.
    pub limits: LimitSeconds,
}

/// What a sender's kernel (or the simulator) said about one transfer, at regular intervals.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
pub struct Series {
    /// Seconds between two points, as asked for.
    pub interval_s: f64,
    /// Points by time.
    pub points: Vec<SeriesPoint>,
}

/// One moment of a transfer. What the source does not tell is absent.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
pub struct SeriesPoint {
    /// Seconds since the transfer began.
    pub at_s: f64,
    /// Payload bits per second delivered since the point before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub goodput_bps: Option<f64>,
    /// Congestion window, in bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cwnd: Option<u64>,
    /// Smoothed RTT.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rtt_s: Option<f64>,
    /// Bytes sent and not acknowledged.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub in_flight: Option<u64>,
    /// Bytes waiting at the bottleneck.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queue: Option<u64>,
    /// Segments sent again since the transfer began.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retransmissions: Option<u64>,
}

/// The three metrics of RFC 6349 section 4, as shares of one where the RFC gives percentages.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
pub struct Rfc6349 {
    /// Actual over ideal transfer time (section 4.1); 1 is ideal.
    pub transfer_time_ratio: Option<f64>,
    /// Bytes transmitted less bytes retransmitted, over bytes transmitted (section 4.2); 1 is ideal.
    pub tcp_efficiency: Option<f64>,
    /// Average RTT during the transfer above the baseline RTT, over the baseline (section 4.3); 0 is
    /// ideal.
    pub buffer_delay: Option<f64>,
}

/// Flows of others beside an arm's.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
pub struct Rivals {
    /// Payload bits per second of each without the arm.
    pub alone_bps: Vec<f64>,
    /// Payload bits per second of each beside the arm.
    pub beside_bps: Vec<f64>,
    /// Payload bits per second of each flow of the arm, over the same time.
    #[serde(default)]
    pub own_bps: Vec<f64>,
    /// Jain's fairness index over the arm's and the rivals' flows: 1 is an equal share for each.
    pub jain: Option<f64>,
    /// The share of the rivals' throughput that the arm cost them (Ware et al., `HotNets` 2019): 0 is
    /// none.
    pub harm: Option<f64>,
}

/// One arm against another, transfer by transfer.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
pub struct Comparison {
    /// The arm.
    pub arm: String,
    /// What it is compared with.
    pub against: String,
    /// Its median over the other's, by the cell's measure.
    pub ratio: Option<f64>,
    /// 95 % bootstrap interval of the ratio.
    pub ratio_ci95: Option<(f64, f64)>,
    /// Median of paired differences, or difference of medians where nothing pairs them.
    pub difference_s: Option<f64>,
    /// 95 % bootstrap interval of it.
    pub difference_ci95_s: Option<(f64, f64)>,
    /// The same where rates are compared.
    pub difference_bps: Option<f64>,
    /// The same where rates are compared.
    pub difference_ci95_bps: Option<(f64, f64)>,
    /// The Hodges-Lehmann estimate of the shift, in the unit of the cell's measure.
    pub shift: Option<f64>,
    /// Whether transfers at the same place of the same round were compared with one another.
    pub paired: bool,
    /// Probability of ranks at least this uneven were the arms alike; two-sided.
    pub p: Option<f64>,
    /// The test that says so, such as `Wilcoxon signed-rank, exact`.
    pub test: String,
    /// Cliff's delta: the probability that a transfer of this arm takes a larger value than one of the
    /// other, less that of a smaller one; -1 to 1.
    pub effect: Option<f64>,
}

/// A prediction and what was then measured.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
pub struct PredictedArm {
    /// The arm it speaks of.
    pub arm: String,
    /// Predicted seconds.
    pub predicted_s: f64,
    /// Measured median.
    pub measured_s: Option<f64>,
    /// `predicted / measured - 1`.
    pub error: Option<f64>,
    /// How it was computed.
    pub derivation: String,
}

/// What it took to make connections hot.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
pub struct Priming {
    /// The arm whose relay did it.
    pub arm: String,
    /// Connections primed.
    pub connections: u64,
    /// Harmless requests sent.
    pub requests: u64,
    /// Bytes sent for it.
    pub bytes: u64,
    /// Seconds until the last of them was hot.
    pub seconds: f64,
    /// Smallest cwnd among them when done, in bytes.
    pub cwnd: Option<u64>,
    /// Smallest window of the origin among them when done, in bytes.
    pub peer_window: Option<u64>,
}

/// One assertion of the scenario.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
pub struct Assertion {
    /// As written in the scenario.
    pub text: String,
    /// Whether it holds.
    pub holds: bool,
    /// The numbers on both sides.
    pub detail: String,
}
