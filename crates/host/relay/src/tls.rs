//! Byte streams with TLS ended on the client's side, begun on the server's, or both.
//!
//! - The end of a direction is `close_notify` and FIN on a side with TLS, FIN alone on one without. It is
//!   passed on as what the other side speaks, and leaves the other direction open.
//! - A side with TLS that ends without `close_notify` was cut off, by whoever (RFC 8446 §6.1): that, a
//!   reset, a timeout and a limit are a reset on the other side, never an end.
//! - The client's handshake comes first: nobody makes connections to the server who cannot finish it.
//! - No application protocol (ALPN) is agreed on with either side, so that both speak the same: HTTP
//!   clients fall back to HTTP/1.1.

pub(crate) mod authority;
mod certificates;
mod direction;
pub(crate) mod settings;
mod socket;

use std::future::{Future, poll_fn};
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;

use profile::Side;
use sys::tcp_info::TcpInfo;
use tokio::net::TcpStream;
use tokio::sync::Semaphore;
use tokio::time::{Instant, timeout, timeout_at};

use crate::ending::{Ended, Idle, both_closed, failure};
use crate::event::{ConnectionDone, EndedBy, Event, Events, Phase, SideReport, TlsReport};
use crate::looks::Looks;
use crate::meter::Presence;
use crate::upstream::{Connected, Group, Place};
use crate::{Balancing, TlsRelay};
use direction::Direction;
use settings::Settings;
use socket::{Socket, Stream};

/// What the clients of one relay with TLS share.
pub(crate) struct Tls {
    pub(crate) relay: Arc<TlsRelay>,
    settings: Settings,
    /// Of each way of the settings.
    targets: Vec<Arc<Group>>,
    handshakes: Semaphore,
    events: Events,
    looks: Looks,
}

/// One client's connection, and the one to the target once there is one. Told of and closed with this.
struct Relayed {
    service: Arc<Tls>,
    id: u64,
    client: Arc<TcpStream>,
    peer: SocketAddr,
    presence: Arc<Presence>,
    accepted_at: Instant,
    server: Option<(Arc<TcpStream>, SocketAddr)>,
    /// Where it counts as open.
    place: Option<Place>,
    connect_seconds: Option<f64>,
    connected_at: Option<Instant>,
    client_tls: Option<TlsReport>,
    server_tls: Option<TlsReport>,
    up: Direction,
    down: Direction,
    closed_first: Option<Side>,
    phase: Phase,
    ended: Option<Ended>,
}

// === impl Tls ===

impl Tls {
    pub(crate) fn new(relay: Arc<TlsRelay>, settings: Settings, events: Events) -> Self {
        let front = &relay.front;
        let targets = settings.ways.iter().map(|way| {
            let balancing = Balancing {
                also: way.also.clone(),
                ..front.balancing.clone()
            };
            let events = Arc::clone(&events);
            Group::new(&way.target, &balancing, &front.server_profile, events)
        });
        Self {
            targets: targets.collect(),
            settings,
            handshakes: Semaphore::new(relay.limits.handshakes.min(Semaphore::MAX_PERMITS)),
            relay,
            events,
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
            client: Arc::new(client),
            peer,
            presence,
            accepted_at: Instant::now(),
            server: None,
            place: None,
            connect_seconds: None,
            connected_at: None,
            client_tls: None,
            server_tls: None,
            up: Direction::default(),
            down: Direction::default(),
            closed_first: None,
            phase: Phase::ClientHandshake,
            ended: None,
        };
        relayed.ended = Some(relayed.relay().await.unwrap_or_else(|ended| ended));
    }
}

// === impl Relayed ===

impl Relayed {
    async fn relay(&mut self) -> Result<Ended, Ended> {
        let client = self.meet_client().await?;
        let server = self.meet_server().await?;
        self.phase = Phase::Data;
        Ok(self.forward(client, server).await)
    }

    /// Shakes hands with the client where it speaks TLS.
    async fn meet_client(&mut self) -> Result<Stream, Ended> {
        let socket = Socket(Arc::clone(&self.client));
        let service = Arc::clone(&self.service);
        let Some(acceptor) = &service.settings.acceptor else {
            return Ok(Stream::Plain(socket));
        };
        let deadline = self.accepted_at + service.relay.limits.handshake_timeout;
        let handshake = async {
            // Never closed, so a place always comes.
            let _place = service.handshakes.acquire().await;
            acceptor.accept(socket).await
        };
        let stream = timeout_at(deadline, handshake)
            .await
            .map_err(|_elapsed| Ended::timeout("the client's TLS handshake took too long"))?
            .map_err(|error| Ended::failed(EndedBy::Client, &error))?;
        let stream = Stream::Tls(Box::new(stream.into()));
        self.client_tls = stream.report();
        Ok(stream)
    }

    /// Connects to the target, and shakes hands where it is spoken to with TLS.
    async fn meet_server(&mut self) -> Result<Stream, Ended> {
        self.phase = Phase::Connecting;
        let service = Arc::clone(&self.service);
        let (front, limits) = (&service.relay.front, service.relay.limits);
        let asked_for = self.client_tls.as_ref();
        let asked_for = asked_for.and_then(|tls| tls.server_name.as_deref());
        let way = service.settings.way(asked_for);
        let started = Instant::now();
        let Connected {
            stream,
            peer,
            applied,
            place,
        } = service.targets[way]
            .connect(limits.connect_timeout)
            .await
            .map_err(|error| Ended::not_connected(&error))?;
        self.place = Some(place);
        self.connect_seconds = Some(started.elapsed().as_secs_f64());
        self.connected_at = Some(Instant::now());
        self.presence.reached(&stream, peer);
        let profile = &front.server_profile;
        service
            .looks
            .at_connected(&service.events, profile, applied);
        let stream = Arc::new(stream);
        let socket = Socket(Arc::clone(&stream));
        self.server = Some((stream, peer));
        let name = &service.settings.ways[way].server_name;
        let (Some(connector), Some(name)) = (&service.settings.connector, name) else {
            return Ok(Stream::Plain(socket));
        };
        self.phase = Phase::ServerHandshake;
        let handshake = connector.connect(name.clone(), socket);
        let stream = timeout(limits.handshake_timeout, handshake)
            .await
            .map_err(|_elapsed| Ended::timeout("the target's TLS handshake took too long"))?
            .map_err(|error| Ended::failed(EndedBy::Server, &error))?;
        let stream = Stream::Tls(Box::new(stream.into()));
        self.server_tls = stream.report().map(|report| TlsReport {
            server_name: Some(name.to_str().into_owned()),
            ..report
        });
        Ok(stream)
    }

    /// Forwards until both directions have ended, or one side breaks.
    async fn forward(&mut self, mut client: Stream, mut server: Stream) -> Ended {
        let limits = self.service.relay.limits;
        let mut idle = Idle::new(limits.idle_timeout, limits.half_closed_timeout);
        let Self {
            client: client_socket,
            server: Some((server_socket, _)),
            up,
            down,
            closed_first,
            phase,
            ..
        } = self
        else {
            return Ended::timeout("there is no connection to the target");
        };
        let mut client_failure = pin!(failure(client_socket));
        let mut server_failure = pin!(failure(server_socket));
        poll_fn(|context| {
            if let Poll::Ready(Err(broken)) = up.poll(context, &mut client, &mut server) {
                return Poll::Ready(Ended::broken(broken, EndedBy::Client, EndedBy::Server));
            }
            if let Poll::Ready(Err(broken)) = down.poll(context, &mut server, &mut client) {
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
            stands_for: None,
            server: self.server.as_ref().map(|(_, peer)| *peer),
            bytes_up: self.up.given(),
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
            client_tls: self.client_tls.take(),
            server_tls: self.server_tls.take(),
        })));
        if ended.by == EndedBy::Completed {
            return;
        }
        // Closed with a FIN, what came so far would look like the whole. In the client's handshake nothing
        // has come, and a reset could overtake the alert that says why it failed.
        if self.phase != Phase::ClientHandshake {
            let _ = self.client.set_zero_linger();
        }
        if let Some((server, _)) = &self.server {
            let _ = server.set_zero_linger();
        }
    }
}

impl Drop for Relayed {
    fn drop(&mut self) {
        self.tell();
    }
}
