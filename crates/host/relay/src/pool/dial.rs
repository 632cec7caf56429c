use std::io;
use std::net::SocketAddr;
use std::sync::Weak;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::Duration;

use profile::Side;
use sys::socket::{self, ApplyError};
use sys::tcp_info::{TcpInfo, TcpInfoError};
use tokio::net::TcpStream;
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::{Instant, timeout_at};
use units::{Bytes, Rate};

use super::{Connection, Pool};
use crate::event::{Event, TlsReport};
use crate::transport::{Counted, Transport};
use crate::upstream::{ConnectError, Connected};

/// Faster than any path, and finite: any bound switches the kernel's own pacing on, at 1.2 to 2 windows
/// per round trip (`tcp_update_pacing_rate` in `net/ipv4/tcp_input.c`).
const PACED_BY_WINDOW: Rate = Rate::mbit_per_s(400_000);

/// How far above the path's rate a hot connection is paced, as a fraction: 4 %. See `pace_at`.
const HEADROOM: (u64, u64) = (26, 25);

/// From here on what a receive window is in the beginning costs more than what it holds.
const LONG: Duration = Duration::from_millis(20);

/// As far as the receive window of a connection over such a path may open before the kernel has seen how fast its bytes are read: from 64 KiB, where it
/// begins, the kernel opens it a round trip later than an origin's slow start would fill it.
const FIRST_RECEIVE_WINDOW: Bytes = Bytes::mib(1);

/// No connection to the origin could be had.
#[derive(Debug, thiserror::Error)]
pub(crate) enum DialError {
    #[error(transparent)]
    Connect(ConnectError),
    #[error("cannot prepare the new connection to {peer}")]
    Prepare {
        peer: SocketAddr,
        #[source]
        source: ApplyError,
    },
    #[error("cannot look at the new connection to {peer}")]
    Inspect {
        peer: SocketAddr,
        #[source]
        source: TcpInfoError,
    },
    #[error("the TLS handshake with {peer} failed")]
    Handshake {
        peer: SocketAddr,
        #[source]
        source: io::Error,
    },
    #[error("the TLS handshake with {peer} took too long")]
    HandshakeTimeout { peer: SocketAddr },
    #[error("all {connections} connections to the origin were in use for {}", units::format_span(*.waited))]
    Exhausted {
        connections: usize,
        waited: Duration,
    },
}

impl DialError {
    /// Whether the origin was too slow, rather than absent.
    pub(crate) fn is_timeout(&self) -> bool {
        match self {
            Self::Connect(error) => error.is_timeout(),
            Self::HandshakeTimeout { .. } => true,
            Self::Prepare { .. }
            | Self::Inspect { .. }
            | Self::Handshake { .. }
            | Self::Exhausted { .. } => false,
        }
    }

    /// Whether this relay or its host ran out of something.
    pub(crate) fn is_resource(&self) -> bool {
        match self {
            Self::Exhausted { .. } => true,
            Self::Connect(error) => error.is_resource(),
            Self::Prepare { .. }
            | Self::Inspect { .. }
            | Self::Handshake { .. }
            | Self::HandshakeTimeout { .. } => false,
        }
    }
}

impl Pool {
    /// Makes a connection with the server-side profile in effect, paced where the path's rate is known, and
    /// shakes hands where the origin is spoken to with TLS.
    pub(super) async fn dial(
        &self,
        slot: OwnedSemaphorePermit,
        deadline: Instant,
    ) -> Result<Connection, DialError> {
        let started = Instant::now();
        let patience = deadline.saturating_duration_since(started);
        let connected = self.targets.connect(patience).await;
        let Connected {
            stream,
            peer,
            applied,
            congestion,
            place,
        } = connected.map_err(DialError::Connect)?;
        let keeps_windows = congestion.as_deref() == Some("bbr");
        self.looks
            .at_connected(&self.events, &self.relay.front.server_profile, applied);
        let info = TcpInfo::of(&stream).map_err(|source| DialError::Inspect { peer, source })?;
        self.pace(&stream, &info, peer)
            .map_err(|source| DialError::Prepare { peer, source })?;
        if info.rtt >= LONG {
            let window = FIRST_RECEIVE_WINDOW;
            socket::begin_receive_window_at(&stream, window, Side::Server, peer)
                .map_err(|source| DialError::Prepare { peer, source })?;
        }
        let rtt = u64::try_from(info.rtt.as_micros()).unwrap_or(u64::MAX);
        self.rtt_us.store(rtt.max(1), Ordering::Relaxed);
        let stream = self.shake_hands(stream, peer, deadline).await?;
        let id = self.next_id.fetch_add(1, Ordering::Relaxed);
        self.emit(Event::Connected {
            connection: id,
            local: stream.tcp().local_addr().ok(),
            peer,
            rtt_s: info.rtt.as_secs_f64(),
            seconds: started.elapsed().as_secs_f64(),
            tls: self.report(&stream).map(Box::new),
        });
        let now = Instant::now();
        Ok(Connection {
            id,
            stream,
            peer,
            forgets_windows: self.forgets_windows && !keeps_windows,
            born: now,
            home: thread::current().id(),
            used: now,
            requests: 0,
            primings: 0,
            hot_window: None,
            told_cool: false,
            kept_for: Weak::new(),
            _place: place,
            _slot: slot,
        })
    }

    async fn shake_hands(
        &self,
        stream: TcpStream,
        peer: SocketAddr,
        deadline: Instant,
    ) -> Result<Transport, DialError> {
        let Some((connector, name)) = &self.handshakes.connector else {
            return Ok(Transport::Plain(stream));
        };
        let handshake = connector.connect(name.clone(), Counted::new(stream));
        let stream = timeout_at(deadline, handshake)
            .await
            .map_err(|_elapsed| DialError::HandshakeTimeout { peer })?
            .map_err(|source| DialError::Handshake { peer, source })?;
        Ok(Transport::Tls(Box::new(stream.into())))
    }

    /// What was agreed on with the origin, where TLS is spoken.
    fn report(&self, stream: &Transport) -> Option<TlsReport> {
        let (_, name) = self.handshakes.connector.as_ref()?;
        let server_name = Some(name.to_str().into_owned());
        stream.report().map(|report| TlsReport {
            server_name,
            ..report
        })
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

    /// Spaces segments a little above a rate of payload bits, unless the profile sets a lower one.
    ///
    /// At exactly the path's rate, what a late timer or a busy processor holds back is never made up for:
    /// the last byte of an upload comes as late as all stalls together. The excess gathers in the path's
    /// queue, 4 % of a bandwidth-delay product per round trip while it lasts.
    pub(super) fn pace_at(
        &self,
        stream: &TcpStream,
        rate: Rate,
        peer: SocketAddr,
    ) -> Result<(), ApplyError> {
        let raised = Rate::bit_per_s(rate.bits_per_s() / HEADROOM.1 * HEADROOM.0);
        let profile = &self.relay.front.server_profile;
        let bound = profile.max_pacing_rate.unwrap_or(raised);
        socket::set_pacing_rate(stream, raised.min(bound), Side::Server, peer).map(|_applied| ())
    }
}
