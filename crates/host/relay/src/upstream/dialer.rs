//! Connections with one profile.

use std::net::{IpAddr, SocketAddr};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use profile::{Side, TcpProfile};
use sys::socket::{self, Applied, ApplyError};
use tokio::net::{TcpSocket, TcpStream};
use tokio::time::{Instant, timeout_at};

use super::{ConnectError, Connected, shares};

/// How long connections are made without reading every option back. Short enough that a setting of the host that
/// changes is noticed while somebody looks; per connection, reading back took 8 of 50 system calls.
const TRUSTED: Duration = Duration::from_secs(1);

/// Connects with one profile, which is in effect on every socket before its first segment. All options are read
/// back on the first connection and on one per second after that; on the others those that the kernel could bend.
pub(crate) struct Dialer {
    profile: TcpProfile,
    trusted_until: Mutex<Option<Instant>>,
}

/// How a profile is put on a socket.
type Apply = fn(&TcpSocket, &TcpProfile, Side, SocketAddr) -> Result<Vec<Applied>, ApplyError>;

// === impl Dialer ===

impl Dialer {
    pub(crate) fn new(profile: &TcpProfile) -> Self {
        Self {
            profile: profile.clone(),
            trusted_until: Mutex::default(),
        }
    }

    pub(super) fn profile(&self) -> &TcpProfile {
        &self.profile
    }

    /// A connection to the first of a host's addresses that takes one, each with its share of the time.
    pub(crate) async fn connect_any(
        &self,
        addresses: &[SocketAddr],
        host: &str,
        deadline: Instant,
    ) -> Result<Connected, ConnectError> {
        let started = Instant::now();
        let mut failure = ConnectError::NoAddress { host: host.into() };
        for (index, &peer) in addresses.iter().enumerate() {
            let left = deadline.saturating_duration_since(Instant::now());
            let until = Instant::now() + left / shares(addresses.len() - index);
            match timeout_at(until, self.connect_from(None, peer)).await {
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

    /// A connection to one address, from a source address that need not be this host's, and what was read back.
    pub(crate) async fn connect_from(
        &self,
        from: Option<IpAddr>,
        peer: SocketAddr,
    ) -> Result<(TcpStream, Vec<Applied>), ConnectError> {
        let apply: Apply = if self.is_trusted() {
            socket::apply_again
        } else {
            socket::apply
        };
        connect(from, &self.profile, peer, apply).await
    }

    /// Whether options were read back a moment ago. Whoever is told that they were not does it.
    fn is_trusted(&self) -> bool {
        let now = Instant::now();
        // One value: valid whatever its holder was doing when it panicked.
        let mut until = self
            .trusted_until
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let trusted = until.is_some_and(|until| now < until);
        if !trusted {
            *until = Some(now + TRUSTED);
        }
        trusted
    }
}

/// A connection to one address, and all options as they were read back.
pub(crate) async fn connect_to(
    profile: &TcpProfile,
    peer: SocketAddr,
) -> Result<(TcpStream, Vec<Applied>), ConnectError> {
    connect(None, profile, peer, socket::apply).await
}

async fn connect(
    from: Option<IpAddr>,
    profile: &TcpProfile,
    peer: SocketAddr,
    apply: Apply,
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
    let applied = apply(&socket, profile, Side::Server, peer).map_err(ConnectError::Profile)?;
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

#[cfg(test)]
mod tests {
    use tokio::net::TcpListener;

    use super::*;

    #[tokio::test]
    async fn all_options_are_read_back_once_and_again_after_a_while_and_are_in_effect_in_between() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let peer = listener.local_addr().unwrap();
        let profile = profile::builtin::lan();
        let dialer = Dialer::new(&profile);
        let (_first, all) = dialer.connect_from(None, peer).await.unwrap();
        assert!(all.len() > 1, "{all:?}");
        let (second, told) = dialer.connect_from(None, peer).await.unwrap();
        assert_eq!(told.len(), 1, "{told:?}");
        let verified = socket::verify(&second, &profile, Side::Server, peer).unwrap();
        assert_eq!(verified, all);
        *dialer.trusted_until.lock().unwrap() = Some(Instant::now());
        let (_third, again) = dialer.connect_from(None, peer).await.unwrap();
        assert_eq!(again, all);
    }
}
