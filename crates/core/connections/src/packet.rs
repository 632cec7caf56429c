use alloc::string::String;
use core::fmt;
use core::num::NonZeroU32;
use core::time::Duration;

use units::Time;
use wire::TcpFlags;

/// A side of a connection, and with it the direction that starts there.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub enum Side {
    /// Who opened the connection.
    Client,
    /// Who accepted it.
    Server,
}

impl Side {
    /// The other one.
    #[must_use]
    pub const fn peer(self) -> Self {
        match self {
            Self::Client => Self::Server,
            Self::Server => Self::Client,
        }
    }

    /// `client` or `server`.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Client => "client",
            Self::Server => "server",
        }
    }
}

impl fmt::Display for Side {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// One end of a connection, as the source named it.
#[derive(Clone, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub struct Endpoint {
    /// Address, or name where the source prints names.
    pub host: String,
    /// TCP port.
    pub port: u16,
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.host.contains(':') {
            write!(f, "[{}]:{}", self.host, self.port)
        } else {
            write!(f, "{}:{}", self.host, self.port)
        }
    }
}

/// A packet to point at.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Mark {
    /// When the capture saw it.
    pub at: Time,
    /// Its number, counted on through all captures: [`crate::Tracked::locate`].
    pub frame: u64,
}

/// Why bytes were sent again, as far as packets can tell.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Repeat {
    /// After duplicate ACKs or SACK blocks showed the hole (RFC 5681 §3.2, RFC 8985).
    Fast,
    /// After the retransmission timer ran out (RFC 6298): nothing came back for at least 200 ms or the
    /// path's RTT.
    Timeout,
    /// The last bytes again, ahead of the timer: a tail loss probe (RFC 8985 §7).
    TailProbe,
    /// The bytes had arrived: an ACK had covered them before, or a D-SACK (RFC 2883) said so afterwards.
    Spurious,
    /// The capture does not show what led to it.
    Unknown,
}

/// What a segment did to its byte stream.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Role {
    /// A SYN or SYN-ACK.
    Syn,
    /// New data at the end of the stream, or after a jump over bytes which the capture lacks.
    New,
    /// Data that the capture had seen, or whose place had been passed longer ago than reordering explains.
    Repeated(Repeat),
    /// Data which fills a hole so soon after it appeared that the network, or the capture, reordered it.
    OutOfOrder,
    /// Neither data, SYN, FIN nor RST.
    Ack,
    /// The same packet seen twice by the capture: same IP identification, sequence number, ACK and length.
    Copy,
    /// One old byte, or none, just below the acknowledged edge (RFC 9293 §3.8.4).
    KeepAlive,
    /// One byte into a closed window (RFC 9293 §3.8.6.1).
    WindowProbe,
    /// A FIN or RST without data.
    End,
    /// A sequence number farther than any window allows: not part of this stream.
    Stray,
}

/// A segment, kept for analysis in 56 bytes.
///
/// Positions count payload bytes: 0 is the first byte after the SYN, or the first byte seen where there
/// is no SYN (earlier ones are then negative).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Packet {
    /// When the capture saw it; never before the connection's previous packet.
    pub at: Time,
    /// Its number in the capture.
    pub frame: u64,
    /// Position of its first payload byte in the sender's stream.
    pub from: i64,
    /// What it acknowledges, as a position in the receiver's stream; a FIN counts one.
    pub ack: Option<i64>,
    /// Payload bytes.
    pub len: u32,
    /// The window field as sent.
    pub window: u16,
    /// The flags.
    pub flags: TcpFlags,
    /// The sender.
    pub side: Side,
    /// What it did to its stream.
    pub role: Role,
    /// Whether it carries SACK blocks.
    pub sack: bool,
    /// For data with a timestamp: microseconds since the packet whose timestamp it echoes passed here,
    /// that is, from here to the sender and back, with every queue on the way (RFC 7323 §4.1).
    pub loop_us: Option<NonZeroU32>,
}

impl Packet {
    /// Position after the last payload byte.
    #[must_use]
    pub fn to(&self) -> i64 {
        self.from.saturating_add(i64::from(self.len))
    }

    /// From the tap to the sender and back, as the echoed timestamp tells.
    #[must_use]
    pub fn loop_time(&self) -> Option<Duration> {
        self.loop_us
            .map(|micros| Duration::from_micros(u64::from(micros.get())))
    }

    /// The packet as something to point at.
    #[must_use]
    pub const fn mark(&self) -> Mark {
        Mark {
            at: self.at,
            frame: self.frame,
        }
    }

    /// Whether it is an ACK alone: no payload, SYN, FIN or RST, and no copy.
    #[must_use]
    pub fn is_pure_ack(&self) -> bool {
        self.role == Role::Ack && self.ack.is_some()
    }
}
