use std::collections::BTreeMap;
use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use limit::kernel::Division;
use profile::Side;
use record::{LimitName, LimitSeconds};
use serde::Serialize;
use sys::tcp_info::TcpInfo;
use units::Rate;

use crate::traces::TraceParent;
use crate::trunk::TrunkEvent;

/// Where events go.
pub(crate) type Events = Arc<dyn Fn(Event) + Send + Sync>;

/// Who hears what happens in a relay: any function that takes events.
pub struct Audience {
    pub(crate) tell: Box<dyn Fn(Event) + Send + Sync>,
    /// Whether it cares how connections came to a good end.
    pub(crate) hears_of_connections: bool,
}

impl Audience {
    /// One that does not care how connections came to a good end. What the kernel knows of them then ([`SideReport`]) is not asked for
    /// unless somebody else wants to know.
    pub fn of_other_than_connections(tell: impl Fn(Event) + Send + Sync + 'static) -> Self {
        Self {
            tell: Box::new(tell),
            hears_of_connections: false,
        }
    }
}

impl<F: Fn(Event) + Send + Sync + 'static> From<F> for Audience {
    fn from(tell: F) -> Self {
        Self {
            tell: Box::new(tell),
            hears_of_connections: true,
        }
    }
}

impl fmt::Debug for Audience {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Audience")
            .field("hears_of_connections", &self.hears_of_connections)
            .finish_non_exhaustive()
    }
}

/// Something that happened, as it is printed in JSON lines and turned into log lines and metrics.
///
/// No event carries a query string, a header value or a body byte, so none carries a credential.
/// Seconds and bytes stand in the names; identifiers count from 1 since the start.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "event", rename_all = "kebab-case")]
pub enum Event {
    /// Clients can connect.
    Listening {
        /// The address, with the port that was really taken.
        address: SocketAddr,
        /// Where requests go.
        target: String,
    },
    /// A profile is in effect on a side: told of its first socket, and once more after that has carried
    /// data. Each connected socket gets all options, and a refused one is an error; once a second one socket of
    /// each thread that connects is read back whole, the others as far as the kernel may bend what it was told. Accepted ones inherit from the
    /// listener.
    Applied {
        /// Which side.
        side: Side,
        /// The profile's name.
        profile: String,
        /// On what kind of socket, and when.
        stage: Stage,
        /// What was asked for and what was read back.
        options: Vec<AppliedOption>,
    },
    /// A connection to the origin is open.
    Connected {
        /// The connection.
        connection: u64,
        /// This host's address, where the kernel still knew.
        local: Option<SocketAddr>,
        /// The origin's address.
        peer: SocketAddr,
        /// Round-trip time of the handshake.
        rtt_s: f64,
        /// Time from the start of name resolution to the open connection, TLS included.
        seconds: f64,
        /// What was agreed on with the origin, where it is spoken to with TLS.
        #[serde(skip_serializing_if = "Option::is_none")]
        tls: Option<Box<TlsReport>>,
    },
    /// A connection was primed: harmless requests carried enough bytes to open both windows.
    Primed {
        /// The connection.
        connection: u64,
        /// Whether it had been hot before and had cooled.
        again: bool,
        /// Requests sent and answered.
        requests: u64,
        /// Bytes sent.
        bytes: u64,
        /// Time it took.
        seconds: f64,
        /// What both windows should hold.
        target_bytes: u64,
        /// Our congestion window.
        cwnd_bytes: u64,
        /// The origin's receive window, where this kernel tells.
        peer_window_bytes: Option<u64>,
        /// Smoothed round-trip time.
        rtt_s: f64,
        /// Segments that had to be sent again: priming itself met loss.
        retransmitted: u32,
        /// The rate at which payload was delivered while a queue stood at the bottleneck, if one did: the
        /// connection is paced at it where the path's rate is not configured.
        bottleneck_bps: Option<u64>,
        /// Answers by status class, such as `4xx`.
        statuses: BTreeMap<String, u64>,
        /// Which windows are still too small, because a budget ended. Empty: the connection is hot.
        missing: Vec<Missing>,
    },
    /// A connection could not be primed; it or its successors serve unprimed.
    PrimingFailed {
        /// The connection.
        connection: u64,
        /// Requests answered before.
        requests: u64,
        /// Bytes sent before.
        bytes: u64,
        /// Why, and what follows.
        why: String,
    },
    /// The pool holds its minimum of idle connections for the first time.
    PoolReady {
        /// Idle connections.
        connections: usize,
        /// How many of them are hot.
        hot: usize,
        /// Requests sent to prime them.
        requests: u64,
        /// Bytes sent to prime them.
        bytes: u64,
        /// Time since the relay started.
        seconds: f64,
    },
    /// An idle connection is no longer hot.
    Cooled {
        /// The connection.
        connection: u64,
        /// Our congestion window.
        cwnd_bytes: u64,
        /// The origin's receive window, where this kernel tells.
        peer_window_bytes: Option<u64>,
        /// What both windows should hold.
        target_bytes: u64,
        /// What was seen.
        why: String,
    },
    /// A request is over, well or badly.
    RequestDone {
        /// The client's connection.
        client: u64,
        /// The client's address.
        peer: SocketAddr,
        /// The origin's connection, if there was one.
        connection: Option<u64>,
        /// The method, as sent; `-` where no request could be read.
        method: String,
        /// The path without its query.
        path: String,
        /// The status that the client was sent, if any.
        status: Option<u16>,
        /// Body bytes towards the origin, chunk framing included.
        bytes_up: u64,
        /// Body bytes towards the client, chunk framing included.
        bytes_down: u64,
        /// From the first byte of the request to the last of the response.
        seconds: f64,
        /// Whether the origin's connection was hot when the request was given to it.
        hot: bool,
        /// Share of all requests so far that a hot connection served.
        hot_ratio: f64,
        /// Who ended it.
        ended_by: EndedBy,
        /// How far it had come.
        phase: Phase,
        /// What went wrong, if anything.
        error: Option<String>,
        /// What was agreed on with the client, where it speaks TLS: told with its first request.
        #[serde(skip_serializing_if = "Option::is_none")]
        client_tls: Option<Box<TlsReport>>,
        /// The trace that its client says it belongs to: for traces of our own.
        #[serde(skip)]
        parent: Option<TraceParent>,
    },
    /// A relayed byte stream is over, well or badly.
    ConnectionDone(Box<ConnectionDone>),
    /// A connection to the origin is closed.
    Closed {
        /// The connection.
        connection: u64,
        /// Requests it served, priming not counted.
        requests: u64,
        /// Why.
        why: String,
    },
    /// A client was turned away.
    Refused {
        /// The client's address.
        peer: SocketAddr,
        /// Why.
        why: String,
    },
    /// Something that an operator should know, once per start or per change.
    Warning {
        /// A stable name, such as `slow-start-after-idle`.
        name: &'static str,
        /// What it means and what to do.
        text: String,
    },
    /// An administrator can ask.
    Admin {
        /// The address, with the port that was really taken.
        address: SocketAddr,
    },
    /// All listeners are open.
    Ready {
        /// How many.
        listeners: usize,
    },
    /// Another configuration is in effect: for new clients, and for the next request of those who are there.
    Reloaded {
        /// Listeners that are open now.
        listeners: usize,
    },
    /// Another configuration could not be put into effect; the one before still is.
    ReloadFailed {
        /// What is wrong with it.
        why: String,
    },
    /// Whether a target is there, where that has changed.
    Target {
        /// Which one.
        target: String,
        /// Whether it gets connections; one that does not is tried last.
        available: bool,
        /// What was seen.
        why: String,
    },
    /// No more clients are accepted; requests under way are finished.
    Draining {
        /// Client connections still open.
        clients: usize,
    },
    /// All is closed.
    Stopped {
        /// Client connections that were cut off at the deadline.
        aborted: usize,
        /// Client connections that were accepted.
        connections: u64,
        /// Requests served, where the relay knows requests.
        requests: Option<u64>,
        /// Share of them that a hot connection served.
        hot_ratio: Option<f64>,
    },
    /// Something that happened on a trunk.
    #[serde(untagged)]
    Trunk(Box<TrunkEvent>),
}

/// A relayed byte stream that is over.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ConnectionDone {
    /// The client's connection.
    pub client: u64,
    /// The client's address.
    pub peer: SocketAddr,
    /// For whom the client stands, by its PROXY header.
    pub stands_for: Option<SocketAddr>,
    /// Where the client asked to go, by SOCKS5 or HTTP CONNECT.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub asked_for: Option<String>,
    /// The address that was connected to.
    pub server: Option<SocketAddr>,
    /// Bytes given to the server's kernel. The client's and the relay's PROXY headers are not counted.
    pub bytes_up: u64,
    /// Bytes given to the client's kernel.
    pub bytes_down: u64,
    /// From accepting the client to the end.
    pub seconds: f64,
    /// From the start of name resolution to the open connection.
    pub connect_seconds: Option<f64>,
    /// The side that ended its direction first, if one did.
    pub closed_first: Option<Side>,
    /// Who ended it.
    pub ended_by: EndedBy,
    /// How far it had come.
    pub phase: Phase,
    /// What went wrong, if anything.
    pub error: Option<String>,
    /// The client's connection at its end, where the kernel still knew.
    pub client_side: Option<SideReport>,
    /// The server's.
    pub server_side: Option<SideReport>,
    /// What was agreed with the client, where the relay ends its TLS.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub client_tls: Option<TlsReport>,
    /// What was agreed with the server, where the relay speaks TLS to it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub server_tls: Option<TlsReport>,
    /// What was done before bytes flowed, one after the other: for traces.
    #[serde(skip)]
    pub steps: Vec<Step>,
}

/// Something that was done for a client before its bytes flowed.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Step {
    /// What it was.
    pub phase: Phase,
    /// When it began, after the client was accepted.
    pub began: Duration,
    /// How long it took, as far as it came.
    pub took: Duration,
}

/// What a TLS handshake agreed on.
#[derive(Clone, Debug, Eq, PartialEq, Serialize)]
pub struct TlsReport {
    /// `1.2` or `1.3`.
    pub version: String,
    /// The cipher suite, by IANA's name as the library writes it.
    pub cipher_suite: String,
    /// The key exchange group; none where a session of 1.2 was resumed.
    pub group: Option<String>,
    /// Whether an earlier session was taken up again.
    pub resumed: bool,
    /// The name that the client asked for (SNI), or the server was asked for.
    pub server_name: Option<String>,
}

/// What the kernel knew of one side's connection at its end (`TCP_INFO`).
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct SideReport {
    /// Smoothed round-trip time.
    pub rtt_s: f64,
    /// The smallest of the last minutes.
    pub min_rtt_s: Option<f64>,
    /// Our congestion window.
    pub cwnd_bytes: u64,
    /// Segments that were sent again.
    pub retransmitted: u32,
    /// The newest delivery rate sample.
    pub delivery_bps: Option<u64>,
    /// Time in which something was in flight or waiting to leave.
    pub busy_s: Option<f64>,
    /// The part of it held back by the peer's window.
    pub rwnd_limited_s: Option<f64>,
    /// The part of it held back by our send buffer.
    pub sndbuf_limited_s: Option<f64>,
    /// What held our sending back, in seconds: the whole time from opening to the end. `unknown` is what the
    /// congestion window or the path held: one reading at the end does not tell these apart.
    pub limits_s: LimitSeconds,
}

/// A socket option as asked for and as the kernel reports it.
#[derive(Clone, Debug, Eq, PartialEq, Serialize)]
pub struct AppliedOption {
    /// Its name in the kernel's headers.
    pub option: &'static str,
    /// What the profile asks for.
    pub requested: String,
    /// What was read back.
    pub effective: String,
}

/// On which socket, and when, options were read back.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Stage {
    /// On the listener, from which accepted sockets inherit, before the first client.
    Listening,
    /// On a socket under way to the origin.
    Connected,
    /// On a socket of that side that has carried data.
    AfterData,
}

/// A window that priming could not open.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Missing {
    /// Our congestion window.
    Cwnd,
    /// The origin's receive window.
    PeerWindow,
}

/// Who ended a request or a connection.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum EndedBy {
    /// It was served to its end.
    Completed,
    /// The client: it left, or sent what cannot be forwarded.
    Client,
    /// The origin: it refused, left, or answered what cannot be forwarded.
    Server,
    /// A timeout of this relay.
    Timeout,
    /// A limit of this relay or of its host.
    Resource,
    /// The relay is stopping.
    Relay,
}

/// How far a request or a connection had come.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Phase {
    /// Reading the request's head.
    RequestHead,
    /// Finding a connection to the origin.
    Connecting,
    /// Forwarding the request.
    RequestBody,
    /// Waiting for the response's head.
    ResponseHead,
    /// Forwarding the response.
    ResponseBody,
    /// Forwarding bytes after `101 Switching Protocols`.
    Tunnel,
    /// Reading the client's PROXY header.
    ProxyHeader,
    /// Hearing where the client wants to go.
    Asking,
    /// The client's TLS handshake.
    ClientHandshake,
    /// The TLS handshake with the target.
    ServerHandshake,
    /// Both directions of a byte stream are open.
    Data,
    /// One direction has ended.
    Closing,
}

// === impl SideReport ===

impl SideReport {
    /// What `info` tells of a connection that has been open for so long.
    pub(crate) fn of(info: &TcpInfo, open_for: Duration) -> Self {
        let seconds = |span: Option<Duration>| span.map(|span| span.as_secs_f64());
        Self {
            rtt_s: info.rtt.as_secs_f64(),
            min_rtt_s: seconds(info.min_rtt),
            cwnd_bytes: info.cwnd().get(),
            retransmitted: info.total_retrans,
            delivery_bps: info.delivery_rate.map(Rate::bits_per_s),
            busy_s: seconds(info.busy),
            rwnd_limited_s: seconds(info.rwnd_limited),
            sndbuf_limited_s: seconds(info.sndbuf_limited),
            limits_s: limits(info, open_for),
        }
    }
}

/// Divides a connection's time by the kernel's clocks.
fn limits(info: &TcpInfo, open_for: Duration) -> LimitSeconds {
    let Some(clocks) = info.clocks() else {
        return Division::whole(LimitName::Unknown, open_for).into();
    };
    clocks.divide(open_for, LimitName::Unknown).into()
}

// === impl EndedBy ===

impl EndedBy {
    /// As it stands in JSON.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Completed => "completed",
            Self::Client => "client",
            Self::Server => "server",
            Self::Timeout => "timeout",
            Self::Resource => "resource",
            Self::Relay => "relay",
        }
    }
}

// === impl Phase ===

impl Phase {
    /// As it stands in JSON.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::RequestHead => "request-head",
            Self::Connecting => "connecting",
            Self::RequestBody => "request-body",
            Self::ResponseHead => "response-head",
            Self::ResponseBody => "response-body",
            Self::Tunnel => "tunnel",
            Self::ProxyHeader => "proxy-header",
            Self::Asking => "asking",
            Self::ClientHandshake => "client-handshake",
            Self::ServerHandshake => "server-handshake",
            Self::Data => "data",
            Self::Closing => "closing",
        }
    }
}

impl From<sys::socket::Applied> for AppliedOption {
    fn from(applied: sys::socket::Applied) -> Self {
        Self {
            option: applied.option,
            requested: applied.requested,
            effective: applied.effective,
        }
    }
}
