//! Congestion controllers without I/O: how much may be in flight, and how fast it may leave.
//!
//! A [`Controller`] hears what became of segments and answers with a window. It has no clock, sends
//! nothing and repairs nothing: the endpoint (crate `tcp`) decides what is lost, spreads a reduction
//! over a round trip (RFC 6937) and tells the controller when recovery begins.
//!
//! Windows are counted in **segments**, as the kernel counts them, and not in bytes as most RFCs write:
//! a request's short head takes a place in the window as a full segment does, which decides whether an
//! upload takes four round trips or five. Where an RFC says `SMSS`, read one segment.
//!
//! | [`Algorithm`] | source |
//! |---|---|
//! | [`NewReno`](Algorithm::NewReno) | RFC 5681, RFC 6582 |
//! | [`Cubic`](Algorithm::Cubic) | RFC 9438, Linux `tcp_cubic.c` with its `HyStart`; or RFC 9406 |
//! | [`HighSpeed`](Algorithm::HighSpeed) | RFC 3649 |
//! | [`WestwoodPlus`](Algorithm::WestwoodPlus) | Linux `tcp_westwood.c` |
//! | [`Bbr`](Algorithm::Bbr) | Linux `tcp_bbr.c` (version 1) |
//! | [`Bbr3`](Algorithm::Bbr3) | draft-ietf-ccwg-bbr (version 3) |
//! | [`Fixed`](Algorithm::Fixed) | none: a window that never changes |

#![no_std]

extern crate alloc;
#[cfg(test)]
extern crate std;

mod algorithm;
mod bbr;
mod bbr3;
mod controller;
mod cubic;
mod fixed;
mod high_speed;
mod hystart;
mod max_filter;
mod new_reno;
mod pacing;
#[cfg(test)]
mod tests;
mod tuning;
mod westwood;
mod window;

pub use algorithm::{Algorithm, Parameters, ParseAlgorithmError, SlowStart};
pub use controller::{Acknowledgement, Controller, DeliveryRate};
pub use tuning::{Choice, Tuning};
