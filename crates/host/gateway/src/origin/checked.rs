//! A body in `aws-chunked` framing whose checksum follows it, so that the origin checks what it stores
//! although nobody knew the checksum when the request began.
//!
//! Source: "Signature calculations for trailing headers" in the S3 API reference.

use bytes::Bytes;
use futures_util::stream::{self, Stream, StreamExt as _};

use super::{Failed, Pieces};
use crate::checksum::{Algorithm, Running};

/// Bytes per chunk: what Amazon's own libraries use, and well below the 16 MiB at which servers stop.
const CHUNK: u64 = 1 << 20;

/// Bytes of the whole framing around `length` bytes.
pub(crate) fn framed_length(length: u64, algorithm: Algorithm) -> u64 {
    let full = length / CHUNK;
    let rest = length % CHUNK;
    let around = |chunk: u64| digits(chunk) + 2 + chunk + 2;
    let rest = if rest == 0 { 0 } else { around(rest) };
    let name = algorithm.header().len() as u64;
    full * around(CHUNK) + rest + 3 + name + 1 + algorithm.text_length() + 2 + 2
}

/// `pieces`, of which there must be `length` bytes, in chunks of [`CHUNK`] with the checksum behind them.
pub(crate) fn framed(
    pieces: Pieces,
    length: u64,
    algorithm: Algorithm,
) -> impl Stream<Item = Result<Bytes, Failed>> + Send {
    let state = Framing {
        pieces,
        checksum: Running::new(algorithm),
        algorithm,
        left: length,
        left_in_chunk: 0,
        rest: Bytes::new(),
        phase: Phase::Data,
    };
    stream::try_unfold(state, |mut state| async move {
        Ok(state.next().await?.map(|bytes| (bytes, state)))
    })
}

struct Framing {
    pieces: Pieces,
    checksum: Running,
    algorithm: Algorithm,
    /// Bytes that are still to come.
    left: u64,
    left_in_chunk: u64,
    /// Of the piece that reached into the next chunk.
    rest: Bytes,
    phase: Phase,
}

#[derive(Clone, Copy)]
enum Phase {
    Data,
    /// The line end behind a full chunk is due.
    ChunkEnd,
    Trailer,
    Done,
}

impl Framing {
    async fn next(&mut self) -> Result<Option<Bytes>, Failed> {
        match self.phase {
            Phase::Done => Ok(None),
            Phase::ChunkEnd => {
                self.phase = Phase::Data;
                Ok(Some(Bytes::from_static(b"\r\n")))
            }
            Phase::Trailer => {
                // Whoever made the pieces may have held something back until all was checked: it must be
                // heard out before the request is complete.
                while let Some(piece) = self.pieces.next().await {
                    if !piece?.is_empty() {
                        return Err(Failed::internal("more bytes than were announced"));
                    }
                }
                self.phase = Phase::Done;
                let value = std::mem::replace(&mut self.checksum, Running::new(self.algorithm));
                let name = self.algorithm.header();
                let trailer = format!("0\r\n{name}:{}\r\n\r\n", value.text());
                Ok(Some(Bytes::from(trailer)))
            }
            Phase::Data if self.left == 0 => {
                self.phase = Phase::Trailer;
                Box::pin(self.next()).await
            }
            Phase::Data if self.left_in_chunk == 0 => {
                self.left_in_chunk = self.left.min(CHUNK);
                Ok(Some(Bytes::from(format!("{:x}\r\n", self.left_in_chunk))))
            }
            Phase::Data => self.data().await.map(Some),
        }
    }

    async fn data(&mut self) -> Result<Bytes, Failed> {
        while self.rest.is_empty() {
            self.rest = match self.pieces.next().await {
                Some(piece) => piece?,
                None => return Err(Failed::internal("fewer bytes than were announced")),
            };
        }
        let most = usize::try_from(self.left_in_chunk).unwrap_or(usize::MAX);
        let piece = self.rest.split_to(self.rest.len().min(most));
        self.checksum.update(&piece);
        let taken = piece.len() as u64;
        self.left_in_chunk -= taken;
        self.left -= taken;
        if self.left_in_chunk == 0 {
            self.phase = Phase::ChunkEnd;
        }
        Ok(piece)
    }
}

/// Hexadecimal digits of `number`.
fn digits(number: u64) -> u64 {
    u64::from((u64::BITS - number.leading_zeros()).div_ceil(4).max(1))
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::stream::TryStreamExt as _;

    async fn frame(pieces: Vec<Bytes>, length: u64) -> Result<Vec<u8>, Failed> {
        let pieces: Pieces = Box::pin(stream::iter(pieces.into_iter().map(Ok)));
        let framed = framed(pieces, length, Algorithm::Crc32c);
        let parts: Vec<Bytes> = framed.try_collect().await?;
        Ok(parts.concat())
    }

    #[tokio::test]
    async fn a_body_is_framed_as_the_api_reference_says() {
        // CRC-32C of "hello world" is c99465aa in hexadecimal.
        let framed = frame(vec!["hello ".into(), "world".into()], 11)
            .await
            .unwrap();
        let text = String::from_utf8(framed).unwrap();
        assert_eq!(
            text,
            "b\r\nhello world\r\n0\r\nx-amz-checksum-crc32c:yZRlqg==\r\n\r\n"
        );
    }

    #[tokio::test]
    async fn the_length_is_known_before_the_bytes() {
        for length in [
            0,
            1,
            15,
            16,
            CHUNK - 1,
            CHUNK,
            CHUNK + 1,
            3 * CHUNK,
            5 * CHUNK + 77,
        ] {
            let body = Bytes::from(vec![7; usize::try_from(length).unwrap()]);
            // Pieces that do not fall onto the chunks' edges.
            let pieces = body.chunks(300_001).map(Bytes::copy_from_slice).collect();
            let framed = frame(pieces, length).await.unwrap();
            assert_eq!(
                framed.len() as u64,
                framed_length(length, Algorithm::Crc32c),
                "{length}"
            );
        }
    }

    #[tokio::test]
    async fn fewer_or_more_bytes_than_announced_never_complete_a_body() {
        frame(vec!["abc".into()], 4).await.unwrap_err();
        frame(vec!["abc".into(), "de".into()], 3).await.unwrap_err();
    }
}
