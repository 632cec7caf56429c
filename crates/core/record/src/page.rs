//! What stands behind the web page: the JSON that `/v1/…` answers.
//!
//! `overview` is an [`Overview`], `connections` a [`Connections`], `connections/ID` a [`History`], `reports`
//! a [`Reports`], and `reports/document` a [`lab::Document`](crate::lab::Document).
//!
//! Times are seconds of the serving process's own steady clock, from its start ([`Overview::started_unix_s`]):
//! a clock that is set does not move them.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::top::State;
use crate::{LimitName, LimitSeconds};

/// The version of these documents.
pub const VERSION: u32 = 1;

/// Every answer of the interface, for its schema: each is served at a path of its own.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(untagged)]
pub enum Answer {
    /// `/v1/overview`
    Overview(Box<Overview>),
    /// `/v1/connections`
    Connections(Connections),
    /// `/v1/connections/ID`
    History(Box<History>),
    /// `/v1/reports`
    Reports(Reports),
    /// `/v1/reports/document?id=ID`
    Report(Box<crate::lab::Document>),
}

/// What one look should tell.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
pub struct Overview {
    /// Always `longhaul.page`.
    pub schema: String,
    /// [`VERSION`] of the program that answers.
    pub version: u32,
    /// The program's name and version.
    pub longhaul: String,
    /// What is served, which decides what the page shows.
    pub serves: Serves,
    /// The host's name, where it has one.
    pub host: Option<String>,
    /// When the process started, in seconds since 1970.
    pub started_unix_s: f64,
    /// Now, by the steady clock.
    pub at_s: f64,
    /// Between two readings of the kernel; `null` where nothing is read.
    pub interval_s: Option<f64>,
    /// Whether no more clients are let in.
    pub draining: bool,
    /// Where clients come in.
    pub listeners: Vec<Listener>,
    /// Trunks to and from other sites.
    pub trunks: Vec<Trunk>,
    /// All connections together, oldest moment first.
    pub traffic: Vec<Moment>,
    /// What somebody should look at, newest first.
    pub alerts: Vec<Alert>,
}

/// What a process serves.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Serves {
    /// Clients of relays.
    #[default]
    Relay,
    /// Streams of trunks.
    Trunk,
    /// Reports of the lab.
    Lab,
}

/// A listener and what it has done.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
pub struct Listener {
    /// Its address.
    pub listen: String,
    /// `http`, `tcp`, `tls` or `trunk`.
    pub mode: String,
    /// Where clients are brought to.
    pub target: String,
    /// Clients that are there.
    pub clients: u64,
    /// Clients that were let in so far.
    pub accepted: u64,
    /// Clients that were turned away.
    pub refused: u64,
    /// Payload towards the target, of what has ended.
    pub bytes_up: u64,
    /// Payload towards clients, of what has ended.
    pub bytes_down: u64,
    /// Requests, where requests are known.
    pub requests: Option<u64>,
    /// Requests that a hot connection served, where requests are known.
    pub requests_hot: Option<u64>,
    /// Connections, or requests, by who ended them.
    pub ended: BTreeMap<String, u64>,
    /// Targets whose state has ever changed, and whether they are there.
    pub targets: BTreeMap<String, bool>,
}

/// A trunk: one session between two sites.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
pub struct Trunk {
    /// What it is called.
    pub name: String,
    /// Who its two ends are to each other.
    pub session: String,
    /// Whether it carries streams.
    pub up: bool,
    /// Streams that are open.
    pub streams: u64,
    /// Connections that it would like.
    pub wanted_connections: u64,
    /// Accepted from applications and not acknowledged by the other end.
    pub send_held_bytes: u64,
    /// Received and not taken by applications.
    pub receive_held_bytes: u64,
    /// Its connections over the WAN.
    pub connections: Vec<WanConnection>,
    /// All its connections together, oldest moment first.
    pub traffic: Vec<Moment>,
}

/// A trunk's connection.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
pub struct WanConnection {
    /// Its number in the session.
    pub number: u64,
    /// Whether the other end has let it in.
    pub ready: bool,
    /// Whether acknowledgements have stopped.
    pub stalled: bool,
    /// Bytes to the socket so far.
    pub sent_bytes: u64,
    /// Bytes from the socket so far.
    pub received_bytes: u64,
    /// Payload among those sent that had gone out on another connection before.
    pub repeated_bytes: u64,
    /// TCP's smoothed round trip.
    pub rtt_s: Option<f64>,
    /// The least one of late.
    pub min_rtt_s: Option<f64>,
    /// TCP's congestion window.
    pub cwnd_bytes: Option<u64>,
    /// Bytes of frames that are not acknowledged.
    pub in_flight_bytes: u64,
    /// The highest delivery rate of late.
    pub delivery_bps: Option<f64>,
}

/// What somebody should look at. The same word again is one alert with a higher count.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
pub struct Alert {
    /// Number since the start.
    pub id: u64,
    /// How bad it is.
    pub severity: Severity,
    /// A stable name, such as `target-gone`.
    pub name: String,
    /// Which listener, trunk or target it is about.
    pub about: String,
    /// What it means and what to do.
    pub text: String,
    /// How often it was told.
    pub count: u64,
    /// When it was told first.
    pub first_s: f64,
    /// When it was told last.
    pub last_s: f64,
    /// When it ended; `null` while it lasts, or where it is an incident without an end.
    pub cleared_s: Option<f64>,
}

/// How bad an alert is.
#[derive(
    Clone, Copy, Debug, Deserialize, Eq, JsonSchema, Ord, PartialEq, PartialOrd, Serialize,
)]
#[serde(rename_all = "kebab-case")]
pub enum Severity {
    /// Slower, or less safe, than it could be.
    Warning,
    /// Something does not work.
    Error,
}

/// Some connections, of those that match what was asked for.
///
/// The question: `sort` ([`Sort`]), `find` (a part of an address), `limit` ([`LimitName`]), `ended` (`true` for
/// connections that are over), `count` (at most 500) and `from` (how many are passed over).
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
pub struct Connections {
    /// Now, by the steady clock.
    pub at_s: f64,
    /// Connections that are open.
    pub open: u64,
    /// Connections that are over and still known.
    pub ended: u64,
    /// Connections that match.
    pub matching: u64,
    /// Open connections that send, by what holds them back now.
    pub limits: BTreeMap<LimitName, u64>,
    /// The order of those below.
    pub sort: Sort,
    /// Those asked for.
    pub shown: Vec<Connection>,
}

/// What connections are sorted by: the most remarkable first.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Sort {
    /// Payload per second, both directions together.
    #[default]
    Goodput,
    /// Payload so far, both directions together.
    Bytes,
    /// The larger round-trip time of its two sides.
    Rtt,
    /// Segments sent again.
    Retransmissions,
    /// Time since it was opened.
    Age,
    /// Share of the last minute in which something other than its application held it back.
    Held,
}

/// A connection that is relayed, or one of a pool.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
pub struct Connection {
    /// Number since the start.
    pub id: u64,
    /// The listener that it came in by, or that its pool belongs to.
    pub listener: String,
    /// The client's address; `null` for a pool's connection.
    pub client: Option<String>,
    /// The target's address; `null` where there is none yet, or where a pool serves the client.
    pub server: Option<String>,
    /// When it was opened.
    pub opened_s: f64,
    /// Towards the target, sent on the server side's socket.
    pub up: Option<Way>,
    /// Towards the client, sent on the client side's socket.
    pub down: Option<Way>,
    /// How it ended; `null` while it is open.
    pub end: Option<End>,
}

/// One direction, as the kernel of the relay that sends it tells.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
pub struct Way {
    /// Payload that was acknowledged.
    pub bytes: u64,
    /// The same per second, of late.
    pub goodput_bps: f64,
    /// Smoothed round-trip time; `null` before the first sample.
    pub rtt_s: Option<f64>,
    /// The smallest of the kernel's window.
    pub min_rtt_s: Option<f64>,
    /// Congestion window.
    pub cwnd_bytes: u64,
    /// Payload in flight.
    pub in_flight_bytes: u64,
    /// The window that the peer advertised last.
    pub peer_window_bytes: Option<u64>,
    /// Segments sent again.
    pub retransmissions: u64,
    /// The congestion control at work.
    pub congestion_control: Option<String>,
    /// What held it back for most of the newest reading.
    pub limit: Option<LimitName>,
    /// Time per limit, of all that was read.
    pub limits_s: LimitSeconds,
    /// What held it back, oldest first, up to now: at most the last two minutes.
    pub band: Vec<Stretch>,
    /// The socket that sends it, as its kernel listed it last; `null` before that.
    #[serde(default)]
    pub socket: Option<Socket>,
}

/// A socket of the serving process, as its kernel listed it.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
pub struct Socket {
    /// The kernel's own number of it: no other one of that kernel has it.
    pub cookie: u64,
    /// This end.
    pub local: String,
    /// The other end.
    pub peer: String,
    /// Where the connection stands.
    pub state: State,
    /// When it was listed, by the steady clock.
    pub read_s: f64,
    /// Payload received so far.
    pub received_bytes: u64,
    /// Bytes written that the peer has not acknowledged.
    pub send_queue_bytes: u64,
    /// Bytes received that nobody has read.
    pub receive_queue_bytes: u64,
    /// Slow start threshold; `null` while infinite.
    pub ssthresh_bytes: Option<u64>,
}

/// A time in which one limit prevailed.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
pub struct Stretch {
    /// Which one.
    pub limit: LimitName,
    /// For how long.
    pub seconds: f64,
}

/// How a connection ended.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
pub struct End {
    /// When.
    pub at_s: f64,
    /// `completed`, `client`, `server`, `timeout`, `resource` or `relay`.
    pub by: String,
    /// How far it had come, such as `data`.
    pub phase: String,
    /// What went wrong, if anything.
    pub error: Option<String>,
}

/// All that is known of one connection.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
pub struct History {
    /// Now, by the steady clock.
    pub at_s: f64,
    /// The connection.
    pub connection: Connection,
    /// Towards the target, oldest moment first. Moments are longer the longer ago they were.
    pub up: Vec<Moment>,
    /// Towards the client.
    pub down: Vec<Moment>,
}

/// A span of time, of one connection's direction or of many together.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
pub struct Moment {
    /// When it ended.
    pub to_s: f64,
    /// How long it was.
    pub seconds: f64,
    /// Time per limit; of many connections, their times together.
    pub limits_s: LimitSeconds,
    /// Payload per second that was acknowledged.
    pub goodput_bps: f64,
    /// Smoothed round-trip time at its end; `null` of many, or before the first sample.
    pub rtt_s: Option<f64>,
    /// Congestion window at its end; 0 of many.
    pub cwnd_bytes: u64,
    /// Payload in flight at its end.
    pub in_flight_bytes: u64,
    /// Segments sent again in it.
    pub retransmissions: u64,
}

/// Reports of the lab.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
pub struct Reports {
    /// Newest first.
    pub reports: Vec<Report>,
    /// Results that cannot be read, and why.
    pub unreadable: Vec<Unreadable>,
}

/// One run of the lab, as its result says.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
pub struct Report {
    /// The folder, below the one that is shown; `.` for that itself.
    pub id: String,
    /// The scenario's name.
    pub scenario: String,
    /// When the run began, as its manifest says.
    pub started_at: Option<String>,
    /// When the result was written, in seconds since 1970.
    pub written_unix_s: f64,
    /// Whether it was cut short.
    pub interrupted: bool,
    /// Workloads and combinations of factors.
    pub cells: u64,
    /// Those whose path was not what the scenario says.
    pub invalid_cells: u64,
    /// Assertions of the scenario.
    pub assertions: u64,
    /// Those that do not hold.
    pub broken_assertions: u64,
    /// Whether there is a `report.html` beside it.
    pub has_page: bool,
}

/// A result that cannot be read.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
pub struct Unreadable {
    /// The folder.
    pub id: String,
    /// Why.
    pub why: String,
}
