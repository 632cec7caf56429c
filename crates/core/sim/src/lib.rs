//! The virtual-time driver: TCP endpoints (crate `tcp`) over paths (crate `link`), without a clock.
//!
//! [`World`] is the simulator: events in one total order, time first, then path before timer, then the
//! order in which they were made. The same calls give the same events, packet by packet.
//!
//! [`run`] does a whole scenario, the same file that the lab runs on real kernels, and answers in the
//! lab's shape, so that the two can be laid side by side. [`what_if()`] plays one arm of it as it is and
//! with every remedy alone.

mod account;
mod captures;
mod experiment;
mod hosts;
mod http;
mod lanes;
mod packet;
mod pcap;
#[cfg(test)]
mod tests;
mod watch;
mod what_if;
mod world;

pub use captures::HostCapture;
pub use experiment::{SimulateError, run, run_captured};
pub use pcap::{Ends, pcapng};
pub use what_if::{Trial, Trials, what_if};
pub use world::{ConnectionId, Held, LogEntry, Notice, PathId, Side, Way, World};
