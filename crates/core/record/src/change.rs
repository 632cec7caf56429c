//! What `longhaul explain --compare BEFORE AFTER --json` prints.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::LimitName;

/// The version of this document.
pub const VERSION: u32 = 1;

/// Two verdicts, laid side by side.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
pub struct Document {
    /// Always `longhaul.change`.
    pub schema: String,
    /// [`VERSION`] of the program that wrote it.
    pub version: u32,
    /// What was captured first.
    pub before: Side,
    /// What was captured afterwards.
    pub after: Side,
    /// Seconds per transfer by limit, largest change first; limits absent on both sides are left out.
    pub limits: Vec<Limit>,
    /// Findings of the first capture that the second no longer has, by name.
    pub gone: Vec<String>,
    /// Findings that both have.
    pub remaining: Vec<String>,
    /// Findings that only the second has.
    pub new: Vec<String>,
    /// What makes the two hard to compare, one sentence each.
    pub caveats: Vec<String>,
}

/// One of the two.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
pub struct Side {
    /// Files as given.
    pub files: Vec<String>,
    /// TCP connections.
    pub connections: u64,
    /// Requests; connections with payload where no request was seen.
    pub transfers: u64,
    /// Payload bytes per transfer, both directions (mean).
    pub bytes: f64,
    /// Median seconds of a transfer, connection set-up included where it was the first on its connection.
    pub median_s: Option<f64>,
    /// Seconds in connections per transfer, in the direction that carries the data (mean).
    pub seconds: f64,
}

/// One limit, before and after.
#[derive(Clone, Copy, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
pub struct Limit {
    /// Which.
    pub name: LimitName,
    /// Seconds per transfer before.
    pub before_s: f64,
    /// Seconds per transfer afterwards.
    pub after_s: f64,
    /// `after_s - before_s`.
    pub change_s: f64,
}
