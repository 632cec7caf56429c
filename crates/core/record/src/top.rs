//! What `longhaul top --json` prints and `longhaul top --record` writes: one JSON value per line.
//!
//! The first line is a [`Header`], each further one a [`Reading`]. A reading lists the connections that
//! differ from the reading before; the others are as they were. `longhaul explain` reads such a file.

use std::collections::BTreeMap;
use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{LimitName, LimitSeconds, Manifest};

/// [`Header::schema`].
pub const SCHEMA: &str = "longhaul.top";
/// [`Header::version`].
pub const VERSION: u32 = 1;

/// One line.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(tag = "line", rename_all = "kebab-case")]
pub enum Line {
    /// The first one.
    Header(Header),
    /// Every other one.
    Reading(Reading),
}

/// What the lines below are.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
pub struct Header {
    /// Always `longhaul.top`.
    pub schema: String,
    /// The schema's version.
    pub version: u32,
    /// Where the readings come from.
    pub manifest: Manifest,
    /// The network namespaces that are read, by name.
    pub namespaces: Vec<String>,
    /// What connections were asked for, as written.
    pub filter: Option<String>,
}

/// The connections at one moment.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
pub struct Reading {
    /// Since the first reading.
    pub at_s: f64,
    /// CPU time that watching has cost since the reading before.
    pub cost_s: f64,
    /// All connections together, filtered ones only.
    pub summary: Summary,
    /// Connections in `CLOSE_WAIT`, by the process that should close them, largest pile first.
    pub close_wait: Vec<Pile>,
    /// Connections that differ from the reading before, by what was asked to sort by.
    pub connections: Vec<Connection>,
    /// Numbers of connections that are no more.
    pub gone: Vec<u64>,
    /// Relays that were asked, as their administrator's interface answers.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub relays: Vec<Relay>,
}

/// All connections together.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
pub struct Summary {
    /// How many there are.
    pub connections: u64,
    /// By state.
    pub states: BTreeMap<State, u64>,
    /// Connections that have something to send, by what holds them back now.
    pub limits: BTreeMap<LimitName, u64>,
    /// Payload acknowledged by peers.
    pub out_bps: f64,
    /// Payload received.
    pub in_bps: f64,
    /// Segments sent again per second.
    pub retransmissions_per_s: f64,
}

/// Connections whose peers have closed and whose own process has not.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
pub struct Pile {
    /// Who should close them; `null` where no process is visible (another user's, without privilege).
    pub process: Option<Process>,
    /// How many.
    pub connections: u64,
    /// For how long the oldest has been so; at least, where it was so before the first reading.
    pub oldest_s: f64,
}

/// A process.
#[derive(
    Clone, Debug, Default, Deserialize, Eq, JsonSchema, Ord, PartialEq, PartialOrd, Serialize,
)]
pub struct Process {
    /// Its number.
    pub pid: u32,
    /// Its name, as `ps -o comm` prints it.
    pub name: String,
}

/// One connection.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
pub struct Connection {
    /// Number in this stream of lines, from 1.
    pub id: u64,
    /// The namespace's name, where several are read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// This end.
    pub local: String,
    /// The other end.
    pub peer: String,
    /// Who opened it, as far as listeners tell: `client` where this end did, `server` where the peer did.
    pub role: Role,
    /// Whose socket it is; `null` where no process is visible.
    pub process: Option<Process>,
    /// The user who made the socket.
    pub uid: u32,
    /// Where the connection stands.
    pub state: State,
    /// For how long; at least, where [`Connection::state_seen`] is false.
    pub state_s: f64,
    /// Whether its beginning was seen.
    pub state_seen: bool,
    /// The congestion control at work.
    pub congestion_control: Option<String>,
    /// Payload acknowledged by the peer per second, since the reading before.
    pub out_bps: f64,
    /// Payload received per second, since the reading before.
    pub in_bps: f64,
    /// Payload acknowledged by the peer so far (a SYN and a FIN count as one byte each).
    pub bytes_out: Option<u64>,
    /// Payload received so far.
    pub bytes_in: Option<u64>,
    /// Smoothed round-trip time; `null` before the first sample.
    pub rtt_s: Option<f64>,
    /// The smallest of the kernel's window.
    pub min_rtt_s: Option<f64>,
    /// Congestion window.
    pub cwnd_bytes: u64,
    /// Slow start threshold; `null` while infinite.
    pub ssthresh_bytes: Option<u64>,
    /// Payload in flight.
    pub in_flight_bytes: u64,
    /// The window that the peer advertised last.
    pub peer_window_bytes: Option<u64>,
    /// Bytes written that the peer has not acknowledged.
    pub send_queue_bytes: u64,
    /// Bytes received that nobody has read.
    pub receive_queue_bytes: u64,
    /// Segments sent again so far.
    pub retransmissions: u64,
    /// The newest delivery rate sample.
    pub delivery_bps: Option<f64>,
    /// What holds this end's sending back now: the limit with most of the time since the reading before.
    pub limit: LimitName,
    /// For how long that has been so.
    pub limit_s: f64,
    /// Time per limit of this end's sending, since the connection was first read.
    pub limits: LimitSeconds,
    /// Whose client it serves, where a relay that was asked knows it as its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub relayed: Option<Relayed>,
}

/// One of the two sockets of a relayed connection.
#[derive(Clone, Debug, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
pub struct Relayed {
    /// The administrator's interface that told.
    pub admin: String,
    /// The connection's number there: both its sockets have the same.
    pub connection: u64,
    /// Where its client came in.
    pub listener: String,
    /// Which of its sides this socket is: `client`, or `server`.
    pub side: RelaySide,
    /// Who is at the other side; `null` where nobody is yet, or where a pool serves the client.
    pub other: Option<String>,
    /// Whether the relay's own kernel was asked, by the relay: its host is another one, or a namespace that is not
    /// read.
    pub elsewhere: bool,
}

/// A side of a relay.
#[derive(Clone, Copy, Debug, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum RelaySide {
    /// Towards the client.
    Client,
    /// Towards the server.
    Server,
}

/// Who opened a connection.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Role {
    /// This end: nobody listens on its port.
    #[default]
    Client,
    /// The peer: a listener has this end's port.
    Server,
}

/// State of a connection, by the names that `ss` takes.
#[derive(
    Clone, Copy, Debug, Deserialize, Eq, JsonSchema, Ord, PartialEq, PartialOrd, Serialize,
)]
#[serde(rename_all = "kebab-case")]
pub enum State {
    /// Both directions are open.
    Established,
    /// A SYN was sent.
    SynSent,
    /// A SYN was answered.
    SynRecv,
    /// This end has sent its FIN.
    #[serde(rename = "fin-wait-1")]
    FinWait1,
    /// This end's FIN is acknowledged.
    #[serde(rename = "fin-wait-2")]
    FinWait2,
    /// Both FINs have passed; waiting for stray segments.
    TimeWait,
    /// No connection.
    Closed,
    /// The peer has sent its FIN, this end has not.
    CloseWait,
    /// Both have sent a FIN, ours is not acknowledged.
    LastAck,
    /// A listener.
    Listening,
    /// Both FINs crossed.
    Closing,
    /// One that this version has no name for.
    Other,
}

/// A listener of a relay, as `/v1/relays` of its administrator's interface has it.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
pub struct Relay {
    /// Where the administrator's interface is.
    #[serde(default)]
    pub admin: String,
    /// Where clients connect.
    pub listen: String,
    /// Clients that are connected.
    pub clients: u64,
    /// Clients accepted so far.
    pub accepted: u64,
    /// Clients turned away so far.
    pub refused: u64,
    /// Bytes given to servers so far.
    pub bytes_up: u64,
    /// Bytes given to clients so far.
    pub bytes_down: u64,
    /// Requests served so far, where the relay knows requests.
    pub requests: u64,
    /// Those of them that a hot connection served.
    pub requests_hot: u64,
    /// Targets whose state has ever changed, and whether they are there.
    pub targets: BTreeMap<String, bool>,
}

// === impl RelaySide ===

impl RelaySide {
    /// The name as documents carry it.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Client => "client",
            Self::Server => "server",
        }
    }
}

// === impl State ===

impl State {
    /// All names, in the kernel's order.
    pub const ALL: [Self; 12] = [
        Self::Established,
        Self::SynSent,
        Self::SynRecv,
        Self::FinWait1,
        Self::FinWait2,
        Self::TimeWait,
        Self::Closed,
        Self::CloseWait,
        Self::LastAck,
        Self::Listening,
        Self::Closing,
        Self::Other,
    ];

    /// The name as documents carry it.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Established => "established",
            Self::SynSent => "syn-sent",
            Self::SynRecv => "syn-recv",
            Self::FinWait1 => "fin-wait-1",
            Self::FinWait2 => "fin-wait-2",
            Self::TimeWait => "time-wait",
            Self::Closed => "closed",
            Self::CloseWait => "close-wait",
            Self::LastAck => "last-ack",
            Self::Listening => "listening",
            Self::Closing => "closing",
            Self::Other => "other",
        }
    }
}

impl fmt::Display for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}
