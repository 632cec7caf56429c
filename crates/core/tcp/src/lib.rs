//! A TCP endpoint without I/O: it takes segments and `now`, and returns segments, timers and events.
//!
//! ```text
//!   handle_segment, handle_timeout, write, read, close      (something happened)
//!             |
//!        Connection  --poll_output-->  Transmit | Event | Timeout
//! ```
//!
//! After every call that changes something, call [`Connection::poll_output`] until it answers
//! [`Output::Timeout`]; then nothing more is to be done before that moment or the next segment.
//!
//! **Bytes are counted, not held.** The endpoint works on offsets of the stream. A simulator never makes
//! the bytes; a driver on a wire keeps them itself: [`Output::Transmit`] says from which offset a
//! segment's payload comes, [`Connection::handle_segment`] to which offset received payload goes.
//!
//! Offsets are 64 bits wide and never wrap. They become sequence numbers only in a [`Segment`].
//!
//! Everything can be switched off to play an old stack: see [`Config`]. What departs from an RFC is said
//! where it does, and listed in `docs/rfc-exceptions.md`.

#![no_std]

extern crate alloc;
#[cfg(test)]
extern crate std;

mod acks;
mod autotune;
mod config;
mod connection;
#[cfg(any(test, feature = "fuzz"))]
pub mod fuzz;
mod hold;
mod output;
mod probes;
mod ranges;
mod receiver;
mod recovery;
mod rtt;
mod scoreboard;
mod segment;
mod sender;
mod state;
#[cfg(test)]
mod tests;

pub use config::{AckPolicy, Config, Ecn, KeepAlive, LossDetection, Pacing, ReceiveBuffer};
pub use connection::Connection;
pub use hold::Hold;
pub use output::{Event, Output, Placement};
pub use segment::{EcnCodepoint, Segment};
pub use sender::SenderView;
pub use state::State;
