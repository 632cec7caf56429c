//! What a trunk can say of itself, for metrics, logs and tests.

use core::time::Duration;

use units::{Bytes, Rate, Time};

use crate::{ConnectionId, Holds, Manner, Observation, Totals};

/// The whole trunk.
#[derive(Clone, Copy, Debug)]
pub struct Status {
    /// Connections that are up.
    pub connections: u32,
    /// Of those, the ones without an acknowledgement for too long.
    pub stalled: u32,
    /// Connections wanted.
    pub wanted: u32,
    /// Streams that are open.
    pub streams: usize,
    /// Accepted from applications and not acknowledged by the peer; at most [`crate::Memory::send`].
    pub send_held: Bytes,
    /// Received and not handed on; at most [`crate::Memory::receive`].
    pub receive_held: Bytes,
    /// Reliable frames out and not acknowledged.
    pub frames_in_flight: usize,
    /// Padding that may still be spent.
    pub padding_left: Bytes,
    /// Bytes on all connections that there have been.
    pub totals: Totals,
    /// How much it takes from others on its path.
    pub manner: Manner,
    /// Payload that the peer has acknowledged since the session began.
    pub delivered: Bytes,
    /// Payload that has come from the peer since the session began.
    pub received: Bytes,
}

/// One connection.
#[derive(Clone, Copy, Debug)]
pub struct ConnectionStatus {
    /// Which.
    pub connection: ConnectionId,
    /// The peer has let it in.
    pub ready: bool,
    /// Without an acknowledgement for too long.
    pub stalled: bool,
    /// Whether its windows hold what its path carries.
    pub heat: Heat,
    /// Given up as soon as all its frames are acknowledged.
    pub retiring: bool,
    /// The least time from a frame to its acknowledgement of late.
    pub round_trip: Option<Duration>,
    /// The smoothed one, with what queues on the way.
    pub smoothed: Option<Duration>,
    /// The highest delivery rate of late, of bytes given to the socket.
    pub rate: Option<Rate>,
    /// Bytes of frames not acknowledged.
    pub in_flight: Bytes,
    /// Bytes since it came up.
    pub totals: Totals,
    /// What the driver saw last.
    pub observation: Option<Observation>,
}

/// Whether a connection's windows hold what its path carries in a round trip.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Heat {
    /// The driver has not seen its socket.
    Unknown,
    /// They hold less, or what the path carries is not known yet.
    Cold,
    /// They do.
    Hot,
}

/// One stream.
#[derive(Clone, Copy, Debug)]
pub struct StreamStatus {
    /// Accepted from the application and not sent for the first time.
    pub queued: Bytes,
    /// Sent for the first time.
    pub sent: Bytes,
    /// Sent and not acknowledged.
    pub in_flight: Bytes,
    /// Given to the reader.
    pub received: Bytes,
    /// What the peer may send ahead of the reader.
    pub window: Bytes,
    /// When it was opened here.
    pub opened_at: Time,
    /// What has held its sending back until now.
    pub held_by: Holds,
}
