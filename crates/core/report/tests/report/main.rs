//! Fixed records to text, SVG and HTML.
//!
//! The pages also go to cargo's directory for test files (`target/tmp/report-*.html`), so that people
//! can look at what the snapshots fix.

#![allow(clippy::unwrap_used, reason = "helpers of tests fail as tests do")]

mod examples;
mod html;
mod svg;
mod sweep;
mod tables;
mod text;
