use serde::Deserialize;
use units::{Bytes, LossRate, Rate, Span};

/// A symmetric path: both directions alike, each with its own queue, the delay split in halves.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Path {
    /// Round-trip time of a small packet on the idle path, its serialisation not counted.
    pub rtt: Span,
    /// Rate in IP bytes.
    pub rate: Rate,
    /// Droptail queue before the rate limiter, in bytes.
    pub queue: Bytes,
    /// Random loss in each direction.
    #[serde(default)]
    pub loss: LossRate,
}

// === impl Path ===

impl Path {
    /// What is wrong with it: fields, as paths in the file, and what to do.
    pub(crate) fn problems(&self) -> Vec<(String, String)> {
        let mut problems = Vec::new();
        if self.rate.bits_per_s() < 10_000 {
            let message = format!("{} is below the least rate of 10 kbit/s", self.rate);
            problems.push(("path.rate".to_owned(), message));
        }
        if self.queue < Bytes::new(1_500) {
            let message = format!("{} does not hold one packet of 1500 B", self.queue);
            problems.push(("path.queue".to_owned(), message));
        }
        problems
    }
}
