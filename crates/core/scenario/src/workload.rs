mod problems;

pub(crate) use problems::MOST_CONNECTIONS;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer};
use units::{Bytes, Floor, Rate, Span};

use crate::{Assertion, Path};

/// What is transferred, and how. Which fields a kind has is said at [`Kind`].
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Workload {
    /// Its name in tables.
    pub name: String,
    /// What is done.
    #[serde(default)]
    pub kind: Kind,
    /// Payload of one object, stream or burst.
    pub bytes: Option<Bytes>,
    /// Payloads of the objects of one transfer, which go one after the other on one connection.
    #[serde(default)]
    pub sizes: Vec<Bytes>,
    /// How long a stream or a command runs, instead of `bytes`.
    pub duration: Option<Span>,
    /// Which way streams, bursts and commands carry their payload; see [`Workload::direction`].
    pub direction: Option<Flow>,
    /// Connections at once, each doing the whole workload; with `part` they share one object.
    pub parallel: Option<u32>,
    /// Largest part of a multipart upload or ranged download.
    pub part: Option<Bytes>,
    /// Payload of a request of an exchange.
    pub request: Option<Bytes>,
    /// Payload of a response of an exchange.
    pub response: Option<Bytes>,
    /// Exchanges, bursts or replicated objects per transfer; see [`Workload::count`].
    pub count: Option<u32>,
    /// Idle time before each burst, or between two exchanges.
    pub idle: Option<Span>,
    /// A reader that stops for a while.
    pub read_pause: Option<ReadPause>,
    /// TLS between client and origin; plain where absent.
    pub tls: Option<Tls>,
    /// The client program, run by `/bin/sh` in the client's host, once per transfer. `{file}`, `{size}`,
    /// `{bucket}`, `{key}` and `{url}` are replaced in uploads and downloads, `{address}`, `{port}`
    /// and `{url}` in commands.
    pub command: Option<String>,
    /// Flows of others on the same path, all the time.
    #[serde(default)]
    pub rivals: Vec<Rival>,
    /// What a field report measured, by arm.
    #[serde(default)]
    pub reported: BTreeMap<String, Vec<Reported>>,
    /// What must hold at the end, such as `max(relay) <= 1.15 * floor`.
    #[serde(default, rename = "assert")]
    pub assertions: Vec<Assertion>,
}

/// Kinds of workloads.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, Ord, PartialEq, PartialOrd)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// S3 PUT of `bytes`, or of `sizes`; multipart with `part`.
    #[default]
    Upload,
    /// S3 GET of `bytes`, or of `sizes`; by ranges with `part`.
    Download,
    /// Raw TCP, `bytes` or `duration`, in `direction`.
    Stream,
    /// `count` times `request` there and `response` back on one connection.
    Exchange,
    /// `count` times `idle`, then `bytes` in `direction`, on one connection; only bursts are timed.
    Burst,
    /// `count` objects of `bytes` from a store beside the client to the origin.
    Replicate,
    /// Any program in the client's host, timed from start to end.
    Command,
}

/// Which way payload goes.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq)]
#[serde(rename_all = "kebab-case")]
pub enum Flow {
    /// From client to origin.
    #[default]
    Up,
    /// From origin to client.
    Down,
    /// Both ways at once, `bytes` each.
    Both,
}

/// A reader that stops reading once.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct ReadPause {
    /// After so much payload.
    pub after: Bytes,
    /// For so long.
    pub r#for: Span,
}

/// A version of TLS.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq)]
pub enum Tls {
    /// TLS 1.2 (RFC 5246).
    #[serde(rename = "1.2")]
    V1_2,
    /// TLS 1.3 (RFC 8446).
    #[serde(rename = "1.3")]
    V1_3,
}

/// Flows of somebody else on the same path, greedy and without end.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
pub struct Rival {
    /// How many flows.
    pub count: u32,
    /// Their congestion control; their host's where absent.
    pub congestion_control: Option<String>,
    /// Which way they send.
    pub direction: Flow,
    /// How long they run before the first transfer begins.
    pub head_start: Span,
}

/// What a field report measured: a time, or a rate of payload.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Reported {
    /// How long a transfer took.
    Time(Span),
    /// Payload per second, in bits.
    Rate(Rate),
}

// === impl Workload ===

impl Workload {
    /// Payload of one transfer in an arm of `parallel` connections, both ways together; `None` where
    /// it runs for a time, or where only the program knows.
    #[must_use]
    pub fn payload(&self, parallel: u32) -> Option<Bytes> {
        let one = self
            .objects()
            .try_fold(0_u64, |sum, next| sum.checked_add(next.get()))?;
        let copies = if self.part.is_some() {
            1
        } else {
            u64::from(parallel)
        };
        let ways = if self.direction() == Flow::Both { 2 } else { 1 };
        let payload = one.checked_mul(copies)?.checked_mul(ways)?;
        (payload > 0).then_some(Bytes::new(payload))
    }

    /// Payloads that one connection moves one after the other, request and response together.
    fn objects(&self) -> impl Iterator<Item = Bytes> {
        let single = match self.kind {
            Kind::Exchange => Some(self.request() + self.response()),
            Kind::Upload
            | Kind::Download
            | Kind::Stream
            | Kind::Burst
            | Kind::Replicate
            | Kind::Command => self.bytes,
        };
        let times = usize::try_from(self.count()).unwrap_or(usize::MAX);
        let repeated = single
            .into_iter()
            .flat_map(move |bytes| std::iter::repeat_n(bytes, times));
        repeated.chain(self.sizes.iter().copied())
    }

    /// Connections at once, where the arm does not say otherwise.
    #[must_use]
    pub fn parallel(&self) -> u32 {
        self.parallel.unwrap_or(1)
    }

    /// Exchanges, bursts or replicated objects per transfer: 1 where the file says nothing.
    #[must_use]
    pub fn count(&self) -> u32 {
        self.count.unwrap_or(1)
    }

    /// Payload of a request: 64 B where the file says nothing, a small question.
    #[must_use]
    pub fn request(&self) -> Bytes {
        self.request.unwrap_or(Bytes::new(64))
    }

    /// Payload of a response: 64 B where the file says nothing.
    #[must_use]
    pub fn response(&self) -> Bytes {
        self.response.unwrap_or(Bytes::new(64))
    }

    /// Which way the payload goes; up where neither kind nor file says otherwise.
    #[must_use]
    pub fn direction(&self) -> Flow {
        match self.kind {
            Kind::Upload | Kind::Replicate => Flow::Up,
            Kind::Download => Flow::Down,
            Kind::Exchange | Kind::Stream | Kind::Burst | Kind::Command => {
                self.direction.unwrap_or_default()
            }
        }
    }

    /// The time below which no transfer can come on `path`, whatever its design; `None` for what runs
    /// for a time, and where only the program knows what it moves.
    ///
    /// Round trips that the verb needs: one for an object, stream or burst (the last byte's way there
    /// and the answer's way back, or the request's way there and the last byte's way back), one for
    /// each of several that follow each other. IP bytes: the payload in full packets. Left out, which
    /// makes the floor a little lower than any client can reach: heads above TCP, and connection and
    /// TLS set-up, which reuse avoids.
    #[must_use]
    pub fn floor(&self, path: &Path) -> Option<Floor> {
        self.floor_of(path, self.parallel())
    }

    /// As [`floor`](Self::floor), in an arm of `parallel` connections.
    #[must_use]
    pub fn floor_of(&self, path: &Path, parallel: u32) -> Option<Floor> {
        self.payload(parallel)?;
        let overhead = path.ip.full_packet();
        let copies = if self.part.is_some() {
            1
        } else {
            u64::from(parallel)
        };
        let mut ip_bytes = 0_u64;
        let mut turns = 0_u32;
        for object in self.objects() {
            let one = overhead.ip_bytes(object).get().checked_mul(copies)?;
            ip_bytes = ip_bytes.checked_add(one)?;
            turns = turns.checked_add(1)?;
        }
        let round_trips = match self.kind {
            Kind::Upload | Kind::Download | Kind::Exchange | Kind::Burst => turns,
            // What is written or copied need not wait for the answer to what went before.
            Kind::Stream | Kind::Replicate | Kind::Command => 1,
        };
        let rate = path.bottleneck_rate_of(self.direction());
        Floor::new(round_trips, path.rtt.get(), Bytes::new(ip_bytes), rate)
    }
}

// === impl Kind ===

impl Kind {
    /// All of them, in the order of the reference.
    pub const ALL: [Self; 7] = [
        Self::Upload,
        Self::Download,
        Self::Stream,
        Self::Exchange,
        Self::Burst,
        Self::Replicate,
        Self::Command,
    ];

    /// The name as scenario files write it.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Upload => "upload",
            Self::Download => "download",
            Self::Stream => "stream",
            Self::Exchange => "exchange",
            Self::Burst => "burst",
            Self::Replicate => "replicate",
            Self::Command => "command",
        }
    }

    /// Whether it asks an S3 store for something.
    #[must_use]
    pub const fn is_object(self) -> bool {
        matches!(self, Self::Upload | Self::Download | Self::Replicate)
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

// === impl Rival ===

impl Default for Rival {
    fn default() -> Self {
        Self {
            count: 1,
            congestion_control: None,
            direction: Flow::Up,
            head_start: Span::from(std::time::Duration::ZERO),
        }
    }
}

// === impl Reported ===

impl Reported {
    /// Seconds, where it is a time.
    #[must_use]
    pub fn seconds(self) -> Option<f64> {
        match self {
            Self::Time(time) => Some(time.get().as_secs_f64()),
            Self::Rate(_) => None,
        }
    }

    /// The rate, where it is one.
    #[must_use]
    pub const fn rate(self) -> Option<Rate> {
        match self {
            Self::Time(_) => None,
            Self::Rate(rate) => Some(rate),
        }
    }
}

impl FromStr for Reported {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if let Ok(time) = text.parse() {
            return Ok(Self::Time(time));
        }
        crate::assertion::payload_rate(text)
            .map(Self::Rate)
            .ok_or_else(|| {
                format!("`{text}` is neither a time such as `1.02 s` nor a rate such as `4 MB/s`")
            })
    }
}

impl<'de> Deserialize<'de> for Reported {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?
            .parse()
            .map_err(serde::de::Error::custom)
    }
}
