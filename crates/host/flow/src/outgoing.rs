//! The sending half of a connection: frames onto a stream.

use std::io::{self, IoSlice};
use std::time::{Duration, Instant};

use crate::engine::Stream;
use crate::pattern::{BLOCK, Pattern, to_u64};
use crate::protocol::{self, Ask, Frame};

/// Payload bytes that a stream without a known end sends in one frame, once its rate is known to be low: so
/// that it ends soon after its time is over.
const SHORT_FRAME: u64 = 16 * 1024;
/// What a full block may take until frames get shorter.
const SLOW: Duration = Duration::from_millis(20);

/// The streams of one direction, one after the other.
#[derive(Debug)]
pub(crate) struct Outgoing<'a> {
    stream: &'a dyn Stream,
    pattern: Pattern,
}

impl<'a> Outgoing<'a> {
    pub(crate) fn new(stream: &'a dyn Stream, seed: u64) -> Self {
        Self {
            stream,
            pattern: Pattern::new(seed),
        }
    }

    /// Sends a frame other than DATA.
    pub(crate) fn frame(&mut self, frame: &Frame<'_>) -> io::Result<()> {
        let bytes = protocol::encode(frame)?;
        write_all(self.stream, [&bytes, &[], &[]])
    }

    /// Sends a whole stream with its END, and returns its bytes. `between` is called between two frames:
    /// it may send what is urgent, or say that enough was sent.
    pub(crate) fn stream(
        &mut self,
        ask: Ask,
        mut between: impl FnMut(&mut Self) -> io::Result<bool>,
    ) -> io::Result<u64> {
        let end = protocol::encode(&Frame::End)?;
        let start = Instant::now();
        let mut sent = 0;
        let mut most = to_u64(BLOCK);
        loop {
            let left = match ask {
                Ask::Bytes(bytes) => bytes.saturating_sub(sent),
                Ask::Nanoseconds(span) if start.elapsed() < Duration::from_nanos(span) => most,
                Ask::Nanoseconds(_) => 0,
            };
            if left == 0 || !between(self)? {
                write_all(self.stream, [&end, &[], &[]])?;
                return Ok(sent);
            }
            let payload = self.pattern.peek(left.min(most));
            let length = payload.len();
            let header = protocol::data_header(to_u64(length));
            sent = sent.saturating_add(to_u64(length));
            // The END of a stream of known length leaves with its last bytes.
            let last = ask == Ask::Bytes(sent);
            let before = Instant::now();
            write_all(
                self.stream,
                [&header, payload, if last { &end } else { &[] }],
            )?;
            self.pattern.advance(length);
            if last {
                return Ok(sent);
            }
            if matches!(ask, Ask::Nanoseconds(_)) && before.elapsed() > SLOW {
                most = SHORT_FRAME;
            }
        }
    }
}

/// Writes three pieces to the end.
fn write_all(stream: &dyn Stream, mut pieces: [&[u8]; 3]) -> io::Result<()> {
    loop {
        let [a, b, c] = pieces;
        if a.is_empty() && b.is_empty() && c.is_empty() {
            return Ok(());
        }
        let mut taken = stream.write(&pieces.map(IoSlice::new))?;
        if taken == 0 {
            return Err(io::ErrorKind::WriteZero.into());
        }
        for piece in &mut pieces {
            let here = taken.min(piece.len());
            *piece = &piece[here..];
            taken -= here;
        }
    }
}
