//! What `longhaul flow client --json` prints.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{LimitSeconds, Manifest};

/// The whole document.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
pub struct Document {
    /// Always `longhaul.flow`.
    pub schema: String,
    /// The schema's version.
    pub version: u32,
    /// Where the result comes from.
    pub manifest: Manifest,
    /// The server's address.
    pub server: String,
    /// Whose TCP the client spoke: `kernel` or `longhaul`.
    pub stack: String,
    /// What was asked for, in words: `10 MB up`.
    pub workload: String,
    /// The seed of the payload.
    pub seed: u64,
    /// The moment that `started_s` of flows counts from, in seconds since 1970 by the client's clock: lays a run
    /// beside captures and other hosts' counters. Absent in documents older than this field.
    #[serde(default)]
    pub began_unix_s: Option<f64>,
    /// Whether the run was cut short (Ctrl-C): what is here was measured, the rest is missing.
    pub interrupted: bool,
    /// One per connection, in the order in which they began.
    pub flows: Vec<Flow>,
    /// All flows together.
    pub totals: Totals,
}

/// One connection.
///
/// Times that end in `_s` are differences on one clock each: the client's, unless the name says
/// `receiver`. None compares the clocks of two hosts.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
pub struct Flow {
    /// From 0, in the order in which flows began.
    pub index: u64,
    /// Which of the parallel lanes it belongs to, from 0.
    pub lane: u64,
    /// The client's address.
    pub local: Option<String>,
    /// The server's address.
    pub peer: Option<String>,
    /// When its connect began, since the run did.
    pub started_s: f64,
    /// How long connecting took.
    pub connect_s: Option<f64>,
    /// From the beginning of connect to the last receipt or byte.
    pub total_s: f64,
    /// Congestion control of the sender; the client's where both send.
    pub congestion_control: Option<String>,
    /// Socket options that were set at the client and read back.
    pub settings: Vec<Setting>,
    /// Streams of bytes, each one way.
    pub transfers: Vec<Transfer>,
    /// Requests and responses, where that was asked for.
    pub exchanges: Option<Exchanges>,
    /// Payload bytes received, both ways together.
    pub bytes: u64,
    /// Seconds in which they were: of the transfers one after the other, of those at the same time the
    /// longer.
    pub seconds: f64,
    /// `bytes` over `seconds`.
    pub goodput_bps: Option<f64>,
    /// Whether every byte received was the one sent; `null` where the server does not say (sink).
    pub data_ok: Option<bool>,
    /// TCP of the sender over time: the client's samples, or the server's where only that sends.
    pub samples: Vec<Sample>,
    /// Where the sender's time went, from the kernel's own clocks; sums to the span of the samples.
    pub limits: LimitSeconds,
    /// Why it did not come to its end.
    pub error: Option<String>,
}

/// An option as asked for and as it reads back.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
pub struct Setting {
    /// The kernel's name for it.
    pub option: String,
    /// What was asked for.
    pub requested: String,
    /// What was read back.
    pub effective: String,
}

/// Which way a transfer goes.
#[derive(Clone, Copy, Debug, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Direction {
    /// From the client to the server.
    Up,
    /// From the server to the client.
    Down,
}

/// A stream of bytes one way, with the receipt of the end that received it.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
pub struct Transfer {
    /// Which way.
    pub direction: Direction,
    /// Payload bytes received, within the window where a duration was asked for.
    pub bytes: u64,
    /// When the client began to send, or asked; since the connection's connect began.
    pub started_s: f64,
    /// Client's clock: upwards from the first write to the arrival of the receipt, downwards from asking
    /// to the last byte.
    pub seconds: f64,
    /// Receiver's clock: first byte to last, or the window asked for.
    pub receiver_s: f64,
    /// `bytes` over `seconds`; over `receiver_s` where a duration was asked for.
    pub goodput_bps: Option<f64>,
    /// Whether every byte received was the one sent.
    pub data_ok: bool,
    /// Offset of the first wrong byte in the stream of its direction.
    pub first_difference: Option<u64>,
    /// Receiver's clock: seconds since the first byte, and bytes until then.
    pub progress: Vec<(f64, u64)>,
}

/// Requests and responses on one connection.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
pub struct Exchanges {
    /// Payload bytes of a request.
    pub request: u64,
    /// Payload bytes of a response.
    pub response: u64,
    /// Client's clock, from writing the request to the last byte of the response, in order.
    pub samples_s: Vec<f64>,
    /// Median.
    pub median_s: Option<f64>,
    /// 95th percentile.
    pub p95_s: Option<f64>,
    /// 99th percentile.
    pub p99_s: Option<f64>,
    /// Longest.
    pub max_s: Option<f64>,
}

/// A sender's TCP at a moment.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
pub struct Sample {
    /// Since the connection was opened.
    pub at_s: f64,
    /// Payload bytes acknowledged by the peer.
    pub acknowledged: u64,
    /// Congestion window in bytes.
    pub cwnd: u64,
    /// Slow start threshold in bytes; `null` while infinite.
    pub ssthresh: Option<u64>,
    /// Smoothed round-trip time.
    pub rtt_s: f64,
    /// Smallest round-trip time so far.
    pub min_rtt_s: Option<f64>,
    /// Bytes in flight.
    pub in_flight: u64,
    /// Segments retransmitted so far.
    pub retransmits: u64,
    /// Segments taken for lost at the moment.
    pub lost: u64,
    /// The newest delivery rate sample.
    pub delivery_rate_bps: Option<f64>,
    /// Rate at which segments are spaced.
    pub pacing_rate_bps: Option<f64>,
    /// The peer's window in bytes.
    pub peer_window: Option<u64>,
    /// Time so far with something in flight or waiting to leave.
    pub busy_s: Option<f64>,
    /// The part of it that the peer's window held back.
    pub rwnd_limited_s: Option<f64>,
    /// The part of it that the send buffer held back.
    pub sndbuf_limited_s: Option<f64>,
}

/// All flows together.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
pub struct Totals {
    /// Payload bytes received.
    pub bytes: u64,
    /// From the first flow's connect to the last flow's end.
    pub seconds: f64,
    /// `bytes` over `seconds`.
    pub goodput_bps: Option<f64>,
    /// Segments retransmitted by the senders whose samples are here.
    pub retransmits: u64,
    /// Jain's fairness index of the lanes' goodputs; `null` with fewer than two lanes.
    pub jain: Option<f64>,
    /// Flows that did not come to their end.
    pub failed: u64,
    /// Whether every byte received was the one sent.
    pub data_ok: bool,
}
