//! A TCP load generator.
//!
//! ```text
//!   client::run(plan)                         server::Server
//!     connection  -- HELLO, ASK, DATA… -->  session
//!                 <-- DATA…, RECEIPT ---
//!         |                                     |
//!      Engine: kernel sockets, or our own TCP on a TUN device
//! ```
//!
//! What counts is the last byte *received*: a sender's buffer has no say. So every stream of bytes ends
//! with a receipt of the end that received it, and all durations are differences on one clock: the
//! client's (from asking until the receipt is here) and the receiver's own (first to last byte). No two
//! clocks are ever compared.
//!
//! The bytes are a function of the seed and of their place, which both ends know: the receiver compares
//! every one of them.

pub mod client;
pub mod engine;
pub mod kernel;
pub mod play;
pub mod protocol;
pub mod server;
pub mod stack;

mod failure;
mod incoming;
mod limits;
mod live;
mod outgoing;
mod pattern;
mod reading;

pub use failure::FlowError;
pub use live::{FlowProgress, Progress};
