//! Which simulated remedy answers which finding.

use std::collections::BTreeSet;

use record::explain::Document;
use record::what_if::RemedyName;

/// The remedies that answer a finding, by its stable name; none where the simulator has none to play.
pub(crate) fn of(finding: &str) -> &'static [RemedyName] {
    match finding {
        "no-connection-reuse" => &[RemedyName::ConnectionReuse, RemedyName::HotPool],
        "fixed-window" | "no-window-scaling" => &[RemedyName::ReceiveWindow],
        "send-buffer" => &[RemedyName::SendBuffer],
        "loss-limited" | "policer" => &[
            RemedyName::Algorithm,
            RemedyName::Parallel,
            RemedyName::RelayPair,
        ],
        "loss-recovery" => &[RemedyName::Algorithm, RemedyName::RelayPair],
        "low-initial-ssthresh" => &[RemedyName::InitialSsthresh],
        _ => &[],
    }
}

/// Whether with `remedy` it does not matter any more which congestion control the captured sender has.
pub(crate) const fn replaces_the_algorithm(remedy: RemedyName) -> bool {
    matches!(remedy, RemedyName::Algorithm | RemedyName::RelayPair)
}

/// Whether `remedy` takes away what losses hold, so that the path's rate is what is left.
pub(crate) const fn ends_at_the_rate(remedy: RemedyName) -> bool {
    matches!(
        remedy,
        RemedyName::Algorithm | RemedyName::Parallel | RemedyName::RelayPair
    )
}

/// Every remedy that some finding asks for.
pub(crate) fn wanted(document: &Document) -> Vec<RemedyName> {
    let mut wanted: Vec<RemedyName> = document
        .findings
        .iter()
        .flat_map(|finding| of(&finding.name))
        .copied()
        .collect();
    wanted.sort_unstable();
    wanted.dedup();
    wanted
}

/// The connections that the rebuilt scenario stands for: findings on others say nothing about it.
pub(crate) fn rebuilt_connections(document: &Document) -> BTreeSet<u32> {
    let connections = explain::busiest_server(document).unwrap_or_default();
    connections.iter().map(|connection| connection.id).collect()
}
