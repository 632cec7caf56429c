use alloc::collections::VecDeque;
use alloc::vec::Vec;

use bytes::{Buf as _, Bytes};

use crate::digest::{crc32c, slices};
use crate::frame::{DATA_HEAD_LEN, Frame, HEADER_LEN, Header, Kind};
use crate::{DigestKind, Preface, Target, Violation};

/// Frames out of a connection's bytes. Payloads stay where they were received; only what is small against
/// the buffer that it would keep alive is copied out of it.
///
/// Holds less than one frame between calls, and the frames of one received buffer during one.
#[derive(Debug, Default)]
pub(crate) struct Decoder {
    pieces: VecDeque<Piece>,
    len: usize,
}

#[derive(Debug)]
struct Piece {
    bytes: Bytes,
    /// How long the buffer was when it came, as the measure of what a slice of it keeps alive.
    buffer: usize,
}

/// Sequence, stream, length of the target and the target.
const OPEN_HEAD_LEN: usize = 18 + Target::MAX_LEN;
/// A slice keeps at most this many times its length alive, else it is copied: the factor by which a peer
/// could stretch the memory bound.
const MAX_RETENTION: usize = 4;

impl Decoder {
    pub(crate) fn push(&mut self, bytes: Bytes) {
        if !bytes.is_empty() {
            self.len += bytes.len();
            self.pieces.push_back(Piece {
                buffer: bytes.len(),
                bytes,
            });
        }
    }

    /// The preface, once it is complete.
    pub(crate) fn preface(&mut self) -> Result<Option<Preface>, Violation> {
        let front = self.front(self.len.min(Preface::MAX_LEN));
        let Some((preface, len)) = Preface::decode(&front)? else {
            return Ok(None);
        };
        self.skip(len);
        Ok(Some(preface))
    }

    /// The next complete frame, with its payload.
    pub(crate) fn frame(
        &mut self,
        digest: DigestKind,
    ) -> Result<Option<(Frame, Vec<Bytes>)>, Violation> {
        let mut head = [0; HEADER_LEN];
        if !self.peek(&mut head) {
            return Ok(None);
        }
        let header = Header::decode(head)?;
        if self.len < HEADER_LEN + header.len {
            return Ok(None);
        }
        self.skip(HEADER_LEN);
        let body = self.take(header.len);
        let [kind, a, b, c, ..] = head;
        if crc32c(
            [[kind, a, b, c].as_slice()]
                .into_iter()
                .chain(slices(&body)),
        ) != header.crc
        {
            return Err(Violation::Checksum {
                kind: header.kind.name(),
            });
        }
        read(header.kind, body, digest).map(Some)
    }

    /// A copy of the first `len` bytes.
    fn front(&self, len: usize) -> Vec<u8> {
        self.pieces
            .iter()
            .flat_map(|piece| piece.bytes.iter().copied())
            .take(len)
            .collect()
    }

    fn peek(&self, out: &mut [u8]) -> bool {
        if self.len < out.len() {
            return false;
        }
        let bytes = self.pieces.iter().flat_map(|piece| piece.bytes.iter());
        for (to, from) in out.iter_mut().zip(bytes) {
            *to = *from;
        }
        true
    }

    fn skip(&mut self, mut len: usize) {
        self.len = self.len.saturating_sub(len);
        while len > 0
            && let Some(piece) = self.pieces.front_mut()
        {
            let step = len.min(piece.bytes.len());
            piece.bytes.advance(step);
            len -= step;
            if piece.bytes.is_empty() {
                self.pieces.pop_front();
            }
        }
    }

    /// The next `len` bytes.
    fn take(&mut self, mut len: usize) -> Vec<Bytes> {
        let mut taken = Vec::new();
        self.len = self.len.saturating_sub(len);
        while len > 0
            && let Some(piece) = self.pieces.front_mut()
        {
            let part = piece.bytes.split_to(len.min(piece.bytes.len()));
            len -= part.len();
            taken.push(if part.len() * MAX_RETENTION < piece.buffer {
                Bytes::copy_from_slice(&part)
            } else {
                part
            });
            if piece.bytes.is_empty() {
                self.pieces.pop_front();
            }
        }
        taken
    }
}

/// Reads a body in pieces: the front as one slice, the payload as it lies.
fn read(
    kind: Kind,
    mut body: Vec<Bytes>,
    digest: DigestKind,
) -> Result<(Frame, Vec<Bytes>), Violation> {
    if kind == Kind::Padding {
        return Ok((Frame::Padding, Vec::new()));
    }
    let front_len = match kind.carries_chunk() {
        true if kind == Kind::Data => DATA_HEAD_LEN,
        true => OPEN_HEAD_LEN,
        false => usize::MAX,
    };
    let (frame, used) = match body.first() {
        Some(first) if body.len() == 1 || first.len() >= front_len => {
            Frame::decode(kind, first, digest)?
        }
        _ => {
            let front: Vec<u8> = slices(&body).flatten().copied().take(front_len).collect();
            Frame::decode(kind, &front, digest)?
        }
    };
    let mut skip = used;
    body.retain_mut(|piece| {
        let step = skip.min(piece.len());
        piece.advance(step);
        skip -= step;
        !piece.is_empty()
    });
    Ok((frame, body))
}
