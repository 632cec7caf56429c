//! The path model: what a WAN does to packets, without a clock and without I/O.
//!
//! One model serves two drivers: the lab feeds it real packets from TUN devices and real time, the
//! simulator feeds it descriptions of packets and virtual time. A [`Path`] has two independent
//! directions, and each composes the same stages in the same order, every one counted on its own:
//!
//! ```text
//!  offer -> queue (droptail, bytes) -> shaper (rate) -> wire (delay) -> loss -> poll
//!             | full: dropped                                            | fate: lost
//! ```
//!
//! Rules that the stages keep, and the tests prove:
//! - A queue holds only packets that wait for the shaper. Packets on the wire are never counted in it:
//!   a queue that counts them turns a long path into a slow one.
//! - The n-th IP packet offered to a direction meets the same fate whatever the timing and whatever the
//!   queue did before: loss is a pure function of seed, direction and n ([`LossSpec::fate`]).
//! - Virtual events happen at their exact time even when the driver comes late, so lateness of a driver
//!   never accumulates and never changes the rate.
//! - in = out + dropped + lost + queued + in flight, at any moment ([`Path::assert_conserved`]).
//!
//! A policer belongs before the queue, active queue management into the queue, traces into the shaper,
//! jitter, reordering and duplication into the wire; each stage is a file of its own for that reason.

#![no_std]

extern crate alloc;
#[cfg(test)]
extern crate std;

mod counters;
mod fate;
mod item;
mod lane;
mod path;
mod queue;
mod shaper;
mod spec;
mod wire;

pub use counters::{LaneCounters, NotConserved, PathCounters, Tally};
pub use fate::Fate;
pub use item::{Delivery, Item, Segments};
pub use path::Path;
pub use spec::{Direction, DirectionSpec, InvalidPath, LossSpec, PathSpec, SpecError};

#[cfg(test)]
mod tests;
