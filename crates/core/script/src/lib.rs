//! Packet scripts: what a TCP host is told, packet by packet, and what it must answer.
//!
//! ```text
//!   text --Script::read--> Script --play--> Host: `Endpoint` in virtual time,
//!                                           or a kernel behind a device (crate `flow`)
//! ```
//!
//! One notation and one player for both hosts, so that a script that describes our endpoint wrongly
//! fails against a kernel. Where the two may differ, the script says so, with the reason.
//! `docs/flow.md` describes the notation.

#![no_std]

extern crate alloc;
#[cfg(test)]
extern crate std;

mod endpoint;
#[cfg(any(test, feature = "fuzz"))]
pub mod fuzz;
mod packet;
mod player;
mod read;
mod script;
mod setting;
#[cfg(test)]
mod tests;

pub use endpoint::{Endpoint, EndpointError};
pub use packet::{Named, Packet};
pub use player::{Exchanged, Failure, Host, Play, Sent, Tolerance, Trouble, play};
pub use read::{ReadError, Reason};
pub use script::{Action, Condition, Ending, Line, Quantity, Script, Step, Value, Who};
pub use setting::{Setting, Switch};
