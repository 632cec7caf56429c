//! Why a stream or a trunk ended, in words that both ends understand.

use alloc::string::String;
use core::fmt;

/// Why a stream ended before its time. Travels in RESET frames as its code.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub enum Reason {
    /// The application, or the target, reset its TCP connection.
    Reset,
    /// The target refused the connection.
    TargetRefused,
    /// No route to the target, or it is down.
    TargetUnreachable,
    /// The target did not answer in time.
    TargetTimeout,
    /// The target's name does not resolve.
    TargetUnknown,
    /// The far relay's allow list does not name the target.
    TargetNotAllowed,
    /// The relay has as many streams as it may have.
    TooManyStreams,
    /// The digest of what arrived is not that of what was sent.
    IntegrityMismatch,
    /// No WAN connection for longer than the outage that a trunk survives.
    Outage,
    /// The other relay restarted: what it held is lost.
    PeerRestarted,
    /// The other relay violated the protocol in a way that a new connection does not repair.
    ProtocolViolation,
    /// A relay is being stopped.
    Shutdown,
    /// A relay failed inside.
    Internal,
    /// A code that a later version knows.
    Other(u16),
}

impl Reason {
    /// The code on the wire.
    pub const fn code(self) -> u16 {
        match self {
            Self::Reset => 1,
            Self::TargetRefused => 2,
            Self::TargetUnreachable => 3,
            Self::TargetTimeout => 4,
            Self::TargetUnknown => 5,
            Self::TargetNotAllowed => 6,
            Self::TooManyStreams => 7,
            Self::IntegrityMismatch => 8,
            Self::Outage => 9,
            Self::PeerRestarted => 10,
            Self::ProtocolViolation => 11,
            Self::Shutdown => 12,
            Self::Internal => 13,
            Self::Other(code) => code,
        }
    }

    /// What a code on the wire means.
    pub const fn from_code(code: u16) -> Self {
        match code {
            1 => Self::Reset,
            2 => Self::TargetRefused,
            3 => Self::TargetUnreachable,
            4 => Self::TargetTimeout,
            5 => Self::TargetUnknown,
            6 => Self::TargetNotAllowed,
            7 => Self::TooManyStreams,
            8 => Self::IntegrityMismatch,
            9 => Self::Outage,
            10 => Self::PeerRestarted,
            11 => Self::ProtocolViolation,
            12 => Self::Shutdown,
            13 => Self::Internal,
            other => Self::Other(other),
        }
    }

    /// A stable name, for metrics and JSON.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Reset => "reset",
            Self::TargetRefused => "target-refused",
            Self::TargetUnreachable => "target-unreachable",
            Self::TargetTimeout => "target-timeout",
            Self::TargetUnknown => "target-unknown",
            Self::TargetNotAllowed => "target-not-allowed",
            Self::TooManyStreams => "too-many-streams",
            Self::IntegrityMismatch => "integrity-mismatch",
            Self::Outage => "outage",
            Self::PeerRestarted => "peer-restarted",
            Self::ProtocolViolation => "protocol-violation",
            Self::Shutdown => "shutdown",
            Self::Internal => "internal",
            Self::Other(_) => "other",
        }
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = match self {
            Self::Reset => "the connection was reset",
            Self::TargetRefused => "the target refused the connection",
            Self::TargetUnreachable => "the target cannot be reached",
            Self::TargetTimeout => "the target did not answer in time",
            Self::TargetUnknown => "the target's name does not resolve",
            Self::TargetNotAllowed => "the far relay does not allow this target",
            Self::TooManyStreams => "the relay has too many streams",
            Self::IntegrityMismatch => "the bytes that arrived are not those that were sent",
            Self::Outage => "the WAN was down for too long",
            Self::PeerRestarted => "the other relay restarted",
            Self::ProtocolViolation => "the other relay violated the protocol",
            Self::Shutdown => "the relay is shutting down",
            Self::Internal => "the relay failed",
            Self::Other(code) => return write!(f, "code {code} of a later version"),
        };
        f.write_str(text)
    }
}

/// A reason with the words of whoever gave it, such as an operating system's error.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Explanation {
    /// The reason.
    pub reason: Reason,
    /// Its detail, at most [`Explanation::MAX_DETAIL`] bytes and without control characters; may be empty.
    pub detail: String,
}

impl Explanation {
    /// Enough for an operating system's error with an address.
    pub const MAX_DETAIL: usize = 200;

    /// `reason`, with `detail` cut and cleaned to what a frame and a log line may hold.
    pub fn new(reason: Reason, detail: &str) -> Self {
        let mut clean = String::new();
        for c in detail.chars().map(|c| if c.is_control() { ' ' } else { c }) {
            if clean.len() + c.len_utf8() > Self::MAX_DETAIL {
                break;
            }
            clean.push(c);
        }
        Self {
            reason,
            detail: clean,
        }
    }
}

impl From<Reason> for Explanation {
    fn from(reason: Reason) -> Self {
        Self {
            reason,
            detail: String::new(),
        }
    }
}

impl fmt::Display for Explanation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.detail.as_str() {
            "" => self.reason.fmt(f),
            detail => write!(f, "{}: {detail}", self.reason),
        }
    }
}
