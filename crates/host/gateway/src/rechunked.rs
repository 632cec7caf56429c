//! Chunks of a client's `aws-chunked` body, made small.
//!
//! A client may send an object as one chunk, and `s3s` holds a chunk whole before it passes it on.
//! Unsigned chunks can be cut without anybody noticing; signed ones cannot, and large ones are refused.

use bytes::Bytes;
use futures_util::stream::{self, Stream, StreamExt as _};

/// What a chunk is cut into, and so what is held in memory.
const SMALL: u64 = 1 << 20;
/// Largest signed chunk: what other servers take.
const LARGEST_SIGNED: u64 = 16 << 20;
/// Longest line before a chunk: a length and a signature.
const LINE: usize = 1024;

/// A chunk line that is none, or a chunk that is too large.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
pub(crate) enum ChunkError {
    #[error("FormatError: a chunk's length cannot be read")]
    Line,
    #[error("a signed chunk is larger than {LARGEST_SIGNED} bytes")]
    TooLarge,
}

/// Rewrites a body while it passes.
#[derive(Debug)]
pub(crate) struct Rechunking {
    signed: bool,
    phase: Phase,
}

#[derive(Debug)]
enum Phase {
    /// The line before a chunk, as far as it is here.
    Line(Vec<u8>),
    /// Bytes of the chunk, and of the one that is made of it.
    Data { left: u64, left_in_small: u64 },
    /// Bytes of the line end behind a chunk.
    End(u8),
    /// Behind the last chunk.
    Trailers,
}

// === impl Rechunking ===

impl Rechunking {
    pub(crate) const fn new(signed: bool) -> Self {
        Self {
            signed,
            phase: Phase::Line(Vec::new()),
        }
    }

    /// Takes what arrived; `out` gets what goes on.
    pub(crate) fn push(
        &mut self,
        mut bytes: Bytes,
        out: &mut Vec<Bytes>,
    ) -> Result<(), ChunkError> {
        while !bytes.is_empty() {
            match &mut self.phase {
                Phase::Trailers => out.push(std::mem::take(&mut bytes)),
                Phase::Line(line) => {
                    let end = bytes.iter().position(|byte| *byte == b'\n');
                    let now = bytes.split_to(end.map_or(bytes.len(), |end| end + 1));
                    line.extend_from_slice(&now);
                    if line.len() > LINE {
                        return Err(ChunkError::Line);
                    }
                    if end.is_some() {
                        let line = std::mem::take(line);
                        self.begin(line, out)?;
                    }
                }
                Phase::Data {
                    left,
                    left_in_small,
                } => {
                    let most = usize::try_from(*left_in_small).unwrap_or(usize::MAX);
                    let now = bytes.split_to(bytes.len().min(most));
                    *left -= now.len() as u64;
                    *left_in_small -= now.len() as u64;
                    out.push(now);
                    if *left == 0 {
                        self.phase = Phase::End(2);
                    } else if *left_in_small == 0 {
                        *left_in_small = (*left).min(SMALL);
                        out.push(Bytes::from(format!("\r\n{:x}\r\n", *left_in_small)));
                    }
                }
                Phase::End(left) => {
                    let now = bytes.split_to(bytes.len().min(usize::from(*left)));
                    *left = left.saturating_sub(u8::try_from(now.len()).unwrap_or(u8::MAX));
                    out.push(now);
                    if *left == 0 {
                        self.phase = Phase::Line(Vec::new());
                    }
                }
            }
        }
        Ok(())
    }

    fn begin(&mut self, line: Vec<u8>, out: &mut Vec<Bytes>) -> Result<(), ChunkError> {
        let text = std::str::from_utf8(&line).map_err(|_| ChunkError::Line)?;
        let digits = text.split([';', '\r', '\n']).next().unwrap_or_default();
        let length = u64::from_str_radix(digits, 16).map_err(|_| ChunkError::Line)?;
        if length == 0 {
            self.phase = Phase::Trailers;
            out.push(Bytes::from(line));
            return Ok(());
        }
        let small = if self.signed {
            if length > LARGEST_SIGNED {
                return Err(ChunkError::TooLarge);
            }
            out.push(Bytes::from(line));
            length
        } else {
            let small = length.min(SMALL);
            out.push(Bytes::from(format!("{small:x}\r\n")));
            small
        };
        self.phase = Phase::Data {
            left: length,
            left_in_small: small,
        };
        Ok(())
    }
}

/// `body` with small chunks, where `payload` (of `x-amz-content-sha256`) says that it comes in chunks.
pub(crate) fn rechunked<S, E>(
    body: S,
    signed: bool,
) -> impl Stream<Item = Result<Bytes, Box<dyn std::error::Error + Send + Sync>>>
where
    S: Stream<Item = Result<Bytes, E>> + Unpin,
    E: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    let state = Some((body, Rechunking::new(signed)));
    stream::unfold(state, |state| async move {
        let (mut body, mut chunks) = state?;
        let mut out = Vec::new();
        let outcome = match body.next().await? {
            Ok(bytes) => chunks.push(bytes, &mut out).map_err(Into::into),
            Err(error) => Err(error.into()),
        };
        let mut out: Vec<_> = out.into_iter().map(Ok).collect();
        match outcome {
            Ok(()) => Some((out, Some((body, chunks)))),
            Err(error) => {
                out.push(Err(error));
                Some((out, None))
            }
        }
    })
    .flat_map(stream::iter)
}

/// Whether a body comes in chunks, and whether they are signed.
pub(crate) fn chunking(payload: &str) -> Option<bool> {
    match payload {
        "STREAMING-UNSIGNED-PAYLOAD-TRAILER" => Some(false),
        text if text.starts_with("STREAMING-") => Some(true),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn pass(signed: bool, body: &[u8], pieces: usize) -> Result<Vec<u8>, ChunkError> {
        let mut chunks = Rechunking::new(signed);
        let mut out = Vec::new();
        for piece in body.chunks(pieces.max(1)) {
            chunks.push(Bytes::copy_from_slice(piece), &mut out)?;
        }
        Ok(out.concat())
    }

    /// The bytes of all chunks, the largest chunk, and what follows.
    fn read(mut body: &[u8]) -> (Vec<u8>, usize, Vec<u8>) {
        let (mut data, mut largest) = (Vec::new(), 0);
        loop {
            let end = body.iter().position(|byte| *byte == b'\n').unwrap();
            let line = std::str::from_utf8(&body[..end]).unwrap().trim();
            let length = usize::from_str_radix(line.split(';').next().unwrap(), 16).unwrap();
            body = &body[end + 1..];
            if length == 0 {
                return (data, largest, body.to_vec());
            }
            data.extend_from_slice(&body[..length]);
            largest = largest.max(length);
            body = &body[length + 2..];
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(24))]

        #[test]
        fn bytes_and_trailers_stay_and_chunks_are_small(
            lengths in proptest::collection::vec(1_usize..3_000_000, 0..4), pieces in 1_usize..500_000,
        ) {
            let mut body = Vec::new();
            for (seed, length) in lengths.iter().enumerate() {
                body.extend(format!("{length:x}\r\n").into_bytes());
                body.extend(std::iter::repeat_n(u8::try_from(seed).unwrap(), *length));
                body.extend(b"\r\n");
            }
            body.extend(b"0\r\nx-amz-checksum-crc32:AAAAAA==\r\n\r\n");
            let passed = pass(false, &body, pieces).unwrap();
            let (before, _, end) = read(&body);
            let (after, largest, after_end) = read(&passed);
            prop_assert!(before == after && end == after_end);
            prop_assert!(largest as u64 <= SMALL);
            prop_assert!(pass(true, &body, pieces).unwrap() == body);
        }

        #[test]
        fn hostile_bodies_pass_or_are_refused(body: Vec<u8>, signed: bool, pieces in 1_usize..9) {
            let _ = pass(signed, &body, pieces);
        }
    }

    #[test]
    fn large_signed_chunks_and_lines_that_are_none_are_refused() {
        assert_eq!(
            pass(true, b"1000001;chunk-signature=0\r\n", 5),
            Err(ChunkError::TooLarge)
        );
        assert_eq!(pass(false, b"xyz\r\n", 5), Err(ChunkError::Line));
        assert_eq!(pass(false, &[b'1'; 2000], 5), Err(ChunkError::Line));
    }
}
