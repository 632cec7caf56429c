//! Connections to a target, with the server-side profile in effect from their first segment.

use std::io;
use std::net::SocketAddr;

use profile::{Side, TcpProfile};
use sys::socket::{self, Applied, ApplyError};
use tokio::net::{TcpSocket, TcpStream, lookup_host};

use crate::Target;

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
    #[error("the server-side profile is not in effect")]
    Profile(#[source] ApplyError),
}

/// An open connection to a target.
pub(crate) struct Connected {
    pub(crate) stream: TcpStream,
    pub(crate) peer: SocketAddr,
    /// The profile's options as they were read back.
    pub(crate) applied: Vec<Applied>,
}

// === impl ConnectError ===

impl ConnectError {
    /// Whether this relay or its host ran out of something.
    pub(crate) fn is_resource(&self) -> bool {
        matches!(self, Self::Socket { .. })
    }
}

/// Tries the target's addresses in the resolver's order; the error is the last one's.
pub(crate) async fn connect(
    target: &Target,
    profile: &TcpProfile,
) -> Result<Connected, ConnectError> {
    let host = || target.host.clone();
    let addresses = lookup_host((target.host.as_str(), target.port))
        .await
        .map_err(|source| ConnectError::Resolve {
            host: host(),
            source,
        })?;
    let mut failure = ConnectError::NoAddress { host: host() };
    for peer in addresses {
        match connect_to(profile, peer).await {
            Ok(connected) => return Ok(connected),
            Err(error) => failure = error,
        }
    }
    Err(failure)
}

async fn connect_to(profile: &TcpProfile, peer: SocketAddr) -> Result<Connected, ConnectError> {
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
    Ok(Connected {
        stream,
        peer,
        applied,
    })
}
