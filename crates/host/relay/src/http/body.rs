use super::Malformed;
use super::chunked::ChunkScanner;

/// Where a message's body ends (RFC 9112 §6.3).
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) enum Body {
    /// After so many more bytes; zero where there is no body.
    Length(u64),
    /// Where its own framing says.
    Chunked(ChunkScanner),
    /// Where the connection is closed: responses only.
    UntilClose,
}

impl Body {
    /// A message without a body.
    pub(crate) const EMPTY: Self = Self::Length(0);

    pub(crate) fn chunked() -> Self {
        Self::Chunked(ChunkScanner::new())
    }

    /// Whether nothing more belongs to the body.
    pub(crate) fn is_done(&self) -> bool {
        match self {
            Self::Length(remaining) => *remaining == 0,
            Self::Chunked(scanner) => scanner.is_done(),
            Self::UntilClose => false,
        }
    }

    /// Takes what belongs to the body from the front of `bytes` and returns its length.
    pub(crate) fn accept(&mut self, bytes: &[u8]) -> Result<usize, Malformed> {
        match self {
            Self::Length(remaining) => {
                let take = usize::try_from(*remaining).map_or(bytes.len(), |r| r.min(bytes.len()));
                *remaining = remaining.saturating_sub(take.try_into().unwrap_or(u64::MAX));
                Ok(take)
            }
            Self::Chunked(scanner) => scanner.accept(bytes),
            Self::UntilClose => Ok(bytes.len()),
        }
    }

    /// Takes what frames the body, rather than being part of what it holds, from the front of `bytes`: see
    /// [`ChunkScanner::accept_framing`].
    pub(crate) fn accept_framing(
        &mut self,
        bytes: &[u8],
        trailers: &mut Vec<u8>,
    ) -> Result<usize, Malformed> {
        match self {
            Self::Length(_) | Self::UntilClose => Ok(0),
            Self::Chunked(scanner) => scanner.accept_framing(bytes, trailers),
        }
    }

    /// How many of `most` bytes at the front are what the body holds.
    pub(crate) fn data_ahead(&self, most: usize) -> usize {
        let ahead = match self {
            Self::Length(remaining) => *remaining,
            Self::Chunked(scanner) => scanner.data_ahead(),
            Self::UntilClose => u64::MAX,
        };
        usize::try_from(ahead).map_or(most, |ahead| ahead.min(most))
    }
}
