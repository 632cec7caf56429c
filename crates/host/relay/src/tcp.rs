//! Byte streams: each client gets a connection of its own to the target, and bytes pass unchanged in both
//! directions.
//!
//! - Bulk passes by splice(2) through pipes that are lent while bytes are inside ([`reserve`]); small
//!   messages are read and written at once, through memory that no connection holds ([`direction`]).
//! - A FIN is passed on as a FIN, after all bytes before it, and leaves the other direction open.
//! - A reset, a timeout or a limit on one side is a reset on the other, so that nobody takes what came
//!   for the whole. Bytes under way are dropped with it.
//! - Urgent data stays where it is in the stream, as ordinary bytes; its mark is not passed on. That is
//!   what RFC 6093 §6 asks of applications, since middleboxes clear the mark anyway.

mod direction;
mod reserve;

use std::future::{Future, poll_fn};
use std::io;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;

use profile::Side;
use sys::tcp_info::TcpInfo;
use tokio::net::TcpStream;
use tokio::time::{Instant, timeout};

use crate::TcpRelay;
use crate::ending::{Ended, Idle, both_closed, failure};
use crate::event::{ConnectionDone, EndedBy, Event, Events, Phase, SideReport};
use crate::looks::Looks;
use crate::meter::Presence;
use crate::proxy_protocol::{self, Endpoints, Header};
use crate::upstream::{Connected, Group, Place};
use direction::Direction;
use reserve::Reserve;

/// What the clients of one byte-stream relay share.
pub(crate) struct Tcp {
    pub(crate) relay: Arc<TcpRelay>,
    targets: Arc<Group>,
    events: Events,
    reserve: Arc<Reserve>,
    looks: Looks,
}

/// One client's connection, and the one to the target once there is one. Told of and closed with this.
struct Relayed {
    service: Arc<Tcp>,
    id: u64,
    client: TcpStream,
    peer: SocketAddr,
    presence: Arc<Presence>,
    accepted_at: Instant,
    stands_for: Option<SocketAddr>,
    server: Option<(TcpStream, SocketAddr)>,
    /// Where it counts as open.
    place: Option<Place>,
    connect_seconds: Option<f64>,
    connected_at: Option<Instant>,
    up: Direction,
    down: Direction,
    /// Bytes of our own PROXY header, which are not the client's.
    header: u64,
    closed_first: Option<Side>,
    phase: Phase,
    ended: Option<Ended>,
}

/// A client's PROXY header did not come.
#[derive(Debug, thiserror::Error)]
enum HeaderError {
    #[error("cannot read the PROXY header")]
    Read(#[source] io::Error),
    #[error("the connection ended inside the PROXY header")]
    Ended,
    #[error("the PROXY header is refused")]
    Malformed(#[source] proxy_protocol::Malformed),
}

// === impl Tcp ===

impl Tcp {
    pub(crate) fn new(relay: Arc<TcpRelay>, events: Events) -> Self {
        let front = &relay.front;
        Self {
            targets: Group::new(
                &front.target,
                &front.balancing,
                &front.server_profile,
                Arc::clone(&events),
            ),
            relay,
            events,
            reserve: Arc::default(),
            looks: Looks::default(),
        }
    }

    /// Serves a client until both directions have ended.
    pub(crate) async fn serve(
        self: Arc<Self>,
        id: u64,
        client: TcpStream,
        peer: SocketAddr,
        presence: Arc<Presence>,
    ) {
        let mut relayed = Relayed {
            service: self,
            id,
            client,
            peer,
            presence,
            accepted_at: Instant::now(),
            stands_for: None,
            server: None,
            place: None,
            connect_seconds: None,
            connected_at: None,
            up: Direction::default(),
            down: Direction::default(),
            header: 0,
            closed_first: None,
            phase: Phase::Connecting,
            ended: None,
        };
        relayed.ended = Some(match relayed.connect().await {
            Ok(()) => relayed.forward().await,
            Err(ended) => ended,
        });
    }
}

// === impl Relayed ===

impl Relayed {
    /// Reads the client's PROXY header where one is due, connects, and makes ours ready.
    async fn connect(&mut self) -> Result<(), Ended> {
        let service = Arc::clone(&self.service);
        let mut first = Vec::new();
        let mut endpoints = None;
        if service.relay.accept_proxy {
            self.phase = Phase::ProxyHeader;
            let patience = service.relay.limits.header_timeout;
            let header = timeout(patience, read_header(&self.client, &mut first)).await;
            let header = header
                .map_err(|_elapsed| Ended::timeout("the PROXY header did not come in time"))?
                .map_err(|error| Ended::because(EndedBy::Client, &error))?;
            first.drain(..header.length);
            endpoints = header.endpoints;
            self.stands_for = endpoints.map(|endpoints| endpoints.source);
            self.phase = Phase::Connecting;
        }
        if let Some(version) = service.relay.send_proxy {
            let header = proxy_protocol::write(version, self.stands_between(endpoints)?);
            self.header = u64::try_from(header.len()).unwrap_or(u64::MAX);
            first.splice(..0, header);
        }
        let started = Instant::now();
        let patience = service.relay.limits.connect_timeout;
        let Connected {
            stream,
            peer,
            applied,
            place,
        } = service
            .targets
            .connect(patience)
            .await
            .map_err(|error| Ended::not_connected(&error))?;
        sys::socket::keep_urgent_inline(&stream)
            .map_err(|error| Ended::because(EndedBy::Server, &error))?;
        self.connect_seconds = Some(started.elapsed().as_secs_f64());
        self.connected_at = Some(Instant::now());
        self.presence.reached(&stream, peer);
        let profile = &service.relay.front.server_profile;
        service
            .looks
            .at_connected(&service.events, profile, applied);
        self.place = Some(place);
        self.server = Some((stream, peer));
        self.up = Direction::beginning_with(&first);
        self.phase = Phase::Data;
        Ok(())
    }

    /// What our PROXY header says: what the client's said, or the client's connection itself.
    fn stands_between(&self, endpoints: Option<Endpoints>) -> Result<Endpoints, Ended> {
        if let Some(endpoints) = endpoints {
            return Ok(endpoints);
        }
        let local = self.client.local_addr();
        local
            .map(|destination| Endpoints {
                source: self.peer,
                destination,
            })
            .map_err(|error| Ended::because(EndedBy::Client, &error))
    }

    /// Forwards until both directions have ended, or one side breaks.
    async fn forward(&mut self) -> Ended {
        let service = Arc::clone(&self.service);
        let Self {
            client,
            server: Some((server, _)),
            up,
            down,
            closed_first,
            phase,
            ..
        } = self
        else {
            return Ended::timeout("there is no connection to the target");
        };
        let (client, server) = (&*client, &*server);
        let limits = service.relay.limits;
        let mut idle = Idle::new(limits.idle_timeout, limits.half_closed_timeout);
        let mut client_failure = pin!(failure(client));
        let mut server_failure = pin!(failure(server));
        poll_fn(|context| {
            if let Poll::Ready(Err(broken)) = up.poll(context, client, server, &service.reserve) {
                return Poll::Ready(Ended::broken(broken, EndedBy::Client, EndedBy::Server));
            }
            if let Poll::Ready(Err(broken)) = down.poll(context, server, client, &service.reserve) {
                return Poll::Ready(Ended::broken(broken, EndedBy::Server, EndedBy::Client));
            }
            if both_closed(up.is_closed(), down.is_closed(), closed_first, phase) {
                return Poll::Ready(Ended::completed());
            }
            if let Poll::Ready(error) = client_failure.as_mut().poll(context) {
                return Poll::Ready(Ended::failed(EndedBy::Client, &error));
            }
            if let Poll::Ready(error) = server_failure.as_mut().poll(context) {
                return Poll::Ready(Ended::failed(EndedBy::Server, &error));
            }
            let moved = up.given() + down.given();
            let closing = *phase == Phase::Closing;
            idle.poll(context, moved, closing)
        })
        .await
    }

    fn tell(&mut self) {
        let ended = self.ended.take().unwrap_or_else(|| Ended {
            by: EndedBy::Relay,
            error: Some("the relay stopped before the connection was over".into()),
        });
        let service = &self.service;
        let front = &service.relay.front;
        let side = |stream: &TcpStream, since: Instant| {
            let info = TcpInfo::of(stream).ok()?;
            Some(SideReport::of(&info, since.elapsed()))
        };
        if ended.by == EndedBy::Completed
            && let Some((server, server_peer)) = &self.server
        {
            let (looks, events) = (&service.looks, &service.events);
            looks.at_client(events, &front.client_profile, &self.client, self.peer);
            looks.at_server(events, &front.server_profile, server, *server_peer);
            looks.at_distance(events, self.peer, &self.client, server);
        }
        (service.events)(Event::ConnectionDone(Box::new(ConnectionDone {
            client: self.id,
            peer: self.peer,
            stands_for: self.stands_for,
            server: self.server.as_ref().map(|(_, peer)| *peer),
            bytes_up: self.up.given().saturating_sub(self.header),
            bytes_down: self.down.given(),
            seconds: self.accepted_at.elapsed().as_secs_f64(),
            connect_seconds: self.connect_seconds,
            closed_first: self.closed_first,
            ended_by: ended.by,
            phase: self.phase,
            error: ended.error,
            client_side: side(&self.client, self.accepted_at),
            server_side: self
                .server
                .as_ref()
                .zip(self.connected_at)
                .and_then(|((server, _), since)| side(server, since)),
            client_tls: None,
            server_tls: None,
        })));
        if ended.by != EndedBy::Completed {
            // Closed with a FIN, what came so far would look like the whole.
            let _ = self.client.set_zero_linger();
            if let Some((server, _)) = &self.server {
                let _ = server.set_zero_linger();
            }
        }
    }
}

impl Drop for Relayed {
    fn drop(&mut self) {
        self.tell();
    }
}

/// Reads until `bytes` begin with a complete PROXY header.
async fn read_header(client: &TcpStream, bytes: &mut Vec<u8>) -> Result<Header, HeaderError> {
    loop {
        if let Some(header) = proxy_protocol::parse(bytes).map_err(HeaderError::Malformed)? {
            return Ok(header);
        }
        client.readable().await.map_err(HeaderError::Read)?;
        // The parser refuses what is longer than a header may be, so this grows to twice that at most.
        bytes.reserve(proxy_protocol::LONGEST);
        match client.try_read_buf(bytes) {
            Ok(0) => return Err(HeaderError::Ended),
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(error) => return Err(HeaderError::Read(error)),
        }
    }
}
