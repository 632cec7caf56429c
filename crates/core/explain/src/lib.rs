//! From packets to a verdict: where each second of a transfer went, what was lost, and the remedy.
//!
//! [`explain`] takes what [`connections::Tracker`] saw and returns the document that
//! `longhaul explain --json` prints. It is a function: the same capture gives the same document, and every
//! prediction in it was computed before anyone tried the remedy.
//!
//! Steps: each direction of a connection becomes a [`limit::Timeline`] (`timeline`), which `limit` attributes;
//! facts go into the record (`document`, `transfers`, `series`, `caveats`); rules look at all connections
//! together (`findings`, one file each, listed in [`CATALOGUE`]).

mod analysis;
mod caveats;
mod change;
mod clock;
mod counters;
mod document;
mod feedback;
mod findings;
#[cfg(feature = "fuzz")]
pub mod fuzz;
mod growth;
mod loss_response;
mod rebuild;
mod series;
mod session;
mod system;
mod text;
mod timeline;
mod traffic;
mod transfers;

use connections::Tracked;
use record::Manifest;
use record::explain::{Capture, Document};

pub use analysis::Judged;
pub use change::change;
pub use findings::{CATALOGUE, CatalogueEntry};
pub use rebuild::{NoScenario, RateFrom, SeenPath, busiest_server, path, scenario};
pub use tuning::remedies::Target;

/// What the caller knows and packets do not say, and what is wanted beside the verdict.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Program, command line, machine.
    pub manifest: Manifest,
    /// The inputs in order: file name, format, compression. Where there is one input, counts and duration
    /// are filled in here; with several the caller knows which packet came from which.
    pub captures: Vec<Capture>,
    /// Whether connections carry points for plots.
    pub series: bool,
    /// In whose terms remedies are given; without it in those of each host, as far as its SYN tells.
    pub target: Option<Target>,
}

/// Explains everything that was tracked.
#[must_use]
pub fn explain(tracked: &Tracked, options: Options) -> Document {
    conclude(Judged::default(), tracked, options)
}

/// Explains what was judged connection by connection, and what is still tracked.
#[must_use]
pub fn conclude(mut judged: Judged, tracked: &Tracked, options: Options) -> Document {
    for connection in &tracked.connections {
        judged.push(connection.clone(), options.series);
    }
    judged.number();
    let Judged {
        connections,
        records: mut documented,
    } = judged;
    let mut captures = options.captures;
    if let [capture] = captures.as_mut_slice() {
        document::fill_capture(capture, tracked);
    }
    let findings = findings::all(&connections, tracked, &captures, options.target);
    let (servers, pairs) = traffic::summaries(&connections);
    let explained = traffic::explained(&connections, &findings);
    let census = session::census(&connections);
    let first_at = tracked.first_at.unwrap_or_default();
    for (record, analysed) in documented.iter_mut().zip(&connections) {
        document::place(record, analysed, first_at);
    }
    Document {
        schema: "longhaul.explain".into(),
        version: record::VERSION,
        manifest: options.manifest,
        captures,
        connections: documented,
        census,
        echoes: tracked.echoes.iter().map(document::echo).collect(),
        findings,
        explained,
        servers,
        pairs,
    }
}
