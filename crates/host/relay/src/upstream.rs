//! Connections to a target, with the server-side profile in effect from their first segment.

mod dialer;
mod group;
mod health;
mod names;
#[cfg(test)]
mod zone;

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use sys::socket::{Applied, ApplyError};
use tokio::net::TcpStream;

pub(crate) use dialer::{Dialer, Shown, connect_to};
pub(crate) use group::{Group, Place};
pub(crate) use names::addresses_of;

/// A connection to a target was not made.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ConnectError {
    #[error("cannot resolve `{host}`")]
    Resolve {
        host: String,
        #[source]
        source: io::Error,
    },
    #[error("`{host}` has no address")]
    NoAddress { host: String },
    #[error("{target} is not offered: its domain says so by the target `.`")]
    NotOffered { target: String },
    #[error("cannot make a socket for {peer}")]
    Socket {
        peer: SocketAddr,
        #[source]
        source: io::Error,
    },
    #[error("cannot connect to {peer}")]
    Connect {
        peer: SocketAddr,
        #[source]
        source: io::Error,
    },
    #[error("cannot connect with the client's address {from}")]
    From {
        from: SocketAddr,
        #[source]
        source: io::Error,
    },
    #[error("no connection to `{host}` within {}", units::format_span(*.waited))]
    Timeout { host: String, waited: Duration },
    #[error("the server-side profile is not in effect")]
    Profile(#[source] ApplyError),
}

/// An open connection to a target.
pub(crate) struct Connected<S = TcpStream> {
    pub(crate) stream: S,
    pub(crate) peer: SocketAddr,
    /// The profile's options as they were read back: all of the first connection, none of most others.
    pub(crate) applied: Vec<Applied>,
    /// The congestion control, where the profile names one.
    pub(crate) congestion: Option<Arc<str>>,
    /// For as long as it is open, where it is one of a group's.
    pub(crate) place: Option<Place>,
}

// === impl ConnectError ===

impl ConnectError {
    /// Whether this relay or its host ran out of something.
    pub(crate) fn is_resource(&self) -> bool {
        matches!(self, Self::Socket { .. })
    }

    /// Whether the target was too slow, rather than absent.
    pub(crate) fn is_timeout(&self) -> bool {
        matches!(self, Self::Timeout { .. })
    }
}

/// A number of attempts, for dividing time among them.
fn shares(left: usize) -> u32 {
    u32::try_from(left).unwrap_or(u32::MAX).max(1)
}
