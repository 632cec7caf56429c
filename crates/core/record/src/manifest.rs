use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Where a result comes from, so that it can be repeated or doubted.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
pub struct Manifest {
    /// The program's version and commit.
    pub longhaul: String,
    /// Wall-clock start in RFC 3339, UTC; the only wall-clock time in a record.
    pub started_at: Option<String>,
    /// The command line that repeats this result.
    pub command: Option<String>,
    /// Kernel release, `null` outside Linux.
    pub kernel: Option<String>,
    /// CPU count and model.
    pub machine: Option<String>,
    /// Facts by name: sysctls per host (`client: net.ipv4.tcp_rmem`), congestion control, queueing
    /// discipline, offloads, real-time priority. What could not be read is here too, with the reason
    /// as its value.
    pub facts: BTreeMap<String, String>,
}
