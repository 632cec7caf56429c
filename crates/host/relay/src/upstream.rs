//! Connections to a target, with the server-side profile in effect from their first segment.

mod group;
mod health;

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use profile::{Side, TcpProfile};
use sys::socket::{self, Applied, ApplyError};
use tokio::net::{TcpSocket, TcpStream};
use tokio::time::{Instant, timeout_at};

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
pub(crate) struct Connected {
    pub(crate) stream: TcpStream,
    pub(crate) peer: SocketAddr,
    /// The profile's options as they were read back.
    pub(crate) applied: Vec<Applied>,
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

/// A connection to the first of a host's addresses that takes one, each with its share of the time.
pub(crate) async fn connect_any(
    profile: &TcpProfile,
    addresses: &[SocketAddr],
    host: &str,
    deadline: Instant,
) -> Result<Connected, ConnectError> {
    let started = Instant::now();
    let mut failure = ConnectError::NoAddress { host: host.into() };
    for (index, &peer) in addresses.iter().enumerate() {
        let left = deadline.saturating_duration_since(Instant::now());
        let until = Instant::now() + left / shares(addresses.len() - index);
        match timeout_at(until, connect_to(profile, peer)).await {
            Ok(Ok((stream, applied))) => {
                return Ok(Connected {
                    stream,
                    peer,
                    applied,
                    place: None,
                });
            }
            Ok(Err(error)) if error.is_resource() => return Err(error),
            Ok(Err(error)) => failure = error,
            Err(_elapsed) => {
                failure = ConnectError::Timeout {
                    host: host.into(),
                    waited: started.elapsed(),
                }
            }
        }
    }
    Err(failure)
}

/// A number of attempts, for dividing time among them.
fn shares(left: usize) -> u32 {
    u32::try_from(left).unwrap_or(u32::MAX).max(1)
}

/// A connection to one address, and the options as they were read back.
pub(crate) async fn connect_to(
    profile: &TcpProfile,
    peer: SocketAddr,
) -> Result<(TcpStream, Vec<Applied>), ConnectError> {
    connect_from(None, profile, peer).await
}

/// The same, with a source address that need not be this host's.
pub(crate) async fn connect_from(
    from: Option<IpAddr>,
    profile: &TcpProfile,
    peer: SocketAddr,
) -> Result<(TcpStream, Vec<Applied>), ConnectError> {
    let socket = if peer.is_ipv4() {
        TcpSocket::new_v4()
    } else {
        TcpSocket::new_v6()
    };
    let socket = socket.map_err(|source| ConnectError::Socket { peer, source })?;
    if let Some(from) = from {
        // Any port: the client's own may be in use by another connection of it.
        let from = SocketAddr::new(from, 0);
        sys::redirect::set_transparent(&socket, from.is_ipv4())
            .and_then(|()| socket.bind(from))
            .map_err(|source| ConnectError::From { from, source })?;
    }
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
