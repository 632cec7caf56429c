//! Connections to a target, with the server-side profile in effect from their first segment.

mod group;
mod health;

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use profile::{Side, TcpProfile};
use sys::socket::{self, Applied, ApplyError};
use tokio::net::{TcpSocket, TcpStream};

pub(crate) use group::{Group, Place};

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
    #[error("no connection to `{host}` within {}", units::format_span(*.waited))]
    Timeout { host: String, waited: Duration },
    #[error("the server-side profile is not in effect")]
    Profile(#[source] ApplyError),
}

/// An open connection to a target.
pub(crate) struct Connected {
    pub(crate) stream: TcpStream,
    pub(crate) peer: SocketAddr,
    /// The profile's options as they were read back.
    pub(crate) applied: Vec<Applied>,
    /// For as long as it is open.
    pub(crate) place: Place,
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

/// A connection to one address, and the options as they were read back.
pub(crate) async fn connect_to(
    profile: &TcpProfile,
    peer: SocketAddr,
) -> Result<(TcpStream, Vec<Applied>), ConnectError> {
    let socket = if peer.is_ipv4() {
        TcpSocket::new_v4()
    } else {
        TcpSocket::new_v6()
    };
    let socket = socket.map_err(|source| ConnectError::Socket { peer, source })?;
    // Before connecting: congestion control decides on the very first window.
    let applied =
        socket::apply(&socket, profile, Side::Server, peer).map_err(ConnectError::Profile)?;
    let stream = socket
        .connect(peer)
        .await
        .map_err(|source| ConnectError::Connect { peer, source })?;
    let congestion = applied
        .iter()
        .find(|option| option.option == "TCP_CONGESTION");
    if let Some(chosen) = congestion {
        // Connecting may have put the route's in its place.
        socket::keep_congestion_control(&stream, &chosen.effective, Side::Server, peer)
            .map_err(ConnectError::Profile)?;
    }
    Ok((stream, applied))
}
