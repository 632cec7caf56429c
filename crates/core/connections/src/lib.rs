//! Packets to connections.
//!
//! Feed [`wire::Observation`]s in time order to a [`Tracker`]; [`Tracker::finish`] hands back every TCP
//! connection with its two byte streams unwrapped to 64 bits, its packets in compact form, what was
//! repeated and why, round-trip times, request/response turns and the way it ended. Nothing here judges
//! what a transfer waited for: that is `limit`'s task; nothing here trusts a packet either: any sequence
//! of observations is accepted, and what cannot be known is a variant, never a guess without a name.
//!
//! | question | answer |
//! |---|---|
//! | who is the client? | [`ClientEvidence`] |
//! | where was the capture made? | [`Vantage`] |
//! | how is the window field to be read? | [`WindowScale`] |
//! | why was this segment sent again? | [`Repeat`] |
//! | which bytes did the capture miss? | [`Flow::unseen_bytes`] |

#![no_std]

extern crate alloc;
#[cfg(test)]
extern crate std;

mod connection;
mod echo;
mod flow;
mod fragments;
mod latest;
mod notice;
mod packet;
mod ranges;
mod resolutions;
mod ssh;
mod tls;
mod tracker;
mod turns;

pub use connection::{
    ClientEvidence, Close, Closing, Connection, Handshake, Quality, Vantage, WindowScale,
};
pub use echo::Echo;
pub use flow::{Flow, RttSample, SackedRange, SynOptions};
pub use fragments::Fragments;
pub use notice::Notice;
pub use packet::{Endpoint, Mark, Packet, Repeat, Role, Side};
pub use ranges::Ranges;
pub use ssh::SshBanners;
pub use tls::TlsHandshake;
pub use tracker::{Room, Tracked, Tracker};
pub use turns::Turn;
#[cfg(test)]
mod tests;
