//! What `longhaul tune --json` prints.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The version of this document.
pub const VERSION: u32 = 1;

/// What holds a host back on a path, and what to do.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
pub struct Document {
    /// Always `longhaul.tune`.
    pub schema: String,
    /// [`VERSION`] of the program that wrote it.
    pub version: u32,
    /// The host that the advice is for.
    pub host: Host,
    /// The path that it is for.
    pub path: Path,
    /// What is to change, largest predicted gain first, then what has no prediction.
    pub findings: Vec<Finding>,
    /// All changes of kind `limits` and `folklore` together, one entry per kind of transfer.
    pub predictions: Vec<Gain>,
    /// Why there is no prediction, where there is none.
    pub unpredicted: Option<String>,
    /// What was looked at and is right, one sentence each.
    pub fine: Vec<String>,
    /// What could not be read, one sentence each.
    pub unknown: Vec<String>,
}

/// The host that the advice is for.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
pub struct Host {
    /// `linux`, `windows`, `aix`, `macos` or `bigip`.
    pub system: String,
    /// Release of its kernel, where it was read.
    pub kernel: Option<String>,
    /// Its memory, where it was read.
    pub memory_bytes: Option<u64>,
}

/// The path that the advice is for.
#[derive(Clone, Copy, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
pub struct Path {
    /// Round-trip time of an idle path.
    pub rtt_s: f64,
    /// Its rate.
    pub rate_bps: f64,
    /// Share of packets lost at random, in each direction.
    pub loss: f64,
    /// Rate x RTT.
    pub bdp_bytes: u64,
}

/// One thing that is to change.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
pub struct Finding {
    /// Its stable name, such as `receive-buffer`.
    pub name: String,
    /// What kind of advice it is.
    pub kind: Kind,
    /// What is set, and why that matters on this path.
    pub says: String,
    /// Where that is written.
    pub source: String,
    /// Settings that `--apply` writes; empty where commands say it all.
    pub changes: Vec<Change>,
    /// Commands that make the change.
    pub commands: Vec<String>,
    /// Commands that take it back.
    pub undo: Vec<String>,
    /// What this change alone would bring, by kind of transfer; kinds that it does not touch are left out.
    pub gains: Vec<Gain>,
}

/// What kind of advice a finding is.
#[derive(
    Clone, Copy, Debug, Deserialize, Eq, JsonSchema, Ord, PartialEq, PartialOrd, Serialize,
)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// It holds transfers back on this path.
    Limits,
    /// Somebody set it, and it harms on any path.
    Folklore,
    /// It may matter; `--apply` leaves it alone.
    Consider,
}

/// One setting.
#[derive(Clone, Debug, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
pub struct Change {
    /// The sysctl, such as `net.ipv4.tcp_rmem`.
    pub key: String,
    /// Its value now, as the kernel prints it.
    pub from: String,
    /// The value it should have.
    pub to: String,
}

/// A transfer, before and after.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
pub struct Gain {
    /// Which transfer, such as `download 25 MB`.
    pub transfer: String,
    /// Simulated seconds with the host as it is.
    pub before_s: f64,
    /// Simulated seconds after the change.
    pub after_s: f64,
    /// The time below which no design comes.
    pub floor_s: f64,
}

// === impl Gain ===

impl Gain {
    /// Share of the time that is saved, 0 to 1; negative where the change costs time.
    #[must_use]
    pub fn saved(&self) -> f64 {
        if self.before_s > 0.0 {
            1.0 - self.after_s / self.before_s
        } else {
            0.0
        }
    }
}

// === impl Finding ===

impl Finding {
    /// The largest share of a transfer's time that this change alone saves.
    #[must_use]
    pub fn best(&self) -> Option<&Gain> {
        self.gains
            .iter()
            .max_by(|a, b| a.saved().total_cmp(&b.saved()))
    }
}

// === impl Kind ===

impl Kind {
    /// Whether `--apply` makes the change, and `--check` fails for it.
    #[must_use]
    pub const fn is_applied(self) -> bool {
        match self {
            Self::Limits | Self::Folklore => true,
            Self::Consider => false,
        }
    }
}
