use std::io;
use std::net::SocketAddr;
use std::sync::atomic::Ordering;
use std::time::Duration;

use profile::Side;
use sys::socket::{self, ApplyError};
use sys::tcp_info::{TcpInfo, TcpInfoError};
use tokio::net::{TcpSocket, TcpStream, lookup_host};
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::{Instant, timeout_at};
use units::Rate;

use super::{Connection, Pool};
use crate::event::Event;

/// Faster than any path, and finite: any bound switches the kernel's own pacing on, at 1.2 to 2 windows
/// per round trip (`tcp_update_pacing_rate` in `net/ipv4/tcp_input.c`).
const PACED_BY_WINDOW: Rate = Rate::mbit_per_s(400_000);

/// No connection to the origin could be had.
#[derive(Debug, thiserror::Error)]
pub(crate) enum DialError {
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
    #[error("cannot look at the new connection to {peer}")]
    Inspect {
        peer: SocketAddr,
        #[source]
        source: TcpInfoError,
    },
    #[error("all {connections} connections to the origin were in use for {}", units::format_span(*.waited))]
    Exhausted {
        connections: usize,
        waited: Duration,
    },
}

impl DialError {
    /// Whether the origin was too slow, rather than absent.
    pub(crate) fn is_timeout(&self) -> bool {
        matches!(self, Self::Timeout { .. })
    }

    /// Whether this relay or its host ran out of something.
    pub(crate) fn is_resource(&self) -> bool {
        matches!(self, Self::Exhausted { .. } | Self::Socket { .. })
    }
}

impl Pool {
    /// Makes a connection with the server-side profile in effect, paced where the path's rate is known.
    pub(super) async fn dial(
        &self,
        slot: OwnedSemaphorePermit,
        deadline: Instant,
    ) -> Result<Connection, DialError> {
        let started = Instant::now();
        let target = &self.relay.target;
        let dialled = timeout_at(deadline, self.dial_any()).await;
        let (stream, peer, congestion) = dialled.map_err(|_elapsed| DialError::Timeout {
            host: target.to_string(),
            waited: self.relay.limits.connect_timeout,
        })??;
        let info = TcpInfo::of(&stream).map_err(|source| DialError::Inspect { peer, source })?;
        self.pace(&stream, &info, peer)
            .map_err(DialError::Profile)?;
        let id = self.next_id.fetch_add(1, Ordering::Relaxed);
        self.emit(Event::Connected {
            connection: id,
            peer,
            rtt_s: info.rtt.as_secs_f64(),
            seconds: started.elapsed().as_secs_f64(),
        });
        let now = Instant::now();
        Ok(Connection {
            id,
            stream,
            peer,
            forgets_windows: self.forgets_windows && congestion.as_deref() != Some("bbr"),
            born: now,
            used: now,
            requests: 0,
            primings: 0,
            hot_window: None,
            told_cool: false,
            _slot: slot,
        })
    }

    /// Tries the target's addresses in the resolver's order; the error is the last one's.
    /// With the congestion control that is in effect, where the profile chose one.
    async fn dial_any(&self) -> Result<(TcpStream, SocketAddr, Option<String>), DialError> {
        let target = &self.relay.target;
        let host = || target.host.clone();
        let addresses = lookup_host((target.host.as_str(), target.port))
            .await
            .map_err(|source| DialError::Resolve {
                host: host(),
                source,
            })?;
        let mut failure = DialError::NoAddress { host: host() };
        for peer in addresses {
            match self.dial_one(peer).await {
                Ok((stream, congestion)) => return Ok((stream, peer, congestion)),
                Err(error) => failure = error,
            }
        }
        Err(failure)
    }

    async fn dial_one(&self, peer: SocketAddr) -> Result<(TcpStream, Option<String>), DialError> {
        let socket = if peer.is_ipv4() {
            TcpSocket::new_v4()
        } else {
            TcpSocket::new_v6()
        };
        let socket = socket.map_err(|source| DialError::Socket { peer, source })?;
        // Before connecting: congestion control decides on the very first window.
        let profile = &self.relay.server_profile;
        let applied =
            socket::apply(&socket, profile, Side::Server, peer).map_err(DialError::Profile)?;
        let stream = socket
            .connect(peer)
            .await
            .map_err(|source| DialError::Connect { peer, source })?;
        let congestion = applied
            .iter()
            .find(|applied| applied.option == "TCP_CONGESTION");
        let congestion = congestion.map(|applied| applied.effective.clone());
        self.report_connected(applied);
        Ok((stream, congestion))
    }

    /// Spaces segments, so that a window that leaves after silence does not leave as one burst into a
    /// queue that cannot hold it: at the path's rate where it is known, else at a multiple of the window
    /// per round trip, as the kernel does for every paced connection.
    ///
    /// The kernel counts payload (`tcp_update_skb_after_send` in `net/ipv4/tcp_output.c`), a path's rate
    /// counts IP packets, so the share of the headers is taken off. Known only now: it depends on the
    /// segment size.
    fn pace(&self, stream: &TcpStream, info: &TcpInfo, peer: SocketAddr) -> Result<(), ApplyError> {
        let rate = match self.relay.path_rate {
            None => PACED_BY_WINDOW,
            Some(path_rate) => {
                let payload = u128::from(info.snd_mss.get().max(1));
                // TCP header with timestamps: 32 bytes.
                let headers = if peer.is_ipv4() { 20 + 32 } else { 40 + 32 };
                let scaled = u128::from(path_rate.bits_per_s()) * payload / (payload + headers);
                u64::try_from(scaled).map_or(path_rate, Rate::bit_per_s)
            }
        };
        self.pace_at(stream, rate, peer)
    }

    /// Spaces segments at a rate of payload bits, unless the profile sets a lower one.
    pub(super) fn pace_at(
        &self,
        stream: &TcpStream,
        rate: Rate,
        peer: SocketAddr,
    ) -> Result<(), ApplyError> {
        let bound = self.relay.server_profile.max_pacing_rate.unwrap_or(rate);
        socket::set_pacing_rate(stream, rate.min(bound), Side::Server, peer).map(|_applied| ())
    }
}
