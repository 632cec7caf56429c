//! The path model: what a WAN does to packets, without a clock and without I/O.
//!
//! One model serves two drivers: the lab feeds it real packets from TUN devices and real time, the
//! simulator feeds it descriptions of packets and virtual time. A [`Path`] has two independent
//! directions, and each composes the same stages in the same order, every one counted on its own:
//!
//! ```text
//!  offer -> policer -> queue -> shaper -> delay -> duplication -> corruption -> loss -> poll
//!              |         |         |        jitter,
//!           policed   dropped    outage     reordering                            |
//!                     managed                                                    lost
//! ```
//!
//! Rules that the stages keep, and the tests prove:
//! - A queue holds only packets that wait for the shaper. Packets on the wire are never counted in it:
//!   a queue that counts them turns a long path into a slow one.
//! - The n-th IP packet offered to a direction meets the same fate whatever the timing, whatever the
//!   queue did before and however packets are bundled: what is drawn is a pure function of seed,
//!   direction and n ([`LossSpec::fate`]). A schedule chooses by time which settings the draw is held
//!   against.
//! - Settings that change over time are those of the moment at which a packet's serialisation starts.
//! - Virtual events happen at their exact time even when the driver comes late, so lateness of a driver
//!   never accumulates and never changes the rate.
//! - in + duplicated = out + dropped by each stage + lost + queued + in flight, at any moment
//!   ([`Path::assert_conserved`]).
//! - Items that stand for several packets stay whole where no stage has to part them.
//!
//! The page `docs/link.md` has the formulas and their sources.

#![no_std]

extern crate alloc;
#[cfg(test)]
extern crate std;

mod chance;
mod counters;
mod fate;
mod item;
mod jitter;
mod lane;
mod lots;
mod netem;
mod path;
mod policer;
mod queue;
mod schedule;
mod shaper;
mod spec;
mod wire;

pub use counters::{LaneCounters, NotConserved, PathCounters, Tally};
pub use fate::{Fate, GilbertElliott, LossSpec};
pub use item::{Delivery, Ecn, Item, Segments};
pub use jitter::{Distribution, Jitter};
pub use netem::BeyondNetem;
pub use path::Path;
pub use policer::Policer;
pub use queue::{CoDel, Discipline, QueueLimit, Red};
pub use schedule::{Change, Outage};
pub use shaper::{InvalidTrace, Trace};
pub use spec::{Direction, DirectionSpec, InvalidPath, Order, PathSpec, Reorder, Shift, SpecError};

#[cfg(test)]
mod tests;
