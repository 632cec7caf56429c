//! The protocol between two relays, without I/O: many streams over a set of long-lived WAN connections.
//!
//! ```text
//!   open, write, finish, reset, read, consumed      (an application did something)
//!   connection_up, receive, connection_down, tick   (the WAN or the clock did)
//!             |
//!           Trunk  --transmit-->  bytes for one connection
//!                  --poll_event-> what the driver must do or tell
//!                  --deadline-->  when `tick` is due
//! ```
//!
//! After every call that changes something, a driver takes all events ([`Trunk::poll_event`]), offers every
//! connection whose socket has little unsent to [`Trunk::transmit`], and sets its timer to
//! [`Trunk::deadline`].
//!
//! **What it promises.** The bytes of a stream arrive once each and in order, or the stream is reset at both
//! ends with a reason. WAN connections may die, hang or all be gone for [`Config::outage`]; what the peer has
//! not acknowledged is kept and goes out again over what is left. A digest runs over each direction of each
//! stream and is compared at its end. The protocol is specified in `docs/trunk-protocol.md`.
//!
//! **What an acknowledgement means.** To the application, a TCP ACK from its relay means that the relay has
//! its bytes, no more (RFC 3135, section 4.1.3, describes what that does to end-to-end reliability). Between the
//! relays, an ACK frame means that the other relay has them in memory. Only a receipt means that they were
//! handed to the socket of the application at the other end.
//!
//! **Bytes are not copied** on the bulk path: chunks are slices of what the driver read, and what
//! [`Trunk::transmit`] gives is to be written with one vectored write.

#![no_std]

extern crate alloc;
#[cfg(test)]
extern crate std;

mod breadth;
mod config;
mod connection;
mod decoder;
mod digest;
mod event;
mod field;
mod flight;
mod frame;
#[cfg(any(test, feature = "fuzz"))]
pub mod fuzz;
mod guard;
mod holding;
mod identity;
mod incoming;
mod outgoing;
mod pace;
mod padding;
mod preface;
mod ranges;
mod reason;
mod rein;
mod reserve;
mod status;
mod stream;
mod target;
#[cfg(test)]
mod tests;
mod trunk;
mod turns;
mod violation;

pub use config::{BadConfig, Config, Memory, Padding, Width};
pub use connection::{Observation, Totals};
pub use digest::{Digest, DigestKind};
pub use event::{By, Closing, Event, Half, Receipt};
pub use frame::MAX_CHUNK;
pub use guard::{Excess, Guard, Manner};
pub use holding::Holds;
pub use identity::{ConnectionId, Role, Session, StreamId};
pub use incoming::Read;
pub use preface::{
    Capabilities, Hello, Limits, Preface, Refusal, RefusalReason, VERSIONS, Versions, Welcome,
};
pub use reason::{Explanation, Reason};
pub use status::{ConnectionStatus, Heat, Status, StreamStatus};
pub use stream::StreamGone;
pub use target::{BadTarget, Target};
pub use trunk::{AcceptError, Admission, OpenError, Trunk};
pub use violation::Violation;
