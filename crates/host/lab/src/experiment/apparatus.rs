//! What an experiment does things with. [`Bench`](crate::bench::Bench) is the real one; tests of the
//! experiment's own logic use one that needs no kernel.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use record::explain::Document;
use record::lab::Priming;
use units::Bytes;

use crate::bench::BenchError;
use crate::probe::{Depth, PathReading};
use comparison::Transfer;

/// One thing at a time; the experiment decides what and how often.
pub(crate) trait Apparatus {
    /// Whether a relay of this name runs.
    fn has_relay(&self, name: &str) -> bool;

    /// Starts the relay `name` beside the client and waits until its pool is ready.
    fn start_relay(&mut self, name: &str, arm: &str) -> Result<Priming, BenchError>;

    /// Ends the relay `name` and returns the capture of everything it sent and received: between it and
    /// the origin, and between it and clients.
    fn stop_relay(&mut self, name: &str) -> Result<Option<PathBuf>, BenchError>;

    /// Whether `host` of a capture is the origin.
    fn is_origin(&self, host: &str) -> bool;

    /// `count` uploads of `bytes` by the built-in client, one after the other, each proved by the
    /// digest of what the origin stored.
    fn upload(
        &mut self,
        relay: Option<&str>,
        bytes: Bytes,
        count: u32,
        reuse: bool,
        name: &str,
    ) -> Result<Vec<Transfer>, BenchError>;

    /// One upload of `bytes` by an external command; `position` is its place within its block. The
    /// seconds are those of the whole process: what the wire shows is in the capture.
    fn upload_by_command(
        &mut self,
        command: &str,
        relay: Option<&str>,
        bytes: Bytes,
        name: &str,
        position: usize,
    ) -> Result<Transfer, BenchError>;

    /// Begins to capture the client's packets into `file`.
    fn start_capture(&mut self, file: &Path) -> Result<(), BenchError>;

    /// Ends the capture. Packets that the kernel dropped are an error: an incomplete capture explains
    /// nothing.
    fn stop_capture(&mut self) -> Result<(), BenchError>;

    /// Measures the path from end to end, as the client and the origin see it.
    fn check_path(&mut self, depth: Depth) -> Result<PathReading, BenchError>;

    /// Explains `captures` as one timeline.
    fn explain(&self, captures: &[PathBuf], series: bool) -> Result<Document, BenchError>;

    /// What the manifest should say about this bench, at the end of a run.
    fn facts(&mut self) -> Result<BTreeMap<String, String>, BenchError>;

    /// Whether and why the link is less punctual than it could be.
    fn unpunctual(&self) -> Option<&str>;
}
