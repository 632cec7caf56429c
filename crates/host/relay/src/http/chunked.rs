use super::Malformed;

/// Longest chunk line (size and extensions) and longest trailer section that is passed on. Extensions
/// carry a signature of about 100 bytes where they carry anything.
const MAX_CHUNK_LINE: usize = 1024;
const MAX_TRAILERS: usize = 16 * 1024;
/// 2^60 bytes: what does not fit in 15 digits is an attack on somebody's integer.
const MAX_SIZE_DIGITS: usize = 15;

/// Follows a chunked body (RFC 9112 §7.1) without changing it: says how many of the bytes that arrive
/// belong to it, and refuses what is not exactly the grammar.
///
/// Stricter than the RFC asks in one place: no white space between a chunk's size and its line end,
/// because recipients differ in how much of it they skip.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct ChunkScanner {
    state: State,
    /// Bytes of the current chunk line, or of all trailers.
    overhead: usize,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum State {
    Size {
        digits: usize,
        value: u64,
    },
    Extension {
        value: u64,
    },
    SizeLineFeed {
        value: u64,
    },
    Data {
        remaining: u64,
    },
    DataCarriageReturn,
    DataLineFeed,
    /// At the start of a line after the last chunk.
    TrailerStart,
    TrailerName,
    TrailerValue,
    TrailerLineFeed,
    LastLineFeed,
    Done,
}

impl ChunkScanner {
    pub(crate) fn new() -> Self {
        Self {
            state: State::Size {
                digits: 0,
                value: 0,
            },
            overhead: 0,
        }
    }

    pub(crate) fn is_done(&self) -> bool {
        self.state == State::Done
    }

    /// Takes what belongs to the body from the front of `bytes` and returns its length: all of it, or
    /// less where the body ends.
    pub(crate) fn accept(&mut self, bytes: &[u8]) -> Result<usize, Malformed> {
        let mut index = 0;
        while index < bytes.len() && self.state != State::Done {
            if let State::Data { remaining } = &mut self.state {
                let here = bytes.len() - index;
                let take = usize::try_from(*remaining).map_or(here, |left| left.min(here));
                index += take;
                *remaining = remaining.saturating_sub(take.try_into().unwrap_or(u64::MAX));
                if *remaining == 0 {
                    self.state = State::DataCarriageReturn;
                }
                continue;
            }
            self.state = self.step(bytes[index])?;
            index += 1;
        }
        Ok(index)
    }

    /// Takes framing from the front of `bytes`, up to the next chunk's data or the end, and returns its length.
    /// The trailers' lines, with the empty one that ends them, are appended to `trailers`.
    pub(crate) fn accept_framing(
        &mut self,
        bytes: &[u8],
        trailers: &mut Vec<u8>,
    ) -> Result<usize, Malformed> {
        let mut count = 0;
        for &byte in bytes {
            if self.is_done() || self.data_ahead() > 0 {
                break;
            }
            if self.is_in_trailers() {
                trailers.push(byte);
            }
            self.state = self.step(byte)?;
            count += 1;
        }
        Ok(count)
    }

    /// Bytes of the current chunk's data that are still to come.
    pub(crate) fn data_ahead(&self) -> u64 {
        if let State::Data { remaining } = self.state {
            remaining
        } else {
            0
        }
    }

    fn is_in_trailers(&self) -> bool {
        matches!(
            self.state,
            State::TrailerStart
                | State::TrailerName
                | State::TrailerValue
                | State::TrailerLineFeed
                | State::LastLineFeed
        )
    }

    /// The state after one byte outside of a chunk's data.
    fn step(&mut self, byte: u8) -> Result<State, Malformed> {
        let next = match (self.state, byte) {
            (State::Size { digits, value }, byte) => self.step_size(digits, value, byte)?,
            (State::Extension { value }, b'\r') => State::SizeLineFeed { value },
            (State::Extension { value }, b'\t' | b' '..=b'~' | 0x80..) => {
                self.spend(MAX_CHUNK_LINE)?;
                State::Extension { value }
            }
            (State::Extension { .. }, _) => return Err(Malformed::ChunkSize),
            (State::SizeLineFeed { value }, b'\n') => {
                self.overhead = 0;
                if value == 0 {
                    State::TrailerStart
                } else {
                    State::Data { remaining: value }
                }
            }
            (State::DataCarriageReturn, b'\r') => State::DataLineFeed,
            (State::DataLineFeed, b'\n') => State::Size {
                digits: 0,
                value: 0,
            },
            (State::DataCarriageReturn | State::DataLineFeed, _) => {
                return Err(Malformed::ChunkEnd);
            }
            (State::TrailerStart, b'\r') => State::LastLineFeed,
            (State::TrailerStart | State::TrailerName, byte) if is_token(byte) => {
                self.spend(MAX_TRAILERS)?;
                State::TrailerName
            }
            (State::TrailerName, b':') => State::TrailerValue,
            (State::TrailerValue, b'\r') => State::TrailerLineFeed,
            (State::TrailerValue, b'\t' | b' '..=b'~' | 0x80..) => {
                self.spend(MAX_TRAILERS)?;
                State::TrailerValue
            }
            (State::TrailerLineFeed, b'\n') => State::TrailerStart,
            (State::LastLineFeed, b'\n') | (State::Done, _) => State::Done,
            (State::SizeLineFeed { .. } | State::TrailerLineFeed | State::LastLineFeed, _) => {
                return Err(Malformed::BareCarriageReturn);
            }
            (State::TrailerStart | State::TrailerName | State::TrailerValue, _) => {
                return Err(Malformed::Trailer);
            }
            // `accept` takes data in bulk and never steps through it.
            (State::Data { remaining }, _) => State::Data { remaining },
        };
        Ok(next)
    }

    fn step_size(&mut self, digits: usize, value: u64, byte: u8) -> Result<State, Malformed> {
        let digit = char::from(byte).to_digit(16);
        match (digit, byte) {
            (Some(digit), _) if digits < MAX_SIZE_DIGITS => Ok(State::Size {
                digits: digits + 1,
                value: value << 4 | u64::from(digit),
            }),
            (None, b'\r') if digits > 0 => Ok(State::SizeLineFeed { value }),
            (None, b';') if digits > 0 => {
                self.spend(MAX_CHUNK_LINE)?;
                Ok(State::Extension { value })
            }
            _ => Err(Malformed::ChunkSize),
        }
    }

    fn spend(&mut self, limit: usize) -> Result<(), Malformed> {
        self.overhead += 1;
        if self.overhead > limit {
            return Err(Malformed::ChunkOverhead);
        }
        Ok(())
    }
}

/// A byte of a field name (RFC 9110 §5.6.2).
fn is_token(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte)
}
