//! What `longhaul lab run --json` prints; `simulate` will print the same shape.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{LimitSeconds, Manifest};

/// The whole document.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
pub struct Document {
    /// Always `longhaul.lab`.
    pub schema: String,
    /// The schema's version.
    pub version: u32,
    /// Where the result comes from.
    pub manifest: Manifest,
    /// The scenario's name.
    pub scenario: String,
    /// The seed of everything random in it.
    pub seed: u64,
    /// Whether the run was cut short (Ctrl-C): what is here was measured, the rest is missing.
    pub interrupted: bool,
    /// The order of blocks as it was run, such as `relay 100 KiB`.
    pub order: Vec<String>,
    /// One cell per workload and combination of factors.
    pub cells: Vec<Cell>,
    /// What pools were primed with, by arm.
    pub priming: Vec<Priming>,
    /// Assertions of the scenario and how they went.
    pub assertions: Vec<Assertion>,
}

/// One workload under one combination of factors.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
pub struct Cell {
    /// The workload's name, such as `upload 102400 B`.
    pub workload: String,
    /// Payload bytes per transfer.
    pub bytes: u64,
    /// Factors and their values; empty without a sweep.
    pub factors: BTreeMap<String, String>,
    /// Whether the path was what the scenario says, in every block that counts.
    pub valid: bool,
    /// Why not, where it was not.
    pub why: Option<String>,
    /// The path as asked and as endpoints measured it.
    pub path: PathCheck,
    /// The time below which no design can come.
    pub floor_s: f64,
    /// How the floor was computed.
    pub floor_derivation: String,
    /// The arms in the scenario's order.
    pub arms: Vec<Arm>,
    /// What `explain` predicted, before the arm it speaks of was run.
    pub predictions: Vec<PredictedArm>,
}

/// A path as asked for and as endpoints saw it.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
pub struct PathCheck {
    /// RTT the scenario asks for.
    pub rtt_asked_s: f64,
    /// Median RTT that endpoints measured.
    pub rtt_achieved_s: Option<f64>,
    /// Rate the scenario asks for, towards the origin.
    pub rate_asked_bps: f64,
    /// Rate that the receiving endpoint measured.
    pub rate_achieved_bps: Option<f64>,
    /// Checks made.
    pub checks: u64,
    /// Checks that failed, after which a block was repeated.
    pub invalid_checks: u64,
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
    /// Payload bits per second at the median.
    pub goodput_bps: Option<f64>,
    /// `floor_s / median_s`.
    pub share_of_floor: Option<f64>,
    /// Mean seconds per limit and transfer, from this arm's capture at the client.
    pub limits: LimitSeconds,
    /// Seconds of every transfer, in the order in which they ran.
    pub samples_s: Vec<f64>,
    /// Median by position within a block of consecutive transfers, first to last.
    pub by_position_s: Vec<f64>,
    /// The field report's figures for this arm, where it gives some.
    pub reported_s: Vec<f64>,
    /// The first transfer through a pool that was connected but not primed, reported beside.
    pub first_unprimed_s: Option<f64>,
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
