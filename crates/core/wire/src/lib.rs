//! Packets: captured bytes, and the meaning the analyser needs.
//!
//! [`decode()`] turns one captured frame into an [`Observation`], which is what a packet means to an
//! analysis whatever source it came from: a capture file, a live socket, or the printed lines of
//! `tcpdump`. Nothing is allocated and nothing is copied but numbers. Decoding never panics; an error
//! names field, offset and length, and "cut off by the snapshot length" is not "malformed".
//!
//! [`mod@write`] goes the other way, so that simulators and tests make the packets they speak of, and
//! [`http`] reads the head of an HTTP/1 message, [`tls`] records and hellos, as far as they were captured.

#![no_std]

extern crate alloc;
#[cfg(test)]
extern crate std;

mod decode;
mod error;
mod flow;
mod fragment;
mod frame;
#[cfg(any(test, feature = "fuzz"))]
pub mod fuzz;
pub mod http;
mod icmp;
mod ip;
mod link;
mod neighbour;
mod observation;
mod tcp;
#[cfg(test)]
mod tests;
pub mod tls;
mod tunnel;
pub mod write;

pub use decode::decode;
pub use error::DecodeError;
pub use flow::FlowHash;
pub use fragment::{FirstFragment, Fragment};
pub use icmp::{IcmpEcho, IcmpError, IcmpReason};
pub use link::LinkType;
pub use neighbour::Resolution;
pub use observation::{
    Endpoint, Host, Observation, SackBlocks, Segment, TcpFlags, TcpOptions, Timestamps,
};
