//! Packets: views over captured bytes, and the meaning the analyser needs.
//!
//! Two views of every packet, as in smoltcp: a *view* judges nothing and prints everything, an
//! [`Observation`] is what the packet means to an analysis, whatever source it came from (a capture
//! file, a live socket, or the printed lines of `tcpdump`). Decoding never panics; an error says field,
//! offset and length, and "cut off by the snapshot length" is not "malformed".

#![no_std]

extern crate alloc;
#[cfg(test)]
extern crate std;

mod observation;

pub use observation::{
    Endpoint, Host, IcmpEcho, Observation, SackBlocks, Segment, TcpFlags, TcpOptions, Timestamps,
};
