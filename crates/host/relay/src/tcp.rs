//! Byte streams: each client gets a connection of its own to the target, and bytes pass unchanged in both
//! directions. Which target that is, [`way`] tells.
//!
//! - Bulk passes by splice(2) through pipes that are lent while bytes are inside ([`reserve`]); small
//!   messages are read and written at once, through memory that no connection holds ([`direction`]).
//! - A FIN is passed on as a FIN, after all bytes before it, and leaves the other direction open.
//! - A reset, a timeout or a limit on one side is a reset on the other, so that nobody takes what came
//!   for the whole. Bytes under way are dropped with it.
//! - Urgent data stays where it is in the stream, as ordinary bytes; its mark is not passed on. That is
//!   what RFC 6093 §6 asks of applications, since middleboxes clear the mark anyway.

mod asked;
mod direction;
pub(crate) mod plain;
mod reserve;
pub(crate) mod users;
pub(crate) mod watched;
mod way;

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::task::{Context, Poll};

use tokio::net::TcpStream;
use tokio::time::{Instant, timeout};

use crate::TcpRelay;
use crate::ending::{Broken, Ended};
use crate::event::{EndedBy, Events, Phase};
use crate::looks::Looks;
use crate::meter::Presence;
use crate::proxy_protocol::{self, Endpoints, Header};
use crate::relayed::{Account, Directions, Patience};
use crate::throttle::Throttles;
use crate::upstream::Group;
use direction::Direction;
use reserve::Reserve;
use users::{Users, UsersError};
use way::Way;

/// What the clients of one byte-stream relay share.
pub(crate) struct Tcp {
    pub(crate) relay: Arc<TcpRelay>,
    /// Who may ask for a target, where somebody has to be known.
    pub(crate) users: Option<Users>,
    way: Way,
    throttles: Option<Throttles>,
    events: Events,
    reserve: Arc<Reserve>,
    looks: Looks,
}

/// One client's connection. Told of and closed with this.
struct Relayed {
    service: Arc<Tcp>,
    account: Account,
    up: Direction,
    down: Direction,
    /// Bytes of our own PROXY header, which are not the client's.
    header: u64,
}

/// Both directions between two sockets.
struct Both<'a> {
    client: &'a TcpStream,
    server: &'a TcpStream,
    up: &'a mut Direction,
    down: &'a mut Direction,
    reserve: &'a Arc<Reserve>,
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

/// Who may ask a relay for a target; `None` where everybody may.
pub(crate) fn load_users(relay: &TcpRelay) -> Result<Option<Users>, UsersError> {
    let asking = relay.asking.as_ref();
    let file = asking.and_then(|asking| asking.users.as_deref());
    file.map(Users::load).transpose()
}

// === impl Tcp ===

impl Tcp {
    pub(crate) fn new(relay: Arc<TcpRelay>, users: Option<Users>, events: Events) -> Self {
        Self {
            way: Way::of(&relay, &events),
            throttles: Throttles::new(relay.front.bandwidth),
            relay,
            users,
            events,
            reserve: Arc::default(),
            looks: Looks::default(),
        }
    }

    /// Whether a client's connection needs nothing but two sockets: [`plain`] serves it then, unless its target's
    /// addresses have to be looked up or tried.
    pub(crate) fn is_plain(&self) -> bool {
        self.only_target().is_some()
    }

    /// The group of one target that clients go to straight.
    fn only_target(&self) -> Option<&Group> {
        let relay = &self.relay;
        let silent = !relay.accept_proxy && relay.send_proxy.is_none();
        match &self.way {
            Way::Targets(group) if silent && self.throttles.is_none() => {
                Some(&**group).filter(|group| group.has_one_target())
            }
            Way::Targets(_) | Way::Original(..) | Way::Asked(..) => None,
        }
    }

    /// Serves a client until both directions have ended.
    ///
    /// A client that says nothing costs what this future takes. So its arguments become an account before it begins, and
    /// connecting, which is over soon, has memory of its own.
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
                Phase::Connecting,
                Instant::now(),
            ),
            up: Direction::default(),
            down: Direction::default(),
            header: 0,
        };
        async move {
            let connected = Box::pin(relayed.connect()).await;
            let ended = match connected {
                Ok(server) => relayed.forward(&server).await,
                Err(ended) => ended,
            };
            relayed.account.end(ended);
        }
    }
}

// === impl Relayed ===

impl Relayed {
    /// Reads the client's PROXY header where one is due, connects, and makes ours ready.
    async fn connect(&mut self) -> Result<Arc<TcpStream>, Ended> {
        let service = Arc::clone(&self.service);
        let account = &mut self.account;
        let mut first = Vec::new();
        let mut endpoints = None;
        if service.relay.accept_proxy {
            account.enter(Phase::ProxyHeader);
            let patience = service.relay.limits.header_timeout;
            let header = timeout(patience, read_header(&account.client, &mut first)).await;
            let header = header
                .map_err(|_elapsed| Ended::timeout("the PROXY header did not come in time"))?
                .map_err(|error| Ended::because(EndedBy::Client, &error))?;
            first.drain(..header.length);
            endpoints = header.endpoints;
            account.stands_for = endpoints.map(|endpoints| endpoints.source);
            account.enter(Phase::Connecting);
        }
        let (connected, started) = service.go(account, &mut first).await?;
        if let Some(version) = service.relay.send_proxy {
            let header = proxy_protocol::write(version, stands_between(account, endpoints)?);
            self.header = u64::try_from(header.len()).unwrap_or(u64::MAX);
            first.splice(..0, header);
        }
        sys::socket::keep_urgent_inline(&connected.stream)
            .map_err(|error| Ended::because(EndedBy::Server, &error))?;
        let (front, looks, events) = (&service.relay.front, &service.looks, &service.events);
        let server = account.connected(connected, started, front, looks, events);
        let throttled = service.throttles.is_some();
        self.up = Direction::beginning_with(&first, throttled);
        self.down = Direction::beginning_with(&[], throttled);
        account.enter(Phase::Data);
        Ok(server)
    }

    /// Forwards until both directions have ended, or one side breaks.
    async fn forward(&mut self, server: &TcpStream) -> Ended {
        let limits = self.service.relay.limits;
        let patience = Patience {
            idle: limits.idle_timeout,
            half_closed: limits.half_closed_timeout,
        };
        let client = Arc::clone(&self.account.client);
        let mut both = Both {
            client: &client,
            server,
            up: &mut self.up,
            down: &mut self.down,
            reserve: &self.service.reserve,
        };
        let throttles = self.service.throttles.as_ref();
        self.account.forward(&mut both, patience, throttles).await
    }
}

impl Drop for Relayed {
    fn drop(&mut self) {
        let service = &self.service;
        let (front, looks, events) = (&service.relay.front, &service.looks, &service.events);
        let up = self.up.given().saturating_sub(self.header);
        let down = self.down.given();
        self.account.settle(up, down, front, looks, events);
    }
}

/// What our PROXY header says: what the client's said, or the client's connection itself.
fn stands_between(account: &Account, endpoints: Option<Endpoints>) -> Result<Endpoints, Ended> {
    if let Some(endpoints) = endpoints {
        return Ok(endpoints);
    }
    let local = account.client.local_addr();
    local
        .map(|destination| Endpoints {
            source: account.peer,
            destination,
        })
        .map_err(|error| Ended::because(EndedBy::Client, &error))
}

// === impl Both ===

impl Directions for Both<'_> {
    fn poll_up(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Broken>> {
        let (source, sink) = (self.client, self.server);
        self.up.poll(context, source, sink, self.reserve)
    }

    fn poll_down(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Broken>> {
        let (source, sink) = (self.server, self.client);
        self.down.poll(context, source, sink, self.reserve)
    }

    fn given(&self) -> (u64, u64) {
        (self.up.given(), self.down.given())
    }

    fn are_closed(&self) -> (bool, bool) {
        (self.up.is_closed(), self.down.is_closed())
    }

    fn listen(&self) -> (bool, bool) {
        (self.up.listens(), self.down.listens())
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
