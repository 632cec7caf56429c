//! Checks of bytes: a CRC per frame, a digest per stream and direction.

use alloc::boxed::Box;
use core::fmt;

use bytes::Bytes;

/// Which digest runs over each direction of each stream. The initiator chooses, for a whole session.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum DigestKind {
    /// BLAKE3, 256 bits: nobody can make other bytes of the same digest. The default, because the
    /// question of an audit is about intent, not only about accidents.
    #[default]
    Blake3,
    /// XXH3, 128 bits: finds accidents only, at a fraction of the CPU time.
    Xxh3,
}

impl DigestKind {
    pub(crate) const fn code(self) -> u8 {
        match self {
            Self::Blake3 => 1,
            Self::Xxh3 => 2,
        }
    }

    pub(crate) const fn from_code(code: u8) -> Option<Self> {
        match code {
            1 => Some(Self::Blake3),
            2 => Some(Self::Xxh3),
            _ => None,
        }
    }

    /// A stable name, for receipts and JSON.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Blake3 => "blake3",
            Self::Xxh3 => "xxh3-128",
        }
    }
}

/// The digest of all bytes of one direction. Prints as hexadecimal.
#[derive(Clone, Copy, Eq, PartialEq)]
pub struct Digest {
    kind: DigestKind,
    /// A shorter digest stands in front; the rest is zero.
    pub(crate) bytes: [u8; Self::WIRE_LEN],
}

impl Digest {
    /// What a digest takes in a frame, whatever its kind.
    pub(crate) const WIRE_LEN: usize = 32;

    pub(crate) const fn new(kind: DigestKind, bytes: [u8; Self::WIRE_LEN]) -> Self {
        Self { kind, bytes }
    }

    /// Which digest it is.
    pub const fn kind(&self) -> DigestKind {
        self.kind
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let len = match self.kind {
            DigestKind::Blake3 => 32,
            DigestKind::Xxh3 => 16,
        };
        write!(f, "{}:", self.kind.name())?;
        self.bytes
            .iter()
            .take(len)
            .try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// A digest in the making. Its state is made with the first byte, so that 10,000 idle streams hold none.
pub(crate) struct Hasher {
    kind: DigestKind,
    state: Option<State>,
}

enum State {
    Blake3(Box<blake3::Hasher>),
    Xxh3(Box<twox_hash::XxHash3_128>),
}

impl Hasher {
    pub(crate) const fn new(kind: DigestKind) -> Self {
        Self { kind, state: None }
    }

    pub(crate) fn update(&mut self, bytes: &[u8]) {
        let kind = self.kind;
        let state = self.state.get_or_insert_with(|| State::new(kind));
        match state {
            State::Blake3(hasher) => {
                hasher.update(bytes);
            }
            State::Xxh3(hasher) => hasher.write(bytes),
        }
    }

    pub(crate) fn digest(&self) -> Digest {
        let bytes = match &self.state {
            Some(State::Blake3(hasher)) => *hasher.finalize().as_bytes(),
            Some(State::Xxh3(hasher)) => widen(hasher.finish_128()),
            None => match State::new(self.kind) {
                State::Blake3(hasher) => *hasher.finalize().as_bytes(),
                State::Xxh3(hasher) => widen(hasher.finish_128()),
            },
        };
        Digest::new(self.kind, bytes)
    }
}

impl State {
    fn new(kind: DigestKind) -> Self {
        match kind {
            DigestKind::Blake3 => Self::Blake3(Box::new(blake3::Hasher::new())),
            DigestKind::Xxh3 => Self::Xxh3(Box::new(twox_hash::XxHash3_128::new())),
        }
    }
}

impl fmt::Debug for Hasher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Hasher")
            .field("kind", &self.kind)
            .finish_non_exhaustive()
    }
}

fn widen(short: u128) -> [u8; Digest::WIRE_LEN] {
    let mut bytes = [0; Digest::WIRE_LEN];
    let (front, _) = bytes.split_at_mut(16);
    front.copy_from_slice(&short.to_be_bytes());
    bytes
}

/// CRC32C (Castagnoli, as in RFC 9260 appendix A) over pieces in order.
pub(crate) fn crc32c<'a>(pieces: impl IntoIterator<Item = &'a [u8]>) -> u32 {
    let mut crc = crc_fast::Digest::new(crc_fast::CrcAlgorithm::Crc32Iscsi);
    for piece in pieces {
        crc.update(piece);
    }
    // A 32-bit CRC in a 64-bit word.
    u32::try_from(crc.finalize()).unwrap_or(u32::MAX)
}

/// The slices of pieces.
pub(crate) fn slices(pieces: &[Bytes]) -> impl Iterator<Item = &[u8]> {
    pieces.iter().map(Bytes::as_ref)
}
