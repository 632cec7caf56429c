//! Capture files: bytes in, packets and observations out, without I/O.
//!
//! [`Capture`] is the front for analyses: it recognises the format from the first bytes and yields
//! [`wire::Observation`]s, counting on the way what it could not read. [`Reader`] gives the raw packets
//! of pcap and pcapng files instead, [`Packets`] the same from one slice (a mapped file) without any
//! copy. [`Writer`] makes pcapng.
//!
//! ```
//! # use longhaul_capture as capture;
//! use capture::Capture;
//!
//! let text = b"16:54:06.286416 IP a.33666 > b.http: Flags [S], seq 7, win 64240, length 0\n";
//! let mut capture = Capture::new();
//! for chunk in text.chunks(16) {
//!     capture.feed(chunk);
//!     while let Some(observation) = capture.next_observation()? {
//!         assert!(matches!(observation, wire::Observation::Tcp(_)));
//!     }
//! }
//! capture.finish();
//! while let Some(_last) = capture.next_observation()? {}
//! assert_eq!(capture.summary().segments, 1);
//! # Ok::<(), capture::ReadError>(())
//! ```
//!
//! Whatever the chunks in which bytes arrive, the result is the same. Lengths in a file are claims: no
//! memory is set aside for bytes that have not arrived.

#![no_std]

extern crate alloc;
#[cfg(test)]
extern crate std;

mod binary;
mod cursor;
mod error;
mod filter;
mod front;
#[cfg(any(test, feature = "fuzz"))]
pub mod fuzz;
mod packet;
mod pcap;
mod pcapng;
mod reader;
#[cfg(test)]
mod tests;
mod text;
mod writer;

pub use error::ReadError;
pub use filter::{End, Filter, FilterError};
pub use front::{Capture, Observations, Summary};
pub use packet::{Ending, Format, Packet};
pub use reader::{Framer, Packets, Reader};
pub use text::TextCounts;
pub use writer::{Interface, InterfaceId, Section, Writer};
