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
pub(crate) mod handshakes;
pub(crate) mod report;
pub(crate) mod settings;
mod socket;

use std::net::SocketAddr;
use std::sync::Arc;
use std::task::{Context, Poll};

use tokio::net::TcpStream;
use tokio::time::{Instant, timeout, timeout_at};

use crate::ending::{Broken, Ended};
use crate::event::{EndedBy, Events, Phase, TlsReport};
use crate::looks::Looks;
use crate::meter::Presence;
use crate::relayed::{Account, Directions, Patience};
use crate::throttle::Throttles;
use crate::upstream::Group;
use crate::{HttpRelay, TlsRelay};
use direction::Direction;
use handshakes::{Handshakes, Protocols, TlsError};
use settings::Settings;
use socket::{Socket, Stream};

/// What the clients of one relay with TLS share.
pub(crate) struct Tls {
    pub(crate) relay: Arc<TlsRelay>,
    pub(crate) settings: Settings,
    /// Of each way of the settings.
    targets: Vec<Arc<Group>>,
    throttles: Option<Throttles>,
    events: Events,
    looks: Looks,
}

/// One client's connection. Told of and closed with this.
struct Relayed {
    service: Arc<Tls>,
    account: Account,
    up: Direction,
    down: Direction,
}

/// Both directions between two byte streams.
struct Both<'a> {
    client: Stream,
    server: Stream,
    up: &'a mut Direction,
    down: &'a mut Direction,
    /// Of reading and writing, before others get their turn.
    turn: direction::Turn,
}

/// What an HTTP relay shakes hands with: it speaks HTTP/1.1 to both sides, and HTTP/2 to clients that can.
pub(crate) fn for_http(relay: &HttpRelay) -> Result<Handshakes, TlsError> {
    let clients: &[_] = if relay.http2 {
        &["h2", "http/1.1"]
    } else {
        &["http/1.1"]
    };
    let protocols = Protocols {
        clients,
        server: &["http/1.1"],
    };
    Handshakes::load(&relay.tls, protocols, relay.limits.handshakes)
}

// === impl Tls ===

impl Tls {
    pub(crate) fn new(relay: Arc<TlsRelay>, settings: Settings, events: Events) -> Self {
        let front = &relay.front;
        let targets = settings.ways.iter().map(|way| {
            let (profile, events) = (&front.server_profile, Arc::clone(&events));
            Group::new(&way.targets, &front.balancing, profile, events)
        });
        Self {
            targets: targets.collect(),
            throttles: Throttles::new(front.bandwidth),
            settings,
            relay,
            events,
            looks: Looks::default(),
        }
    }

    /// Serves a client until both directions have ended.
    ///
    /// As with byte streams that are not encrypted, a client that says nothing costs what this future takes.
    pub(crate) fn serve(
        self: Arc<Self>,
        id: u64,
        client: TcpStream,
        peer: SocketAddr,
        presence: Arc<Presence>,
    ) -> impl Future<Output = ()> + Send {
        let mut relayed = Relayed {
            service: self,
            account: Account::open(
                id,
                Arc::new(client),
                peer,
                presence,
                Phase::ClientHandshake,
                Instant::now(),
            ),
            up: Direction::default(),
            down: Direction::default(),
        };
        async move {
            let ended = relayed.relay().await;
            relayed.account.end(ended.unwrap_or_else(|ended| ended));
        }
    }
}

// === impl Relayed ===

impl Relayed {
    async fn relay(&mut self) -> Result<Ended, Ended> {
        let client = Box::pin(self.meet_client()).await?;
        let server = Box::pin(self.meet_server()).await?;
        self.account.enter(Phase::Data);
        let service = &self.service;
        let limits = service.relay.limits;
        let patience = Patience {
            idle: limits.idle_timeout,
            half_closed: limits.half_closed_timeout,
        };
        let throttles = service.throttles.as_ref();
        let mut both = Both {
            client,
            server,
            up: &mut self.up,
            down: &mut self.down,
            turn: direction::Turn::new(throttles.is_some()),
        };
        Ok(self.account.forward(&mut both, patience, throttles).await)
    }

    /// Shakes hands with the client where it speaks TLS.
    async fn meet_client(&mut self) -> Result<Stream, Ended> {
        let account = &mut self.account;
        let socket = Socket(Arc::clone(&account.client));
        let handshakes = &self.service.settings.handshakes;
        let Some(acceptor) = &handshakes.acceptor else {
            return Ok(Stream::Plain(socket));
        };
        let deadline = account.accepted_at + self.service.relay.limits.handshake_timeout;
        let handshake = async {
            // Never closed, so a place always comes.
            let _place = handshakes.places.acquire().await;
            acceptor.accept(socket).await
        };
        let stream = timeout_at(deadline, handshake)
            .await
            .map_err(|_elapsed| Ended::timeout("the client's TLS handshake took too long"))?
            .map_err(|error| Ended::failed(EndedBy::Client, &error))?;
        let stream = Stream::Tls(Box::new(stream.into()));
        account.client_tls = stream.report().map(Box::new);
        Ok(stream)
    }

    /// Connects to the target, and shakes hands where it is spoken to with TLS.
    async fn meet_server(&mut self) -> Result<Stream, Ended> {
        let (account, service) = (&mut self.account, &self.service);
        account.enter(Phase::Connecting);
        let limits = service.relay.limits;
        let asked_for = account.client_tls.as_ref();
        let asked_for = asked_for.and_then(|tls| tls.server_name.as_deref());
        let way = service.settings.way(asked_for);
        let started = Instant::now();
        let connected = service.targets[way]
            .connect(limits.connect_timeout)
            .await
            .map_err(|error| Ended::not_connected(&error))?;
        let (front, looks, events) = (&service.relay.front, &service.looks, &service.events);
        let socket = Socket(account.connected(connected, started, front, looks, events));
        let name = &service.settings.ways[way].server_name;
        let connector = service.settings.handshakes.connector.as_ref();
        let (Some((connector, _)), Some(name)) = (connector, name) else {
            return Ok(Stream::Plain(socket));
        };
        account.enter(Phase::ServerHandshake);
        let handshake = connector.connect(name.clone(), socket);
        let stream = timeout(limits.handshake_timeout, handshake)
            .await
            .map_err(|_elapsed| Ended::timeout("the target's TLS handshake took too long"))?
            .map_err(|error| Ended::failed(EndedBy::Server, &error))?;
        let stream = Stream::Tls(Box::new(stream.into()));
        account.server_tls = stream.report().map(|report| {
            Box::new(TlsReport {
                server_name: Some(name.to_str().into_owned()),
                ..report
            })
        });
        Ok(stream)
    }
}

impl Drop for Relayed {
    fn drop(&mut self) {
        let service = &self.service;
        let (front, looks, events) = (&service.relay.front, &service.looks, &service.events);
        let (up, down) = (self.up.given(), self.down.given());
        self.account.settle(up, down, front, looks, events);
    }
}

// === impl Both ===

impl Directions for Both<'_> {
    fn poll_up(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Broken>> {
        let (source, sink) = (&mut self.client, &mut self.server);
        self.up.poll(context, source, sink, self.turn)
    }

    fn poll_down(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Broken>> {
        let (source, sink) = (&mut self.server, &mut self.client);
        self.down.poll(context, source, sink, self.turn)
    }

    fn given(&self) -> (u64, u64) {
        (self.up.given(), self.down.given())
    }

    fn are_closed(&self) -> (bool, bool) {
        (self.up.is_closed(), self.down.is_closed())
    }
}
