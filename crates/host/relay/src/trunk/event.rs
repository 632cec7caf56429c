//! What happens on a trunk, as it is told.

use std::net::SocketAddr;
use std::time::Instant;

use record::{LimitName, LimitSeconds};
use serde::{Deserialize, Serialize};
use trunk::Holds;

use super::wan::{Lost, Wan};
use crate::Event;

/// Something that happened on a trunk. Seconds and bytes stand in the names.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "event", rename_all = "kebab-case")]
pub enum TrunkEvent {
    /// Clients can come in.
    TrunkListening {
        /// The trunk, by its configured name.
        trunk: String,
        /// The address, with the port that was really taken.
        address: SocketAddr,
        /// What the other end connects them to.
        to: String,
    },
    /// Near ends can connect.
    FarListening {
        /// The end, by its configured name.
        trunk: String,
        /// The address, with the port that was really taken.
        address: SocketAddr,
        /// How WAN connections are protected: `pinned`, `authority` or `plain`.
        security: &'static str,
    },
    /// A WAN connection has joined its trunk.
    WanConnected(WanConnection),
    /// A WAN connection's windows hold what its path carries in a round trip: what comes now goes out at full
    /// speed.
    WanHot {
        /// The trunk.
        trunk: String,
        /// Its number in the session.
        connection: u32,
    },
    /// An active probe found another state than the one before.
    TrunkHealth {
        /// The trunk.
        trunk: String,
        /// Whether data passed and every target was reached.
        healthy: bool,
        /// What was wrong.
        why: Option<String>,
    },
    /// A WAN connection is gone. Streams go on over others, or wait.
    WanLost(WanLost),
    /// No WAN connection to a far relay could be made; told at the first failure in a row and then rarely.
    WanUnreachable {
        /// The trunk.
        trunk: String,
        /// The far relay.
        via: String,
        /// Why.
        why: String,
        /// Attempts that failed since the last success.
        attempts: u64,
    },
    /// All that two ends remembered of each other is void: one of them restarted, or the WAN was gone for
    /// too long. Streams of before are reset.
    SessionEnded {
        /// The trunk.
        trunk: String,
        /// The session.
        session: String,
        /// Why.
        why: String,
    },
    /// One of two ends takes no new streams in a session, most likely because another process takes its place. Those
    /// that are open go on, and end it with the last.
    SessionLeft {
        /// The trunk.
        trunk: String,
        /// The session.
        session: String,
        /// Streams that are open.
        streams: usize,
    },
    /// A stream is over, well or badly: its receipt.
    StreamDone(Box<StreamDone>),
    /// The trunk takes less from others on its path than its profile would, or as much again.
    TrunkManner {
        /// The trunk.
        trunk: String,
        /// `eager`; `narrow`: by fewer connections; `modest`: sharing queues as other flows do.
        manner: &'static str,
        /// What was too much, where it has become modest.
        why: Option<String>,
    },
    /// The bytes that arrived are not those that were sent. The stream was reset.
    IntegrityAlarm {
        /// The trunk.
        trunk: String,
        /// The stream's number.
        stream: u64,
        /// What its sender computed.
        sent: String,
        /// What its receiver computed.
        received: String,
    },
}

/// A WAN connection that has joined its trunk.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct WanConnection {
    /// The trunk.
    pub trunk: String,
    /// The session that it has joined.
    pub session: String,
    /// Its number in the session.
    pub connection: u32,
    /// The other end's address.
    pub peer: SocketAddr,
    /// Version, suite and key exchange; `None` where the trunk is plain.
    pub tls: Option<WanTls>,
    /// Round-trip time as TCP sees it.
    pub rtt_s: Option<f64>,
}

/// What a WAN connection's handshake agreed on.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct WanTls {
    /// The cipher suite.
    pub cipher_suite: String,
    /// The key exchange.
    pub group: String,
    /// The pin of the peer's key; `None` where an authority vouches for it.
    pub peer: Option<String>,
}

/// A WAN connection that is gone.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct WanLost {
    /// The trunk.
    pub trunk: String,
    /// Its number in the session.
    pub connection: u32,
    /// The other end's address.
    pub peer: SocketAddr,
    /// From joining to the end.
    pub seconds: f64,
    /// Bytes read from it and written to it, framing included and TLS not.
    pub bytes_in: u64,
    /// Bytes written to it.
    pub bytes_out: u64,
    /// Segments sent again.
    pub retransmitted: Option<u32>,
    /// Why.
    pub why: String,
}

/// A stream that is over.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct StreamDone {
    /// The trunk.
    pub trunk: String,
    /// Its number in the session.
    pub stream: u64,
    /// The client's address, at the end where it came in.
    pub client: Option<SocketAddr>,
    /// The address that was connected to, at the other end.
    pub server: Option<SocketAddr>,
    /// What was asked for.
    pub target: String,
    /// From its opening here to its end here.
    pub seconds: f64,
    /// What held its sending back at this end, in seconds: the whole time from its opening to its end.
    pub limits_s: LimitSeconds,
    /// What this end's application sent.
    pub sent: StreamHalf,
    /// What the other end's sent.
    pub received: StreamHalf,
    /// Who ended it: `completed`, `this-end`, `other-end` or `trunk`.
    pub ended_by: &'static str,
    /// A stable name such as `target-refused`, where it did not end well.
    pub reason: Option<&'static str>,
    /// The same for people, with details.
    pub error: Option<String>,
}

/// One direction of a stream.
#[derive(Clone, Debug, Eq, PartialEq, Serialize)]
pub struct StreamHalf {
    /// Bytes.
    pub bytes: u64,
    /// Their digest, where the direction came to its end.
    pub digest: Option<String>,
    /// Whether the other end has confirmed both.
    pub confirmed: bool,
}

impl WanLost {
    pub(super) fn of(trunk: &str, wan: &Wan, joined_at: Instant, why: &Lost) -> Self {
        Self {
            trunk: trunk.to_owned(),
            connection: wan.id.number(),
            peer: wan.peer,
            seconds: joined_at.elapsed().as_secs_f64(),
            bytes_in: wan.bytes_in,
            bytes_out: wan.bytes_out,
            retransmitted: wan.tcp_info().map(|info| info.total_retrans),
            why: crate::chain(why),
        }
    }
}

/// What held a stream back, in the house's words. A trunk's path is a `bottleneck` where its connections have
/// stopped getting faster: they are kept hot, and carry what they can.
pub(super) fn limits(holds: &Holds) -> LimitSeconds {
    let named = [
        (LimitName::Application, holds.application),
        (LimitName::Propagation, holds.propagation),
        (LimitName::ReceiveWindow, holds.receiver),
        (LimitName::LossRecovery, holds.outage),
        (LimitName::SlowStart, holds.warming),
        (LimitName::Bottleneck, holds.path),
    ];
    let named = named.into_iter().filter(|(_, span)| !span.is_zero());
    named
        .map(|(name, span)| (name, span.as_secs_f64()))
        .collect()
}

impl TrunkEvent {
    /// Whether somebody should look.
    #[must_use]
    pub fn is_warning(&self) -> bool {
        match self {
            Self::WanUnreachable { .. }
            | Self::SessionEnded { .. }
            | Self::IntegrityAlarm { .. } => true,
            Self::StreamDone(done) => done.error.is_some(),
            Self::TrunkHealth { healthy, .. } => !healthy,
            Self::TrunkListening { .. }
            | Self::TrunkManner { .. }
            | Self::WanHot { .. }
            | Self::SessionLeft { .. }
            | Self::FarListening { .. }
            | Self::WanConnected(_)
            | Self::WanLost(_) => false,
        }
    }
}

impl From<TrunkEvent> for Event {
    fn from(event: TrunkEvent) -> Self {
        Self::Trunk(Box::new(event))
    }
}
