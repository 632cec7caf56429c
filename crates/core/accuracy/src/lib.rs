//! Captures whose truth is known, and how often `explain` finds it.
//!
//! ```text
//!  cases (path, hosts, script)  ──sim──>  log + what held the sender
//!        log ──tap (sender, middle, receiver; with and without offload)──>  pcapng
//!        what held the sender, what was lost, how the case was built  ──>  labels
//!        pcapng ──capture, connections, explain──>  what it says
//!        labels against what it says, by seconds  ──>  [`Report`]
//! ```
//!
//! Labels never come from crate `limit`. Cases are drawn from two disjoint sets of seeds: rules may be
//! tuned on [`Half::Tuned`], and [`Half::HeldOut`] shows whether they hold elsewhere.

mod case;
mod cases;
mod draw;
mod drive;
mod judge;
mod page;
mod report;
mod tap;
mod truth;

pub use case::{Case, Tap};
pub use cases::{Half, cases};
pub use judge::{Confusion, JudgeError, Judged, Trial, judge};
pub use page::page;
pub use report::{Bars, Report};
