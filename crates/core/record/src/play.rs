//! What `longhaul flow play --json` prints.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::Manifest;

/// The whole document.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
pub struct Document {
    /// Always `longhaul.play`.
    pub schema: String,
    /// The schema's version.
    pub version: u32,
    /// Where the result comes from.
    pub manifest: Manifest,
    /// One per script and host, in the order of the files.
    pub plays: Vec<Play>,
}

/// A script against a host.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
pub struct Play {
    /// The file.
    pub file: String,
    /// Its first line of comment.
    pub title: String,
    /// Whose TCP: `ours` or `kernel`.
    pub host: String,
    /// How it went.
    pub outcome: Outcome,
    /// What was wrong, or why it was not played; `null` where it passed.
    pub reason: Option<String>,
    /// The line that does not hold, from 1; `null` behind the last one.
    pub line: Option<u64>,
    /// What was on the wire, in order.
    pub packets: Vec<Packet>,
}

/// How a script went.
#[derive(Clone, Copy, Debug, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Outcome {
    /// The host did what the script says.
    Passed,
    /// It did not.
    Failed,
    /// The script says that it is not for this host.
    NotForThisHost,
    /// The host has no such setting, or lacks the congestion control that the script wants.
    NotPlayable,
    /// The player was too late to judge the host.
    TooLate,
}

/// A packet on the wire.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
pub struct Packet {
    /// Seconds since the script began.
    pub at_s: f64,
    /// Whether the host sent it.
    pub sent: bool,
    /// In the notation of scripts.
    pub packet: String,
}
