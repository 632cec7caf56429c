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

/// Takes messages from the sockets, several from one superpacket.
#[derive(Debug)]
pub(super) struct Inbox {
    buffer: Vec<u8>,
}

/// The largest superpacket.
const LARGEST: usize = 65_536;

// === impl Inbox ===

impl Inbox {
    pub(super) fn new() -> Self {
        Self {
            buffer: vec![0; LARGEST],
        }
    }

    /// Hands every message that has come in `direction`, and when it came, to `handle`; what is not ours
    /// is passed over.
    pub(super) fn empty(
        &mut self,
        sockets: &Sockets,
        direction: Direction,
        mut handle: impl FnMut(Message, Duration) -> Result<(), ProbeError>,
    ) -> Result<(), ProbeError> {
        let receive = |source| ProbeError::Exchange {
            operation: "receive",
            source,
        };
        let socket = sockets.receiver(direction);
        while let Some(datagram) = socket.receive(&mut self.buffer).map_err(receive)? {
            let bytes = self.buffer.get(..datagram.length).unwrap_or_default();
            for message in bytes.chunks(datagram.segment.max(1)) {
                if let Some(message) = Message::decode(message) {
                    handle(message, datagram.at)?;
                }
            }
        }
        Ok(())
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
