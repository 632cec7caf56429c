use std::cmp::Reverse;
use std::time::Duration;

use crate::watched::Watched;

/// What connections are sorted by; the most remarkable first.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum Order {
    /// Goodput of both directions together.
    #[default]
    Goodput,
    /// Payload acknowledged by the peer per second.
    Out,
    /// Payload received per second.
    In,
    /// Smoothed round-trip time.
    Rtt,
    /// Congestion window in bytes.
    Cwnd,
    /// Payload in flight.
    InFlight,
    /// Segments sent again, now and then so far.
    Retransmissions,
    /// Bytes written that the peer has not acknowledged.
    SendQueue,
    /// Bytes received that nobody has read.
    ReceiveQueue,
    /// Limit by precedence, then how long it has held.
    Limit,
    /// Time in the present state.
    State,
    /// Name of the process.
    Process,
    /// The other end's address.
    Peer,
}

/// A place in an order: smaller is further up.
#[derive(Clone, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub(crate) struct Place {
    rank: u8,
    text: Option<String>,
    number: Reverse<u64>,
    id: u64,
}

// === impl Order ===

impl Order {
    /// All of them, as they are offered.
    pub const ALL: [Self; 13] = [
        Self::Goodput,
        Self::Out,
        Self::In,
        Self::Rtt,
        Self::Cwnd,
        Self::InFlight,
        Self::Retransmissions,
        Self::SendQueue,
        Self::ReceiveQueue,
        Self::Limit,
        Self::State,
        Self::Process,
        Self::Peer,
    ];

    /// The word for it.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Goodput => "goodput",
            Self::Out => "out",
            Self::In => "in",
            Self::Rtt => "rtt",
            Self::Cwnd => "cwnd",
            Self::InFlight => "in-flight",
            Self::Retransmissions => "retransmissions",
            Self::SendQueue => "send-queue",
            Self::ReceiveQueue => "receive-queue",
            Self::Limit => "limit",
            Self::State => "state",
            Self::Process => "process",
            Self::Peer => "peer",
        }
    }

    pub(crate) fn key(self, watched: &Watched) -> Place {
        let seen = &watched.seen;
        let (mut text, mut rank) = (None, 0);
        let number = match self {
            Self::Goodput => whole(watched.out_bps + watched.in_bps),
            Self::Out => whole(watched.out_bps),
            Self::In => whole(watched.in_bps),
            Self::Rtt => micros(seen.sender.rtt),
            Self::Cwnd => seen.sender.cwnd.saturating_mul(seen.mss),
            Self::InFlight => seen.in_flight,
            Self::Retransmissions => {
                rank = u8::from(watched.retransmissions_per_s <= 0.0);
                seen.sender.retransmissions
            }
            Self::SendQueue => seen.send_queue.into(),
            Self::ReceiveQueue => seen.receive_queue.into(),
            Self::Limit => {
                let place = record::LimitName::ALL
                    .iter()
                    .position(|name| *name == watched.limit);
                rank = place
                    .and_then(|place| u8::try_from(place).ok())
                    .unwrap_or(u8::MAX);
                micros(watched.time_in_limit())
            }
            Self::State => micros(watched.time_in_state()),
            Self::Process => {
                let process = watched.process.as_ref();
                rank = u8::from(process.is_none());
                text = Some(process.map_or_else(String::new, |one| one.name.clone()));
                0
            }
            Self::Peer => {
                text = Some(seen.peer.to_string());
                0
            }
        };
        Place {
            rank,
            text,
            number: Reverse(number),
            id: watched.id,
        }
    }
}

fn micros(span: Duration) -> u64 {
    u64::try_from(span.as_micros()).unwrap_or(u64::MAX)
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "rates are not negative, and order needs no fraction of a bit per second"
)]
const fn whole(rate_bps: f64) -> u64 {
    rate_bps as u64
}
