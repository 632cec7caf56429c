//! Connections with one profile.

use std::net::{IpAddr, SocketAddr, TcpStream as TcpStd};
use std::os::fd::AsFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use profile::{Side, TcpProfile};
use sys::socket::{self, Applied};
use tokio::net::{TcpSocket, TcpStream};
use tokio::time::{Instant, timeout_at};

use super::{ConnectError, Connected, shares};

/// How long connections are made without reading every option back. Short enough that a setting of the host that
/// changes is noticed while somebody looks; per connection, reading back took 8 of 50 system calls.
const TRUSTED: Duration = Duration::from_secs(1);

/// Connects with one profile, which is in effect on every socket before its first segment. All options are read
/// back on the first connection of whoever asks, and on one per second after that; on the others those that the kernel could bend.
pub(crate) struct Dialer {
    profile: TcpProfile,
    shown: Mutex<Option<Shown>>,
}

/// That a profile is in effect, as it was read back.
#[derive(Debug)]
pub(crate) struct Shown {
    /// How long that is trusted.
    until: Instant,
    congestion: Option<Arc<str>>,
}

/// A socket with a profile in effect on it.
pub(crate) struct Prepared {
    socket: TcpStd,
    applied: Vec<Applied>,
    congestion: Option<Arc<str>>,
}

// === impl Dialer ===

impl Dialer {
    pub(crate) fn new(profile: &TcpProfile) -> Self {
        Self {
            profile: profile.clone(),
            shown: Mutex::default(),
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
        let mut failure = None;
        for (index, &peer) in addresses.iter().enumerate() {
            let now = Instant::now();
            let left = deadline.saturating_duration_since(now);
            let until = now + left / shares(addresses.len() - index);
            match timeout_at(until, self.connect_from(None, peer)).await {
                Ok(Ok(connected)) => return Ok(connected),
                Ok(Err(error)) if error.is_resource() => return Err(error),
                Ok(Err(error)) => failure = Some(error),
                Err(_elapsed) => {
                    failure = Some(ConnectError::Timeout {
                        host: host.into(),
                        waited: started.elapsed(),
                    });
                }
            }
        }
        Err(failure.unwrap_or_else(|| ConnectError::NoAddress { host: host.into() }))
    }

    /// A connection to one address, from a source address that need not be this host's.
    pub(crate) async fn connect_from(
        &self,
        from: Option<IpAddr>,
        peer: SocketAddr,
    ) -> Result<Connected, ConnectError> {
        let prepared = self.prepare(from, peer, &mut self.shown())?;
        prepared.connect(peer).await
    }

    /// A socket that can connect to such an address. `shown` is what whoever asks has seen of this dialer's sockets: nothing at first.
    pub(super) fn prepare(
        &self,
        from: Option<IpAddr>,
        peer: SocketAddr,
        shown: &mut Option<Shown>,
    ) -> Result<Prepared, ConnectError> {
        let socket = socket_for(from, peer)?;
        let again = |shown: &Shown| {
            let name = shown.congestion.as_deref();
            socket::apply_again(&socket, &self.profile, name, Side::Server, peer).is_ok()
        };
        let now = Instant::now();
        let trusted = shown.as_ref().filter(|shown| now < shown.until);
        if let Some(shown) = trusted.filter(|shown| again(shown)) {
            return Ok(Prepared {
                congestion: shown.congestion.clone(),
                socket,
                applied: Vec::new(),
            });
        }
        // Where it is no longer as it was, something else that the profile names may do, or the error tells.
        let prepared = Prepared::with(socket, &self.profile, peer)?;
        *shown = Some(Shown {
            until: now + TRUSTED,
            congestion: prepared.congestion.clone(),
        });
        Ok(prepared)
    }

    fn shown(&self) -> MutexGuard<'_, Option<Shown>> {
        // One value: valid whatever its holder was doing when it panicked.
        self.shown.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A connection to one address, and all options as they were read back.
pub(crate) async fn connect_to(
    profile: &TcpProfile,
    peer: SocketAddr,
) -> Result<(TcpStream, Vec<Applied>), ConnectError> {
    let prepared = Prepared::with(socket_for(None, peer)?, profile, peer)?;
    let connected = prepared.connect(peer).await?;
    Ok((connected.stream, connected.applied))
}

fn socket_for(from: Option<IpAddr>, peer: SocketAddr) -> Result<TcpStd, ConnectError> {
    let socket =
        socket::unconnected(peer).map_err(|source| ConnectError::Socket { peer, source })?;
    if let Some(from) = from {
        // Any port: the client's own may be in use by another connection of it.
        let from = SocketAddr::new(from, 0);
        sys::redirect::set_transparent(&socket, from.is_ipv4())
            .and_then(|()| socket::bind(&socket, from))
            .map_err(|source| ConnectError::From { from, source })?;
    }
    Ok(socket)
}

// === impl Prepared ===

impl Prepared {
    /// Before connecting: congestion control decides on the very first window.
    fn with(socket: TcpStd, profile: &TcpProfile, peer: SocketAddr) -> Result<Self, ConnectError> {
        let applied = socket::apply(&socket, profile, Side::Server, peer);
        let applied = applied.map_err(ConnectError::Profile)?;
        let congestion = applied.iter().find(|one| one.option == "TCP_CONGESTION");
        Ok(Self {
            socket,
            congestion: congestion.map(|one| one.effective.as_str().into()),
            applied,
        })
    }

    async fn connect(self, peer: SocketAddr) -> Result<Connected, ConnectError> {
        let connecting = TcpSocket::from_std_stream(self.socket).connect(peer);
        let stream = connecting
            .await
            .map_err(|source| ConnectError::Connect { peer, source })?;
        Connected {
            stream,
            peer,
            applied: self.applied,
            congestion: self.congestion,
            place: None,
        }
        .with_its_congestion()
    }

    /// Begins to connect. The socket is writable when that is over: see [`Connected::over`].
    pub(super) fn begin(self, peer: SocketAddr) -> Result<Connected<TcpStd>, ConnectError> {
        socket::connect(&self.socket, peer)
            .map_err(|source| ConnectError::Connect { peer, source })?;
        Ok(Connected {
            stream: self.socket,
            peer,
            applied: self.applied,
            congestion: self.congestion,
            place: None,
        })
    }
}

// === impl Connected ===

impl<S: AsFd> Connected<S> {
    /// What has come of connecting, where that was only begun: it may have `failed`.
    pub(crate) fn over(self, failed: bool) -> Result<Self, ConnectError> {
        let peer = self.peer;
        if failed {
            socket::take_error(&self.stream)
                .map_err(|source| ConnectError::Connect { peer, source })?;
        }
        self.with_its_congestion()
    }

    /// Connecting may have put the route's congestion control in the place of the profile's.
    fn with_its_congestion(self) -> Result<Self, ConnectError> {
        if let Some(name) = &self.congestion {
            socket::keep_congestion_control(&self.stream, name, Side::Server, self.peer)
                .map_err(ConnectError::Profile)?;
        }
        Ok(self)
    }
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
        let first = dialer.connect_from(None, peer).await.unwrap();
        assert!(first.applied.len() > 1, "{:?}", first.applied);
        let second = dialer.connect_from(None, peer).await.unwrap();
        assert_eq!(second.applied, []);
        assert_eq!(second.congestion, first.congestion);
        let verified = socket::verify(&second.stream, &profile, Side::Server, peer).unwrap();
        assert_eq!(verified, first.applied);
        dialer.shown().as_mut().unwrap().until = Instant::now();
        let third = dialer.connect_from(None, peer).await.unwrap();
        assert_eq!(third.applied, first.applied);
    }
}
