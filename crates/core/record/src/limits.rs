use std::collections::BTreeMap;
use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What holds a transfer back. Every moment between a connection's first and last packet, per
/// direction, belongs to exactly one.
///
/// Declared in the order of precedence: where two hold at one moment, the earlier name wins.
#[derive(
    Clone, Copy, Debug, Deserialize, Eq, Hash, JsonSchema, Ord, PartialEq, PartialOrd, Serialize,
)]
#[serde(rename_all = "kebab-case")]
pub enum LimitName {
    /// TCP connection set-up is under way: SYN to the ACK of the SYN-ACK, retransmitted SYNs included.
    Handshake,
    /// FIN or RST exchange, and the TIME_WAIT side waiting inside the capture.
    Closing,
    /// TLS set-up is under way.
    TlsHandshake,
    /// Tokens of a policer are used up: losses at a sharp rate without queueing delay. What it dropped and
    /// must be repaired counts here.
    Policer,
    /// Lost segments are being repaired.
    LossRecovery,
    /// The advertised window has no room for the next segment while the path's base RTT would carry
    /// more.
    ReceiveWindow,
    /// The path's capacity is reached: the delivery rate is flat, extra flight only adds queueing delay.
    Bottleneck,
    /// cwnd still grows exponentially from its initial or restart value.
    SlowStart,
    /// Between losses cwnd stays too small to fill the path.
    LossLimited,
    /// cwnd grows linearly far below the path's capacity with no recent loss.
    CongestionAvoidance,
    /// The sender's socket buffer is full: in flight plateaus below both rwnd and the path, without
    /// loss.
    SendBuffer,
    /// A short segment waits for an ACK which the peer delays.
    NagleDelayedAck,
    /// All data is in flight, nothing limits: the last round trip that no design avoids.
    Propagation,
    /// The sending application has nothing to send: think time, server time, turns, idle.
    Application,
    /// The capture does not allow a judgement.
    Unknown,
}

impl LimitName {
    /// All names, by precedence.
    pub const ALL: [Self; 15] = [
        Self::Handshake,
        Self::Closing,
        Self::TlsHandshake,
        Self::Policer,
        Self::LossRecovery,
        Self::ReceiveWindow,
        Self::Bottleneck,
        Self::SlowStart,
        Self::LossLimited,
        Self::CongestionAvoidance,
        Self::SendBuffer,
        Self::NagleDelayedAck,
        Self::Propagation,
        Self::Application,
        Self::Unknown,
    ];

    /// The name as documents carry it.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Handshake => "handshake",
            Self::Closing => "closing",
            Self::TlsHandshake => "tls-handshake",
            Self::LossRecovery => "loss-recovery",
            Self::ReceiveWindow => "receive-window",
            Self::Policer => "policer",
            Self::Bottleneck => "bottleneck",
            Self::SlowStart => "slow-start",
            Self::LossLimited => "loss-limited",
            Self::CongestionAvoidance => "congestion-avoidance",
            Self::SendBuffer => "send-buffer",
            Self::NagleDelayedAck => "nagle-delayed-ack",
            Self::Propagation => "propagation",
            Self::Application => "application",
            Self::Unknown => "unknown",
        }
    }
}

impl fmt::Display for LimitName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// Seconds per limit. Absent names stand for zero; the values sum to the duration they divide.
pub type LimitSeconds = BTreeMap<LimitName, f64>;
