//! What `explain` says of a capture that is written down as tcpdump's text.

use capture::Observations;
use connections::Tracker;
use longhaul_explain::{Options, explain};
use record::explain::{Capture, Document};

pub(crate) fn explained(text: &str) -> Document {
    let mut observations = Observations::new(text.as_bytes());
    let mut tracker = Tracker::new();
    while let Some(observation) = observations.next_observation().unwrap() {
        tracker.observe(&observation);
    }
    let options = Options {
        captures: vec![Capture::default()],
        ..Options::default()
    };
    explain(&tracker.finish(), options)
}
