//! What of a host's settings holds transfers back on a path, and what each change would bring.
//!
//! [`advise`] takes what was read from a Linux host and says what to change; the gain of every change is
//! played by the simulator on the given path, with the same endpoint that `longhaul simulate` runs, so that
//! one model stands behind every prediction. [`systems`] has the same advice for hosts that can't be read
//! from here, [`clients`] for programs that fetch objects, [`remedies`] for a single cause.

pub mod clients;
mod host;
mod path;
mod predict;
pub mod remedies;
mod rules;
pub mod systems;
#[cfg(test)]
mod tests;

pub use host::{Device, Host, KEYS, Live, Route, Settings};
pub use path::Path;
pub use predict::Transfers;

use record::tune::{Document, Finding, Gain, VERSION};

/// What to change on `host` for transfers over `path`, largest gain first.
#[must_use]
pub fn advise(host: &Host, path: &Path, transfers: Transfers) -> Document {
    let mut judged = rules::judge(host, path);
    let mut unpredicted = None;
    let predictions = match predict::gains(host, path, transfers, &mut judged.proposals) {
        Ok(together) => together,
        Err(reason) => {
            unpredicted = Some(reason.to_string());
            Vec::new()
        }
    };
    let proposals = judged.proposals.into_iter();
    let mut findings: Vec<Finding> = proposals.map(|proposal| proposal.finding).collect();
    rank(&mut findings);
    Document {
        schema: "longhaul.tune".to_owned(),
        version: VERSION,
        host: record::tune::Host {
            system: "linux".to_owned(),
            kernel: host.kernel.clone(),
            memory_bytes: host.memory.map(units::Bytes::get),
        },
        path: path.record(),
        findings,
        predictions,
        unpredicted,
        fine: judged.fine,
        unknown: judged.unknown,
    }
}

/// By kind, and within a kind by the share of time saved; what has no prediction comes last.
fn rank(findings: &mut [Finding]) {
    let saved = |finding: &Finding| finding.best().map_or(0.0, Gain::saved);
    findings.sort_by(|a, b| {
        a.kind
            .is_applied()
            .cmp(&b.kind.is_applied())
            .reverse()
            .then_with(|| saved(b).total_cmp(&saved(a)))
            .then_with(|| a.kind.cmp(&b.kind))
            .then_with(|| a.name.cmp(&b.name))
    });
}
