//! What `longhaul explain --json` prints.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{LimitName, LimitSeconds, Manifest, Tally};

/// The whole document.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
pub struct Document {
    /// Always `longhaul.explain`.
    pub schema: String,
    /// The schema's version.
    pub version: u32,
    /// What was read, by which program.
    pub manifest: Manifest,
    /// The captures and what can be trusted in them.
    pub captures: Vec<Capture>,
    /// Every TCP connection, by first packet.
    pub connections: Vec<Connection>,
    /// Options, TLS versions and groups in use, per client and per server.
    #[serde(default)]
    pub census: Census,
    /// RTTs seen by ICMP echo, by pair of hosts.
    pub echoes: Vec<Echo>,
    /// What was found, by lost seconds.
    pub findings: Vec<Finding>,
    /// How much of the time that transfers were held back the first findings explain; absent where nothing
    /// was lost.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub explained: Option<Explained>,
    /// Traffic per server, those first that were held back longest.
    #[serde(default)]
    pub servers: Vec<Traffic>,
    /// Traffic per client and server, in the same order.
    #[serde(default)]
    pub pairs: Vec<Traffic>,
}

/// How far the first findings reach.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
pub struct Explained {
    /// Seconds that transfers were held back by what a setting, a program or the network could change: all
    /// limits but `application`, `propagation`, `bottleneck`, `closing` and `unknown`, over all connections.
    pub held_s: f64,
    /// So many findings, from the first, explain `share` of them: as few as reach four fifths, or all.
    pub findings: u32,
    /// From 0 to 1.
    pub share: f64,
}

/// What passed between a server and all its clients, or one of them.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
pub struct Traffic {
    /// The client's host; absent where it is all of them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client: Option<String>,
    /// The server.
    pub server: Endpoint,
    /// Connections.
    pub connections: u64,
    /// Most of them that were open at a time.
    pub parallel: u64,
    /// Requests that are seen on them.
    #[serde(default)]
    pub requests: u64,
    /// Connections opened per second, from the first one to the last; absent with fewer than two.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub opened_per_s: Option<f64>,
    /// Payload bytes towards the server.
    pub bytes_to_server: u64,
    /// Payload bytes from the server.
    pub bytes_to_client: u64,
    /// Seconds that the connections lasted, together.
    pub duration_s: f64,
    /// Seconds held back, as in [`Explained::held_s`].
    pub held_s: f64,
    /// The limit with most of them.
    pub mostly: Option<LimitName>,
    /// Median over the connections of the smallest round trip.
    pub rtt_s: Option<f64>,
}

/// One input and its quality.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
pub struct Capture {
    /// File name as given; `-` for standard input.
    pub file: String,
    /// `pcap`, `pcapng` or `tcpdump text`.
    pub format: String,
    /// Compression around it, such as `gzip`.
    pub compression: Option<String>,
    /// Packets (or printed lines with a packet).
    pub packets: u64,
    /// Packets that are not TCP, by kind; what could not be decoded stands here with its reason.
    pub other: std::collections::BTreeMap<String, u64>,
    /// Seconds from the first to the last packet.
    pub duration_s: f64,
    /// What reading it showed, one sentence each: a last record cut short, packets that the capturing
    /// system dropped. What it cannot tell of a connection stands there.
    pub caveats: Vec<String>,
}

/// One end of a connection.
#[derive(Clone, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
pub struct Endpoint {
    /// Address, or name where the source prints names.
    pub host: String,
    /// Port.
    pub port: u16,
}

// What most lack is boxed: a large capture has tens of thousands of them.
/// One TCP connection.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
pub struct Connection {
    /// Number of the connection in this document, from 1; findings refer to it.
    pub id: u32,
    /// Who opened it (the sender of the SYN; without one, the guess is in `caveats`).
    pub client: Endpoint,
    /// The other end.
    pub server: Endpoint,
    /// Seconds from the first packet of all captures to the connection's first.
    pub start_s: f64,
    /// Seconds from its first to its last packet.
    pub duration_s: f64,
    /// Round-trip times.
    pub rtt: Rtt,
    /// What the SYNs negotiated.
    pub negotiated: Negotiated,
    /// Which side of the path the capture was made on: `client`, `server`, `between` or `unknown`.
    pub vantage: String,
    /// How sure that is; absent where it is `unknown`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub vantage_confidence: Option<Confidence>,
    /// The two directions.
    pub directions: Directions,
    /// TLS set-up; absent where the capture shows none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tls: Option<Box<Tls>>,
    /// SSH identification; absent where the capture shows none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ssh: Option<Ssh>,
    /// Requests seen on it, in order.
    pub transfers: Vec<Transfer>,
    /// How it ended.
    pub close: Close,
    /// What routers and hosts said about its packets, by ICMP; sixteen at most.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub icmp: Vec<Icmp>,
    /// What this capture cannot tell about this connection, one sentence each.
    pub caveats: Vec<String>,
    /// Points for plots; absent unless asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub series: Option<Box<Series>>,
}

/// Round-trip times in seconds; `null` where the capture gives none.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
pub struct Rtt {
    /// SYN to SYN-ACK (at the client) or SYN-ACK to ACK (at the server).
    pub handshake_s: Option<f64>,
    /// Smallest sample.
    pub min_s: Option<f64>,
    /// Median of the samples.
    pub median_s: Option<f64>,
    /// Nineteen of twenty samples are no longer.
    #[serde(default)]
    pub p95_s: Option<f64>,
    /// Ninety-nine of a hundred.
    #[serde(default)]
    pub p99_s: Option<f64>,
    /// Largest sample.
    pub max_s: Option<f64>,
    /// Samples by Karn's rule (never from a retransmitted segment).
    pub samples: u64,
    /// By how much the median exceeds the smallest: what queues on the way, or the answering host, add.
    #[serde(default)]
    pub queueing_median_s: Option<f64>,
    /// And `p95_s`.
    #[serde(default)]
    pub queueing_p95_s: Option<f64>,
}

/// What both SYNs agreed on; `null` where a SYN is missing.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
pub struct Negotiated {
    /// The client's MSS option.
    pub client_mss: Option<u16>,
    /// The server's MSS option.
    pub server_mss: Option<u16>,
    /// The client's window-scale shift, in effect only if both sent one.
    pub client_window_scale: Option<u8>,
    /// The server's window-scale shift, in effect only if both sent one.
    pub server_window_scale: Option<u8>,
    /// Whether the client's SYN permits SACK.
    #[serde(default)]
    pub client_sack: Option<bool>,
    /// Whether the server's does.
    #[serde(default)]
    pub server_sack: Option<bool>,
    /// Whether the client's SYN has timestamps.
    #[serde(default)]
    pub client_timestamps: Option<bool>,
    /// Whether the server's has.
    #[serde(default)]
    pub server_timestamps: Option<bool>,
    /// The window of the client's SYN in bytes, which is never scaled.
    #[serde(default)]
    pub client_window: Option<u16>,
    /// The server's.
    #[serde(default)]
    pub server_window: Option<u16>,
    /// Whether SACK is in use.
    pub sack: Option<bool>,
    /// Whether timestamps are in use.
    pub timestamps: Option<bool>,
}

/// TLS set-up of a connection; `null` for what the capture does not show.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
pub struct Tls {
    /// The version agreed, such as `TLS 1.3`.
    pub version: Option<String>,
    /// Times that the client had to wait for the server within set-up.
    pub round_trips: u32,
    /// Whether a session of before was resumed.
    pub resumed: Option<bool>,
    /// The key-exchange group agreed, such as `X25519MLKEM768`.
    pub group: Option<String>,
    /// Groups that the client supports, by preference.
    pub groups_offered: Vec<String>,
    /// Groups for which the Client Hello brought a key.
    pub key_shares: Vec<String>,
    /// The server asked for another Client Hello: one round trip more.
    pub retry: bool,
    /// The client sent, or offered to send, data ahead of the handshake's end.
    pub early_data: bool,
    /// Bytes of the Client Hello.
    pub client_hello_bytes: u64,
    /// Segments that the Client Hello took.
    pub client_hello_segments: u32,
    /// The host that the client asked for.
    pub server_name: Option<String>,
    /// Seconds from the Client Hello until the client could send application data.
    pub handshake_s: Option<f64>,
    /// Seconds from the Client Hello to the first application data.
    pub first_data_s: Option<f64>,
}

/// What both ends of an SSH connection call themselves, without comments.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
pub struct Ssh {
    /// The client, such as `SSH-2.0-OpenSSH_9.6`.
    pub client: Option<String>,
    /// The server.
    pub server: Option<String>,
}

/// Which options, TLS versions and groups are in use, per host and role; hosts by number of connections.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
pub struct Census {
    /// Hosts that opened connections, by what their own SYNs and Client Hellos say.
    pub clients: Vec<CensusEntry>,
    /// Hosts that accepted connections, by what their own SYN-ACKs and Server Hellos say.
    pub servers: Vec<CensusEntry>,
}

/// One host in one role: each map counts connections by value.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
pub struct CensusEntry {
    /// Address or name.
    pub host: String,
    /// Connections.
    pub connections: u64,
    /// Maximum segment sizes in bytes; `none` where a SYN has no such option.
    pub mss: Tally,
    /// Window-scale shifts; `none` where a SYN has no such option.
    pub window_scale: Tally,
    /// SACK permitted: `yes` or `no`.
    pub sack: Tally,
    /// Timestamps: `yes` or `no`.
    pub timestamps: Tally,
    /// TLS versions that were agreed.
    pub tls_versions: Tally,
    /// Key-exchange groups that were agreed.
    pub tls_groups: Tally,
    /// What the host calls itself in SSH.
    pub ssh: Tally,
}

/// The two directions of a connection.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
pub struct Directions {
    /// What the client sent.
    pub client_to_server: Direction,
    /// What the server sent.
    pub server_to_client: Direction,
}

/// One direction of a connection.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
pub struct Direction {
    /// Distinct payload bytes, by sequence number (also where a filtered capture lacks packets).
    pub bytes: u64,
    /// Segments with payload in the capture; with offload fewer than on the wire.
    pub segments: u64,
    /// Payload bytes sent again.
    pub retransmitted_bytes: u64,
    /// Retransmissions seen.
    pub retransmissions: u64,
    /// Segments that came late, but were not sent again: the network or the capture reordered them.
    #[serde(default)]
    pub out_of_order: u64,
    /// Copies made by the capture itself, not by the sender.
    pub capture_copies: u64,
    /// Seconds per limit; they sum to the connection's `duration_s`.
    pub limits: LimitSeconds,
    /// When each limit held, as `(from, to, name)` in seconds from the connection's first packet; only
    /// where series are asked for.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub limit_spans: Vec<(f64, f64, LimitName)>,
    /// More exact causes within a limit, in seconds: `slow-start: initial`, `receive-window: static`.
    pub details: std::collections::BTreeMap<String, f64>,
    /// The largest limit other than propagation, closing and idle application time before the first and
    /// after the last byte; `null` where the direction carried nothing.
    pub dominant: Option<LimitName>,
    /// Why time is `unknown`, where it is.
    pub unknown_because: Option<String>,
    /// First flight in segments of MSS size, before the first ACK of data.
    pub initial_window_segments: Option<u32>,
    /// Largest number of bytes in flight: sent, and acknowledged neither by number nor by SACK.
    pub max_in_flight: Option<u64>,
    /// Smallest and largest calculated window that the receiver advertised, after the handshake.
    pub receive_window_min: Option<u64>,
    /// See `receive_window_min`.
    pub receive_window_max: Option<u64>,
    /// Payload bytes x 8 over the time from first to last data byte acknowledged.
    pub goodput_bps: Option<f64>,
    /// Payload bytes x 8 that arrived within one round trip of the path without queues, at most.
    #[serde(default)]
    pub delivery_rate_bps: Option<f64>,
    /// What ended the first slow start; `null` where the data ended first.
    #[serde(default)]
    pub slow_start_exit: Option<SlowStartExit>,
    /// How far the sender steps back when it loses something; absent where fewer than three losses show it, where
    /// something else than its congestion window bounds what flies, and in captures that were not made at the sender.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub loss_response: Option<LossResponse>,
    /// Round trips from the tap to this direction's receiver and back, by Karn's rule; what lies above the
    /// smallest is queueing, or the receiver's delay.
    #[serde(default)]
    pub ack_rtt: Rtt,
    /// The same by echoed timestamps (RFC 7323 section 4), which tell of segments that were sent again as well; without
    /// samples where they were not agreed.
    #[serde(default)]
    pub timestamp_rtt: Rtt,
    /// What the packets were.
    #[serde(default)]
    pub counts: Counters,
    /// The path's rate in this direction as dispersion of ACK trains shows it, in IP bytes; `null`
    /// with fewer samples than a judgement needs.
    pub path_rate_bps: Option<f64>,
}

/// The end of the first slow start.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
pub struct SlowStartExit {
    /// Seconds from the connection's first packet.
    pub after_s: f64,
    /// What held the direction next: `loss-recovery` after a loss, `congestion-avoidance` at a threshold that was
    /// kept from before or found by round trips, a full `bottleneck`, `receive-window` or `send-buffer`; `application`
    /// where a pause took the window away.
    pub cause: LimitName,
}

/// What a sender's congestion control does behind a loss.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
pub struct LossResponse {
    /// Losses that it is taken over.
    pub losses: u64,
    /// Bytes in flight a round trip after the repair as a share of those before the loss, in the middle. A half is
    /// `NewReno`'s, 0.7 CUBIC's, and all of it what BBR keeps.
    pub kept: f64,
    /// Full segments by which the flight grows per round trip between repairs: about one where losses are taken for
    /// congestion (`NewReno`, Westwood+), none where the path is measured (BBR); `null` with too few round trips.
    #[serde(default)]
    pub growth_segments: Option<f64>,
}

/// Packets of a direction by what they did, and the answers to them. Retransmissions sum to
/// [`Direction::retransmissions`].
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
pub struct Counters {
    /// Sent again after duplicate ACKs or SACK blocks.
    pub fast_retransmissions: u64,
    /// Sent again when the timer had run out.
    pub timeout_retransmissions: u64,
    /// The last bytes again, ahead of the timer.
    pub tail_loss_probes: u64,
    /// Sent again although they had arrived.
    pub spurious_retransmissions: u64,
    /// Sent again, and the capture does not show why.
    pub other_retransmissions: u64,
    /// Single bytes into a closed window.
    pub zero_window_probes: u64,
    /// Probes whether the peer is still there.
    pub keep_alives: u64,
    /// Segments that end exactly at the window's edge.
    pub window_full: u64,
    /// ACKs of the receiver that closed its window or kept it closed.
    pub zero_windows: u64,
    /// Seconds for which it was closed.
    pub zero_window_s: f64,
    /// ACKs of the receiver that repeated the one before (RFC 5681 section 2).
    pub duplicate_acks: u64,
    /// ACKs of the receiver with SACK blocks.
    pub sacks: u64,
    /// D-SACK blocks of the receiver: it had the bytes already.
    pub duplicate_sacks: u64,
    /// Bytes that the peer acknowledged although the capture does not hold them.
    pub unseen_bytes: u64,
    /// Segments with numbers outside any window.
    pub strays: u64,
}

/// One request and its response on a connection.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
pub struct Transfer {
    /// What was asked, such as `POST /upload/files`; the query is left out, it may carry credentials.
    pub request: String,
    /// The S3 operation, such as `UploadPart`, where the request shows that it is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub operation: Option<String>,
    /// The status line's code.
    pub status: Option<u16>,
    /// Seconds from the first packet of all captures to the request's first byte.
    pub start_s: f64,
    /// Seconds from the request's first byte to its last byte sent first.
    pub sent_s: f64,
    /// Seconds from the request's first byte to the first byte of the response.
    pub first_byte_s: Option<f64>,
    /// Seconds from the request's first byte to the last byte of the response.
    pub complete_s: Option<f64>,
    /// Seconds from the connection's SYN to the last byte of the response, for the first request of a
    /// connection whose SYN was seen: what the user waited.
    pub with_handshake_s: Option<f64>,
    /// Seconds between the arrival of the request's last byte (its ACK at this vantage) and the
    /// response, as far as the capture tells.
    pub server_s: Option<f64>,
    /// Seconds from the head of the request to the interim response that it waited for
    /// (`Expect: 100-continue`); absent where the request does not ask for one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub continue_wait_s: Option<f64>,
    /// Seconds from the first to the last byte of the response.
    #[serde(default)]
    pub response_s: Option<f64>,
    /// Bytes of the request, head included.
    pub request_bytes: u64,
    /// Bytes of the response, head included.
    pub response_bytes: u64,
}

/// How a connection ended.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
pub struct Close {
    /// `fin`, `reset`, or `open` where the capture ends first.
    pub how: String,
    /// Who sent the first FIN or the RST: `client` or `server`.
    pub first: Option<String>,
    /// Which side therefore was in `CLOSE_WAIT`, and for how long.
    pub close_wait: Option<String>,
    /// Seconds the side stayed in `CLOSE_WAIT`.
    pub close_wait_s: Option<f64>,
}

/// An ICMP error about a packet of a connection.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
pub struct Icmp {
    /// Seconds from the connection's first packet.
    pub at_s: f64,
    /// Who said it.
    pub from: String,
    /// Whose packet it is about: `client` or `server`.
    pub about: String,
    /// `packet too big`, `no route`, `host unreachable`, `port unreachable`, `administratively prohibited`,
    /// `unreachable` or `time exceeded`.
    pub reason: String,
    /// The largest IP packet that goes on, in bytes, where one was too big and the router says so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mtu: Option<u32>,
}

/// An ICMP echo pair's result.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
pub struct Echo {
    /// Who asked.
    pub from: String,
    /// Who answered.
    pub to: String,
    /// Requests seen.
    pub requests: u64,
    /// Answers seen.
    pub replies: u64,
    /// Answers in whose wait somebody asked for a link-layer address (ARP, neighbour discovery): that time is not
    /// in their RTT.
    #[serde(default)]
    pub resolved: u64,
    /// RTT.
    pub rtt: Rtt,
}

/// How much a finding matters.
#[derive(
    Clone, Copy, Debug, Deserialize, Eq, JsonSchema, Ord, PartialEq, PartialOrd, Serialize,
)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// Worth knowing.
    Info,
    /// Costs time.
    Warning,
    /// Costs most of the time.
    Critical,
}

/// How sure a finding is.
#[derive(
    Clone, Copy, Debug, Deserialize, Eq, JsonSchema, Ord, PartialEq, PartialOrd, Serialize,
)]
#[serde(rename_all = "lowercase")]
pub enum Confidence {
    /// A guess with a reason.
    Low,
    /// Likely; another cause is possible.
    Medium,
    /// The frames leave no other reading.
    High,
}

/// One finding.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
pub struct Finding {
    /// Its stable name, such as `no-connection-reuse`.
    pub name: String,
    /// How much it matters.
    pub severity: Severity,
    /// How sure it is.
    pub confidence: Confidence,
    /// One sentence with the numbers.
    pub summary: String,
    /// The connections it concerns.
    pub connections: Vec<u32>,
    /// The frames that show it.
    pub evidence: Vec<Evidence>,
    /// Seconds lost to it over all its connections.
    pub lost_s: Option<f64>,
    /// What to do, in one or two sentences.
    pub remedy: String,
    /// The remedy as commands, for each host that needs it and whose system is known.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub steps: Vec<Steps>,
    /// The profile with which a relay beside that host does the same (`longhaul profile show NAME`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub profile: Option<String>,
    /// A display filter that shows the evidence in packet analysers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub filter: Option<String>,
    /// What the remedy would bring, by transfer size; written before anyone tries.
    pub predicted: Vec<Prediction>,
    /// Where the rule comes from (RFC, paper, kernel file).
    pub source: String,
}

/// A remedy as commands, with the way back.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
pub struct Steps {
    /// Whose terms: `linux`, `windows`, `aix`, `bigip`, `macos`, `haproxy`, `envoy`, `boto3` or `rclone`.
    pub system: String,
    /// Where to run them, such as `the server 192.0.2.10`.
    pub at: String,
    /// How the system is known.
    pub because: String,
    /// What to mind.
    pub says: String,
    /// Lines to run or to write.
    pub commands: Vec<String>,
    /// Lines that take it back; empty where the commands change nothing that lasts.
    pub undo: Vec<String>,
}

/// A frame and what it shows.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
pub struct Evidence {
    /// The capture's file, where there are several.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub capture: Option<String>,
    /// Frame number (line number in text) in its capture.
    pub frame: u64,
    /// What it shows, with the value.
    pub shows: String,
}

/// Time now and after a remedy.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
pub struct Prediction {
    /// Request bytes of the transfers this speaks of.
    pub bytes: u64,
    /// Transfers of that size seen.
    pub transfers: u64,
    /// Which remedy: `connection-reuse`, `hot-pool` (a relay whose connections are made and primed ahead of use), or
    /// `hot-pool-answering` (one that also answers `Expect: 100-continue`).
    pub remedy: String,
    /// Median seconds as captured.
    pub now_s: f64,
    /// Predicted seconds after the remedy.
    pub predicted_s: f64,
    /// How it was computed, with the numbers.
    pub derivation: String,
}

/// Points for plots, in seconds from the connection's first packet.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
pub struct Series {
    /// The direction that is drawn: the one with more bytes.
    pub direction: String,
    /// Data segments.
    pub data: Vec<DataPoint>,
    /// Cumulative acknowledgments as `(t, offset)`.
    pub acks: Vec<(f64, u64)>,
    /// The right edge of the receive window as `(t, offset)`.
    pub window_edge: Vec<(f64, u64)>,
    /// Bytes in flight as `(t, bytes)`, without those that SACK reports.
    pub in_flight: Vec<(f64, u64)>,
    /// The calculated receive window as `(t, bytes)`.
    pub receive_window: Vec<(f64, u64)>,
    /// First SACK blocks beyond the acknowledged edge as `(t, from, to)`, from the receiver.
    #[serde(default)]
    pub sacks: Vec<(f64, u64, u64)>,
    /// The congestion window as far as packets show it, as `(t, bytes)`: the most that was in flight within a
    /// round trip. Where something else held the sender back, the window was larger.
    #[serde(default)]
    pub congestion_window: Vec<(f64, u64)>,
    /// Round-trip times from the tap to the receiver as `(t, seconds)`.
    #[serde(default)]
    pub rtt: Vec<(f64, f64)>,
    /// Bytes acknowledged, as `(t, bit/s)` over a round trip or a hundredth of the connection, whichever is
    /// longer.
    #[serde(default)]
    pub goodput: Vec<(f64, f64)>,
    /// Which limit held, as `(from, to, name)`.
    pub limits: Vec<(f64, f64, LimitName)>,
}

/// One data segment in a sequence graph.
#[derive(Clone, Copy, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
pub struct DataPoint {
    /// When, in seconds.
    pub t: f64,
    /// First payload byte, counted from zero.
    pub from: u64,
    /// Byte after the last.
    pub to: u64,
    /// Whether it was sent before.
    pub retransmission: bool,
}
