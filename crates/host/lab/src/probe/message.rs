//! The probe's packets: a kind, a number, and padding.

use std::time::Duration;

use link::Direction;

use crate::probe::{ProbeError, Sockets};

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Message {
    /// Asks for an answer.
    Ping { number: u64 },
    /// The answer, with the time that the answering end took.
    Pong { number: u64, turnaround: Duration },
    /// Part of a train.
    Carriage { number: u64 },
}

/// Kind, number, turnaround in nanoseconds.
pub(super) const LENGTH: usize = 17;

// === impl Message ===

impl Message {
    pub(super) fn encode(self) -> [u8; LENGTH] {
        let (kind, number, turnaround) = match self {
            Self::Ping { number } => (0, number, Duration::ZERO),
            Self::Pong { number, turnaround } => (1, number, turnaround),
            Self::Carriage { number } => (2, number, Duration::ZERO),
        };
        let nanos = u64::try_from(turnaround.as_nanos()).unwrap_or(u64::MAX);
        let mut bytes = [0; LENGTH];
        bytes[0] = kind;
        bytes[1..9].copy_from_slice(&number.to_be_bytes());
        bytes[9..].copy_from_slice(&nanos.to_be_bytes());
        bytes
    }

    fn decode(bytes: &[u8]) -> Option<Self> {
        let bytes: &[u8; LENGTH] = bytes.first_chunk()?;
        let [kind, rest @ ..] = bytes;
        let (number, turnaround) = rest.split_first_chunk()?;
        let number = u64::from_be_bytes(*number);
        let turnaround = Duration::from_nanos(u64::from_be_bytes(*turnaround.first_chunk()?));
        match kind {
            0 => Some(Self::Ping { number }),
            1 => Some(Self::Pong { number, turnaround }),
            2 => Some(Self::Carriage { number }),
            _ => None,
        }
    }
}

/// The next message that came in `direction`, and when; what is not ours is passed over.
pub(super) fn receive(
    sockets: &Sockets,
    direction: Direction,
) -> Result<Option<(Message, Duration)>, ProbeError> {
    let mut bytes = [0; LENGTH];
    loop {
        let received = sockets
            .receiver(direction)
            .receive(&mut bytes)
            .map_err(|source| ProbeError::Exchange {
                operation: "receive",
                source,
            })?;
        let Some(datagram) = received else {
            return Ok(None);
        };
        if let Some(message) = bytes.get(..datagram.length).and_then(Message::decode) {
            return Ok(Some((message, datagram.at)));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_survive_their_bytes() {
        let turnaround = Duration::from_nanos(u64::MAX);
        for message in [
            Message::Ping { number: 0 },
            Message::Pong {
                number: u64::MAX,
                turnaround,
            },
            Message::Carriage { number: 77 },
        ] {
            assert_eq!(Message::decode(&message.encode()), Some(message));
        }
        assert_eq!(Message::decode(&[0; LENGTH - 1]), None);
        assert_eq!(Message::decode(&[9; LENGTH]), None);
    }
}
